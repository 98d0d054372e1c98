"""The `nvvm` dialect: NVIDIA's special registers and warp instructions as ops, and `#nvvm.target`."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Dialect, Operation
from xdsl.irdl import irdl_attr_definition

from .keyword_attr import KeywordAttr
from .table_ops import TableOp, define
from .target_attr import NvvmTargetAttr


@irdl_attr_definition
class ShflKindAttr(KeywordAttr):
    """`#nvvm<shfl_kind bfly>`."""

    name = "nvvm.shfl_kind"
    choices = ("bfly", "up", "down", "idx")


@irdl_attr_definition
class VoteSyncKindAttr(KeywordAttr):
    """`#nvvm<vote_sync_kind any>`."""

    name = "nvvm.vote_sync_kind"
    choices = ("any", "all", "ballot", "uni")


_REGISTERS = [
    *(f"{what}.{d}" for what in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid") for d in "xyz"),
    *(f"cluster.{what}.{d}" for what in ("ctaid", "nctaid") for d in "xyz"),
    *("cluster.ctarank", "cluster.nctarank", "laneid", "warpid", "nwarpid", "warpsize", "smid", "nsmid"),
]
"""Special registers of 32 bits."""


def _ops() -> list[type[TableOp]]:
    made: list[type[TableOp]] = []
    attrs = {"SHFL": ShflKindAttr, "VOTE": VoteSyncKindAttr}

    def op(name: str, form: str, intrinsic: str | None = None, **options: Any) -> None:
        target = f"llvm.nvvm.{name}" if intrinsic is None else intrinsic
        made.append(define(f"nvvm.{name}", form, target, attrs=attrs, **options))

    for register in _REGISTERS:
        op(f"read.ptx.sreg.{register}", "range | res", pure=True)
    op("shfl.sync", "!kind:SHFL %i32 % %i32 %i32 | arrow", "llvm.nvvm.shfl.sync.{kind}.{r}")
    op("vote.sync", "!kind:VOTE %i32 %i1 | gives", "llvm.nvvm.vote.{kind}.sync")
    op("elect.sync", "| gives", "")
    op("barrier0", "|", "")
    op("bar.warp.sync", "% | in", "llvm.nvvm.bar.warp.sync")
    op("cp.async.commit.group", "|")
    op("cp.async.wait.group", "#n:i32 |")
    op("cluster.arrive", "|", "llvm.nvvm.barrier.cluster.arrive")
    op("cluster.wait", "|", "llvm.nvvm.barrier.cluster.wait")
    return made


OPS = _ops()
"""Every op of the dialect."""
NVVM_OPS: dict[str, type[TableOp]] = {op.name.removeprefix("nvvm."): op for op in OPS}
"""The ops by their names without the dialect's."""

_all: list[type[Operation]] = [*OPS]
Nvvm = Dialect("nvvm", _all, [NvvmTargetAttr, ShflKindAttr, VoteSyncKindAttr])

__all__ = ["NVVM_OPS", "Nvvm", "NvvmTargetAttr", "ShflKindAttr", "VoteSyncKindAttr"]
