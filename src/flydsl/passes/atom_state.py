"""Atoms with run-time state while a pass walks: the type, and the fields that were set.

`fly.atom.set_value` makes one; a call of the atom gives the fields to its lowering. A field nobody set is not here and
has the default of its atom.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue

from ..dialects.builder import Builder, operands_of
from ..dialects.fly import atoms
from ..dialects.fly.ops import OPS, FlyOp, python_value


class AtomWithState:
    """An atom or tiled operation and the state fields set so far. Asked for anything else, it answers as its type."""

    __slots__ = ("type", "values")

    def __init__(self, type_: Any, values: dict[str, SSAValue]):
        self.type: Any = type_
        self.values = values

    def __getattr__(self, name: str) -> Any:
        return getattr(self.type, name)

    def materialise(self, b: Builder, atom: SSAValue) -> SSAValue:
        """The chain of `fly.atom.set_value` on a fresh atom."""
        for field, value in self.values.items():
            atom = b.pure(OPS["atom.set_value"], (atom, value), self.type, {"field": StringAttr(field)})
        return atom


def atom_of(obj: Any) -> Any:
    """The atom of an atom or a tiled operation, with its state."""
    if isinstance(obj, AtomWithState):
        return AtomWithState(atoms.atom_of(obj.type), obj.values)
    return atoms.atom_of(obj)


def state_of(obj: Any) -> dict[str, SSAValue]:
    """The fields that were set."""
    return obj.values if isinstance(obj, AtomWithState) else {}


def set_value(r: Any, op: FlyOp) -> None:
    """Handler of `fly.atom.set_value`."""
    atom, value = operands_of(op)
    type_: Attribute = atom.type
    known = state_of(r.vm.get(atom))
    field: str = python_value(op.properties["field"])
    r.vm[op.results[0]] = AtomWithState(type_, {**known, field: r.val(value)})
