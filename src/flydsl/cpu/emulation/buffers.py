"""AMD's buffer memory on the CPU: a descriptor is a base and a size in bytes, `{ptr, i64}`.

Every dword is checked as the hardware does: outside, loads read 0 and stores are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Block, SSAValue

from ...dialects.fly.atom_lowering import Operand
from ...dialects.fly.atoms import vector_length
from ...dialects.upstream import llvm, vector
from ...ir.builder import i32, i32_list, i64, int_attr
from ...ir.types import bit_width, vector_type
from .lanes import Emulation

_ATOMICS = {
    "fadd": "fadd", "fmax": "fmax", "fmin": "fmin", "smax": "max", "umin": "umin", "add": "add", "and": "_and",
    "or": "_or",
}  # fmt: skip
"""Operation of `atomicrmw` by buffer intrinsic."""


class EmulatedBuffers(Emulation):
    """In front of a conversion, in the place of its own buffer memory."""

    def __init__(self) -> None:
        super().__init__()
        self._nowhere: dict[Block, SSAValue] = {}

    if TYPE_CHECKING:  # What a conversion has of its own.

        def stack(self, elem: Attribute, count: int, align: int) -> SSAValue: ...
        def buffer_load(
            self, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, type_: Attribute, cache: int
        ) -> SSAValue: ...
        def first_lane(self) -> SSAValue: ...
        def _field(self, struct: SSAValue, at: int, type_: Attribute) -> SSAValue: ...
        def _struct(self, type_: Attribute, *fields: SSAValue) -> SSAValue: ...

    def descriptor_type(self) -> Attribute:
        return llvm.StructType((False, (llvm.ptr(0), i64)))

    def descriptor(self, base: SSAValue, stride: SSAValue, size: SSAValue, flags: SSAValue) -> SSAValue:
        """A new descriptor."""
        return self._struct(self.descriptor_type(), base, size)

    def scalar_buffer_load(
        self, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, type_: Attribute, cache: int
    ) -> SSAValue:
        """A load at an address that is the same in all lanes is a load, of another counter."""
        with self.instructions(0):
            return self.buffer_load(rsrc, offset, soffset, type_, cache)

    def _load_piece(self, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, bits: int, cache: int) -> SSAValue:
        if bits <= 32:
            return self._checked_load(rsrc, offset, soffset, IntegerType(bits))
        with self.instructions(1):
            words = [
                self._checked_load(rsrc, self.b.addi(offset, self.b.i32(4 * i)) if i else offset, soffset, i32)
                for i in range(bits // 32)
            ]
        return self.b.pure(vector.FromElementsOp, words, vector_type(i32, bits // 32), {})

    def _store_piece(
        self, value: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, bits: int, cache: int
    ) -> None:
        count = max(bits // 32, 1)
        with self.instructions(1):
            for i in range(count):
                word = value if count == 1 else self.b.extract(value, i)
                place = self.b.addi(offset, self.b.i32(4 * i)) if i else offset
                at, _ = self._checked(rsrc, place, soffset, bit_width(word.type) // 8)
                self.b.opn(llvm.StoreOp, (word, at), (), {"alignment": int_attr(1, i64)})

    def _checked(self, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, nbytes: int) -> tuple[SSAValue, SSAValue]:
        """Where an access goes (a place nobody reads when it is out of range), and whether it is in range."""
        b = self.b
        base, size = self._field(rsrc, 0, llvm.ptr(0)), self._field(rsrc, 1, i64)
        at = b.cast("extui", offset, i64)
        inside = b.cmpi("ule", b.addi(at, b.const(nbytes, i64)), size)
        props: dict[str, Attribute] = {
            "rawConstantIndices": i32_list((llvm.GEP_DYNAMIC,)),
            "elem_type": IntegerType(8),
            "noWrapFlags": int_attr(0, i32),
        }
        total = b.addi(at, b.cast("extui", soffset, i64))
        there = b.pure(llvm.GEPOp, (base, total), llvm.ptr(0), props)
        nowhere = self._nowhere.get(b.entry)
        if nowhere is None:
            nowhere = self._nowhere[b.entry] = self.stack(i64, 2, 16)
        return b.select(inside, there, nowhere), inside

    def _checked_load(self, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, type_: Attribute) -> SSAValue:
        at, inside = self._checked(rsrc, offset, soffset, bit_width(type_) // 8)
        value = self.b.op1(llvm.LoadOp, (at,), type_, {"alignment": int_attr(1, i64)})
        return self.b.select(inside, value, self.b.const(0, type_))

    def buffer_atomic(self, op: str, value: SSAValue, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue) -> None:
        """Read-modify-write through a descriptor."""
        scalars = [value]
        count = vector_length(value.type)
        if count > 1:
            scalars = [self.b.extract(value, i) for i in range(count)]
        nbytes = bit_width(scalars[0].type) // 8
        props: dict[str, Attribute] = {
            "bin_op": int_attr(llvm.ATOMIC_BINARY.index(_ATOMICS[op]), i64),
            "ordering": int_attr(llvm.ORDERINGS["monotonic"], i64),
        }
        with self.instructions(1):
            for i, scalar in enumerate(scalars):
                place = self.b.addi(offset, self.b.i32(i * nbytes)) if i else offset
                at, _ = self._checked(rsrc, place, soffset, nbytes)
                self.b.op1(llvm.AtomicRMWOp, (at, scalar), scalar.type, dict(props))

    def _lane_slot(self, at: SSAValue, nbytes: int, immediate: int) -> SSAValue:
        """The address of the first lane that takes part, plus the place of this lane."""
        b = self.b
        number = b.pure(llvm.PtrToIntOp, (at,), i64, {})
        leader = self.first_lane()  # lanes meet for it, so it comes before they exchange the address
        first = self.exchange(number)(leader)
        step = b.addi(b.muli(self.group_lane(), b.const(nbytes, i64)), b.const(immediate, i64))
        return b.pure(llvm.IntToPtrOp, (b.addi(first, step),), at.type, {})

    def _deliver(self, value: SSAValue, slot: SSAValue, nbytes: int) -> None:
        self.b.opn(llvm.StoreOp, (value, slot), (), {"alignment": int_attr(1, i64)})
        self.note_copy("to_shared", slot, nbytes)

    def buffer_to_shared(
        self, dst: Operand, rsrc: SSAValue, offset: SSAValue, soffset: SSAValue, nbytes: int, immediate: int | SSAValue
    ) -> None:
        """Copy from a buffer into shared memory, lane after lane."""
        b, at = self.b, self.raw_pointer(dst)
        if isinstance(immediate, SSAValue):
            offset, at, immediate = b.addi(offset, immediate), self.at(at, b.cast("extsi", immediate, i64)), 0
        place = b.addi(offset, b.i32(immediate)) if immediate else offset
        with self.issued():
            value = self._load_piece(rsrc, place, soffset, 8 * nbytes, 0)
        self._deliver(value, self._lane_slot(at, nbytes, immediate), nbytes)

    def global_to_shared(self, src: Operand, dst: Operand, nbytes: int) -> None:
        """Copy from global into shared memory, lane after lane."""
        source, at = self.raw_pointer(src), self.raw_pointer(dst)
        bits = 8 * nbytes
        type_ = IntegerType(bits) if bits <= 32 else vector_type(i32, bits // 32)
        self._deliver(self.take(source, type_, issued=True), self._lane_slot(at, nbytes, 0), nbytes)
