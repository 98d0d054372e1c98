"""GPU operations of the tracer; needs xDSL."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ..dialects import gpu
from ..dialects.builder import index as index_type
from .trace import current

_IDS = {
    "thread_id": gpu.ThreadIdOp,
    "block_id": gpu.BlockIdOp,
    "block_dim": gpu.BlockDimOp,
    "grid_dim": gpu.GridDimOp,
}


def index(op: str, dim: str) -> SSAValue:
    """An id or dimension as i32."""
    tracer = current()
    value = tracer.pure(_IDS[op], (), index_type, {"dimension": gpu.DIM_ATTRS[dim]})
    return tracer.cast("index_cast", value, i32)


def lane_id() -> SSAValue:
    """Lane index as i32."""
    tracer = current()
    return tracer.cast("index_cast", tracer.pure(gpu.LaneIdOp, (), index_type, {}), i32)


def barrier() -> None:
    """Block barrier."""
    current().opn(gpu.BarrierOp, (), ())


def token_type() -> Any:
    """IR type of a stream."""
    return gpu.AsyncTokenType()
