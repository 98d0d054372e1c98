"""Upstream's `scf`: xDSL's, whose `scf.for` is replaced by one that may compare unsigned,
`scf.for unsigned %i = %a to %b step %c : i32 { ... }`.

Import `scf` from here, never from xDSL (a test looks): tables of passes are keyed by class.
"""

from __future__ import annotations

from typing import ClassVar, Final, Self

from xdsl.dialects import scf as xscf
from xdsl.dialects.builtin import IndexType, SignlessIntegerConstraint, UnitAttr
from xdsl.dialects.scf import ConditionOp, ExecuteRegionOp, IfOp, IndexSwitchOp, WhileOp, YieldOp
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

UNSIGNED = "unsignedCmp"
"""Property of a loop whose bounds are unsigned."""


@irdl_op_definition
class ForOp(xscf.ForOp):
    """A counted loop."""

    name = "scf.for"
    T: ClassVar = VarConstraint("T", base(IndexType) | SignlessIntegerConstraint)
    lb = operand_def(T)
    ub = operand_def(T)
    step = operand_def(T)
    iter_args = var_operand_def()
    res = var_result_def()
    body = region_def("single_block")
    unsigned_cmp = opt_prop_def(UnitAttr, prop_name=UNSIGNED)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        unsigned = parser.parse_optional_keyword("unsigned") is not None
        op = super().parse(parser)
        if unsigned:
            op.properties[UNSIGNED] = UnitAttr()
        return op

    def print(self, printer: Printer) -> None:
        if UNSIGNED in self.properties:
            printer.print_string(" unsigned")
        super().print(printer)

    def verify_(self) -> None:
        # xDSL's own check knows no unsigned loops, and cannot be had without that.
        args, carried = self.body.block.args, self.iter_args
        if not args:
            raise VerifyException("Body block must have induction var as first block arg")
        if any(bound.type != args[0].type for bound in (self.lb, self.ub, self.step)):
            raise VerifyException("Expected induction var to be same type as bounds and step")
        if len(args) != len(carried) + 1:
            raise VerifyException(
                f"Expected {len(carried) + 1} args, but got {len(args)}. "
                "Body block must have induction and loop-carried variables as args."
            )
        for i, (arg, given) in enumerate(zip(args[1:], carried, strict=True), 1):
            if arg.type != given.type:
                raise VerifyException(
                    f"Block arg #{i} expected to be {given.type}, but got {arg.type}. "
                    "Block args after the induction variable must match the loop-carried variables."
                )
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            return
        if len(last.arguments) != len(carried):
            raise VerifyException(
                f"{last.name} expected {len(carried)} args, but got {len(last.arguments)}. "
                f"The {self.name} must yield its loop-carried variables."
            )
        for i, (arg, given) in enumerate(zip(last.arguments, carried, strict=True)):
            if arg.type != given.type:
                raise VerifyException(
                    f"Expected yield arg #{i} to be {given.type}, but got {arg.type}. "
                    f"{last.name} of {self.name} must match loop-carried variable types."
                )


WIDENED: Final[dict[type[Operation], type[Operation]]] = {xscf.ForOp: ForOp}
"""xDSL's class to the one here."""

Scf = Dialect("scf", [WIDENED.get(op, op) for op in xscf.Scf.operations], [*xscf.Scf.attributes])

__all__ = [
    "UNSIGNED", "WIDENED", "ConditionOp", "ExecuteRegionOp", "ForOp", "IfOp", "IndexSwitchOp", "Scf", "WhileOp",
    "YieldOp",
]  # fmt: skip
