"""The compile backend: FlyDSL's passes down to LLVM, then LLVM's code generator for the host.

A real backend differs in the conversion pass it names, in `device_ir`, which writes LLVM IR with the kernel signature
of its device, and in `make_device_code`, which produces what its runtime loads.
"""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

from flydsl.compiler.backends import BaseBackend, DeviceBinary, GPUTarget, Options
from flydsl.compiler.backends.base import BINARY_PASS, Hints, common_passes
from flydsl.cpu.code import abi as abi_cpu
from flydsl.llvm import binding, codegen

ARCHES = {"toy1": 16, "toy2": 32}
"""Every architecture and the width of its warps."""


class ToyBackend(BaseBackend):
    """Two imaginary architectures that are really the host.

    `experimental` stays at its default, so the first use warns; `runtime_kind` too, so the kind is the backend's name.
    """

    binary_ext: ClassVar[str] = "o"
    VERSION: ClassVar[int] = 1

    # -- targets ---------------------------------------------------------------------------------------

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "toy" and ARCHES.get(target.arch) == target.warp_size

    @classmethod
    def make_target(cls, arch: str) -> GPUTarget:
        name = arch.strip().lower()
        if name not in ARCHES:
            raise ValueError(f"unknown toy architecture {arch!r}; known: {', '.join(ARCHES)}")
        return GPUTarget("toy", name, ARCHES[name])

    @staticmethod
    def detect_target() -> GPUTarget:
        """The environment first, then the device; asking the latter is only needed if the former is silent."""
        from flydsl import config

        if config.compile.arch:
            return ToyBackend.make_target(config.compile.arch)
        from flydsl.runtime import Device

        return Device.current().target()

    @classmethod
    def llvm_address_space(cls, address_space: object) -> int:
        return 0

    # -- pipeline --------------------------------------------------------------------------------------

    def pipeline_fragments(self, *, compile_hints: Hints) -> list[str]:
        return [*common_passes("convert-fly-to-cpu"), BINARY_PASS]

    def gpu_module_targets(self) -> list[str]:
        return []

    # -- code ------------------------------------------------------------------------------------------

    def device_ir(self, module: Any) -> str:
        triple = binding.host_triple()
        return abi_cpu.device_module(module, triple, binding.data_layout(triple))

    def make_device_code(
        self, llvm_ir: str, *, options: Options, compiler: codegen.Compiler | None = None
    ) -> DeviceBinary:
        code = (compiler or codegen.compile_device)(llvm_ir, codegen.DeviceTarget.host(), options.opt_level)
        return DeviceBinary(
            {"o": code.object},
            chip=self.target.arch,
            asm=lambda: code.asm,
            optimized_ir=lambda: code.optimized_ir,
            resources=[],
            times=dict(code.times),
        )

    # -- identity --------------------------------------------------------------------------------------

    def hash(self) -> str:
        """All that shapes the code: this class, the target, the host's CPU and its features."""
        parts = ("flydsl-toy", str(self.VERSION), self.target.key(), binding.host_cpu(), binding.host_features())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def native_lib_patterns(self) -> list[str]:
        return []

    def jit_runtime_lib_basenames(self) -> list[str]:
        return []
