"""Layout lowering and a conversion as one: what the first emits for memory is `llvm` at once."""

from __future__ import annotations

from typing import Any, cast

from xdsl.ir import Attribute, Operation, SSAValue

from ....dialects.fly.atom_lowering import Operand
from ....dialects.fly.ops import OPS, FlyOp
from ....dialects.fly.semantics import View
from ....dialects.fly.types import MemRefData, PointerType
from ....dialects.fly_rocdl.buffer import is_buffer
from ....ir.builder import operands_of
from ....ir.enums import AddressSpace
from ....ir.values import SSA_CLASSES
from ....layout import Dyn, IntTuple
from ....lowering import atom_state
from ....lowering.atom_state import ATOM_TYPES
from ....lowering.folding import FoldingBuilder
from ....lowering.rebuild import Handler
from ..convert_fly import FlyConversion, alloc_number, bare_pointer, storage_type
from ..fly_layout_lowering import LayoutLowering, Pointer


class Memory(LayoutLowering, FlyConversion):
    """Both lowerings; a walk mixes it with a target's `FlyConversion`."""

    b: FoldingBuilder

    def make_builder(self) -> FoldingBuilder:
        return FoldingBuilder()

    def val(self, old: SSAValue) -> SSAValue:
        found = self.vm[old]
        if type(found) in SSA_CLASSES:
            return found
        if isinstance(found, Pointer):
            return self.address_of_pointer(found)
        if type(old.type) in ATOM_TYPES:
            return atom_state.to_struct(self.b, found, old.type)
        return super().val(old)

    def address_of_pointer(self, at: Pointer) -> SSAValue:
        """A pointer as an IR value."""
        return at.value()

    def _step(self, at: SSAValue, elem: Attribute, by: IntTuple) -> SSAValue:
        return self.step(at, elem, by if type(by) is int else self.b.leaf_value(by, cast(Dyn, by).width))

    def advance(self, at: SSAValue, type_: PointerType, by: IntTuple, after: PointerType) -> SSAValue:
        if is_buffer(type_.data.space):
            return self.move_buffer(at, by if type(by) is int else self.b.leaf_value(by, 32))
        return self._step(at, storage_type(type_.data.elem), by)

    def registers(self, old: SSAValue, type_: PointerType, count: int) -> Any:
        return self.stack(storage_type(type_.data.elem), count, type_.data.align)

    def blank(self, type_: Attribute) -> SSAValue:
        return self.b.poison(storage_type(type_))

    def read(self, at: Pointer, type_: Attribute) -> SSAValue:
        return self.load(Operand(at.value(), cast("MemRefData", at.type.data)), type_)

    def write(self, value: SSAValue, at: Pointer) -> None:
        self.store(value, Operand(at.value(), cast("MemRefData", at.type.data)))

    def operand(self, old: Any) -> Operand:
        at: Pointer = old.iter
        d = at.type.data
        return Operand(self.address_of_pointer(at), MemRefData(d.elem, d.space, old.layout, d.align, d.swizzle))

    def tensor(self, old: SSAValue) -> Operand:
        return self.operand(self.obj(old))


def _load(r: Memory, op: FlyOp) -> None:
    r.vm[op.results[0]] = r.read(r.obj(operands_of(op)[0]), op.results[0].type)


def _store(r: Memory, op: FlyOp) -> None:
    value, at = operands_of(op)
    r.write(r.val(value), r.obj(at))


def _make_ptr(r: Memory, op: FlyOp) -> None:
    type_ = cast(PointerType, op.results[0].type)
    if type_.data.space is AddressSpace.Register:
        made = r.registers(op.results[0], type_, alloc_number(op, "allocSize"))
        r.vm[op.results[0]] = made if type(made) in SSA_CLASSES else Pointer(r, cast("SSAValue", made), type_)
    else:
        FlyConversion.handlers[OPS["make_ptr"]](r, op)


def _recast(r: Memory, op: FlyOp) -> None:
    at = cast(Pointer, r.obj(operands_of(op)[0]))
    type_ = cast(PointerType, op.results[0].type)
    value = r.address_of_pointer(at)
    if is_buffer(type_.data.space):
        value = r.recast_buffer(value, at.type.data.elem, type_.data.elem)
    r.vm[op.results[0]] = Pointer(r, value, type_)


def _aligned_pointer(r: Memory, op: FlyOp) -> None:
    bare_pointer(r, op, lambda tensor: r.address_of_pointer(cast(Pointer, cast(View, r.obj(tensor)).iter)))


Memory.handlers = cast(
    dict[type[Operation], Handler],
    {
        OPS["make_ptr"]: _make_ptr,
        OPS["ptr.load"]: _load,
        OPS["ptr.store"]: _store,
        OPS["recast_iter"]: _recast,
        OPS["extract_aligned_pointer_as_index"]: _aligned_pointer,
        OPS["apply_swizzle"]: _recast,
    },
)
