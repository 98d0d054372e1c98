"""The cpu backend: kernels as host functions over blocks; `native`, or the name of a GPU architecture to emulate."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from flydsl.compiler.backends import _device_code
from flydsl.compiler.backends.base import BINARY_PASS, BuiltinBackend, DeviceBinary, Hints, Options, common_passes
from flydsl.target import ARCHITECTURES, CPU_NATIVE, GPUTarget, make_builtin_target, warp_size_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from flydsl.llvm.codegen import Compiler

_CHECKED_LEVEL = 1
"""At most so much is done about checked code: looking for equal loads across all the checks (GVN, from O2 on) takes
longer than the rest of a compilation, and finds little."""

_WAITING = ("fly_nvgpu", "fly_rocdl", "nvvm", "rocdl")
"""Dialects with ops that wait for others."""


class CpuBackend(BuiltinBackend):
    """Compiles for the CPU of this process."""

    binary_ext: ClassVar[str] = "o"
    address_spaces: ClassVar[Mapping[str, int]] = dict.fromkeys(
        ("generic", "global", "shared", "constant", "local", "register"), 0
    )

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        if target.backend != "cpu":
            return False
        if target.arch == CPU_NATIVE:
            return target.warp_size <= 64
        return target.arch in ARCHITECTURES and target.warp_size == warp_size_of(target.arch)

    @staticmethod
    def detect_target() -> GPUTarget:
        from flydsl.runtime import detect

        return detect.cpu_target()

    @classmethod
    def make_target(cls, arch: str) -> GPUTarget:
        return make_builtin_target("cpu", arch)

    def _pipeline_parts(self, *, compile_hints: Hints | None = None) -> tuple[list[str], list[str], str]:
        self.parse_options(compile_hints)
        return common_passes("convert-fly-to-cpu"), [], BINARY_PASS

    def gpu_module_targets(self) -> list[str]:
        return []

    def lower_compile_hints(self, module: ModuleOp, *, compile_hints: Hints) -> None:
        """Attributes of the device module: `cpu_check` becomes `fly.check`, `cpu_check_buffers` `fly.check_buffers`,
        `cpu_schedules` `fly.schedules`, which are explored in checked mode.
        """
        options = self.parse_options(compile_hints)
        if not (options.cpu_check or options.cpu_schedules):
            return
        builtin: object = importlib.import_module("xdsl.dialects.builtin")
        for op in module.ops:
            if op.name == "gpu.module":
                op.attributes["fly.check"] = builtin.UnitAttr()
                if options.cpu_check_buffers:
                    op.attributes["fly.check_buffers"] = builtin.UnitAttr()
                if options.cpu_schedules:
                    op.attributes["fly.schedules"] = builtin.UnitAttr()

    def checks_accesses(self, options: Options) -> bool:
        return bool(options.cpu_check or options.cpu_schedules)

    def tells_lines(self, module: ModuleOp, options: Options) -> bool:
        """Reports of checks name lines, and so do those of waits that never end: of loops, or for barriers of a GPU."""
        if super().tells_lines(module, options) or options.cpu_check or options.cpu_schedules:
            return True
        return any(op.name == "scf.while" or op.name.split(".")[0] in _WAITING for op in module.walk())

    def device_ir(self, module: Any) -> str:
        from flydsl.llvm import binding

        if "fly.schedules" in module.attributes:
            from flydsl.cpu.schedules.code import device_module
        else:
            from flydsl.cpu.code.abi import device_module
        triple = binding.host_triple()
        return device_module(module, triple, binding.data_layout(triple), self.target.warp_size)

    def make_device_code(self, llvm_ir: str, *, options: Options, compiler: Compiler | None = None) -> DeviceBinary:
        """A host object in which every kernel is a function `name(params, geometry, shared, first, last)`."""
        from flydsl.llvm import codegen

        if compiler is None:
            _device_code.refuse_llvm_options("cpu", options)
        target = codegen.DeviceTarget.host()
        level = min(options.opt_level, _CHECKED_LEVEL) if options.cpu_check else options.opt_level
        code = (compiler or codegen.compile_device)(llvm_ir, target, level)
        return DeviceBinary(
            {"o": code.object},
            chip=target.cpu,
            asm=lambda: code.asm,
            optimized_ir=lambda: code.optimized_ir,
            resources=[],
            times=dict(code.times),
        )

    def _hash_extras(self) -> list[str]:
        from flydsl.llvm import binding

        return [binding.host_triple(), binding.host_cpu(), binding.host_features()]

    @staticmethod
    def reserved_launch_param_names() -> frozenset[str]:
        return frozenset(("threads",))
