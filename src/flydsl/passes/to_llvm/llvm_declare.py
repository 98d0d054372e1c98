"""Functions and texts a conversion needs: `llvm.func` without a body, constant strings; once per module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import StringAttr, SymbolRefAttr, i8
from xdsl.ir import Attribute, Block, Operation, Region

from ...dialects.upstream import llvm
from ...dialects.upstream.llvm.function import C_CALL, EXTERNAL, FuncOp, FunctionType
from ...ir.builder import i32, i64, int_attr
from ...ir.emitter import insert_after

if TYPE_CHECKING:
    from xdsl.dialects.builtin import LocationAttr


def make_function(
    name: str,
    type_: FunctionType,
    body: Region,
    attributes: dict[str, Attribute] | None = None,
    properties: dict[str, Attribute] | None = None,
    location: LocationAttr | None = None,
) -> FuncOp:
    """A detached `llvm.func`."""
    return FuncOp.create(
        properties={
            "sym_name": StringAttr(name),
            "function_type": type_,
            "CConv": C_CALL,
            "linkage": EXTERNAL,
            "visibility_": int_attr(0, i64),
            **(properties or {}),
        },
        attributes=attributes or {},
        regions=[body],
        location=location,
    )


def symbol_of(op: Operation) -> str | None:
    """The name an op defines in its module."""
    symbol = op.get_attr_or_prop("sym_name")
    return symbol.data if isinstance(symbol, StringAttr) else None


def declare(
    module: Block, name: str, inputs: Sequence[Attribute], output: Attribute | None, *, variadic: bool = False
) -> FunctionType:
    """Declare an external function at the head of a module's body unless the name is taken there; give its type."""
    type_ = FunctionType.of(inputs, output, variadic=variadic)
    if all(symbol_of(op) != name for op in module.ops):
        insert_after(module, None, make_function(name, type_, Region()))
    return type_


def text_global(module: Block, text: str, space: int, prefix: str) -> str:
    """Name of a zero-terminated constant of the module, made once per text."""
    value = StringAttr(text + "\0")
    count, last = 0, None
    for op in module.ops:
        if isinstance(op, llvm.GlobalOp):
            last = op
            if not op.sym_name.data.startswith(prefix):
                continue
            if op.value == value:
                return op.sym_name.data
            count += 1
    name = f"{prefix}{count}"
    made = llvm.GlobalOp.create(
        properties={
            "global_type": llvm.LLVMArrayType(len(text.encode()) + 1, i8),
            "sym_name": StringAttr(name),
            "linkage": xllvm.LinkageAttr("internal"),
            "constant": llvm.UnitAttr(),
            "value": value,
            "addr_space": int_attr(space, i32),
        },
        regions=[Region()],
    )
    insert_after(module, last, made)
    return name


def address_props(name: str) -> dict[str, Attribute]:
    """Properties of an `llvm.mlir.addressof`."""
    return {"global_name": SymbolRefAttr(name)}
