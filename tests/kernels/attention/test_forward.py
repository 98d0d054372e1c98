"""`attention` against float64: every stack, mask, length and layout, in checked mode."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from flydsl.kernels import attention
from flydsl.kernels.attention import calls, entry
from flydsl.kernels.attention.amd import calls as amd_calls
from flydsl.kernels.attention.amd.tile import Tile as AmdTile
from flydsl.kernels.attention.plan import splits_for, tile_for, tile_for_few
from flydsl.kernels.attention.tile import Form, Tile, problem

from .oracle import compare, oracle, random


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, emulate):
    """Hopper's kernel, and AMD's, in tiles of few keys: as many cases, in less code."""
    emulate("sm_90a")

    def tile(d: int, dv: int, form: Form, queries: int, size: int) -> Tile:
        return Tile(d, dv, 32, 2, size=size, lazy=form.right, early=form.right or form.softcap)

    monkeypatch.setattr(calls, "tile_for", tile)
    monkeypatch.setattr(
        calls, "tile_for_few", lambda d, dv, page, size: Tile(d, dv, 16 if page and size == 2 else 32, 1, size=size)
    )
    monkeypatch.setattr(amd_calls, "tile_for", lambda machine, d, dv, queries, shared: AmdTile(d, dv, 32, 16, 2))
    entry.forget()
    yield
    entry.forget()


def arrays(rng: np.random.Generator, b: int, s: int, sk: int, h: int, hk: int, d: int, dv: int, dtype=torch.bfloat16):
    return random(rng, b, s, h, d, dtype=dtype), *(random(rng, b, sk, hk, x, dtype=dtype) for x in (d, dv))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80", "gfx942", "gfx1100", "gfx1201", "native"])
def test_every_stack(arch: str, rng: np.random.Generator, small, emulate):
    emulate(arch)
    shapes = [((2, 21, 37, 4, 2, 32, 32), True)]
    if arch in ("sm_90a", "gfx942", "native"):
        shapes.append(((1, 1, 1, 1, 1, 32, 32), True))
    for shape, causal in shapes:
        q, k, v = arrays(rng, *shape)
        compare(attention(q, k, v, causal=causal, return_lse=True), q, k, v, causal=causal)


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ((1, 140, 90, 2, 1, 32, 32), {"causal": True}),
        ((1, 70, 90, 2, 2, 32, 32), {"window": (25, 9)}),
        ((1, 70, 40, 2, 1, 96, 64), {"softcap": 3.0, "scale": 0.3}),
    ],
)
def test_hopper(shape, more, rng: np.random.Generator, small):
    q, k, v = arrays(rng, *shape, dtype=torch.float16)
    sinks = random(rng, shape[3], dtype=torch.float32) if "window" in more else None
    compare(attention(q, k, v, return_lse=True, sinks=sinks, **more), q, k, v, sinks=sinks, **more)


def test_hopper_as_it_is(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    q, k, v = arrays(rng, 1, 70, 333, 2, 2, 128, 128)
    compare(attention(q, k, v, return_lse=True), q, k, v)


def test_layouts(rng: np.random.Generator, small):
    q, k, v = arrays(rng, 2, 30, 40, 2, 2, 32, 32)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    out = torch.full((2, 2, 30, 32), float("nan"), dtype=q.dtype).transpose(1, 2)
    again, lse = attention(*turned, out=out, return_lse=True)
    assert again is out
    compare((out, lse), q, k, v)
    # Every second element: no copy engine reads that.
    wide = [torch.stack([x, x * float("nan")], -1).flatten(-2)[..., ::2] for x in (q, k, v)]
    compare(attention(*wide, return_lse=True), q, k, v)


def test_scores_are_changed(rng: np.random.Generator, emulate):
    emulate("native")
    q, k, v = arrays(rng, 2, 5, 19, 4, 2, 16, 8, dtype=torch.float32)
    bias, alibi = random(rng, 4, 5, 19, dtype=torch.float32), random(rng, 2, 4, dtype=torch.float32).abs()
    sinks = random(rng, 4, dtype=torch.float32)
    more = {"bias": bias, "alibi": alibi, "sinks": sinks, "window": (3, 2), "softcap": 2.0, "scale": -0.7}
    compare(attention(q, k, v, return_lse=True, **more), q, k, v, **more)


def test_fp8_with_factors(rng: np.random.Generator, emulate):
    emulate("native")
    q, k, v = (x.to(torch.float8_e4m3fn) for x in arrays(rng, 1, 9, 20, 2, 1, 32, 32, dtype=torch.float32))
    factors = [torch.tensor([x], dtype=torch.float32) for x in (0.5, 2.0, 0.25)]
    out, lse = attention(q, k, v, descale=(factors[0], factors[1], factors[2]), return_lse=True)
    assert out.dtype == torch.bfloat16
    compare((out, lse), *(x.float() * f for x, f in zip((q, k, v), factors, strict=True)))


def test_numpy(rng: np.random.Generator, emulate):
    emulate("native")
    q, k, v = (x.numpy() for x in arrays(rng, 1, 3, 7, 2, 2, 8, 8, dtype=torch.float32))
    out, lse = attention(q, k, v, causal=True, return_lse=True)
    assert isinstance(out, np.ndarray)
    compare(tuple(map(torch.from_numpy, (out, lse))), *map(torch.from_numpy, (q, k, v)), causal=True)


@pytest.mark.parametrize("arch", ["sm_90a", "native"])
def test_packed_sequences(arch: str, rng: np.random.Generator, small, emulate):
    """Neighbours in memory are not seen, not even if they are NaN."""
    emulate(arch)
    lengths_q, lengths_k = [70, 0, 3], [50, 5, 70]
    starts_q, starts_k = (torch.tensor([0, *np.cumsum(x)], dtype=torch.int32) for x in (lengths_q, lengths_k))
    q, k, v = random(rng, 73, 2, 32), random(rng, 125, 1, 32), random(rng, 125, 1, 32)
    more = {"causal": True, "cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
    out, lse = attention(q, k, v, return_lse=True, **more)
    for b in (0, 2):
        of_q, of_k = (slice(x[b].item(), x[b + 1].item()) for x in (starts_q, starts_k))
        compare((out[None, of_q], lse[None, :, of_q]), q[None, of_q], k[None, of_k], v[None, of_k], causal=True)
    v[55:] = float("nan")
    assert torch.equal(attention(q, k, v, **more)[:70], out[:70])


@pytest.mark.parametrize(
    ("arch", "page", "queries"),
    [("sm_90a", 1, 1), ("sm_90a", 16, 1), ("sm_90a", 32, 2), ("sm_90a", 48, 2), ("native", 5, 2)],
)
def test_pages(arch: str, page: int, queries: int, rng: np.random.Generator, small, emulate):
    """On Hopper threads bring what is in small pages, and in those that steps do not divide; else the copy engine."""
    emulate(arch)
    lengths = [100, 0, 37]
    width = -(-max(lengths) // page)
    table = torch.from_numpy(rng.permutation(3 * width + 2)[: 3 * width].reshape(3, width).astype("i4"))
    k, v = (torch.full((3 * width + 2, page, 2, 32), float("nan"), dtype=torch.bfloat16) for _ in range(2))
    q = random(rng, 3, queries, 4, 32)
    dense = []
    for b, length in enumerate(lengths):
        pair = random(rng, 1, length, 2, 32), random(rng, 1, length, 2, 32)
        dense.append(pair)
        for i in range(length):
            k[table[b, i // page], i % page], v[table[b, i // page], i % page] = pair[0][0, i], pair[1][0, i]
    used = torch.tensor(lengths, dtype=torch.int32)
    out, lse = attention(q, k, v, causal=True, block_table=table, seqlens_k=used, return_lse=True)
    for b in range(3):
        compare((out[b : b + 1], lse[b : b + 1]), q[b : b + 1], *dense[b], causal=True)


def test_decoding_in_parts(rng: np.random.Generator, small):
    """One query: keys are split among blocks, and the heads that share them are rows."""
    q, k, v = arrays(rng, 2, 1, 300, 4, 2, 32, 32)
    assert splits_for(4, 10, 132) > 1
    compare(attention(q, k, v, causal=True, return_lse=True), q, k, v)
    sinks = random(rng, 4, dtype=torch.float32)
    compare(attention(q, k, v, sinks=sinks, return_lse=True), q, k, v, sinks=sinks)


def test_same_arguments_are_served_warm(rng: np.random.Generator, small, monkeypatch: pytest.MonkeyPatch):
    """The tile is a constant that is looked up, not analysed: a call costs microseconds."""
    from flydsl.compiler.jit_function import JitFunction

    q, k, v = arrays(rng, 2, 30, 40, 2, 2, 32, 32)
    for _ in range(2):
        attention(q, k, v)
    # Another tile that is equal is learned in its place, and not analysed for ever.
    equal = Tile(32, 32, 32, 1)
    monkeypatch.setattr(calls, "tile_for_few", lambda d, dv, page, size: equal)
    entry.forget()
    for _ in range(2):
        attention(q, k, v)
    monkeypatch.setattr(JitFunction, "_cold_call", None)
    torch.testing.assert_close(attention(q, k, v).double(), oracle(q, k, v)[0], rtol=0.02, atol=0.02)


def test_nothing_to_attend_to(small):
    q = torch.ones(2, 3, 2, 64, dtype=torch.bfloat16)
    out, lse = attention(q, q[:, :0], q[:, :0], return_lse=True)
    assert torch.equal(out, torch.zeros_like(q)) and torch.isneginf(lse).all()
    assert attention(q[:, :0], q, q).shape == (2, 0, 2, 64)
    assert attention(q[:0], q[:0], q[:0]).shape == (0, 3, 2, 64)
    out = torch.empty(1).as_strided((2, 0, 2, 64), (0, 0, 0, 0)).bfloat16().as_strided((2, 0, 2, 64), (0, 0, 0, 0))
    assert attention(q[:, :0], q, q, out=out) is out


@pytest.mark.parametrize("arch", ["native", "sm_80", "sm_90a", "gfx942"])
def test_sinks_that_are_none(arch: str, rng: np.random.Generator, small, emulate):
    """A sink of minus infinity is none: a row that sees nothing has no sum at all then, else the sink alone."""
    emulate(arch)
    q, k, v = arrays(rng, 2, 3, 2, 2, 1, 32, 32)
    sinks, used = torch.tensor([-math.inf, 0.5]), torch.tensor([2, 0], dtype=torch.int32)
    out, lse = attention(q, k, v, causal=True, sinks=sinks, seqlens_k=used, return_lse=True)
    compare((out[:1], lse[:1]), q[:1], k[:1], v[:1], causal=True, sinks=sinks)
    assert torch.equal(out[1], torch.zeros_like(out[1]))
    assert torch.isneginf(lse[:, 0].masked_fill(torch.tensor([[False, True, True], [False] * 3]), -math.inf)).all()
    torch.testing.assert_close(lse[1, 1], torch.full((3,), 0.5))


@pytest.mark.parametrize("repeats", [1, 3])
def test_rows_of_no_sequence(repeats: int, rng: np.random.Generator, emulate):
    """Behind the last packed sequence: they attend to nothing, also in calls like one before."""
    emulate("native")
    q, starts = random(rng, 9, 1, 8, dtype=torch.float32), torch.tensor([0, 2, 6], dtype=torch.int32)
    for _ in range(repeats):
        out = torch.full_like(q, math.nan)
        found, lse = attention(q, q, q, cu_seqlens_q=starts, cu_seqlens_k=starts, out=out, return_lse=True)
    assert torch.equal(found[6:], torch.zeros(3, 1, 8)) and torch.isneginf(lse[:, 6:]).all()
    assert not torch.isnan(found).any() and torch.isfinite(lse[:, :6]).all()
    plain = attention(q.numpy(), q.numpy(), q.numpy(), cu_seqlens_q=starts.numpy(), cu_seqlens_k=starts.numpy())
    assert np.array_equal(plain, found.numpy())


def test_every_tile_can_be_built():
    for d in (16, 64, 96, 128, 192, 256):
        for dv in (d, min(d, 128)):
            for form in (Form(), Form(right=True), Form(softcap=True)):
                for queries in (1, 100, 5000):
                    assert problem(tile_for(d, dv, form, queries)) is None
                    assert d % 32 or problem(tile_for(d, dv, form, queries, 1)) is None
            for page in (0, 1, 16, 48, 64, 256):
                assert problem(tile_for_few(d, dv, page)) is None
                assert d % 32 or problem(tile_for_few(d, dv, page, 1)) is None
