"""Random copies: nested modes, strides in any order, predicates of every form, against what their layouts say."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import numpy as np

from .written import written

MODULE = """\
import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def kernel(a: fx.Tensor, b: fx.Tensor, m: fx.Tensor):
    flags = fx.make_rmem_tensor({flags}, fx.Boolean)
    for i in fx.range_constexpr({flags}):
        flags[i] = m[i] != 0
    source = fx.make_view(fx.get_iter(a), fx.make_layout({shape}, {stride}))
    target = fx.make_view(fx.get_iter(b), fx.make_layout({to_shape}, {to_stride}))
    pred = fx.make_view(fx.get_iter(flags), fx.make_layout({pred_shape}, {pred_stride}))
    atom = fx.make_copy_atom(fx.UniversalCopy({bits}), fx.Float32)
{copies}

@flyc.jit
def run(a: fx.Tensor, b: fx.Tensor, m: fx.Tensor):
    kernel(a, b, m).launch(grid=1, block=1)
"""
DIRECT = "    fx.copy(atom, source, target{pred})\n"
HELD = """\
    held = fx.make_fragment_like(source)
    held.fill(-1.0)
    fx.copy(atom, source, held{pred})
    fx.copy(atom, held, target{pred})
"""
Tree = Any
"""An integer, or a tuple of trees."""


def leaves(tree: Tree) -> list[int]:
    return [leaf for child in tree for leaf in leaves(child)] if isinstance(tree, tuple) else [tree]


def like(tree: Tree, values: Any) -> Tree:
    """A tree of the same form with other leaves."""
    return tuple(like(child, values) for child in tree) if isinstance(tree, tuple) else next(values)


def places(shape: Tree, stride: Tree) -> list[int]:
    """What a layout gives for each index in turn."""
    steps = leaves(stride)[::-1]
    return [
        sum(i * d for i, d in zip(at, steps, strict=True))
        for at in itertools.product(*[range(n) for n in leaves(shape)[::-1]])
    ]


def regrouped(rng: random.Random, size: int) -> Tree:
    """A mode of this size, with modes in it or without."""
    divisors = [d for d in range(2, size) if size % d == 0]
    if not divisors or rng.random() < 0.5:
        return size
    inner = rng.choice(divisors)
    return regrouped(rng, inner), regrouped(rng, size // inner)


def strides(rng: random.Random, shape: Tree, values: int) -> Tree:
    """Strides that keep elements apart; the first values of a call stand one behind the other."""
    sizes, step = leaves(shape), values
    found = [1] * len(sizes)
    for mode in rng.sample(range(values > 1, len(sizes)), len(sizes) - (values > 1)):
        found[mode] = step
        step = step * sizes[mode] + values * rng.choice((0, 0, 1))
    return like(shape, iter(found))


def one_behind_the_other(shape: Tree, fixed: int = 0) -> Tree:
    """Strides that count indices; those of the first `fixed` leaves share what they have."""
    found: list[int] = []
    step = 1
    for mode, size in enumerate(leaves(shape)):
        found.append(0 if mode < fixed else step)
        step *= 1 if mode < fixed else size
    return like(shape, iter(found))


def wrong(rng: random.Random, path: Path) -> str | None:
    """What is wrong with a random copy, if anything."""
    values = rng.choice((1, 1, 2, 4))
    calls = rng.choice((None, 1, 2, 3, (2, 2), (2, (1, 2))))
    first = values if calls is None else (values, calls)
    rest = tuple(rng.choice((1, 2, 3, 4, (2, 2), (2, (1, 3)), ((2, 1), 2))) for _ in range(rng.randrange(4)))
    shape = (first, *rest)
    to_shape = (first, *(regrouped(rng, math.prod(leaves(n))) for n in rest))
    stride, to_stride = strides(rng, shape, values), strides(rng, to_shape, values)

    each, count = math.prod(leaves(first)), math.prod(leaves(shape))
    if rest and rng.random() < 0.5:  # one for all calls of an element of the rest
        pred_shape, pred_stride = rest, one_behind_the_other(rest)
        asked = [i // each for i in range(count)]
    else:  # one for each call
        pred_shape, pred_stride = shape, one_behind_the_other(shape, 1)
        asked = places(pred_shape, pred_stride)
    flags = np.array([rng.random() < 0.6 for _ in range(max(asked) + 1)])
    pred = rng.choice((", pred=pred", ""))
    text = MODULE.format(
        flags=len(flags), shape=shape, stride=stride, to_shape=to_shape, to_stride=to_stride, pred_shape=pred_shape,
        pred_stride=pred_stride, bits=32 * values, copies=rng.choice((DIRECT, HELD)).format(pred=pred),
    )  # fmt: skip

    source, target = places(shape, stride), places(to_shape, to_stride)
    a = np.arange(1, max(source) + 2, dtype=np.float32)
    b = np.zeros(max(target) + 1, np.float32)
    expected = b.copy()
    for i in range(count):
        if not pred or flags[asked[i]]:
            expected[target[i]] = a[source[i]]
    written(text, path).run(a, b, flags.astype(np.int32))
    return None if np.array_equal(b, expected) else f"{b} instead of {expected}:\n{text}"
