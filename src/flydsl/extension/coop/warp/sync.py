"""Lanes of a logical warp meet, and see what the others wrote to memory before."""

from __future__ import annotations

from ....expr.atomics import AtomicOrdering, memory_fence
from ....expr.gpu import lane_id
from ....expr.numeric import Int32
from ....expr.rocdl.target import trace_target
from ....ir.enums import SyncScope


def warp_sync(lanes: int) -> None:
    """The lanes of a logical warp meet; no other one waits."""
    from ....expr.rocdl.emit import intrinsic

    target = trace_target()
    if target is not None and target.has("amd"):
        # A wave goes in step: its accesses only must not be moved.
        memory_fence(syncscope=SyncScope.Warp, ordering=AtomicOrdering.Release)
        intrinsic("llvm.amdgcn.wave.barrier", None, [])
        memory_fence(syncscope=SyncScope.Warp, ordering=AtomicOrdering.Acquire)
        return
    mask = Int32(-1) if lanes == 32 else Int32((1 << lanes) - 1) << (lane_id() & -lanes)
    intrinsic("llvm.nvvm.bar.warp.sync", None, [mask.ir_value()])


__all__ = ["warp_sync"]
