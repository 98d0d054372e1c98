"""`convert-math-to-llvm`: functions of `math` as LLVM's intrinsics.

Those no intrinsic stands for are expanded to `arith` before (`convert-fly-to-*`), since no target here has a library of
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ...lowering.rules.math_rules import MATH
from ..base import Pass
from .llvm_conversion import LlvmConversion


class _Conversion(LlvmConversion):
    handlers = MATH


@dataclass(frozen=True)
class ConvertMathToLlvmPass(Pass):
    """Convert math to intrinsics of the llvm dialect."""

    name = "convert-math-to-llvm"

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)
