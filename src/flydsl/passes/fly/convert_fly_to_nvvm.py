"""`convert-fly-to-nvvm`: the rest of `fly` to `llvm` with the address spaces of NVIDIA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from ...dialects.upstream import llvm
from ...ir.enums import AddressSpace
from ...lowering.expand.expand_math import NVIDIA_MATH
from ...lowering.rebuild import Handler
from ...target import features_of
from ...target.needs import of_code
from ..base import Form, Part, Pass
from .convert_fly import FlyConversion


def _inline_asm(r: FlyConversion, op: llvm.InlineAsmOp) -> None:
    r.needs |= of_code(op.asm_string.data)
    r.copy(op)


def _call_intrinsic(r: FlyConversion, op: llvm.CallIntrinsicOp) -> None:
    r.needs |= of_code(cast(StringAttr, op.properties["intrin"]).data)
    r.copy(op)


class Conversion(FlyConversion):
    target = "nvvm"
    spaces = dict(zip(AddressSpace, (0, 1, 3, 5), strict=True))
    features = features_of("cuda")
    native_math = NVIDIA_MATH
    pairs_bf16 = True
    extra: ClassVar[dict[type[Operation], Handler]] = {
        llvm.InlineAsmOp: _inline_asm,
        llvm.CallIntrinsicOp: _call_intrinsic,
    }


@dataclass(frozen=True)
class ConvertFlyToNvvmPass(Pass):
    """Lower pointers, memory access and atom calls for NVIDIA."""

    name = "convert-fly-to-nvvm"
    part = Part({Form.PROMOTED: Form.CONVERTED}, "fly.convert_fly_to_nvvm:Conversion")

    def run(self, module: ModuleOp) -> ModuleOp:
        return Conversion.rebuild(module)
