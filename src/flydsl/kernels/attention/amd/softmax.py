"""The softmax of a wave's rows as their scores come: a lane has one query of each 16, and `run` of every 16 keys.

The other keys of its query are in the lanes 16 apart. Maxima cross them in steps that outgrow them, sums at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import flydsl.expr as fx

from .tile import Machine

Values = TypeVar("Values", fx.Float32, fx.Vector)


def added(values: list[fx.Vector]) -> fx.Vector:
    """The sum of all elements but for the last step, as a tree: two at once."""
    while len(values) > 1:
        rest = values[len(values) // 2 * 2 :]
        values = [add(a, b) for a, b in zip(values[::2], values[1::2], strict=False)] + rest
    one = values[0]
    while one.numel > 2:
        half = one.numel // 2
        parts = [[one[at + i] for i in range(half)] for at in (0, half)]
        one = add(*(fx.Vector.from_elements(part, fx.Float32) for part in parts))
    return one


def largest(values: list[fx.Vector]) -> fx.Float32:
    """The largest of all elements, as a tree of threes: an instruction takes so many."""
    parts = [cast("fx.Float32", x[i]) for x in values for i in range(x.numel)]
    while len(parts) > 1:
        threes = [parts[i : i + 3] for i in range(0, len(parts), 3)]
        parts = [_largest_of(three) for three in threes]
    return parts[0]


def _largest_of(values: list[fx.Float32]) -> fx.Float32:
    found = values[0]
    for x in values[1:]:
        found = larger(found, x)
    return found


def over_groups(x: fx.Float32, machine: Machine, combine: Callable[[fx.Float32, fx.Float32], fx.Float32]) -> fx.Float32:
    """The values of the lanes that share a query, combined."""
    if machine.swaps:
        # Rows of 16 lanes change places in registers: both results together have each value and its other one.
        for swap in (fx.rocdl.permlane16_swap, fx.rocdl.permlane32_swap):
            x = combine(*swap(fx.Float32, x, x))
        return x
    for i in range(machine.groups.bit_length() - 1):
        x = combine(x, fx.shuffle_xor(x, 16 << i, machine.lanes))
    return x


def larger(a: Values, b: Values) -> Values:
    """Of numbers; what is none comes to the result by the exponentials."""
    return fx.maxnumf(a, b, fastmath="nnan")


def add(a: Values, b: Values) -> Values:
    return fx.arith.addf(a, b)


def narrowed(values: fx.Vector, dtype: type[fx.Numeric], machine: Machine) -> fx.Vector:
    """Weights in the type of the values."""
    if dtype.width == 8:
        convert = fx.rocdl.cvt_pk_fp8_f32 if dtype is fx.Float8E4M3FN else fx.rocdl.cvt_pk_bf8_f32
        words: list[fx.Int32] = []
        anything = fx.make_rmem_tensor(fx.make_layout(1, 1), fx.Int32)
        for i in range(0, values.numel, 4):
            # The other half comes next: until then it has whatever its register had.
            low = convert(fx.Int32, values[i], values[i + 1], anything[0])
            words.append(convert(fx.Int32, values[i + 2], values[i + 3], low, True))
        return fx.Vector.from_elements(words, fx.Int32).bitcast(dtype)
    if dtype is fx.Float16 or machine.rounds:
        return values.to(dtype)
    # To the nearest; weights are no negative numbers, and halves go up.
    bits = values.bitcast(fx.Int32) + 0x8000
    pairs = [fx.rocdl.perm_b32(bits[i + 1], bits[i], 0x07060302) for i in range(0, values.numel, 2)]
    return fx.Vector.from_elements(pairs, fx.Int32).bitcast(dtype)


__all__ = ["add", "added", "larger", "largest", "narrowed", "over_groups"]
