"""Architecture questions about the current machine, at FlyDSL's import path. Nothing here guesses."""

from __future__ import annotations

from flydsl.errors import DSLRuntimeError, FlyRuntimeError
from flydsl.runtime import detect, probe
from flydsl.target import ROCM_ARCHES, GPUTarget, gpu_backend_of_arch, has, normalize_cpu_arch, warp_size_of, where
from flydsl.target import is_rdna_arch as _is_rdna


def detect_rocm_target() -> GPUTarget:
    """The rocm target of the environment or the current device; raises `TargetDetectionError` if nothing tells."""
    return detect.detect_target("rocm", (detect.hsa_override,), (detect.agent_enumerator,))


def get_rocm_arch() -> str:
    """The AMD architecture to compile for, such as gfx942."""
    return detect_rocm_target().arch


def is_rdna_arch(arch: str | None = None) -> bool:
    """Whether an architecture (default: the current one) is RDNA."""
    return _is_rdna(arch if arch is not None else get_rocm_arch())


def get_warp_size(arch: str | None = None) -> int:
    """Lanes per warp of an architecture; by default of the one the selected stack would compile for."""
    return warp_size_of(normalize_cpu_arch(arch)[0]) if arch else selected_target().warp_size


def selected_target() -> GPUTarget:
    """The target the selected stack would compile for."""
    backend = probe.selected_backend()
    if backend == "rocm":
        return detect_rocm_target()
    if backend == "cpu":
        return detect.cpu_target()
    return detect.detect_target(backend)


SMEM_CAPACITY_MAP: dict[str, int] = {
    arch: GPUTarget.parse(f"rocm:{arch}").caps.shared_mem_per_block or 0 for arch in ROCM_ARCHES
}
"""Bytes of shared memory a block may have, by architecture."""


def check_smem_capacity(allocated_bytes: int, arch: str | None = None) -> None:
    """Raise if a block of an architecture cannot have that much shared memory; unknown architectures pass."""
    limit = SMEM_CAPACITY_MAP.get(arch or "")
    if limit is not None and allocated_bytes > limit:
        raise DSLRuntimeError(
            f"Shared Memory Overflow: {allocated_bytes} bytes were asked for, and a block of {arch} has {limit}; use "
            "smaller tiles or fewer stages"
        )


def get_rocm_device_count() -> int:
    """AMD devices of this machine; 0 where there is no driver."""
    from flydsl.runtime.rocm import RocmDeviceRuntime

    try:
        return RocmDeviceRuntime().device_count()
    except FlyRuntimeError:
        return 0


def supports_bf16_global_atomics(arch: str | None = None) -> bool:
    """Whether an architecture adds packed bf16 to global memory in one instruction."""
    return has((arch or get_rocm_arch()).partition(":")[0], "global_fadd_bf16")


def bf16_global_atomics_arch_description() -> str:
    """The architectures for which `supports_bf16_global_atomics` holds, for messages."""
    return where("global_fadd_bf16")


__all__ = [
    "SMEM_CAPACITY_MAP", "bf16_global_atomics_arch_description", "check_smem_capacity", "detect_rocm_target",
    "get_rocm_arch", "get_rocm_device_count", "get_warp_size", "gpu_backend_of_arch", "is_rdna_arch", "selected_target",
    "supports_bf16_global_atomics",
]  # fmt: skip
