"""Atoms with run-time state while a pass walks: the type, where the atom came from, and the fields that were set.

`fly.atom.set_value` makes one; a call of the atom gives the fields to its lowering. A field nobody set is not here and
has the default of its atom. Across functions and loops an atom travels as the struct of its fields, those with their
default included; an atom without state is the empty struct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Attribute, SSAValue

from ..dialects.fly import atoms
from ..dialects.fly.atoms import CopyAtomType, MmaAtomType, TiledCopyType, TiledMmaType
from ..dialects.fly.infer import python_value
from ..dialects.fly.ops import OPS, FlyOp
from ..dialects.fly.types import CoordTensorType
from ..dialects.upstream import llvm
from ..errors import DSLCompileError
from ..ir.builder import Builder, i64_list, operands_of
from ..ir.types import bit_width

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..passes.fly.convert_fly import FlyConversion
    from ..passes.fly.fly_layout_lowering import LayoutLowering
    from .rebuild import Rebuilder

    Lowering: TypeAlias = FlyConversion | LayoutLowering
    """The passes that follow atoms."""

ATOM_TYPES = frozenset[type[Attribute]]((CopyAtomType, MmaAtomType, TiledCopyType, TiledMmaType))


class AtomWithState:
    """An atom or tiled operation and the state fields set so far. Asked for anything else, it answers as its type."""

    __slots__ = ("base", "type", "values")

    def __init__(self, type_: Attribute, values: dict[str, SSAValue], base: SSAValue | None = None):
        self.type = type_
        self.values = values
        self.base = base
        """The atom the fields are set on, where it is one from outside and not a fresh one."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.type, name)

    def materialise(self, b: Builder, fresh: Callable[[], SSAValue]) -> SSAValue:
        """The chain of `fly.atom.set_value`; `fresh()` makes the atom it starts from if none came from outside."""
        atom = fresh() if self.base is None else self.base
        for field, value in self.values.items():
            atom = b.pure(OPS["atom.set_value"], (atom, value), self.type, {"field": StringAttr(field)})
        return atom


def atom_of(obj: Attribute | AtomWithState, b: Builder | None = None) -> CopyAtomType | MmaAtomType | AtomWithState:
    """The atom of an atom or a tiled operation, with its state."""
    if not isinstance(obj, AtomWithState):
        return atoms.atom_of(obj)
    type_ = atoms.atom_of(obj.type)
    base = obj.base
    if base is not None and base.type != type_:
        assert b is not None
        name = "get_copy_atom" if isinstance(type_, CopyAtomType) else "get_mma_atom"
        base = b.pure(OPS[name], (base,), type_, {})
    return AtomWithState(type_, obj.values, base)


def state_of(obj: object) -> dict[str, SSAValue]:
    """The fields that were set."""
    return obj.values if isinstance(obj, AtomWithState) else {}


def fresh_atom(r: Rebuilder, op: FlyOp) -> None:
    """Handler of `fly.make_copy_atom` and `fly.make_mma_atom`."""
    if op.operands:
        raise DSLCompileError(f"this atom takes no construction arguments, got {len(op.operands)}")
    r.vm[op.results[0]] = op.results[0].type


def set_value(r: Lowering, op: FlyOp) -> None:
    """Handler of `fly.atom.set_value`."""
    atom, value = operands_of(op)
    type_: Attribute = atom.type
    known = r.atom(atom)
    field: str = python_value(op.properties["field"])
    fields = atoms.atom_of(type_).op.state
    if field not in dict(fields):
        has = ", ".join(name for name, _ in fields) or "none"
        raise DSLCompileError(f"{type_} has no state field '{field}'; it has: {has}")
    r.vm[op.results[0]] = AtomWithState(
        type_, {**state_of(known), field: r.val(value)}, known.base if isinstance(known, AtomWithState) else None
    )


def refuse_coordinates(op: FlyOp) -> None:
    """Memory is copied; coordinates stand for it until `fly-rocdl-expand-ops`."""
    for value in operands_of(op):
        if type(value.type) is CoordTensorType:
            raise DSLCompileError(
                f"'{op.name}' copies memory, got {value.type}; coordinates of a tensor are copied by the atom made "
                "with them, which fly-rocdl-expand-ops expands"
            )


def make_tiled(r: Lowering, op: FlyOp) -> None:
    """Handler of `fly.make_tiled_copy` and `fly.make_tiled_mma`: the state of the atom is that of the tiled one."""
    known = r.atom(operands_of(op)[0])
    type_ = op.results[0].type
    if not isinstance(known, AtomWithState):
        r.vm[op.results[0]] = type_
        return
    if known.base is not None:
        parts = [known.materialise(r.b, lambda: r.val(operands_of(op)[0])), *(r.val(v) for v in operands_of(op)[1:])]
        r.vm[op.results[0]] = AtomWithState(type_, {}, r.b.pure(type(op), parts, type_, {}))
        return
    r.vm[op.results[0]] = AtomWithState(type_, known.values)


def get_atom(r: Lowering, op: FlyOp) -> None:
    """Handler of `fly.get_copy_atom` and `fly.get_mma_atom`."""
    r.vm[op.results[0]] = atom_of(r.atom(operands_of(op)[0]), r.b)


# --- as structs ---------------------------------------------------------------------------------------------------


def struct_type(type_: Attribute) -> Attribute:
    """What an atom or tiled operation is at a boundary."""
    op = atoms.atom_of(type_).op
    return llvm.StructType((False, tuple(IntegerType(bits) for _, bits in op.state)))


def to_struct(b: Builder, obj: object, type_: Attribute) -> SSAValue:
    """The struct of an atom's fields."""
    op = atoms.atom_of(type_).op
    struct = struct_type(type_)
    value = b.pure(llvm.UndefOp, (), struct, {})
    values = state_of(obj)
    for i, (name, bits) in enumerate(op.state):
        field = values.get(name)
        wanted = IntegerType(bits)
        if field is None:
            field = b.const(op.state_default(name), wanted)
        elif field.type != wanted:
            field = _as_integer(b, field, wanted, name)
        value = b.pure(llvm.InsertValueOp, (value, field), struct, {"position": i64_list((i,))})
    return value


def with_field(b: Builder, struct: SSAValue, type_: Attribute, name: str, value: SSAValue) -> SSAValue:
    """The struct of an atom with one field set."""
    state = atoms.atom_of(type_).op.state
    at = next(i for i, (known, _) in enumerate(state) if known == name)
    wanted = IntegerType(state[at][1])
    if value.type != wanted:
        value = _as_integer(b, value, wanted, name)
    return b.pure(llvm.InsertValueOp, (struct, value), struct.type, {"position": i64_list((at,))})


def _as_integer(b: Builder, value: SSAValue, wanted: IntegerType, name: str) -> SSAValue:
    """A field as the integer its slot holds: scales come as anything of their width."""
    if bit_width(value.type) == bit_width(wanted):
        return b.pure(xllvm.BitcastOp, (value,), wanted, {})
    given: Attribute = value.type
    if isinstance(given, IntegerType):
        return b.cast("extsi" if bit_width(cast(Attribute, given)) < bit_width(wanted) else "trunci", value, wanted)
    raise DSLCompileError(f"the state field '{name}' holds {wanted}, got {value.type}")


def from_struct(b: Builder, struct: SSAValue, type_: Attribute) -> Attribute | AtomWithState:
    """The atom whose fields are in a struct."""
    values: dict[str, SSAValue] = {}
    for i, (name, bits) in enumerate(atoms.atom_of(type_).op.state):
        place: dict[str, Attribute] = {"position": i64_list((i,))}
        values[name] = b.pure(llvm.ExtractValueOp, (struct,), IntegerType(bits), place)
    return AtomWithState(type_, values) if values else type_
