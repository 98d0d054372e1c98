"""`nvvm-attach-target`: say for which NVIDIA GPU device modules are compiled."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ...dialects.upstream.nvvm import NvvmTargetAttr
from ...target import MLIR_DEFAULTS
from ..base import Pass
from .attach_target import attach, check_level, flag_set, links


@dataclass(frozen=True)
class NvvmAttachTargetPass(Pass):
    """Attach an NVIDIA target to device modules."""

    name = "nvvm-attach-target"
    module: str = ""
    triple: str = "nvptx64-nvidia-cuda"
    chip: str = MLIR_DEFAULTS["nvvm"]
    features: str = "+ptx60"
    O: int = 2  # noqa: E741, the option's name is upstream's
    fast: bool = False
    ftz: bool = False
    l: str = ""  # noqa: E741

    def __post_init__(self) -> None:
        check_level(self.O)

    def run(self, module: ModuleOp) -> ModuleOp:
        target = NvvmTargetAttr.of(
            O=self.O,
            triple=self.triple,
            chip=self.chip,
            features=self.features,
            flags=flag_set({"fast": self.fast, "ftz": self.ftz}),
            link=links(self.l),
        )
        return attach(module, self.module, target)
