"""The rocm backend: AMD GPUs, HSA code objects through llvmlite and ld.lld or the built-in linker."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from flydsl import config
from flydsl.compiler.backends import _device_code
from flydsl.compiler.backends._fingerprint import file_digest
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
from flydsl.errors import UnmetHintWarning
from flydsl.target import GPUTarget, make_builtin_target, names_of, warp_size_of

if TYPE_CHECKING:
    from flydsl.llvm.codegen import Compiler
    from flydsl.llvm.objects.code_object import KernelInfo


class RocmBackend(BuiltinBackend):
    """Compiles for `gfx*`."""

    binary_ext: ClassVar[str] = "hsaco"
    address_spaces: ClassVar[Mapping[str, int]] = {"generic": 0, "global": 1, "shared": 3, "register": 5}

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        known = target.backend == "rocm" and target.arch in names_of("rocm")
        return known and target.warp_size == warp_size_of(target.arch)

    @staticmethod
    def detect_target() -> GPUTarget:
        from flydsl.runtime.device import detect_rocm_target

        return detect_rocm_target()

    @classmethod
    def make_target(cls, arch: str) -> GPUTarget:
        return make_builtin_target("rocm", arch)

    def _pipeline_parts(self, *, compile_hints: Hints | None = None) -> tuple[list[str], list[str], str]:
        options = self.parse_options(compile_hints)
        arch = self.target.arch
        device = (
            "gpu.module(convert-scf-to-cf,cse,"
            f"convert-gpu-to-rocdl{{chipset={arch} index-bitwidth=0 runtime=HIP use-bare-ptr-memref-call-conv=true}},"
            "fly-rocdl-cluster-attr)"
        )

        def flag(value: bool) -> str:
            return str(value).lower()

        attach = (
            f"rocdl-attach-target{{O={options.opt_level} abi=600 chip={arch} correct-sqrt=true daz=false "
            f"fast={flag(options.fast_fp_math)} features={self._llvm_features()} finite-only=false module= "
            f"triple=amdgcn-amd-amdhsa unsafe-math={flag(options.unsafe_fp_math)} "
            f"wave64={flag(self.target.warp_size == 64)}}}"
        )
        debug = "ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly}" if options.debug_info else ""
        after = ["fly-split-carried-vectors", "fly-merge-guards"]
        passes = [*common_passes("convert-fly-to-rocdl"), *after, device]
        return passes, to_llvm_passes(attach, debug), BINARY_PASS

    def gpu_module_targets(self) -> list[str]:
        features = f', features = "{",".join(self.target.features)}"' if self.target.features else ""
        return [f'#rocdl.target<chip = "{self.target.arch}"{features}>']

    def lower_compile_hints(self, module: Any, *, compile_hints: Hints) -> None:
        """Hints become attributes of kernels; helpers stay as they are.

        `rocdl.waves_per_eu` is one number: a pair of least and most is passed on to the LLVM function.
        """
        options = self.parse_options(compile_hints)
        waves = options.waves_per_eu
        if waves is None and options.maxnreg is None and not options.noalias and not self.target.has("clusters"):
            return
        builtin: Any = importlib.import_module("xdsl.dialects.builtin")
        for op in _device_code.kernels_of(module):
            if waves is not None and waves[1] is None:
                op.attributes["rocdl.waves_per_eu"] = builtin.IntegerAttr(waves[0], builtin.i32)
            if options.noalias:
                _device_code.promise_noalias(op)
            _device_code.pass_through(op, self._kernel_attributes(options, "rocdl.cluster_dims" in op.attributes))

    def _kernel_attributes(self, options: Options, in_clusters: bool) -> dict[str, str]:
        found: dict[str, str] = {}
        if options.waves_per_eu is not None and options.waves_per_eu[1] is not None:
            low, high = options.waves_per_eu
            found["amdgpu-waves-per-eu"] = f"{low},{high}"
        if options.maxnreg is not None:
            # Where vector and accumulation registers share a file, LLVM counts pairs.
            pairs = self.target.has("unified_registers")
            found["amdgpu-num-vgpr"] = str(max(options.maxnreg // 2, 1) if pairs else options.maxnreg)
        if self.target.has("clusters") and not in_clusters:
            # What launches clusters says so itself; elsewhere the ids of a block need no second look.
            found["amdgpu-cluster-dims"] = "0,0,0"
        return found

    def device_ir(self, module: Any) -> str:
        from flydsl.llvm import binding
        from flydsl.llvm.text import abi_amdgpu

        return abi_amdgpu.device_module(module, binding.data_layout(abi_amdgpu.TRIPLE, self.target.arch))

    def make_device_code(self, llvm_ir: str, *, options: Options, compiler: Compiler | None = None) -> DeviceBinary:
        from flydsl.llvm import absent, codegen
        from flydsl.llvm.objects import code_object, link

        if compiler is None:
            _device_code.refuse_llvm_options("rocm", options)
        target = codegen.DeviceTarget.amdgpu(self.target.arch, self._llvm_features())
        absent.refuse_absent(llvm_ir, self.target)
        code = (compiler or codegen.compile_device)(llvm_ir, target, options.opt_level)
        start = time.perf_counter()
        hsaco, linker = link.link_hsaco(code.object, linker=config.compile.linker)
        linked = time.perf_counter() - start
        resources = _resources(code_object.read_code_object(hsaco).kernels, self.target.arch)
        _warn_unmet(options, resources)
        return DeviceBinary(
            {"hsaco": hsaco, "o": code.object},
            chip=self.target.arch,
            asm=lambda: code.asm,
            optimized_ir=lambda: code.optimized_ir,
            resources=resources,
            times={**code.times, "link": linked},
            notes={"linker": linker},
        )

    def launched_with(self, resources: list[dict[str, Any]], dynamic: Mapping[str, int]) -> list[dict[str, Any]]:
        arch, wave = self.target.arch, self.target.warp_size
        return [_with_dynamic(arch, wave, r, dynamic[r["name"]]) if dynamic.get(r["name"]) else r for r in resources]

    def device_libs(self, symbols: Iterable[str]) -> list[Path]:
        from flydsl.compiler.backends import _rocm_libs

        wanted = sorted(symbols)
        return _rocm_libs.device_libs(self.target, wanted) if _rocm_libs.owners(wanted) else []

    def _hash_extras(self) -> list[str]:
        # Which libraries would be linked counts whether or not a kernel turns out to need them.
        if config.compile.device_libs is None:
            return []
        files = sorted(config.compile.device_libs.glob("*.bc"))
        return [f"{path.name}|{file_digest(path)}" for path in files]

    def _llvm_features(self) -> str:
        return ",".join(self.target.features)

    def toolchain(self) -> list[Tool]:
        # The built-in linker makes what the loader cannot tell from lld's, so lld counts only where it was asked for.
        if config.compile.linker == "internal" or (config.compile.linker == "auto" and not config.compile.lld):
            return []
        tool = _device_code.tool_identity("ld.lld")
        return [] if tool is None else [tool]

    @staticmethod
    def reserved_launch_param_names() -> frozenset[str]:
        return frozenset(("waves_per_eu", "maxnreg"))


def _warn_unmet(options: Options, resources: Iterable[Mapping[str, Any]]) -> None:
    """LLVM does not go below what lets as many waves run as fit anyway; a limit it has not kept is worth a word."""
    if options.maxnreg is None:
        return
    for kernel in resources:
        used = kernel["registers"]
        if used > options.maxnreg:
            config.warn(
                f"kernel '{kernel['name']}' uses {used} registers, more than maxnreg={options.maxnreg}: with fewer, no "
                "more waves could run",
                UnmetHintWarning,
            )


def _with_dynamic(arch: str, wave: int, entry: dict[str, Any], dynamic: int) -> dict[str, Any]:
    """What a kernel uses once its launch has added shared memory."""
    from flydsl.llvm.objects.amdgpu_occupancy import occupancy

    waves, limited_by = occupancy(
        arch,
        wave=wave,
        threads=entry["max_threads"],
        vgprs=entry["registers"],
        sgprs=entry["sgprs"],
        shared=entry["shared"] + dynamic,
    )
    return {**entry, "dynamic_smem": dynamic, "occupancy": waves, "occupancy_limit": limited_by}


def _resources(kernels: Iterable[KernelInfo], arch: str) -> list[dict[str, object]]:
    from flydsl.llvm.objects.amdgpu_occupancy import occupancy

    found: list[dict[str, object]] = []
    for kernel in kernels:
        waves, limited_by = occupancy(
            arch,
            wave=kernel.wavefront_size,
            threads=kernel.max_flat_workgroup_size,
            vgprs=kernel.vgpr,
            sgprs=kernel.sgpr,
            shared=kernel.lds,
        )
        found.append(
            {
                "name": kernel.name,
                "registers": kernel.vgpr,
                "agprs": kernel.agpr,
                "sgprs": kernel.sgpr,
                "spills": kernel.vgpr_spill + kernel.sgpr_spill,
                "shared": kernel.lds,
                "scratch": kernel.scratch,
                "occupancy": waves,
                "occupancy_limit": limited_by,
                "kernarg_size": kernel.kernarg_size,
                "max_threads": kernel.max_flat_workgroup_size,
                "code_size": kernel.code_size,
            }
        )
    return found
