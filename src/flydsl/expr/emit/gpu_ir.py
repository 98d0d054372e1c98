"""GPU operations of the tracer; needs xDSL."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from ...dialects.upstream import gpu
from ...dialects.upstream.gpu.warp import BallotOp
from ...ir.builder import index as index_type
from ...ir.types import i1, i32, i64
from .trace import current

_IDS = {
    "thread_id": gpu.ThreadIdOp,
    "block_id": gpu.BlockIdOp,
    "block_dim": gpu.BlockDimOp,
    "grid_dim": gpu.GridDimOp,
}


def raw_index(op: str, dim: str) -> SSAValue:
    """An id or dimension as an index."""
    return current().pure(_IDS[op], (), index_type, {"dimension": gpu.DIM_ATTRS[dim]})


def index(op: str, dim: str) -> SSAValue:
    """An id or dimension as i32."""
    return current().cast("index_cast", raw_index(op, dim), i32)


def lane_id() -> SSAValue:
    """Lane index as i32."""
    tracer = current()
    return tracer.cast("index_cast", tracer.pure(gpu.LaneIdOp, (), index_type, {}), i32)


def barrier() -> None:
    """Block barrier."""
    current().opn(gpu.BarrierOp, (), ())


def warp_barrier() -> None:
    """Barrier of a warp."""
    current().opn(gpu.BarrierOp, (), (), {"scope": gpu.BarrierScopeAttr("subgroup")})


def shuffle(value: SSAValue, offset: SSAValue, width: SSAValue, mode: str) -> SSAValue:
    """`gpu.shuffle` of a 32-bit value."""
    props: dict[str, Attribute] = {"mode": gpu.ShuffleModeAttr(mode)}
    return current().opn(gpu.ShuffleOp, (value, offset, width), (value.type, i1), props).results[0]


def ballot(condition: SSAValue) -> SSAValue:
    """`gpu.ballot`: an i64."""
    return current().opn(BallotOp, (condition,), (i64,)).results[0]


def token_type() -> Attribute:
    """IR type of a stream."""
    return gpu.AsyncTokenType()
