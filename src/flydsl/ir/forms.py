"""Upstream's text forms where xDSL's differ: what the parser of `ir.parser` takes and `ir.printer` writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, NoneAttr, i64
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRTokenKind

from .op_text import write


class Form(NamedTuple):
    """How an op is written behind its name, in place of what its class does."""

    printed: Callable[[Operation], bool]
    print: Callable[[Operation, Printer], None]
    parsed: MLIRTokenKind | None = None
    """The token behind the name by which the form is known; None where xDSL's parser takes it."""
    parse: Callable[[Parser], Operation] | None = None


def _print_while(op: Operation, printer: Printer) -> None:
    printer.print_string(" : ")
    printer.print_function_type((), op.result_types)
    printer.print_string(" ")
    printer.print_region(op.regions[0], print_entry_block_args=False)
    printer.print_string(" do ")
    printer.print_region(op.regions[1])
    if op.attributes:
        printer.print_op_attributes(op.attributes, print_keyword=True)


def _parse_while(parser: Parser) -> Operation:
    parser.parse_punctuation(":")
    results = parser.parse_function_type().outputs.data
    before = parser.parse_region()
    parser.parse_keyword("do")
    after = parser.parse_region()
    op = scf.WhileOp((), results, before, after)
    found = parser.parse_optional_attr_dict_with_keyword()
    if found is not None:
        op.attributes.update(found.data)
    return op


def _print_execute_region(op: Operation, printer: Printer) -> None:
    write(printer, " -> ", op.results[0].type, " ")
    printer.print_region(op.regions[0], print_entry_block_args=False)
    printer.print_op_attributes(op.attributes)


def print_memref(type_: MemRefType[Attribute], printer: Printer) -> bool:
    """`memref<64xi8, 3>`, whose memory space xDSL would write `3 : i64`; whether the type is of that kind."""
    found = type_.memory_space
    if not isinstance(found, IntegerAttr) or not isinstance(type_.layout, NoneAttr):
        return False
    space = cast("IntegerAttr[IntegerType]", found)
    if space.type != i64:
        return False
    printer.print_string("memref<")
    printer.print_dimension_list(type_.get_shape())
    write(printer, "x" if type_.get_num_dims() else "", type_.element_type, f", {space.value.data}>")
    return True


def _declares_no_result(op: Operation) -> bool:
    declared = cast(func.FuncOp, op)
    return not (declared.body.blocks or declared.function_type.outputs.data or declared.arg_attrs)


def _print_declaration(op: Operation, printer: Printer) -> None:
    declared = cast(func.FuncOp, op)
    visibility = declared.sym_visibility
    printer.print_string(" " if visibility is None else f" {visibility.data} ")
    printer.print_symbol_name(declared.sym_name.data)
    write(printer, "(", declared.function_type.inputs.data, ")")
    printer.print_op_attributes(op.attributes, print_keyword=True)


def _has_one_result(op: Operation) -> bool:
    return len(op.results) == 1


def _has_no_operands(op: Operation) -> bool:
    return not op.operands


FORMS: dict[str, Form] = {
    "func.func": Form(_declares_no_result, _print_declaration),
    "scf.execute_region": Form(_has_one_result, _print_execute_region),
    "scf.while": Form(_has_no_operands, _print_while, MLIRTokenKind.COLON, _parse_while),
}
"""By op name."""

OPEN_DIALECT = {"builtin.module": "builtin", "func.func": "func"}
"""Ops inside which those of a dialect are written without its name: `module`, `return`."""
