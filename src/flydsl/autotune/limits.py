"""What a kernel may use of a device, held against what the compiler says it uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..compiler.active_backend import resolve_backend
from ..compiler.build.artifact import CompiledArtifact
from ..target import GPUTarget
from ..target.architectures import architecture

Resources = Mapping[str, Mapping[str, Any]]
"""By kernel, as `CompiledArtifact.resources` gives them."""

MAX_THREADS = 1024
MAX_REGISTERS = {"nvidia": 65536}
"""Registers of a block."""


def _threads(uses: Mapping[str, Any]) -> int:
    size = uses.get("block_size") or uses.get("block")
    if isinstance(size, list | tuple):
        total = 1
        for extent in size:  # pyright: ignore[reportUnknownVariableType]
            total *= extent if isinstance(extent, int) else 1
        return total
    return size if isinstance(size, int) else 0


def shared_bytes(uses: Mapping[str, Any]) -> int:
    """Bytes of shared memory of a block, static and dynamic, as far as they are known."""
    static = uses.get("shared") or uses.get("shared_static") or uses.get("static_smem") or 0
    dynamic = uses.get("dynamic_smem") or 0
    return (static if isinstance(static, int) else 0) + (dynamic if isinstance(dynamic, int) else 0)


def uses_of(artifact: CompiledArtifact) -> dict[str, dict[str, Any]]:
    """What each kernel of an artifact uses, with its block."""
    resources = artifact.resources
    fields = ("block", "shared_static", "shared", "registers", "vgprs", "spills", "scratch")
    return {
        str(k["name"]): {**{f: k[f] for f in fields if k.get(f) is not None}, **resources.get(str(k["name"]), {})}
        for k in artifact.kernels
    }


def excess(resources: Resources, target: GPUTarget | None = None) -> str:
    """Why kernels cannot be launched, in words; empty where they can."""
    chosen = target or resolve_backend(None).target
    entry = architecture(chosen.arch)
    room = None if entry is None else entry.shared_mem_optin or entry.shared_mem
    for name, uses in resources.items():
        shared = shared_bytes(uses)
        if room is not None and shared > room:
            return f"{name} needs {shared} bytes of shared memory, a block of {chosen.arch} has {room}"
        threads = _threads(uses)
        if threads > MAX_THREADS:
            return f"{name} has {threads} threads a block, the limit is {MAX_THREADS}"
        registers = uses.get("registers")
        if isinstance(registers, int) and chosen.has("nvidia") and registers * threads > MAX_REGISTERS["nvidia"]:
            return (
                f"{name} needs {registers} registers for each of {threads} threads, "
                f"a block has {MAX_REGISTERS['nvidia']}"
            )
    return ""


def spills(resources: Resources) -> int:
    """Registers that are kept in memory, over all kernels."""
    counts = [uses.get("spills") for uses in resources.values()]
    return sum(n for n in counts if isinstance(n, int))
