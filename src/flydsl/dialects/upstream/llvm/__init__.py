"""The part of `llvm` that every compilation meets: what xDSL's lacks, with upstream's text form, and re-exports.

The whole dialect is in `llvm_dialect.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import DenseArrayBase, IntAttr, IntegerAttr, NoneAttr, StringAttr, UnitAttr, i1, i32, i64
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from ....ir.op_text import type_after, write
from ....ir.readable import readable
from ....ir.types import dense_ints
from ..keyword_attr import parse_word
from ..op_text import parse_dict, parse_types, print_dict
from .gep import GEP_DYNAMIC, GEPOp
from .memory import ORDERING_WORDS, ORDERINGS, LoadOp, StoreOp, parse_ordering, parse_scope, print_scope
from .struct import StructType, packed_struct

ATOMIC_BINARY = (
    "xchg", "add", "sub", "_and", "nand", "_or", "_xor", "max", "min", "umax", "umin", "fadd", "fsub", "fmax", "fmin",
    "uinc_wrap", "udec_wrap",
)  # fmt: skip

_pointers: dict[int, LLVMPointerType] = {}


def ptr(space: int = 0) -> LLVMPointerType:
    """Interned `!llvm.ptr<space>`."""
    found = _pointers.get(space)
    if found is None:
        found = _pointers[space] = readable(LLVMPointerType(IntAttr(space) if space else NoneAttr()))
    return found


def address_space(type_: Attribute) -> int:
    """Number of a pointer type's address space."""
    assert isinstance(type_, LLVMPointerType)
    return type_.addr_space.data if isinstance(type_.addr_space, IntAttr) else 0


@irdl_op_definition
class ExtractValueOp(IRDLOperation):
    """`llvm.extractvalue %s[0] : T`."""

    name = "llvm.extractvalue"
    container = operand_def()
    position = prop_def(DenseArrayBase)
    res = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ExtractValueOp:
        unresolved = parser.parse_unresolved_operand()
        at = parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_integer)
        attrs = parser.parse_optional_attr_dict()
        type_ = type_after(parser, ":")
        return cls.create(
            operands=[parser.resolve_operand(unresolved, type_)],
            result_types=[_field_at(type_, at)],
            properties={"position": DenseArrayBase.from_list(i64, at)},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(
            printer,
            " ",
            self.container,
            f"[{', '.join(map(str, dense_ints(self.position)))}]",
            self.attributes,
            " : ",
            self.container.type,
        )


@irdl_op_definition
class InsertValueOp(IRDLOperation):
    """`llvm.insertvalue %x, %s[0] : T`."""

    name = "llvm.insertvalue"
    container = operand_def()
    value = operand_def()
    position = prop_def(DenseArrayBase)
    res = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> InsertValueOp:
        pos = parser.pos
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        container = parser.parse_unresolved_operand()
        at = parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_integer)
        attrs = parser.parse_optional_attr_dict()
        type_ = type_after(parser, ":")
        return cls.create(
            operands=parser.resolve_operands([container, value], [type_, _field_at(type_, at)], pos),
            result_types=[type_],
            properties={"position": DenseArrayBase.from_list(i64, at)},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(
            printer,
            " ",
            self.value,
            ", ",
            self.container,
            f"[{', '.join(map(str, dense_ints(self.position)))}]",
            self.attributes,
            " : ",
            self.container.type,
        )


def _field_at(type_: Attribute, at: Sequence[int]) -> Attribute:
    for i in at:
        type_ = type_.fields[i] if isinstance(type_, StructType) else cast(Any, type_).type
    return type_


@irdl_op_definition
class MemcpyOp(IRDLOperation):
    """`"llvm.intr.memcpy"(%dst, %src, %len) <{isVolatile = false}> : (...) -> ()`."""

    name = "llvm.intr.memcpy"
    dst = operand_def(LLVMPointerType)
    src = operand_def(LLVMPointerType)
    len = operand_def()
    isVolatile = prop_def(IntegerAttr, default_value=IntegerAttr(0, i1))


@irdl_op_definition
class AtomicRMWOp(IRDLOperation):
    """`llvm.atomicrmw add %p, %v syncscope("agent") monotonic : !llvm.ptr<1>, i32`."""

    name = "llvm.atomicrmw"
    ptr = operand_def(LLVMPointerType)
    val = operand_def()
    bin_op = prop_def(IntegerAttr)
    ordering = prop_def(IntegerAttr)
    syncscope = opt_prop_def(StringAttr)
    alignment = opt_prop_def(IntegerAttr)
    res = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> AtomicRMWOp:
        word = parse_word(parser, ATOMIC_BINARY)
        pos = parser.pos
        operands = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)
        props: dict[str, Attribute] = {"bin_op": IntegerAttr(ATOMIC_BINARY.index(word), i64)}
        parse_scope(parser, props)
        props["ordering"] = parse_ordering(parser)
        more, attrs = parse_dict(parser, cls)
        parser.parse_punctuation(":")
        types = parse_types(parser)
        return cls.create(
            operands=parser.resolve_operands(operands, types, pos),
            result_types=[types[1]],
            properties={**props, **more},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(printer, f" {ATOMIC_BINARY[self.bin_op.value.data]} ", self.operands)
        print_scope(printer, self.syncscope)
        printer.print_string(f" {ORDERING_WORDS[self.ordering.value.data]}")
        print_dict(printer, self, ("bin_op", "ordering", "syncscope"))
        write(printer, " : ", [v.type for v in self.operands])


AllocaOp = xllvm.AllocaOp
IntToPtrOp, PtrToIntOp, UndefOp = xllvm.IntToPtrOp, xllvm.PtrToIntOp, xllvm.UndefOp
CallIntrinsicOp = xllvm.CallIntrinsicOp
InlineAsmOp = xllvm.InlineAsmOp
GlobalOp = xllvm.GlobalOp
AddressOfOp = xllvm.AddressOfOp
BitcastOp = xllvm.BitcastOp
LLVMArrayType = xllvm.LLVMArrayType

__all__ = [
    "ATOMIC_BINARY", "GEP_DYNAMIC", "ORDERINGS", "AddressOfOp", "AllocaOp", "BitcastOp", "CallIntrinsicOp", "GEPOp",
    "GlobalOp", "InlineAsmOp", "IntToPtrOp", "LLVMArrayType", "LLVMPointerType", "LoadOp", "PtrToIntOp", "StoreOp",
    "StructType", "UndefOp", "UnitAttr", "address_space", "i32", "packed_struct", "ptr",
]  # fmt: skip
