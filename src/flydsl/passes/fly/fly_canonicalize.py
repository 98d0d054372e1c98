"""`fly-canonicalize`: every statically known value in normal form, so that static layout algebra vanishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.fly.atoms import NO_PERMUTATION, CopyAtomType, MmaAtomType, TiledCopyType, TiledMmaType
from ...dialects.fly.ops import OPS, FlyOp
from ...dialects.fly.types import ComposedLayoutType, CoordTensorType, IntTupleType, LayoutType, is_static, type_of
from ...ir.builder import Builder, int_attr, operands_of
from ...ir.dead_code import mark_dead
from ...layout import ComposedLayout, Layout
from ...lowering.rebuild import Handler, Rebuilder
from ..base import Form, Part, Pass

_NORMALISED = (
    IntTupleType,
    LayoutType,
    ComposedLayoutType,
    CoordTensorType,
    CopyAtomType,
    MmaAtomType,
    TiledCopyType,
    TiledMmaType,
)


def normal_form(b: Builder, type_: Attribute) -> SSAValue | None:
    """The value of a static type as its canonical chain of ops; None for types that have none."""
    if isinstance(type_, IntTupleType):
        return b.pure(OPS["make_int_tuple"], (), type_, {})
    if isinstance(type_, (LayoutType, ComposedLayoutType)):
        data = type_.data
        if type(data) is Layout:
            parts = [_part(b, data.shape), _part(b, data.stride)]
            return b.pure(OPS["make_layout"], parts, type_, {})
        if type(data) is ComposedLayout:
            parts = [_part(b, p) for p in (data.inner, data.offset, data.outer)]
            return b.pure(OPS["make_composed_layout"], parts, type_, {})
    if isinstance(type_, CoordTensorType):
        return b.pure(OPS["make_view"], [_part(b, p) for p in type_.data], type_, {})
    if isinstance(type_, CopyAtomType):
        return b.pure(OPS["make_copy_atom"], (), type_, {"valBits": int_attr(type_.val_bits)})
    if isinstance(type_, MmaAtomType):
        return b.pure(OPS["make_mma_atom"], (), type_, {})
    if isinstance(type_, TiledCopyType):
        atom = normal_form(b, type_.data.atom)
        assert atom is not None
        return b.pure(OPS["make_tiled_copy"], (atom, *(_part(b, p) for p in type_.data[1:])), type_, {})
    if isinstance(type_, TiledMmaType):
        atom = normal_form(b, type_.data.atom)
        assert atom is not None
        parts = [_part(b, type_.data.layout)]
        if type_.data.tile != NO_PERMUTATION:
            parts.append(_part(b, type_.data.tile))
        return b.pure(OPS["make_tiled_mma"], (atom, *parts), type_, {})
    return None


def _part(b: Builder, data: object) -> SSAValue:
    type_ = type_of(data)
    made = normal_form(b, type_)
    return made if made is not None else b.pure(OPS["static"], (), type_, {})


def _replaced(op: Operation) -> bool:
    """Whether the op gives way to the normal form of its static result."""
    if len(op.results) != 1 or op.regions or op.successors:
        return False
    type_ = op.results[0].type
    return isinstance(type_, _NORMALISED) and is_static(type_)


class _Normal(Rebuilder):
    def mark(self, module: ModuleOp) -> set[int]:
        return mark_dead(module, _replaced)

    def copy(self, op: Operation) -> None:
        if _replaced(op):
            made = normal_form(self.b, op.results[0].type)
            assert made is not None
            self.vm[op.results[0]] = made
            return
        super().copy(op)


def _tuple(r: _Normal, op: FlyOp) -> None:
    """`make_shape`, `make_stride` and `make_coord` are `make_int_tuple`, with their attributes."""
    result = op.results[0]
    if _replaced(op) and not op.attributes:
        r.copy(op)
        return
    made = r.b.pure(OPS["make_int_tuple"], r.vals(operands_of(op)), result.type, {})
    if op.attributes:
        cast(Operation, made.owner).attributes.update(op.attributes)
    r.vm[result] = made


_Normal.handlers = cast(
    dict[type[Operation], Handler], {OPS["make_shape"]: _tuple, OPS["make_stride"]: _tuple, OPS["make_coord"]: _tuple}
)


@dataclass(frozen=True)
class FlyCanonicalizePass(Pass):
    """Bring static layout values into normal form."""

    name = "fly-canonicalize"
    needs = "no static layout values as block arguments (`fly-rewrite-func-signature`)"
    part = Part({Form.CARRIED: Form.NORMAL}, opens=True)

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Normal.rebuild(module)
