"""Collectives of a warp that xDSL's `gpu` lacks: votes and broadcasts, in upstream's spirit and the generic text form.

| op | meaning for the lanes that take part |
|---|---|
| `gpu.ballot` | i64 with bit *i* set where lane *i*'s predicate holds |
| `gpu.vote` | whether the predicate holds for `any` or `all` of them |
| `gpu.subgroup_broadcast` | the value of one lane: the given one, or the first that takes part |
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, i1, i32, i64
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def

VOTES = ("any", "all")


@irdl_op_definition
class BallotOp(IRDLOperation):
    """`%m = "gpu.ballot"(%p) : (i1) -> i64`."""

    name = "gpu.ballot"
    predicate = operand_def(i1)
    mask = result_def(i64)


@irdl_op_definition
class VoteOp(IRDLOperation):
    """`%r = "gpu.vote"(%p) <{mode = "any"}> : (i1) -> i1`."""

    name = "gpu.vote"
    predicate = operand_def(i1)
    mode = prop_def(StringAttr)
    holds = result_def(i1)


@irdl_op_definition
class SubgroupBroadcastOp(IRDLOperation):
    """`%r = "gpu.subgroup_broadcast"(%v, %lane) : (f32, i32) -> f32`; the lane must be uniform."""

    name = "gpu.subgroup_broadcast"
    value = operand_def()
    lane = opt_operand_def(i32)
    result = result_def()


WARP_OPS = [BallotOp, VoteOp, SubgroupBroadcastOp]
"""The ops of this file."""

__all__ = ["VOTES", "WARP_OPS", "BallotOp", "SubgroupBroadcastOp", "VoteOp"]
