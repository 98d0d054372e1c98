"""Many largest elements of a row, in two passes over it.

Each thread finds the unit that has the largest of its own elements. The k-th largest of those is at most the k-th
largest of the row, so whatever is below it is out. What is left belongs to k threads, and is little more than k
elements unless one thread has many of the largest: it is sorted in shared memory. Where there is no room for it, a pass
finds one element, k times.

Few long rows are cut into parts, so that all multiprocessors have some; the largest of what parts have are the row's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..form import BUSY, Form
from ..lines import Lines, Place, either, when

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

MOST_THREADS = 1024
"""Threads of a block, and the most elements that are looked for."""
MOST_CANDIDATES = 4096
"""Candidates that shared memory has room for: 32 KiB."""
LEAST_THREADS, SOME_THREADS = 64, 256
LEAST_PART, WHOLE, MOST_PARTS = 4096, 64, 32
"""Elements of a part at least, what all but the last are multiples of, and how many of them leave it enough."""
AHEAD = 4
"""Units that a thread reads at once."""
LOWEST_KEY, LOWEST, HIGHEST = -(2**31), -(2**63), 2**63 - 1


def parts_of(m: int, n: int, k: int, unit: int) -> tuple[int, int]:
    """Parts of each row, and the elements of all but the last part."""
    parts = 1
    while (
        2 * parts * m * threads_for(n // unit, k) <= BUSY
        and parts < MOST_PARTS
        and n // (2 * parts) >= max(LEAST_PART, 4 * k)
    ):
        parts *= 2
    length = -(-n // (parts * WHOLE)) * WHOLE
    return parts, length


def threads_for(units: int, k: int) -> int:
    """Threads of a row: twice as many as are looked for, so that their largest elements are a good bound.

    More would only sort more of them, and leave a multiprocessor fewer rows.
    """
    most = max(SOME_THREADS, _power(2 * k))
    return min(max(min(most, _power(units)), _power(k), LEAST_THREADS), MOST_THREADS)


def _power(x: int) -> int:
    return 1 << (x - 1).bit_length()


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


def part_of(x: fx.Tensor, first: fx.Int32) -> fx.Tensor:
    """The columns of a matrix from `first` on."""
    return fx.make_view(fx.get_iter(x) + first, fx.get_layout(x))


def _highest(values: Value) -> Value:
    """The largest of the elements, a NaN before all."""
    return values.reduce("maximumf") if isinstance(values, fx.Vector) else values


@flyc.kernel
def many_largest_kernel(
    x: fx.Tensor,
    names: fx.Tensor | None,
    values: fx.Tensor,
    numbers: fx.Tensor,
    length: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    parts: fx.Constexpr[int],
    form: fx.Constexpr[Form],
):
    row, thread, threads = fx.block_idx.x, fx.thread_idx.x, form.team
    room = min(8 * threads, MOST_CANDIDATES)
    begin, column = fx.Int32(0), fx.Int32(0)
    if fx.const_expr(parts > 1):
        part = row % parts
        row, begin, column = row // parts, part * length, part * k
        x, n = part_of(x, begin), fx.min(length, n - begin)
    shared = fx.SharedAllocator()
    firsts = shared.allocate(fx.Array[fx.Int64, threads, 16]).peek()
    held = shared.allocate(fx.Array[fx.Int64, room, 16]).peek()
    count = shared.allocate(fx.Array[fx.Int32, 1, 16]).peek()
    lines = Lines(form, row, fx.Int32(0), n, shared, x=x)
    line = lines.line(x)

    def look(at: Place, so_far: list[Value]) -> list[Value]:
        best, number = so_far
        (key,) = keys_of(_highest(lines.read("x", at)), 1)
        last = at.at + (at.size - 1)  # no element with that value is behind it
        # Numbers rise, so that the first of equal ones stays; the edge is looked at last, its front comes first.
        more = (key > best) | ((key == best) & (last < number)) if at.size == 1 else key > best
        more = more if at.here is True else more & at.here
        return [more.select(key, best), more.select(last, number)]

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
        read = lines.read("x", at)
        (highest,) = keys_of(_highest(read), 1)
        here = highest >= lowest if at.here is True else (highest >= lowest) & at.here
        when(here, lambda: look_closer(at, read))

    def look_closer(at: Place, read: Value) -> None:
        for i, key in enumerate(keys_of(read, at.size)):
            when(key >= lowest, lambda key=key, i=i: consider(rank_of(key, at.at + i)))

    def consider(rank: fx.Int64) -> None:
        when(rank >= bound, lambda: take(rank))

    lines.each(choose, ("x",))
    fx.barrier()
    found = count[0]

    def leave(j: fx.Int32, rank: fx.Int64) -> None:
        at = number_of(rank)
        name = begin + at if names is None else names[row, at]
        numbers[row, column + j] = numbers.dtype(name)
        values[row, column + j] = values.dtype(line[at])

    def sort_them() -> None:
        bits = fx.Int32(0)
        for i in range(room.bit_length() - 1):
            bits = (found > 2**i).select(fx.Int32(i + 1), bits)
        sort_down(held, bits, threads)
        _for_each(thread, k, threads, lambda j: leave(j, held[j]))

    def one_by_one() -> None:
        _passes(k, lambda j, below: _next(lines, firsts, threads, j, below, leave))

    either(found <= room, sort_them, one_by_one)


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
    names: fx.Tensor | None,
    values: fx.Tensor,
    numbers: fx.Tensor,
    m: fx.Int32,
    length: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    parts: fx.Constexpr[int],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The `k` largest elements of each row, at most as many as a block has threads, and their numbers, or their names.

    Of rows in several parts, each of `length` but the last, `k` of each part.
    """
    many_largest_kernel(x, names, values, numbers, length, n, k, parts, form).launch(
        grid=m * parts, block=form.team, stream=stream
    )
