"""`mla_decode` against float64: every stack, pages, lengths, parts, in checked mode."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import mla_decode
from flydsl.kernels.attention.latent import entry as latent_entry
from flydsl.kernels.attention.latent import hopper as latent_hopper
from flydsl.kernels.attention.latent.form import Latent, problem
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx

from .oracle import compare, random


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, emulate):
    """Hopper's kernel in steps of few keys."""
    emulate("sm_90a")
    monkeypatch.setattr(
        latent_entry,
        "form_for",
        lambda d, dv, rows, page, causal, used, split, raw, each: Latent(
            d, dv, 32, 2, min(page, 32), causal, used, split, 2 if raw else 0, each
        ),
    )
    latent_entry._decided.clear()
    yield
    latent_entry._decided.clear()


def near(found, q: torch.Tensor, kv: torch.Tensor, dv: int, **more) -> None:
    keys = kv[:, :, None]
    compare(found, q, keys, keys[..., :dv], **more)


@pytest.mark.parametrize("arch", ["sm_90a", "gfx942", "native"])
def test_every_stack(arch: str, rng: np.random.Generator, small, emulate):
    """Several queries, the last of which sees all keys; rows that end inside a block."""
    emulate(arch)
    q, kv = random(rng, 2, 3, 5, 192), random(rng, 2, 70, 192)
    near(mla_decode(q, kv, dv=128, causal=True, scale=0.1, return_lse=True), q, kv, 128, causal=True, scale=0.1)


def test_matrix_instructions_of_amd(rng: np.random.Generator, emulate):
    """Two blocks have half of the values' columns each; rows that end inside a block, parts of the keys."""
    emulate("gfx942")
    q, kv = random(rng, 2, 2, 5, 320), random(rng, 2, 75, 320)
    whole = torch.full((2, 2, 5, 336), float("nan"), dtype=torch.bfloat16)
    out, lse = mla_decode(q, kv, dv=320, out=whole[..., :320], return_lse=True)
    near((out, lse), q, kv, 320)
    assert whole[..., 320:].isnan().all()


def test_as_it_is(rng: np.random.Generator, emulate):
    """576 and 512, in parts, with the form that is chosen."""
    emulate("sm_90a")
    q, kv = random(rng, 1, 1, 16, 576), random(rng, 1, 200, 576)
    out = torch.full((1, 1, 16, 512), float("nan"), dtype=torch.bfloat16)
    again, lse = mla_decode(q, kv[:, :, None], out=out, return_lse=True)
    assert again is out
    near((out, lse), q, kv, 512)


@pytest.mark.parametrize(("arch", "page"), [("sm_90a", 4), ("sm_90a", 64), ("gfx950", 4), ("native", 5)])
def test_pages(arch: str, page: int, rng: np.random.Generator, small, emulate):
    """What lies behind a sequence is not seen, not even if it is NaN."""
    emulate(arch)
    lengths = [100, 0, 37]
    width = -(-max(lengths) // page)
    table = torch.from_numpy(rng.permutation(3 * width + 2)[: 3 * width].reshape(3, width).astype("i4"))
    pages = torch.full((3 * width + 2, page, 192), float("nan"), dtype=torch.bfloat16)
    q = random(rng, 3, 1, 70 if page == 4 else 6, 192)
    dense = [random(rng, 1, length, 192) for length in lengths]
    for b, rows in enumerate(dense):
        for i in range(lengths[b]):
            pages[table[b, i // page], i % page] = rows[0, i]
    used = torch.tensor(lengths, dtype=torch.int32)
    out, lse = mla_decode(q, pages, dv=128, block_table=table, seqlens_k=used, return_lse=True)
    for b in range(3):
        near((out[b : b + 1], lse[b : b + 1]), q[b : b + 1], dense[b], 128)


def bytes_of(rng: np.random.Generator, *shape: int, dtype=torch.float8_e4m3fn) -> torch.Tensor:
    return random(rng, *shape).to(dtype)


@pytest.mark.parametrize(
    ("arch", "dtype", "kind"),
    [
        ("sm_90a", torch.bfloat16, torch.float8_e4m3fn),
        ("sm_90a", torch.float16, torch.float8_e5m2),
        ("native", torch.float16, torch.float8_e5m2),
    ],
)
def test_keys_of_one_byte(arch: str, dtype, kind, rng: np.random.Generator, small, emulate):
    """A factor for each sequence; more steps than stages of bytes."""
    emulate(arch)
    q, kv = random(rng, 2, 3, 5, 192, dtype=dtype), bytes_of(rng, 2, 170, 192, dtype=kind)
    factors = torch.from_numpy(rng.uniform(0.3, 3.0, 2)).float()
    found = mla_decode(q, kv, dv=128, causal=True, scale=0.1, descale=factors, return_lse=True)
    near(found, q, kv.double() * factors.double().reshape(2, 1, 1), 128, causal=True, scale=0.1)


@pytest.mark.parametrize(
    ("arch", "page"), [("sm_90a", 4), pytest.param("sm_90a", 64, marks=pytest.mark.slow), ("native", 5)]
)
def test_pages_of_bytes(arch: str, page: int, rng: np.random.Generator, small, emulate):
    """What lies behind a sequence is not seen, not even if it is NaN."""
    emulate(arch)
    lengths = [100, 0, 37]
    width = -(-max(lengths) // page)
    table = torch.from_numpy(rng.permutation(3 * width + 2)[: 3 * width].reshape(3, width).astype("i4"))
    pages = torch.full((3 * width + 2, page, 192), 0x7F, dtype=torch.uint8)
    q, dense = random(rng, 3, 1, 6, 192), [bytes_of(rng, 1, length, 192) for length in lengths]
    for b, rows in enumerate(dense):
        for i in range(lengths[b]):
            pages[table[b, i // page], i % page] = rows[0, i].view(torch.uint8)
    used, factor = torch.tensor(lengths, dtype=torch.int32), torch.tensor([0.75])
    kv = pages.view(torch.float8_e4m3fn)
    out, lse = mla_decode(q, kv, dv=128, block_table=table, seqlens_k=used, descale=factor, return_lse=True)
    for b in range(3):
        near((out[b : b + 1], lse[b : b + 1]), q[b : b + 1], dense[b].double() * 0.75, 128)


@pytest.mark.parametrize("power", [-24, 20])
def test_queries_of_any_size_with_keys_of_one_byte(power: int, rng: np.random.Generator, small):
    """Their products are of f16, which has less exponents than bf16: a power of two for all of a block's rows.

    A row that is not finite is so alone.
    """
    q, kv = random(rng, 1, 1, 6, 192) * 2.0**power, bytes_of(rng, 1, 70, 192)
    q[0, 0, 4] *= 2.0**-6
    q[0, 0, 2, 7], q[0, 0, 3, 9] = float("inf"), float("nan")
    scale = 192**-0.5 * 2.0**-power
    out, lse = mla_decode(q, kv, dv=128, scale=scale, return_lse=True)
    assert out[0, 0, 2:4].isnan().all()
    rest = [0, 1, 4, 5]
    near((out[:, :, rest], lse[:, rest]), q[:, :, rest], kv.double(), 128, scale=scale)


@pytest.mark.parametrize(
    ("dv", "n", "raw"), [(512, 64, 2), (512, 32, 0), pytest.param(384, 64, 0, marks=pytest.mark.slow)]
)
def test_queries_in_registers(dv: int, n: int, raw: int, rng: np.random.Generator, emulate, monkeypatch):
    """Values of more than 384 columns are two parts for the second consumer. Queries come to registers through the
    last stage of keys, or are in front of it where they have no room there."""
    emulate("sm_90a")
    given = Latent(576, dv, n, 2, used_k=True, raw=raw, held=24)
    assert (given.lent, given.parts) == (6 if n == 64 else 0, 2 if dv == 512 else 1)
    monkeypatch.setattr(latent_entry, "form_for", lambda *_: given)
    monkeypatch.setattr(latent_entry, "splits_for", lambda *_: 1)
    latent_entry._decided.clear()
    q, kv = random(rng, 2, 1, 16, 576), random(rng, 2, 200, 576)
    kv = kv.to(torch.float8_e4m3fn) if raw else kv
    used = torch.tensor([177, 0], dtype=torch.int32)
    out, lse = mla_decode(q, kv, dv=dv, seqlens_k=used, return_lse=True)
    latent_entry._decided.clear()
    near((out[:1], lse[:1]), q[:1], kv[:1, :177].double(), dv)
    assert not out[1].any() and torch.isneginf(lse[1]).all()


@pytest.mark.slow
def test_bytes_as_they_are(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    q, kv = random(rng, 1, 1, 16, 576), bytes_of(rng, 1, 200, 576)
    near(mla_decode(q, kv, return_lse=True), q, kv.double(), 512)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("used", [False, True])
def test_nothing_spills(raw: bool, used: bool, emulate, monkeypatch: pytest.MonkeyPatch):
    """Nor are products serialized: what they take and give stays where they left it."""
    if tools.try_find_tool("ptxas") is None:
        pytest.skip("no ptxas on this machine")
    emulate("sm_90a")
    launch, calls = latent_hopper.hopper_latent, []
    monkeypatch.setattr(latent_hopper, "hopper_latent", lambda *args: calls.append(args))
    latent_entry._decided.clear()
    q, kv = (torch.zeros(132, x, 576, dtype=torch.bfloat16) for x in (16, 64))
    lengths = torch.full((132,), 60, dtype=torch.int32) if used else None
    mla_decode(q[:, None], kv.to(torch.float8_e4m3fn) if raw else kv, seqlens_k=lengths)
    latent_entry._decided.clear()
    assert calls[0][-1].held == 24
    text = flyc.compile(launch, *calls[0], target="cuda:sm_90a").artifact.binary("ptx").decode()
    _, log = ptx.assemble(text, "sm_90a")
    assert "serialized" not in log
    (kernel,) = ptx.parse_log(log).values()
    assert kernel.spill_stores == 0, kernel


def test_strides_and_numpy(rng: np.random.Generator, emulate):
    emulate("native")
    q, kv = random(rng, 2, 2, 3, 64, dtype=torch.float32), random(rng, 2, 9, 64, dtype=torch.float32)
    turned = q.transpose(1, 2).contiguous().transpose(1, 2)
    near(mla_decode(turned, kv, dv=32, return_lse=True), q, kv, 32)
    out, lse = mla_decode(q.numpy(), kv.numpy(), dv=32, return_lse=True)
    near((torch.from_numpy(out), torch.from_numpy(np.ascontiguousarray(lse))), q, kv, 32)
    out, lse = mla_decode(q, kv[:, :0], dv=32, return_lse=True)
    assert not out.any() and torch.isneginf(lse).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dv": 0}, "dv is how many"),
        ({"dv": 65}, "dv is how many"),
        ({"dv": 48}, "multiples of 32"),
        ({"kv": torch.zeros(2, 9, 2, 64)}, "kv is"),
        ({"kv": torch.zeros(2, 9, 32)}, "32"),
        ({"kv": torch.zeros(3, 9, 64)}, "number of sequences"),
        ({"kv": torch.zeros(2, 9, 64, dtype=torch.float16)}, "both"),
        ({"q": torch.zeros(2, 1, 4, 64).to(torch.float8_e4m3fn)}, "both"),
        ({"descale": torch.ones(1)}, "descale goes with kv of fp8"),
        ({"kv": torch.zeros(2, 9, 64).to(torch.float8_e4m3fn), "descale": torch.ones(3)}, "descale of kv"),
        ({"seqlens_k": torch.tensor([3, 10], dtype=torch.int32)}, "room for 9"),
        ({"out": torch.zeros(2, 1, 4, 32, dtype=torch.float16)}, "out is"),
    ],
)
def test_refusals(change, text: str, emulate):
    emulate("native")
    given = {"q": torch.zeros(2, 1, 4, 64), "kv": torch.zeros(2, 9, 64), "dv": 32, **change}
    with pytest.raises((DSLTypeError, DSLValueError), match=text):
        mla_decode(given.pop("q"), given.pop("kv"), **given)


@pytest.mark.parametrize(("d", "dv"), [(576, 512), (192, 128), (320, 256), (448, 384)])
@pytest.mark.parametrize("raw", [False, True])
def test_forms_that_are_chosen(d: int, dv: int, raw: bool):
    """There is one for pages of 32 rows or their multiples or divisors; queries are in registers if values are wide."""
    for page in (0, 1, 16, 32, 64, 96, 128, 160):
        for rows in (16, 128):
            form = latent_entry.form_for(d, dv, rows, page, False, True, False, raw, False)
            assert problem(form) is None and latent_entry.fits(form, page), form
            assert bool(form.held) == (dv > 128) and bool(form.raw) == raw
    assert not latent_entry.fits(latent_entry.form_for(d, dv, 16, 48, False, True, False, raw, False), 48)


def test_what_can_be_built():
    assert problem(Latent(576, 512)) is None
    assert problem(Latent(576, 512, stages=3)) is not None
    assert problem(Latent(576, 320)) is not None
    assert problem(Latent(520, 512)) is not None
    assert problem(Latent(576, 512, 32, 2, raw=4)) is None
    assert problem(Latent(576, 512, 64, 2, raw=2)) is not None
    assert problem(Latent(192, 128, 48, 2, raw=2)) is not None
    assert problem(Latent(576, 512, 64, 2, raw=2, held=24)) is None
    assert problem(Latent(576, 128, 32, 3, raw=2, held=24)) is not None


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_factor_for_each_sequence(batches: int, emulate):
    """However many sequences there are, none among them."""
    emulate("native")
    kv = torch.ones(batches, 3, 32).to(torch.float8_e4m3fn)
    factors = torch.arange(1.0, batches + 1)
    out = mla_decode(torch.zeros(batches, 1, 2, 32), kv, dv=32, descale=factors)
    torch.testing.assert_close(out, factors.reshape(-1, 1, 1, 1).expand(out.shape))
