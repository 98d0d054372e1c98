"""`convert-fly-to-rocdl`: the rest of `fly` to `llvm` with the address spaces of AMD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from ..dialects.enums import AddressSpace
from .base import Pass
from .convert_fly import FlyConversion


class _Conversion(FlyConversion):
    target = "rocdl"
    spaces = dict(zip(AddressSpace, (0, 1, 3, 5), strict=True))
    trust_alignment = True


@dataclass(frozen=True)
class ConvertFlyToRocdlPass(Pass):
    """Lower pointers, memory access and atom calls for AMD."""

    conversion: ClassVar[type[FlyConversion]] = _Conversion
    name = "convert-fly-to-rocdl"

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)
