"""Runs a body as a kernel of one block on the cpu stack in checked mode, or compiles it for a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

ARCHS = ("gfx942", "sm_90a")
"""Warps of 64 and of 32 lanes, of both vendors; programs of FlyDSL's style run on more (`tests/compat`)."""
"""Waves of 64 lanes, waves of 32, warps of NVIDIA."""
GPUS = ("rocm:gfx942", "rocm:gfx1201", "cuda:sm_90a")
MOST = 8
"""Arrays a body may have."""
NUMPY = {
    fx.Int8: "i1", fx.Uint8: "u1", fx.Int16: "i2", fx.Uint16: "u2", fx.Int32: "i4", fx.Uint32: "u4", fx.Int64: "i8",
    fx.Uint64: "u8", fx.Float16: "f2", fx.Float32: "f4", fx.Float64: "f8",
}  # fmt: skip


def dims_of(block: Any) -> tuple[int, int, int]:
    x, y, z = (*(block if isinstance(block, tuple) else (block,)), 1, 1)[:3]
    return x, y, z


def rank_of(block: Any):
    """Number of the thread in a block of these extents."""
    x, y, _ = dims_of(block)
    return fx.thread_idx.x + fx.thread_idx.y * x + fx.thread_idx.z * (x * y)


def launcher(body: Callable[..., None], block: Any, count: int) -> Any:
    @flyc.kernel
    def kernel(
        a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor, e: fx.Tensor, f: fx.Tensor, g: fx.Tensor, h: fx.Tensor
    ):
        allocator = fx.SharedAllocator()
        body(lambda collective: allocator.allocate(collective.SharedStorage).peek(), *(a, b, c, d, e, f, g, h)[:count])

    @flyc.jit
    def launch(
        a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor, e: fx.Tensor, f: fx.Tensor, g: fx.Tensor, h: fx.Tensor
    ):
        kernel(a, b, c, d, e, f, g, h).launch(grid=1, block=dims_of(block))

    return launch


def arguments(arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    assert len(arrays) <= MOST
    return [*arrays, *(np.zeros(1, "i4") for _ in range(MOST - len(arrays)))]


def run(body: Callable[..., None], *arrays: np.ndarray, block: Any, arch: str) -> None:
    """One block runs `body(place, *arrays)`, where `place` allocates the storage of a collective.

    Checked mode raises for races, accesses out of bounds, and reads of what nobody wrote.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        patch.setenv("FLYDSL_COMPILE_ARCH", arch)
        patch.setenv("FLYDSL_CPU_CHECK", "1")
        launcher(body, block, len(arrays))(*arguments(arrays))


def compiled(body: Callable[..., None], *arrays: np.ndarray, block: Any, target: str) -> str:
    """The assembly for a GPU."""
    made = flyc.compile(launcher(body, block, len(arrays)), *arguments(arrays), target=target)
    return made.artifact.asm


def read(source: Any, block: Any, items: int, form: str = "vector") -> Any:
    """The items of a thread, as a Vector, a list, or one scalar."""
    first = rank_of(block) * items
    found = [source[first + i] for i in range(items)]
    if form == "scalar":
        return found[0]
    return found if form == "list" else fx.Vector.from_elements(found)


def write(target: Any, value: Any, block: Any, offset: int = 0) -> None:
    """The items of a thread, where `read` finds them."""
    found = list(value) if isinstance(value, (fx.Vector, list, tuple)) else [value]
    first = rank_of(block) * len(found) + offset
    for i, item in enumerate(found):
        target[first + i] = item


def random(rng: np.random.Generator, dtype: Any, count: int, few: bool = False) -> np.ndarray:
    """Numbers of a class, from few different ones if asked; floats with zeros of both signs."""
    kind = np.dtype(NUMPY[dtype])
    if kind.kind == "f":
        made = rng.standard_normal(count).astype(kind)
        if few:
            made = rng.choice(np.array([-1.5, -0.0, 0.0, 2.0, 3.5], kind), count)
        return made
    limits = np.iinfo(kind)
    low, high = (max(limits.min, -3), 4) if few else (limits.min, limits.max)
    return rng.integers(low, high, count, dtype=kind, endpoint=True)


def poison(dtype: Any, count: int) -> np.ndarray:
    """A result nobody has written yet."""
    return np.full(count, 77, NUMPY[dtype])


def threads_of(block: Any) -> int:
    return math.prod(dims_of(block))


class Draw:
    """Random choices of a test; the seed is said when it fails."""

    def __init__(self, seed: int | None = None):
        self.seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        print(f"seed {self.seed}")
        self.rng = np.random.default_rng(self.seed)

    def of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def some(self, count: int, *choices: Any) -> list[Any]:
        """Different ones, in any order."""
        return [choices[i] for i in self.rng.permutation(len(choices))[:count]]

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def block(self, arch: str) -> Any:
        """A block of part of a warp, of one or of several, of one to three extents."""
        warp = 64 if arch == "gfx942" else 32
        return self.of(8, (4, 2, 2), warp, (warp // 4, 4, 2), (warp, 1, 3))

    def small_block(self, arch: str) -> Any:
        """Part of a warp, one or two: for what takes long in checked mode."""
        warp = 64 if arch == "gfx942" else 32
        return self.of(8, warp, (warp // 2, 2, 2), (warp // 2, 4, 1))


@pytest.fixture
def draw() -> Draw:
    return Draw()
