"""`convert-fly-to-rocdl`: the rest of `fly` to `llvm` and `rocdl` with the address spaces of AMD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from ...ir.enums import AddressSpace
from ...lowering.expand.expand_math import AMD_MATH
from ...target import USUAL, features_of, warp_size_of
from ..base import Pass
from .convert_fly import FlyConversion


class _Conversion(FlyConversion):
    target = "rocdl"
    spaces = dict(zip(AddressSpace, (0, 1, 3, 5), strict=True))
    features = features_of("rocm")
    native_math = AMD_MATH
    usual_warp = warp_size_of(USUAL["rocm"])


class _Spelled(_Conversion):
    """The conversion as a pass of its own: instructions are ops of `rocdl`."""

    def intrinsic(self, name: str, type_: Attribute | None, operands: Sequence[SSAValue]) -> SSAValue | None:
        # The whole dialect is loaded here; the one-walk lowering does without.
        from ...lowering.rocdl_instructions import spelled

        made = spelled(self.b, name, type_, operands)
        if made is None:
            return super().intrinsic(name, type_, operands)
        return made.results[0] if made.results else None


@dataclass(frozen=True)
class ConvertFlyToRocdlPass(Pass):
    """Lower pointers, memory access and atom calls for AMD."""

    conversion: ClassVar[type[FlyConversion]] = _Conversion
    name = "convert-fly-to-rocdl"

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Spelled.rebuild(module)
