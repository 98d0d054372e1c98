"""A 1-D vector under way: what it started as and the parts put into it since, not yet IR.

Register storage that became a value is written piece by piece and read piece by piece. What is read is found among the
parts; inserts are emitted when somebody needs the vector as a whole, and only those that are not overwritten. Parts
stand in the order of their last write, so that equal histories give equal IR whoever wrote them down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.dialects import ub
from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Block, SSAValue

from ..dialects.upstream import vector
from ..ir.builder import i64_list
from ..ir.types import vector_type

if TYPE_CHECKING:
    from .folding import FoldingBuilder


class Part(NamedTuple):
    """Elements `[at, at + width)` hold those of `value` from `start` on; a scalar is one element."""

    at: int
    width: int
    value: SSAValue
    start: int
    loc: Attribute
    """Where it was put in: the location of its insert, whoever asks for the vector."""


def lanes_in(type_: Any) -> int:
    """Length of a vector type; `get_shape` lists all extents, which takes longer than the rest of an access."""
    return type_.shape.data[0].data


class Lanes:
    """A vector value that is never changed: `put` gives another."""

    __slots__ = ("base", "count", "home", "parts", "reads", "type", "units")

    def __init__(self, type_: Attribute, base: SSAValue | None, parts: dict[int, Part], home: Block):
        self.type: Any = type_
        self.base = base
        """What is under the parts; None where nobody has written."""
        self.parts = parts
        """Disjoint parts by their first element, in the order in which they were written."""
        self.count = lanes_in(type_)
        self.units = not parts
        """Whether all parts are known to be of one element: then none reaches into another's place."""
        self.home = home
        """The block that knows the parts; a block inside it starts from the whole value."""
        self.reads: dict[tuple[int, int, Block], tuple[SSAValue, Attribute]] = {}
        """What was read: by the first element, the id of its type and the block, the value and the type."""

    @staticmethod
    def of(value: SSAValue, home: Block) -> Lanes:
        return Lanes(value.type, None if type(value.owner) is ub.PoisonOp else value, {}, home)

    @staticmethod
    def blank(type_: Attribute, home: Block) -> Lanes:
        """A vector nobody has written."""
        return Lanes(type_, None, {}, home)

    @property
    def elem(self) -> Attribute:
        """Type of an element."""
        return self.type.element_type

    def values(self) -> list[SSAValue]:
        """What the vector is made of."""
        return [*([] if self.base is None else [self.base]), *(part.value for part in self.parts.values())]

    def put(self, b: FoldingBuilder, value: SSAValue, at: int) -> Lanes:
        """The vector with the elements from one on replaced by a scalar or vector of its element type."""
        type_ = value.type
        count = lanes_in(type_) if type(type_) is VectorType else 1
        if count == self.count and type(type_) is VectorType:
            return Lanes(self.type, value, {}, b.block)
        here = self if self.home is b.block else Lanes(self.type, self.value(b), {}, b.block)
        before = here.parts.get(at)
        if before is not None and before.width == count:  # most often what was there is replaced
            parts = here.parts.copy()
            del parts[at]
            parts[at] = Part(at, count, value, 0, b.loc)
            after = Lanes(self.type, here.base, parts, b.block)
            after.units = here.units
            return after
        if count == 1 and here.units:
            parts = here.parts.copy()
            parts[at] = Part(at, 1, value, 0, b.loc)
            after = Lanes(self.type, None if len(parts) == self.count else here.base, parts, b.block)
            after.units = True
            return after
        end = at + count
        parts = dict[int, Part]()
        covered = count
        for part in here.parts.values():
            first, last = part.at, part.at + part.width
            if last <= at or end <= first:
                parts[first] = part
                covered += part.width
                continue
            if first < at:
                parts[first] = Part(first, at - first, part.value, part.start, part.loc)
                covered += at - first
            if end < last:
                parts[end] = Part(end, last - end, part.value, part.start + end - first, part.loc)
                covered += last - end
        parts[at] = Part(at, count, value, 0, b.loc)
        return Lanes(self.type, None if covered == self.count else here.base, parts, b.block)

    def element(self, b: FoldingBuilder, at: int) -> SSAValue:
        """One element as a scalar."""
        part = self.parts.get(at)
        if part is None:
            part = next((p for p in self.parts.values() if p.at <= at < p.at + p.width), None)
        if part is not None:
            if type(part.value.type) is not VectorType:
                return part.value
            return b.extract(part.value, part.start + at - part.at)
        return b.poison(self.elem) if self.base is None else b.extract(self.base, at)

    def slice(self, b: FoldingBuilder, at: int, count: int) -> SSAValue:
        """Consecutive elements as a vector."""
        if not at and count == self.count:
            return self.value(b)
        part = self.parts.get(at)
        if part is not None and part.width == count and type(part.value.type) is VectorType:
            return b.slice(part.value, part.start, count)
        end = at + count
        inside: dict[int, Part] = {}
        for part in self.parts.values():
            first, last = max(part.at, at), min(part.at + part.width, end)
            if first < last:
                inside[first - at] = Part(first - at, last - first, part.value, part.start + first - part.at, part.loc)
        type_ = vector_type(self.elem, count)
        if len(inside) == 1:
            (part,) = inside.values()
            if part.width == count and type(part.value.type) is VectorType:
                return b.slice(part.value, part.start, count)
        covered = sum(part.width for part in inside.values()) == count
        base = None if covered or self.base is None else b.slice(self.base, at, count)
        return Lanes(type_, base, inside, b.block).value(b)

    def value(self, b: FoldingBuilder) -> SSAValue:
        """The vector as an IR value, in the block that knows its parts."""
        if self.home is b.block or not self.parts:
            return self._emit(b)
        last = self.home.last_op
        if last is not None and last.successors:
            # A block that ends in a branch is done; it dominates this one, which knows the parts, too.
            return self._emit(b)
        inner, b.block = b.block, self.home
        try:
            return self._emit(b)
        finally:
            b.block = inner

    def _emit(self, b: FoldingBuilder) -> SSAValue:
        made = b.poison(self.type) if self.base is None else self.base
        asked = b.loc
        for part in self.parts.values():
            b.loc = part.loc
            made = put_in(b, _window(b, part), made, part.at)
        b.loc = asked
        return made


def _window(b: FoldingBuilder, part: Part) -> SSAValue:
    """The elements of a part: a scalar where it is one of many."""
    type_ = part.value.type
    if type(type_) is not VectorType or part.width == lanes_in(type_):
        return part.value
    if part.width == 1:
        return b.extract(part.value, part.start)
    return b.slice(part.value, part.start, part.width)


def put_in(b: FoldingBuilder, value: SSAValue, into: SSAValue, at: int) -> SSAValue:
    """One insert, as it is."""
    if type(value.type) is VectorType:
        props = vector.InsertStridedSliceOp.properties_for(at)
        return b.share(vector.InsertStridedSliceOp, (value, into), into.type, props)
    return b.share(xvector.InsertOp, (value, into), into.type, {"static_position": i64_list((at,))})
