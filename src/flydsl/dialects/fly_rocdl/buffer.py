"""Buffer memory: bounds-checked views of global memory through a 128-bit resource descriptor.

A pointer in the space `#fly_rocdl.buffer_desc` is the descriptor and an offset in elements. Loads outside the
descriptor's range give 0, stores there vanish. The atoms move values between such memory and registers, or straight
into shared memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple, Protocol, Self, cast

from xdsl.dialects.builtin import IntegerType, VectorType, bf16, f16, f32, f64
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...errors import DSLCompileError, DSLValueError
from ...ir.enums import AddressSpace, AtomicOp
from ...ir.op_text import write
from ...ir.types import bit_width, vector_type
from ...target import has, where
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from ..fly.atoms import CopyOpType, load_values, store_values
from ..fly.types import Space, intern
from .common import ArchAtom, check_emulated, check_lowering, refuse


@irdl_attr_definition
class BufferDescAttr(ParametrizedAttribute):
    """`#fly_rocdl.buffer_desc`: the address space of pointers that are a descriptor and an offset."""

    name = "fly_rocdl.buffer_desc"


BUFFER = BufferDescAttr()

UNBOUNDED = 0xFFFFFFFF
"""Bytes of a buffer nobody gave a size."""


def descriptor_flags(arch: str, *, bounded: bool) -> int:
    """The last word of a raw, stride-less descriptor.

    RDNA checks offsets only when told to; the others always do.

    >>> hex(descriptor_flags("gfx942", bounded=True)), hex(descriptor_flags("gfx1201", bounded=True))
    ('0x27000', '0x31027000')
    >>> hex(descriptor_flags("gfx1100", bounded=False)), descriptor_flags("gfx1250", bounded=True)
    ('0x21027000', 0)
    """
    if has(arch, "buffer_wide_descriptor"):
        return 0
    flags = (7 << 12) + (4 << 15)
    if has(arch, "buffer_bounds_select"):
        flags += (1 << 24) + ((3 if bounded else 2) << 28)
    return flags


class BufferLowering(AtomLowering, Protocol):
    """What a target with buffer memory offers to the atoms."""

    def buffer_place(self, at: Operand) -> tuple[SSAValue, SSAValue]:
        """Descriptor and byte offset (i32, swizzled) of an operand in buffer memory."""
        ...

    def buffer_load(
        self, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, type_: Attribute, cache: int
    ) -> SSAValue:
        """Read through a descriptor; offsets in bytes."""
        ...

    def buffer_store(self, value: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, cache: int) -> None:
        """Write through a descriptor."""
        ...

    def buffer_atomic(self, op: str, value: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue) -> None:
        """Read-modify-write through a descriptor by the name of the intrinsic: `fadd`, `smax`, ..."""
        ...

    def buffer_to_shared(
        self, dst: Operand, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, nbytes: int, immediate: int | SSAValue
    ) -> None:
        """Copy into shared memory; lane `l` of the wave writes at `dst + immediate + l * nbytes`."""
        ...

    def global_to_shared(self, src: Operand, dst: Operand, nbytes: int) -> None:
        """Copy from global into shared memory, lane after lane."""
        ...


def is_buffer(space: Space) -> bool:
    """Whether an address space is buffer memory."""
    return type(space) is BufferDescAttr


def _element_bytes(low: BufferLowering, count: SSAValue, elem: Attribute) -> SSAValue:
    """An i32 count of elements in bytes."""
    bits, b = bit_width(elem), low.b
    if bits % 8 == 0:
        return b.muli(count, b.i32(bits // 8))
    return b.int_binary("divui", b.muli(count, b.i32(bits)), b.i32(8))


def scalar_offset(low: BufferLowering, elem: Attribute) -> SSAValue:
    """The state `soffset` in bytes."""
    value = low.state("soffset")
    return low.b.i32(0) if value is None else _element_bytes(low, value, elem)


class BufferCopyData(NamedTuple):
    """Width in bits and cache policy bits."""

    bits: int
    cache: int


@irdl_attr_definition
class BufferCopyType(Data[BufferCopyData], CopyOpType):
    """`!fly_rocdl.cdna3.buffer_copy<128, cache = 2>`: between buffer memory and registers, state `soffset`."""

    name = "fly_rocdl.cdna3.buffer_copy"
    state: ClassVar[tuple[tuple[str, int], ...]] = (("soffset", 32),)

    @classmethod
    def make(cls, bits: int, cache: int = 0) -> BufferCopyType:
        """The interned type."""
        return intern(cls, BufferCopyData(bits, cache))

    @property
    def bits(self) -> int:
        return self.data.bits

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One `buffer_load` or `buffer_store` of the whole width."""
        low = cast(BufferLowering, low)
        sides = [is_buffer(side.data.space) for side in (src, dst)]
        if sides.count(True) != 1:
            raise DSLCompileError(
                f"{self} copies between a buffer tensor (fx.rocdl.make_buffer_tensor) and registers, "
                f"got {src.data.space} -> {dst.data.space}"
            )
        memory = src if sides[0] else dst
        elem = memory.data.elem
        count = max(self.bits // bit_width(elem), 1)
        type_ = elem if count == 1 else vector_type(elem, count)
        rsrc, offset = low.buffer_place(memory)
        soffset = scalar_offset(low, elem)
        if sides[0]:
            store_values(low, low.buffer_load(rsrc, offset, soffset, type_, self.data.cache), dst)
        else:
            low.buffer_store(load_values(low, src, type_), rsrc, offset, soffset, self.data.cache)

    emulate = lower

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> BufferCopyData:
        with parser.in_angle_brackets():
            bits, cache = parser.parse_integer(allow_negative=False), 0
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("cache")
                parser.parse_punctuation("=")
                cache = parser.parse_integer()
        return BufferCopyData(bits, cache)

    def print_parameter(self, printer: Printer) -> None:
        bits, cache = self.data
        printer.print_string(f"<{bits}, cache = {cache}>" if cache else f"<{bits}>")


def _check_lds_bits(bits: int, name: str, allowed: tuple[int, ...]) -> int:
    if bits not in allowed:
        listed = f"{', '.join(map(str, allowed[:-1]))} or {allowed[-1]}"
        raise DSLValueError(
            f"unsupported bitSize = {bits} for {name}; expected {listed} "
            f"(the hardware copies dwords, and 128 bits only on {where('copy_to_lds_b128')})"
        )
    return bits


class _ToShared(Data[int], CopyOpType, ArchAtom):
    """Common part of the copies from memory straight into shared memory."""

    label: ClassVar[str]
    allowed: ClassVar[tuple[int, ...]]
    buffer: ClassVar[bool] = True

    @classmethod
    def make(cls, bits: int) -> Self:
        """The checked, interned type."""
        return intern(cls, _check_lds_bits(bits, cls.label, cls.allowed))

    @property
    def bits(self) -> int:
        return self.data

    def feature(self) -> str:
        return "copy_to_lds_b32" if self.data == 32 else "copy_to_lds_b128"

    def alternatives(self, arch: str) -> Iterable[str]:
        """Widths of this copy on the architecture."""
        if has(arch, "copy_to_lds_b32"):
            yield f"{self.label}32b"

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One `buffer_load ... lds`; the lanes' values lie one behind the other in lane order."""
        check_lowering(self, low)
        self._move(cast(BufferLowering, low), src, dst)

    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """A load and a store of every lane."""
        check_emulated(self, low)
        self._move(cast(BufferLowering, low), src, dst)

    def _move(self, low: BufferLowering, src: Operand, dst: Operand) -> None:
        if dst.data.space is not AddressSpace.Shared:
            raise DSLCompileError(f"{self} copies into shared memory, got {src.data.space} -> {dst.data.space}")
        if self.buffer:
            if not is_buffer(src.data.space):
                raise DSLCompileError(f"{self} reads a buffer tensor, got {src.data.space}")
            rsrc, offset = low.buffer_place(src)
            soffset = scalar_offset(low, src.data.elem)
            immediate = low.state("imm_offset")
            known = None if immediate is None else low.b.const_of.get(immediate)
            at = 0 if immediate is None else immediate if known is None else int(known)
            low.buffer_to_shared(dst, rsrc, offset, soffset, self.data // 8, at)
            return
        if src.data.space is not AddressSpace.Global:
            raise DSLCompileError(f"{self} reads global memory, got {src.data.space}")
        low.global_to_shared(src, dst, self.data // 8)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            bits = parser.parse_integer(allow_negative=False)
            return refuse(parser, lambda: _check_lds_bits(bits, cls.label, cls.allowed))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class BufferCopyLdsType(_ToShared):
    """`!fly_rocdl.cdna3.buffer_copy_lds<32>`: buffer to shared memory, state `soffset` and `imm_offset`."""

    name = "fly_rocdl.cdna3.buffer_copy_lds"
    state: ClassVar[tuple[tuple[str, int], ...]] = (("soffset", 32), ("imm_offset", 32))
    label = "BufferCopyLDS"
    allowed = (32, 128)


@irdl_attr_definition
class BufferLoadAsyncLdsType(_ToShared):
    """`!fly_rocdl.cdna4.buffer_load_async_lds<128>`: the same, complete after `wait_asyncmark`."""

    name = "fly_rocdl.cdna4.buffer_load_async_lds"
    state: ClassVar[tuple[tuple[str, int], ...]] = (("soffset", 32), ("imm_offset", 32))
    label = "BufferLoadAsyncLDS"
    allowed = (32, 96, 128)


@irdl_attr_definition
class GlobalLoadAsyncLdsType(_ToShared):
    """`!fly_rocdl.cdna4.global_load_async_lds<128>`: global to shared memory."""

    name = "fly_rocdl.cdna4.global_load_async_lds"
    label = "GlobalLoadAsyncLDS"
    allowed = (32, 96, 128)
    buffer = False


_FLOAT_ATOMICS = ("buffer_fadd_f32", "buffer_fadd_f16", "buffer_fadd_bf16", "buffer_fmax_f32")


def atomic_intrinsic(op: AtomicOp, type_: Attribute) -> str | None:
    """Name of the buffer intrinsic of an operation on a scalar or a pair, or None."""
    elem = cast("VectorType[Attribute]", type_).element_type if isinstance(type_, VectorType) else type_
    if isinstance(elem, IntegerType):
        names = {
            AtomicOp.Add: "add",
            AtomicOp.Max: "smax",
            AtomicOp.Min: "umin",
            AtomicOp.And: "and",
            AtomicOp.Or: "or",
        }
        return names.get(op) if bit_width(cast(Attribute, type_)) in (32, 64) and elem is type_ else None
    floats = {AtomicOp.Add: "fadd", AtomicOp.Max: "fmax"}
    if elem == f64:
        floats[AtomicOp.Min] = "fmin"
    return floats.get(op)


@irdl_attr_definition
class BufferAtomicType(Data[tuple[AtomicOp, Attribute]], CopyOpType, ArchAtom):
    """`!fly_rocdl.cdna3.buffer_atomic<add, f32>`: registers into buffer memory, state `soffset`."""

    name = "fly_rocdl.cdna3.buffer_atomic"
    state: ClassVar[tuple[tuple[str, int], ...]] = (("soffset", 32),)

    @classmethod
    def make(cls, op: AtomicOp, type_: Attribute) -> BufferAtomicType:
        """The interned type."""
        return intern(cls, (op, type_))

    @property
    def bits(self) -> int:
        return bit_width(self.data[1])

    def feature(self) -> str | None:
        name = atomic_intrinsic(*self.data)
        if name is None:
            return None
        type_ = self.data[1]
        if not name.startswith("f"):
            return "buffer_atomic"
        if type_ == f64:
            return "buffer_atomic_f64"
        elem = cast("VectorType[Attribute]", type_).element_type if isinstance(type_, VectorType) else type_
        pair = isinstance(type_, VectorType)
        if pair != (elem in (f16, bf16)) or (not pair and elem != f32):
            return None
        feature = f"buffer_{name}_{elem}"
        return feature if feature in _FLOAT_ATOMICS else None

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One `buffer_atomic`; the old value is dropped."""
        check_lowering(self, low)
        self._combine(cast(BufferLowering, low), src, dst)

    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """The same on memory that is checked."""
        check_emulated(self, low)
        self._combine(cast(BufferLowering, low), src, dst)

    def _combine(self, low: BufferLowering, src: Operand, dst: Operand) -> None:
        op, type_ = self.data
        name = atomic_intrinsic(op, type_)
        if name is None or not is_buffer(dst.data.space):
            raise DSLCompileError(
                f"{self} cannot go from {src.data.space} to {dst.data.space}: it needs a buffer tensor"
            )
        rsrc, offset = low.buffer_place(dst)
        low.buffer_atomic(name, low.load(src, type_), rsrc, offset, scalar_offset(low, dst.data.elem))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[AtomicOp, Attribute]:
        with parser.in_angle_brackets():
            word = parser.parse_identifier()
            ops = {op.name.lower(): op for op in AtomicOp}
            if word not in ops:
                parser.raise_error(f"expected one of {', '.join(ops)}, got '{word}'")
            parser.parse_punctuation(",")
            return ops[word], parser.parse_type()

    def print_parameter(self, printer: Printer) -> None:
        op, type_ = self.data
        write(printer, f"<{op.name.lower()}, ", type_, ">")
