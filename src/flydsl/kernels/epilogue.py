"""What matrix products share on the way out: the bias of a tile's columns, read once into shared memory, and added."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

if TYPE_CHECKING:
    from flydsl.expr.annotations import ValueT


@flyc.jit
def fetch_bias(
    bias: fx.Tensor, biases: fx.Pointer, first: fx.Int32, n: fx.Int32, member: fx.Int32, columns: int, threads: int
):
    """The bias of `columns` columns from `first` on to shared memory as f32, by `threads` threads; zero from `n` on."""
    for i in fx.range_constexpr(columns // threads):
        at = member + i * threads
        value = fx.Float32(0.0)
        if first + at < n:
            value = fx.Float32(bias[first + at])
        biases[at] = value


def biased(values: fx.Vector, biases: fx.Pointer, tile: tuple[int, int], product: fx.ThrMma) -> fx.Vector:
    """The f32 values a thread holds of a product's tile, with the bias of their columns."""
    # Every row has the same: the step between rows is 0.
    added = fx.make_view(biases, fx.make_layout(tile, (0, 1)))
    return values + product.partition_C(added).load()


LARGEST = {
    fx.Float8E4M3FN: 448.0, fx.Float8E5M2: 57344.0, fx.Float8E4M3FNUZ: 240.0, fx.Float8E5M2FNUZ: 57344.0,
}  # fmt: skip
"""The largest numbers of 8 bits."""


def narrowed(values: ValueT, dtype: type[fx.Numeric]) -> ValueT:
    """Values of f32 as `dtype`. In 8 bits what is too large becomes the largest number, and a NaN stays one."""
    most = LARGEST.get(dtype)
    if most is not None:
        values = fx.minimumf(fx.maximumf(values, -most), most)
    return cast("ValueT", values.to(dtype))


__all__ = ["biased", "fetch_bias", "narrowed"]
