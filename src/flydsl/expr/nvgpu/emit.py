"""Emitting ops of `fly_nvgpu`; needs xDSL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Attribute, SSAValue

from ...dialects.fly_nvgpu import ops, tma
from ...ir.builder import int_attr
from ...ir.types import bit_width, i1, i32, i64
from ..emit.trace import current

_TRUE = BoolAttr.from_bool(True)


def call(kind: str, *operands: SSAValue) -> Any:
    """An operation of the table `KINDS`; its result, if it has one."""
    result = ops.KINDS[kind].result
    made = current().opn(ops.CallOp, operands, () if result is None else (result,), {"kind": StringAttr(kind)})
    return made.results[0] if made.results else None


def wait(barrier: SSAValue, parity: SSAValue) -> None:
    """Spin until a phase is over."""
    current().opn(ops.MBarrierWaitOp, (barrier, parity), ())


def arrive_remote(barrier: SSAValue, rank: SSAValue) -> None:
    """Arrive in another block of the cluster."""
    current().opn(ops.MBarrierArriveRemoteOp, (barrier, rank), ())


def peer(place: SSAValue, rank: SSAValue) -> SSAValue:
    """A place of shared memory in another block, as a number."""
    return current().opn(ops.PeerOp, (place, rank), (i64,)).results[0]


def elect() -> SSAValue:
    """One thread of the warp."""
    return current().opn(ops.ElectOp, (), (i1,)).results[0]


def uniform(value: SSAValue) -> SSAValue:
    """Lane 0's value."""
    return current().opn(ops.UniformOp, (value,), (i32,)).results[0]


def wgmma_wait(pending: int, tensors: Sequence[SSAValue]) -> None:
    """Wait for groups of matrix products; the tensors pass through."""
    current().opn(ops.WgmmaWaitOp, tensors, (), {"pending": int_attr(pending)})


def hold(place: SSAValue, value: SSAValue) -> None:
    """Waits stay behind what computes a value."""
    current().opn(ops.HoldOp, (place, value), ())


def add_global(place: SSAValue, values: Sequence[SSAValue]) -> None:
    """Values added to global memory."""
    current().opn(ops.AddGlobalOp, (place, *values), ())


def tma_load(
    dst: SSAValue,
    barrier: SSAValue,
    tensor_map: SSAValue,
    coords: Sequence[SSAValue],
    mask: SSAValue | None = None,
    hint: SSAValue | None = None,
) -> None:
    """A box into shared memory."""
    props: dict[str, Attribute] = {"rank": int_attr(len(coords))}
    operands = [dst, barrier, tensor_map, *coords]
    for name, value in (("multicast", mask), ("hint", hint)):
        if value is not None:
            operands.append(value)
            props[name] = _TRUE
    current().opn(ops.TmaLoadOp, operands, (), props)


def tma_store(src: SSAValue, tensor_map: SSAValue, coords: Sequence[SSAValue], reduce: str | None = None) -> None:
    """A box out of shared memory."""
    props: dict[str, Attribute] = {"rank": int_attr(len(coords))}
    if reduce is not None:
        props["reduce"] = StringAttr(reduce)
    current().opn(ops.TmaStoreOp, [src, tensor_map, *coords], (), props)


def _bulk():
    """The ops of bulk copies, loaded by those who use them."""
    from ...dialects.fly_nvgpu import bulk

    return bulk


def bulk_load(
    dst: SSAValue,
    barrier: SSAValue,
    src: SSAValue,
    nbytes: SSAValue,
    mask: SSAValue | None = None,
    hint: SSAValue | None = None,
) -> None:
    """Bytes into shared memory."""
    props: dict[str, Attribute] = {}
    operands = [dst, barrier, src, nbytes]
    for name, value in (("multicast", mask), ("hint", hint)):
        if value is not None:
            operands.append(value)
            props[name] = _TRUE
    current().opn(_bulk().BulkLoadOp, operands, (), props)


def bulk_send(dst: SSAValue, barrier: SSAValue, src: SSAValue, nbytes: SSAValue, rank: SSAValue) -> None:
    """Bytes into the shared memory of another block."""
    current().opn(_bulk().BulkSendOp, (dst, barrier, src, nbytes, rank), ())


def bulk_store(
    src: SSAValue,
    dst: SSAValue,
    nbytes: SSAValue,
    hint: SSAValue | None = None,
    reduction: tuple[str, str] | None = None,
) -> None:
    """Bytes out of shared memory; a reduction is an operation and the elements' type in PTX's words."""
    props: dict[str, Attribute] = {}
    if reduction is not None:
        props["reduce"], props["element"] = (StringAttr(word) for word in reduction)
    operands = [src, dst, nbytes]
    if hint is not None:
        operands.append(hint)
        props["hint"] = _TRUE
    current().opn(_bulk().BulkStoreOp, operands, (), props)


def bulk_prefetch(src: SSAValue, nbytes: SSAValue, hint: SSAValue | None = None) -> None:
    """Bytes into L2."""
    operands = [src, nbytes] if hint is None else [src, nbytes, hint]
    current().opn(_bulk().BulkPrefetchOp, operands, (), {} if hint is None else {"hint": _TRUE})


def tensor_map(
    pointer: SSAValue,
    dims: Sequence[SSAValue],
    strides: Sequence[SSAValue],
    box: Sequence[int],
    elem: Attribute,
    swizzle: int,
    promotion: int,
) -> SSAValue:
    """A map of a tensor, made when the jit function runs."""
    name = f"i{bit_width(elem)}" if type(elem) is IntegerType else str(elem)
    props: dict[str, Attribute] = {
        "dtype": int_attr(tma.DATA_TYPES[name]),
        "box": ArrayAttr([IntegerAttr(b, i32) for b in box]),
        "swizzle": int_attr(tma.SWIZZLES[swizzle]),
        "promotion": int_attr(promotion),
        "fill": int_attr(0),
    }
    tracer = current()
    # A jit function whose kernels are checked knows of arrays how long they are.
    bytes_from = getattr(tracer.functions[-1], "bytes_from", None) if tracer.functions else None
    room: SSAValue | None = None if bytes_from is None else bytes_from(tracer, pointer)
    operands = [pointer, *dims, *strides, *([] if room is None else [room])]
    return tracer.opn(tma.MakeTensorMapOp, operands, (tma.TensorMapType(),), props).results[0]
