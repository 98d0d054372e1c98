"""Exchanges, loads and stores: every arrangement, algorithm and guard, against permutations by numpy."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.expr import coop

from .blocks import ARCHS, GPUS, Draw, compiled, poison, random, rank_of, read, run, threads_of, write


def warp_striped(x: np.ndarray, threads: int, items: int, arch: str) -> np.ndarray:
    """What the threads hold, one row each, of a sequence in stripes of warps."""
    warp = min(64 if arch == "gfx942" else 32, threads)
    return x.reshape(threads // warp, items, warp).transpose(0, 2, 1).reshape(threads, items)


@pytest.mark.parametrize("arch", ARCHS)
def test_arrangements(arch: str, draw: Draw):
    block, items = draw.block(arch), draw.of(1, 2, 3, 8)
    threads = threads_of(block)
    count = threads * items
    dtype = draw.of(fx.Int8, fx.Uint16, fx.Int32, fx.Float32, fx.Int64)
    x, ranks = random(draw.rng, dtype, count), draw.rng.permutation(count).astype("i4")
    guarded = np.where(draw.rng.random(count) < 0.3, draw.of(-1, count, count + 9), ranks).astype("i4")
    flags = (draw.rng.random(count) < 0.6).astype("i4")
    out = poison(dtype, count * 8)

    def body(place, x, ranks, guarded, flags, out):
        value, to, maybe, on = (read(a, block, items) for a in (x, ranks, guarded, flags))
        line = 0
        for algorithm in coop.BlockExchangeAlgorithm:
            exchange = coop.BlockExchange[dtype, block, items, algorithm]
            if algorithm is draw_algorithm:
                striped = exchange.blocked_to_striped(value, storage=place(exchange))
                in_warps = exchange.blocked_to_warp_striped(list(value), storage=place(exchange))
                back = exchange.striped_to_blocked(striped, storage=place(exchange))
                again = exchange.warp_striped_to_blocked(in_warps, storage=place(exchange))
                made = [striped, in_warps, back, again]
            else:
                made = [
                    exchange.scatter_to_blocked(value, to, storage=place(exchange)),
                    exchange.scatter_to_striped(value, to, storage=place(exchange)),
                    exchange.scatter_to_striped_guarded(value, maybe, storage=place(exchange), default=3),
                    exchange.scatter_to_striped_flagged(value, to, on, storage=place(exchange)),
                ]
            for one in made:
                write(out, one, block, line * count)
                line += 1

    draw_algorithm = draw.of(*coop.BlockExchangeAlgorithm)
    run(body, x, ranks, guarded, flags, out, block=block, arch=arch)
    moved, some, few = np.zeros(count, x.dtype), np.full(count, 3, x.dtype), np.zeros(count, x.dtype)
    moved[ranks] = x
    inside = (guarded >= 0) & (guarded < count)
    some[guarded[inside]] = x[inside]
    few[ranks[flags != 0]] = x[flags != 0]
    striped = lambda v: v.reshape(items, threads).T  # noqa: E731
    kept = [striped(x), warp_striped(x, threads, items, arch), x, x]
    scattered = [moved, striped(moved), striped(some), striped(few)]
    first = draw_algorithm is next(iter(coop.BlockExchangeAlgorithm))
    want = [*kept, *scattered] if first else [*scattered, *kept]
    assert out.reshape(8, count).tolist() == [w.reshape(-1).tolist() for w in want]


@fx.struct
class Pair:
    key: fx.Int32
    weights: fx.Float32x2


def test_structs_are_items(draw: Draw):
    block, items = 64, 3
    x, out = random(draw.rng, fx.Int32, block * items, few=True), poison(fx.Float32, block * items * 3)

    def body(place, x, out):
        exchange = coop.BlockExchange[Pair, block, items, coop.BlockExchangeAlgorithm.WARP_TIME_SLICING]
        value = [Pair(v, fx.Float32x2([v.to(fx.Float32), 0.5])) for v in read(x, block, items)]
        striped = exchange.blocked_to_striped(value, storage=place(exchange))
        assert isinstance(striped, tuple) and type(striped[0]) is Pair
        rank = rank_of(block)
        ranks = [rank * items + i for i in range(items)]
        filled = exchange.scatter_to_striped_guarded(value, ranks[:2] + [-1], storage=place(exchange), default=9)
        made = [part for a, b in zip(striped, filled, strict=True)
                for part in (a.key.to(fx.Float32) + a.weights[1], b.key.to(fx.Float32), b.weights[0])]  # fmt: skip
        write(out, made, block)

    run(body, x, out, block=block, arch="gfx1201")
    striped = x.reshape(items, block).T
    kept = np.where(np.arange(block * items) % items == 2, 9, x).reshape(items, block).T
    assert out.reshape(block, items, 3).tolist() == np.stack([striped + 0.5, kept, kept], 2).tolist()


@pytest.mark.parametrize("arch", ARCHS)
def test_loads_and_stores(arch: str, draw: Draw):
    """Three algorithms of each: guarded by a number, by a run-time number, and not at all."""
    block, items = draw.block(arch), draw.of(1, 2, 3, 4)
    threads = threads_of(block)
    count, offset = threads * items, draw.number(0, 5)
    dtype = draw.of(fx.Uint8, fx.Int16, fx.Float32, fx.Int64)
    valid = draw.number(0, count)
    loads = [draw.of(*coop.BlockLoadAlgorithm) for _ in range(3)]
    stores = [draw.of(*coop.BlockStoreAlgorithm) for _ in range(3)]
    x, limit = random(draw.rng, dtype, count + offset), np.array([valid], "i4")
    held, outs = poison(dtype, count * 3), [poison(dtype, count + offset + 1) for _ in range(3)]

    def body(place, x, limit, held, *outs):
        limits = ({"valid_items": valid}, {"valid_items": limit[0]}, {})
        for i, algorithm in enumerate(loads):
            load = coop.BlockLoad[dtype, block, items, algorithm]
            scratch = place(load) if "TRANSPOSE" in algorithm.name else None
            write(held, load(x, storage=scratch, offset=offset, default=3, **limits[i]), block, i * count)
        for i, (algorithm, out) in enumerate(zip(stores, outs, strict=True)):
            store = coop.BlockStore[dtype, block, items, algorithm]
            value = read(x, block, items)
            if algorithm.name == "STRIPED":
                value = [x[rank_of(block) + i * threads] for i in range(items)]
            scratch = place(store) if "TRANSPOSE" in algorithm.name else None
            store(out, value, storage=scratch, offset=offset, **limits[i])

    run(body, x, limit, held, *outs, block=block, arch=arch)
    for until, algorithm, got in zip((valid, valid, count), loads, held.reshape(3, count), strict=True):
        want = x[offset:].copy()
        want[until:] = 3
        if algorithm.name == "STRIPED":
            want = want.reshape(items, threads).T.reshape(-1)
        assert got.tolist() == want.tolist(), algorithm
    for until, algorithm, got in zip((valid, valid, count), stores, outs, strict=True):
        want = poison(dtype, count + offset + 1)
        want[offset : offset + until] = x[:until]
        assert got.tolist() == want.tolist(), algorithm


@pytest.mark.parametrize("target", GPUS)
def test_they_compile_for_gpus(target: str):
    def body(place, x, out):
        load = coop.BlockLoad[fx.Float32, 128, 8, coop.BlockLoadAlgorithm.WARP_TRANSPOSE_TIMESLICED]
        exchange = coop.BlockExchange[fx.Float32, 128, 8]
        store = coop.BlockStore[fx.Float32, 128, 8, coop.BlockStoreAlgorithm.VECTORIZE]
        value = load(x, storage=place(load), valid_items=1000)
        store(out, exchange.blocked_to_striped(value, storage=place(exchange)))

    asm = compiled(body, *(np.zeros(1024, "f4") for _ in range(2)), block=128, target=target)
    # A pointer of NVIDIA's that is not known to be aligned is written element by element.
    assert {"rocm:gfx942": "store_dwordx4", "rocm:gfx1201": "store_b128", "cuda:sm_90a": "st.global"}[target] in asm
