"""Register operands of atom calls that are values: what `fly.copy_atom_call_ssa` and `fly.mma_atom_call_ssa` take.

An atom reads and writes its operands by address. Here the address is a place in a value: a load takes elements out of
it, a store puts elements in, and what the value is in the end is the result of the call.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BitcastOp
from xdsl.ir import Attribute, SSAValue

from ..dialects.fly.atom_lowering import Operand
from ..dialects.fly.types import TRIVIAL_SWIZZLE, MemRefData
from ..dialects.upstream import vector
from ..errors import DSLCompileError
from ..ir.builder import Builder, elem_of
from ..ir.enums import AddressSpace
from ..ir.types import bit_width, vector_type
from ..layout import Layout
from .folding import FoldingBuilder
from .lanes import Lanes


class Cell:
    """A value under way."""

    __slots__ = ("type", "value")

    def __init__(self, type_: Attribute, value: SSAValue | None):
        self.type = type_
        self.value = value
        """None before the first store, when there was nothing to start from."""


class ValuePlace:
    """Some element of a value; stands where an atom expects a pointer."""

    __slots__ = ("at", "cell")

    def __init__(self, cell: Cell, at: int = 0):
        self.cell = cell
        self.at = at

    def offset(self, by: Any) -> ValuePlace:
        """The place some elements further on."""
        if type(by) is not int:
            raise DSLCompileError("an element of a value in registers needs a place known at compile time")
        return ValuePlace(self.cell, self.at + by)

    def load(self, b: Builder, type_: Attribute) -> SSAValue:
        """The elements from here on as a scalar or vector of this type."""
        state = self.cell.value
        if state is None:
            return b.poison(type_)
        if state.type == type_ and not self.at:
            return state
        return read(b, as_vector(b, state), self.at, type_)

    def store(self, b: Builder, value: SSAValue) -> None:
        """Put a scalar or vector here."""
        cell = self.cell
        if not self.at and bit_width(value.type) == bit_width(cell.type):
            cell.value = as_type(b, value, cell.type)
            return
        state = b.poison(cell.type) if cell.value is None else cell.value
        cell.value = as_type(b, write(b, value, as_vector(b, state), self.at), cell.type)


_data: dict[int, tuple[Attribute, MemRefData]] = {}
"""By the id of a type, which is kept in the entry: what is known of a value of the type."""


def operand(type_: Attribute, value: SSAValue | None) -> Operand:
    """An operand that is a value of this type, with its elements one behind the other."""
    known = _data.get(id(type_))
    if known is None:
        if len(_data) > 1 << 12:
            _data.clear()
        elem = elem_of(type_)
        count = cast(VectorType, type_).get_shape()[0] if isinstance(type_, VectorType) else 1
        align = max(bit_width(elem) // 8, 1)
        data = MemRefData(elem, AddressSpace.Register, Layout(count, 1), align, TRIVIAL_SWIZZLE)
        known = (cast(Attribute, type_), data)
        _data[id(known[0])] = known
    place: Any = ValuePlace(Cell(known[0], value))
    return Operand(place, known[1])


def value_of(at: Operand, b: Builder) -> SSAValue:
    """What a value operand holds."""
    place: Any = at.pointer
    cell: Cell = place.cell
    return b.poison(cell.type) if cell.value is None else cell.value


# --- elements of vectors ------------------------------------------------------------------------------------------


def as_vector(b: Builder, value: SSAValue) -> SSAValue:
    """A scalar as a vector of one."""
    if isinstance(value.type, VectorType):
        return value
    return b.pure(vector.FromElementsOp, (value,), vector_type(value.type, 1), {})


def as_type(b: Builder, value: SSAValue, type_: Attribute) -> SSAValue:
    """The same bits as another scalar or vector type."""
    return value if value.type == type_ else read(b, as_vector(b, value), 0, type_)


def read(b: Builder, state: SSAValue, at: int, type_: Attribute, *, spelled: bool = False) -> SSAValue:
    """A scalar or vector of this type out of a vector, from an element on; `spelled`: a slice even of all of it."""
    elem = elem_of(state.type)
    bits = bit_width(elem)
    if type_ == elem:
        return b.extract(state, at)
    count, rest = divmod(bit_width(type_), bits)
    if rest:
        raise DSLCompileError(f"a load of {type_} does not consist of whole elements of {state.type}")
    part = state
    if spelled or at or count != cast(VectorType, state.type).get_shape()[0]:
        props = vector.ExtractStridedSliceOp.properties_for(at, count)
        part = b.pure(vector.ExtractStridedSliceOp, (state,), vector_type(elem, count), props)
    if part.type == type_:
        return part
    if isinstance(type_, VectorType):
        return b.pure(BitcastOp, (part,), cast(Attribute, type_), {})
    return b.extract(b.pure(BitcastOp, (part,), vector_type(type_, 1), {}), 0)


def read_lanes(b: FoldingBuilder, lanes: Lanes, at: int, type_: Attribute) -> SSAValue:
    """The same out of a vector under way; operands of products are read over and over."""
    key = (at, id(type_), b.block)
    found = lanes.reads.get(key)
    if found is None:
        found = lanes.reads[key] = (_read_lanes(b, lanes, at, type_), type_)
    return found[0]


def _read_lanes(b: FoldingBuilder, lanes: Lanes, at: int, type_: Attribute) -> SSAValue:
    elem = lanes.elem
    if type_ == elem:
        return lanes.element(b, at)
    count, rest = divmod(bit_width(type_), bit_width(elem))
    if rest:
        raise DSLCompileError(f"a load of {type_} does not consist of whole elements of {lanes.type}")
    part = lanes.slice(b, at, count)
    if part.type == type_:
        return part
    if isinstance(type_, VectorType):
        return b.pure(BitcastOp, (part,), cast(Attribute, type_), {})
    return b.extract(b.pure(BitcastOp, (part,), vector_type(type_, 1), {}), 0)


def write(b: Builder, value: SSAValue, state: SSAValue, at: int) -> SSAValue:
    """A vector with the elements from one on replaced."""
    new = with_element(b, value, elem_of(state.type))
    if type(new.type) is VectorType:
        props = vector.InsertStridedSliceOp.properties_for(at)
        return b.pure(vector.InsertStridedSliceOp, (new, state), state.type, props)
    return b.insert(new, state, at)


def with_element(b: Builder, value: SSAValue, elem: Attribute) -> SSAValue:
    """A value bit for bit as elements of another type."""
    type_ = value.type
    if elem_of(type_) == elem:
        return value
    count, rest = divmod(bit_width(type_), bit_width(elem))
    if rest:
        raise DSLCompileError(f"a store of {type_} does not consist of whole elements of {elem}")
    cast_ = b.pure(BitcastOp, (as_vector(b, value),), vector_type(elem, count), {})
    return b.extract(cast_, 0) if count == 1 and not isinstance(type_, VectorType) else cast_
