"""`convert-vector-to-llvm`: vectors as vectors of `llvm`, which have one dimension: all elements in row-major order."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import ub
from xdsl.dialects.builtin import ModuleOp

from ...lowering.rules.arith_rules import ARITH
from ...lowering.rules.func_rules import PRINTS
from ...lowering.rules.vector_rules import VECTOR
from ..base import Pass
from .llvm_conversion import LlvmConversion


class _Conversion(LlvmConversion):
    handlers = {**VECTOR, **PRINTS, ub.PoisonOp: ARITH[ub.PoisonOp]}


@dataclass(frozen=True)
class ConvertVectorToLlvmPass(Pass):
    """Convert vectors to the llvm dialect; slices and transposes become shuffles."""

    name = "convert-vector-to-llvm"

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)
