"""Register fragments of an atom call as the words an instruction takes, and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, Protocol, cast

from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Attribute, SSAValue

from ... import layout as L
from ...errors import DSLCompileError
from ...ir.builder import i32_list, i64_list, int_attr
from ...ir.types import bit_width, vector_type
from ..fly.atoms import AtomLowering, Operand
from ..upstream import llvm
from ..upstream.vector import ExtractStridedSliceOp, FromElementsOp


class NvLowering(AtomLowering, Protocol):
    """What a conversion offers beyond the common part: its target, addresses, and on the cpu stack an emulator."""

    arch: str | None

    def address(self, pointer: SSAValue, data: Any) -> tuple[SSAValue, int]:
        """An address with the pointer's swizzle applied, and its alignment."""
        ...

    def state(self, field: str) -> SSAValue | None:
        """A state field of the atom being lowered; None while it has its default."""
        ...

    def emulate_mma(self, op: Any, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """The cpu stack's matrix product."""
        ...

    def emulate_copy(self, op: Any, src: Operand, dst: Operand) -> None:
        """The cpu stack's cooperative copy."""
        ...

    def emulate_call(self, name: str, operands: Sequence[SSAValue], **properties: Any) -> Sequence[SSAValue]:
        """The cpu stack's form of a `fly_nvgpu` operation."""
        ...


def nv(low: AtomLowering) -> NvLowering:
    """The same conversion, seen with everything it offers."""
    return cast(NvLowering, low)


def arch_number(arch: str | None) -> int | None:
    """90 of `sm_90a`; None for what is not an NVIDIA architecture."""
    if arch is None or not arch.startswith("sm_"):
        return None
    return int(arch[3:].rstrip("af"))


def check_arch(low: AtomLowering, what: Any, least: int, most: int | None = None) -> None:
    """Refuse what an architecture lacks: LLVM would abort the process."""
    arch = getattr(low, "arch", None)
    number = arch_number(arch)
    if number is None:
        if arch is not None and arch != "native":
            raise DSLCompileError(f"{what} does not exist on {arch}: it is an instruction of NVIDIA GPUs")
        return
    if number < least or (most is not None and number > most):
        have = f"sm_{least}" if most is None else f"sm_{least} alone"
        raise DSLCompileError(f"{what} does not exist on {arch}; it needs {have}")


def pointer_value(low: AtomLowering, at: Operand, *, swizzled: bool = True) -> SSAValue:
    """The address of an operand in memory."""
    pointer: Any = at.pointer
    value: SSAValue = pointer.value() if hasattr(pointer, "offset") else pointer
    return nv(low).address(value, at.data)[0] if swizzled else value


def storage(elem: Attribute) -> Attribute:
    """The type of an element in a register: floats of 8 bits are integers to LLVM."""
    from xdsl.dialects.builtin import IntegerType

    return elem if bit_width(elem) >= 16 else IntegerType(bit_width(elem))


def moved(low: AtomLowering, at: Operand, by: int) -> Operand:
    """An operand some elements further on, aligned as far as the distance is."""
    if not by:
        return at
    bits = by * bit_width(at.data.elem)
    data = at.data._replace(align=gcd(at.data.align, bits // 8) if bits % 8 == 0 else 1)
    pointer: Any = at.pointer
    if hasattr(pointer, "offset"):
        return Operand(pointer.offset(by), data)
    props: dict[str, Attribute] = {
        "rawConstantIndices": i32_list((by,)),
        "elem_type": storage(at.data.elem),
        "noWrapFlags": int_attr(0, i32),
    }
    return Operand(low.b.pure(llvm.GEPOp, (pointer,), pointer.type, props), data)


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
    values = [low.load(moved(low, at, offset), elem) for offset in offsets]
    return low.b.pure(FromElementsOp, values, type_, {})


def write(low: AtomLowering, value: SSAValue, at: Operand) -> None:
    """Store a vector as the values of a fragment."""
    count = cast(VectorType, value.type).get_shape()[0]
    offsets = _offsets(at, count)
    if offsets == list(range(count)) and count > 1:
        low.store(value, at)
        return
    for i, offset in enumerate(offsets):
        low.store(low.b.extract(value, i), moved(low, at, offset))


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
