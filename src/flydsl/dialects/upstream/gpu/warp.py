"""Collectives of a warp that xDSL's `gpu` lacks: votes and broadcasts.

| op | meaning for the lanes that take part |
|---|---|
| `gpu.ballot` | i64 with bit *i* set where lane *i*'s predicate holds |
| `gpu.vote` | whether the predicate holds for `any` or `all` of them |
| `gpu.subgroup_broadcast` | the value of one lane: the given one, or the first that takes part |
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, i1, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ....ir.op_text import type_after, write
from ..keyword_attr import KeywordAttr


@irdl_op_definition
class BallotOp(IRDLOperation):
    """`%m = "gpu.ballot"(%p) : (i1) -> i64`."""

    name = "gpu.ballot"
    predicate = operand_def(i1)
    mask = result_def(i64)


@irdl_op_definition
class VoteOp(IRDLOperation):
    """`%r = "gpu.vote"(%p) <{mode = "any"}> : (i1) -> i1`."""

    name = "gpu.vote"
    predicate = operand_def(i1)
    mode = prop_def(StringAttr)
    holds = result_def(i1)


@irdl_attr_definition
class BroadcastAttr(KeywordAttr):
    """`#gpu<broadcast specific_lane>`: whose value is broadcast."""

    name = "gpu.broadcast"
    choices = ("first_active_lane", "specific_lane")


@irdl_op_definition
class SubgroupBroadcastOp(IRDLOperation):
    """`gpu.subgroup_broadcast %v, specific_lane %lane : f32`; the lane must be uniform."""

    name = "gpu.subgroup_broadcast"
    value = operand_def()
    lane = opt_operand_def(i32)
    broadcast_type = opt_prop_def(BroadcastAttr)
    result = result_def()

    @staticmethod
    def properties_for(lane: SSAValue | None) -> dict[str, Attribute]:
        """Properties for a lane that is given, or for the first that takes part."""
        return {"broadcast_type": BroadcastAttr("first_active_lane" if lane is None else "specific_lane")}

    def verify_(self) -> None:
        kind = self.broadcast_type
        if kind is not None and (kind.data == "specific_lane") != (self.lane is not None):
            raise VerifyException(f"lane operand does not fit broadcast type {kind.data}")

    @classmethod
    def parse(cls, parser: Parser) -> SubgroupBroadcastOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        kind = BroadcastAttr(BroadcastAttr.parse_parameter(parser))
        lane = parser.parse_optional_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        type_ = type_after(parser, ":")
        operands = [parser.resolve_operand(value, type_)]
        if lane is not None:
            operands.append(parser.resolve_operand(lane, i32))
        return cls.create(
            operands=operands, result_types=[type_], properties={"broadcast_type": kind}, attributes=attrs
        )

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.value, ", first_active_lane" if self.lane is None else ", specific_lane ")
        if self.lane is not None:
            printer.print_operand(self.lane)
        write(printer, self.attributes, " : ", self.value.type)


WARP_OPS = [BallotOp, VoteOp, SubgroupBroadcastOp]
"""The ops of this file."""
WARP_ATTRS = [BroadcastAttr]
"""The attributes of this file."""
