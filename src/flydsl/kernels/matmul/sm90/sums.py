"""Sums on their way together: parts of K of a cluster's blocks, and slices of K in memory."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .out import Out, chunk_layout, store_by_threads


def put_sums(acc: fx.Tensor, sums: fx.Pointer, member: fx.Int32, count: int) -> None:
    """A thread's sums to shared memory, in units of 16 bytes: the units of neighbours lie beside each other."""
    unit = fx.make_copy_atom(fx.UniversalCopy128b(), sums.dtype)
    four = fx.make_layout(4, 1)
    for i in range(count // 4):
        source = fx.make_view(fx.get_iter(acc) + i * 4, four)
        fx.copy_atom_call(unit, source, fx.make_view(sums + (i * 512 + member * 4), four))


def add_sums(
    sums: fx.Pointer,
    member: fx.Int32,
    first: int,
    part: fx.Int32,
    count: int,
    cluster: int,
    splits: int,
    place: fx.Int32,
) -> fx.Tensor:
    """This block's share of the columns, of all parts of K in order."""
    unit = fx.make_copy_atom(fx.UniversalCopy128b(), sums.dtype)
    four = fx.make_layout(4, 1)
    held = fx.make_rmem_tensor(fx.make_layout((4, count // 4, splits), (1, 4, count)), sums.dtype)
    begin = in_units(sums + ((part * (count // 4) + first // 4) * 512 + member * 4))
    for p in range(splits):
        there = fx.nvgpu.cluster.peer(begin, p * cluster + place)
        for i in range(count // 4):
            fx.copy_atom_call(unit, fx.make_view(there + i * 512, four), held[None, i, p])
    return in_order(held, count, splits)


def in_units(place: fx.Pointer) -> fx.Pointer:
    """The same place, known to start at a multiple of 16 bytes: of another block's address nobody else finds out."""
    units = fx.PointerType.get(place.dtype.ir_type, place.address_space, 16)
    return fx.inttoptr(units, fx.ptrtoint(place))


def in_order(held: fx.Tensor, count: int, parts: int) -> fx.Tensor:
    """The sums of all parts of K, one after the other."""
    total = fx.make_rmem_tensor(chunk_layout(count * 2), held.dtype)
    sums = held[None, None, 0].load()
    for p in range(1, parts):
        sums = sums + held[None, None, p].load()
    fx.make_view(fx.get_iter(total), fx.make_layout((4, count // 4), (1, 4))).store(sums)
    return total


def leave_sums(acc: fx.Tensor, place: fx.Pointer, count: int) -> None:
    """A thread's sums to memory, in units of 16 bytes; neighbours' lie beside each other.

    No fence: a barrier of the warpgroup follows, and then one thread tells the others with release.
    """
    unit = fx.make_copy_atom(fx.nvgpu.StoreGlobal(128, cache="cg"), place.dtype)
    four = fx.make_layout(4, 1)
    for i in range(count // 4):
        fx.copy_atom_call(unit, fx.make_view(fx.get_iter(acc) + i * 4, four), fx.make_view(place + i * 512, four))


@flyc.jit
def wait_for_slices(counter: fx.Pointer, member: fx.Int32, others: int):
    """Until the other slices' sums are in memory; the counter is zero again for the next launch."""
    if member == 0:
        found = fx.generic_load(counter, memory_order=fx.AtomicOrdering.Acquire, syncscope="device")
        while found < others:
            found = fx.generic_load(counter, memory_order=fx.AtomicOrdering.Acquire, syncscope="device")
        counter[0] = 0


def collect_sums(acc: fx.Tensor, place: fx.Pointer, count: int, others: int, size: int) -> None:
    """The sums of all slices, in their order; the last one's are here. `size` elements are between slices."""
    unit = fx.make_copy_atom(fx.nvgpu.LoadGlobal(128, cache="cg"), place.dtype)
    four = fx.make_layout(4, 1)
    some = next(x for x in (64, 32, 16, 8, 4) if count % x == 0)
    held = fx.make_rmem_tensor(fx.make_layout(some, 1), place.dtype)
    total = fx.make_rmem_tensor(fx.make_layout(some, 1), place.dtype)
    for first in range(0, count, some):
        mine = fx.make_view(fx.get_iter(acc) + first, fx.make_layout(some, 1))
        for p in range(others):
            target = total if p == 0 else held
            for i in range(some // 4):
                at = p * size + (first // 4 + i) * 512
                fx.copy_atom_call(unit, fx.make_view(place + at, four), fx.make_view(fx.get_iter(target) + i * 4, four))
            if p:
                total.store(total.load() + held.load())
        mine.store(total.load() + mine.load())


PATIENCE = 4096
"""How often a block looks for the other slices. They run at the same time, unless other launches keep them out."""
DEPARTED, GAVE_UP = 8, 16
"""Where a counter has those that are done and, a bit for each, those that did not wait; below are those that came."""


@flyc.jit
def meet(
    counter: fx.Pointer, member: fx.Int32, which: fx.Int32, slices: int | fx.Int32, sharers: int, found: fx.Pointer
):
    """Whose shares of the columns this block adds up, as bits: its own once all slices' sums are in memory.

    Who has none waits for nobody. Who waits in vain gives up, and the last to come, which waits for nobody, does its
    share: what the counter was when the last one came says who that is, and who gives up behind that sees that all have
    come.
    """
    if member == 0:
        before = fx.atomic_add(counter, 1, syncscope="device", ordering=fx.AtomicOrdering.Release)
        waits = which < sharers
        mine = waits.select(fx.Int32(1) << which, 0)
        shares = mine
        # Whoever has seen all come has seen their sums; so the last one looks, too.
        seen = fx.generic_load(counter, memory_order=fx.AtomicOrdering.Acquire, syncscope="device")
        if (before & 0xFF) == slices - 1:
            shares = mine | (before >> GAVE_UP)
        else:
            tries = waits.select(fx.Int32(0), PATIENCE)
            while ((seen & 0xFF) < slices) & (tries < PATIENCE):
                seen = fx.generic_load(counter, memory_order=fx.AtomicOrdering.Acquire, syncscope="device")
                tries = tries + 1
            if waits & ((seen & 0xFF) < slices):
                given_up = fx.Int32(1 << GAVE_UP) << which
                seen = fx.atomic_add(counter, given_up, syncscope="device", ordering=fx.AtomicOrdering.AcqRel)
                if (seen & 0xFF) < slices:
                    shares = fx.Int32(0)
        found[0] = shares & ((1 << sharers) - 1)


@flyc.jit
def depart(counter: fx.Pointer, member: fx.Int32, slices: int | fx.Int32):
    """The last to depart leaves a zero for the next launch.

    Nothing but the counter is handed on, so nobody waits until results are in memory.
    """
    if member == 0:
        before = fx.atomic_add(counter, 1 << DEPARTED, syncscope="device", ordering=fx.AtomicOrdering.Monotonic)
        if ((before >> DEPARTED) & 0xFF) == slices - 1:
            fx.generic_store(counter, 0, memory_order=fx.AtomicOrdering.Monotonic, syncscope="device")


def gather_sums(place: fx.Pointer, count: int, slices: int, size: int) -> fx.Tensor:
    """Some columns' sums of all slices, in their order; `size` elements are between slices."""
    unit = fx.make_copy_atom(fx.nvgpu.LoadGlobal(128, cache="cg"), place.dtype)
    four = fx.make_layout(4, 1)
    held = fx.make_rmem_tensor(fx.make_layout((4, count // 4, slices), (1, 4, count)), place.dtype)
    for p in range(slices):
        for i in range(count // 4):
            fx.copy_atom_call(unit, fx.make_view(place + (p * size + i * 512), four), held[None, i, p])
    return in_order(held, count, slices)


@flyc.jit
def share_out(
    out: Out,
    acc: fx.Tensor,
    work: fx.Pointer,
    counter: fx.Pointer,
    unit: fx.Int32,
    which: fx.Int32,
    found: fx.Pointer,
    row: fx.Int32,
    column: fx.Int32,
    batch: fx.Int32,
):
    """A consumer's part of a slice's tile: its sums to memory, then its share of the columns of all slices' to C."""
    tile = out.tile
    values, repeats = tile.n // 2, tile.rows // 64
    size = repeats * values * 128
    sums = work + (unit * (tile.slices * size) + out.member * 4)
    leave_sums(acc, sums + which * size, repeats * values)
    out.turn.sync()
    meet(counter, out.member, which, tile.slices, tile.sharers, found)
    out.turn.sync()
    share = tile.n // tile.sharers
    # As many columns at a time as registers hold of all slices.
    width = next(w for w in range(share, 0, -8) if share % w == 0 and w // 2 * tile.slices <= 128)
    for s in range(tile.sharers):
        if (found[0] >> s) & 1 != 0:
            for r in fx.range_constexpr(repeats):
                for i in fx.range_constexpr(share // width):
                    first = s * share + i * width
                    added = gather_sums(sums + (r * values + first // 2) * 128, width // 2, tile.slices, size)
                    store_by_threads(out, added, row, column, batch, r, first, width)
    out.turn.sync()
    depart(counter, out.member, tile.slices)


__all__ = ["add_sums", "collect_sums", "depart", "leave_sums", "meet", "put_sums", "share_out", "wait_for_slices"]
