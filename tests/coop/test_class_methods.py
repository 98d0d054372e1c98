"""The methods of collective classes that are another name of something, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.expr import coop

from .blocks import ARCHS, Draw, poison, random, read, run, threads_of, write

ADD, MAX = fx.ReductionOp.ADD, fx.ReductionOp.MAX


@pytest.mark.parametrize("arch", ARCHS)
def test_reductions_and_scans_of_warps(arch: str, draw: Draw):
    block, width = 64, draw.of(2, 4, 8, 16, 32)
    x = draw.rng.integers(-1000, 1000, block, "i4")
    flags = draw.rng.integers(0, 2, block, "i4")
    start, source = draw.number(-5, 5), draw.number(0, width - 1)
    names = "reduce heads tails inclusive exclusive both0 both1 all0 all1 all2 from one striped0 striped1".split()
    out = np.full((len(names), block), 77, "i4")

    def body(_, x, flags, out):
        lane = fx.thread_idx.x
        value, flag = x[lane], flags[lane]
        reduce, scan = coop.WarpReduce[fx.Int32, width], coop.WarpScan[fx.Int32, width]
        two = coop.WarpReduceBatched[fx.Int32, width, 2]
        many = coop.WarpReduceBatched[fx.Int32, 2, 4]
        places = many.reduce_to_blocked([value, value * 2, value * 3, value * 4], ADD)
        strided = many.reduce_to_striped([value, value * 2, value * 3, value * 4], ADD)
        made = [
            reduce.reduce(value, MAX),
            reduce.head_segmented_reduce(value, flag, ADD),
            reduce.tail_segmented_reduce(value, flag, ADD),
            scan.inclusive_scan(value, ADD, init=start),
            scan.exclusive_scan(value, ADD, init=start),
            *scan.scan(value, MAX),
            *scan.scan_with_aggregate(value, ADD),
            scan.broadcast(value, source),
            two.reduce([value, -value], MAX),
            *(places[i] * 1000 + strided[i] for i in range(2)),
        ]
        assert len(made) == len(names)
        for row, number in enumerate(made):
            out[row, lane] = number

    run(body, x, flags, out, block=block, arch=arch)
    got = dict(zip(names, out.tolist(), strict=True))
    for first in range(0, block, width):
        mine = x[first : first + width].tolist()
        at = lambda name: got[name][first : first + width]  # noqa: B023, E731
        sums, most = np.cumsum(mine).tolist(), np.maximum.accumulate(mine).tolist()
        assert at("reduce") == [max(mine)] * width
        assert at("inclusive") == [start + s for s in sums] and at("exclusive") == [
            start,
            *(start + s for s in sums[:-1]),
        ]
        assert at("both0") == most and at("both1")[1:] == most[:-1]
        assert at("all0") == sums and at("all1") == [0, *sums[:-1]] and at("all2") == [sums[-1]] * width
        assert at("from") == [mine[source]] * width
        assert at("one")[:2] == [max(mine), -min(mine)][:width]
        heads = [0, *(i for i in range(1, width) if flags[first + i])]
        for begin, end in zip(heads, [*heads[1:], width], strict=True):
            assert at("heads")[begin] == sum(mine[begin:end])
        tails = [i + 1 for i in range(width - 1) if flags[first + i]]
        for begin, end in zip([0, *tails], [*tails, width], strict=True):
            assert at("tails")[begin] == sum(mine[begin:end])
    pairs = x.reshape(-1, 2).sum(1)
    blocked = np.stack([np.stack([pairs * (1 + 2 * lane + i) for lane in range(2)], 1).ravel() for i in range(2)])
    striped = np.stack([np.stack([pairs * (1 + lane + 2 * i) for lane in range(2)], 1).ravel() for i in range(2)])
    assert [got["striped0"], got["striped1"]] == (blocked * 1000 + striped).tolist()


@pytest.mark.parametrize("arch", ARCHS)
def test_selections_sorts_and_runs_of_blocks(arch: str, draw: Draw):
    block, items = draw.small_block(arch), draw.number(1, 2)
    threads = threads_of(block)
    count = threads * items
    x = random(draw.rng, fx.Int32, count, few=draw.of(False, True))
    valid = draw.number(1, count)
    k = draw.number(0, valid)
    lengths = draw.rng.integers(0, 3, count, "i4")
    outs = [poison(fx.Int32, count) for _ in range(4)]
    spelled = np.full((2, threads * 2), 77, "i4")
    algorithm = draw.of(*coop.BlockTopKAlgorithm)

    def body(place, x, lengths, low, low_values, high_values, order, spelled):
        value = read(x, block, items)
        keys_only = coop.BlockTopK[fx.Int32, block, items, algorithm]
        pairs = coop.BlockTopK[(fx.Int32, fx.Int32), block, items, algorithm]
        at = keys_only.blocked_places()
        kept, flag = keys_only.min_keys(value, k, valid, storage=place(keys_only))
        write(low, fx.Vector.from_elements([f.select(v, 0) for f, v in zip(flag, kept, strict=True)]), block)
        for target, select in ((low_values, pairs.min_pairs), (high_values, pairs.max_pairs)):
            _, values, flag = select(value, at, k, valid, storage=place(pairs))
            write(target, fx.Vector.from_elements([f.select(v, -1) for f, v in zip(flag, values, strict=True)]), block)
        sort = coop.BlockRadixSort[fx.Int32, block, items]
        write(order, sort.sort_blocked_to_striped(value, storage=place(sort), descending=True), block)
        decode = coop.BlockRunLengthDecode[fx.Int32, block, items]
        state = decode.init_with_run_lengths(value, read(lengths, block, items), storage=place(decode))
        found, places, _ = state.decode(decoded_items_per_thread=2)
        for row, made in enumerate((found, places)):
            for i in range(2):
                spelled[row, keys_only.blocked_places()[0] // items * 2 + i] = made[i]

    low, low_values, high_values, order = outs
    run(body, x, lengths, low, low_values, high_values, order, spelled, block=block, arch=arch)
    ascending = np.argsort(x[:valid], kind="stable")[:k]
    descending = np.argsort(-x[:valid].astype("i8"), kind="stable")[:k]
    assert sorted(low[:k].tolist()) == sorted(x[ascending].tolist()) and not low[k:].any()
    assert sorted(low_values[:k].tolist()) == sorted(ascending.tolist()) and (low_values[k:] == -1).all()
    assert sorted(high_values[:k].tolist()) == sorted(descending.tolist()) and (high_values[k:] == -1).all()
    # Striped: item t + i * threads of the whole is item i of thread t.
    assert order.reshape(threads, items).T.ravel().tolist() == sorted(x.tolist(), reverse=True)
    whole = np.repeat(x, lengths)[: threads * 2]
    inside = np.concatenate([np.arange(n) for n in lengths])[: threads * 2]
    rest = threads * 2 - len(whole)
    assert spelled[0].tolist() == [*whole.tolist(), *[0] * rest]
    assert spelled[1].tolist() == [*inside.tolist(), *[-1] * rest]
