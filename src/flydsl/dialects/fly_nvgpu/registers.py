"""Register fragments of an atom call as the words an instruction takes, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Attribute, SSAValue

from ... import layout as L
from ...errors import DSLCompileError
from ...ir.builder import i64_list
from ...ir.types import bit_width, vector_type
from ...target import since
from ..fly.atom_lowering import AtomLowering, Operand
from ..upstream import llvm
from ..upstream.vector import ExtractStridedSliceOp, FromElementsOp


def require(low: AtomLowering, what: object, feature: str) -> None:
    """Refuse what an architecture lacks, for which LLVM would abort the process; what it has is noted as used."""
    if low.has("nvidia") and low.has(feature):
        low.note_need(feature)
        return
    if not low.has("nvidia"):
        arch = low.arch or "this GPU"
        raise DSLCompileError(f"{what} does not exist on {arch}: it is an instruction of NVIDIA GPUs")
    raise DSLCompileError(f"{what} does not exist on {low.arch}; it needs {since('nvidia', feature)}")


def pointer_value(low: AtomLowering, at: Operand, *, swizzled: bool = True) -> SSAValue:
    """The address of an operand in memory."""
    pointer: Any = at.pointer
    value: SSAValue = pointer.value() if hasattr(pointer, "offset") else pointer
    return low.address(value, at.data)[0] if swizzled else value


def storage(elem: Attribute) -> Attribute:
    """The type of an element in a register: floats of 8 bits are integers to LLVM."""
    from xdsl.dialects.builtin import IntegerType

    return elem if bit_width(elem) >= 16 else IntegerType(bit_width(elem))


def _offsets(at: Operand, count: int) -> list[int]:
    layout = at.data.layout
    if L.size(layout) != count:
        return list(range(count))
    return [cast(int, L.crd2idx(i, layout)) for i in range(count)]


def read(low: AtomLowering, at: Operand, count: int) -> SSAValue:
    """The first `count` values of a fragment as one vector."""
    elem = storage(at.data.elem)
    type_ = vector_type(elem, count)
    offsets = _offsets(at, count)
    if offsets == list(range(count)):
        return low.load(at, type_) if count > 1 else low.b.broadcast(low.load(at, elem), 1)
    values = [low.load(low.moved(at, offset), elem) for offset in offsets]
    return low.b.pure(FromElementsOp, values, type_, {})


def write(low: AtomLowering, value: SSAValue, at: Operand) -> None:
    """Store a vector as the values of a fragment."""
    count = cast(VectorType, value.type).get_shape()[0]
    offsets = _offsets(at, count)
    if offsets == list(range(count)) and count > 1:
        low.store(value, at)
        return
    for i, offset in enumerate(offsets):
        low.store(low.b.extract(value, i), low.moved(at, offset))


def cast_vector(low: AtomLowering, value: SSAValue, elem: Attribute) -> SSAValue:
    """The same bits as a vector of another element type."""
    count = cast(VectorType, value.type).get_shape()[0]
    bits = count * bit_width(cast(VectorType, value.type).element_type)
    type_ = vector_type(elem, bits // bit_width(elem))
    return value if value.type == type_ else low.b.pure(xvector.BitcastOp, (value,), type_, {})


def words(low: AtomLowering, value: SSAValue) -> list[SSAValue]:
    """A vector as 32-bit integers."""
    packed = cast_vector(low, value, i32)
    return [low.b.extract(packed, i) for i in range(cast(VectorType, packed.type).get_shape()[0])]


def pairs(low: AtomLowering, value: SSAValue) -> list[SSAValue]:
    """A vector of 16-bit values as vectors of two."""
    elem = cast(VectorType, value.type).element_type
    count = cast(VectorType, value.type).get_shape()[0]
    type_ = vector_type(elem, 2)
    if count == 2:
        return [value]
    return [
        low.b.pure(ExtractStridedSliceOp, (value,), type_, ExtractStridedSliceOp.properties_for(i, 2))
        for i in range(0, count, 2)
    ]


def scalars(low: AtomLowering, value: SSAValue) -> list[SSAValue]:
    """The elements of a vector."""
    return [low.b.extract(value, i) for i in range(cast(VectorType, value.type).get_shape()[0])]


def vector_of(low: AtomLowering, values: Sequence[SSAValue]) -> SSAValue:
    """Scalars as a vector."""
    return low.b.pure(FromElementsOp, list(values), vector_type(values[0].type, len(values)), {})


def fields(low: AtomLowering, struct: SSAValue, count: int) -> list[SSAValue]:
    """The fields of a struct of equal types."""
    if count == 1:
        return [struct]
    types = cast(llvm.StructType, struct.type).fields
    return [low.b.pure(llvm.ExtractValueOp, (struct,), types[i], {"position": i64_list((i,))}) for i in range(count)]


def struct_of(type_: Attribute, count: int) -> Attribute:
    """What an instruction with so many equal results gives."""
    return type_ if count == 1 else llvm.StructType((False, (type_,) * count))


def all_offsets(at: Operand) -> list[int]:
    """Element offsets of all values of a register tensor."""
    layout = at.data.layout
    return [cast(int, L.crd2idx(i, layout)) for i in range(cast(int, L.size(layout)))]
