"""What a seeded bug brings: its kernel, its launch, and what is said of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

Array = np.ndarray[Any, Any]
"""An array of some type."""


def ints() -> Array:
    """Zeros that start at a multiple of 64 bytes."""
    return _aligned(np.int32)


def floats() -> Array:
    """Different numbers that start at a multiple of 64 bytes."""
    made = _aligned(np.float32)
    made[:] = np.arange(made.size)
    return made


def square() -> Array:
    """The same as a matrix of 8 x 8."""
    return floats()[:64].reshape(8, 8)


def _aligned(dtype: Any, n: int = 256) -> Array:
    whole = np.zeros(n + 16, dtype)
    start = (-whole.ctypes.data // 4) % 16
    return whole[start : start + n]


class Case(NamedTuple):
    """A kernel, words of the report, how it is launched and on what."""

    kernel: Any
    words: str
    grid: int
    block: int
    smem: int
    cluster: int | None
    arch: str
    make: Callable[[], Array]
    hints: dict[str, Any]
    prepare: Callable[[fx.Tensor], Any] | None
    """What the kernel gets in the place of the first array, which is the second as well then."""

    def run(self, mended: bool, x: Array | None = None, y: Array | None = None) -> None:
        """Launch it on fresh arrays, or those given."""
        kernel, grid, block, smem, cluster = self.kernel, self.grid, self.block, self.smem, self.cluster
        prepare = self.prepare

        @flyc.jit(compile_hints=self.hints)
        def launch(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
            if prepare is not None:
                kernel(prepare(x), y, mended).launch(grid=grid, block=block, smem=smem)
            elif cluster is None:
                kernel(x, y, mended).launch(grid=grid, block=block, smem=smem)
            else:
                kernel(x, y, mended).launch(grid=grid, block=block, smem=smem, cluster=cluster)

        first = self.make() if x is None else x
        launch(first, first if prepare is not None else self.make() if y is None else y, mended)

    def line(self) -> str:
        """`file:line:` of the mistake."""
        function = inspect.unwrap(getattr(self.kernel, "function", self.kernel))
        source, start = inspect.getsourcelines(function)
        number = next(i for i, text in enumerate(source) if "# bug" in text)
        return f"{inspect.getsourcefile(function)}:{start + number}:"


CASES: dict[str, Case] = {}


def bug(
    words: str,
    *,
    grid: int = 1,
    block: int = 64,
    smem: int = 0,
    cluster: int | None = None,
    arch: str = "native",
    make: Callable[[], Array] = ints,
    hints: dict[str, Any] | None = None,
    prepare: Callable[[fx.Tensor], Any] | None = None,
) -> Callable[[Any], Any]:
    """Enter a kernel; `words` are part of the report of its mistake."""

    def enter(kernel: Any) -> Any:
        name = inspect.unwrap(getattr(kernel, "function", kernel)).__name__
        assert name not in CASES, name
        CASES[name] = Case(kernel, words, grid, block, smem, cluster, arch, make, hints or {}, prepare)
        return kernel

    return enter
