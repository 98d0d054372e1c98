"""Atom operations of CDNA4 (gfx950): scaled MFMA, transposing shared-memory reads, copies into shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..aliases import also_called
from ..numeric import Float32
from .atoms import element_type
from .conversions import cvt_sr_f32_to_bf16
from .target import AtomOp

if TYPE_CHECKING:
    from ..annotations import ElementLike


@also_called(a="elem_ty_a", b="elem_ty_b", acc="elem_ty_acc")
def MFMA_Scale(
    m: int, n: int, k: int, elem_ty_a: ElementLike, elem_ty_b: ElementLike | None = None,
    elem_ty_acc: ElementLike | None = None, *, opsel_a: int = 0, opsel_b: int = 0,
) -> AtomOp:  # fmt: skip
    """The block-scaled matrix instruction, 16x16x128 or 32x32x64 on 8-, 6- and 4-bit floats.

    State: `scale_a` and `scale_b`, four E8M0 bytes each, of which `opsel` picks one. 0x7F7F7F7F is one.

    >>> def example():
    ...     return fx.make_mma_atom(fx.rocdl.cdna4.MFMA_Scale(16, 16, 128, fx.Float8E4M3FN)).shape_mnk
    >>> flyc.evaluate(example, target="cpu:gfx950")
    IntTuple<(16,16,128)>
    """
    from ...dialects.fly_rocdl.scaled import MfmaScaleType

    what = "MFMA_Scale"
    types = [
        element_type(what, t)
        for t in (
            elem_ty_a,
            elem_ty_a if elem_ty_b is None else elem_ty_b,
            Float32 if elem_ty_acc is None else elem_ty_acc,
        )
    ]
    made = MfmaScaleType.make(m, n, k, types[0], types[1], types[2], opsel_a, opsel_b)
    return AtomOp(made, f"MFMA_Scale({m}, {n}, {k}, {elem_ty_a}, {elem_ty_b or elem_ty_a})")


MFMAScale = MFMA_Scale


@also_called(granularity="trans_granularity", bits="bit_size")
def LDSReadTrans(trans_granularity: int, bit_size: int) -> AtomOp:
    """A read of shared memory that transposes elements of `trans_granularity` bits among 16 lanes.

    >>> def example():
    ...     return fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(16, 64), fx.Float16).layout_dst_tv
    >>> flyc.evaluate(example, target="cpu:gfx950")
    Layout<(16,(1,4)):(1,(1,16))>
    """
    from ...dialects.fly_rocdl.lds import LdsReadTransType

    return AtomOp(LdsReadTransType.make(trans_granularity, bit_size), f"LDSReadTrans({trans_granularity}, {bit_size})")


def LDSReadTrans4_64b() -> AtomOp:
    """`LDSReadTrans(4, 64)`.

    >>> fx.rocdl.cdna4.LDSReadTrans4_64b()
    LDSReadTrans(4, 64)
    """
    return LDSReadTrans(4, 64)


def LDSReadTrans8_64b() -> AtomOp:
    """`LDSReadTrans(8, 64)`.

    >>> fx.rocdl.cdna4.LDSReadTrans8_64b()
    LDSReadTrans(8, 64)
    """
    return LDSReadTrans(8, 64)


def LDSReadTrans6_96b() -> AtomOp:
    """`LDSReadTrans(6, 96)`.

    >>> fx.rocdl.cdna4.LDSReadTrans6_96b()
    LDSReadTrans(6, 96)
    """
    return LDSReadTrans(6, 96)


def LDSReadTrans16_64b() -> AtomOp:
    """`LDSReadTrans(16, 64)`.

    >>> fx.rocdl.cdna4.LDSReadTrans16_64b()
    LDSReadTrans(16, 64)
    """
    return LDSReadTrans(16, 64)


@also_called(bits="bit_size")
def BufferLoadAsyncLDS(bit_size: int) -> AtomOp:
    """A copy from a buffer tensor into shared memory, complete after `wait_asyncmark`.

    >>> def example():
    ...     return fx.make_copy_atom(fx.rocdl.cdna4.BufferLoadAsyncLDS(32), fx.Float32).layout_src_tv
    >>> flyc.evaluate(example, target="cpu:gfx950")
    Layout<(1,1):(1,1)>
    """
    from ...dialects.fly_rocdl.buffer import BufferLoadAsyncLdsType

    return AtomOp(BufferLoadAsyncLdsType.make(bit_size), f"BufferLoadAsyncLDS({bit_size})")


def BufferLoadAsyncLDS32b() -> AtomOp:
    """`BufferLoadAsyncLDS(32)`.

    >>> fx.rocdl.cdna4.BufferLoadAsyncLDS32b()
    BufferLoadAsyncLDS(32)
    """
    return BufferLoadAsyncLDS(32)


def BufferLoadAsyncLDS96b() -> AtomOp:
    """`BufferLoadAsyncLDS(96)`.

    >>> fx.rocdl.cdna4.BufferLoadAsyncLDS96b()
    BufferLoadAsyncLDS(96)
    """
    return BufferLoadAsyncLDS(96)


def BufferLoadAsyncLDS128b() -> AtomOp:
    """`BufferLoadAsyncLDS(128)`.

    >>> fx.rocdl.cdna4.BufferLoadAsyncLDS128b()
    BufferLoadAsyncLDS(128)
    """
    return BufferLoadAsyncLDS(128)


@also_called(bits="bit_size")
def GlobalLoadAsyncLDS(bit_size: int) -> AtomOp:
    """A copy from a global tensor into shared memory, complete after `wait_asyncmark`.

    >>> def example():
    ...     return fx.make_copy_atom(fx.rocdl.cdna4.GlobalLoadAsyncLDS(32), fx.Float32).layout_src_tv
    >>> flyc.evaluate(example, target="cpu:gfx950")
    Layout<(1,1):(1,1)>
    """
    from ...dialects.fly_rocdl.buffer import GlobalLoadAsyncLdsType

    return AtomOp(GlobalLoadAsyncLdsType.make(bit_size), f"GlobalLoadAsyncLDS({bit_size})")


def GlobalLoadAsyncLDS32b() -> AtomOp:
    """`GlobalLoadAsyncLDS(32)`.

    >>> fx.rocdl.cdna4.GlobalLoadAsyncLDS32b()
    GlobalLoadAsyncLDS(32)
    """
    return GlobalLoadAsyncLDS(32)


def GlobalLoadAsyncLDS96b() -> AtomOp:
    """`GlobalLoadAsyncLDS(96)`.

    >>> fx.rocdl.cdna4.GlobalLoadAsyncLDS96b()
    GlobalLoadAsyncLDS(96)
    """
    return GlobalLoadAsyncLDS(96)


def GlobalLoadAsyncLDS128b() -> AtomOp:
    """`GlobalLoadAsyncLDS(128)`.

    >>> fx.rocdl.cdna4.GlobalLoadAsyncLDS128b()
    GlobalLoadAsyncLDS(128)
    """
    return GlobalLoadAsyncLDS(128)


__all__ = [
    "BufferLoadAsyncLDS", "BufferLoadAsyncLDS128b", "BufferLoadAsyncLDS32b", "BufferLoadAsyncLDS96b",
    "GlobalLoadAsyncLDS", "GlobalLoadAsyncLDS128b", "GlobalLoadAsyncLDS32b", "GlobalLoadAsyncLDS96b", "LDSReadTrans",
    "LDSReadTrans16_64b", "LDSReadTrans4_64b", "LDSReadTrans6_96b", "LDSReadTrans8_64b", "MFMAScale", "MFMA_Scale",
    "cvt_sr_f32_to_bf16",
]  # fmt: skip
