"""xDSL's `memref` dialect with upstream's text form of the ops that have none there.

memref.global "private" @lds : memref<64xi8, 3> {alignment = 16 : i64}
memref.global constant @table : memref<2xf32> = dense<[1.0, 2.0]>
memref.global @later : memref<4xf32> = uninitialized
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import memref as xmemref
from xdsl.dialects.builtin import (
    I64,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from ...ir.op_text import type_after, write


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """Memory of a module; without a value it is declared, `uninitialized` is defined but not filled."""

    name = "memref.global"
    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    type = prop_def(MemRefType)
    initial_value = opt_prop_def(UnitAttr | DenseIntOrFPElementsAttr)
    constant = opt_prop_def(UnitAttr)
    alignment = opt_prop_def(IntegerAttr[I64])
    traits = traits_def(SymbolOpInterface())

    def verify_(self) -> None:
        if self.alignment is not None:
            align = self.alignment.value.data
            if align <= 0 or align & (align - 1):
                raise VerifyException(f"'memref.global' op alignment attribute value {align} is not a power of 2")

    @classmethod
    def parse(cls, parser: Parser) -> GlobalOp:
        props: dict[str, Attribute] = {}
        visibility = parser.parse_optional_str_literal()
        if visibility is not None:
            props["sym_visibility"] = StringAttr(visibility)
        if parser.parse_optional_keyword("constant") is not None:
            props["constant"] = UnitAttr()
        props["sym_name"] = parser.parse_symbol_name()
        type_ = type_after(parser, ":")
        props["type"] = type_
        if parser.parse_optional_punctuation("=") is not None:
            if parser.parse_optional_keyword("uninitialized") is not None:
                props["initial_value"] = UnitAttr()
            else:
                parser.parse_keyword("dense")
                shaped = cast(Any, type_)
                props["initial_value"] = parser.parse_dense_int_or_fp_elements_attr(
                    TensorType(shaped.element_type, shaped.get_shape())
                )
        attrs = parser.parse_optional_attr_dict()
        if "alignment" in attrs:
            props["alignment"] = attrs.pop("alignment")
        return cls.create(properties=props, attributes=attrs)

    def print(self, printer: Printer) -> None:
        if self.sym_visibility is not None:
            write(printer, " ", self.sym_visibility)
        if self.constant is not None:
            printer.print_string(" constant")
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        write(printer, " : ", self.type)
        if isinstance(self.initial_value, UnitAttr):
            printer.print_string(" = uninitialized")
        elif self.initial_value is not None:
            # The type stands before, as a memref.
            write(printer, " = ", str(self.initial_value).rsplit(" : ", 1)[0])
        rest = dict(self.attributes)
        if self.alignment is not None:
            rest["alignment"] = self.alignment
        printer.print_op_attributes(rest)


@irdl_op_definition
class ExtractAlignedPointerAsIndexOp(IRDLOperation):
    """Address of a buffer: `%i = memref.extract_aligned_pointer_as_index %m : memref<4xf32> -> index`."""

    name = "memref.extract_aligned_pointer_as_index"
    source = operand_def(MemRefType)
    aligned_pointer = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$source `:` type($source) `->` type($aligned_pointer) attr-dict"


_OWN = (GlobalOp, ExtractAlignedPointerAsIndexOp)
_NAMES = {op.name for op in _OWN}

MemRef = Dialect(
    "memref", [*(op for op in xmemref.MemRef.operations if op.name not in _NAMES), *_OWN], [*xmemref.MemRef.attributes]
)
