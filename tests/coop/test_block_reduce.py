"""Reductions and scans of blocks: algorithms in turn, functions as operators, structs as items, prefixes of items."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.expr import coop

from .blocks import ARCHS, GPUS, Draw, compiled, poison, random, rank_of, read, run, threads_of, write

ADD, MAX = fx.ReductionOp.ADD, fx.ReductionOp.MAX


@fx.struct
class Affine:
    m: fx.Int32
    k: fx.Int32


def wrapped(n: int) -> int:
    return (int(n) + 2**31) % 2**32 - 2**31


def compose(p, q):
    """x -> q(p(x)) of affine maps: associative, and the order matters."""
    return Affine(p.m * q.m, p.k * q.m + q.k)


def composed(maps: list[tuple[int, int]]) -> tuple[int, int]:
    return functools.reduce(lambda p, q: (wrapped(p[0] * q[0]), wrapped(p[1] * q[0] + q[1])), maps)


def larger(a, b):
    return (a > b).select(a, b)


larger.commutative = True  # pyright: ignore[reportFunctionMemberAccess]


@pytest.mark.parametrize("arch", ARCHS)
def test_reductions(arch: str, draw: Draw):
    block, items = draw.block(arch), draw.number(1, 3)
    threads = threads_of(block)
    valid = draw.number(1, threads)
    x = random(draw.rng, fx.Int32, threads * items)
    total, most, mapped = (poison(fx.Int32, threads * n) for n in (2, 2, 4))
    algorithms = draw.some(2, *coop.BlockReduceAlgorithm)
    ordered = draw.of(coop.BlockReduceAlgorithm.RAKING, coop.BlockReduceAlgorithm.WARP_REDUCTIONS)

    def body(place, x, total, most, mapped):
        value = read(x, block, items)
        for i, algorithm in enumerate(algorithms):
            reduce = coop.BlockReduce[fx.Int32, block, algorithm]
            total[rank_of(block) * 2 + i] = reduce(value, ADD, storage=place(reduce))
            op = (MAX, larger)[i % 2]
            most[rank_of(block) * 2 + i] = reduce(value[0], op, storage=place(reduce), valid_items=valid)
        reduce = coop.BlockReduce[Affine, block, ordered]
        maps = [Affine(v | 1, v) for v in value]
        whole = reduce(maps, compose, storage=place(reduce))
        part = reduce(maps[0], compose, storage=place(reduce), valid_items=fx.Int32(valid))
        write(mapped, [whole.m, whole.k, part.m, part.k], block)

    run(body, x, total, most, mapped, block=block, arch=arch)
    assert (total == wrapped(x.sum(dtype=np.int64))).all()
    assert (most == x.reshape(threads, items)[:valid, 0].max()).all()
    maps = [(int(v) | 1, int(v)) for v in x]
    assert mapped.reshape(threads, 4).tolist() == [[*composed(maps), *composed(maps[::items][:valid])]] * threads


@pytest.mark.parametrize("arch", ARCHS)
def test_scans(arch: str, draw: Draw):
    block, items = draw.block(arch), draw.number(1, 3)
    threads = threads_of(block)
    valid, init = draw.number(0, threads), draw.number(-9, 9)
    x = random(draw.rng, fx.Int32, threads * items)
    algorithms = draw.some(2, *coop.BlockScanAlgorithm)
    seeded = [poison(fx.Int32, threads * items) for _ in algorithms]
    guarded, mapped = poison(fx.Int32, threads * 2), poison(fx.Int32, threads * items * 2)
    ordered = draw.of(*coop.BlockScanAlgorithm)

    def body(place, x, first, second, guarded, mapped):
        value = read(x, block, items, draw.of("vector", "list"))
        for out, algorithm in zip((first, second), algorithms, strict=True):
            scan = coop.BlockScan[fx.Int32, block, algorithm]
            write(
                out, scan.exclusive(value, ADD, storage=place(scan), prefix_callback=lambda total: total + init), block
            )
        scan = coop.BlockScan[fx.Int32, block, ordered]
        made, total = scan.inclusive_with_aggregate(
            value[0], lambda a, b: a + b, storage=place(scan), init=init, identity=0, valid_items=valid
        )
        write(guarded, [made, total], block)
        scan = coop.BlockScan[Affine, block, ordered]
        maps = scan.inclusive([Affine(v | 1, v) for v in value], compose, storage=place(scan))
        write(mapped, [part for one in maps for part in (one.m, one.k)], block)

    run(body, x, *seeded, guarded, mapped, block=block, arch=arch)
    sums = np.cumsum(x, dtype=np.int64)
    want = np.concatenate([[0], sums[:-1]]) + sums[-1] + init
    for made in seeded:
        assert made.tolist() == [wrapped(w) for w in want]
    firsts = x.reshape(threads, items)[:, 0].astype(np.int64) * (np.arange(threads) < valid)
    running = np.cumsum(firsts)
    assert guarded.reshape(threads, 2).tolist() == [[wrapped(r + init), wrapped(running[-1])] for r in running]
    maps = [(int(v) | 1, int(v)) for v in x]
    assert mapped.reshape(-1, 2).tolist() == [list(composed(maps[: i + 1])) for i in range(len(maps))]


@pytest.mark.parametrize("target", GPUS)
def test_they_compile_for_gpus(target: str):
    def body(place, x, out):
        reduce = coop.BlockReduce[fx.Float32, 128, coop.BlockReduceAlgorithm.WARP_REDUCTIONS_NONDETERMINISTIC]
        scan = coop.BlockScan[fx.Float32, 128, coop.BlockScanAlgorithm.RAKING]
        total = reduce(x[fx.thread_idx.x], MAX, storage=place(reduce), valid_items=100)
        out[fx.thread_idx.x] = scan.inclusive(total, ADD, storage=place(scan))

    assert compiled(body, *(np.zeros(128, "f4") for _ in range(2)), block=128, target=target)
