"""`convert-gpu-to-nvvm`: device code to `llvm` and `nvvm` for NVIDIA."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ...dialects.fly_nvgpu.ops import AsmOp
from ...dialects.upstream.nvvm import NVVM_OPS
from ...llvm.text.abi_nvptx import TRIPLE
from ...lowering.rules.nvvm_rules import RULES, TARGET, inline_asm
from ..base import Pass
from .convert_func_to_llvm import check_index_width
from .gpu_conversion import GpuConversion, device_handlers


def _data_layout(chip: str) -> str:
    from ...llvm import binding

    return binding.data_layout(TRIPLE)


class NvvmConversion(GpuConversion):
    """The conversion for NVIDIA."""

    handlers = {**device_handlers(RULES), AsmOp: inline_asm}
    data_layout = staticmethod(_data_layout)
    target = TARGET
    instructions = NVVM_OPS


@dataclass(frozen=True)
class ConvertGpuToNvvmPass(Pass):
    """Convert device code to the llvm and nvvm dialects for NVIDIA."""

    name = "convert-gpu-to-nvvm"
    needs = "no `scf` in device code (`convert-scf-to-cf`)"
    index_bitwidth: int = 0
    has_redux: bool = False
    use_bare_ptr_memref_call_conv: bool = False

    def __post_init__(self) -> None:
        check_index_width(self.index_bitwidth)

    def run(self, module: ModuleOp) -> ModuleOp:
        return NvvmConversion.convert_module(module, "")
