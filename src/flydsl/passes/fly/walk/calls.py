"""The part of `fly-convert-atom-call-to-ssa-form`: calls of atoms take register tensors that can be values as such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.ir import Attribute

from ....dialects.fly.atom_lowering import Operand
from ....dialects.fly.atoms import CopyAtomType, MmaAtomType
from ....dialects.fly.semantics import View
from ....ir.enums import AddressSpace
from ....ir.identity import LIMIT
from ....ir.types import vector_type
from ....lowering import value_operands
from ..convert_fly import copy_memory, copy_values, mma_call, storage_type
from ..fly_convert_atom_call_to_ssa_form import run_length
from ..fly_layout_lowering import Pointer
from .regions import Regions


class Calls(Regions):
    """Calls of atoms on values and on memory."""

    def as_value(self, view: View, type_: Attribute | None) -> Any:
        """An operand of a call: a register tensor that can be a value as its pointer, others as memory."""
        return self.operand(view) if type_ is None else self.settled(view.iter)

    def settled(self, at: Pointer) -> Pointer:
        """A register pointer where its access is: in memory it is an address by now."""
        return Pointer(self, at.value(), at.type)

    def given(self, at: Any, type_: Attribute | None) -> Operand:
        """What a call takes for an operand."""
        return at if type_ is None else value_operands.operand(type_, self.read(at, type_))

    def copy_call(self, atom: CopyAtomType, tensors: Sequence[View]) -> None:
        types = [register_type(t) for t in tensors]
        places = [self.as_value(t, type_) for t, type_ in zip(tensors, types, strict=True)]
        if not any(types):
            copy_memory(self, atom, places[0], places[1], places[2] if len(places) > 2 else None)
            return
        result = types[1]
        source = self.given(places[0], types[0])
        pred = self.given(places[2], types[2]) if len(places) > 2 else None
        before = self.read(places[1], result) if pred is not None and result is not None else None
        memory = places[1] if result is None else None
        made = copy_values(self, atom, source, memory, pred, result, before)
        if made is not None:
            self.write(made, places[1])

    def mma_call(self, atom: MmaAtomType, tensors: Sequence[View]) -> None:
        types = [register_type(t) for t in tensors]
        if None in types:
            d, a, b, c = tensors
            self.scaled_mma_call(atom, ((d,), (a,), (b,), (c,)))
            return
        kinds = cast("list[Attribute]", types)
        d, a, b, c = (self.settled(t.iter) for t in tensors)
        left, right, start = (
            value_operands.operand(type_, self.read(at, type_)) for at, type_ in zip((a, b, c), kinds[1:], strict=True)
        )
        target = value_operands.operand(kinds[0], None)
        mma_call(self, atom, target, (left,), (right,), start)
        self.write(value_operands.value_of(target, self.b), d)

    def scaled_mma_call(self, atom: MmaAtomType, groups: Sequence[Sequence[View]]) -> None:
        types = [[register_type(t) for t in group] for group in groups]
        places = [
            [self.as_value(t, type_) for t, type_ in zip(group, kinds, strict=True)]
            for group, kinds in zip(groups, types, strict=True)
        ]
        result = types[0][0]
        a, b, (c,) = (
            [self.given(at, type_) for at, type_ in zip(group, kinds, strict=True)]
            for group, kinds in zip(places[1:], types[1:], strict=True)
        )
        target = places[0][0] if result is None else value_operands.operand(result, None)
        mma_call(self, atom, target, a, b, c)
        if result is not None:
            self.write(value_operands.value_of(target, self.b), places[0][0])


def register_type(view: View) -> Attribute | None:
    """Type of a register tensor as a value; None when it cannot be one."""
    at = view.iter
    data = (at.base_type if type(at) is Pointer else at.type).data  # an offset changes neither space nor element
    if data.space is not AddressSpace.Register:
        return None
    return _register_type(view.layout, data.elem)


_register_types: dict[tuple[int, int], tuple[Attribute | None, object, Attribute]] = {}
"""By the ids of a layout and an element type, which are kept in the entry: all pieces of a tensor share theirs."""


def _register_type(layout: object, elem: Attribute) -> Attribute | None:
    found = _register_types.get((id(layout), id(elem)))
    if found is None:
        if len(_register_types) >= LIMIT:
            _register_types.clear()
        count = run_length(layout)
        type_ = None if count is None else storage_type(elem if count == 1 else vector_type(elem, count))
        found = _register_types[id(layout), id(elem)] = (type_, layout, elem)
    return found[0]
