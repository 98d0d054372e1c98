"""Factors of blocks of 128 on AMD's matrix instructions, alone and in groups with every kind of scales: each element
against float64 on the cpu stack emulating each architecture, in checked mode; and that no tile spills."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels import grouped_matmul, matmul, preshuffle_weight
from flydsl.kernels.matmul.amd.entry import amd_matmul
from flydsl.kernels.matmul.amd.kernel import EACH
from flydsl.kernels.matmul.amd.plan import Plan, fits, form_for, shared_bytes, tiles
from flydsl.target import GPUTarget

from .matmul_checks import bound, decide_anew

BF16, INT8 = torch.bfloat16, torch.int8
FNUZ, OCP = torch.float8_e4m3fnuz, torch.float8_e4m3fn
TYPES = [
    ("gfx90a", BF16), ("gfx942", FNUZ), ("gfx942", INT8), ("gfx950", OCP), ("gfx950", torch.float16),
    ("gfx1100", BF16), ("gfx1201", OCP), ("gfx1250", OCP), ("gfx1250", torch.float32),
]  # fmt: skip


@pytest.fixture(autouse=True)
def matrix_instructions(monkeypatch: pytest.MonkeyPatch):
    """In checked mode; what would go element by element fails."""
    for name in ("calls", "grouped"):
        module = sys.modules[f"flydsl.kernels.matmul.{name}"]
        monkeypatch.setattr(module, "anywhere" if name == "calls" else "_anywhere", None)
    monkeypatch.setattr(sys.modules["flydsl.kernels.matmul.grouped"], "_decided", {})
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    decide_anew(monkeypatch)

    def emulate(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    return emulate


def operand(rng: np.random.Generator, *shape: int, dtype: torch.dtype) -> torch.Tensor:
    if dtype is INT8:
        return torch.from_numpy(rng.integers(-128, 128, shape, dtype=np.int8))
    return torch.from_numpy(rng.standard_normal(shape)).to(dtype)


def factors(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.asarray(np.exp2(rng.integers(-5, 6, shape)) * (rng.random(shape) + 0.5))).float()


def spread(scale: torch.Tensor, *directions: int) -> torch.Tensor:
    """A scale for each element."""
    scale = scale.double()
    for direction in directions:
        scale = scale.repeat_interleave(128, direction)
    return scale


class Product:
    """Operands with their factors; and both with them in float64."""

    def __init__(self, rng: np.random.Generator, m: int, n: int, k: int, dtype: torch.dtype):
        self.a, self.b = operand(rng, m, k, dtype=dtype), operand(rng, n, k, dtype=dtype).T
        self.scales: dict[str, Any] = {
            "scale_a": factors(rng, m, k // 128),
            "scale_b": factors(rng, k // 128, -(-n // 128)),
        }
        self.left = self.a.double() * spread(self.scales["scale_a"], 1)
        self.right = self.b.double() * spread(self.scales["scale_b"], 0, 1)[:, :n]

    def check(self, out_dtype: torch.dtype, b: Any = None, after: Any = lambda x: x, **more: Any) -> None:
        m, n = self.a.shape[0], self.b.shape[1]
        whole = torch.full((m, n + 5), float("nan"), dtype=out_dtype)
        matmul(self.a, self.b if b is None else b, out=whole[:, :n], out_dtype=out_dtype, **self.scales, **more)
        bound(whole[:, :n], self.left, self.right, after)
        assert torch.isnan(whole[:, n:].float()).all()


@pytest.mark.parametrize(("arch", "dtype"), TYPES, ids=str)
def test_ragged(arch: str, dtype: torch.dtype, matrix_instructions, rng: np.random.Generator):
    """N that ends inside of a block, one block of K and several, few rows and some."""
    matrix_instructions(arch)
    m, n, k = int(rng.integers(1, 70)), int(rng.integers(129, 300)), 128 * int(rng.integers(1, 6))
    Product(rng, m, n, k, dtype).check(torch.float32)
    Product(rng, 3, 130, 256, dtype).check(BF16)


@pytest.mark.parametrize(("arch", "dtype"), [("gfx942", FNUZ), ("gfx950", OCP), ("gfx1250", OCP)], ids=str)
def test_with_all_else(arch: str, dtype: torch.dtype, matrix_instructions, rng: np.random.Generator):
    """Slices of K, weights laid out beforehand, scales of any strides, a bias and an activation."""
    matrix_instructions(arch)
    Product(rng, 5, 33, 4096, dtype).check(torch.float32)
    case = Product(rng, 37, 150, 384, dtype)
    case.check(torch.float32, preshuffle_weight(case.b))
    bias = torch.from_numpy(rng.standard_normal(150)).float()
    case.scales = {name: scale.mT.contiguous().mT for name, scale in case.scales.items()}
    case.left = torch.cat((case.left, torch.ones(37, 1).double()), 1)
    case.right = torch.cat((case.right, bias.double()[None]))
    case.check(torch.float32, bias=bias, activation="relu", after=lambda x: x.clamp(min=0))


@pytest.mark.parametrize(("arch", "dtype"), [("gfx942", FNUZ), ("gfx950", OCP), ("gfx1201", OCP)], ids=str)
def test_every_tile(arch: str, dtype: torch.dtype, matrix_instructions, rng: np.random.Generator, monkeypatch):
    """Rows of tiles of both lengths, several squares beside each other, and each number of stages; on gfx1201 the one
    whose sums are put together by turns."""
    form = form_for(GPUTarget.parse(f"rocm:{arch}"), str(dtype).removeprefix("torch."))
    assert form is not None
    form = form._replace(blocked=True)
    every = [t for t in tiles(form) if fits(t, form) and shared_bytes(t, form) <= 65536 * (1 + (arch == "gfx950"))]
    matrix_instructions(arch)
    case = Product(rng, 70, 260, 640, dtype)
    some = [0, *rng.choice(np.arange(1, len(every)), 2, replace=False).tolist()] if not form.paired else [-1]
    for tile in [every[i] for i in some]:
        chosen = Plan(tile, 1, 1, 0.0, 640)
        monkeypatch.setattr(sys.modules["flydsl.kernels.matmul.amd.calls"], "best", lambda *_, chosen=chosen: chosen)
        decide_anew(monkeypatch)
        case.check(torch.float32)


KINDS = {
    "one": ((1,), (1,)), "group": ((), None), "rows": (None, None), "blocks": (None, None),
}  # fmt: skip


@pytest.mark.covering
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("arch", "dtype"), [("gfx942", FNUZ), ("gfx950", OCP), ("gfx1201", BF16), ("gfx1250", INT8)], ids=str
)
def test_groups(kind: str, arch: str, dtype: torch.dtype, matrix_instructions, rng: np.random.Generator):
    """Groups without rows, of one and of some; three rows belong to none, and their scales are NaN."""
    matrix_instructions(arch)
    sizes = [*rng.permutation([0, 1, int(rng.integers(2, 70)), 33]).tolist(), 0]
    groups, m, n, k = len(sizes), sum(sizes) + 3, int(rng.integers(129, 200)), 256
    a, b = operand(rng, m, k, dtype=dtype), operand(rng, groups, n, k, dtype=dtype).mT
    left, right = a.double(), b.double()
    if kind == "blocks":
        scale_a, scale_b = factors(rng, m, k // 128), factors(rng, groups, k // 128, 2)
        left, right = left * spread(scale_a, 1), right * spread(scale_b, 1, 2)[..., :n]
    elif kind == "rows":
        scale_a, scale_b = factors(rng, m), factors(rng, groups, n)
        left, right = left * scale_a.double()[:, None], right * scale_b.double()[:, None]
    else:
        scale_a, scale_b = factors(rng, *([1] if kind == "one" else [])), factors(rng, groups if kind == "group" else 1)
        left, right = left * scale_a.double(), right * scale_b.double().view(-1, 1, 1)
    if kind in ("blocks", "rows"):
        scale_a[-3:] = float("nan")
    ends = np.cumsum(sizes)
    out = torch.full((m, n), float("nan"))
    options = {"scale_a": scale_a, "scale_b": scale_b, "out_dtype": torch.float32}
    assert grouped_matmul(a, b, torch.from_numpy(ends).int(), out=out, **options) is out
    for group, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        bound(out[start:end], left[start:end], right[group])
    assert torch.isnan(out[ends[-1] :]).all(), "rows that belong to no group are left alone"


@pytest.mark.parametrize(
    ("arch", "dtype", "shuffled"),
    [
        ("gfx942", FNUZ, False), ("gfx942", FNUZ, True), ("gfx950", OCP, False), ("gfx1100", BF16, False),
        ("gfx1201", OCP, False), ("gfx1250", OCP, False),
    ],
    ids=str,
)  # fmt: skip
def test_the_largest_tile_does_not_spill(arch: str, dtype: torch.dtype, shuffled: bool):
    target = GPUTarget.parse(f"rocm:{arch}")
    form = form_for(target, str(dtype).removeprefix("torch."))
    assert form is not None
    form = form._replace(blocked=True, shuffled=shuffled, store=min(form.store, EACH))
    shared = target.caps.shared_mem_per_block or 65536
    fitting = [t for t in tiles(form) if fits(t, form) and shared_bytes(t, form) <= shared]
    tile = max(fitting, key=lambda t: (t.m * t.n / t.waves, t.row_bytes))
    x, c = torch.zeros(512, 512).to(dtype), torch.zeros(512, 512, dtype=BF16)
    numbers = (512, 512, 512, 1, 512, 512, 512, 0, 0, 0, 2, 512, tile, form)
    blocks = {"blocks_w": torch.zeros(4, 4), "blocks_a": torch.zeros(512, 4)}
    made = flyc.compile(amd_matmul, x, x, c, None, None, None, None, *numbers, **blocks, target=f"rocm:{arch}")
    (used,) = (made.artifact.resources or {}).values()
    assert (used["spills"], used["scratch"]) == (0, 0), tile
