"""Attention of 8-bit numbers: tensor cores of Hopper and threads elsewhere, with factors, against float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.kernels import attention, mla_decode
from flydsl.kernels.attention import calls, entry
from flydsl.kernels.attention.plan import tile_for, tile_for_few
from flydsl.kernels.attention.tile import Form, Tile, problem
from flydsl.kernels.attention.values import key_at

from .oracle import compare, oracle, random

FP8 = torch.float8_e4m3fn
Shape = tuple[int, ...]


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, emulate):
    emulate("sm_90a")

    def tile(d: int, dv: int, form: Form, queries: int, size: int) -> Tile:
        # As many keys as no vector of a machine has elements.
        if form.left or form.packed_q:
            return Tile(d, dv, 96 if form.right else 32, 2, size=size, lazy=not form.right, early=True)
        return Tile(d, dv, 96 if form.right else 32, 3, 2, False, size, apart=True, ones=True)

    monkeypatch.setattr(calls, "tile_for", tile)
    monkeypatch.setattr(calls, "tile_for_few", lambda d, dv, page, size: Tile(d, dv, 32, 1, 2, False, size, apart=True))
    entry.forget()
    yield
    entry.forget()


def bytes_of(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    return random(rng, *shape, dtype=torch.float32).to(FP8)


def three(rng: np.random.Generator, q: Shape, k: Shape, v: Shape) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    made = [torch.from_numpy(rng.random(s, np.float32)) + 0.5 for s in (q, k, v)]
    return made[0], made[1], made[2]


def grown(x: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """(batch, rows, heads, d) times (batch, heads), each for the heads that share it."""
    factors = factors.reshape(-1, factors.shape[-1] if factors.ndim else 1)
    return x.float() * factors.repeat_interleave(x.shape[2] // factors.shape[1], 1)[:, None, :, None]


def near(found, q, k, v, **more) -> None:
    """Weights have four digits of base 2: a bound for every element by what was added, and the norm of all errors."""
    out, lse = found
    want, want_lse, size = oracle(q, k, v, **more)
    assert not torch.isnan(out).any()
    assert (out.double() - want).abs().le(2.0**-4 * size + 2.0**-8 * want.abs() + 1e-5).all()
    # Rounding takes 0.027 of a weight on average; short sequences are far from that at times.
    assert (out.double() - want).norm() <= 0.045 * want.norm()
    # Hopper's tensor cores keep 14 bits of the scores.
    torch.testing.assert_close(lse.double(), want_lse, rtol=2.0**-13, atol=2e-3)


@pytest.mark.parametrize("more", [{"causal": True, "softcap": 2.0}, {"window": (40, 7)}])
def test_on_tensor_cores(more, rng: np.random.Generator, small):
    q, k, v = bytes_of(rng, 2, 70, 4, 64), bytes_of(rng, 2, 105, 2, 64), bytes_of(rng, 2, 105, 2, 48)
    shapes = ((2, 4), (2, 2), (1, 2)) if "causal" in more else ((2, 2), (2, 1), (1,))
    factors = three(rng, *shapes)
    sinks = random(rng, 4, dtype=torch.float32) if "window" in more else None
    found = attention(q, k, v, descale=factors, return_lse=True, sinks=sinks, **more)
    near(found, *(grown(x, f) for x, f in zip((q, k, v), factors, strict=True)), sinks=sinks, **more)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("causal", [False, True])
def test_sums_of_ones(
    sign: int, causal: bool, rng: np.random.Generator, small, monkeypatch: pytest.MonkeyPatch
):  # fmt: skip
    """Without a result for them, sums of weights are products; scores may be negative all of them."""
    monkeypatch.setattr(calls, "splits_for", lambda *numbers: 1)
    monkeypatch.setattr(calls, "parts_for", lambda *numbers: 1)
    q, k, v = bytes_of(rng, 1, 200, 2, 32), bytes_of(rng, 1, 300, 1, 32), bytes_of(rng, 1, 300, 1, 80)
    q, k = q.float().abs().to(FP8), (sign * k.float().abs()).to(FP8)
    out = attention(q, k, v, causal=causal)
    assert isinstance(out, torch.Tensor)
    want, _, size = oracle(q.float(), k.float(), v.float(), causal=causal)
    assert (out.double() - want).abs().le(2.0**-4 * size + 2.0**-8 * want.abs() + 1e-5).all()
    assert (out.double() - want).norm() <= 0.04 * want.norm(), "rounding has no direction"
    # What is lost by rounding is missing in both sums: the mean of values stays.
    ones = torch.ones(1, 300, 1, 80).to(FP8)
    torch.testing.assert_close(
        attention(q, k, ones, causal=causal), torch.ones(1, 200, 2, 80).bfloat16(), rtol=0, atol=0
    )


@pytest.mark.parametrize("page", [0, 8])
def test_lengths_and_pages(page: int, rng: np.random.Generator, small):
    """What lies behind a sequence is not seen, not even if it is none."""
    lengths = [70, 0, 37]
    used = torch.tensor(lengths, dtype=torch.int32)
    q = bytes_of(rng, 3, 1 if page else 5, 4, 32)
    k, v = (torch.full((3, 72, 2, 32), float("nan")).to(FP8) for _ in range(2))
    for b, length in enumerate(lengths):
        k[b, :length], v[b, :length] = bytes_of(rng, length, 2, 32), bytes_of(rng, length, 2, 32)
    if page:
        order = torch.from_numpy(rng.permutation(27))
        table = order.argsort().to(torch.int32).reshape(3, 9)
        paged = [x.reshape(27, page, 2, 32)[order].contiguous() for x in (k, v)]
        out, lse = attention(q, *paged, block_table=table, seqlens_k=used, return_lse=True)
    else:
        out, lse = attention(q, k, v, seqlens_k=used, return_lse=True)
    assert not out[1].any() and torch.isneginf(lse[1]).all()
    for b in (0, 2):
        some = slice(b, b + 1)
        near((out[some], lse[some]), q[some].float(), k[some, : lengths[b]].float(), v[some, : lengths[b]].float())


def test_packed(rng: np.random.Generator, small):
    starts = torch.tensor([0, 50, 50, 125], dtype=torch.int32)
    q, k, v = (bytes_of(rng, 125, 2, 32) for _ in range(3))
    out, lse = attention(q, k, v, causal=True, cu_seqlens_q=starts, cu_seqlens_k=starts, return_lse=True)
    for some in (slice(0, 50), slice(50, 125)):
        near((out[None, some], lse[None, :, some]), *(x[None, some].float() for x in (q, k, v)), causal=True)


def test_sums_of_steps_are_apart():
    """Tensor cores keep 14 bits: 65536 equal values had a mean of half of what they are."""
    for d in (32, 64, 128):
        for queries, consumers in ((64, 1), (128, 2), (192, 3), (256, 2), (1024, 3), (4096, 3)):
            tile = tile_for(d, d, Form(), queries, 1)
            assert (tile.consumers, tile.apart, tile.ones) == (consumers, True, True)
            assert not tile.without_ones.ones and tile.without_ones.apart
            assert tile_for(d, d, Form(dropout=True), queries, 1)[3] == min(consumers, 1 if queries <= 64 else 2)
        assert tile_for_few(d, d, 0, 1).apart and not tile_for_few(d, d, 0, 2).apart
    assert not tile_for(256, 256, Form(), 4096, 1).apart


def test_parts_of_columns():
    tile = Tile(64, 80, 32, 3, 2, False, 1, apart=True, ones=True)
    assert tile.parts == [(0, 64), (64, 24)] and tile.without_ones.parts == [(0, 64), (64, 16)]
    assert Tile(64, 80, 32).parts == [(0, 80)]
    # Results behind the values lie where a swizzle begins.
    assert tile.room % 1024 == 0 and tile.room >= 2 * 32 * 88


@pytest.mark.parametrize(
    ("tile", "words"),
    [
        (Tile(64, 64, 32, size=1, apart=True), "no turns"),
        (Tile(64, 64, 32, pingpong=False, size=1, early=True, apart=True), "no early waits"),
        (Tile(64, 64, 32, pingpong=False, size=1, lazy=True, apart=True), "rescaled always"),
        (Tile(64, 64, 32, pingpong=False, size=1, ones=True), "steps are apart"),
        (Tile(64, 64, 32, pingpong=False, size=2, apart=True, ones=True), "ones are for bytes"),
    ],
)
def test_tiles_that_are_none(tile: Tile, words: str):
    assert words in (problem(tile) or "")


def test_factors_of_heads_by_threads(rng: np.random.Generator, emulate):
    emulate("gfx942")
    q, k, v = bytes_of(rng, 2, 9, 4, 16), bytes_of(rng, 2, 20, 2, 16), bytes_of(rng, 2, 20, 2, 16)
    factors = three(rng, (2, 4), (2, 2), (1, 2))
    found = attention(q, k, v, descale=factors, return_lse=True)
    compare(found, *(grown(x, f) for x, f in zip((q, k, v), factors, strict=True)))


def test_a_factor_without_dimensions(rng: np.random.Generator, emulate):
    """As `x.abs().max()` gives it."""
    emulate("native")
    q, k, v = bytes_of(rng, 1, 2, 2, 16), bytes_of(rng, 1, 5, 1, 16), bytes_of(rng, 1, 5, 1, 16)
    factors = three(rng, (), (), ())
    found = attention(q, k, v, descale=factors, return_lse=True)
    compare(found, *(grown(x, f) for x, f in zip((q, k, v), factors, strict=True)))
    latent, factor = bytes_of(rng, 1, 5, 32), torch.tensor(0.75)
    queries = random(rng, 1, 1, 2, 32)
    one, same = (mla_decode(queries, latent, dv=32, descale=x) for x in (factor, factor.reshape(1)))
    assert torch.equal(one, same)


def test_places_are_a_permutation():
    assert sorted(map(key_at, range(16))) == list(range(16))
    # A register of the operand: two keys of one group of eight, two of the next.
    assert [key_at(i) for i in range(4, 8)] == [2, 3, 10, 11]
