"""The part of `fly-promote-regmem-to-vectorssa`: registers are values, those of a function that need no address."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from xdsl.dialects import func
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ....dialects.fly.ops import OPS
from ....dialects.fly.types import PointerType, is_register
from ....dialects.upstream import gpu
from ....ir.builder import operands_of
from ....ir.emitter import blocks_in
from ....ir.types import vector_type
from ....lowering import value_operands
from ....lowering.folding import FoldingBuilder
from ..convert_fly import storage_type
from ..fly_layout_lowering import Pointer
from .calls import Calls
from .register_values import KeepInMemory, RegisterValues, Root

_ROOTS: frozenset[type[object]] = frozenset((Root,))
"""What a pointer has for its base where a register is a value."""


class Registers(Calls):
    """Register storage as values; calls take and give them."""

    def function(self, op: func.FuncOp | gpu.FuncOp, cls: type[Operation]) -> None:
        single = cls is gpu.FuncOp and op.body.blocks.first is op.body.blocks.last
        kept = _without_values(op, self.dead) if single else set[SSAValue]()
        counted = self._allocations
        while True:
            self.registers_now = RegisterValues(self.b, kept, self.dead) if single else None
            try:
                super().function(op, cls)
            except KeepInMemory as error:
                kept.add(error.root.old)
                self._allocations = counted
                continue
            break
        self.registers_now = None

    def fill(self, old: Region, entry: Block) -> Region:
        region = super().fill(old, entry)
        if self.registers_now is not None and self.b.entry is entry:
            self.has_twins |= self.registers_now.settle()
        return region

    def registers(self, old: SSAValue, type_: PointerType, count: int) -> Any:
        if self.registers_now is not None and count:
            root = self.registers_now.allocate(old, vector_type(storage_type(type_.data.elem), count))
            if root is not None:
                return root
        return super().registers(old, type_, count)

    def address_of_pointer(self, at: Pointer) -> SSAValue:
        """A pointer as an IR value; a register that must have one stays in memory."""
        if type(at.base) in _ROOTS:
            raise KeepInMemory(cast(Root, at.base))
        return at.value()

    def settled(self, at: Pointer) -> Pointer:
        return at if type(at.base) in _ROOTS else Pointer(self, at.value(), at.type)

    def register_place(self, at: Pointer) -> tuple[Root, int] | None:
        """Root and element of a pointer to a register that is a value."""
        base = at.base
        if type(base) not in _ROOTS:
            return None
        if at.dynamic is not None:
            raise KeepInMemory(cast(Root, base))
        return cast(Root, base), at.static

    def read(self, at: Pointer, type_: Attribute) -> SSAValue:
        place = self.register_place(at)
        if place is None:
            return super().read(at, type_)
        root, offset = place
        return value_operands.read_lanes(self.b, self.values[root], offset, storage_type(type_))

    def write(self, value: SSAValue, at: Pointer) -> None:
        place = self.register_place(at)
        if place is None:
            super().write(value, at)
            return
        root, offset = place
        lanes = self.values[root]
        self.values[root] = lanes.put(self.b, value_operands.with_element(self.b, value, lanes.elem), offset)


def _without_values(function: Operation, dead: set[int]) -> set[SSAValue]:
    """Allocations that ops of a target take as tensors, or that are reinterpreted: they stay in memory."""
    found = RegisterValues(FoldingBuilder(), set(), dead)
    kept: set[SSAValue] = set()
    todo = list(function.regions)
    while todo:
        for block in blocks_in(todo.pop()):
            op: Operation | None = block.first_op
            while op is not None:
                todo += op.regions
                if _needs_memory(type(op)) and id(op) not in dead:  # pyright: ignore[reportUnknownArgumentType]
                    sources = [found.source(v) for v in operands_of(op) if is_register(v.type)]
                    kept.update(source for source in sources if source is not None)
                op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return kept


@cache
def _needs_memory(cls: type[Operation]) -> bool:
    return cls in (OPS["recast_iter"], OPS["to_llvm_ptr"]) or cls.name.startswith(("fly_rocdl.", "fly_nvgpu."))
