"""The cuda backend: NVIDIA GPUs, PTX through llvmlite; a cubin as well where FLYDSL_COMPILE_PTXAS names ptxas."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from flydsl import config
from flydsl.compiler.backends import _device_code
from flydsl.compiler.backends.base import (
    BINARY_PASS,
    BuiltinBackend,
    DeviceBinary,
    Hints,
    Options,
    Tool,
    common_passes,
    to_llvm_passes,
)
from flydsl.target import ARCHITECTURES, GPUTarget, make_builtin_target, names_of, needs

if TYPE_CHECKING:
    from flydsl.llvm.codegen import Compiler


class CudaBackend(BuiltinBackend):
    """Compiles for `sm_*`."""

    binary_ext: ClassVar[str] = "ptx"
    address_spaces: ClassVar[Mapping[str, int]] = {
        "generic": 0,
        "global": 1,
        "shared": 3,
        "constant": 4,
        "local": 5,
        "register": 5,
    }

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "cuda" and target.arch in names_of("cuda") and target.warp_size == 32

    @staticmethod
    def detect_target() -> GPUTarget:
        from flydsl.runtime import detect

        return detect.detect_target("cuda")

    @classmethod
    def make_target(cls, arch: str) -> GPUTarget:
        return make_builtin_target("cuda", arch)

    def _pipeline_parts(self, *, compile_hints: Hints | None = None) -> tuple[list[str], list[str], str]:
        options = self.parse_options(compile_hints)
        device = (
            "gpu.module(convert-scf-to-cf,cse,convert-gpu-to-nvvm{index-bitwidth=0 use-bare-ptr-memref-call-conv=true})"
        )
        fast = str(options.fast_fp_math).lower()
        attach = (
            f"nvvm-attach-target{{O={options.opt_level} chip={self.target.arch} fast={fast} "
            f"features={self._llvm_features()} ftz=false module= triple=nvptx64-nvidia-cuda}}"
        )
        debug = "ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly}" if options.debug_info else ""
        upper = [*common_passes("convert-fly-to-nvvm"), "fly-nvgpu-insert-fences"]
        return [*upper, device], to_llvm_passes(attach, debug), BINARY_PASS

    def gpu_module_targets(self) -> list[str]:
        return [f'#nvvm.target<chip = "{self.target.arch}", features = "{self._llvm_features()}">']

    def _llvm_features(self, llvm_ir: str = "") -> str:
        features = list(self.target.features)
        if not any(feature.startswith("+ptx") for feature in features):
            version = ARCHITECTURES[self.target.arch].ptx or 0
            features.append(f"+ptx{max(version, needs.ptx_version(needs.read(llvm_ir)))}")
        return ",".join(features)

    def chip_for(self, llvm_ir: str) -> str:
        """The processor to generate code for: the target, with the suffix `a` if the code says that it needs it."""
        return needs.chip_for(self.target.arch, needs.read(llvm_ir))

    def lower_compile_hints(self, module: Any, *, compile_hints: Hints) -> None:
        """Hints become attributes of kernels."""
        options = self.parse_options(compile_hints)
        builtin: Any = importlib.import_module("xdsl.dialects.builtin")
        for op in _device_code.kernels_of(module):
            if options.maxnreg is not None:
                op.attributes["nvvm.maxnreg"] = builtin.IntegerAttr(options.maxnreg, builtin.i32)
            if options.noalias:
                _device_code.promise_noalias(op)

    def device_ir(self, module: Any) -> str:
        from flydsl.llvm import binding
        from flydsl.llvm.text import abi_nvptx

        return abi_nvptx.device_module(module, binding.data_layout(abi_nvptx.TRIPLE))

    def with_libraries(self, llvm_ir: str) -> str:
        from flydsl.llvm.text import abi_nvptx

        return abi_nvptx.declared(llvm_ir, needs.of_code(llvm_ir))

    def make_device_code(self, llvm_ir: str, *, options: Options, compiler: Compiler | None = None) -> DeviceBinary:
        from flydsl.llvm import codegen
        from flydsl.llvm.objects import ptx

        if compiler is None:
            _device_code.refuse_llvm_options("cuda", options)
        chip = self.chip_for(llvm_ir)
        code = (compiler or codegen.compile_device)(
            llvm_ir, codegen.DeviceTarget.nvptx(chip, self._llvm_features(llvm_ir)), options.opt_level
        )
        sections = {"ptx": code.asm.encode()}
        times = dict(code.times)
        usage: dict[str, ptx.KernelUsage] = {}
        if config.compile.ptxas is not None:
            start = time.perf_counter()
            flags = ("-lineinfo",) if options.debug_info else ()
            sections["cubin"], log = ptx.assemble(code.asm, chip, opt_level=options.opt_level, options=flags)
            usage = ptx.parse_log(log)
            times["assemble"] = time.perf_counter() - start
        return DeviceBinary(
            sections,
            chip=chip,
            asm=lambda: code.asm,
            optimized_ir=lambda: code.optimized_ir,
            resources=[_resource(name, usage.get(name)) for name in ptx.ptx_kernels(code.asm)],
            times=times,
        )

    def loadable(self, sections: Mapping[str, bytes]) -> bytes:
        return sections["cubin"] if "cubin" in sections else super().loadable(sections)

    def toolchain(self) -> list[Tool]:
        tool = _device_code.tool_identity("ptxas") if config.compile.ptxas is not None else None
        return [] if tool is None else [tool]

    @staticmethod
    def reserved_launch_param_names() -> frozenset[str]:
        return frozenset(("maxnreg", "pdl", "cooperative"))


def _resource(name: str, usage: Any) -> dict[str, Any]:
    """A kernel's resources; without ptxas only the driver knows the numbers, after loading."""
    return {
        "name": name,
        "registers": usage.registers if usage else None,
        "spills": usage.spill_stores + usage.spill_loads if usage else None,
        "shared": usage.shared if usage else None,
        "scratch": usage.stack if usage else None,
    }
