"""What xDSL's `llvm` dialect lacks, with upstream's text form; the rest is re-exported from xDSL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import DenseArrayBase, IntAttr, IntegerAttr, NoneAttr, StringAttr, UnitAttr, i1, i32, i64
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Data, Dialect, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from .llvm_atomics import LLVM_ATOMIC_OPS

ATOMIC_BINARY = (
    "xchg", "add", "sub", "_and", "nand", "_or", "_xor", "max", "min", "umax", "umin", "fadd", "fsub", "fmax", "fmin",
    "uinc_wrap", "udec_wrap",
)  # fmt: skip
ORDERINGS = {"monotonic": 2, "acquire": 4, "release": 5, "acq_rel": 6, "seq_cst": 7}

_pointers: dict[int, LLVMPointerType] = {}


def ptr(space: int = 0) -> LLVMPointerType:
    """Interned `!llvm.ptr<space>`."""
    found = _pointers.get(space)
    if found is None:
        found = _pointers[space] = LLVMPointerType(IntAttr(space) if space else NoneAttr())
    return found


def address_space(type_: Attribute) -> int:
    """Number of a pointer type's address space."""
    assert isinstance(type_, LLVMPointerType)
    return type_.addr_space.data if isinstance(type_.addr_space, IntAttr) else 0


@irdl_attr_definition
class StructType(Data[tuple[bool, tuple[Attribute, ...]]], TypeAttribute):
    """`!llvm.struct<packed (i32, i64)>`: literal structs, packed or not."""

    name = "llvm.struct"

    @property
    def packed(self) -> bool:
        return self.data[0]

    @property
    def fields(self) -> tuple[Attribute, ...]:
        return self.data[1]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[bool, tuple[Attribute, ...]]:
        parser.parse_punctuation("<")
        packed = parser.parse_optional_keyword("packed") is not None
        fields = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: cls._parse_field(parser))
        parser.parse_punctuation(">")
        return packed, tuple(fields)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<packed (" if self.packed else "<(")
        printer.print_list(self.fields, lambda t: self._print_field(printer, t))
        printer.print_string(")>")

    @classmethod
    def _parse_field(cls, parser: AttrParser) -> Attribute:
        if parser.parse_optional_keyword("struct") is not None:
            return cls(cls.parse_parameter(parser))
        return xllvm.parse_llvm_type(parser)

    @staticmethod
    def _print_field(printer: Printer, type_: Attribute) -> None:
        """Types of this dialect stand inside a struct without their prefix."""
        if isinstance(type_, StructType):
            printer.print_string("struct")
            type_.print_parameter(printer)
        elif isinstance(type_, LLVMPointerType):
            printer.print_string("ptr")
            type_.print_parameters(printer)
        else:
            printer.print_attribute(type_)


_packed: dict[tuple[Attribute, ...], StructType] = {}


def packed_struct(fields: Sequence[Attribute]) -> StructType:
    """`!llvm.struct<packed (...)>`, interned."""
    key = tuple(fields)
    found = _packed.get(key)
    if found is None:
        found = _packed[key] = StructType((True, key))
    return found


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
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        return cast(
            ExtractValueOp,
            cls.create(
                operands=[parser.resolve_operand(unresolved, type_)],
                result_types=[_field_at(type_, at)],
                properties={"position": DenseArrayBase.from_list(i64, at)},
                attributes=attrs,
            ),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.container)
        printer.print_string(f"[{', '.join(map(str, cast(Any, self.position).get_values()))}]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.container.type)


@irdl_op_definition
class InsertValueOp(IRDLOperation):
    """`llvm.insertvalue %x, %s[0] : T`."""

    name = "llvm.insertvalue"
    value = operand_def()
    container = operand_def()
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
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        return cast(
            InsertValueOp,
            cls.create(
                operands=parser.resolve_operands([value, container], [_field_at(type_, at), type_], pos),
                result_types=[type_],
                properties={"position": DenseArrayBase.from_list(i64, at)},
                attributes=attrs,
            ),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(", ")
        printer.print_operand(self.container)
        printer.print_string(f"[{', '.join(map(str, cast(Any, self.position).get_values()))}]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.container.type)


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
        word = parser.parse_identifier()
        if word not in ATOMIC_BINARY:
            parser.raise_error(f"expected one of {', '.join(ATOMIC_BINARY)}, got '{word}'")
        pos = parser.pos
        operands = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)
        props: dict[str, Attribute] = {"bin_op": IntegerAttr(ATOMIC_BINARY.index(word), i64)}
        if parser.parse_optional_keyword("syncscope") is not None:
            parser.parse_punctuation("(")
            props["syncscope"] = StringAttr(parser.parse_str_literal())
            parser.parse_punctuation(")")
        ordering = parser.parse_identifier()
        if ordering not in ORDERINGS:
            parser.raise_error(f"expected one of {', '.join(ORDERINGS)}, got '{ordering}'")
        props["ordering"] = IntegerAttr(ORDERINGS[ordering], i64)
        attrs = parser.parse_optional_attr_dict()
        if "alignment" in attrs:
            props["alignment"] = attrs.pop("alignment")
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        return cast(
            AtomicRMWOp,
            cls.create(
                operands=parser.resolve_operands(operands, types, pos),
                result_types=[types[1]],
                properties=props,
                attributes=attrs,
            ),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {ATOMIC_BINARY[self.bin_op.value.data]} ")
        printer.print_list(self.operands, printer.print_operand)
        if self.syncscope is not None:
            printer.print_string(f' syncscope("{self.syncscope.data}")')
        names = {v: k for k, v in ORDERINGS.items()}
        printer.print_string(f" {names[self.ordering.value.data]}")
        attrs = dict(self.attributes)
        if self.alignment is not None:
            attrs["alignment"] = self.alignment
        printer.print_op_attributes(attrs)
        printer.print_string(" : ")
        printer.print_list([v.type for v in self.operands], printer.print_attribute)


_REPLACED = {"llvm.extractvalue", "llvm.insertvalue", "llvm.struct"}

LLVM = Dialect(
    "llvm",
    [
        *(op for op in xllvm.LLVM.operations if op.name not in _REPLACED),
        ExtractValueOp,
        InsertValueOp,
        MemcpyOp,
        AtomicRMWOp,
        *LLVM_ATOMIC_OPS,
    ],
    [*(a for a in xllvm.LLVM.attributes if a.name not in _REPLACED), StructType],
)

AllocaOp, GEPOp, LoadOp, StoreOp = xllvm.AllocaOp, xllvm.GEPOp, xllvm.LoadOp, xllvm.StoreOp
IntToPtrOp, PtrToIntOp, UndefOp = xllvm.IntToPtrOp, xllvm.PtrToIntOp, xllvm.UndefOp
CallIntrinsicOp = xllvm.CallIntrinsicOp
GlobalOp = xllvm.GlobalOp
AddressOfOp = xllvm.AddressOfOp
BitcastOp = xllvm.BitcastOp
LLVMArrayType = xllvm.LLVMArrayType
GEP_DYNAMIC = -(2**31)

__all__ = [
    "GEP_DYNAMIC",
    "LLVM",
    "AddressOfOp",
    "AllocaOp",
    "BitcastOp",
    "CallIntrinsicOp",
    "GEPOp",
    "GlobalOp",
    "IntToPtrOp",
    "LLVMArrayType",
    "LLVMPointerType",
    "LoadOp",
    "PtrToIntOp",
    "StoreOp",
    "UndefOp",
    "UnitAttr",
    "address_space",
    "i32",
    "packed_struct",
    "ptr",
]
