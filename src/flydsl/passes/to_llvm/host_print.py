"""`vector.print` in host code as calls of the C library's printf."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, f64
from xdsl.ir import Block, SSAValue

from ...dialects.upstream import llvm
from ...dialects.upstream.llvm.function import CallOp
from ...dialects.upstream.vector import PrintOp
from ...errors import DSLCompileError
from ...ir.builder import i32
from .llvm_conversion import LlvmConversion
from .llvm_declare import address_props, declare, text_global

_FLOATS = (Float16Type, BFloat16Type, Float32Type, Float64Type)


def promote(r: LlvmConversion, value: SSAValue) -> tuple[SSAValue, str]:
    """A value as C passes it to a function of any arguments, and its format."""
    type_ = value.type
    if isinstance(type_, _FLOATS):
        return (value if isinstance(type_, Float64Type) else r.make(xllvm.FPExtOp, (value,), f64)), "%g"
    if not isinstance(type_, IntegerType):
        raise DSLCompileError(f"a value of type {type_} cannot be printed; print an integer or a float")
    width: int = cast(Any, type_).width.data
    if width < 32:
        value = r.make(xllvm.ZExtOp if width == 1 else xllvm.SExtOp, (value,), i32)
    return value, "%ld" if width == 64 else "%d"


def print_value(r: LlvmConversion, op: PrintOp) -> None:
    """Convert a print of a text or a scalar."""
    text = "" if op.stringLiteral is None else op.stringLiteral.data.replace("%", "%%")
    values: list[SSAValue] = []
    if op.source is not None:
        value, format_ = promote(r, r.ll(op.source))
        text += format_
        values.append(value)
    if op.punctuation.data == "newline":
        text += "\n"
    call_printf(r, r.module_block, text, values)


def call_printf(r: LlvmConversion, module: Block, text: str, values: list[SSAValue]) -> None:
    """Print through the C library and flush, so that the output is there if the process fails later."""
    address = r.make(llvm.AddressOfOp, (), llvm.ptr(), address_props(text_global(module, text, 0, "printFormat_")))
    type_ = declare(module, "printf", (llvm.ptr(),), i32, variadic=True)
    declare(module, "fflush", (llvm.ptr(),), i32)
    r.b.opn(CallOp, (address, *values), (i32,), CallOp.properties_for("printf", 1 + len(values), type_))
    null = r.make(xllvm.ZeroOp, (), llvm.ptr())
    r.b.opn(CallOp, (null,), (i32,), CallOp.properties_for("fflush", 1))


__all__ = ["call_printf", "print_value", "promote"]
