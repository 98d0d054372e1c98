"""The dialect `builtin`."""

from __future__ import annotations

from xdsl.dialects import builtin as theirs

from ..blocks import Block
from ..insertion import emit
from ..operations import OpView
from ..signature import by_op
from .generated import module


class ModuleOp(OpView):
    """`builtin.module`."""

    OPERATION_NAME = "builtin.module"
    SIGNATURE = by_op("builtin")["builtin.module"]

    def __init__(self, *, loc: object = None, ip: object = None):
        self.raw = theirs.ModuleOp([])
        emit(self.raw, loc, ip)

    @property
    def body(self) -> Block:
        """Its block."""
        return Block(self.raw.regions[0].block)


__getattr__, __dir__ = module("builtin", globals())

__all__ = ["ModuleOp"]
