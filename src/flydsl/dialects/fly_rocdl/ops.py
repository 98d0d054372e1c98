"""Operations of `fly_rocdl`, and the dialect.

| op | operands | meaning |
|---|---|---|
| `fly_rocdl.get_buffer_rsrc` | buffer pointer -> `!llvm.ptr<8>` | the raw descriptor |
| `fly_rocdl.buffer_load` | buffer pointer, soffset (i32 bytes) -> value | a load, uniform offset, cache policy |
| `fly_rocdl.buffer_store` | value, buffer pointer, soffset | the same for stores |
| `fly_rocdl.make_tiled_tdm_load_atom` | tensor, layout of a shared tile, tiler -> atom, coordinates | `tiled_tdm.py` |
| `fly_rocdl.make_tiled_tdm_store_atom` | the same | the same for stores |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute, Dialect
from xdsl.irdl import irdl_op_definition, opt_prop_def, traits_def
from xdsl.traits import Pure

from ..fly.infer import Infer
from ..fly.ops import FlyOp
from ..fly.types import PointerType
from ..upstream import llvm
from . import buffer, cdna3, lds, scaled, tdm, tensor_copy, tiled_tdm, wmma


def _infer_rsrc(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    (pointer,) = operand_types
    if not isinstance(pointer, PointerType):
        raise TypeError(f"expected a fly.ptr, got {pointer}")
    if not buffer.is_buffer(pointer.data.space):
        raise TypeError(f"expected a buffer_desc address space pointer, got {pointer}")
    return (llvm.ptr(8),)


@irdl_op_definition
class GetBufferRsrcOp(FlyOp):
    """The raw descriptor of a buffer pointer."""

    name = "fly_rocdl.get_buffer_rsrc"
    traits = traits_def(Pure())
    ARITY: ClassVar[tuple[int, int]] = (1, 1)
    INFER: ClassVar[Infer | None] = staticmethod(_infer_rsrc)


@irdl_op_definition
class BufferLoadOp(FlyOp):
    """A load through a buffer pointer with a uniform byte offset and a cache policy.

    `scalar`: the address is the same in all lanes, so that one scalar load serves the wave.
    """

    name = "fly_rocdl.buffer_load"
    cache = opt_prop_def(Attribute)
    scalar = opt_prop_def(Attribute)
    traits = traits_def()
    ARITY: ClassVar[tuple[int, int]] = (2, 2)


@irdl_op_definition
class BufferStoreOp(FlyOp):
    """A store through a buffer pointer with a uniform byte offset and a cache policy."""

    name = "fly_rocdl.buffer_store"
    cache = opt_prop_def(Attribute)
    traits = traits_def()
    ARITY: ClassVar[tuple[int, int]] = (3, 3)


FlyRocdl = Dialect(
    "fly_rocdl",
    [GetBufferRsrcOp, BufferLoadOp, BufferStoreOp, tiled_tdm.MakeTiledTdmLoadAtomOp, tiled_tdm.MakeTiledTdmStoreAtomOp],
    [
        buffer.BufferDescAttr,
        buffer.BufferCopyType,
        buffer.BufferCopyLdsType,
        buffer.BufferLoadAsyncLdsType,
        buffer.GlobalLoadAsyncLdsType,
        buffer.BufferAtomicType,
        cdna3.MfmaType,
        scaled.MfmaScaleType,
        scaled.WmmaScaleType,
        wmma.Gfx11WmmaType,
        wmma.Gfx120xWmmaType,
        wmma.Gfx1250WmmaType,
        lds.LdsReadTransType,
        tdm.TdmType,
        tensor_copy.TensorLoadType,
        tensor_copy.TensorStoreType,
    ],
)
