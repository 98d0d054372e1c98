"""`fly-split-carried-vectors`: a vector that loops carry and ifs give, written and read by pieces, becomes its pieces.

A fragment of many registers is one vector to the language. Carried whole, it is put together at the end of every
iteration and taken apart again at the start of the next: shuffles of all its elements for every piece, which LLVM has
to see through, and does not always. So each piece is carried for itself. Vectors that somebody needs as a whole stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from xdsl.dialects import ub
from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, ModuleOp, VectorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ...dialects.upstream import scf, vector
from ...ir import arith
from ...ir.builder import i64_list, operands_of
from ...ir.emitter import blocks_in
from ...ir.types import bit_width, vector_type
from ...lowering.lanes import lanes_in
from ..base import Pass

REGISTER_BITS = 32
"""A piece fills whole registers: a part of one would be shifted in and out."""


class Span(NamedTuple):
    """Elements `[start, end)` of a vector."""

    start: int
    end: int


class Slot:
    """One place among what a loop carries or an if gives."""

    __slots__ = ("family", "given", "index", "op", "values")

    def __init__(self, op: Operation, index: int):
        self.op = op
        self.index = index
        ends = [operands_of(cast(Operation, region.block.last_op))[index] for region in op.regions]
        self.values: list[SSAValue] = [op.results[index]]
        self.given: list[SSAValue] = ends
        """What comes in: the start of a loop, and what regions end with."""
        if isinstance(op, scf.ForOp):
            self.values.append(op.body.block.args[1 + index])
            self.given = [operands_of(op)[3 + index], *ends]
        self.family = Family(self)


class Family:
    """Slots that hand a vector on to each other, which are split the same way or not at all."""

    def __init__(self, slot: Slot):
        self.slots = [slot]
        self.type = cast(VectorType, slot.op.results[slot.index].type)
        self.accessed: set[Span] = set()
        self.whole = False
        """Whether somebody needs the vector as a whole."""

    def join(self, other: Family) -> None:
        if other is self:
            return
        for slot in other.slots:
            slot.family = self
        self.slots += other.slots
        self.accessed |= other.accessed
        self.whole |= other.whole

    def pieces(self) -> list[Span]:
        """The parts that no access crosses the border of; none where the vector is to stay."""
        if self.whole or not self.accessed:
            return []
        count = lanes_in(self.type)
        borders = {0, count} | {at for span in self.accessed for at in span}
        borders -= {at for span in self.accessed for at in range(span.start + 1, span.end)}
        ends = sorted(borders)
        found = [Span(a, b) for a, b in zip(ends, ends[1:], strict=False)]
        bits = bit_width(self.type.element_type)
        fits = all(span.end - span.start > 1 and (span.end - span.start) * bits % REGISTER_BITS == 0 for span in found)
        return found if len(found) > 1 and fits else []


def _is_candidate(type_: Attribute) -> bool:
    return type(type_) is VectorType and len(type_.shape.data) == 1


def _slots(module: ModuleOp) -> list[Slot]:
    """All places for vectors, outer loops first."""
    found: list[Slot] = []
    todo = list(module.regions)
    while todo:
        for block in blocks_in(todo.pop()):
            op: Any = block.first_op
            while op is not None:
                if op.regions:
                    if type(op) is scf.ForOp or (type(op) is scf.IfOp and op.results):
                        found += [Slot(op, i) for i, x in enumerate(op.results) if _is_candidate(x.type)]
                    todo += op.regions
                op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return found


def _offset(op: Operation) -> int:
    return cast(Any, op.properties["offsets"]).data[0].value.data


def _element(op: Operation) -> int | None:
    """The element that an extract or insert of a scalar is about, where it is known."""
    positions = cast(Any, op.properties["static_position"]).get_values()
    return positions[0] if len(positions) == 1 and not cast(Any, op).dynamic_position else None


def _span(op: Operation, part: SSAValue) -> Span:
    """The elements that an op with a slice is about."""
    at = _offset(op)
    return Span(at, at + lanes_in(part.type))


def _is_extract(op: Operation) -> bool:
    """Whether an op takes a scalar out of a vector at a place that is known."""
    return type(op) is xvector.ExtractOp and _element(op) is not None


def _is_handed_on(op: Operation, index: int) -> bool:
    """Whether an operand is what a loop starts from or what a region of a loop or an if ends with."""
    if type(op) is scf.ForOp:
        return index >= 3
    return type(op) is scf.YieldOp and type(op.parent_op()) in (scf.ForOp, scf.IfOp)


def _is_insert(op: object) -> bool:
    """Whether an op puts elements into a vector at a place that is known."""
    if type(op) is vector.InsertStridedSliceOp:
        return True
    return type(op) is xvector.InsertOp and _element(op) is not None


def _splat(op: object) -> bytes | None:
    """The bytes of each element of a vector constant whose elements are all the same."""
    value: Any = op.properties["value"] if type(op) is arith.ConstantOp else None
    if type(value) is not DenseIntOrFPElementsAttr:
        return None
    known = cast(Any, value)
    data, count = cast(bytes, known.data.data), lanes_in(known.type)
    first = data[: len(data) // count]
    return first if first * count == data else None


class _Splitter:
    def __init__(self, slots: Sequence[Slot]):
        self.slots = slots
        self.slot_of: dict[SSAValue, Slot] = {value: slot for slot in slots for value in slot.values}
        self.spans: dict[Family, list[Span]] = {}
        self.known: dict[SSAValue, list[SSAValue]] = {}
        """The pieces of the values of slots."""

    # --- who hands what on to whom --------------------------------------------------------------------------------

    def connect(self) -> None:
        """Find the families and what is asked of them."""
        for slot in self.slots:
            for value in slot.given:
                self._trace_back(slot, value)
        for value, slot in self.slot_of.items():
            self._look_at_uses(value, slot)
        self.spans = {slot.family: slot.family.pieces() for slot in self.slots}

    def _trace_back(self, slot: Slot, value: SSAValue) -> None:
        """Follow what comes into a slot back to where it starts."""
        while True:
            source = self.slot_of.get(value)
            if source is not None:
                slot.family.join(source.family)
                return
            owner = value.owner
            if not _is_insert(owner):
                if type(owner) is not ub.PoisonOp and _splat(owner) is None:
                    slot.family.whole = True
                return
            part, value = operands_of(cast(Operation, owner))
            if type(owner) is vector.InsertStridedSliceOp:
                slot.family.accessed.add(_span(owner, part))

    def _look_at_uses(self, value: SSAValue, slot: Slot) -> None:
        for use in value.uses:
            op = use.operation
            if type(op) is vector.ExtractStridedSliceOp:
                slot.family.accessed.add(_span(op, op.results[0]))
            elif _is_insert(op) and use.index == 1:
                # What is made of it comes to a slot in the end, or somebody needs it as a whole.
                self._look_at_uses(op.results[0], slot)
            elif not _is_extract(op) and not _is_handed_on(op, use.index):
                slot.family.whole = True

    # --- splitting ------------------------------------------------------------------------------------------------

    def split(self) -> None:
        """Rebuild loops and ifs with pieces."""
        chosen: dict[Operation, dict[int, Slot]] = {}
        for slot in self.slots:
            if self.spans[slot.family]:
                chosen.setdefault(slot.op, {})[slot.index] = slot
        made = [(op, slots, self._rebuilt(op, slots)) for op, slots in chosen.items()]
        for _, slots, _ in made:
            for slot in slots.values():
                for value in slot.values:
                    self._replace_reads(value, slot.family)
        given = [value for _, slots, new in made for value in self._fill_in(slots, new)]
        for op, _, _ in made:
            op.operands = []
        for value in given:
            _drop_unused(value)
        for op, slots, new in made:
            if isinstance(new, scf.ForOp):
                for slot in slots.values():
                    new.body.block.erase_arg(cast(BlockArgument, slot.values[1]))
            op.detach()
            op.erase()

    def _types(self, family: Family) -> list[Attribute]:
        return [vector_type(family.type.element_type, span.end - span.start) for span in self.spans[family]]

    def _rebuilt(self, op: Operation, slots: dict[int, Slot]) -> Operation:
        """The op with a result and an argument for every piece; what comes in is left as it was for now."""
        types = [
            type_
            for i, result in enumerate(op.results)
            for type_ in (self._types(slots[i].family) if i in slots else [result.type])
        ]
        new = type(op).create(
            operands=operands_of(op),
            result_types=types,
            properties=dict(op.properties),
            attributes=dict(op.attributes),
            regions=[op.detach_region(0) for _ in list(op.regions)],
            location=op.location,
        )
        cast(Block, op.parent).insert_op_before(new, op)
        fresh = iter(new.results)
        for i, result in enumerate(op.results):
            if i not in slots:
                result.replace_all_uses_with(next(fresh))
                continue
            slot = slots[i]
            types = self._types(slot.family)
            self.known[result] = [next(fresh) for _ in types]
            if isinstance(new, scf.ForOp):
                argument = cast(BlockArgument, slot.values[1])
                self.known[argument] = [new.body.block.insert_arg(type_, argument.index) for type_ in types]
        return new

    def _replace_reads(self, value: SSAValue, family: Family) -> None:
        """Let who takes elements out of a vector take them out of its pieces."""
        for use in list(value.uses):
            op = use.operation
            if type(op) is vector.ExtractStridedSliceOp:
                result = op.results[0]
                span = _span(op, result)
                piece, inside = self._holder(value, family, span.start)
                if piece.type == result.type:
                    result.replace_all_uses_with(piece)
                    op.detach()
                    op.erase()
                else:
                    op.operands = [piece]
                    op.properties.update(vector.ExtractStridedSliceOp.properties_for(inside, span.end - span.start))
            elif _is_extract(op):
                piece, inside = self._holder(value, family, cast(int, _element(op)))
                op.operands = [piece]
                op.properties["static_position"] = i64_list((inside,))
            elif _is_insert(op) and use.index == 1:
                self._replace_reads(op.results[0], family)

    def _holder(self, value: SSAValue, family: Family, element: int) -> tuple[SSAValue, int]:
        """The piece that holds an element, and where."""
        spans = self.spans[family]
        at = next(i for i, span in enumerate(spans) if element < span.end)
        return self.pieces(value, family)[at], element - spans[at].start

    def _fill_in(self, slots: dict[int, Slot], new: Operation) -> list[SSAValue]:
        """Give a rebuilt op the pieces of what comes in; the vectors that came in before."""
        before: list[SSAValue] = []

        def given(values: Sequence[SSAValue]) -> list[SSAValue]:
            before.extend(values[i] for i in slots)
            return [
                piece
                for i, value in enumerate(values)
                for piece in (self.pieces(value, slots[i].family) if i in slots else [value])
            ]

        if isinstance(new, scf.ForOp):
            low, high, step, *inits = operands_of(new)
            new.operands = [low, high, step, *given(inits)]
        for region in new.regions:
            last = cast(Operation, region.block.last_op)
            last.operands = given(operands_of(last))
        return before

    def pieces(self, value: SSAValue, family: Family) -> list[SSAValue]:
        """The pieces of a vector that is handed on."""
        known = self.known.get(value)
        if known is None:
            known = self.known[value] = self._pieces(value, family)
        return known

    def _pieces(self, value: SSAValue, family: Family) -> list[SSAValue]:
        spans = self.spans[family]
        found: list[SSAValue | None] = [None] * len(spans)
        over: list[list[Operation]] = [[] for _ in spans]
        """Inserts of less than a piece, the last one first."""
        missing = len(spans)
        while missing and value not in self.known and _is_insert(value.owner):
            op = cast(Operation, value.owner)
            part, value = operands_of(op)
            start = _start(op)
            at = next(i for i, span in enumerate(spans) if start < span.end)
            if found[at] is not None:
                continue
            if type(op) is vector.InsertStridedSliceOp and _span(op, part) == spans[at]:
                found[at] = part
                missing -= 1
            else:
                over[at].append(op)
        if missing:
            base = self.known.get(value) or _constants(cast(Operation, value.owner), self._types(family))
            found = [old if old is not None else new for old, new in zip(found, base, strict=True)]
        made = cast("list[SSAValue]", found)
        for at, (span, inserts) in enumerate(zip(spans, over, strict=True)):
            for op in reversed(inserts):
                made[at] = _inserted(op, made[at], span.start)
        return made


def _start(op: Operation) -> int:
    """The first element that an insert is about."""
    return cast(int, _element(op)) if type(op) is xvector.InsertOp else _offset(op)


def _inserted(op: Operation, piece: SSAValue, start: int) -> SSAValue:
    """What an insert does to the piece of a vector that starts at an element."""
    at = _start(op) - start
    if type(op) is xvector.InsertOp:
        props: dict[str, Attribute] = {**op.properties, "static_position": i64_list((at,))}
    else:
        props = vector.InsertStridedSliceOp.properties_for(at)
    return _behind(op, type(op), (operands_of(op)[0], piece), piece.type, props)


def _constants(op: Operation, types: Sequence[Attribute]) -> list[SSAValue]:
    """Pieces of a vector whose elements are all the same, one value for each type."""
    made: dict[Attribute, SSAValue] = {}
    value = _splat(op)
    for type_ in types:
        if type_ not in made:
            props = dict(op.properties)
            if value is not None:
                props["value"] = DenseIntOrFPElementsAttr(cast(Any, type_), BytesAttr(value * lanes_in(type_)))
            made[type_] = _behind(op, type(op), (), type_, props)
    return [made[type_] for type_ in types]


def _behind(
    op: Operation, cls: type[Operation], operands: Sequence[SSAValue], type_: Attribute, props: dict[str, Attribute]
) -> SSAValue:
    """A new op right behind another."""
    made = cls.create(operands=operands, result_types=[type_], properties=props, location=op.location)
    cast(Block, op.parent).insert_op_after(made, op)
    return made.results[0]


def _drop_unused(value: SSAValue) -> None:
    """Erase the inserts that nobody takes any more, the last one first."""
    while value.first_use is None and (_is_insert(value.owner) or type(value.owner) is ub.PoisonOp):
        op = cast(Operation, value.owner)
        if op.parent is None:
            # Several slots took it, and it went with the first.
            return
        operands = operands_of(op)
        op.detach()
        op.erase()
        if not operands:
            return
        value = operands[1]


@dataclass(frozen=True)
class FlySplitCarriedVectorsPass(Pass):
    """Carry the pieces of vectors instead of the vectors."""

    name = "fly-split-carried-vectors"
    needs = "register storage as vectors (`fly-promote-regmem-to-vectorssa`)"

    def run(self, module: ModuleOp) -> ModuleOp:
        slots = _slots(module)
        if slots:
            splitter = _Splitter(slots)
            splitter.connect()
            splitter.split()
        return module
