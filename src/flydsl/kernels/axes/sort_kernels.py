"""Sorting rows: tiles in shared memory by a bitonic network, then runs merged in pairs, pass by pass.

Elements are compared by a 64-bit key and, where keys are equal, by their number, so that no two are the same: the order
is stable whatever the network does, and a merge finds the place of each element by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..rows.lines import when

MOST_TILE = 1024
"""Elements of a tile: 12 KiB of shared memory."""
THREADS = 256
HIGHEST = 2**63 - 1


def key_of(value: fx.Numeric, descending: bool) -> fx.Int64:
    """An integer that sorts as the element does: NaN behind all numbers, both zeros alike; or the other way round."""
    key = fx.Int64(value) if not type(value).is_float else _float_key(value)
    return ~key if descending else key


def _float_key(value: fx.Numeric) -> fx.Int64:
    if type(value) is fx.Float64:
        bits = (value + 0.0).bitcast(fx.Int64)
        bits = (bits < 0).select(bits ^ HIGHEST, bits)
    else:
        narrow = (value.to(fx.Float32) + 0.0).bitcast(fx.Int32)
        bits = fx.Int64((narrow < 0).select(narrow ^ 0x7FFFFFFF, narrow))
    return (value == value).select(bits, fx.Int64(HIGHEST))


@flyc.jit
def _network(bits: int, step: Callable[[fx.Int32, fx.Int32], None]):
    """The steps of a bitonic sort of 2^bits elements: the size of what is sorted, and how far partners are apart."""
    for k in range(fx.Int32(1), fx.Int32(bits + 1)):
        for j in range(k):
            step(fx.Int32(1) << k, fx.Int32(1) << (k - 1 - j))


@flyc.kernel
def sort_tiles_kernel(
    x: fx.Tensor,
    keys: fx.Tensor | None,
    numbers: fx.Tensor,
    n: fx.Int32,
    tiles: fx.Int32,
    tile: fx.Constexpr[int],
    descending: fx.Constexpr[bool],
):
    row, first = fx.block_idx.x // tiles, fx.block_idx.x % tiles * tile
    half = tile // 2
    thread = fx.thread_idx.x
    shared = fx.SharedAllocator()
    held = shared.allocate(fx.Array[fx.Int64, tile, 16]).peek()
    places = shared.allocate(fx.Array[fx.Int32, tile, 16]).peek()
    for i in fx.range_constexpr(2):
        at = first + thread + i * half
        found = key_of(x[row, fx.min(at, n - 1)], descending)
        # What fills the last tile is behind everything, as its numbers are.
        held[thread + i * half] = (at < n).select(found, fx.Int64(HIGHEST))
        places[thread + i * half] = at
    fx.barrier()

    def step(size: fx.Int32, apart: fx.Int32) -> None:
        low = 2 * thread - (thread & (apart - 1))
        high = low + apart
        a, b, p, q = held[low], held[high], places[low], places[high]
        more = (a > b) | ((a == b) & (p > q))
        turn = more ^ ((low & size) != 0)
        held[low], held[high] = turn.select(b, a), turn.select(a, b)
        places[low], places[high] = turn.select(q, p), turn.select(p, q)
        fx.barrier()

    _network(tile.bit_length() - 1, step)
    for i in fx.range_constexpr(2):
        here = thread + i * half

        def leave(here: fx.Int32 = here) -> None:
            numbers[row, first + here] = numbers.dtype(places[here])
            if keys is not None:
                keys[row, first + here] = held[here]

        when(first + here < n, leave)


@flyc.jit
def sort_tiles(
    x: fx.Tensor,
    keys: fx.Tensor | None,
    numbers: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    tiles: fx.Int32,
    tile: fx.Constexpr[int],
    descending: fx.Constexpr[bool],
    stream: fx.Stream = fx.Stream(None),
):
    """The order of the elements of each tile of each row, and their keys in that order."""
    sort_tiles_kernel(x, keys, numbers, n, tiles, tile, descending).launch(
        grid=m * tiles, block=tile // 2, stream=stream
    )


@flyc.jit
def _before(
    keys: fx.Tensor, numbers: fx.Tensor, row: fx.Int32, low: fx.Int32, high: fx.Int32, key: fx.Int64, number: fx.Int32
) -> fx.Int32:
    """How many of a sorted run come before an element."""
    first, last = low, high
    while first < last:
        middle = (first + last) // 2
        found = keys[row, middle]
        less = (found < key) | ((found == key) & (numbers[row, middle] < number))
        first = less.select(middle + 1, first)
        last = less.select(last, middle)
    return first - low


@flyc.kernel
def merge_runs_kernel(
    keys: fx.Tensor,
    numbers: fx.Tensor,
    keys_out: fx.Tensor | None,
    numbers_out: fx.Tensor,
    n: fx.Int32,
    run: fx.Int32,
    blocks: fx.Int32,
):
    row, at = fx.block_idx.x // blocks, fx.block_idx.x % blocks * THREADS + fx.thread_idx.x

    def work() -> None:
        begin = at // (2 * run) * (2 * run)
        middle, end = fx.min(begin + run, n), fx.min(begin + 2 * run, n)
        left = at < middle
        key, number = keys[row, at], numbers[row, at]
        rank = _before(keys, numbers, row, left.select(middle, begin), left.select(end, middle), key, number)
        to = left.select(at, at - run) + rank
        numbers_out[row, to] = numbers_out.dtype(number)
        if keys_out is not None:
            keys_out[row, to] = key

    when(at < n, work)


@flyc.jit
def merge_runs(
    keys: fx.Tensor,
    numbers: fx.Tensor,
    keys_out: fx.Tensor | None,
    numbers_out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    run: fx.Int32,
    stream: fx.Stream = fx.Stream(None),
):
    """Merge sorted runs of `run` elements in pairs."""
    blocks = fx.ceildiv(n, THREADS)
    merge_runs_kernel(keys, numbers, keys_out, numbers_out, n, run, blocks).launch(
        grid=m * blocks, block=THREADS, stream=stream
    )


@flyc.kernel
def gather_rows_kernel(x: fx.Tensor, numbers: fx.Tensor, out: fx.Tensor, n: fx.Int32, blocks: fx.Int32):
    row, at = fx.block_idx.x // blocks, fx.block_idx.x % blocks * THREADS + fx.thread_idx.x

    def work() -> None:
        out[row, at] = x[row, fx.Int32(numbers[row, at])]

    when(at < n, work)


@flyc.jit
def gather_rows(
    x: fx.Tensor,
    numbers: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    stream: fx.Stream = fx.Stream(None),
):
    """out[i, j] = x[i, numbers[i, j]]."""
    blocks = fx.ceildiv(n, THREADS)
    gather_rows_kernel(x, numbers, out, n, blocks).launch(grid=m * blocks, block=THREADS, stream=stream)
