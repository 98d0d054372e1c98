"""Architecture questions about the current machine, at FlyDSL's import path. Nothing here guesses."""

from __future__ import annotations

from flydsl.runtime import detect, probe
from flydsl.target import GPUTarget, gpu_backend_of_arch, normalize_cpu_arch, warp_size_of
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
    if arch:
        return warp_size_of(normalize_cpu_arch(arch)[0])
    backend = probe.selected_backend()
    if backend == "rocm":
        return detect_rocm_target().warp_size
    if backend == "cpu":
        return detect.cpu_target().warp_size
    return detect.detect_target(backend).warp_size


__all__ = ["detect_rocm_target", "get_rocm_arch", "get_warp_size", "gpu_backend_of_arch", "is_rdna_arch"]
