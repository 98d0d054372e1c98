"""Shifts, differences of neighbours and run boundaries in a block, against numpy on the whole sequence."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import coop

from .blocks import ARCHS, Draw, compiled, poison, random, read, run, threads_of, write


@pytest.mark.parametrize("arch", ARCHS)
def test_shuffles(arch: str, draw: Draw):
    block, items = draw.block(arch), draw.number(1, 4)
    threads = threads_of(block)
    dtype = draw.of(fx.Int8, fx.Int32, fx.Uint64, fx.Float16, fx.Float64)
    distance, turn = draw.number(-threads - 3, threads + 3), draw.number(-3 * threads, 3 * threads)
    x, by = random(draw.rng, dtype, threads * items), np.array([distance, turn], "i4")
    up, down = (poison(dtype, threads * items) for _ in range(2))
    ends, shifted, turned = (poison(dtype, threads * n) for n in (2, 2, 2))

    def body(place, x, by, up, down, ends, shifted, turned):
        shuffle = coop.BlockShuffle[dtype, block]
        value = read(x, block, items)
        higher, last = shuffle.up(value, storage=place(shuffle), predecessor=5, return_suffix=True)
        lower, first = shuffle.down(value, storage=place(shuffle), return_prefix=True)
        write(up, higher, block)
        write(down, lower, block)
        write(ends, [first, last], block)
        moved = [shuffle.offset(value[0], n, storage=place(shuffle), fill=f) for n, f in ((distance, 7), (by[0], None))]
        write(shifted, moved, block)
        write(turned, [shuffle.rotate(value[0], n, storage=place(shuffle)) for n in (turn, by[1])], block)

    run(body, x, by, up, down, ends, shifted, turned, block=block, arch=arch)
    assert up.tolist() == [5, *x[:-1]] and down.tolist() == [*x[1:], x[-1]]
    assert ends.tolist() == [x[0], x[-1]] * threads
    mine = x[::items]
    want = [
        [mine[t + distance] if 0 <= t + distance < threads else other for other in (7, mine[t])] for t in range(threads)
    ]
    assert shifted.reshape(threads, 2).tolist() == want
    assert turned.reshape(threads, 2).T.tolist() == [np.roll(mine, -turn).tolist()] * 2


@pytest.mark.parametrize("arch", ARCHS)
def test_differences(arch: str, draw: Draw):
    block, items = draw.block(arch), draw.number(1, 4)
    threads = threads_of(block)
    count = threads * items
    valid = draw.number(0, count)
    x, limit = random(draw.rng, fx.Int32, count, few=True), np.array([valid], "i4")
    left, right, half, bounded = (poison(kind, count) for kind in (fx.Int32, fx.Int32, fx.Float32, fx.Int32))

    def body(place, x, limit, left, right, half, bounded):
        difference = coop.BlockAdjacentDifference[fx.Int32, block]
        value = read(x, block, items, draw.of("vector", "list"))
        write(left, difference.subtract_left(value, storage=place(difference), valid_items=limit[0]), block)
        product = lambda a, b: a * 10 + b  # noqa: E731
        write(right, difference.subtract_right_partial_tile(value, valid, product, storage=place(difference)), block)
        mean = lambda a, b: (a.to(fx.Float32) + b.to(fx.Float32)) * 0.5  # noqa: E731
        made = difference.subtract_right(value, mean, storage=place(difference), successor=4, output_dtype=fx.Float32)
        write(half, made, block)
        made = difference.subtract_left_partial_tile(
            value, limit[0], fx.ReductionOp.MAX, storage=place(difference), predecessor=1
        )
        write(bounded, made, block)

    run(body, x, limit, left, right, half, bounded, block=block, arch=arch)
    at = np.arange(count)
    before, after = np.roll(x, 1), np.roll(x, -1)
    assert left.tolist() == np.where((at > 0) & (at < valid), x - before, x).tolist()
    assert right.tolist() == np.where(at + 1 < valid, x * 10 + after, x).tolist()
    after[-1] = 4
    assert half.tolist() == ((x + after) * 0.5).tolist()
    before[0] = 1
    assert bounded.tolist() == np.where(at < valid, np.maximum(x, before), x).tolist()


def differs_by(left, right, *, more):
    return right - left > more


@flyc.jit
def at_even(left, right, index):
    return (left != right) & (index % 2 == 0)


@pytest.mark.parametrize("arch", ARCHS)
def test_run_boundaries(arch: str, draw: Draw):
    block, items = draw.block(arch), draw.number(1, 4)
    threads = threads_of(block)
    count = threads * items
    x = random(draw.rng, fx.Float32, count, few=True)
    flags, before = poison(fx.Int32, count * 5), poison(fx.Float32, count)

    def body(place, x, flags, before):
        runs = coop.BlockDiscontinuity[fx.Float32, block]
        value = read(x, block, items)
        heads, tails, previous = runs.flag_heads_and_tails(value, storage=place(runs), return_predecessors=True)
        inner = runs.flag_heads(value, at_even, storage=place(runs), predecessor=2.0)
        steps = runs.flag_tails(value, functools.partial(differs_by, more=1), storage=place(runs))
        # A vector is one item of this collective, and differs where any element does.
        pairs = coop.BlockDiscontinuity[fx.Vector[fx.Float32, 2], block]
        both = pairs.flag_tails(
            [fx.Vector.from_elements([v, 0.0]) for v in value],
            storage=place(pairs),
            successor=fx.full(2, 0.0, fx.Float32),
        )
        for i, made in enumerate((heads, tails, inner, steps, both)):
            assert made.dtype is fx.Int32
            write(flags, made, block, i * count)
        write(before, previous, block)

    run(body, x, flags, before, block=block, arch=arch)
    heads, tails, inner, steps, both = flags.reshape(5, count).tolist()
    change = x[1:] != x[:-1]
    assert heads == [1, *change] and tails == [*change, 1]
    assert inner == [int(v) for v in (np.concatenate([[x[0] != 2], change]) & (np.arange(count) % 2 == 0))]
    assert steps == [*(int(v) for v in x[1:] - x[:-1] > 1), 1]
    assert both == [*change, int(x[-1] != 0)]
    assert before.tolist() == np.roll(x, 1).tolist()


def test_predicates_are_checked():
    def body(place, x):
        runs = coop.BlockDiscontinuity[fx.Int32, 64]
        taken = []
        runs.flag_heads(x[0], lambda *items: taken.append(len(items)) or True, storage=place(runs))
        runs.flag_heads(x[0], lambda a, b: taken.append(2) or True, storage=place(runs))
        assert taken == [3, 2]
        wrong: list[Any] = [lambda a: a, lambda a, b, c, d: a, 3]
        for predicate in wrong:
            with pytest.raises(TypeError, match="flag_op"):
                runs.flag_heads(x[0], predicate, storage=place(runs))

    compiled(body, np.zeros(1, "i4"), block=64, target="rocm:gfx942")
