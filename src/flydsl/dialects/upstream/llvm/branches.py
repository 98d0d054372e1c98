"""Branches of `llvm` with what xDSL's lack: hints on loops, and `llvm.switch`; upstream's text forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, IntegerType, VectorType, i1, i32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_successor_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from ....ir.op_text import write
from ....ir.types import dense_ints
from ..op_text import parse_dict, parse_operands, parse_types, print_dict
from .attrs import LoopAnnotationAttr


def _parse_target(parser: Parser) -> tuple[Block, list[SSAValue]]:
    """`^bb1(%a, %b : i32, f32)`."""
    block = parser.parse_successor()
    if parser.parse_optional_punctuation("(") is None:
        return block, []
    pos = parser.pos
    values = parse_operands(parser)
    parser.parse_punctuation(":")
    types = parse_types(parser)
    parser.parse_punctuation(")")
    return block, list(parser.resolve_operands(values, types, pos))


def _print_target(printer: Printer, block: Block, values: Sequence[SSAValue]) -> None:
    printer.print_block_name(block)
    if values:
        write(printer, "(", values, " : ", [v.type for v in values], ")")


@irdl_op_definition
class BrOp(IRDLOperation):
    """`llvm.br ^bb1(%x : i32) {loop_annotation = ...}`."""

    name = "llvm.br"
    arguments = var_operand_def()
    loop_annotation = opt_prop_def(LoopAnnotationAttr)
    successor = successor_def()
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> BrOp:
        block, values = _parse_target(parser)
        props, attrs = parse_dict(parser, cls)
        return cls.create(operands=values, successors=[block], properties=props, attributes=attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_target(printer, self.successor, self.arguments)
        print_dict(printer, self)


@irdl_op_definition
class CondBrOp(IRDLOperation):
    """`llvm.cond_br %c, ^bb1(%x : i32), ^bb2`."""

    name = "llvm.cond_br"
    cond = operand_def(i1)
    then_arguments = var_operand_def()
    else_arguments = var_operand_def()
    loop_annotation = opt_prop_def(LoopAnnotationAttr)
    then_block = successor_def()
    else_block = successor_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsTerminator())

    @staticmethod
    def segments(then: int, otherwise: int) -> DenseArrayBase[IntegerType]:
        """The `operandSegmentSizes` property."""
        return DenseArrayBase.from_list(i32, [1, then, otherwise])

    @classmethod
    def parse(cls, parser: Parser) -> CondBrOp:
        cond = parser.resolve_operand(parser.parse_unresolved_operand(), i1)
        parser.parse_punctuation(",")
        then, yes = _parse_target(parser)
        parser.parse_punctuation(",")
        otherwise, no = _parse_target(parser)
        props, attrs = parse_dict(parser, cls)
        return cls.create(
            operands=[cond, *yes, *no],
            successors=[then, otherwise],
            properties={**props, "operandSegmentSizes": cls.segments(len(yes), len(no))},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.cond, ", ")
        _print_target(printer, self.then_block, self.then_arguments)
        printer.print_string(", ")
        _print_target(printer, self.else_block, self.else_arguments)
        print_dict(printer, self, ("operandSegmentSizes",))


@irdl_op_definition
class SwitchOp(IRDLOperation):
    """`llvm.switch %x : i32, ^default [1: ^bb1(%a : i32), 2: ^bb2]`."""

    name = "llvm.switch"
    value = operand_def()
    default_operands = var_operand_def()
    case_operands = var_operand_def()
    case_values = opt_prop_def(DenseIntOrFPElementsAttr)
    case_operand_segments = prop_def(DenseArrayBase)
    default_destination = successor_def()
    case_destinations = var_successor_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsTerminator())

    def cases(self) -> list[tuple[int, Block, list[SSAValue]]]:
        """Value, destination and arguments of each case."""
        if self.case_values is None:
            return []
        rest = list(self.case_operands)
        found: list[tuple[int, Block, list[SSAValue]]] = []
        sizes = dense_ints(self.case_operand_segments)
        for number, block, size in zip(dense_ints(self.case_values), self.case_destinations, sizes, strict=True):
            found.append((int(number), block, rest[:size]))
            rest = rest[size:]
        return found

    @classmethod
    def make(
        cls, value: SSAValue, default: tuple[Block, list[SSAValue]], cases: list[tuple[int, Block, list[SSAValue]]]
    ) -> SwitchOp:
        """A detached switch."""
        passed = [v for _, _, values in cases for v in values]
        props: dict[str, Attribute] = {
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, len(default[1]), len(passed)]),
            "case_operand_segments": DenseArrayBase.from_list(i32, [len(values) for _, _, values in cases]),
        }
        if cases:
            type_ = VectorType(cast(IntegerType, value.type), [len(cases)])
            props["case_values"] = DenseIntOrFPElementsAttr.from_list(type_, [n for n, _, _ in cases])
        return cls.create(
            operands=[value, *default[1], *passed],
            successors=[default[0], *(block for _, block, _ in cases)],
            properties=props,
        )

    @classmethod
    def parse(cls, parser: Parser) -> SwitchOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        resolved = parser.resolve_operand(value, parser.parse_type())
        parser.parse_punctuation(",")
        default = _parse_target(parser)

        def case() -> tuple[int, Block, list[SSAValue]]:
            number = parser.parse_integer()
            parser.parse_punctuation(":")
            return (number, *_parse_target(parser))

        cases = parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, case)
        made = cls.make(resolved, default, cases)
        made.attributes = dict(parser.parse_optional_attr_dict())
        return made

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.value, " : ", self.value.type, ", ")
        _print_target(printer, self.default_destination, self.default_operands)
        printer.print_string(" [")

        def case(one: tuple[int, Block, list[SSAValue]]) -> None:
            printer.print_string(f"{one[0]}: ")
            _print_target(printer, one[1], one[2])

        printer.print_list(self.cases(), case)
        write(printer, "]", self.attributes)


LLVM_BRANCH_OPS = [BrOp, CondBrOp, SwitchOp]
"""The ops of this file."""
