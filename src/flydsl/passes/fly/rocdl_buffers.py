"""Buffer memory in the conversions: pointers that are a descriptor and an offset, and access through them.

A buffer pointer becomes `{ptr addrspace(8), i32}` and its accesses are buffer instructions. What they are on the cpu
stack is in `cpu/emulation/buffers.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.fly.atom_lowering import Operand
from ...dialects.fly.infer import python_value
from ...dialects.fly.ops import FlyOp
from ...dialects.fly.semantics import object_of
from ...dialects.fly.types import MemRefData, MemRefType, PointerType, PtrData
from ...dialects.fly_rocdl.buffer import is_buffer
from ...dialects.fly_rocdl.common import mangled
from ...dialects.fly_rocdl.ops import BufferLoadOp, BufferStoreOp, GetBufferRsrcOp
from ...dialects.upstream import llvm, vector
from ...errors import DSLCompileError
from ...ir.builder import elem_of, i32, i64_list, operands_of
from ...ir.enums import AddressSpace
from ...ir.types import bit_width, vector_type
from ...lowering.rebuild import Handler, Rebuilder

if TYPE_CHECKING:
    from ...layout import Leaf
    from .fly_layout_lowering import Pointer


def _word_type(bits: int) -> Attribute:
    """What a buffer instruction of this width moves."""
    return IntegerType(bits) if bits <= 32 else vector_type(i32, bits // 32)


def _pieces(bits: int) -> Iterator[tuple[int, int]]:
    """(first bit, width) of the instructions that together move so many bits."""
    at = 0
    while at < bits:
        width = next(w for w in (128, 96, 64, 32, 16, 8) if w <= bits - at)
        yield at, width
        at += width


class BufferMemory(Rebuilder):
    """Mixed into the conversions; as AMD GPUs have it, so that the others have none. The cpu stack has its own."""

    target: ClassVar[str]

    if TYPE_CHECKING:  # What a conversion has of its own.

        def has(self, feature: str) -> bool: ...
        def address(self, pointer: SSAValue, data: PtrData | MemRefData) -> tuple[SSAValue, int]: ...
        def intrinsic(self, name: str, type_: Attribute | None, operands: Sequence[SSAValue]) -> SSAValue | None: ...

    def __init__(self) -> None:
        super().__init__()
        self._fat: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
        """Descriptor and offset of buffer pointers made here, so that taking them apart costs nothing."""
        self._state: dict[str, SSAValue] = {}

    # --- pointers -------------------------------------------------------------------------------------------------

    def descriptor_type(self) -> Attribute:
        if self.has("amd"):
            return llvm.ptr(8)
        raise DSLCompileError(f"buffer memory is a feature of AMD GPUs; the target '{self.target}' has none")

    def buffer_pointer_type(self) -> Attribute:
        """Type of a pointer into buffer memory."""
        return llvm.StructType((False, (self.descriptor_type(), i32)))

    def _field(self, struct: SSAValue, at: int, type_: Attribute) -> SSAValue:
        return self.b.pure(llvm.ExtractValueOp, (struct,), type_, {"position": i64_list((at,))})

    def _struct(self, type_: Attribute, *fields: SSAValue) -> SSAValue:
        value = self.b.pure(llvm.UndefOp, (), type_, {})
        for i, field in enumerate(fields):
            value = self.b.pure(llvm.InsertValueOp, (value, field), type_, {"position": i64_list((i,))})
        return value

    def fat_pointer(self, rsrc: SSAValue, offset: SSAValue) -> SSAValue:
        """A buffer pointer from its parts."""
        made = self._struct(self.buffer_pointer_type(), rsrc, offset)
        self._fat[made] = (rsrc, offset)
        return made

    def fat_parts(self, pointer: object) -> tuple[SSAValue, SSAValue]:
        """Descriptor and offset in elements (i32) of a buffer pointer, materialised or not."""
        parts = getattr(pointer, "parts", (pointer, None, 0))
        base, dynamic, static = cast("tuple[SSAValue, Leaf, int]", parts)
        known = self._fat.get(base)
        if known is None:
            known = self._fat[base] = (self._field(base, 0, self.descriptor_type()), self._field(base, 1, i32))
        rsrc, offset = known
        if dynamic is not None:
            offset = self.b.addi(offset, self.b.leaf_value(dynamic, 32))
        return rsrc, self.b.addi(offset, self.b.i32(static)) if static else offset

    def move_buffer(self, pointer: SSAValue, by: SSAValue | int) -> SSAValue:
        """A buffer pointer moved by elements."""
        rsrc, offset = self.fat_parts(pointer)
        step = self.b.i32(by) if isinstance(by, int) else self._narrow(by)
        return self.fat_pointer(rsrc, self.b.addi(offset, step))

    def _narrow(self, x: SSAValue) -> SSAValue:
        return x if x.type == i32 else self.b.cast("trunci", x, i32)

    def recast_buffer(self, pointer: object, old: Attribute, new: Attribute) -> SSAValue:
        """The same place counted in elements of another width."""
        rsrc, offset = self.fat_parts(pointer)
        a, b = bit_width(old), bit_width(new)
        if a != b:
            bits = self.b.muli(offset, self.b.i32(a)) if a % b else self.b.muli(offset, self.b.i32(a // b))
            offset = self.b.int_binary("divui", bits, self.b.i32(b)) if a % b else bits
        return self.fat_pointer(rsrc, offset)

    def make_descriptor(self, base: SSAValue, stride: SSAValue, size: SSAValue, flags: SSAValue) -> SSAValue:
        """A buffer pointer to the start of a new descriptor."""
        return self.fat_pointer(self.descriptor(base, stride, size, flags), self.b.i32(0))

    def descriptor(self, base: SSAValue, stride: SSAValue, size: SSAValue, flags: SSAValue) -> SSAValue:
        """A new descriptor."""
        made = self.intrinsic("llvm.amdgcn.make.buffer.rsrc.p8.p1", llvm.ptr(8), [base, stride, size, flags])
        return cast(SSAValue, made)

    # --- access ---------------------------------------------------------------------------------------------------

    def state(self, field: str) -> SSAValue | None:
        """State field of the atom being lowered."""
        return self._state.get(field)

    def set_state(self, values: dict[str, SSAValue]) -> None:
        """What the next atom to be lowered finds."""
        self._state = values

    def buffer_place(self, at: Operand) -> tuple[SSAValue, SSAValue]:
        """Descriptor and byte offset of an operand, the pointer's swizzle applied."""
        b = self.b
        rsrc, offset = self.fat_parts(at.pointer)
        bits = bit_width(at.data.elem)
        if bits % 8 == 0:
            offset = b.muli(offset, b.i32(bits // 8))
        else:
            offset = b.int_binary("divui", b.muli(offset, b.i32(bits)), b.i32(8))
        return rsrc, b.swizzle(offset, at.data.swizzle)

    def buffer_load(
        self, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, type_: Attribute, cache: int
    ) -> SSAValue:
        """Read through a descriptor."""
        from .convert_fly import storage_type

        type_ = storage_type(type_)
        bits = bit_width(type_)
        if bits < 8:
            word = self._load_piece(rsrc, offset, soffset, 8, cache)
            return self.b.cast("trunci", word, type_)
        parts = list(_pieces(bits))
        if len(parts) == 1:
            return self._as(self._load_piece(rsrc, offset, soffset, bits, cache), type_)
        whole = self.b.poison(type_)
        elem = elem_of(type_)
        width = bit_width(elem)
        for at, size in parts:
            place = self.b.addi(offset, self.b.i32(at // 8))
            part = self._as(
                self._load_piece(rsrc, place, soffset, size, cache),
                elem if size == width else vector_type(elem, size // width),
            )
            if part.type == elem:
                whole = self.b.insert(part, whole, at // width)
            else:
                props = vector.InsertStridedSliceOp.properties_for(at // width)
                whole = self.b.pure(vector.InsertStridedSliceOp, (part, whole), type_, props)
        return whole

    def scalar_buffer_load(
        self, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, type_: Attribute, cache: int
    ) -> SSAValue:
        """Read whole dwords at an address that is the same in all lanes. The instruction takes the raw descriptor."""
        from .convert_fly import storage_type

        place = self.b.addi(offset, soffset)
        type_ = storage_type(type_)
        word = _word_type(bit_width(type_))
        number = self.b.pure(llvm.PtrToIntOp, (rsrc,), IntegerType(128), {})
        name = f"llvm.amdgcn.s.buffer.load.{mangled(word)}"
        words = [self._as(number, vector_type(i32, 4)), place, self.b.i32(cache)]
        return self._as(cast(SSAValue, self.intrinsic(name, word, words)), type_)

    def buffer_store(self, value: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, cache: int) -> None:
        """Write through a descriptor."""
        bits = bit_width(value.type)
        if bits < 8:
            self._store_piece(self.b.cast("extui", value, IntegerType(8)), rsrc, offset, soffset, 8, cache)
            return
        parts = list(_pieces(bits))
        elem = elem_of(value.type)
        width = bit_width(elem)
        for at, size in parts:
            part = value
            if len(parts) > 1 and size == width:
                part = self.b.extract(value, at // width)
            elif len(parts) > 1:
                props = vector.ExtractStridedSliceOp.properties_for(at // width, size // width)
                type_ = vector_type(elem, size // width)
                part = self.b.pure(vector.ExtractStridedSliceOp, (value,), type_, props)
            place = self.b.addi(offset, self.b.i32(at // 8)) if at else offset
            self._store_piece(self._as(part, _word_type(size)), rsrc, place, soffset, size, cache)

    def _as(self, value: SSAValue, type_: Attribute) -> SSAValue:
        return value if value.type == type_ else self.b.pure(xllvm.BitcastOp, (value,), type_, {})

    def _load_piece(self, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, bits: int, cache: int) -> SSAValue:
        type_ = _word_type(bits)
        name = f"llvm.amdgcn.raw.ptr.buffer.load.{mangled(type_)}"
        return cast(SSAValue, self.intrinsic(name, type_, [rsrc, offset, soffset, self.b.i32(cache)]))

    def _store_piece(
        self, value: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, bits: int, cache: int
    ) -> None:
        name = f"llvm.amdgcn.raw.ptr.buffer.store.{mangled(value.type)}"
        self.intrinsic(name, None, [value, rsrc, offset, soffset, self.b.i32(cache)])

    # --- atomics and copies into shared memory --------------------------------------------------------------------

    def buffer_atomic(self, op: str, value: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue) -> None:
        """Read-modify-write through a descriptor."""
        name = f"llvm.amdgcn.raw.ptr.buffer.atomic.{op}.{mangled(value.type)}"
        self.intrinsic(name, value.type, [value, rsrc, offset, soffset, self.b.i32(0)])

    if TYPE_CHECKING:

        def step(self, at: SSAValue, elem: Attribute, by: int | SSAValue) -> SSAValue: ...

    immediates_of_run_time: ClassVar[bool] = False
    """Whether an instruction's immediate may be a value: in an op of `rocdl` it may."""

    def raw_pointer(self, at: Operand) -> SSAValue:
        """The LLVM pointer of an operand, its swizzle applied."""
        pointer = cast("SSAValue | Pointer", at.pointer)
        value = pointer if isinstance(pointer, SSAValue) else pointer.value()
        return self.address(value, at.data)[0]

    def buffer_to_shared(
        self, dst: Operand, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, nbytes: int, immediate: int | SSAValue
    ) -> None:
        """Copy from a buffer into shared memory, lane after lane.

        The instruction adds its immediate to both addresses. One of run time is added there, unless an op is wanted
        that is written with it.
        """
        b, at = self.b, self.raw_pointer(dst)
        if isinstance(immediate, SSAValue) and not self.immediates_of_run_time:
            offset, at, immediate = b.addi(offset, immediate), self.step(at, IntegerType(8), immediate), 0
        last = b.i32(immediate) if isinstance(immediate, int) else immediate
        operands = [rsrc, at, b.i32(nbytes), offset, soffset, last, b.i32(0)]
        self.intrinsic("llvm.amdgcn.raw.ptr.buffer.load.lds", None, operands)

    def global_to_shared(self, src: Operand, dst: Operand, nbytes: int) -> None:
        """Copy from global into shared memory, lane after lane."""
        b, source, at = self.b, self.raw_pointer(src), self.raw_pointer(dst)
        operands = [source, at, b.i32(nbytes), b.i32(0), b.i32(0)]
        self.intrinsic("llvm.amdgcn.global.load.lds", None, operands)


# --- handlers -----------------------------------------------------------------------------------------------------


def is_buffer_type(type_: Attribute) -> bool:
    """Whether a pointer or tensor is in buffer memory."""
    return isinstance(type_, (PointerType, MemRefType)) and is_buffer(type_.data.space)


def make_buffer_pointer(r: BufferMemory, op: FlyOp) -> None:
    """`fly.make_ptr(%base, %stride, %num, %flags)` into buffer memory."""
    base, stride, size, flags = operands_of(op)
    space = cast(PointerType, base.type).data.space
    if space is not AddressSpace.Global:
        raise DSLCompileError(f"a buffer descriptor needs a global pointer, got {base.type}")
    r.vm[op.results[0]] = r.make_descriptor(r.val(base), r.val(stride), r.val(size), r.val(flags))


def add_buffer_offset(r: BufferMemory, op: FlyOp) -> None:
    """`fly.add_offset` on a buffer pointer."""
    pointer, offset = operands_of(op)
    known = object_of(offset.type)
    by = known if type(known) is int else r.vm[offset][0]
    r.vm[op.results[0]] = r.move_buffer(r.val(pointer), by)


def _rsrc(r: BufferMemory, op: FlyOp) -> None:
    r.vm[op.results[0]] = r.fat_parts(r.val(operands_of(op)[0]))[0]


def _place(r: BufferMemory, pointer: SSAValue) -> tuple[SSAValue, SSAValue]:
    return r.buffer_place(Operand(r.val(pointer), cast("MemRefData", cast("PointerType", pointer.type).data)))


def _buffer_load(r: BufferMemory, op: FlyOp) -> None:
    pointer, soffset = operands_of(op)
    cache = op.properties.get("cache")
    result = op.results[0]
    rsrc, offset = _place(r, pointer)
    number = 0 if cache is None else python_value(cache)
    load = r.scalar_buffer_load if "scalar" in op.properties else r.buffer_load
    r.vm[result] = load(rsrc, offset, r.val(soffset), result.type, number)


def _buffer_store(r: BufferMemory, op: FlyOp) -> None:
    value, pointer, soffset = operands_of(op)
    cache = op.properties.get("cache")
    rsrc, offset = _place(r, pointer)
    r.buffer_store(r.val(value), rsrc, offset, r.val(soffset), 0 if cache is None else python_value(cache))


HANDLERS = cast(
    dict[type[Operation], Handler], {GetBufferRsrcOp: _rsrc, BufferLoadOp: _buffer_load, BufferStoreOp: _buffer_store}
)
"""Handlers of the ops of `fly_rocdl`, for every conversion."""
