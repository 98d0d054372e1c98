"""A thread's results on their way out: scales, bias, activation, and stores as far as C goes."""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...activations import activated
from ...epilogue import narrowed
from .sides import Side, Strides
from .tile import QUAD, Form, Tile


class Out(NamedTuple):
    """Where results go, and what is done to them on the way."""

    c: fx.Pointer
    strides: Strides
    bias: fx.Tensor | None
    scale_x: fx.Tensor | None
    scale_y: fx.Tensor | None
    scale_out: fx.Tensor | None
    form: Form
    m: fx.Int32
    n: fx.Int32


class Columns(NamedTuple):
    """Up to four columns of a thread, from its `first` on, and what belongs to them."""

    first: int
    places: list[fx.Int32]
    scales: fx.Vector | None
    biases: fx.Vector | None


def columns_of(out: Out, y: Side, first: int, width: int) -> Columns:
    places = [y.first + y.seen + y.rows_from(first + j) for j in range(width)]
    scales = along(out.scale_y, out.form.scale_y, places, out.n)
    return Columns(first, places, scales, along(out.bias, out.form.bias == "columns", places, out.n))


def store_tile(out: Out, acc: fx.Tensor, sides: tuple[Side, Side], tile: Tile) -> None:
    """All results of a thread, four columns at a time: what belongs to columns is held for those alone."""
    width = min(QUAD, tile.columns)
    for first in range(0, tile.columns, width):
        columns = columns_of(out, sides[1], first, width)
        for i in range(tile.rows):
            place = fx.get_iter(acc) + (i * tile.columns + first)
            store_part(out, fx.make_view(place, fx.make_layout(width, 1)).load(), sides[0], i, columns)


def store_part(out: Out, values: fx.Vector, x: Side, i: int, columns: Columns) -> None:
    """A thread's sums of some columns of its `i`-th row, finished."""
    form = out.form
    row = x.first + x.seen + x.rows_from(i)
    near = fx.min(row, out.m - 1)
    if form.grouped:
        near = fx.max(near, fx.Int32(0))  # of a tile without rows
    if form.turned and columns.scales is not None:
        values = values * columns.scales
    if form.scale_x:
        values = values * cast("fx.Tensor", out.scale_x)[0 if form.scale_x == "one" else near]
    if not form.turned and columns.scales is not None:
        values = values * columns.scales
    if columns.biases is not None:
        values = values + columns.biases
    elif form.bias == "rows":
        values = values + fx.Float32(cast("fx.Tensor", out.bias)[near])
    values = activated(form.activation, values)
    if out.scale_out is not None:
        values = values / out.scale_out[0]
    store_some(out, narrowed(values, out.c.dtype), row, columns.places, len(columns.places))


def along(vector: fx.Tensor | None, how: str | bool, places: list[fx.Int32], count: fx.Int32) -> fx.Vector | None:
    """What belongs to some columns; None if nothing does. Behind the last one its value is read again."""
    if not how:
        return None
    values = cast("fx.Tensor", vector)
    if how == "one":
        return fx.Vector.filled(len(places), fx.Float32(values[0]), fx.Float32)
    return fx.Vector.from_elements([fx.Float32(values[fx.min(at, count - 1)]) for at in places], fx.Float32)


@flyc.jit
def store_some(out: Out, values: fx.Vector, row: fx.Int32, columns: list[fx.Int32], many: int):
    """A thread's results of some columns of a row."""
    line = out.c + fx.Int64(row) * out.strides.row
    if row < out.m:
        if fx.const_expr(out.form.quads):
            if columns[0] < out.n:
                fx.nvgpu.store_global(line + columns[0], values)
        else:
            for j in fx.range_constexpr(many):
                if columns[j] < out.n:
                    line[fx.Int64(columns[j]) * out.strides.depth] = values[j]


__all__ = ["Columns", "Out", "columns_of", "store_part", "store_tile"]
