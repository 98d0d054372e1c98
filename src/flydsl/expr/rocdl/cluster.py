"""Clusters of workgroups (gfx1250): ids and the barrier of a cluster."""

from __future__ import annotations

from typing import Any

from ...errors import DSLValueError
from ..numeric import Int32
from .target import amd_target, gfx_of


def _call(name: str, result: bool = True) -> Any:
    target = amd_target(f"fx.rocdl.cluster.{name}")
    arch = gfx_of(target)
    if arch is None or not arch.startswith("gfx125"):
        raise DSLValueError(f"clusters exist on gfx1250, not on {target.backend}:{target.arch}")
    if target.backend == "cpu":
        raise DSLValueError("the cpu stack does not run clusters of AMD GPUs")
    from xdsl.dialects.builtin import i32

    from . import emit

    made = emit.intrinsic(f"llvm.amdgcn.{name}", i32 if result else None, [])
    return Int32(made) if result else None


def cluster_id(dim: str = "x") -> Int32:
    """Index of the cluster in the grid."""
    return _call(f"cluster.id.{dim}")


def workgroup_id(dim: str = "x") -> Int32:
    """Index of the workgroup in its cluster."""
    return _call(f"cluster.workgroup.id.{dim}")


def flat_workgroup_id() -> Int32:
    """Flat index of the workgroup in its cluster: its bit in a multicast mask."""
    return _call("cluster.workgroup.flat.id")


def barrier() -> None:
    """All workgroups of the cluster meet here."""
    _call("s.cluster.barrier", result=False)


__all__ = ["barrier", "cluster_id", "flat_workgroup_id", "workgroup_id"]
