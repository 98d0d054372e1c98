"""Slices of K: their sums meet in memory, and are added up in the order of K."""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..sm90.sums import depart, meet
from .out import Out, columns_of, store_part, store_tile
from .sides import Side
from .tile import QUAD, Tile

AHEAD = 8
"""Slices whose sums are asked for at once."""


class Slices(NamedTuple):
    """Where a tile's sums are, its counter, a word of shared memory, and which slice of how many this block has."""

    room: fx.Pointer
    counter: fx.Pointer
    word: fx.Pointer
    which: fx.Int32
    many: fx.Int32


def finish_slice(out: Out, acc: fx.Tensor, slices: Slices, sides: tuple[Side, Side], tile: Tile) -> None:
    """A slice's sums to memory; then what this block is to add up of all slices', to C."""
    leave(acc, slices, tile)
    if out.form.sharers > 1:
        share_out(out, slices, sides, tile)
    else:
        last_adds(out, acc, slices, sides, tile)


def leave(acc: fx.Tensor, slices: Slices, tile: Tile) -> None:
    """In units of 16 bytes; neighbours' lie beside each other."""
    mine = slices.room + (fx.Int64(slices.which) * tile.size + fx.thread_idx.x * QUAD)
    for i in range(tile.rows * tile.columns // QUAD):
        place = fx.make_view(fx.get_iter(acc) + i * QUAD, fx.make_layout(QUAD, 1))
        fx.nvgpu.store_global(mine + i * (QUAD * tile.threads), place.load(), cache="cg")


@flyc.jit
def last_adds(out: Out, acc: fx.Tensor, slices: Slices, sides: tuple[Side, Side], tile: Tile):
    """Who comes last adds up all of it; nobody waits for another."""
    tid = fx.thread_idx.x
    fx.barrier()
    if tid == 0:
        before = fx.atomic_add(slices.counter, 1, syncscope="device", ordering=fx.AtomicOrdering.AcqRel)
        if before == slices.many - 1:
            # For the next launch.
            fx.generic_store(slices.counter, 0, memory_order=fx.AtomicOrdering.Monotonic, syncscope="device")
        slices.word[0] = before
    fx.barrier()
    if slices.word[0] == slices.many - 1:
        acc.fill(0.0)
        mine = slices.room + tid * QUAD
        for s in range(slices.many):
            for i in fx.range_constexpr(tile.rows * tile.columns // QUAD):
                some = fx.make_view(fx.get_iter(acc) + i * QUAD, fx.make_layout(QUAD, 1))
                place = mine + (fx.Int64(s) * tile.size + i * (QUAD * tile.threads))
                some.store(some.load() + cast("fx.Vector", fx.nvgpu.load_global(place, QUAD, cache="cg")))
        store_tile(out, acc, sides, tile)


@flyc.jit
def share_out(out: Out, slices: Slices, sides: tuple[Side, Side], tile: Tile):
    """The first slices' blocks add up a share each, once all sums are there. All of them run at the same time, unless
    another launch keeps some out: who waits in vain leaves its share to the last one."""
    tid, sharers = fx.thread_idx.x, out.form.sharers
    fx.barrier()
    meet(slices.counter, tid, slices.which, slices.many, sharers, slices.word)
    fx.barrier()
    depart(slices.counter, tid, slices.many)
    shares, per = slices.word[0], tile.rows * tile.columns // QUAD // sharers
    for s in fx.range_constexpr(sharers):
        if (shares >> s) & 1 != 0:
            for i in fx.range_constexpr(s * per, (s + 1) * per):
                values = gather(slices, i, tile)
                columns = columns_of(out, sides[1], i * QUAD % tile.columns, QUAD)
                store_part(out, values, sides[0], i * QUAD // tile.columns, columns)


@flyc.jit
def gather(slices: Slices, i: int, tile: Tile):
    """Four of a thread's sums, of all slices in their order."""
    mine = slices.room + (fx.thread_idx.x * QUAD + i * (QUAD * tile.threads))
    total = fx.make_rmem_tensor(fx.make_layout(QUAD, 1), fx.Float32)
    total.fill(0.0)
    for first in range(0, slices.many, AHEAD):
        held: list[fx.Vector] = []
        for s in fx.range_constexpr(AHEAD):
            place = mine + fx.Int64(fx.min(first + s, slices.many - 1)) * tile.size
            held.append(cast("fx.Vector", fx.nvgpu.load_global(place, QUAD, cache="cg")))
        for s in fx.range_constexpr(AHEAD):
            now = total.load()
            total.store(cast("fx.Vector", (first + s < slices.many).select(now + held[s], now)))
    return total.load()


__all__ = ["Slices", "finish_slice"]
