"""Clusters of workgroups (gfx1250): ids and the barrier of a cluster."""

from __future__ import annotations

from typing import Any

from ...errors import DSLValueError
from ...target import families
from ..atomics import AtomicOrdering, memory_fence
from ..gpu import block_idx, lane_id
from ..numeric import Boolean, Int32
from .target import amd_target


def _dim(what: str, dim: str) -> str:
    if dim not in ("x", "y", "z"):
        raise DSLValueError(f"fx.rocdl.cluster.{what} takes 'x', 'y' or 'z', got {dim!r}")
    return dim


def _call(name: str, result: bool = True) -> Any:
    target = amd_target(f"fx.rocdl.cluster.{name}")
    if not target.has("amd") or not target.has("clusters"):
        have = ", ".join(families("amd", "clusters"))
        raise DSLValueError(f"clusters exist on {have}, not on {target.backend}:{target.arch}")
    if target.on_host:
        return _emulated(name)
    from xdsl.dialects.builtin import i32

    from . import emit

    made = emit.intrinsic(f"llvm.amdgcn.{name}", i32 if result else None, [])
    return Int32(made) if result else None


def _emulated(name: str) -> Any:
    """The same on the cpu stack."""
    from . import emit

    if name == "s.cluster.barrier":
        return emit.cluster_barrier()
    if name == "cluster.workgroup.flat.id":
        return Int32(emit.cluster_rank())
    dim = "xyz".index(name[-1])
    extent, block = Int32(emit.cluster_extent(dim)), Int32(getattr(block_idx, name[-1]))
    return block // extent if name.startswith("cluster.id") else block % extent


def cluster_id(dim: str = "x") -> Int32:
    """Index of the cluster in the grid.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster.cluster_id("x"), target="cpu:gfx1250")
    0
    """
    return _call(f"cluster.id.{_dim('cluster_id', dim)}")


def workgroup_id(dim: str = "x") -> Int32:
    """Index of the workgroup in its cluster.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster.workgroup_id("x"), target="cpu:gfx1250")
    0
    """
    return _call(f"cluster.workgroup.id.{_dim('workgroup_id', dim)}")


def flat_workgroup_id() -> Int32:
    """Flat index of the workgroup in its cluster: its bit in a multicast mask.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster.flat_workgroup_id(), target="cpu:gfx1250")
    0
    """
    return _call("cluster.workgroup.flat.id")


def barrier() -> None:
    """All workgroups of the cluster meet here, and see what the others wrote before.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster.barrier(), target="cpu:gfx1250")
    """
    amd_target("fx.rocdl.cluster.barrier")
    memory_fence(syncscope="cluster", ordering=AtomicOrdering.Release)
    _call("s.cluster.barrier", result=False)
    memory_fence(syncscope="cluster", ordering=AtomicOrdering.Acquire)


CLUSTER_BARRIER_ID = -3
"""The barrier of a cluster, for `s_barrier_signal` and `s_barrier_wait`."""
CLUSTER_WAIT_ALL = 0
"""Wait for everything: no copy may be outstanding."""


def cluster_workgroup_id_x() -> Int32:
    """`workgroup_id("x")`.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster_workgroup_id_x(), target="cpu:gfx1250")
    0
    """
    return workgroup_id("x")


def cluster_workgroup_id_y() -> Int32:
    """`workgroup_id("y")`.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster_workgroup_id_y(), target="cpu:gfx1250")
    0
    """
    return workgroup_id("y")


def cluster_workgroup_id_z() -> Int32:
    """`workgroup_id("z")`.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster_workgroup_id_z(), target="cpu:gfx1250")
    0
    """
    return workgroup_id("z")


def compute_cluster_position() -> tuple[Int32, Int32]:
    """Row and column of the workgroup in its cluster: its y and x.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster.compute_cluster_position(), target="cpu:gfx1250")
    (0, 0)
    """
    return workgroup_id("y"), workgroup_id("x")


def is_wave_leader() -> Boolean:
    """Whether this is the first lane of its wave.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster.is_wave_leader(), threads=2, target="cpu:gfx1250")
    [True, False]
    """
    return lane_id() == 0


def cluster_signal_once_per_wg() -> None:
    """Say that the workgroup has come; `cluster_wait` then waits for the others of the cluster.

    What was written before is seen by who has waited. The meeting itself happens in `cluster_wait`: a workgroup signals
    its cluster once, which no wave of it can do before the others have come.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster.cluster_signal_once_per_wg(), target="cpu:gfx1250")
    """
    if amd_target("fx.rocdl.cluster.cluster_signal_once_per_wg").on_host:
        return
    memory_fence(syncscope="cluster", ordering=AtomicOrdering.Release)


def cluster_wait() -> None:
    """Wait for all workgroups of the cluster to have signalled.

    >>> def meet():
    ...     fx.rocdl.cluster.cluster_signal_once_per_wg()
    ...     fx.rocdl.cluster.cluster_wait()
    >>> flyc.evaluate(meet, target="cpu:gfx1250")
    """
    barrier()


def cluster_barrier() -> None:
    """`barrier()`: all workgroups of the cluster meet.

    >>> flyc.evaluate(lambda: fx.rocdl.cluster.cluster_barrier(), target="cpu:gfx1250")
    """
    barrier()


__all__ = [
    "CLUSTER_BARRIER_ID", "CLUSTER_WAIT_ALL", "cluster_barrier", "cluster_signal_once_per_wg", "cluster_wait",
    "cluster_workgroup_id_x", "cluster_workgroup_id_y", "cluster_workgroup_id_z", "compute_cluster_position",
    "is_wave_leader", "barrier", "cluster_id", "flat_workgroup_id", "workgroup_id",
]  # fmt: skip
