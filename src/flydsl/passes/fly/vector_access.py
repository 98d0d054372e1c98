"""`fly.memref.load_vec` and `store_vec`: a whole tensor as one vector, in as few accesses as its strides allow.

Elements of a vector stand in colexicographic order. Where one mode of the (coalesced) layout has stride 1, accesses are
as wide as that mode; if it is not the first mode, the chunks are put in order by a permutation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import Attribute, SSAValue

from ... import layout as L
from ...dialects.fly.ops import FlyOp
from ...dialects.fly.semantics import View, add_offset
from ...dialects.fly.types import CoordTensorType
from ...dialects.upstream import vector
from ...ir.builder import operands_of
from ...ir.types import bit_width, vector_type
from ...layout import Layout

if TYPE_CHECKING:
    from .fly_layout_lowering import LayoutLowering


class Plan(NamedTuple):
    """How a tensor is accessed: in chunks of `width` elements along one mode, in colex order of the other modes."""

    width: int
    before: tuple[int, ...]
    """Extents of the modes in front of the one with stride 1."""
    after: tuple[int, ...]
    """Extents of the modes behind it."""
    rest: Layout
    """Layout of all the other modes."""

    def offsets(self) -> Iterator[Any]:
        """Offset of each chunk."""
        shape = self.before + self.after
        for coord in cartesian(*[range(s) for s in reversed(shape)]):
            yield L.crd2idx(coord[::-1], self.rest) if coord else 0


def plan(layout: Layout, elem: Attribute) -> Plan:
    """The accesses of a plain layout with a static shape."""
    flat: Any = L.coalesce(layout)
    shape, stride = _modes(flat.shape), _modes(flat.stride)
    if elem == i1:
        # A Boolean in memory is a byte, but LLVM packs a vector of them into bits.
        return Plan(1, shape, (), Layout(shape, stride))
    unit = [i for i, d in enumerate(stride) if type(d) is int and d == 1]
    at = max(unit, key=lambda i: shape[i], default=-1)
    if at < 0:
        return Plan(1, shape, (), Layout(shape, stride))
    others = Layout(shape[:at] + shape[at + 1 :], stride[:at] + stride[at + 1 :])
    return Plan(shape[at], shape[:at], shape[at + 1 :], others)


def _modes(tree: Any) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], tree) if type(tree) is tuple else (tree,)


def load_vec(r: LayoutLowering, op: FlyOp) -> None:
    """Handler of `fly.memref.load_vec`."""
    result = op.results[0]
    view = r.obj(operands_of(op)[0])
    if isinstance(operands_of(op)[0].type, CoordTensorType):
        r.vm[result] = _load_coordinates(r, view, cast(VectorType, result.type))
        return
    type_ = cast(VectorType, result.type)
    elem, count = type_.element_type, type_.get_shape()[0]
    p = plan(view.layout, elem)
    if p.width == count and count > 1:
        r.vm[result] = r.read(view.iter, type_)
        return
    b = r.b
    whole = r.blank(type_)
    for i, offset in enumerate(p.offsets()):
        pointer = add_offset(view.iter, offset)
        if p.width == 1:
            whole = b.insert(r.read(pointer, elem), whole, i)
        else:
            props = vector.InsertStridedSliceOp.properties_for(i * p.width)
            part = r.read(pointer, vector_type(elem, p.width))
            whole = b.pure(vector.InsertStridedSliceOp, (part, whole), type_, props)
    turn = p.before and p.width > 1
    r.vm[result] = r.permute(whole, [p.width, *p.before, *p.after], _sorted_modes(p)) if turn else whole


def store_vec(r: LayoutLowering, op: FlyOp) -> None:
    """Handler of `fly.memref.store_vec`."""
    source, tensor = operands_of(op)
    value, view, b = r.val(source), r.obj(tensor), r.b
    type_ = cast(VectorType, value.type)
    elem, count = type_.element_type, type_.get_shape()[0]
    p = plan(view.layout, elem)
    if p.width == count and count > 1:
        r.write(value, view.iter)
        return
    if p.before and p.width > 1:
        modes = _sorted_modes(p)
        value = r.permute(value, [*p.before, p.width, *p.after], [modes.index(i) for i in range(len(modes))])
    for i, offset in enumerate(p.offsets()):
        if p.width == 1:
            part = b.extract(value, i)
        else:
            props = vector.ExtractStridedSliceOp.properties_for(i * p.width, p.width)
            part = b.pure(vector.ExtractStridedSliceOp, (value,), vector_type(elem, p.width), props)
        r.write(part, add_offset(view.iter, offset))


def _sorted_modes(p: Plan) -> list[int]:
    """The modes of loaded chunks (width first) in the order of the tensor."""
    n = len(p.before)
    return [*range(1, n + 1), 0, *range(n + 1, n + 1 + len(p.after))]


def permutation(shape: list[int], order: list[int]) -> list[int]:
    """Where each element of a colex vector comes from when the modes of `shape` are put in `order`.

    >>> permutation([2, 3], [1, 0])
    [0, 2, 4, 1, 3, 5]
    """
    steps = [1]
    for extent in shape:
        steps.append(steps[-1] * extent)
    found = [0]
    for mode in order:
        found = [i + k * steps[mode] for k in range(shape[mode]) for i in found]
    return found


def spelled_permutation(r: LayoutLowering, value: SSAValue, shape: list[int], order: list[int]) -> SSAValue:
    """The permutation as `shape_cast`, `transpose`, `shape_cast`; vectors are row-major, so modes stand reversed."""
    elem = cast(VectorType, value.type).element_type
    rank = len(shape)
    wide = VectorType(elem, shape[::-1])
    turned = VectorType(elem, [shape[m] for m in order[::-1]])
    b = r.b
    value = b.pure(vector.ShapeCastOp, (value,), wide, {})
    dims = vector.TransposeOp.properties_for([rank - 1 - m for m in order[::-1]])
    value = b.pure(vector.TransposeOp, (value,), turned, dims)
    return b.pure(vector.ShapeCastOp, (value,), vector_type(elem, math.prod(shape)), {})


def _load_coordinates(r: LayoutLowering, view: View, type_: VectorType) -> SSAValue:
    """The integers of a coordinate tensor as a vector."""
    b = r.b
    width = bit_width(type_.element_type)
    whole = b.const(0, type_)
    for i in range(type_.get_shape()[0]):
        leaf = L.unwrap(add_offset(view.iter, L.crd2idx(i, view.layout)))
        whole = b.insert(b.leaf_value(leaf, width), whole, i)
    return whole
