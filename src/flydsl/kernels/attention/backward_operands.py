"""What the gradients' products on Hopper read and write: keys and values that stay, steps of queries, sums."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..matmul.sm90.out import swizzle
from .backward_steps import ROWS, Sides
from .tile import span


def accumulators(columns: int) -> fx.Tensor:
    """A thread's part of 64 rows of a product."""
    return fx.make_rmem_tensor(fx.make_layout(((2, 2, columns // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)


def held_rows(base: fx.Pointer, form: Sides, d: int) -> fx.Tensor:
    """A warpgroup's 64 rows of what the block holds, (rows, d, tile)."""
    wide = span(d)
    layout = fx.make_layout(
        (64, (wide, d // wide), form.tiles), (wide, (1, ROWS * wide), ROWS * (form.d + form.dv))
    )  # fmt: skip
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * wide)), layout)


def held_columns(base: fx.Pointer, form: Sides, columns: int) -> fx.Tensor:
    """All rows of the keys that the block holds, (columns, rows, tile): as many columns as a warpgroup has of dQ."""
    d, wide = form.d, span(form.d)
    inner = min(columns, wide)
    layout = fx.make_layout(
        ((inner, columns // inner), ROWS, form.tiles), ((1, ROWS * wide), wide, ROWS * (d + form.dv))
    )  # fmt: skip
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * wide)), layout)


def walked(base: fx.Pointer, form: Sides, d: int) -> fx.Tensor:
    """All stages of what is walked along, (queries, d, stage)."""
    m, wide = form.m, span(d)
    layout = fx.make_layout((m, (wide, d // wide), form.stages), (wide, (1, m * wide), m * d))
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * wide)), layout)


def turned(base: fx.Pointer, form: Sides, d: int) -> fx.Tensor:
    """The same as (d, queries, stage)."""
    m, wide = form.m, span(d)
    layout = fx.make_layout(((wide, d // wide), m, form.stages), ((1, m * wide), wide, m * d))
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * wide)), layout)


@flyc.jit
def clear_rows(base: fx.Pointer, first: fx.Int32, rows: int, d: int, tid: fx.Int32, threads: int, wide: int = 0):
    """Zeros for the rows from `first` on: they are another sequence's, and weights of 0 must not make NaN of them.
    Boxes have `wide` columns, or what divides `d`."""
    wide = wide or span(d)
    whole, units = fx.make_layout(8, 1), rows * wide // 8
    zeros = fx.make_rmem_tensor(whole, base.dtype)
    zeros.fill(0.0)
    atom = fx.make_copy_atom(fx.UniversalCopy(128), base.dtype)
    # Rows of a box lie one behind the other, each a permutation of its own units.
    for i in range(first * (wide // 8) + tid, units, threads):
        for box in fx.range_constexpr(d // wide):
            fx.copy(atom, zeros, fx.make_view(base + (i + box * units) * 8, whole))


def parts_of_dq(
    base: fx.Pointer, out: fx.Tensor, consumer: fx.Int32, dtype: type[fx.Numeric], form: Sides
) -> list[tuple[fx.TiledMma, fx.Tensor, fx.Tensor]]:
    """What a consumer's part of dQ is multiplied by, with keys at `base`: instructions, keys, and where it goes."""
    d, columns, whole, wide = form.d, form.columns, form.whole, span(form.d)
    alone = fx.make_layout((1, 1, 1), (0, 0, 0))
    starts = [(base, whole, 0)]
    if form.m < 128:
        # Boxes of its own, behind the middle one for the second; or a half of the only box.
        own = ROWS * wide * (d // wide - whole // wide) if whole % wide == 0 else columns
        starts = [(base + consumer * own, whole, 0)]
    if whole < columns:
        starts.append((base + (whole * ROWS + consumer * (wide // 2)), columns - whole, whole))
    return [
        (
            fx.make_tiled_mma(fx.make_mma_atom(fx.nvgpu.WGMMA(count, 16, dtype, major_a="mn", major_b="mn")), alone),
            held_columns(start, form, count),
            fx.make_view(fx.get_iter(out) + first // 2, fx.make_layout(((2, 2, count // 8), 1, 1), ((1, 2, 4), 0, 0))),
        )
        for start, count, first in starts
    ]


def multiply(mma: fx.TiledMma, out: fx.Tensor, a: fx.Tensor, b: fx.Tensor, count: int) -> None:
    """Issue a product of `count` instructions, which writes what it adds to the next time."""
    multiply_parts([(mma, a, b, out)], count)


def multiply_parts(parts: list[tuple[fx.TiledMma, fx.Tensor, fx.Tensor, fx.Tensor]], count: int) -> None:
    """The same of several products, waited for together: (instructions, a, b, out)."""
    for k in range(count):
        for mma, a, b, out in parts:
            now = mma.set_value("accumulate", fx.Int32(0)) if k == 0 else mma
            fx.gemm(now, out, a[None, None, k], b[None, None, k], out)
    fx.nvgpu.wgmma_commit()


def add_products(mma: fx.TiledMma, sums: fx.Tensor, a: fx.Tensor, b: fx.Tensor, count: int) -> None:
    """Issue products of operands in registers, added to sums."""
    for k in range(count):
        fx.gemm(mma, sums, a[None, None, k], b[None, None, k], sums)
    fx.nvgpu.wgmma_commit()


__all__ = [
    "accumulators",
    "add_products",
    "clear_rows",
    "held_columns",
    "held_rows",
    "multiply",
    "multiply_parts",
    "parts_of_dq",
    "turned",
    "walked",
]
