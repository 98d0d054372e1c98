"""Result types of the `fly` ops whose meaning is not a function of layout algebra (those are in `semantics.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, VectorType
from xdsl.ir import Attribute

from ... import layout as L
from ...errors import LayoutError
from ...ir.enums import AddressSpace
from ...ir.types import dense_ints, i1, i8, i32, i64, vector_type
from ...layout import Basis, ComposedLayout, Dyn, Layout
from . import atoms, types
from .attrs import MmaOperandAttr
from .semantics import SEMANTICS, View, apply_swizzle, fragment_like, mma_fragment, object_of, type_of_object
from .types import (
    ComposedLayoutType,
    CoordTensorType,
    IntTupleType,
    LayoutType,
    MemRefType,
    PointerType,
    linear_layout,
    ptr_type,
)

Infer = Callable[[Sequence[Attribute], dict[str, Attribute]], tuple[Attribute, ...]]

DYN_SHARED = ptr_type(i8, AddressSpace.Shared, 1024)


def python_value(attr: Attribute) -> Any:
    """A property as the plain Python value the semantics take."""
    kind = type(attr)
    if kind is IntegerAttr:
        number = cast("IntegerAttr[IntegerType]", attr)
        return bool(number.value.data) if number.type == i1 else number.value.data
    if kind is DenseArrayBase:
        return tuple(dense_ints(attr))
    if kind is StringAttr or kind is MmaOperandAttr:
        return cast(Any, attr).data
    return attr


def storage_type(type_: Attribute) -> Attribute:
    """Type a value has in registers and memory: floats under 16 bits are integers of their width there."""
    if isinstance(type_, VectorType):
        vector = cast(VectorType, type_)
        stored = storage_type(vector.element_type)
        return vector if stored is vector.element_type else vector_type(stored, vector.get_shape()[0])
    bits: int = 16 if isinstance(type_, IntegerType) else getattr(type_, "bitwidth", 16)
    return cast(Attribute, type_) if bits >= 16 else IntegerType(bits)


def leaf_type(leaf: L.IntTuple) -> IntegerType:
    """IR type of one leaf as a scalar."""
    if isinstance(leaf, Basis):
        leaf = leaf.value
    return i64 if isinstance(leaf, Dyn) and leaf.width == 64 else i32


def algebra(name: str) -> Infer:
    """Inference by running the op's meaning on what the types say."""
    meaning = SEMANTICS[name]

    def infer(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
        objects = [object_of(t) for t in operand_types]
        result = meaning(*objects, **{k: python_value(v) for k, v in props.items()})
        return (type_of_object(result),)

    return infer


def _linear_of(type_: Attribute) -> Layout:
    source = object_of(type_)
    return linear_layout(source.layout if type(source) is View else source)


def _check_static_shape(layout: Layout) -> None:
    if not types.static_data(layout.shape):
        raise LayoutError(f"expected static shape layout, got #fly<layout{layout}>")


def fragment(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.make_fragment_like`."""
    dtype = props.get("dtype")
    if dtype is None and not isinstance(operand_types[0], MemRefType):
        raise LayoutError("dtype is required when input is not MemRefType")
    _check_static_shape(_linear_of(operand_types[0]))
    return (type_of_object(fragment_like(object_of(operand_types[0]), dtype)),)


def fragment_layout(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.make_fragment_layout_like`."""
    _check_static_shape(_linear_of(operand_types[0]))
    return algebra("make_fragment_layout_like")(operand_types, props)


def mma_make_fragment(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.mma.make_fragment`."""
    given = props.get("stages")
    stages = None if given is None else python_value(given)
    tm, x = (object_of(t) for t in operand_types)
    if stages is not None:
        if stages <= 0:
            raise LayoutError("stages must be positive")
        if linear_layout(x.layout).rank < 2:
            raise LayoutError("stages requires an input layout with at least two modes")
    return (type_of_object(mma_fragment(tm, x, python_value(props["operand_id"]), stages)),)


def tiled_copy(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.make_tiled_copy`."""
    atom, layout, tile = operand_types
    if not types.is_static(layout):
        raise TypeError("LayoutType is not static")
    return (atoms.tiled_copy_type(cast(atoms.CopyAtomType, atom), object_of(layout), object_of(tile)),)


def tiled_mma(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.make_tiled_mma`."""
    atom, layout, *tile = operand_types
    if not types.is_static(layout):
        raise TypeError("LayoutType is not static")
    made = atoms.tiled_mma_type(cast(atoms.MmaAtomType, atom), object_of(layout), object_of(tile[0]) if tile else None)
    return (made,)


def get_stride(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.get_stride`."""
    (type_,) = operand_types
    if isinstance(type_, ComposedLayoutType):
        raise TypeError("unsupported ComposedLayoutType")
    if isinstance(type_, (MemRefType, CoordTensorType)) and type(object_of(type_).layout) is not Layout:
        raise TypeError(f"unsupported {type(type_).__name__} with ComposedLayout")
    return algebra("get_stride")(operand_types, props)


def get(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.get`."""
    source = object_of(operand_types[0])
    source = source.layout if type(source) is View else source
    mode: tuple[int, ...] = python_value(props["mode"])
    tree = linear_layout(source).shape if isinstance(source, (Layout, ComposedLayout)) else source
    depth = L.depth(tree)
    if len(mode) > depth:
        raise LayoutError(f"mode length {len(mode)} exceeds input depth {depth}")
    return algebra("get")(operand_types, props)


def padded(name: str) -> Infer:
    """`fly.append` and `fly.prepend`."""

    def infer(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
        source, elem = operand_types
        if isinstance(source, ComposedLayoutType) and not isinstance(elem, LayoutType):
            raise TypeError("elem must be LayoutType when tuple is ComposedLayout")
        if isinstance(source, IntTupleType) != isinstance(elem, IntTupleType):
            raise TypeError("tuple and elem must be the same category")
        return algebra(name)(operand_types, props)

    return infer


def same(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """The type of the first operand."""
    return (operand_types[0],)


def get_scalar(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.get_scalar`."""
    leaf = L.unwrap(object_of(operand_types[0]))
    if type(leaf) is tuple:
        raise TypeError(f"expected a scalar IntTuple, got {L.format_int_tuple(leaf)}")
    return (leaf_type(leaf),)


def get_leaves(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.get_leaves`."""
    only = props.get("dynamicOnly")
    leaves = L.flatten(object_of(operand_types[0]))
    leaves = leaves if type(leaves) is tuple else (leaves,)
    if only is not None and python_value(only):
        leaves = [x for x in leaves if not types.static_data(x)]
    return tuple(leaf_type(x) for x in leaves)


def ptrtoint(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.ptrtoint`."""
    space = cast(PointerType, operand_types[0]).data.space
    if space is AddressSpace.Shared:
        return (i32,)
    if space is AddressSpace.Global:
        return (i64,)
    raise TypeError("expected Shared or Global address space")


def to_llvm_ptr(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.to_llvm_ptr`."""
    from ..upstream.llvm import ptr

    space: int = python_value(props["llvm_address_space"])
    if space < 0:
        raise TypeError(f"expected a non-negative LLVM address space, got {space}")
    return (ptr(space),)


def swizzled(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.apply_swizzle`."""
    return (apply_swizzle(cast(PointerType, operand_types[0]), object_of(operand_types[1])),)


def load(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.memref.load`."""
    tensor, indices = operand_types
    if isinstance(tensor, MemRefType):
        L.crd2idx(object_of(indices), tensor.data.layout)
        return (tensor.data.elem,)
    base, layout = cast(CoordTensorType, tensor).data
    return (types.int_tuple_type(L.int_tuple_add(base, L.crd2idx(object_of(indices), layout))),)


def load_vec(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.memref.load_vec`."""
    view = object_of(operand_types[0])
    if type(view.layout) is not Layout:
        raise TypeError("expected a plain layout")
    count = L.size(view.layout)
    if type(count) is not int:
        raise TypeError("layout size must be static and leaf int")
    if isinstance(operand_types[0], MemRefType):
        return (vector_type(operand_types[0].data.elem, count),)
    leaves = [view.iter, *_leaves(view.layout.stride)]
    if any(isinstance(x, (tuple, Basis)) for x in leaves):
        raise TypeError("expected an integer base and plain strides")
    return (vector_type(i64 if any(isinstance(x, Dyn) and x.width == 64 for x in leaves) else i32, count),)


def _leaves(tree: L.IntTuple) -> tuple[L.IntTuple, ...]:
    return L.flatten(tree)


def dyn_shared(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.get_dyn_shared`: always the same pointer type."""
    return (DYN_SHARED,)


def flag(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """`fly.elem_less` and `fly.equal`."""
    return (i1,)
