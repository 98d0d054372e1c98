"""Many largest elements of a row, in two passes over it.

Each thread finds the largest of its own elements. The k-th largest of those is at most the k-th largest of the row, so
whatever is below it is out. What is left belongs to k threads, and is little more than k elements unless one thread has
many of the largest: it is sorted in shared memory. Where there is no room for it, a pass finds one element, k times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .form import Form
from .lines import Lines, Place, when

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

MOST_THREADS = 1024
"""Threads of a block, and the most elements that are looked for."""
MOST_CANDIDATES = 4096
"""Candidates that shared memory has room for: 32 KiB."""
AHEAD = 4
"""Units that a thread reads at once."""
LOWEST_KEY, LOWEST, HIGHEST = -(2**31), -(2**63), 2**63 - 1


def threads_for(units: int, k: int) -> int:
    """Threads of a row: as many as it has units, and as are looked for."""
    return min(max(1 << (max(units, k) - 1).bit_length(), 64), MOST_THREADS)


def keys_of(values: Value, size: int) -> list[fx.Int32]:
    """Integers that sort as the elements do: a NaN above all numbers, both zeros alike."""
    made: list[fx.Int32] = []
    for i in range(size):
        value = values[i] if isinstance(values, fx.Vector) else values
        bits = (value + 0.0).bitcast(fx.Int32)
        bits = (bits < 0).select(bits ^ 0x7FFFFFFF, bits)
        made.append((value == value).select(bits, fx.Int32(0x7FFFFFFF)))
    return made


def rank_of(key: fx.Int32, number: fx.Int32) -> fx.Int64:
    """What sorts elements, of equal ones the first in front: no two are the same."""
    return fx.Int64(key) * 2**32 + (2**32 - 1 - fx.Int64(number))


def number_of(rank: fx.Int64) -> fx.Int32:
    """The number of the element with that rank."""
    return fx.Int32(2**32 - 1 - (rank & (2**32 - 1)))


@flyc.jit
def sort_down(held: fx.Array, bits: fx.Int32, threads: int):
    """Sort 2^bits ranks in shared memory, highest first, by a bitonic network."""
    for k in range(fx.Int32(1), bits + 1):
        for j in range(k):
            _exchange(held, fx.Int32(1) << (bits - 1), fx.Int32(1) << k, fx.Int32(1) << (k - 1 - j), threads)


@flyc.jit
def _exchange(held: fx.Array, pairs: fx.Int32, size: fx.Int32, apart: fx.Int32, threads: int):
    for pair in range(fx.thread_idx.x, pairs, threads):
        low = 2 * pair - (pair & (apart - 1))
        a, b = held[low], held[low + apart]
        turn = (a < b) ^ ((low & size) != 0)
        held[low], held[low + apart] = turn.select(b, a), turn.select(a, b)
    fx.barrier()


@flyc.jit
def _for_each(first: fx.Int32, end: fx.Int32, step: int, work: Callable[[fx.Int32], None]):
    for i in range(first, end, step):
        work(i)


@flyc.jit
def _either(which: fx.Boolean, work: Callable[[], None], other: Callable[[], None]):
    if which:
        work()
    else:
        other()


@flyc.kernel
def many_largest_kernel(
    x: fx.Tensor, values: fx.Tensor, numbers: fx.Tensor, n: fx.Int32, k: fx.Int32, form: fx.Constexpr[Form]
):
    row, thread, threads = fx.block_idx.x, fx.thread_idx.x, form.team
    room = min(8 * threads, MOST_CANDIDATES)
    shared = fx.SharedAllocator()
    firsts = shared.allocate(fx.Array[fx.Int64, threads, 16]).peek()
    held = shared.allocate(fx.Array[fx.Int64, room, 16]).peek()
    count = shared.allocate(fx.Array[fx.Int32, 1, 16]).peek()
    lines = Lines(form, row, fx.Int32(0), n, shared, x=x)
    line = lines.line(x)

    def look(at: Place, so_far: list[Value]) -> list[Value]:
        best, number = so_far
        for i, key in enumerate(keys_of(lines.read("x", at), at.size)):
            # Numbers rise, so that the first of equal ones stays; the edge is looked at last, its front comes first.
            more = (key > best) | ((key == best) & (at.at + i < number)) if at.size == 1 else key > best
            more = more if at.here is True else more & at.here
            best, number = more.select(key, best), more.select(at.at + i, number)
        return [best, number]

    best, number = lines.collect([fx.Int32(LOWEST_KEY), fx.Int32(2**31 - 1)], look, ("x",))
    firsts[thread] = rank_of(cast("fx.Int32", best), cast("fx.Int32", number))
    count[0] = fx.Int32(0)
    for i in fx.range_constexpr(room // threads):
        held[thread + i * threads] = fx.Int64(LOWEST)
    fx.barrier()
    sort_down(firsts, fx.Int32(threads.bit_length() - 1), threads)
    bound = firsts[k - 1]
    lowest = fx.Int32(bound >> 32)

    def take(rank: fx.Int64) -> None:
        place = fx.atomic_add(count.ptr, 1, syncscope=fx.SyncScope.Block)
        when(place < room, lambda: held.__setitem__(place, rank))

    def choose(at: Place) -> None:
        for i, key in enumerate(keys_of(lines.read("x", at), at.size)):
            here = key >= lowest if at.here is True else (key >= lowest) & at.here
            when(here, lambda key=key, i=i: consider(rank_of(key, at.at + i)))

    def consider(rank: fx.Int64) -> None:
        when(rank >= bound, lambda: take(rank))

    lines.each(choose, ("x",))
    fx.barrier()
    found = count[0]

    def leave(j: fx.Int32, rank: fx.Int64) -> None:
        at = number_of(rank)
        numbers[row, j] = numbers.dtype(at)
        values[row, j] = values.dtype(line[at])

    def sort_them() -> None:
        bits = fx.Int32(0)
        for i in range(room.bit_length() - 1):
            bits = (found > 2**i).select(fx.Int32(i + 1), bits)
        sort_down(held, bits, threads)
        _for_each(thread, k, threads, lambda j: leave(j, held[j]))

    def one_by_one() -> None:
        _passes(k, lambda j, below: _next(lines, firsts, threads, j, below, leave))

    _either(found <= room, sort_them, one_by_one)


@flyc.jit
def _passes(k: fx.Int32, work: Callable[[fx.Int32, fx.Int64], fx.Int64]):
    below = fx.Int64(HIGHEST)
    for j in range(k):
        below = work(j, below)


def _next(
    lines: Lines,
    firsts: fx.Array,
    threads: int,
    j: fx.Int32,
    below: fx.Int64,
    leave: Callable[[fx.Int32, fx.Int64], None],
) -> fx.Int64:
    """Find the highest rank below another."""

    def look(at: Place, so_far: list[Value]) -> list[Value]:
        best = so_far[0]
        for i, key in enumerate(keys_of(lines.read("x", at), at.size)):
            rank = rank_of(key, at.at + i)
            counts = rank < below if at.here is True else (rank < below) & at.here
            best = fx.max(best, counts.select(rank, fx.Int64(LOWEST)))
        return [best]

    (mine,) = lines.collect([fx.Int64(LOWEST)], look)
    highest = fx.coop.warp_reduce(cast("fx.Int64", mine), fx.ReductionOp.MAX)
    lanes = fx.num_warp_threads()
    warps = threads // lanes
    lane, warp = fx.thread_idx.x % lanes, fx.thread_idx.x // lanes
    when(lane == 0, lambda: firsts.__setitem__(warp, highest))
    fx.barrier()
    highest = firsts[lane % warps]
    highest = fx.coop.warp_reduce(highest, fx.ReductionOp.MAX, width=warps) if warps > 1 else highest
    when(fx.thread_idx.x == 0, lambda: leave(j, highest))
    fx.barrier()
    return highest


@flyc.jit
def many_largest_rows(
    x: fx.Tensor,
    values: fx.Tensor,
    numbers: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The `k` largest elements of each row, at most as many as a block has threads, and their numbers."""
    many_largest_kernel(x, values, numbers, n, k, form).launch(grid=m, block=form.team, stream=stream)
