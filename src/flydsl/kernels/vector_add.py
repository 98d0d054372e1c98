"""c = a + b over any number of elements, on every target.

Where 16-byte accesses are promised, every thread adds 16 bytes: by a static layout that has them, or by
`flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(divisibility=8)`.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.layout import flatten

from .extents import check_extents, divisor_of

THREADS = 256
WIDE_THREADS = 128


@flyc.kernel
def vector_add_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    if i < n:
        c[i] = a[i] + b[i]


@flyc.kernel
def vector_add_wide_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, units: fx.Int32, unit: fx.Constexpr[int]):
    wide_a, wide_b, wide_c = (fx.flat_divide(t, (unit,)) for t in (a, b, c))
    at = fx.block_idx.x * WIDE_THREADS + fx.thread_idx.x
    if at < units:
        wide_c[None, at].store(wide_a[None, at].load() + wide_b[None, at].load())


def _unit(tensors: tuple[fx.Tensor, ...]) -> int:
    """Elements of 16 bytes, where all tensors are promised to consist of such units; else 1."""
    unit = 128 // tensors[0].dtype.width
    for t in tensors:
        layout = t.data.layout
        shape = flatten(layout.shape)[0]
        stride = flatten(layout.stride)[0]
        if stride != 1 or t.alignment % 16 or divisor_of(shape) % unit or t.dtype is not tensors[0].dtype:
            return 1
    return unit


@flyc.jit
def vector_add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    """`c = a + b` for one-dimensional tensors of one length and type."""
    _vector_add(a, b, c, stream)


def _vector_add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream) -> None:
    check_extents("vector_add", a=(a, "n"), b=(b, "n"), c=(c, "n"))
    n, unit = fx.Int32(c.shape.unpack()[0]), _unit((a, b, c))
    if unit == 1:
        vector_add_kernel(a, b, c, n).launch(grid=fx.ceildiv(n, THREADS), block=THREADS, stream=stream)
    else:
        units = n // unit
        vector_add_wide_kernel(a, b, c, units, unit).launch(
            grid=fx.ceildiv(units, WIDE_THREADS), block=WIDE_THREADS, stream=stream
        )


__all__ = ["vector_add"]
