"""Register tensors as values: what was stored at a static place is known until something else may have written it.

A write-back cache over stack memory. Stores stay here; they reach memory when control flow forks or an access cannot be
followed. LLVM then has little left to promote, and most register traffic never becomes IR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from ..dialects.upstream.vector import ExtractStridedSliceOp, FromElementsOp

if TYPE_CHECKING:
    from ..ir.builder import Builder


class Cell(NamedTuple):
    """What one element holds: a scalar (`lane` < 0), or a lane of a vector."""

    value: SSAValue
    lane: int
    dirty: bool


def _lanes(type_: Any) -> int:
    """Length of a vector type; `get_shape` lists all extents, which takes longer than the rest of an access."""
    return cast(int, type_.shape.data[0].data)


class Memory(Protocol):
    """Where cells go when they must."""

    def store_register(self, base: SSAValue, offset: int, value: SSAValue) -> None:
        """Write a scalar or vector at an element offset of a stack allocation."""
        ...


class RegisterCells:
    """Known elements of the register tensors of a function."""

    def __init__(self, b: Builder, memory: Memory):
        self._b = b
        self._memory = memory
        self._cells: dict[SSAValue, dict[int, Cell]] = {}
        self._written: set[SSAValue] = set()
        self._dirty: set[SSAValue] = set()
        """Allocations with cells that memory does not know yet."""

    def track(self, base: SSAValue) -> None:
        """Follow a new stack allocation."""
        self._cells[base] = {}

    def tracks(self, base: SSAValue) -> bool:
        """Whether an allocation is followed."""
        return base in self._cells

    def store(self, base: SSAValue, offset: int, value: SSAValue) -> None:
        """Remember a store."""
        cells = self._cells[base]
        self._written.add(base)
        self._dirty.add(base)
        type_ = value.type
        if type(type_) is VectorType:
            for lane in range(_lanes(type_)):
                cells[offset + lane] = Cell(value, lane, True)
        else:
            cells[offset] = Cell(value, -1, True)

    def load(self, base: SSAValue, offset: int, type_: Attribute) -> SSAValue | None:
        """The value a load would give, or None when it is not all known."""
        cells = self._cells[base]
        if type(type_) is not VectorType:
            cell = cells.get(offset)
            return None if cell is None else self._scalar(cell, type_)
        count = _lanes(type_)
        head = cells.get(offset)
        if head is None:
            return None
        if head[1] == 0 and head[0].type is type_:  # most often the vector that was stored there
            value = head[0]
            for i in range(1, count):
                cell = cells.get(offset + i)
                if cell is None or cell[0] is not value or cell[1] != i:
                    break
            else:
                return value
        found = [cells.get(offset + i) for i in range(count)]
        if None in found:
            return None
        known = cast(list[Cell], found)
        first = known[0].value
        if first.type == type_ and all(c.value is first and c.lane == i for i, c in enumerate(known)):
            return first
        elem = cast(Attribute, cast(Any, type_).element_type)
        lane = known[0].lane
        if lane >= 0 and all(c.value is first and c.lane == lane + i for i, c in enumerate(known)):
            if cast(Any, first.type).element_type != elem:
                return None
            props = ExtractStridedSliceOp.properties_for(lane, count)
            return self._b.pure(ExtractStridedSliceOp, (first,), cast(Attribute, type_), props)
        scalars = [self._scalar(c, elem) for c in known]
        if None in scalars:
            return None
        return self._b.pure(FromElementsOp, cast(list[SSAValue], scalars), cast(Attribute, type_), {})

    def _scalar(self, cell: Cell, type_: Attribute) -> SSAValue | None:
        if cell.lane < 0:
            return cell.value if cell.value.type == type_ else None
        elem = cast(Attribute, cast(Any, cell.value.type).element_type)
        return self._b.extract(cell.value, cell.lane) if elem == type_ else None

    # --- when memory must be right --------------------------------------------------------------------------------

    def flush(self, base: SSAValue | None = None) -> None:
        """Write what is only known here; of one allocation, or of all."""
        for at in [base] if base is not None else [at for at in self._cells if at in self._dirty]:
            self._flush_one(at)

    def _flush_one(self, base: SSAValue) -> None:
        if base not in self._dirty:
            return
        self._dirty.discard(base)
        cells = self._cells[base]
        offset = None
        dirty = sorted(o for o, c in cells.items() if c.dirty)
        i = 0
        while i < len(dirty):
            offset = dirty[i]
            cell = cells[offset]
            width = 1
            if cell.lane == 0:
                count = _lanes(cell.value.type)
                whole = [cells.get(offset + k) for k in range(count)]
                if all(c is not None and c.value is cell.value and c.lane == k for k, c in enumerate(whole)):
                    width = count
            if width > 1:
                self._memory.store_register(base, offset, cell.value)
            else:
                elem = cell.value.type if cell.lane < 0 else cast(Any, cell.value.type).element_type
                self._memory.store_register(base, offset, cast(SSAValue, self._scalar(cell, elem)))
            while i < len(dirty) and dirty[i] < offset + width:
                value, lane, _ = cells[dirty[i]]
                cells[dirty[i]] = Cell(value, lane, False)
                i += 1

    def forget(self, base: SSAValue | None = None) -> None:
        """Nothing is known any more; of one allocation, or of all."""
        for at in [base] if base is not None else list(self._cells):
            self._cells[at].clear()
            self._dirty.discard(at)

    def release(self, base: SSAValue) -> None:
        """Stop following an allocation whose address is used in a way that cannot be followed."""
        self._flush_one(base)
        del self._cells[base]

    def enter(self, *, loop: bool) -> set[SSAValue]:
        """Before a nested region: memory is made right; inside a loop nothing is known. Give the state for `leave`."""
        self.flush()
        if loop:
            self.forget()
        written, self._written = self._written, set()
        return written

    def leave(self, before: set[SSAValue]) -> None:
        """At the end of a nested region: memory is made right, and what it wrote is no longer known outside."""
        self.flush()
        for base in self._written:
            if base in self._cells:
                self._cells[base].clear()
        self._written |= before
