"""The rocm backend: AMD GPUs, HSA code objects through llvmlite and ld.lld or the built-in linker."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from flydsl import config
from flydsl.compiler.backends import _device_code
from flydsl.compiler.backends.base import (
    BINARY_PASS,
    BuiltinBackend,
    DeviceBinary,
    Hints,
    Options,
    Stage,
    Tool,
    common_passes,
)
from flydsl.target import ROCM_ARCHES, GPUTarget, make_builtin_target, warp_size_of

if TYPE_CHECKING:
    from flydsl.llvm.code_object import KernelInfo
    from flydsl.llvm.codegen import Compiler


class RocmBackend(BuiltinBackend):
    """Compiles for `gfx*`."""

    binary_ext: ClassVar[str] = "hsaco"
    address_spaces: ClassVar[Mapping[str, int]] = {"generic": 0, "global": 1, "shared": 3, "register": 5}

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "rocm" and target.arch in ROCM_ARCHES and target.warp_size == warp_size_of(target.arch)

    @staticmethod
    def detect_target() -> GPUTarget:
        from flydsl.runtime.device import detect_rocm_target

        return detect_rocm_target()

    @classmethod
    def make_target(cls, arch: str) -> GPUTarget:
        return make_builtin_target("rocm", arch)

    def _pipeline_parts(self, *, compile_hints: Hints | None = None) -> tuple[list[str], list[str], str]:
        self.parse_options(compile_hints)
        return common_passes("convert-fly-to-rocdl"), [], BINARY_PASS

    def llvm_recodegen_fragments(self, opt_level: int = 0) -> list[str]:
        """Passes that make a binary of a device module that is optimised LLVM dialect already."""
        target = f"rocdl-attach-target{{O={opt_level} abi=600 chip={self.target.arch} triple=amdgcn-amd-amdhsa}}"
        return [target, BINARY_PASS]

    def gpu_module_targets(self) -> list[str]:
        features = f', features = "{",".join(self.target.features)}"' if self.target.features else ""
        return [f'#rocdl.target<chip = "{self.target.arch}"{features}>']

    def lower_compile_hints(self, module: Any, *, compile_hints: Hints) -> None:
        """`waves_per_eu` becomes `rocdl.waves_per_eu` on kernel functions; helpers stay as they are."""
        waves = self.parse_options(compile_hints).waves_per_eu
        if waves is None:
            return
        builtin: Any = importlib.import_module("xdsl.dialects.builtin")
        for op in module.walk():
            if op.name == "gpu.func" and ("kernel" in op.attributes or "kernel" in op.properties):
                op.attributes["rocdl.waves_per_eu"] = builtin.IntegerAttr(waves[0], builtin.i32)

    def _kernel_attributes(self, options: Options) -> dict[str, str]:
        found: dict[str, str] = {}
        if options.waves_per_eu is not None:
            low, high = options.waves_per_eu
            found["amdgpu-waves-per-eu"] = str(low) if high is None else f"{low},{high}"
        if options.maxnreg is not None:
            found["amdgpu-num-vgpr"] = str(options.maxnreg)
        return found

    def device_ir(self, module: Any) -> str:
        from flydsl.llvm import abi_amdgpu, binding

        return abi_amdgpu.device_module(module, binding.data_layout(abi_amdgpu.TRIPLE, self.target.arch))

    def make_device_code(self, llvm_ir: str, *, options: Options, compiler: Compiler | None = None) -> DeviceBinary:
        from flydsl.llvm import code_object, codegen, link

        if compiler is None:
            _device_code.refuse_llvm_options("rocm", options)
        text = _device_code.add_kernel_attributes(llvm_ir, "amdgpu_kernel", self._kernel_attributes(options))
        target = codegen.DeviceTarget.amdgpu(self.target.arch, self._llvm_features())
        code = (compiler or codegen.compile_device)(text, target, options.opt_level)
        start = time.perf_counter()
        hsaco, linker = link.link_hsaco(code.object, linker=config.compile.linker)
        linked = time.perf_counter() - start
        return DeviceBinary(
            {"hsaco": hsaco, "o": code.object},
            chip=self.target.arch,
            asm=lambda: code.asm,
            optimized_ir=lambda: code.optimized_ir,
            resources=_resources(code_object.read_code_object(hsaco).kernels),
            times={**code.times, "link": linked},
            notes={"linker": linker},
        )

    def _llvm_features(self) -> str:
        return ",".join(self.target.features)

    def codegen_stages(self) -> list[Stage]:
        return [
            Stage("ll", lambda binary: binary.optimized_ir.encode()),
            Stage("s", lambda binary: binary.asm().encode()),
            Stage("o", lambda binary: binary.sections["o"]),
            Stage("hsaco", lambda binary: binary.sections["hsaco"]),
        ]

    def toolchain(self) -> list[Tool]:
        # The built-in linker makes what the loader cannot tell from lld's, so lld counts only where it was asked for.
        if config.compile.linker == "internal" or (config.compile.linker == "auto" and not config.compile.lld):
            return []
        tool = _device_code.tool_identity("ld.lld")
        return [] if tool is None else [tool]

    @staticmethod
    def reserved_launch_param_names() -> frozenset[str]:
        return frozenset(("waves_per_eu", "maxnreg"))


def _resources(kernels: Iterable[KernelInfo]) -> list[dict[str, Any]]:
    return [
        {
            "name": kernel.name,
            "registers": kernel.vgpr,
            "agprs": kernel.agpr,
            "sgprs": kernel.sgpr,
            "spills": kernel.vgpr_spill + kernel.sgpr_spill,
            "shared": kernel.lds,
            "scratch": kernel.scratch,
            "kernarg_size": kernel.kernarg_size,
            "max_threads": kernel.max_flat_workgroup_size,
            "code_size": kernel.code_size,
        }
        for kernel in kernels
    ]
