"""`convert-gpu-to-rocdl`: device code to `llvm` and `rocdl` for AMD."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ...dialects.upstream.rocdl import ROCDL_OPS
from ...llvm.text.abi_amdgpu import TRIPLE
from ...lowering.rules.rocdl_rules import RULES, TARGET
from ...target import MLIR_DEFAULTS
from ..base import Pass
from .convert_func_to_llvm import check_index_width
from .gpu_conversion import GpuConversion, device_handlers


def _data_layout(chip: str) -> str:
    from ...llvm import binding

    return binding.data_layout(TRIPLE, chip)


class RocdlConversion(GpuConversion):
    """The conversion for AMD."""

    handlers = device_handlers(RULES)
    data_layout = staticmethod(_data_layout)
    target = TARGET
    instructions = ROCDL_OPS


@dataclass(frozen=True)
class ConvertGpuToRocdlPass(Pass):
    """Convert device code to the llvm and rocdl dialects for AMD."""

    name = "convert-gpu-to-rocdl"
    needs = "no `scf` in device code (`convert-scf-to-cf`)"
    chipset: str = MLIR_DEFAULTS["rocdl"]
    index_bitwidth: int = 0
    runtime: str = "unknown"
    use_bare_ptr_memref_call_conv: bool = False

    def __post_init__(self) -> None:
        check_index_width(self.index_bitwidth)
        if self.runtime not in ("unknown", "HIP"):
            raise ValueError(f"option 'runtime' is unknown or HIP, got {self.runtime!r}")

    def run(self, module: ModuleOp) -> ModuleOp:
        return RocdlConversion.convert_module(module, self.chipset)
