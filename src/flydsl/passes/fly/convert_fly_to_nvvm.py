"""`convert-fly-to-nvvm`: the rest of `fly` to `llvm` with the address spaces of NVIDIA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from ...ir.enums import AddressSpace
from ...lowering.expand.expand_math import NVIDIA_MATH
from ...target import features_of
from ..base import Pass
from .convert_fly import FlyConversion


class _Conversion(FlyConversion):
    target = "nvvm"
    spaces = dict(zip(AddressSpace, (0, 1, 3, 5), strict=True))
    features = features_of("cuda")
    native_math = NVIDIA_MATH


@dataclass(frozen=True)
class ConvertFlyToNvvmPass(Pass):
    """Lower pointers, memory access and atom calls for NVIDIA."""

    conversion: ClassVar[type[FlyConversion]] = _Conversion
    name = "convert-fly-to-nvvm"

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)
