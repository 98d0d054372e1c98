"""`convert-fly-to-cpu`: the rest of `fly` to `llvm` with the address spaces of the CPU."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ...cpu.emulation.instructions import EmulatedInstructions
from ...ir.enums import AddressSpace
from ...lowering.expand.expand_math import HOST_MATH
from ...lowering.expand.saturating_casts import HANDLERS as CAST_HANDLERS
from ...target import features_of
from ..base import Form, Part, Pass
from .convert_fly import FlyConversion


class Conversion(EmulatedInstructions, FlyConversion):
    target = "cpu"
    spaces = dict(zip(AddressSpace, (0, 0, 0, 0), strict=True))
    features = features_of()
    native_math = HOST_MATH
    can_check = True
    extra = CAST_HANDLERS


@dataclass(frozen=True)
class ConvertFlyToCpuPass(Pass):
    """Lower pointers, memory access and atom calls for the CPU."""

    name = "convert-fly-to-cpu"
    part = Part({Form.PROMOTED: Form.CONVERTED}, "fly.convert_fly_to_cpu:Conversion")

    def run(self, module: ModuleOp) -> ModuleOp:
        return Conversion.rebuild(module)
