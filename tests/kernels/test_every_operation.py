"""Every public operation on every type for every architecture compiles, or is refused by us: LLVM is never ended.

A run takes some pairs of type and architecture, others each time; with EVERY_OPERATION=1 in the environment all.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError
from flydsl.target import CUDA_ARCHES, ROCM_ARCHES

from .operations import OPERATIONS, TYPES, compiles, sweep

ARCHES = [*(f"rocm:{arch}" for arch in ROCM_ARCHES), *(f"cuda:{arch}" for arch in CUDA_ARCHES)]
_PAIRS = 8


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch):
    """LLVM in a worker process, so that its end is seen."""
    monkeypatch.setenv("FLYDSL_COMPILE_ISOLATE", "always")
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")


def test_pairs_of_type_and_architecture():
    pairs = [(name, arch) for name in TYPES for arch in ARCHES]
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    if "EVERY_OPERATION" not in os.environ:
        pairs = random.Random(seed).sample(pairs, _PAIRS)
    found = {pair: ended for pair in pairs if (ended := sweep(TYPES[pair[0]], pair[1]))}
    assert not found


@pytest.mark.parametrize(
    ("name", "names", "target", "wanted"),
    [
        ("BFloat16", ["%"], "rocm:gfx942", "ok"),
        ("BFloat16", ["%"], "rocm:gfx1100", "ok"),
        ("Int128", ["atomic_add"], "rocm:gfx942", "refused"),
        ("Uint128", ["cas"], "cuda:sm_80", "refused"),
        ("Int128", ["load"], "rocm:gfx1100", "refused"),
        ("Int128", ["to Float32"], "cuda:sm_90", "refused"),
        ("Float16", ["to Uint128"], "cuda:sm_80", "refused"),
        ("Int128", ["to Float64", "+", "*", "//"], "rocm:gfx942", "ok"),
        ("Int32", sorted(set(OPERATIONS) & {"+", "%", "cas", "shuffle xor"}), "cuda:sm_80", "ok"),
    ],
)
def test_what_ended_the_process_once(name: str, names: list[str], target: str, wanted: str):
    assert compiles(TYPES[name], names, target) == wanted


def test_a_refusal_shows_the_line():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        wide = fx.recast_iter(fx.Int128, fx.get_iter(x))
        fx.atomic_add(wide, wide.load())  # here

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=1)

    with pytest.raises(DSLTypeError, match="64 bits at most, got 128") as caught:
        flyc.compile(run, np.zeros(4, "i4"), target="rocm:gfx942")
    assert "# here" in "".join(caught.value.__notes__)


def test_the_remainder_of_bf16_is_exact():
    torch = pytest.importorskip("torch")
    x, y = (torch.randint(-(2**15), 2**15, (4096,), dtype=torch.int16).view(torch.bfloat16) for _ in range(2))
    z = torch.zeros_like(x)

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        i = fx.block_idx.x * 256 + fx.thread_idx.x
        z[i] = x[i] % y[i]

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        kernel(x, y, z).launch(grid=16, block=256)

    run(x, y, z)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(z.float().numpy(), np.fmod(x.float().numpy(), y.float().numpy()))
