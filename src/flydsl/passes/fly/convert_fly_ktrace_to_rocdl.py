"""`convert-fly-ktrace-to-rocdl`: events of a kernel's trace, of which none is recorded: they go.

Recording needs a buffer the host reads after the launch, and there is none. Tokens become zeros, what an inactive
token is, so that they may travel through loops and branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Block

from ...dialects.fly_ktrace import FlyKtrace
from ...ir.builder import int_attr
from ...lowering.rebuild import failure_at
from ..base import Pass


@dataclass(frozen=True)
class ConvertFlyKtraceToRocdlPass(Pass):
    """Drop the events of a kernel's trace; tokens are 0."""

    name = "convert-fly-ktrace-to-rocdl"

    def run(self, module: ModuleOp) -> ModuleOp:
        events = tuple(FlyKtrace.operations)
        for op in [op for op in module.walk() if isinstance(op, events)]:
            for token in op.results:
                if token.first_use is None:
                    continue
                type_: Any = token.type
                if not isinstance(type_, IntegerType):
                    raise failure_at(op, f"the token of '{op.name}' is an integer, got '{type_}'")
                zero = ConstantOp(int_attr(0, type_))
                cast(Block, op.parent).insert_op_before(zero, op)
                token.replace_all_uses_with(zero.result)
            op.detach()
            op.erase()
        return module
