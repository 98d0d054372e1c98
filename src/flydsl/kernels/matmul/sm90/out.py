"""A consumer's way out: scales, bias and activation of its sums, and C, by the copy engine or by threads."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...activations import activated
from ...epilogue import narrowed
from ..groups import Group
from ..tile import LINE, Form, Staging, Tile, pieces, slots, staging
from .along import Part, Vectors, at_once, column_of, from_lanes, held_columns, held_rows, row_of

UNIT = 8
"""16-bit elements of 16 bytes."""


def chunk_layout(columns: int) -> fx.Layout:
    """A thread's values of 64 rows and so many columns."""
    return fx.make_layout(((2, 2, columns // 8), 1, 1), ((1, 2, 4), 0, 0))


def swizzle(width: int) -> fx.Swizzle:
    return fx.static(fx.SwizzleType.get({32: 1, 64: 2, 128: 3}[width], 4, 3))


class Out(NamedTuple):
    """A consumer's way out."""

    c: fx.Pointer
    bias: fx.Tensor | None
    scale_x: fx.Tensor | None
    scale_y: fx.Tensor | None
    store_c: fx.nvgpu.TmaAtom | None
    smem: fx.Pointer
    tile: Tile
    form: Form
    rows: fx.Int32
    columns: fx.Int32
    step_c: fx.Int64
    step_batch: fx.Int64
    consumer: fx.Int32
    member: fx.Int32
    turn: fx.nvgpu.named_barrier
    scale_out: fx.Tensor | None = None
    origin: fx.Int32 | int = 0
    """The row of D that tiles are counted from."""
    held: Vectors = Vectors()


def corner(out: Out, row: fx.Int32, column: fx.Int32, repeat: int) -> tuple[fx.Int32, fx.Int32]:
    """The first row and column of D that a repeat's 64 rows have."""
    teams = 1 if out.tile.pingpong else out.tile.consumers
    block = repeat if teams == 1 else repeat * teams + out.consumer
    top = row * out.tile.m + block * 64
    return (top + out.origin if out.form.grouped else top), column * out.tile.n


def in_group(out: Out, group: Group) -> Out:
    """For tiles that are counted from a group's first row, and end with it."""
    scale_y = out.scale_y
    if scale_y is not None and out.form.by_group and not out.form.blocked:
        scale_y = scale_y[group.number, None]
    return out._replace(rows=group.end, origin=group.start, scale_y=scale_y)


def hold(out: Out, row: fx.Int32, column: fx.Int32) -> Out:
    """With what goes along the rows and columns of a tile under way."""
    form, tile = out.form, out.tile
    tops = [corner(out, row, column, r)[0] for r in range(tile.rows // 64)]

    def held(vector: fx.Tensor | None, direction: str) -> fx.Tensor | None:
        if vector is None or not direction:
            return None
        if direction == "rows":
            return held_rows(vector, tops, out.member, out.rows)
        return held_columns(vector, column * tile.n, tile.n, out.member, out.columns)

    x, y = ("" if how != "rows" else way for how, way in ((form.scale_x, "rows"), (form.scale_y, "columns")))
    return out._replace(held=Vectors(held(out.scale_x, x), held(out.scale_y, y), held(out.bias, form.bias)))


def finished(out: Out, values: fx.Vector, part: Part) -> fx.Vector:
    """Sums with scales, bias and activation."""
    form, held = out.form, out.held
    if out.c.dtype is fx.Int32:
        return values
    values = values.to(fx.Float32)
    # Both together, which is the same bits whichever of them is A's: that depends on the rows of the product.
    factor = None
    for scale, how, direction, mine in (
        (out.scale_x, form.scale_x, "rows", held.scale_x), (out.scale_y, form.scale_y, "columns", held.scale_y)
    ):  # fmt: skip
        if form.blocked or not how:
            continue
        given = cast("fx.Tensor", scale)
        one = fx.Float32(given[0]) if how == "one" else along(out, given, mine, direction, part)
        factor = one if factor is None else one * factor
    if factor is not None:
        values = values * factor
    if form.bias:
        values = values + along(out, cast("fx.Tensor", out.bias), held.bias, form.bias, part)
    values = activated(form.activation, values)
    return values if out.scale_out is None else values / out.scale_out[0]


def along(out: Out, vector: fx.Tensor, held: fx.Tensor | None, direction: str, part: Part) -> fx.Vector:
    """A vector's values for a thread's sums: one for each row or each column."""
    found = fx.make_rmem_tensor(chunk_layout(part.columns), fx.Float32)
    if part.first is None:
        held = None

    def in_row(v: int) -> fx.Float32:
        if held is not None:
            return held[v, part.repeat]
        return at_once(vector, part.top + row_of(out.member, v), out.rows)

    def in_column(j: int, e: int) -> fx.Float32:
        if held is not None and part.first is not None:
            return from_lanes(held, out.member, part.first, j, e)
        return at_once(vector, part.left + column_of(out.member, j, e), out.columns)

    rows = [in_row(v) for v in range(2)] if direction == "rows" else []
    for j in range(part.columns // 8):
        for e in range(2):
            value = None if rows else in_column(j, e)
            for v in range(2):
                found[(e, v, j), 0, 0] = rows[v] if value is None else value
    return found.load()


def store_by_engine(out: Out, acc: fx.Tensor, row: fx.Int32, column: fx.Int32, batch: fx.Int32) -> None:
    """16-bit values through shared memory to the copy engine, which leaves out what lies outside C."""
    nv, tile, dtype = fx.nvgpu, out.tile, out.c.dtype
    most, box = staging(tile)
    room = fx.recast_iter(dtype, out.smem) + out.consumer * (64 * most)
    parts = slots(tile)
    for number, (r, (first, columns)) in enumerate(product(range(tile.rows // 64), pieces(tile))):
        top, left = corner(out, row, column, r)
        place = room + number % parts * (64 * most // parts)
        if tile.swap:
            layout, width = fx.make_layout((64, columns), (1, 64)), LINE
        else:
            layout, width = fx.make_layout((64, (box, columns // box)), (box, (1, 64 * box))), 2 * box
        smem = fx.make_view(fx.apply_swizzle(place, swizzle(width)), layout)
        move = fx.make_copy_atom(nv.StMatrix(2 if columns % 16 else 4, trans=tile.swap), dtype)
        atom = fx.make_mma_atom(nv.WGMMA(columns, 16, dtype))
        by_warpgroup = fx.make_tiled_mma(atom, fx.make_layout((1, 1, 1), (0, 0, 0)))
        copy = fx.make_tiled_copy_C(move, by_warpgroup).get_slice(out.member)
        sums = fx.make_view(fx.get_iter(acc) + (r * (tile.n // 2) + first // 2), chunk_layout(columns))
        result = results(out, sums, Part(top, left + first, columns, r, first))
        if number == 0:
            wait_for_stores(out, 0)
        elif number >= parts:
            wait_for_stores(out, parts - 1)
        fx.copy(move, copy.retile(result), copy.partition_D(smem))
        out.turn.sync()
        issue(out, place, top, left + first, batch, Staging(columns, box))


def results(out: Out, sums: fx.Tensor, part: Part) -> fx.Tensor:
    """Sums, finished, in C's type.

    They are read by powers of two: others are copied to wider vectors, for which the products would wait.
    """
    dtype = out.c.dtype
    found = fx.make_rmem_tensor(chunk_layout(part.columns), dtype)
    first = 0
    while first < part.columns:
        width = 1 << ((part.columns - first).bit_length() - 1)
        some, to = (fx.make_view(fx.get_iter(t) + first // 2, chunk_layout(width)) for t in (sums, found))
        to.store(narrowed(finished(out, some.load(), part.cut(first, width)), dtype))
        first += width
    return found


def wait_for_stores(out: Out, pending: int) -> None:
    """Until the engine has read all results but the last `pending` pieces."""
    wait_for_reads(out.member, pending)
    out.turn.sync()


def issue(out: Out, place: fx.Pointer, top: fx.Int32, left: fx.Int32, batch: fx.Int32, how: Staging) -> None:
    store = cast("fx.nvgpu.TmaAtom", out.store_c)
    if out.form.grouped:
        issue_in_group(out, store, place, top, left, how)
    else:
        issue_stores(store, place, top, left, batch, out.member, out.tile.swap, how.columns, how.box)


@flyc.jit
def issue_in_group(out: Out, store: fx.nvgpu.TmaAtom, place: fx.Pointer, top: fx.Int32, left: fx.Int32, how: Staging):
    """The engine would write rows of the next group. What threads store counts as a group of copies that is done."""
    if top + 64 <= out.rows:
        issue_stores(store, place, top, left, fx.Int32(0), out.member, False, how.columns, how.box)
    else:
        store_rows(out, place, top, left, how)
        if fx.nvgpu.leader(out.member):
            fx.nvgpu.tma_commit()


@flyc.jit
def store_rows(out: Out, place: fx.Pointer, top: fx.Int32, left: fx.Int32, how: Staging):
    """By threads, from shared memory, 16 bytes each: as far as the group and C go."""
    columns, box = how
    unit = fx.make_copy_atom(fx.UniversalCopy128b(), place.dtype)
    across = columns // UNIT
    from_there = fx.apply_swizzle(place, swizzle(2 * box))
    held = fx.make_rmem_tensor(fx.make_layout(UNIT, 1), place.dtype)
    for i in fx.range_constexpr(columns // 16):
        at = i * 128 + out.member
        row, j = at // across, at % across
        k = left + j * UNIT
        if top + row < out.rows:
            inside = j // (box // UNIT) * (64 * box) + row * box + j % (box // UNIT) * UNIT
            fx.copy_atom_call(unit, fx.make_view(from_there + inside, fx.make_layout(UNIT, 1)), held)
            to = out.c + (fx.Int64(top + row) * out.step_c + k)
            if k + UNIT <= out.columns:
                fx.nvgpu.store_global(to, held.load())
            else:
                for e in fx.range_constexpr(UNIT):
                    store_element(to + e, held[e], row, fx.Int32(64), k + e, out.columns)


def store_by_threads(
    out: Out,
    values: fx.Tensor,
    row: fx.Int32,
    column: fx.Int32,
    batch: fx.Int32,
    repeat: int,
    shift: fx.Int32 | None,
    columns: int,
) -> None:
    """Each thread its own values, as far as C goes: those of the whole tile, or from some column on."""
    dtype = out.c.dtype
    top, left = corner(out, row, column, repeat)
    left = left if shift is None else left + shift
    result = results(out, values, Part(top, left, columns, repeat, 0 if shift is None else None))
    lane, warp = out.member % 32, out.member // 32
    top, left = top + warp * 16 + lane // 4, left + lane % 4 * 2
    origin = out.c + fx.Int64(batch) * out.step_batch
    for v in range(2):
        r = top + 8 * v
        for j in range(columns // 8):
            k = left + 8 * j
            if out.tile.swap:
                for e in range(2):
                    store_element(
                        origin + (fx.Int64(k + e) * out.step_c + r), result[(e, v, j), 0, 0], r, out.rows, k + e,
                        out.columns,
                    )  # fmt: skip
            elif out.form.store == "pairs":
                pair = fx.Vector.from_elements([result[(e, v, j), 0, 0] for e in range(2)], dtype)
                store_element(origin + (fx.Int64(r) * out.step_c + k), pair, r, out.rows, k, out.columns)
            else:
                for e in range(2):
                    store_element(
                        origin + (fx.Int64(r) * out.step_c + (k + e)), result[(e, v, j), 0, 0], r, out.rows,
                        k + e, out.columns,
                    )  # fmt: skip


def store_pieces(out: Out, acc: fx.Tensor, row: fx.Int32, column: fx.Int32, batch: fx.Int32) -> None:
    """A consumer's tile by threads, 64 rows at a time."""
    n = out.tile.n
    for r in range(out.tile.rows // 64):
        piece = fx.make_view(fx.get_iter(acc) + r * (n // 2), chunk_layout(n))
        store_by_threads(out, piece, row, column, batch, r, None, n)


@flyc.jit
def store_in_group(out: Out, acc: fx.Tensor, row: fx.Int32, column: fx.Int32):
    """A consumer's tile, as far as its group goes."""
    top, _ = corner(out, row, column, 0)
    if top < out.rows:
        if fx.const_expr(out.form.store == "engine"):
            store_by_engine(out, acc, row, column, fx.Int32(0))
        else:
            store_pieces(out, acc, row, column, fx.Int32(0))


@flyc.jit
def wait_for_reads(member: fx.Int32, pending: int):
    if fx.nvgpu.leader(member):
        fx.nvgpu.tma_wait(pending, read=True)


@flyc.jit
def issue_stores(
    store: fx.nvgpu.TmaAtom,
    place: fx.Pointer,
    top: fx.Int32,
    left: fx.Int32,
    batch: fx.Int32,
    member: fx.Int32,
    swap: bool,
    columns: int,
    box: int,
):
    if fx.nvgpu.leader(member):
        if fx.const_expr(swap):
            store.store(place, (left, top, batch))
        else:
            for i in fx.range_constexpr(columns // box):
                store.store(place + i * (64 * box), (top, left + i * box, batch))
        fx.nvgpu.tma_commit()


@flyc.jit
def store_element(
    place: fx.Pointer, value: fx.Numeric | fx.Vector, row: fx.Int32, rows: fx.Int32, column: fx.Int32, columns: fx.Int32
):
    if (row < rows) & (column < columns):
        fx.nvgpu.store_global(place, value)


__all__ = [
    "Out", "chunk_layout", "corner", "hold", "in_group", "store_by_engine", "store_by_threads", "store_in_group",
    "store_pieces", "swizzle",
]  # fmt: skip
