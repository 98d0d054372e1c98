"""Collectives of warps: reductions with functions, scans of items, sorts, tiles, batches."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Call, poison, program, randint

coop = fx.coop


@flyc.kernel
def reduce_kernel(x: fx.Tensor, out: fx.Tensor, count: fx.Int32):
    """A function of two elements, lanes that do not count, and items of a lane."""
    t = fx.thread_idx.x
    a, b = x[t], x[t + 64]
    out[t] = coop.warp_reduce(a, lambda p, q: fx.max(p, q), width=16)
    out[t + 64] = coop.warp_reduce(a, fx.ReductionOp.ADD, width=8, valid_items=count)
    out[t + 128] = coop.WarpReduce[fx.Int32, 32].reduce([a, b], fx.ReductionOp.MIN)
    out[t + 192] = coop.warp_broadcast(b, t % 4, width=4)


@flyc.jit
def reduce(x: fx.Tensor, out: fx.Tensor, count: fx.Int32):
    reduce_kernel(x, out, count).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(reduce)
def reductions_of_lanes():
    x, out = randint(-1000, 1000, 128), poison(256, dtype=torch.int32)
    a, b = x.long()[:64], x.long()[64:]
    wanted = [
        a.reshape(-1, 16).max(1).values.repeat_interleave(16), a.reshape(-1, 8)[:, :5].sum(1).repeat_interleave(8),
        torch.minimum(a, b).reshape(-1, 32).min(1).values.repeat_interleave(32), b,
    ]  # fmt: skip
    return Call([x, out, 5], [(out, torch.cat(wanted))])


@flyc.kernel
def scan_kernel(x: fx.Tensor, out: fx.Tensor):
    """Items of a lane follow those of the lane before."""
    t = fx.thread_idx.x
    items = fx.Vector.from_elements([x[t * 2], x[t * 2 + 1]], dtype=fx.Int32)
    first, second, total = coop.warp_scan_with_aggregate(items, fx.ReductionOp.ADD, width=16, init=7)
    out[t] = first[0]
    out[t + 64] = first[1]
    out[t + 128] = second[1]
    out[t + 192] = total


@flyc.jit
def scan(x: fx.Tensor, out: fx.Tensor):
    scan_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(scan)
def scans_of_items():
    x, out = randint(-1000, 1000, 128), poison(256, dtype=torch.int32)
    tile = x.long().reshape(4, 32)
    sums = tile.cumsum(1) + 7
    parts = [sums[:, ::2], sums[:, 1::2], sums[:, ::2], tile.sum(1, keepdim=True).expand(4, 16)]
    return Call([x, out], [(out, torch.cat([part.reshape(-1) for part in parts]))])


@flyc.kernel
def sort_kernel(x: fx.Tensor, out: fx.Tensor):
    """Keys with payloads, in the order of lanes."""
    t = fx.thread_idx.x
    (low,) = coop.warp_bitonic_sort([x[t]], width=32, compare_op=lambda a, b: a < b)
    keys, values = coop.warp_merge_sort([x[t] % 4], [t], width=8, compare_op=lambda a, b: a < b)
    out[t] = low
    out[t + 64] = keys[0]
    out[t + 128] = values[0]


@flyc.jit
def sort(x: fx.Tensor, out: fx.Tensor):
    sort_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(sort)
def sorts_of_lanes():
    x, out = randint(0, 1000, 64), poison(192, dtype=torch.int32)
    keys = (x.long() % 4).reshape(-1, 8)
    found = torch.sort(keys, dim=1, stable=True)
    places = found.indices + 8 * torch.arange(8)[:, None]
    parts = [x.long().reshape(-1, 32).sort(1).values, found.values, places]
    return Call([x, out], [(out, torch.cat([part.reshape(-1) for part in parts]))])


@flyc.kernel
def tile_kernel(x: fx.Tensor, out: fx.Tensor, count: fx.Int32):
    """A tile read in rows and held in columns; results of many reductions spread over the lanes."""
    t = fx.thread_idx.x
    tile = t // 16
    load = coop.WarpLoad[fx.Int32, 16, 4, coop.WarpLoadAlgorithm.TRANSPOSE]
    items = load.load(x, offset=tile * 64, valid_items=count, default=0)
    kind = coop.WarpExchange[fx.Int32, 16, 4]
    scratch = fx.SharedAllocator().allocate(fx.Array[kind.SharedStorage, 4]).peek()
    striped = kind.blocked_to_striped(items, storage=scratch[tile])
    store = coop.WarpStore[fx.Int32, 16, 4, coop.WarpStoreAlgorithm.STRIPED]
    store.store(out, striped, offset=tile * 64)
    out[256 + t] = coop.warp_reduce_batched(items, fx.ReductionOp.ADD, width=4)


@flyc.jit
def tiles(x: fx.Tensor, out: fx.Tensor, count: fx.Int32):
    tile_kernel(x, out, count).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(tiles)
def tiles_of_lanes():
    x, out = randint(-1000, 1000, 256), poison(320, dtype=torch.int32)
    tile = x.long().reshape(4, 64).clone()
    tile[:, 50:] = 0
    sums = tile.reshape(16, 4, 4).sum(1)
    return Call([x, out, 50], [(out, torch.cat([tile.reshape(-1), sums.reshape(-1)]))])
