"""The softmax of a warpgroup's 64 rows as its products come: maxima, sums and weights, in the registers of `wgmma`.

A thread has two rows. Of every eight columns it has two neighbours in each row, so its values come in groups of four:
two of the first row, two of the second. The other columns of its rows are in the three other threads of its quad.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453


class Scale(NamedTuple):
    """Scores are multiplied by `factor` (which is `scale * log2(e)`) in front of exp2; with a cap by `log2(e)`."""

    factor: fx.Float32
    least: fx.Float32
    """What a score is that is masked: the factor makes -1e30 of it."""


def folded(values: fx.Vector, combine: Callable[[fx.Vector, fx.Vector], fx.Vector]) -> tuple[fx.Float32, fx.Float32]:
    """The two rows' values combined, as a tree."""
    groups = values.numel // 4
    while groups > 1:
        half = groups // 2
        first = [i for i in range(4 * half)]
        made = combine(values.shuffle(values, first), values.shuffle(values, [4 * half + i for i in first]))
        if groups % 2:
            rest = [4 * (groups - 1) + i for i in range(4)]
            top = combine(made.shuffle(made, [0, 1, 2, 3]), values.shuffle(values, rest))
            made = top if half == 1 else with_first(made, top)
        values, groups = made, half
    a = combine(values.shuffle(values, [0, 2]), values.shuffle(values, [1, 3]))
    return cast("fx.Float32", a[0]), cast("fx.Float32", a[1])


def with_first(values: fx.Vector, first: fx.Vector) -> fx.Vector:
    """The first four elements replaced."""
    count = values.numel
    wide = first.shuffle(first, [i % 4 for i in range(count)])
    return wide.shuffle(values, [i if i < 4 else count + i for i in range(count)])


def of_rows(first: fx.Float32, second: fx.Float32, count: int) -> fx.Vector:
    """A value of each row for all of a thread's values."""
    pair = fx.Vector.from_elements([first, second], fx.Float32)
    return pair.shuffle(pair, [i // 2 % 2 for i in range(count)])


def over_quad(x: fx.Float32, combine: Callable[[fx.Float32, fx.Float32], fx.Float32]) -> fx.Float32:
    """The values of the four threads that share a row, combined."""
    x = combine(x, fx.shuffle_xor(x, 1))
    return combine(x, fx.shuffle_xor(x, 2))


def finite(top: fx.Float32) -> fx.Float32:
    """What weights are powers below: 0 for minus infinity, which a row has that has seen nothing, and all its weights
    are 0 then."""
    return (top == float("-inf")).select(fx.Float32(0.0), top)


def tanh(values: fx.Vector, factor: fx.Float32, fastmath: str | None = None) -> fx.Vector:
    """Of values times a factor. `fastmath` is of a division; "afn" makes of it a product with a reciprocal."""
    grown = fx.exp2(values * (factor * (2 * LOG2E)), fastmath="afn")
    twos = fx.Vector.filled(values.numel, 2.0, fx.Float32).reshape(values.shape)
    return 1.0 - fx.arith.divf(twos, grown + 1.0, fastmath=fastmath)


def larger(a: fx.Vector, b: fx.Vector) -> fx.Vector:
    return fx.maxnumf(a, b)


def add(a: fx.Vector, b: fx.Vector) -> fx.Vector:
    return a + b


class Turn(NamedTuple):
    """What a step adds to its scores (after their factor), and what earlier sums count now; for each of two rows."""

    shifts: tuple[fx.Float32, fx.Float32]
    factors: tuple[fx.Float32, fx.Float32]


def look(
    scores: fx.Tensor,
    highest: fx.Tensor,
    scale: Scale,
    *,
    first: bool,
    masked: bool,
    lift: int = 0,
    lazy: int = 0,
) -> Turn:
    """The rows' maxima with a step's scores, whose weights are to be 2 to the power `lift` times what they are.

    A maximum that grows by less than 2 to the power `lazy` stays what it was."""
    tops = [over_quad(x, fx.maxnumf) for x in folded(scores.load(), larger)]
    factors: list[fx.Float32] = []
    shifts: list[fx.Float32] = []
    for r in range(2):
        top = tops[r]
        if not first:
            top = fx.maxnumf(top, highest[r])
        if lazy and not first:
            top = ((top - highest[r]) * scale.factor > float(lazy)).select(top, highest[r])
        shift = top * scale.factor
        if masked:
            # A row that has seen nothing yet has no weights at all.
            shift = (top <= scale.least).select(fx.Float32(0.0), shift)
        if first:
            factors.append(fx.Float32(0.0))
        else:
            factors.append(fx.exp2(fx.fma(highest[r], scale.factor, -shift), fastmath="fast"))
        highest[r] = top
        shifts.append(lift - shift if lift else -shift)
    return Turn((shifts[0], shifts[1]), (factors[0], factors[1]))


def weigh(scores: fx.Tensor, total: fx.Tensor | None, scale: Scale, turn: Turn, *, first: bool) -> None:
    """Scores become weights; (this thread's part of) their rows' sums follow, where they are kept."""
    values = scores.load()
    count = values.numel
    weights = fx.exp2(
        fx.fma(values, fx.Vector.filled(count, scale.factor, fx.Float32), of_rows(*turn.shifts, count)),
        fastmath="fast",
    )
    if total is not None:
        for r, part in enumerate(folded(weights, add)):
            total[r] = part if first else fx.fma(total[r], turn.factors[r], part)
    scores.store(weights.reshape(values.shape))


def rescale(sums: fx.Tensor, factors: tuple[fx.Float32, fx.Float32]) -> None:
    """A thread's sums of values times a factor for each row."""
    values = sums.load()
    sums.store(values * of_rows(factors[0], factors[1], values.numel).reshape(values.shape))


@flyc.jit
def rescale_if_needed(sums: fx.Tensor, factors: tuple[fx.Float32, fx.Float32]):
    """The same where a row of the warp needs it: most steps have none."""
    if fx.nvgpu.any_lane((factors[0] != 1.0) | (factors[1] != 1.0)):
        rescale(sums, factors)


__all__ = [
    "LN2", "LOG2E", "Scale", "Turn", "finite", "look", "of_rows", "over_quad", "rescale", "rescale_if_needed", "tanh",
    "weigh",
]  # fmt: skip
