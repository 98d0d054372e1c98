"""`convert-arith-to-llvm`: ops of `arith` as ops of `llvm`; `index` is 64 bits."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import ub
from xdsl.dialects.builtin import ModuleOp

from ...lowering.rules.arith_rules import ARITH
from ..base import Pass
from .llvm_conversion import LlvmConversion


class _Conversion(LlvmConversion):
    handlers = {op: rule for op, rule in ARITH.items() if op is not ub.PoisonOp}


@dataclass(frozen=True)
class ConvertArithToLlvmPass(Pass):
    """Convert arith to the llvm dialect."""

    name = "convert-arith-to-llvm"

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)
