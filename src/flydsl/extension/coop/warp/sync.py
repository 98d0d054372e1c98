"""Lanes of a logical warp meet, and see what the others wrote to memory before."""

from __future__ import annotations

from ....expr.gpu import lane_id
from ....expr.numeric import Int32
from ....expr.rocdl.target import trace_target


def warp_sync(lanes: int) -> None:
    """The lanes of a logical warp meet; where lanes can go apart, no other one waits."""
    from ....expr.emit.gpu_ir import warp_barrier
    from ....expr.rocdl.emit import intrinsic

    target = trace_target()
    if target is None or target.on_host or target.has("amd"):
        warp_barrier()
        return
    mask = Int32(-1) if lanes == 32 else Int32((1 << lanes) - 1) << (lane_id() & -lanes)
    intrinsic("llvm.nvvm.bar.warp.sync", None, [mask.ir_value()])
