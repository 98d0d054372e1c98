"""Atom operations of gfx1250: scaled WMMA and the tensor data mover; its tiled atoms are in `tiled_tdm.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ...errors import DSLValueError
from ..aliases import also_called
from ..numeric import Float32, Int32, Int64, as_numeric
from ..tensor import Tensor
from ..tensors.algebra_values import IntTuple
from ..tensors.tiled import CopyAtom, make_copy_atom
from .atoms import element_type
from .target import AtomOp
from .tiled_tdm import TensorLoad, TensorStore, make_tiled_tdm_atom, tdm_partition

if TYPE_CHECKING:
    from ..annotations import DTypeLike, ElementLike, IntLike


@also_called(a="elem_ty_a", b="elem_ty_b", acc="elem_ty_acc")
def WMMAScale(
    m: int, n: int, k: int, elem_ty_a: ElementLike, elem_ty_b: ElementLike | None = None,
    elem_ty_acc: ElementLike | None = None, *, opsel_a: int = 0, opsel_b: int = 0, mod_c: int = 0,
    reuse_a: bool = False, reuse_b: bool = False, block_size: int = 32,
) -> AtomOp:  # fmt: skip
    """The block-scaled matrix instruction, 16x16x128 or (4-bit floats) 32x16x128; state `scale_a`, `scale_b`.

    >>> def example():
    ...     return fx.make_mma_atom(fx.rocdl.cdna5.WMMAScale(16, 16, 128, fx.Float8E4M3FN)).shape_mnk
    >>> flyc.evaluate(example, target="cpu:gfx1250")
    IntTuple<(16,16,128)>
    """
    from ...dialects.fly_rocdl.scaled import WmmaScaleType

    what = "WMMAScale"
    types = [
        element_type(what, t)
        for t in (
            elem_ty_a,
            elem_ty_a if elem_ty_b is None else elem_ty_b,
            Float32 if elem_ty_acc is None else elem_ty_acc,
        )
    ]
    made = WmmaScaleType.make(
        m, n, k, types[0], types[1], types[2], opsel_a, opsel_b, mod_c, reuse_a, reuse_b, block_size
    )
    return AtomOp(made, f"WMMAScale({m}, {n}, {k}, {elem_ty_a}, {elem_ty_b or elem_ty_a})")


@also_called(cache="cache_modifier")
def TDM(
    rank: int,
    num_warps: int = 1,
    pad_interval: int = 0,
    pad_amount: int = 0,
    cache_modifier: int = 0,
    atomic_barrier: bool = False,
    early_timeout: bool = False,
) -> AtomOp:
    """A whole-tile copy between a global and a shared tensor; padding of the shared image in elements.

    >>> def example():
    ...     return fx.make_copy_atom(fx.rocdl.cdna5.TDM(2), fx.Float16).layout_src_tv
    >>> flyc.evaluate(example, target="cpu:gfx1250")
    Layout<(1,1):(1,1)>
    """
    from ...dialects.fly_rocdl.tdm import TdmType

    made = TdmType.make(rank, num_warps, pad_interval, pad_amount, cache_modifier, atomic_barrier, early_timeout)
    return AtomOp(made, f"TDM({rank})")


def make_tdm_atom(
    tensor: Tensor | DTypeLike,
    tensor_extents: Sequence[IntLike] | IntTuple | int,
    strides: Sequence[IntLike] | IntTuple | None = None,
    *,
    num_warps: int = 1,
    pad_interval: int = 0,
    pad_amount: int = 0,
    cache_modifier: int = 0,
    atomic_barrier: bool = False,
    early_timeout: bool = False,
) -> CopyAtom:
    """An atom that copies whole tiles of a tensor; what lies beyond `tensor_extents` reads as zero and is not written.

    `strides` says the steps of the tensor where they are not those of its layout. With an element class and a rank in
    place of tensor and extents, the atom without state: `make_copy_atom(TDM(rank, ...), elem)`.

    >>> flyc.evaluate(lambda: fx.rocdl.cdna5.make_tdm_atom(fx.Float16, 2).layout_src_tv, target="cpu:gfx1250")
    Layout<(1,1):(1,1)>
    """
    options = (num_warps, pad_interval, pad_amount, cache_modifier, atomic_barrier, early_timeout)
    if not isinstance(tensor, Tensor):
        return make_copy_atom(TDM(cast(int, tensor_extents), *options), tensor)
    extents = _leaves(tensor_extents)
    atom = make_copy_atom(TDM(len(extents), *options), tensor.dtype)
    state = {f"extent_{i}": Int32(as_numeric(n)) for i, n in enumerate(extents)}
    if strides is not None:
        steps = _leaves(strides)
        if len(steps) != len(extents):
            raise DSLValueError(f"make_tdm_atom: {len(extents)} extents and {len(steps)} strides")
        state |= {f"stride_{i}": Int64(as_numeric(n)) for i, n in enumerate(steps)}
    return atom.set_value(state)


def _leaves(x: object) -> list[IntLike]:
    found = x.unpack() if isinstance(x, IntTuple) else x
    return list(cast("Sequence[IntLike]", found)) if isinstance(found, (tuple, list)) else [cast("IntLike", found)]


__all__ = ["TDM", "TensorLoad", "TensorStore", "WMMAScale", "make_tdm_atom", "make_tiled_tdm_atom", "tdm_partition"]
