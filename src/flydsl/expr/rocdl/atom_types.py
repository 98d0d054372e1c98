"""The types of AMD's copy and matrix operations, as MLIR's bindings name them, each with `.get(...)`.

`fx.rocdl.BufferCopy(128)` and its like are the usual way to them; `make_copy_atom` and `make_mma_atom` take both.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute

from ...dialects.fly_rocdl import buffer, cdna3, lds, scaled, tdm, tensor_copy, wmma
from ...ir.enums import AtomicOp
from ...layout import IntTuple
from ..emit.facade import Stands, anywhere
from ..emit.ir_types import element_of


def tree_of(x: object) -> IntTuple:
    """The tree behind an int tuple or its type."""
    return getattr(x, "data", x)  # pyright: ignore[reportReturnType]


class CopyOpCDNA3BufferCopyType(Stands, of=buffer.BufferCopyType):
    """`get(bit_size, cache_modifier=0)`: between a buffer and registers.

    >>> str(fx.rocdl.CopyOpCDNA3BufferCopyType.get(128))
    '!fly_rocdl.cdna3.buffer_copy<128>'
    """

    @staticmethod
    @anywhere
    def get(bit_size: int, cache_modifier: int = 0) -> Attribute:
        """The IR type."""
        return buffer.BufferCopyType.make(bit_size, cache_modifier)


class CopyOpCDNA3BufferCopyLDSType(Stands, of=buffer.BufferCopyLdsType):
    """`get(bit_size)`: from a buffer into shared memory.

    >>> str(fx.rocdl.CopyOpCDNA3BufferCopyLDSType.get(32))
    '!fly_rocdl.cdna3.buffer_copy_lds<32>'
    """

    @staticmethod
    @anywhere
    def get(bit_size: int) -> Attribute:
        """The IR type."""
        return buffer.BufferCopyLdsType.make(bit_size)


class CopyOpCDNA3BufferAtomicType(Stands, of=buffer.BufferAtomicType):
    """`get(atomic_op, val_type)`: an atomic operation on a buffer.

    >>> str(fx.rocdl.CopyOpCDNA3BufferAtomicType.get(fx.AtomicOp.Add, fx.T.f32))
    '!fly_rocdl.cdna3.buffer_atomic<add, f32>'
    """

    @staticmethod
    @anywhere
    def get(atomic_op: AtomicOp | int, val_type: object) -> Attribute:
        """The IR type."""
        return buffer.BufferAtomicType.make(AtomicOp(atomic_op), element_of(val_type))


class CopyOpCDNA4BufferLoadAsyncLDSType(Stands, of=buffer.BufferLoadAsyncLdsType):
    """`get(bit_size)`: from a buffer into shared memory, complete after a wait.

    >>> str(fx.rocdl.CopyOpCDNA4BufferLoadAsyncLDSType.get(128))
    '!fly_rocdl.cdna4.buffer_load_async_lds<128>'
    """

    @staticmethod
    @anywhere
    def get(bit_size: int) -> Attribute:
        """The IR type."""
        return buffer.BufferLoadAsyncLdsType.make(bit_size)


class CopyOpCDNA4GlobalLoadAsyncLDSType(Stands, of=buffer.GlobalLoadAsyncLdsType):
    """`get(bit_size)`: from global into shared memory, complete after a wait.

    >>> str(fx.rocdl.CopyOpCDNA4GlobalLoadAsyncLDSType.get(128))
    '!fly_rocdl.cdna4.global_load_async_lds<128>'
    """

    @staticmethod
    @anywhere
    def get(bit_size: int) -> Attribute:
        """The IR type."""
        return buffer.GlobalLoadAsyncLdsType.make(bit_size)


class CopyOpCDNA4LdsReadTransposeType(Stands, of=lds.LdsReadTransType):
    """`get(trans_granularity, bit_size)`: a transposing read of shared memory.

    >>> str(fx.rocdl.CopyOpCDNA4LdsReadTransposeType.get(16, 64))
    '!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>'
    """

    @staticmethod
    @anywhere
    def get(trans_granularity: int, bit_size: int) -> Attribute:
        """The IR type."""
        return lds.LdsReadTransType.make(trans_granularity, bit_size)


class CopyOpGFX1250TDMType(Stands, of=tdm.TdmType):
    """`get(rank, num_warps, ...)`: whole tiles by the tensor data mover.

    >>> str(fx.rocdl.CopyOpGFX1250TDMType.get(2, 4))
    '!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 0, 0, cache = 0, barrier = false, timeout = false>'
    """

    @staticmethod
    @anywhere
    def get(
        rank: int, num_warps: int, pad_interval: int = 0, pad_amount: int = 0, cache_modifier: int = 0,
        atomic_barrier: bool = False, early_timeout: bool = False,
    ) -> Attribute:  # fmt: skip
        """The IR type."""
        return tdm.TdmType.make(
            rank, num_warps, pad_interval, pad_amount, cache_modifier, atomic_barrier, early_timeout
        )


class CopyOpCDNA5TensorLoadType(Stands, of=tensor_copy.TensorLoadType):
    """`get(tile_shape, data_type, tensor2tdm, ...)`: what `make_tiled_tdm_atom` gives for loads.

    >>> str(fx.rocdl.CopyOpCDNA5TensorLoadType.get((16, 32), fx.T.f16, fx.IntTupleType.get((fx.E(0), fx.E(1)))))
    '!fly_rocdl.cdna5.tensor_load<shape = [16, 32], elem = f16, tensor2tdm = (1E0,1E1)>'
    """

    @staticmethod
    @anywhere
    def get(
        tile_shape: Sequence[int], data_type: object, tensor2tdm: object, atomic_barrier: bool = False,
        cache_modifier: int = 0, iter_count: int = 1, pad_interval: int = 0, pad_amount: int = 0,
    ) -> Attribute:  # fmt: skip
        """The IR type."""
        return tensor_copy.TensorLoadType.make(
            tile_shape,
            element_of(data_type),
            tree_of(tensor2tdm),
            atomic_barrier,
            cache=cache_modifier,
            iterations=iter_count,
            pad_interval=pad_interval,
            pad_amount=pad_amount,
        )


class CopyOpCDNA5TensorStoreType(Stands, of=tensor_copy.TensorStoreType):
    """`get(tile_shape, data_type, tensor2tdm, ...)`: what `make_tiled_tdm_atom` gives for stores.

    >>> str(fx.rocdl.CopyOpCDNA5TensorStoreType.get((16, 32), fx.T.f16, fx.IntTupleType.get((fx.E(0), fx.E(1)))))
    '!fly_rocdl.cdna5.tensor_store<shape = [16, 32], elem = f16, tensor2tdm = (1E0,1E1)>'
    """

    @staticmethod
    @anywhere
    def get(
        tile_shape: Sequence[int], data_type: object, tensor2tdm: object, atomic_barrier: bool = False,
        cache_modifier: int = 0, iter_count: int = 1,
    ) -> Attribute:  # fmt: skip
        """The IR type."""
        return tensor_copy.TensorStoreType.make(
            tile_shape,
            element_of(data_type),
            tree_of(tensor2tdm),
            atomic_barrier,
            cache=cache_modifier,
            iterations=iter_count,
        )


class MmaOpCDNA3_MFMAType(Stands, of=cdna3.MfmaType):
    """`get(m, n, k, elem_ty_a, elem_ty_b, elem_ty_acc)`.

    >>> str(fx.rocdl.MmaOpCDNA3_MFMAType.get(16, 16, 16, fx.T.f16, fx.T.f16, fx.T.f32))
    '!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>'
    """

    @staticmethod
    @anywhere
    def get(m: int, n: int, k: int, elem_ty_a: object, elem_ty_b: object, elem_ty_acc: object) -> Attribute:
        """The IR type."""
        return cdna3.MfmaType.make(m, n, k, element_of(elem_ty_a), element_of(elem_ty_b), element_of(elem_ty_acc))


class MmaOpCDNA4_MFMAScaleType(Stands, of=scaled.MfmaScaleType):
    """`get(m, n, k, elem_ty_a, elem_ty_b, elem_ty_acc, ...)`: with scales of blocks.

    >>> str(fx.rocdl.MmaOpCDNA4_MFMAScaleType.get(16, 16, 128, fx.T.f8E4M3FN, fx.T.f8E4M3FN, fx.T.f32))
    '!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f8E4M3FN) -> f32, opselA = 0, opselB = 0>'
    """

    @staticmethod
    @anywhere
    def get(
        m: int, n: int, k: int, elem_ty_a: object, elem_ty_b: object, elem_ty_acc: object, opsel_a: int = 0,
        opsel_b: int = 0,
    ) -> Attribute:  # fmt: skip
        """The IR type."""
        return scaled.MfmaScaleType.make(
            m, n, k, element_of(elem_ty_a), element_of(elem_ty_b), element_of(elem_ty_acc), opsel_a, opsel_b
        )


class MmaOpGFX11_WMMAType(Stands, of=wmma.Gfx11WmmaType):
    """`get(m, n, k, elem_ty_a, elem_ty_b, elem_ty_acc, ...)`; the flags are those of integers.

    >>> str(fx.rocdl.MmaOpGFX11_WMMAType.get(16, 16, 16, fx.T.f16, fx.T.f16, fx.T.f32))
    '!fly_rocdl.gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>'
    """

    @staticmethod
    @anywhere
    def get(
        m: int, n: int, k: int, elem_ty_a: object, elem_ty_b: object, elem_ty_acc: object, *, sign_a: bool = False,
        sign_b: bool = False, clamp: bool = False,
    ) -> Attribute:  # fmt: skip
        """The IR type."""
        return wmma.Gfx11WmmaType.make(
            m, n, k, element_of(elem_ty_a), element_of(elem_ty_b), element_of(elem_ty_acc), sign_a, sign_b, clamp
        )


class MmaOpGFX120X_WMMAType(Stands, of=wmma.Gfx120xWmmaType):
    """`get(m, n, k, elem_ty_a, elem_ty_b, elem_ty_acc, ...)`; the flags are those of integers.

    >>> str(fx.rocdl.MmaOpGFX120X_WMMAType.get(16, 16, 16, fx.T.f16, fx.T.f16, fx.T.f32))
    '!fly_rocdl.gfx120x.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>'
    """

    @staticmethod
    @anywhere
    def get(
        m: int, n: int, k: int, elem_ty_a: object, elem_ty_b: object, elem_ty_acc: object, *, sign_a: bool = False,
        sign_b: bool = False, clamp: bool = False,
    ) -> Attribute:  # fmt: skip
        """The IR type."""
        return wmma.Gfx120xWmmaType.make(
            m, n, k, element_of(elem_ty_a), element_of(elem_ty_b), element_of(elem_ty_acc), sign_a, sign_b, clamp
        )


class MmaOpGFX1250_WMMAType(Stands, of=wmma.Gfx1250WmmaType):
    """`get(m, n, k, elem_ty_a, elem_ty_b, elem_ty_acc, ...)`.

    >>> str(fx.rocdl.MmaOpGFX1250_WMMAType.get(16, 16, 32, fx.T.f16, fx.T.f16, fx.T.f32))
    '!fly_rocdl.gfx1250.wmma<16x16x32, (f16, f16) -> f32, signA = false, signB = false, clamp = false>'
    """

    @staticmethod
    @anywhere
    def get(
        m: int, n: int, k: int, elem_ty_a: object, elem_ty_b: object, elem_ty_acc: object, sign_a: bool = False,
        sign_b: bool = False, clamp: bool = False, mod_c: int = 0,
    ) -> Attribute:  # fmt: skip
        """The IR type."""
        return wmma.Gfx1250WmmaType.make(
            m, n, k, element_of(elem_ty_a), element_of(elem_ty_b), element_of(elem_ty_acc), sign_a, sign_b, clamp, mod_c
        )


class MmaOpGFX1250_WMMAScaleType(Stands, of=scaled.WmmaScaleType):
    """`get(m, n, k, elem_ty_a, elem_ty_b, elem_ty_acc, ...)`: with scales of blocks.

    >>> fx.rocdl.MmaOpGFX1250_WMMAScaleType.get(16, 16, 128, fx.T.f8E4M3FN, fx.T.f8E4M3FN, fx.T.f32).name
    'fly_rocdl.gfx1250.wmma_scale'
    """

    @staticmethod
    @anywhere
    def get(
        m: int, n: int, k: int, elem_ty_a: object, elem_ty_b: object, elem_ty_acc: object, opsel_a: int = 0,
        opsel_b: int = 0, mod_c: int = 0, reuse_a: bool = False, reuse_b: bool = False, block_size: int = 32,
    ) -> Attribute:  # fmt: skip
        """The IR type."""
        return scaled.WmmaScaleType.make(
            m,
            n,
            k,
            element_of(elem_ty_a),
            element_of(elem_ty_b),
            element_of(elem_ty_acc),
            opsel_a,
            opsel_b,
            mod_c,
            reuse_a,
            reuse_b,
            block_size,
        )


__all__ = [
    "CopyOpCDNA3BufferAtomicType", "CopyOpCDNA3BufferCopyLDSType", "CopyOpCDNA3BufferCopyType",
    "CopyOpCDNA4BufferLoadAsyncLDSType", "CopyOpCDNA4GlobalLoadAsyncLDSType", "CopyOpCDNA4LdsReadTransposeType",
    "CopyOpCDNA5TensorLoadType", "CopyOpCDNA5TensorStoreType", "CopyOpGFX1250TDMType", "MmaOpCDNA3_MFMAType",
    "MmaOpCDNA4_MFMAScaleType", "MmaOpGFX11_WMMAType", "MmaOpGFX120X_WMMAType", "MmaOpGFX1250_WMMAScaleType",
    "MmaOpGFX1250_WMMAType",
]  # fmt: skip
