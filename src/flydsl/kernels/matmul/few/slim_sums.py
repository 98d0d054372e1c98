"""Sums of products of few rows: of warps through shared memory, of blocks through memory, to C."""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...activations import activated
from ...epilogue import narrowed
from .slim import PAD, Slim

QUAD = 4
"""Results a thread stores together."""


class Problem(NamedTuple):
    """Extents at run time, and where results go."""

    m: fx.Int32
    n: fx.Int32
    k: fx.Int32
    step_c: fx.Int64


class Warp(NamedTuple):
    """Where a thread is: its warp's first tile of 16 rows and the step to the next, its place along K, its lane."""

    first: fx.Int32
    hop: int
    along: fx.Int32
    lane: fx.Int32

    def tile(self, i: int) -> fx.Int32:
        return self.first + i * self.hop


def place_of(warp: fx.Int32, lane: fx.Int32, slim: Slim) -> Warp:
    if slim.wide:
        team, teams = warp // 4, slim.across // 4
        return Warp(team % teams * (slim.tiles * 4) + warp % 4, 4, team // teams, lane)
    return Warp(warp % slim.across * slim.tiles, 1, warp // slim.across, lane)


def unit_at(place: fx.Pointer, dtype: type[fx.Numeric]) -> fx.Vector:
    """A unit of 16 bytes in shared memory."""
    layout = fx.make_layout(128 // dtype.width, 1)
    held = fx.make_rmem_tensor(layout, dtype)
    unit = fx.make_copy_atom(fx.UniversalCopy128b(), dtype)
    fx.copy_atom_call(unit, fx.make_view(fx.recast_iter(dtype, place), layout), held)
    return held.load()


def put_sums(parts: fx.Pointer, sums: fx.Tensor, slim: Slim, me: Warp) -> None:
    """A warp's sums to shared memory, by tokens."""
    columns = slim.tokens // 8
    pitch = slim.rows + PAD
    # One address for all of a tile: what is added to it is known.
    for i in range(slim.tiles):
        row = me.tile(i) * 16 + me.lane // 4
        here = parts + (me.along * (slim.tokens * pitch) + me.lane % 4 * (2 * pitch) + row)
        for j in range(columns):
            for e in range(4):
                here[(8 * j + e % 2) * pitch + 8 * (e // 2)] = sums[4 * (i * columns + j) + e]


@flyc.jit
def finish(
    parts: fx.Pointer,
    work: fx.Pointer | None,
    counters: fx.Pointer | None,
    c: fx.Pointer,
    bias: fx.Tensor | None,
    slim: Slim,
    activation: str,
    quads: bool,
    given: Problem,
    token: fx.Int32,
    tid: fx.Int32,
    together: fx.nvgpu.named_barrier,
):
    """Add up and store; where blocks divide K, the last to come does."""
    threads = 32 * slim.warps
    units = slim.tokens * slim.rows // QUAD
    if fx.const_expr(slim.slices == 1):
        for at in range(tid, units, threads):
            store(add_parts(parts, at, slim), c, bias, activation, quads, given, token, at, slim)
    else:
        block = fx.block_idx.z * fx.grid_dim.x + fx.block_idx.x
        size = units * QUAD
        here = cast("fx.Pointer", work) + fx.Int64(block) * (slim.slices * size)
        mine = here + fx.block_idx.y * size
        for at in range(tid, units, threads):
            fx.nvgpu.store_global(mine + at * QUAD, add_parts(parts, at, slim), cache="cg")
        together.sync()
        flag = fx.recast_iter(fx.Int32, parts)
        counter = cast("fx.Pointer", counters) + block
        if tid == 0:
            before = fx.atomic_add(counter, 1, syncscope="device", ordering=fx.AtomicOrdering.AcqRel)
            if before == slim.slices - 1:
                # For the next launch.
                counter[0] = 0
            flag[0] = before
        together.sync()
        if flag[0] == slim.slices - 1:
            # As many loads together as registers have room for.
            many = next(x for x in (8, 4, 2, 1) if units % (threads * x) == 0 and x * slim.slices <= 16 or x == 1)
            for first in range(tid, units, threads * many):
                found = [add_slices(here + (first + i * threads) * QUAD, size, slim) for i in range(many)]
                for i in fx.range_constexpr(many):
                    store(found[i], c, bias, activation, quads, given, token, first + i * threads, slim)


def add_parts(parts: fx.Pointer, at: fx.Int32, slim: Slim) -> fx.Vector:
    """Four rows' sums of a token, of all warps along K."""
    per, pitch = slim.rows // QUAD, slim.rows + PAD
    place = parts + (at // per * pitch + at % per * QUAD)
    found = [unit_at(place + p * (slim.tokens * pitch), fx.Float32) for p in range(slim.along)]
    total = found[0]
    for one in found[1:]:
        total = total + one
    return total


def add_slices(place: fx.Pointer, size: int, slim: Slim) -> fx.Vector:
    found = [cast("fx.Vector", fx.nvgpu.load_global(place + s * size, QUAD, cache="cg")) for s in range(slim.slices)]
    total = found[0]
    for one in found[1:]:
        total = total + one
    return total


@flyc.jit
def store(
    values: fx.Vector,
    c: fx.Pointer,
    bias: fx.Tensor | None,
    activation: str,
    quads: bool,
    given: Problem,
    token: fx.Int32,
    at: fx.Int32,
    slim: Slim,
):
    """Four results of a token, as far as C goes."""
    per = slim.rows // QUAD
    row, column = token + at // per, fx.block_idx.x * slim.rows + at % per * QUAD
    place = c + (fx.Int64(row) * given.step_c + column)
    if row < given.m:
        if fx.const_expr(quads):
            if column < given.n:
                added = [element(bias, column + i) for i in range(QUAD)] if bias is not None else None
                fx.nvgpu.store_global(place, narrowed(finished(values, added, activation), c.dtype))
        else:
            for i in fx.range_constexpr(QUAD):
                if column + i < given.n:
                    value = values[i]
                    if fx.const_expr(bias is not None):
                        value = value + element(bias, column + i)
                    place[i] = narrowed(activated(activation, value), c.dtype)


def element(vector: fx.Tensor | None, at: fx.Int32) -> fx.Float32:
    return fx.Float32(cast("fx.Tensor", vector)[at])


def finished(values: fx.Vector, added: list[fx.Float32] | None, activation: str) -> fx.Vector:
    if added is not None:
        values = values + fx.Vector.from_elements(added, fx.Float32)
    return activated(activation, values)


__all__ = ["Problem", "Warp", "finish", "place_of", "put_sums", "unit_at"]
