"""What the rules of instructions share: their types, and a few steps that many of them take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects.builtin import IntegerType, StringAttr, VectorType
from xdsl.ir import Attribute, SSAValue

from ...dialects.upstream import llvm
from ...dialects.upstream.vector import FromElementsOp
from ...ir.builder import i32_list, i64, i64_list
from ...ir.types import bit_width, vector_type

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions

Arg: TypeAlias = SSAValue | int
"""An argument: a value, or a literal of the instruction."""
Rule: TypeAlias = "Callable[[EmulatedInstructions, Sequence[Arg], Attribute | None], SSAValue | None]"
"""Given the arguments in the order of the intrinsic and the type of the result, emits what the instruction does; None
where there is no result, or where the rule does not know these arguments."""

i16 = IntegerType(16)


class NotEmulated(Exception):
    """The rule of an instruction does not cover these arguments; says why."""


def llvm_call(r: EmulatedInstructions, name: str, args: Sequence[SSAValue], type_: Attribute) -> SSAValue:
    """A call of an intrinsic that every target has."""
    props: dict[str, Attribute] = {"intrin": StringAttr(name), "operandSegmentSizes": i32_list((len(args), 0))}
    return r.b.op1(llvm.CallIntrinsicOp, list(args), type_, props)


def bits_of(r: EmulatedInstructions, value: SSAValue, type_: Attribute) -> SSAValue:
    """The same bits as a scalar or vector of another type."""
    held: Attribute = value.type
    if held == type_:
        return value
    if bit_width(held) != bit_width(type_):
        raise ValueError(f"{bit_width(held)} bits of {held} where {type_} is expected")
    return r.b.pure(llvm.BitcastOp, (value,), type_, {})


def as_integer(r: EmulatedInstructions, value: SSAValue) -> SSAValue:
    """The bits of a value as one integer."""
    return bits_of(r, value, IntegerType(bit_width(value.type)))


def vector_of(r: EmulatedInstructions, parts: Sequence[SSAValue]) -> SSAValue:
    """A vector of these elements."""
    return r.b.pure(FromElementsOp, list(parts), vector_type(parts[0].type, len(parts)), {})


def elements(r: EmulatedInstructions, value: SSAValue) -> list[SSAValue]:
    """The elements of a vector, or the scalar itself."""
    held: Attribute = value.type
    if not isinstance(held, VectorType):
        return [value]
    return [r.b.extract(value, i) for i in range(held.get_shape()[0])]


def pair_struct(r: EmulatedInstructions, type_: Attribute | None, parts: Sequence[SSAValue]) -> SSAValue:
    """A struct of these fields."""
    made = r.b.pure(llvm.UndefOp, (), cast(Attribute, type_), {})
    for i, part in enumerate(parts):
        made = r.b.pure(llvm.InsertValueOp, (made, part), cast(Attribute, type_), {"position": i64_list((i,))})
    return made


def saturated(r: EmulatedInstructions, wide: SSAValue, low: int, high: int) -> SSAValue:
    """A signed number held between two limits."""
    b = r.b
    return b.int_binary("maxsi", b.int_binary("minsi", wide, b.const(high, wide.type)), b.const(low, wide.type))


def widened(r: EmulatedInstructions, value: SSAValue, signed: bool) -> SSAValue:
    """An integer as i64."""
    return value if value.type == i64 else r.b.cast("extsi" if signed else "extui", value, i64)
