"""Calls of functions from outside of the module, and prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.dialects import func
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, StringAttr, f64
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import llvm
from ...dialects.upstream.vector import PrintOp
from ...errors import DSLCompileError
from ...ir.builder import i32, operands_of
from ...ir.dead_code import PURE_CALL
from ...ir.types import bit_width
from .sink import Rule, Sink, refuse

T = TypeVar("T")
_NARROW = (Float16Type, BFloat16Type, Float32Type)


def _call(s: Sink[T], op: func.CallOp) -> None:
    args = operands_of(op)
    if len(op.results) > 1:
        raise refuse(op, "with more than one result")
    result = op.results[0].type if op.results else None
    memory = "none" if PURE_CALL in op.attributes else None
    made = s.call(op.callee.string_value(), result, [s.value(a) for a in args], [a.type for a in args], memory=memory)
    if op.results:
        s.give(op.results[0], made)


def promote(s: Sink[T], value: SSAValue) -> tuple[T, Attribute]:
    """A value as C passes it to a function of any arguments, and its type there."""
    type_, x = value.type, s.value(value)
    if isinstance(type_, _NARROW):
        return s.cast("fpext", x, type_, f64), f64
    width = bit_width(value.type) if type(type_) is IntegerType else 64
    if width < 32:
        return s.cast("zext" if width == 1 else "sext", x, value.type, i32), i32
    return x, value.type


def _format(type_: Attribute) -> str:
    if isinstance(type_, (*_NARROW, Float64Type)):
        return "%g"
    if bit_width(type_) > 64:
        raise DSLCompileError(f"a value of type {type_} cannot be printed; print an integer or a float")
    return "%ld" if bit_width(type_) == 64 else "%d"


def _print(s: Sink[T], op: PrintOp) -> None:
    """A text or a scalar."""
    text = "" if op.stringLiteral is None else op.stringLiteral.data.replace("%", "%%")
    if op.source is not None:
        given = op.attributes.get("fly.format")
        text += given.data if isinstance(given, StringAttr) else _format(op.source.type)
    if op.punctuation.data == "newline":
        text += "\n"
    print_text(s, text, () if op.source is None else (op.source,))


def print_text(s: Sink[T], text: str, values: Sequence[SSAValue]) -> None:
    """Print through the C library and flush, so that the output is there if the process fails later."""
    address = s.text(text, "printFormat_", 0)
    pairs = [promote(s, v) for v in values]
    args, types = [address, *(x for x, _ in pairs)], [llvm.ptr(), *(t for _, t in pairs)]
    s.call("printf", i32, args, types, fixed=1)
    s.call("fflush", i32, [s.null(llvm.ptr())], [llvm.ptr()])


CALLS: dict[type[Operation], Rule] = {func.CallOp: _call}
"""Calls, on device and host."""
PRINTS: dict[type[Operation], Rule] = {PrintOp: _print}
"""Prints of host code."""
