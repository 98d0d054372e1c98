"""`fx.nvgpu.cluster`: blocks that run together and see each other's shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from ...errors import DSLTypeError
from ...ir.enums import AddressSpace
from ..numeric import Int32, Int64
from ..tensor import Pointer, Tensor, get_iter, make_view
from .target import emitter, need_trace

if TYPE_CHECKING:
    from ..annotations import IntLike


def rank() -> Int32:
    """Number of this block in its cluster; x runs fastest."""
    need_trace("cluster.rank", "clusters")
    return Int32(emitter().call("cluster.rank"))


def size() -> Int32:
    """Blocks in the cluster."""
    need_trace("cluster.size", "clusters")
    return Int32(emitter().call("cluster.size"))


@overload
def peer(place: Tensor, rank: IntLike) -> Tensor: ...
@overload
def peer(place: Pointer, rank: IntLike) -> Pointer: ...


def peer(place: object, rank: IntLike) -> Tensor | Pointer:
    """A tensor or pointer in shared memory as block `rank` of the cluster has it, to be read and written from here.

    All blocks must run while it is used: `sync()` before the first access, and again before any block may leave.
    """
    need_trace("cluster.peer", "clusters")
    if isinstance(place, Tensor):
        return make_view(peer(get_iter(place), rank), place.layout)
    if not isinstance(place, Pointer) or place.address_space is not AddressSpace.Shared:
        raise DSLTypeError(f"cluster.peer takes a tensor or pointer in shared memory, got {place!r}")
    from ...dialects.fly.types import ptr_type
    from ..tensors.algebra_values import current_ir

    data = place.type.data
    type_ = ptr_type(data.elem, AddressSpace.Generic, data.align, data.swizzle)
    address = emitter().peer(place.value, Int32(rank).ir_value())
    return current_ir().int_to_pointer(type_, Int64(address))


def arrive(*, relaxed: bool = False) -> None:
    """Arrive at the cluster's barrier; `relaxed` orders no memory."""
    need_trace("cluster.arrive", "clusters")
    emitter().call("cluster.arrive_relaxed" if relaxed else "cluster.arrive")


def wait() -> None:
    """Wait for all threads of the cluster."""
    need_trace("cluster.wait", "clusters")
    emitter().call("cluster.wait")


def sync() -> None:
    """Arrive and wait."""
    arrive()
    wait()
