"""`convert-rocdl-fastmath-ops`: functions an approximation will do for as AMD's instruction for it.

`math.exp2` of an f32 that may be approximate (`afn`, or `fast`) is `rocdl.exp2`; LLVM would add code for results that
are denormal. Other functions stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import math
from xdsl.dialects.builtin import Float32Type, ModuleOp
from xdsl.ir import Block, Operation

from ...dialects.upstream import gpu
from ...dialects.upstream.rocdl import ROCDL_OPS
from ..base import Pass


def _approximate(op: Operation) -> bool:
    flags: Any = op.properties.get("fastmath")
    return flags is not None and any(str(getattr(f, "value", f)) in ("afn", "fast") for f in flags.data)


@dataclass(frozen=True)
class ConvertRocdlFastmathOpsPass(Pass):
    """Use AMD's instruction for exp2 where an approximation is allowed."""

    name = "convert-rocdl-fastmath-ops"

    def run(self, module: ModuleOp) -> ModuleOp:
        for device in [op for op in module.walk() if isinstance(op, gpu.ModuleOp)]:
            for op in [op for op in device.walk() if isinstance(op, math.Exp2Op)]:
                result = op.results[0]
                if isinstance(result.type, Float32Type) and _approximate(op):
                    made = ROCDL_OPS["exp2"].create(
                        operands=list(op.operands), result_types=[result.type], location=op.location
                    )
                    cast(Block, op.parent).insert_op_before(made, op)
                    result.replace_all_uses_with(made.results[0])
                    op.detach()
                    op.erase()
        return module
