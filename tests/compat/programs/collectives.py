"""Collectives of blocks: rows that are loaded, sorted, encoded, selected from and stored."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import coop

from .case import Call, poison, program, randint, randn

THREADS, ITEMS = 128, 4
TILE = THREADS * ITEMS


@flyc.kernel
def sort_rows_kernel(keys: fx.Tensor, out: fx.Tensor, order: fx.Tensor):
    first = fx.block_idx.x * TILE
    load = coop.BlockLoad[fx.Float32, THREADS, ITEMS, coop.BlockLoadAlgorithm.TRANSPOSE]
    sort = coop.BlockRadixSort[(fx.Float32, fx.Int32), THREADS, ITEMS, coop.BlockRadixSortAlgorithm.RADIX_DIGIT]
    store = coop.BlockStore[fx.Float32, THREADS, ITEMS, coop.BlockStoreAlgorithm.STRIPED]
    places = coop.BlockStore[fx.Int32, THREADS, ITEMS, coop.BlockStoreAlgorithm.STRIPED]
    memory = fx.SharedAllocator()
    staged = memory.allocate(load.SharedStorage).peek()
    scratch = memory.allocate(sort.SharedStorage).peek()
    value = load(keys, storage=staged, offset=first)
    index = fx.Vector.from_elements([fx.thread_idx.x * ITEMS + i for i in range(ITEMS)], fx.Int32)
    ordered, moved = sort(value, index, storage=scratch, descending=True, blocked_to_striped=True)
    store(out, ordered, offset=first)
    places(order, moved, offset=first)


@flyc.jit
def sort_rows(keys: fx.Tensor, out: fx.Tensor, order: fx.Tensor, m: fx.Int32):
    sort_rows_kernel(keys, out, order).launch(grid=(m, 1, 1), block=(THREADS, 1, 1))


@program(sort_rows)
def sorted_rows_with_places():
    x = randn(3 * TILE)
    out, order = poison(3 * TILE), poison(3 * TILE, dtype=torch.int32)
    found = x.reshape(3, TILE).sort(dim=1, descending=True, stable=True)
    return Call([x, out, order, 3], [(out, found.values.reshape(-1)), (order, found.indices.reshape(-1))])


@flyc.kernel
def encode_kernel(x: fx.Tensor, values: fx.Tensor, starts: fx.Tensor, again: fx.Tensor, steps: fx.Tensor):
    """Runs of equal numbers: their values and where they begin, decoded again, and the differences of neighbours."""
    t = fx.thread_idx.x
    load = coop.BlockLoad[fx.Int32, THREADS, ITEMS]
    edges = coop.BlockDiscontinuity[fx.Int32, THREADS]
    scan = coop.BlockScan[fx.Int32, THREADS]
    exchange = coop.BlockExchange[fx.Int32, THREADS, ITEMS]
    decode = coop.BlockRunLengthDecode[fx.Int32, THREADS, ITEMS]
    difference = coop.BlockAdjacentDifference[fx.Int32, THREADS]
    store = coop.BlockStore[fx.Int32, THREADS, ITEMS]
    memory = fx.SharedAllocator()
    held = [memory.allocate(c.SharedStorage).peek() for c in (edges, scan, exchange, decode, difference)]
    item = load(x)
    heads = edges.flag_heads(item, storage=held[0])
    before, count = scan.exclusive_with_aggregate(heads, fx.ReductionOp.ADD, storage=held[1], init=0)
    place = fx.Vector.from_elements([t * ITEMS + i for i in range(ITEMS)], fx.Int32)
    run = exchange.scatter_to_striped_flagged(item, before, heads, storage=held[2], default=-1)
    fx.barrier()
    start = exchange.scatter_to_striped_flagged(place, before, heads, storage=held[2], default=TILE)
    fx.barrier()
    run = exchange.striped_to_blocked(run, storage=held[2])
    fx.barrier()
    start = exchange.striped_to_blocked(start, storage=held[2])
    store(values, run, valid_items=count)
    store(starts, start, valid_items=count)
    state = decode.init_with_run_offsets(run, start, storage=held[3], total=TILE)
    whole, _, _ = state.decode(decoded_items_per_thread=ITEMS)
    store(again, whole)
    store(steps, difference.subtract_left(item, storage=held[4], predecessor=0))


@flyc.jit
def encode(x: fx.Tensor, values: fx.Tensor, starts: fx.Tensor, again: fx.Tensor, steps: fx.Tensor):
    encode_kernel(x, values, starts, again, steps).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))


@program(encode)
def run_lengths():
    x = randint(0, 3, TILE)
    values, starts, again, steps = (poison(TILE, dtype=torch.int32) for _ in range(4))
    found, lengths = torch.unique_consecutive(x, return_counts=True)
    want_values, want_starts = values.clone(), starts.clone()
    want_values[: len(found)] = found
    want_starts[: len(found)] = (lengths.cumsum(0) - lengths).int()
    return Call(
        [x, values, starts, again, steps],
        [(values, want_values), (starts, want_starts), (again, x), (steps, x.diff(prepend=x.new_zeros(1)))],
    )


@flyc.kernel
def select_kernel(x: fx.Tensor, best: fx.Tensor, where: fx.Tensor, counts: fx.Tensor, k: fx.Int32):
    t = fx.thread_idx.x
    load = coop.BlockLoad[fx.Int32, THREADS, ITEMS, coop.BlockLoadAlgorithm.VECTORIZE]
    top = coop.BlockTopK[(fx.Int32, fx.Int32), THREADS, ITEMS, coop.BlockTopKAlgorithm.AIR]
    merge = coop.BlockMergeSort[(fx.Int32, fx.Int32), THREADS, ITEMS]
    histogram = coop.BlockHistogram[fx.Int32, THREADS, 16]
    shuffle = coop.BlockShuffle[fx.Int32, THREADS]
    store = coop.BlockStore[fx.Int32, THREADS, ITEMS]
    memory = fx.SharedAllocator()
    held = [memory.allocate(c.SharedStorage).peek() for c in (top, merge, histogram, shuffle)]
    item = load(x)
    place = fx.Vector.from_elements([t * ITEMS + i for i in range(ITEMS)], fx.Int32)
    keys, places, _ = top(item, k, place, storage=held[0], largest=True)
    # What was selected, by the last digit.
    keys, places = merge(
        keys, places, storage=held[1], compare_op=lambda a, b: a % 10 < b % 10, valid_items=k, oob_default=-1
    )
    store(best, keys)
    store(where, places, valid_items=k)
    found = histogram(item // 10, storage=held[2])
    if t < 16:
        counts[t] = found[t]
    turned = shuffle.rotate(item[0], -1, storage=held[3])
    counts[16 + t] = turned


@flyc.jit
def select(x: fx.Tensor, best: fx.Tensor, where: fx.Tensor, counts: fx.Tensor, k: fx.Int32):
    select_kernel(x, best, where, counts, k).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))


@program(select)
def selected_and_counted():
    x, k = randint(0, 150, TILE), 37
    best, where = (poison(TILE, dtype=torch.int32) for _ in range(2))
    counts = poison(16 + THREADS, dtype=torch.int32)
    chosen = x.sort(descending=True, stable=True).indices[:k].sort().values
    chosen = chosen[(x[chosen] % 10).sort(stable=True).indices]
    want_best, want_where = torch.full_like(best, -1), where.clone()
    want_best[:k], want_where[:k] = x[chosen], chosen.int()
    want = torch.cat([torch.bincount(x // 10, minlength=16).int()[:16], x[::ITEMS].roll(1)])
    return Call([x, best, where, counts, k], [(best, want_best), (where, want_where), (counts, want)])
