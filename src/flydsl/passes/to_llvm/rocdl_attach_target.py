"""`rocdl-attach-target`: say for which AMD GPU device modules are compiled."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ...dialects.upstream.rocdl import RocdlTargetAttr
from ...target import MLIR_DEFAULTS
from ..base import Pass
from .attach_target import attach, check_level, flag_set, links


@dataclass(frozen=True)
class RocdlAttachTargetPass(Pass):
    """Attach an AMD target to device modules."""

    name = "rocdl-attach-target"
    module: str = ""
    triple: str = "amdgcn-amd-amdhsa"
    chip: str = MLIR_DEFAULTS["rocdl"]
    features: str = ""
    abi: str = "600"
    O: int = 2  # noqa: E741, the option's name is upstream's
    wave64: bool = True
    fast: bool = False
    daz: bool = False
    finite_only: bool = False
    unsafe_math: bool = False
    correct_sqrt: bool = True
    l: str = ""  # noqa: E741

    def __post_init__(self) -> None:
        check_level(self.O)

    def run(self, module: ModuleOp) -> ModuleOp:
        flags = {
            "no_wave64": not self.wave64,
            "fast": self.fast,
            "daz": self.daz,
            "finite_only": self.finite_only,
            "unsafe_math": self.unsafe_math,
            "unsafe_sqrt": not self.correct_sqrt,
        }
        target = RocdlTargetAttr.of(
            O=self.O,
            triple=self.triple,
            chip=self.chip,
            features=self.features,
            abi=self.abi,
            flags=flag_set(flags),
            link=links(self.l),
        )
        return attach(module, self.module, target)
