"""Integer swizzles in one form: `swizzle(a + d)` is `swizzle(a) + d` for every `d` that is a multiple of its period.

What `fly-int-swizzle-simplify` does to the sums it sees, done to a sum as folding leaves it, so that it does not matter
whether constants were put together before or after.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.ir import Operation, SSAValue

from ..dialects.upstream import llvm
from ..ir import arith
from ..ir.builder import i32_list, operands_of
from ..ir.types import bit_width, dense_ints

if TYPE_CHECKING:
    from .folding import FoldingBuilder


Known = Callable[[SSAValue], "int | float | None"]
"""The number a value is, where that is known."""


class Swizzle(NamedTuple):
    """`x ^ ((x & mask) >> shift)` with a mask of consecutive ones."""

    mask: SSAValue
    shift: SSAValue
    period: int


def match(x: SSAValue, high: SSAValue, known: Known) -> Swizzle | None:
    """The swizzle that `x ^ high` is, if it is one."""
    if type(high.owner) is not arith.ShRUIOp:
        return None
    bits, shift = operands_of(cast(Operation, high.owner))
    if type(bits.owner) is not arith.AndIOp:
        return None
    source, mask = operands_of(cast(Operation, bits.owner))
    ones, by = known(mask), known(shift)
    if source is not x or ones is None or by is None or ones <= 0:
        return None
    low = (int(ones) & -int(ones)).bit_length() - 1
    run = int(ones) >> low
    if run & (run + 1) or not 0 <= by <= low:
        return None
    return Swizzle(mask, shift, run + 1 << low)


def computed_divisor(value: SSAValue, known: Known, divisor: Callable[[SSAValue], int]) -> int:
    """A number the result of an op is a multiple of, from those of its operands; 1 where there is nothing to say."""
    owner = cast(Operation, value.owner)
    kind = type(owner)
    if kind is arith.AddiOp or kind is arith.MuliOp:
        x, y = (divisor(v) for v in operands_of(owner))
        return gcd(x, y) if kind is arith.AddiOp else x * y
    if kind is arith.ShLIOp:
        x, by = operands_of(owner)
        count = known(by)
        return divisor(x) << int(count) if count is not None and 0 <= count < 31 else 1
    if kind is arith.SelectOp:
        _, x, y = operands_of(owner)
        return gcd(divisor(x), divisor(y))
    return 1


def simplified(b: FoldingBuilder, x: SSAValue, high: SSAValue) -> SSAValue | None:
    """`x ^ ((x & mask) >> shift)` without the multiples of the period in it; None where there are none."""
    found = match(x, high, b.const_of.get)
    base, peeled = (x, []) if found is None else _peel(b, x, found.period)
    if found is None or not peeled:
        return None
    start = b.const(0, x.type) if base is None else base
    masked = b.int_binary("andi", start, found.mask)
    made = b.int_binary("xori", start, b.int_binary("shrui", masked, found.shift))
    for part in peeled:
        made = b.int_binary("addi", made, part)
    return made


def _peel(b: FoldingBuilder, x: SSAValue, period: int) -> tuple[SSAValue | None, list[SSAValue]]:
    """What is left of a sum without its multiples of `period`, and those multiples, innermost first."""
    known = b.const_of.get(x)
    if known is not None:
        rest = int(known) % period
        multiple = int(known) - rest
        return b.const(rest, x.type) if rest else None, [b.const(multiple, x.type)] if multiple else []
    if divisor(b, x) % period == 0:
        return None, [x]
    if type(x.owner) is llvm.PtrToIntOp:
        return _peel_address(b, x, period)
    if type(x.owner) is not arith.AddiOp:
        return x, []
    left, right = operands_of(cast(Operation, x.owner))
    (a, of_a), (c, of_c) = _peel(b, left, period), _peel(b, right, period)
    if not of_a and not of_c:
        return x, []
    base = c if a is None else a if c is None else b.int_binary("addi", a, c)
    return base, [*of_c, *of_a] if a is None else [*of_a, *of_c]


def _peel_address(b: FoldingBuilder, x: SSAValue, period: int) -> tuple[SSAValue | None, list[SSAValue]]:
    """The same for the address of an element at a place that is known."""
    (pointer,) = operands_of(cast(Operation, x.owner))
    gep = pointer.owner
    if type(gep) is not llvm.GEPOp or len(operands_of(gep)) != 1:
        return x, []
    elem = gep.properties["elem_type"]
    size, odd = divmod(bit_width(elem), 8)
    index, *more = dense_ints(gep.rawConstantIndices)
    rest = index * size % period
    if more or odd or rest == index * size or rest % size:
        return x, []
    props = {**gep.properties, "rawConstantIndices": i32_list((rest // size,))}
    start = b.pure(llvm.GEPOp, operands_of(gep), pointer.type, props) if rest else operands_of(gep)[0]
    return b.pure(llvm.PtrToIntOp, (start,), x.type, {}), [b.const(index * size - rest, x.type)]


def divisor(b: FoldingBuilder, value: SSAValue) -> int:
    """A number the value is a multiple of; 0 for zero itself."""
    known = b.const_of.get(value)
    if known is not None:
        return abs(int(known))
    found = b.divisors.get(value)
    if found is None:
        found = b.divisors[value] = computed_divisor(value, b.const_of.get, lambda v: divisor(b, v))
    return found
