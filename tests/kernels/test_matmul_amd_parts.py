"""Products for AMD GPUs in parts: groups of rows whose ends the device reads, and slices of K that are added up.

On the cpu stack emulating each architecture, in checked mode, element by element against float64.
"""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
import torch
from tests.kernels.matmul_checks import bound, decide_anew, matrix, poisoned

import flydsl.compiler as flyc
from flydsl.errors import DSLTypeError
from flydsl.kernels import grouped_matmul, matmul, moe, preshuffle_weight
from flydsl.kernels.matmul.amd.entry import amd_matmul
from flydsl.kernels.matmul.amd.plan import Given, best, form_for, tiles
from flydsl.target import GPUTarget

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
OCP = torch.float8_e4m3fn


@pytest.fixture
def emulate_checked(emulate, monkeypatch: pytest.MonkeyPatch):
    """An architecture in checked mode; whatever would multiply element by element fails."""

    def refuse(*_: object) -> None:
        pytest.fail("took the product without matrix instructions")

    def set_arch(arch: str) -> None:
        emulate(arch)
        monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
        monkeypatch.setattr(sys.modules["flydsl.kernels.matmul.calls"], "anywhere", refuse)
        monkeypatch.setattr(sys.modules["flydsl.kernels.matmul.grouped"], "_anywhere", refuse)

    return set_arch


def rows(rng: np.random.Generator, count: int, k: int, dtype: torch.dtype) -> torch.Tensor:
    """Beyond 240 eight bits of gfx942 have no number."""
    return matrix(rng, (1, count, k), "k", F32, "cpu").clamp(-240, 240).to(dtype)[0]


# --- groups -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arch", "dtype"), [("gfx950", OCP), ("gfx1100", F16), ("gfx1250", BF16)])
def test_groups_of_any_length(arch: str, dtype, emulate_checked, rng: np.random.Generator):
    """More groups than a wave has lanes, most of them empty, ends inside tiles, and rows that belong to none."""
    emulate_checked(arch)
    sizes = np.zeros(70, int)
    sizes[[0, 3, 4, 66, 69]] = 5, 33, 1, 40, 2
    n, k = 36, 9 * 16 // dtype.itemsize
    a = rows(rng, sizes.sum() + 3, k, dtype)
    b = torch.stack([rows(rng, n, k, dtype) for _ in sizes]).mT
    ends = np.cumsum(sizes)
    out, whole = poisoned((1, a.shape[0], n), F32, "cpu")
    grouped_matmul(a, b, torch.from_numpy(ends), out=out[0], out_dtype="float32")
    start = 0
    for group, end in enumerate(ends.tolist()):
        bound(out[0, start:end], a[start:end].float(), b[group].float())
        start = end
    assert out[0, start:].isnan().all() and whole[..., n:].isnan().all()


def test_wrong_ends_and_odd_rows(emulate_checked, rng: np.random.Generator):
    """Ends that fall or go too far; operands that are packed first; integers, which are exact."""
    emulate_checked("gfx942")
    a = torch.from_numpy(rng.integers(-128, 128, (40, 37), dtype=np.int8))
    b = torch.from_numpy(rng.integers(-128, 128, (4, 37, 21), dtype=np.int8))
    got = grouped_matmul(a, b, torch.tensor([30, 10, -5, 1000], dtype=torch.int32))
    wanted = torch.cat([a[:30].long() @ b[0].long(), a[30:].long() @ b[3].long()])
    assert (got.long() == wanted).all()


def test_layer_of_experts(emulate_checked, rng: np.random.Generator):
    """`moe`, whose products are those of groups."""
    emulate_checked("gfx942")
    tokens, depth, hidden, experts = 9, 32, 16, 5
    shapes = (tokens, depth), (tokens, experts), (experts, depth, 2 * hidden), (experts, hidden, depth)
    x, logits, w1, w2 = (torch.from_numpy(rng.standard_normal(s)).half() for s in shapes)
    got = moe(x, logits, w1, w2, 1).double()
    best_ = logits.double().argmax(1)
    for t, e in enumerate(best_.tolist()):
        g, u = (x[t].double() @ w1[e].double()).chunk(2)
        wanted = (g * g.sigmoid() * u) @ w2[e].double()
        size = (g.abs() * u.abs()) @ w2[e].double().abs()
        assert ((got[t] - wanted).abs() <= 2.0**-8 * (size + wanted.abs()) + 1e-2 * w2[e].double().abs().sum(0)).all()


# --- slices of K --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arch", "dtype"), [("gfx950", F16), ("gfx1201", OCP), ("gfx1250", F16)])
def test_slices_of_k(arch: str, dtype, emulate_checked, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Some slices and a shorter last one, batches, and what follows the sums: scales, a bias, an activation."""
    emulate_checked(arch)
    monkeypatch.setattr(sys.modules["flydsl.kernels.matmul.amd.plan"], "SLICES", (6,))
    best.cache_clear()
    batches, m, n, k = 2, 5, 37, (6 * 1024 + 16) // dtype.itemsize
    a = torch.stack([rows(rng, m, k, dtype) for _ in range(batches)])
    b = torch.stack([rows(rng, n, k, dtype) for _ in range(batches)]).mT
    scale, bias = torch.rand(n) + 0.5, torch.from_numpy(rng.standard_normal(n)).float()
    out, whole = poisoned((batches, m, n), F32, "cpu")
    calls = counted(monkeypatch)
    matmul(a, b, out=out, bias=bias, activation="relu", scale_b=scale, out_dtype="float32")
    best.cache_clear()
    assert calls == [6]
    terms = (a.double().abs() @ b.double().abs()) * scale + bias.double().abs()
    wanted = ((a.double() @ b.double()) * scale + bias.double()).relu()
    assert ((out.double() - wanted).abs() <= (k + 16) * 2.0**-22 * terms).all()
    assert whole[..., n:].isnan().all()


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many slices the sums of each product that is traced from now on are made of."""
    entry = sys.modules["flydsl.kernels.matmul.amd.calls"]
    found: list[int] = []
    real = entry.best

    def note(*args: object) -> object:
        plan = real(*args)
        found.append(plan.slices)
        return plan

    monkeypatch.setattr(entry, "best", note)
    decide_anew(monkeypatch)
    return found


def test_slices_of_integers_and_preshuffled_weights(emulate_checked, rng: np.random.Generator):
    """The rule's own choice: 4 KiB of K and few tiles."""
    emulate_checked("gfx942")
    m, n, k = 3, 20, 4100
    a = torch.from_numpy(rng.integers(-128, 128, (m, k), dtype=np.int8))
    b = torch.from_numpy(rng.integers(-128, 128, (k, n), dtype=np.int8))
    wanted = a.long() @ b.long()
    assert (matmul(a, b).long() == wanted).all()
    assert (matmul(a, preshuffle_weight(b)).long() == wanted).all()


def test_rows_do_not_depend_on_others(emulate, rng: np.random.Generator):
    """`batch_invariant`: with few rows K would be cut, and is not; runs give the same bits."""
    emulate("gfx950")
    k, n = 4096, 36
    a, b = rows(rng, 40, k, F16), rows(rng, n, k, F16).T
    whole = matmul(a, b, out_dtype="float32", batch_invariant=True)
    for some in (slice(0, 1), slice(3, 40)):
        assert torch.equal(matmul(a[some], b, out_dtype="float32", batch_invariant=True), whole[some])
    assert torch.equal(*(matmul(a[:3], b, out_dtype="float32") for _ in range(2)))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_where_k_is_cut(arch: str, rng: np.random.Generator):
    """Few tiles with a long K, by extents and compute units; never where rows must not depend on others."""
    target = GPUTarget.parse(f"rocm:{arch}")
    form = form_for(target, "bfloat16")
    assert form is not None
    shared = target.caps.shared_mem_per_block or 0

    def plan(m: int, n: int, k: int, units: int = 256, whole: bool = False):
        return best(Given(m, n, k, 1, 2, 2, units, shared), target, form, whole)

    assert plan(256, 256, 28672).slices > 1 and plan(16, 512, 8192).slices > 1
    assert plan(4096, 4096, 4096).slices == plan(64, 64, 256).slices == 1
    assert plan(64, 64, 8192, 1).slices == 1
    for _ in range(60):
        m, n, k = (8 * int(2 ** rng.uniform(0, 11)) for _ in range(3))
        found = plan(m, n, k)
        assert plan(m, n, k, whole=True).slices == 1
        depth = found.tile.row_bytes // 2
        assert found.length % depth == 0 and found.slices == -(-k // found.length) <= 32
        assert found.slices == 1 or found.length >= 512


def test_a_result_of_integers_has_no_activation():
    a, b = torch.ones(2, 4, dtype=torch.int8), torch.ones(1, 4, 2, dtype=torch.int8)
    with pytest.raises(DSLTypeError, match="int32 has no scale or activation"):
        grouped_matmul(a, b, torch.tensor([2]), activation="relu")


# --- code ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["gfx942", "gfx1250"])
def test_nothing_spills_and_ends_are_read_by_lanes(arch: str):
    """The ends of a wave's groups come in one load, and the walk over them has no other."""
    target = GPUTarget.parse(f"rocm:{arch}")
    form = form_for(target, "bfloat16")
    assert form is not None
    a, b, ends = torch.zeros(256, 512, dtype=BF16), torch.zeros(8, 256, 512, dtype=BF16), torch.zeros(8).int()
    c = torch.zeros(256, 256, dtype=BF16)
    big = next(tile for tile in tiles(form) if tile.m == tile.n == 128)
    numbers = (256, 256, 512, 8, 512, 512, 256, 0, 256 * 512, 0, 2, 512, big, form._replace(grouped=True, store=4))
    made = flyc.compile(amd_matmul, a, b, c, None, None, None, None, *numbers, offsets=ends, target=f"rocm:{arch}")
    asm = made.artifact.asm
    assert re.findall(r"spill_count:\s+(\d+)", asm) == ["0", "0"]
    walk = re.split("(?:buffer|tensor)_load_", asm)[0]
    assert len(re.findall("global_load_|flat_load_", walk)) == len(re.findall("v_readlane_b32", walk)) == 1
