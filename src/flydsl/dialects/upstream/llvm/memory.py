"""`llvm.load` and `llvm.store` with all their qualifiers, which xDSL's lack, in upstream's text form."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ....ir.op_text import type_after, write
from ..keyword_attr import parse_word
from ..op_text import parse_dict, print_dict

ORDERINGS = {"unordered": 1, "monotonic": 2, "acquire": 4, "release": 5, "acq_rel": 6, "seq_cst": 7}
"""Memory orderings by the numbers of `llvm`."""
ORDERING_WORDS = {number: word for word, number in ORDERINGS.items()}
_NOT_ATOMIC = IntegerAttr(0, i64)
_HIDDEN = ("ordering", "syncscope", "volatile_", "invariant")


def parse_ordering(parser: Parser) -> IntegerAttr:
    """`acquire`, as its number."""
    return IntegerAttr(ORDERINGS[parse_word(parser, ORDERINGS)], i64)


def parse_scope(parser: Parser, props: dict[str, Attribute]) -> None:
    """`syncscope("agent")`, if it is there."""
    if parser.parse_optional_keyword("syncscope") is not None:
        parser.parse_punctuation("(")
        props["syncscope"] = StringAttr(parser.parse_str_literal())
        parser.parse_punctuation(")")


def print_scope(printer: Printer, scope: StringAttr | None) -> None:
    """The other way round, with a space in front."""
    if scope is not None:
        printer.print_string(f' syncscope("{scope.data}")')


class _Access(IRDLOperation):
    """What loads and stores share: `volatile`, then operands, then `atomic syncscope("...") ordering`."""

    alignment = opt_prop_def(IntegerAttr)
    ordering = prop_def(IntegerAttr, default_value=_NOT_ATOMIC)
    syncscope = opt_prop_def(StringAttr)
    volatile_ = opt_prop_def(UnitAttr)
    nontemporal = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        if self.ordering.value.data and self.alignment is None:
            raise VerifyException("expected alignment for atomic access")
        if self.syncscope is not None and not self.ordering.value.data:
            raise VerifyException("expected syncscope to be null for non-atomic access")

    @staticmethod
    def _parse_atomic(parser: Parser, props: dict[str, Attribute]) -> None:
        if parser.parse_optional_keyword("atomic") is not None:
            parse_scope(parser, props)
            props["ordering"] = parse_ordering(parser)

    @staticmethod
    def _parse_volatile(parser: Parser) -> dict[str, Attribute]:
        return {} if parser.parse_optional_keyword("volatile") is None else {"volatile_": UnitAttr()}

    def _print_atomic(self, printer: Printer) -> None:
        if self.ordering.value.data:
            printer.print_string(" atomic")
            print_scope(printer, self.syncscope)
            printer.print_string(f" {ORDERING_WORDS[self.ordering.value.data]}")
        if "invariant" in self.properties:
            printer.print_string(" invariant")
        print_dict(printer, self, _HIDDEN)
        printer.print_string(" : ")


@irdl_op_definition
class LoadOp(_Access):
    """`llvm.load volatile %p atomic syncscope("agent") acquire {alignment = 4 : i64} : !llvm.ptr<1> -> f32`."""

    name = "llvm.load"
    ptr = operand_def(LLVMPointerType)
    dereferenced_value = result_def()
    invariant = opt_prop_def(UnitAttr)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        props = cls._parse_volatile(parser)
        address = parser.parse_unresolved_operand()
        cls._parse_atomic(parser, props)
        if parser.parse_optional_keyword("invariant") is not None:
            props["invariant"] = UnitAttr()
        more, attrs = parse_dict(parser, cls)
        where = type_after(parser, ":")
        result = type_after(parser, "->")
        return cls.create(
            operands=[parser.resolve_operand(address, where)],
            result_types=[result],
            properties={"ordering": _NOT_ATOMIC, **props, **more},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(printer, " volatile " if self.volatile_ is not None else " ", self.ptr)
        self._print_atomic(printer)
        write(printer, self.ptr.type, " -> ", self.dereferenced_value.type)


@irdl_op_definition
class StoreOp(_Access):
    """`llvm.store %v, %p {alignment = 4 : i64, nontemporal} : f32, !llvm.ptr<1>`."""

    name = "llvm.store"
    value = operand_def()
    ptr = operand_def(LLVMPointerType)

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        props = cls._parse_volatile(parser)
        pos = parser.pos
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        address = parser.parse_unresolved_operand()
        cls._parse_atomic(parser, props)
        more, attrs = parse_dict(parser, cls)
        type_ = type_after(parser, ":")
        where = type_after(parser, ",")
        return cls.create(
            operands=parser.resolve_operands([value, address], [type_, where], pos),
            properties={"ordering": _NOT_ATOMIC, **props, **more},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(printer, " volatile " if self.volatile_ is not None else " ", self.value, ", ", self.ptr)
        self._print_atomic(printer)
        write(printer, self.value.type, ", ", self.ptr.type)
