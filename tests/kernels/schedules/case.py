"""What a seeded schedule bug brings: a kernel, the number of the mistake it is told to make, and what must be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

Array = np.ndarray[Any, Any]


def aligned(n: int, dtype: Any = np.float32) -> Array:
    """Zeros that start at a multiple of 64 bytes."""
    whole = np.zeros(n + 16, dtype)
    start = (-whole.ctypes.data // 4) % 16
    return whole[start : start + n]


def pick(flag: Any, yes: Any, no: Any) -> fx.Int32:
    """One of two numbers, when the kernel runs."""
    return flag.select(fx.Int32(yes), fx.Int32(no))


def number(flag: Any) -> fx.Int32:
    """1 where a flag is set."""
    return flag.to(fx.Int32)


class Template(NamedTuple):
    """A kernel `(x, y, bug)` that is right for bug 0 and wrong in its own way for each of the others."""

    launch: Any
    arch: str
    make: Callable[[], tuple[Array, Array]]
    expected: Callable[[Array], Array] | None
    bugs: dict[int, tuple[str, str]]
    """By number: what it is called, and words of what is found (`deadlock`, a kind, or a part of the text)."""

    def arguments(self, bug: int) -> tuple[Array, Array, int]:
        return (*self.make(), bug)


TEMPLATES: dict[str, Template] = {}


def template(
    bugs: dict[int, tuple[str, str]],
    *,
    grid: int = 1,
    block: int = 64,
    smem: int = 0,
    cluster: int | None = None,
    arch: str = "sm_90a",
    n: int = 512,
    dtype: Any = np.float32,
    expected: Callable[[Array], Array] | None = None,
) -> Callable[[Any], Any]:
    """Enter a kernel with its mistakes."""

    def enter(kernel: Any) -> Any:
        @flyc.jit
        def launch(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
            if cluster is None:
                kernel(x, y, bug).launch(grid=grid, block=block, smem=smem)
            else:
                kernel(x, y, bug).launch(grid=grid, block=block, smem=smem, cluster=cluster)

        def make() -> tuple[Array, Array]:
            x, y = aligned(n, dtype), aligned(n, dtype)
            x[:] = np.arange(n) % 97 + 1
            return x, y

        TEMPLATES[kernel.__name__] = Template(launch, arch, make, expected, bugs)
        return kernel

    return enter
