"""`fly-rocdl-expand-ops`: atoms of the tensor data mover for a tiled tensor, as atoms, coordinates and memory.

`make_tiled_tdm_load_atom` and `_store_atom` become an atom and the tensor of its coordinates. A copy between such
coordinates and shared memory becomes one between the box at that place in global memory and shared memory; what is left
of the tensor from there on is the atom's state, so that nothing outside is touched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, StringAttr, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ... import layout as L
from ...dialects.fly.infer import python_value
from ...dialects.fly.ops import OPS
from ...dialects.fly.types import CoordTensorType, IntTupleType, MemRefType, coord_tensor_type, int_tuple_type
from ...dialects.fly_rocdl.tiled_tdm import MakeTiledTdmLoadAtomOp, MakeTiledTdmStoreAtomOp, option, tdm_box
from ...ir import arith
from ...ir.builder import int_attr
from ...ir.types import bit_width
from ...lowering.rebuild import failure_at
from ..base import Pass

Number = int | SSAValue
"""A number of 32 bits, known or at run time."""


class _Before:
    """Emits in front of an op."""

    def __init__(self, at: Operation):
        self.at = at

    def put(self, op: Operation) -> Operation:
        cast(Block, self.at.parent).insert_op_before(op, self.at)
        return op

    def fly(self, name: str, operands: Sequence[SSAValue], type_: Attribute | None = None, **props: Attribute) -> Any:
        """Results of a `fly` op; its types are inferred where none is given."""
        cls = OPS[name]
        infer = cls.INFER
        types = (type_,) if type_ is not None else cast(Any, infer)([v.type for v in operands], props)
        made = cls.create(operands=operands, result_types=types, properties=props, location=self.at.location)
        return self.put(made).results

    def leaves(self, value: SSAValue, tree: Any) -> list[Any]:
        """Leaves of a tuple in order: numbers, or the values of those only known at run time."""
        flat = L.flatten(tree)
        if all(type(x) is int for x in flat):
            return list(flat)
        given = iter(self.fly("get_leaves", (value,), dynamicOnly=IntegerAttr(1, 1)))
        return [x if type(x) is int else next(given) for x in flat]

    def tuple_of(self, tree: tuple[Any, ...], values: Sequence[Any]) -> SSAValue:
        """A tuple of these numbers; `tree` is what is known of them."""
        return self.fly("make_int_tuple", [v for v in values if not isinstance(v, int)], int_tuple_type(tree))[0]

    def value(self, x: Number, type_: IntegerType) -> SSAValue:
        """A number as a value of a type."""
        if isinstance(x, int):
            return self.put(arith.ConstantOp(IntegerAttr(x, type_))).results[0]
        have, want = bit_width(x.type), bit_width(cast(Attribute, type_))
        if have == want:
            return x
        return self.put((arith.ExtSIOp if have < want else arith.TruncIOp)(x, type_)).results[0]

    def binary(self, name: str, a: Number, b: Number) -> Number:
        """Sum, difference or product of 32 bits."""
        if isinstance(a, int) and isinstance(b, int):
            return {"add": a + b, "sub": a - b, "mul": a * b}[name]
        if (isinstance(b, int) and b == (name == "mul")) or (name == "add" and isinstance(a, int) and a == 0):
            return b if name == "add" and isinstance(a, int) else a
        kind: Any = {"add": arith.AddiOp, "sub": arith.SubiOp, "mul": arith.MuliOp}[name]
        return self.put(kind(self.value(a, i32), self.value(b, i32))).results[0]


@dataclass
class _Source:
    """A tensor as the data mover sees it; dimensions innermost first."""

    pointer: SSAValue
    shape: tuple[int, ...]
    known_strides: tuple[Any, ...]
    strides: list[Any]
    extents: list[Number]
    """Elements of the whole tensor along each dimension."""
    members: tuple[tuple[tuple[int, int], ...], ...]
    """Modes of the tensor in each dimension (see `Box`)."""
    modes: int
    """Of the tensor, flat."""


@dataclass(frozen=True)
class FlyRocdlExpandOpsPass(Pass):
    """Expand the tiled atoms of the tensor data mover; everything else stays."""

    name = "fly-rocdl-expand-ops"
    needs = "layout values in normal form (`fly-canonicalize`)"

    def run(self, module: ModuleOp) -> ModuleOp:
        made = (MakeTiledTdmLoadAtomOp, MakeTiledTdmStoreAtomOp)
        for op in [op for op in module.walk() if isinstance(op, made)]:
            _expand(op)
        return module


def _expand(op: MakeTiledTdmLoadAtomOp | MakeTiledTdmStoreAtomOp) -> None:
    b = _Before(op)
    tensor = op.operands[0]
    layout: Any = cast(MemRefType, tensor.type).data.layout
    box = tdm_box([v.type for v in op.operands], op.properties)
    (of_tensor,) = b.fly("get_layout", (tensor,))
    (shape,) = b.fly("get_shape", (of_tensor,))
    (stride,) = b.fly("get_stride", (of_tensor,))
    sizes, steps = b.leaves(shape, layout.shape), b.leaves(stride, layout.stride)
    first = [group[0][0] for group in box.members]
    extents: list[Number] = []
    for group in box.members:
        whole = [sizes[mode] if isinstance(sizes[mode], int) else b.value(sizes[mode], i32) for mode, _ in group]
        extent: Number = whole[0]
        for size, (_, scale) in list(zip(whole, group, strict=True))[1:]:
            extent = b.binary("add", extent, b.binary("mul", b.binary("sub", size, 1), scale))
        extents.append(extent)
    flat = L.flatten(layout.stride)
    known = tuple(flat[m] for m in first)
    pointer = b.fly("get_iter", (tensor,))[0]
    source = _Source(pointer, box.shape, known, [steps[m] for m in first], extents, box.members, len(flat))

    atom, coordinates = op.results
    bits = int_attr(cast(Any, atom.type).val_bits)
    fresh = b.fly("make_copy_atom", (), atom.type, valBits=bits)[0]
    rank = len(box.shape)
    for dim in range(1, rank):
        if not isinstance(known[dim], int):
            fresh = _set(b, fresh, f"stride_{rank - 1 - dim}", b.value(source.strides[dim], i64))
    base, over = cast(CoordTensorType, coordinates.type).data
    axes = b.fly("make_int_tuple", (), int_tuple_type(over.stride))[0]
    view = (b.fly("make_int_tuple", (), int_tuple_type(base))[0], b.fly("make_layout", (shape, axes))[0])
    coordinates.replace_all_uses_with(b.fly("make_view", view, coord_tensor_type(base, over))[0])
    checked = (option(op.properties, "initBoundaryCheck"),) * rank
    _use(atom, fresh, source, checked)
    op.detach()
    op.erase()


def _set(b: _Before, atom: SSAValue, field: str, value: SSAValue) -> SSAValue:
    return b.fly("atom.set_value", (atom, value), atom.type, field=StringAttr(field))[0]


def _use(old: SSAValue, new: SSAValue, source: _Source, checked: tuple[bool, ...]) -> None:
    """Give every use of an atom the expanded one; `checked` says along which dimensions the tensor ends."""
    for use in list(old.uses):
        user = use.operation
        if isinstance(user, (OPS["copy"], OPS["copy_atom_call"])) and use.index == 0:
            _call(user, new, source, checked)
        elif isinstance(user, OPS["atom.set_value"]) and use.index == 0:
            field = python_value(user.properties["field"])
            if field == "boundary_check_axes":
                _use(user.results[0], new, source, _flags(user, field, len(source.shape))[::-1])
            elif field == "boundary_check":
                modes = _flags(user, field, source.modes)
                chosen = tuple(any(modes[mode] for mode, _ in group) for group in source.members)
                _use(user.results[0], new, source, chosen)
            else:
                moved = _set(_Before(user), new, field, user.operands[1])
                _use(user.results[0], moved, source, checked)
            user.detach()
            user.erase()
        else:
            raise failure_at(
                user, f"an atom of a tiled tensor is used by copies and by fly.atom.set_value, not by '{user.name}'"
            )


def _flags(op: Operation, field: str, count: int) -> tuple[bool, ...]:
    """What to check, from a tuple of 0 and 1: for the dimensions, outermost first, or for the modes of the tensor."""
    value = op.operands[1]
    given = L.flatten(cast(Any, value.type).data) if isinstance(value.type, IntTupleType) else ()
    if len(given) != count or any(type(x) is not int for x in given):
        raise failure_at(op, f"{field} is a static tuple of {count} numbers 0 or 1, got '{value.type}'")
    return tuple(bool(x) for x in given)


def _call(op: Operation, atom: SSAValue, source: _Source, checked: tuple[bool, ...]) -> None:
    b, rank = _Before(op), len(source.shape)
    where = [i for i, v in enumerate(op.operands) if i in (1, 2) and isinstance(v.type, CoordTensorType)]
    if len(where) != 1:
        src, dst = (v.type for v in list(op.operands)[1:3])
        raise failure_at(
            op, f"a copy by the atom of a tiled tensor is between its coordinates and shared memory, got {src} -> {dst}"
        )
    coords = op.operands[where[0]]
    base, over = cast(CoordTensorType, coords.type).data
    moved = math.prod(source.shape)
    if op.name == "fly.copy" and L.size(over) != moved:
        text = f"a copy of {L.size(over)} elements by an atom that moves {moved}; copy them one by one"
        raise failure_at(op, text)
    (at,) = b.fly("get_iter", (coords,))
    place = b.leaves(at, base)
    if len(place) != rank:
        raise failure_at(op, f"the coordinates of this atom have {rank} dimensions, got {base}")
    for dim, check in enumerate(checked):
        if check:
            here = place[dim] if isinstance(place[dim], int) else b.value(place[dim], i32)
            left = b.value(b.binary("sub", source.extents[dim], here), i32)
            atom = _set(b, atom, f"extent_{rank - 1 - dim}", left)
    inside = b.fly("make_int_tuple", (), int_tuple_type(source.shape))[0]
    (flat,) = b.fly("make_layout", (inside, b.tuple_of(source.known_strides, source.strides)))
    (offset,) = b.fly("crd2idx", (at, flat))
    (pointer,) = b.fly("add_offset", (source.pointer, offset))
    outer = b.fly("make_int_tuple", (), int_tuple_type(source.shape[::-1]))[0]
    (layout,) = b.fly("make_layout", (outer, b.tuple_of(source.known_strides[::-1], source.strides[::-1])))
    op.operands[where[0]] = b.fly("make_view", (pointer, layout))[0]
    op.operands[0] = atom
