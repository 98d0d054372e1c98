"""`fly_ktrace`: points and ranges of time inside a kernel.

| op | text | meaning |
|---|---|---|
| `mark` | `fly_ktrace.mark "name" payload %p : i64` | a point in time |
| `range_push`, `range_pop` | `fly_ktrace.range_push "name"`, `fly_ktrace.range_pop` | a range that nests |
| `range_start` | `%t = fly_ktrace.range_start "name" -> i32` | begin a range that may end anywhere |
| `range_stop` | `fly_ktrace.range_stop %t, "name" : i32` | its end |
| `inactive_token` | `%t = fly_ktrace.inactive_token -> i32` | the token of a range nobody began |

A payload is 64 bits that go with the event; `payload_type` says how to read them (`uint64` unless written).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import StringAttr, i64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

PLAIN_PAYLOAD = StringAttr("uint64")
"""How a payload is read where the op does not say."""


class _Traced(IRDLOperation):
    """Text common to the ops: what they have of a token, a name, a payload, attributes and the token's type."""

    TOKEN: ClassVar[bool] = False
    NAMED: ClassVar[bool] = True
    PAYLOAD: ClassVar[bool] = True
    STARTS: ClassVar[bool] = False

    @classmethod
    def parse(cls, parser: Parser) -> _Traced:
        token: Any = None
        properties: dict[str, Attribute] = {}
        operands: list[SSAValue] = []
        if cls.TOKEN:
            token = parser.parse_unresolved_operand()
            parser.parse_punctuation(",")
        if cls.NAMED:
            properties["event_name"] = StringAttr(parser.parse_str_literal())
        if cls.PAYLOAD and parser.parse_optional_keyword("payload") is not None:
            payload = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            operands.append(parser.resolve_operand(payload, parser.parse_type()))
        rest = dict(parser.parse_optional_attr_dict())
        if cls.PAYLOAD and "payload_type" in rest:
            properties["payload_type"] = rest.pop("payload_type")
        results: Sequence[Attribute] = ()
        if cls.STARTS:
            parser.parse_punctuation("->")
            results = (parser.parse_type(),)
        if cls.TOKEN:
            parser.parse_punctuation(":")
            operands.insert(0, parser.resolve_operand(token, parser.parse_type()))
        return cast(
            _Traced, cls.create(operands=operands, result_types=results, properties=properties, attributes=rest)
        )

    def print(self, printer: Printer) -> None:
        operands = list(self.operands)
        token = operands.pop(0) if self.TOKEN else None
        if token is not None:
            printer.print_string(" ")
            printer.print_operand(token)
            printer.print_string(",")
        if self.NAMED:
            printer.print_string(" ")
            printer.print_attribute(self.properties["event_name"])
        if operands:
            printer.print_string(" payload ")
            printer.print_operand(operands[0])
            printer.print_string(" : ")
            printer.print_attribute(operands[0].type)
        shown = {k: v for k, v in self.properties.items() if k == "payload_type" and v != PLAIN_PAYLOAD}
        printer.print_op_attributes({**shown, **self.attributes})
        if self.STARTS:
            printer.print_string(" -> ")
            printer.print_attribute(self.results[0].type)
        if token is not None:
            printer.print_string(" : ")
            printer.print_attribute(token.type)

    def verify_(self) -> None:
        first = int(self.TOKEN)
        for value in list(self.operands)[first:]:
            if value.type != i64:
                raise VerifyException(
                    f"'{self.name}' op operand #{first} must be 64-bit signless integer, but got '{value.type}'"
                )


@irdl_op_definition
class InactiveTokenOp(_Traced):
    """The token of a range nobody began: stopping it does nothing."""

    name = "fly_ktrace.inactive_token"
    token = result_def()
    traits = traits_def(Pure())
    NAMED: ClassVar[bool] = False
    PAYLOAD: ClassVar[bool] = False
    STARTS: ClassVar[bool] = True


@irdl_op_definition
class MarkOp(_Traced):
    """A point in time."""

    name = "fly_ktrace.mark"
    payload = opt_operand_def()
    event_name = prop_def(StringAttr)
    payload_type = opt_prop_def(StringAttr)


@irdl_op_definition
class RangePushOp(_Traced):
    """The beginning of a range inside the ranges that are open."""

    name = "fly_ktrace.range_push"
    payload = opt_operand_def()
    event_name = prop_def(StringAttr)
    payload_type = opt_prop_def(StringAttr)


@irdl_op_definition
class RangePopOp(_Traced):
    """The end of the innermost open range."""

    name = "fly_ktrace.range_pop"
    payload = opt_operand_def()
    payload_type = opt_prop_def(StringAttr)
    NAMED: ClassVar[bool] = False


@irdl_op_definition
class RangeStartOp(_Traced):
    """The beginning of a range that need not nest; its token ends it."""

    name = "fly_ktrace.range_start"
    payload = opt_operand_def()
    event_name = prop_def(StringAttr)
    payload_type = opt_prop_def(StringAttr)
    token = result_def()
    STARTS: ClassVar[bool] = True


@irdl_op_definition
class RangeStopOp(_Traced):
    """The end of the range a token stands for."""

    name = "fly_ktrace.range_stop"
    token = operand_def()
    payload = opt_operand_def()
    event_name = prop_def(StringAttr)
    payload_type = opt_prop_def(StringAttr)
    TOKEN: ClassVar[bool] = True


FlyKtrace = Dialect("fly_ktrace", [InactiveTokenOp, MarkOp, RangePushOp, RangePopOp, RangeStartOp, RangeStopOp], [])
"""The dialect."""

__all__ = [
    "FlyKtrace",
    "InactiveTokenOp",
    "MarkOp",
    "RangePopOp",
    "RangePushOp",
    "RangeStartOp",
    "RangeStopOp",
]
