"""What each pure `fly` op means, written once over layout-algebra objects.

The same functions infer result types (leaves are ints and `Dyn`) and lower values (leaves are SSA values), so both
take the same branches. A tensor is a `View`: an iterator (pointer or base coordinate) and a layout. At the type level
a pointer is its `PointerType`; in a lowering it is an `IterValue` that emits `fly.add_offset`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, TypeAlias, cast, final

from xdsl.ir import Attribute

from ... import layout as L
from ...errors import LayoutError
from ...ir.enums import AddressSpace, MmaOperand
from ...ir.identity import by_identity_and_value
from ...layout import ComposedLayout, Dyn, Layout, Swizzle, Tile
from ...layout import tiled as T
from .atoms import TiledCopyType, TiledMmaType, atom_of
from .types import (
    CoordTensorType,
    MemRefType,
    PointerType,
    align_for,
    coord_tensor_type,
    linear_layout,
    memref_type,
    ptr_type,
    type_level,
    type_of,
    value_divisibility,
)


@final
class View:
    """A tensor: where it starts and how coordinates map to offsets from there."""

    __slots__ = ("iter", "layout")

    def __init__(self, iter: Any, layout: Any):
        self.iter: Any = iter
        self.layout: Any = layout
        """A `Layout` or a `ComposedLayout`."""

    def __repr__(self) -> str:
        return f"View({self.iter}, {self.layout})"


Algebra: TypeAlias = L.IntTuple | Layout | ComposedLayout | View
"""What layout functions take, and tensors."""
AnyLayout: TypeAlias = Layout | ComposedLayout


class IterValue:
    """A pointer that exists as an SSA value. No `ABC`: it is asked for at every step, and their checks are slow."""

    type: PointerType

    def offset(self, by: L.IntTuple) -> IterValue:
        """The pointer moved by an element offset."""
        raise NotImplementedError


@by_identity_and_value
def _moved_pointer(pointer: PointerType, known: int) -> PointerType:
    data = pointer.data
    return ptr_type(data.elem, data.space, align_for(data.elem, gcd(value_divisibility(data), known)), data.swizzle)


def offset_pointer_type(pointer: PointerType, by: L.IntTuple) -> PointerType:
    """Type of a pointer moved by `by` elements: the alignment shrinks to what is still known."""
    by = by if type(by) is int or isinstance(by, Dyn) else L.unwrap(by)
    if type(by) is int:
        known = abs(by)
    elif isinstance(by, Dyn):
        known = by.div
    else:
        raise LayoutError(f"offset must be a scalar (leaf int) IntTuple, got {L.format_int_tuple(by)}")
    return pointer if known == 0 else _moved_pointer(pointer, known)


def add_offset(it: Any, by: L.IntTuple) -> Any:
    """Move an iterator: a pointer by elements, a coordinate by a tuple."""
    if isinstance(it, IterValue):
        return it.offset(by)
    if type(it) is PointerType:
        return offset_pointer_type(it, by)
    return L.int_tuple_add(it, by)


def object_of(type_: Attribute) -> Any:
    """The algebra object a type describes."""
    kind = type(type_)
    if kind is MemRefType:
        d = cast(MemRefType, type_).data
        return View(ptr_type(d.elem, d.space, d.align, d.swizzle), d.layout)
    if kind is CoordTensorType:
        return View(*cast(CoordTensorType, type_).data)
    if kind is PointerType or kind is TiledCopyType or kind is TiledMmaType:
        return type_
    return getattr(type_, "data", type_)


# What is certainly no attribute. Asking xDSL's `Attribute` about a new class walks all its subclasses.
_ALGEBRA = {Layout, ComposedLayout, Swizzle, L.CoordSwizzle, Tile, tuple, int, Dyn, L.Basis, L.ValueLeaf, type(None)}


def type_of_object(obj: object) -> Attribute:
    """The type of an algebra object of either reading."""
    if type(obj) is View:
        it = obj.iter
        if isinstance(it, IterValue):
            it = it.type
        if isinstance(it, PointerType):
            d = it.data
            return memref_type(d.elem, d.space, obj.layout, d.align, d.swizzle)
        return coord_tensor_type(it, obj.layout)
    if type(obj) in _ALGEBRA:
        return type_of(obj)
    if isinstance(obj, IterValue):
        return obj.type
    return obj if isinstance(obj, Attribute) else type_of(obj)


def _on_layout(f: Callable[..., Any]) -> Callable[..., Any]:
    """Let a layout function work on tensors too, keeping their base."""

    def apply(x: Any, *args: Any, **props: Any) -> Any:
        if type(x) is View:
            return View(x.iter, f(x.layout, *args, **props))
        return f(x, *args, **props)

    return apply


def _linear(x: Algebra) -> Any:
    """Tuple, or the plain layout inside whatever `x` is."""
    return linear_layout(x.layout if type(x) is View else x) if type(x) in (View, ComposedLayout) else x


def _layout_of(x: Algebra) -> Any:
    return x.layout if type(x) is View else x


def get_shape(x: Algebra) -> L.IntTuple:
    """Shape of the innermost plain layout."""
    return _linear(x).shape


def get_stride(x: Algebra) -> L.IntTuple:
    """Stride of a plain layout."""
    layout = _layout_of(x)
    if type(layout) is not Layout:
        raise LayoutError(f"a composed layout has no stride: {layout}")
    return layout.stride


def make_view(it: PointerType | IterValue | L.IntTuple, layout: AnyLayout) -> View:
    """A pointer or a base coordinate seen through a layout."""
    return View(it, layout)


def slice_(x: Algebra, coord: L.IntTuple) -> Algebra:
    """Keep what stands under `*`; a tensor moves by the index of the rest."""
    if type(x) is not View:
        return L.slice(x, coord)
    layout = x.layout
    if type(layout) is ComposedLayout:
        return View(x.iter, L.slice(layout, coord))
    kept = L.slice(layout, coord)
    return View(add_offset(x.iter, L.crd2idx(_none_to_zero(coord), layout)), kept)


def _none_to_zero(coord: L.IntTuple) -> L.IntTuple:
    if coord is None:
        return 0
    return tuple([_none_to_zero(c) for c in coord]) if isinstance(coord, tuple) else coord


def get(x: Algebra, mode: tuple[int, ...]) -> Algebra:
    """Sub-tree at a path; a coordinate tensor's base follows."""
    if type(x) is View:
        base = x.iter
        if not isinstance(base, (PointerType, IterValue)) and type(base) is tuple:
            base = L.get_(cast(Any, base), mode)
        return View(base, L.get_(x.layout, mode))
    return L.get_(x, mode)


def size(x: Algebra) -> L.Leaf:
    """Product of the shape."""
    return L.size(_layout_of(x))


def decomposition(x: View) -> View:
    """Fold a composed layout's inner part into the base, leaving the plain layout."""
    layout = x.layout
    if type(layout) is Layout:
        return x
    off = L.crd2idx(L.map_leaves(lambda _: 0, get_shape(layout)), layout)
    return View(add_offset(x.iter, off), linear_layout(layout))


def apply_swizzle(pointer: PointerType, swizzle: Swizzle) -> PointerType:
    """The pointer whose byte address is swizzled at each access."""
    data = pointer.data
    divisible = gcd(value_divisibility(data), 1 << swizzle.base)
    return ptr_type(data.elem, data.space, align_for(data.elem, divisible), swizzle)


def _copy_args(tc: TiledCopyType) -> tuple[Layout, Tile, Layout]:
    return tc.data.layout, tc.data.tile, tc.data.atom.tv("ref")


def copy_partition(side: str) -> Callable[[TiledCopyType, View, L.IntTuple], View]:
    """The part of a tensor one thread copies."""

    def partition(tc: TiledCopyType, x: View, thread: L.IntTuple) -> View:
        tv, tile, ref = _copy_args(tc)
        offset, layout = T.copy_partition(x.layout, tv, tile, ref, tc.data.atom.tv(side), thread)
        return _moved(x, offset, layout)

    return partition


def _moved(x: View, offset: L.IntTuple, layout: AnyLayout) -> View:
    """`x` with a new plain layout, moved by `offset`: into the composed offset if there is one, else into the base."""
    linear = linear_layout(layout)
    if type(x.layout) is ComposedLayout:
        return View(x.iter, _move_composed(x.layout, offset, linear))
    return View(add_offset(x.iter, offset), linear)


def _move_composed(layout: ComposedLayout, offset: L.IntTuple, linear: Layout) -> ComposedLayout:
    if type(layout.outer) is ComposedLayout:
        return ComposedLayout(layout.inner, layout.offset, _move_composed(layout.outer, offset, linear))
    return ComposedLayout(layout.inner, L.int_tuple_add(layout.offset, offset), linear)


def copy_retile(tc: TiledCopyType, x: View) -> View:
    """A fragment seen in this copy's value order."""
    tv, tile, ref = _copy_args(tc)
    return View(x.iter, T.copy_retile(x.layout, tv, tile, ref))


def _mma_args(tm: TiledMmaType, operand: int) -> tuple[Any, Any, Any, Any, Any]:
    op = tm.data.atom.op
    return operand, op.shape_mnk, op.tv_layout(operand), tm.data.layout, tm.data.tile


def mma_partition(tm: TiledMmaType, x: View, thread: L.IntTuple, operand_id: int) -> View:
    """The part of an operand one thread holds."""
    index: Any = L.unwrap(thread)
    offset, layout = T.mma_partition(x.layout, *_mma_args(tm, operand_id), tm.data.atom.op.thr_layout, index)
    return _moved(x, offset, layout)


def mma_partition_shape(tm: TiledMmaType, shape: L.IntTuple, operand_id: int) -> L.IntTuple:
    """Shape of such a part for a tensor of this shape."""
    return T.mma_partition_shape(shape, *_mma_args(tm, operand_id))


def mma_fragment(tm: TiledMmaType, x: View, operand_id: int, stages: int | None = None) -> View:
    """Register tensor for one thread's part."""
    layout = T.mma_fragment_layout(x.layout, *_mma_args(tm, operand_id), stages=stages)
    elem = tm.data.atom.op.elem_types[min(operand_id, MmaOperand.C)]
    return View(ptr_type(elem, AddressSpace.Register), layout)


def fragment_like(x: Algebra, dtype: Attribute | None = None) -> View:
    """Register tensor with the fragment layout of `x`."""
    if dtype is None:
        it = x.iter if type(x) is View else None
        it = it.type if isinstance(it, IterValue) else it
        if not isinstance(it, PointerType):
            raise LayoutError("dtype is required when input is not MemRefType")
        dtype = it.element_type
    layout = L.make_fragment_layout_like(type_level(_linear(x)))
    return View(ptr_type(dtype, AddressSpace.Register), layout)


def make_fragment_layout_like(x: Algebra) -> AnyLayout:
    """Compact layout of a fragment shaped like `x`."""
    return L.make_fragment_layout_like(type_level(_linear(x)))


def get_layout(x: View) -> AnyLayout:
    """Layout of a tensor."""
    return x.layout


def get_iter(x: View) -> PointerType | IterValue | L.IntTuple:
    """Pointer or base coordinate of a tensor."""
    return x.iter


def composed_get_inner(x: ComposedLayout) -> object:
    """What a composed layout applies last."""
    return x.inner


def composed_get_offset(x: ComposedLayout) -> L.IntTuple:
    """Offset between the two parts of a composed layout."""
    return x.offset


def composed_get_outer(x: ComposedLayout) -> AnyLayout:
    """What a composed layout applies first."""
    return x.outer


def coprofile(x: Algebra) -> L.IntTuple:
    """Nesting of the codomain."""
    return L.coprofile(_linear(x))


def coshape(x: Algebra) -> L.IntTuple:
    """Extents of the codomain."""
    return L.coshape(_linear(x))


def cosize(x: Algebra) -> L.IntTuple:
    """Size of the codomain."""
    return L.cosize(_linear(x))


def recast_layout(x: Layout, new_type_bits: int, old_type_bits: int) -> Layout:
    """The layout counted in elements of another width."""
    return L.recast_layout(x, old_type_bits, new_type_bits)


SEMANTICS: dict[str, Callable[..., Any]] = {
    "make_layout": Layout,
    "make_layout_like": L.make_layout_like,
    "make_ordered_layout": L.make_ordered_layout,
    "make_composed_layout": ComposedLayout,
    "make_identity_layout": L.make_identity_layout,
    "make_view": make_view,
    "make_fragment_layout_like": make_fragment_layout_like,
    "get_shape": get_shape,
    "get_stride": get_stride,
    "get_layout": get_layout,
    "get_iter": get_iter,
    "composed_get_inner": composed_get_inner,
    "composed_get_offset": composed_get_offset,
    "composed_get_outer": composed_get_outer,
    "int_tuple_add": L.int_tuple_add,
    "int_tuple_sub": L.int_tuple_sub,
    "int_tuple_mul": L.int_tuple_mul,
    "int_tuple_div": L.int_tuple_div,
    "int_tuple_mod": L.int_tuple_mod,
    "int_tuple_product": L.int_tuple_product,
    "int_tuple_product_each": L.int_tuple_product_each,
    "int_tuple_product_like": L.int_tuple_product_like,
    "shape_div": L.shape_div,
    "ceil_div": L.ceil_div,
    "get": get,
    "take": _on_layout(L.take),
    "select": _on_layout(L.select),
    "group": _on_layout(L.group),
    "append": L.append,
    "prepend": L.prepend,
    "slice": slice_,
    "dice": L.dice,
    "size": size,
    "coprofile": coprofile,
    "coshape": coshape,
    "cosize": cosize,
    "coalesce": _on_layout(L.coalesce),
    "composition": _on_layout(L.composition),
    "complement": L.complement,
    "right_inverse": L.right_inverse,
    "left_inverse": L.left_inverse,
    "logical_divide": _on_layout(L.logical_divide),
    "zipped_divide": _on_layout(L.zipped_divide),
    "tiled_divide": _on_layout(L.tiled_divide),
    "flat_divide": _on_layout(L.flat_divide),
    "logical_product": L.logical_product,
    "zipped_product": L.zipped_product,
    "tiled_product": L.tiled_product,
    "flat_product": L.flat_product,
    "blocked_product": L.blocked_product,
    "raked_product": L.raked_product,
    "recast_layout": recast_layout,
    "tile_to_shape": L.tile_to_shape,
    "crd2idx": L.crd2idx,
    "idx2crd": L.idx2crd,
    "get_flat_coord": L.get_flat_coord,
    "get_1d_coord": L.get_1d_coord,
    "add_offset": add_offset,
    "decomposition": decomposition,
    "tiled_copy.partition_src": copy_partition("src"),
    "tiled_copy.partition_dst": copy_partition("dst"),
    "tiled_copy.retile": copy_retile,
    "tiled_mma.partition": mma_partition,
    "tiled_mma.partition_shape": mma_partition_shape,
    "get_copy_atom": atom_of,
    "get_mma_atom": atom_of,
}
"""Pure ops by name without the `fly.` prefix: operands' objects, then properties by keyword."""
