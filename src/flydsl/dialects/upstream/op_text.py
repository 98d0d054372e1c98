"""Pieces of upstream's text forms that many ops share: dictionaries with properties in them, operand lists."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import IntAttr, NoneAttr
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from ...ir.op_text import write

_properties: dict[type[IRDLOperation], frozenset[str]] = {}


def property_names(cls: type[IRDLOperation]) -> frozenset[str]:
    """Names of the properties a class defines."""
    found = _properties.get(cls)
    if found is None:
        found = _properties[cls] = frozenset(cls.get_irdl_definition().properties)
    return found


def parse_dict(parser: Parser, cls: type[IRDLOperation]) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """An optional attribute dictionary, apart by what the class defines as properties: `(properties, attributes)`."""
    given = parser.parse_optional_attr_dict()
    names = property_names(cls)
    return {k: v for k, v in given.items() if k in names}, {k: v for k, v in given.items() if k not in names}


def print_dict(printer: Printer, op: IRDLOperation, hidden: Collection[str] = ()) -> None:
    """Properties and attributes as one dictionary; flags that say nothing are left out, as are `hidden` ones."""
    shown = {k: v for k, v in op.properties.items() if k not in hidden and not _says_nothing(k, v)}
    printer.print_op_attributes({**shown, **op.attributes})


def _says_nothing(name: str, value: Attribute) -> bool:
    return name == "fastmathFlags" and not cast(Any, value).data


def parse_operands(parser: Parser) -> list[UnresolvedOperand]:
    """`%a, %b`, or nothing."""
    return (
        parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        or []
    )


def parse_types(parser: Parser) -> list[Attribute]:
    """`A, B`."""
    return [*parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)]


def parse_function_type(parser: Parser) -> tuple[list[Attribute], list[Attribute]]:
    """`(A, B) -> R` or `(A, B) -> (R, S)`."""
    inputs: list[Attribute] = [*parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_type)]
    parser.parse_punctuation("->")
    outputs = parser.parse_optional_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_type)
    return inputs, [parser.parse_type()] if outputs is None else [*outputs]


def print_function_type(printer: Printer, operands: Sequence[SSAValue], results: Sequence[SSAValue]) -> None:
    """The other way round."""
    to = [v.type for v in results]
    write(printer, "(", [v.type for v in operands], ") -> ", *(to if len(to) == 1 else ("(", to, ")")))


def parse_short_pointer(parser: Parser) -> LLVMPointerType:
    """A pointer type without its name: `<3>`."""
    parser.parse_punctuation("<")
    space = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation(">")
    return LLVMPointerType(IntAttr(space) if space else NoneAttr())


def print_short_pointer(printer: Printer, type_: Attribute) -> None:
    """The other way round."""
    space = cast(LLVMPointerType, type_).addr_space
    printer.print_string(f"<{space.data if isinstance(space, IntAttr) else 0}>")
