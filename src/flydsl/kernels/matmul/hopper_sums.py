"""Sums on their way together: parts of K of a cluster's blocks, and slices of K in memory."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .hopper_out import chunk_layout


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
    total = fx.make_rmem_tensor(chunk_layout(count * 2), sums.dtype)
    held = fx.make_rmem_tensor(chunk_layout(count * 2), sums.dtype)
    for p in range(splits):
        there = fx.nvgpu.cluster.peer(sums, p * cluster + place)
        target = total if p == 0 else held
        for i in range(count // 4):
            at = (part * (count // 4) + (first // 4 + i)) * 512 + member * 4
            fx.copy_atom_call(unit, fx.make_view(there + at, four), fx.make_view(fx.get_iter(target) + i * 4, four))
        if p:
            total.store(total.load() + held.load())
    return total


def leave_sums(acc: fx.Tensor, place: fx.Pointer, count: int) -> None:
    """A thread's sums to memory, in units of 16 bytes; neighbours' lie beside each other."""
    unit = fx.make_copy_atom(fx.nvgpu.StoreGlobal(128, cache="cg"), place.dtype)
    four = fx.make_layout(4, 1)
    for i in range(count // 4):
        fx.copy_atom_call(unit, fx.make_view(fx.get_iter(acc) + i * 4, four), fx.make_view(place + i * 512, four))
    fx.memory_fence(syncscope="device", ordering=fx.AtomicOrdering.Release)


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
    some = count if count <= 64 else next(x for x in (48, 40, 32, 16, 8) if count % x == 0)
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


__all__ = ["add_sums", "collect_sums", "leave_sums", "put_sums", "wait_for_slices"]
