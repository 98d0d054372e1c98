"""The dialect `rocdl`."""

from __future__ import annotations

from ...dialects.upstream import gpu as ours
from ..insertion import emit
from ..operations import OpView
from ..signature import by_op
from .generated import module


class BarrierOp(OpView):
    """`rocdl.barrier`, which is `gpu.barrier`: no instruction of AMD's has this name."""

    OPERATION_NAME = "gpu.barrier"
    SIGNATURE = by_op("rocdl")["rocdl.barrier"]

    def __init__(self, *, loc: object = None, ip: object = None):
        self.raw = ours.BarrierOp()
        emit(self.raw, loc, ip)


__getattr__, __dir__ = module("rocdl", globals())

__all__ = ["BarrierOp"]
