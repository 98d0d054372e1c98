"""What a thread has of a row: units of it at places, in registers or read in a loop, and what a team makes of them.

A kernel is written once, as passes over places:

    lines = Lines(form, row, m, n, x=x, out=out)
    (total,) = lines.fold(lambda at: [lines.read("x", at)], [ADD])
    lines.each(lambda at: lines.write("out", at, lines.read("x", at) * total))

In registers a pass is unrolled, and what was read is kept; otherwise it is a loop that reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .form import UNIT_BYTES, Form

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

ADD, MAX, MIN = fx.ReductionOp.ADD, fx.ReductionOp.MAX, fx.ReductionOp.MIN
LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453


class Place(NamedTuple):
    """A unit of a row, or a single element at an edge of it."""

    at: fx.Int32
    """Its first element: always within the row."""
    size: int
    """Its elements."""
    here: bool | fx.Boolean
    """Whether it is this thread's; if not, it is another's that it reads in vain."""
    key: int | None
    """What it is known by, where it stays in registers."""


class Lines:
    """The thread's share of row `row` of `m`, each of `n` elements, in several arrays at once."""

    def __init__(
        self,
        form: Form,
        row: fx.Int32,
        m: fx.Int32,
        n: fx.Int32,
        shared: fx.SharedAllocator | None = None,
        **arrays: fx.Tensor | None,
    ):
        self.form, self.n, self.arrays = form, n, {name: t for name, t in arrays.items() if t is not None}
        self.exists = row < m if form.rows > 1 else True
        self.row = fx.min(row, m - 1) if form.rows > 1 else row
        self.member = fx.thread_idx.x % form.team if form.rows > 1 else fx.thread_idx.x
        lead = next(iter(self.arrays.values()))
        self.wide = wide_of(lead.dtype)
        self._shared = shared
        self._kept: dict[tuple[str, int], Value] = {}
        self.head = self._head(lead) if form.edges else fx.Int32(0)
        self.body = (n - self.head) // form.unit if form.unit > 1 else n

    def _head(self, lead: fx.Tensor) -> fx.Int32:
        """Elements in front of the first unit."""
        size = lead.dtype.width // 8
        behind = fx.Int32(fx.ptrtoint(fx.get_iter(self.line(lead))) % UNIT_BYTES) // size
        return (self.form.unit - behind) % self.form.unit

    def line(self, t: fx.Tensor, row: fx.Int32 | None = None) -> fx.Tensor:
        """A row of a matrix, or a vector as it is."""
        return t[self.row if row is None else row, None] if t.rank == 2 else t

    # --- places -------------------------------------------------------------------------------------------------------

    def turns(self) -> list[Place]:
        """The units of the thread, where they are kept in registers."""
        form, made = self.form, list[Place]()
        for turn in range(form.turns):
            number = self.member + turn * form.team
            last = turn == form.turns - 1
            # In all turns but the last every thread has a unit: a row with edges lacks at most one.
            here = number < self.body if last else True
            number = fx.min(number, self.body - 1) if last else number
            made.append(Place(self.head + number * form.unit, form.unit, here, turn))
        return made

    def _edge(self) -> list[Place]:
        """An element in front of the first unit, or behind the last one."""
        if not self.form.edges:
            return []
        unit = self.form.unit
        tail = self.head + self.body * unit
        front = self.member < unit
        at = front.select(self.member, tail + self.member - unit)
        here = (self.member < 2 * unit) & (at < front.select(self.head, self.n))
        return [Place(fx.min(at, self.n - 1), 1, here, -1)]

    # --- memory -------------------------------------------------------------------------------------------------------

    def read(self, name: str, at: Place, row: fx.Int32 | None = None) -> Value:
        """The elements at a place, as they are summed: f32, or f64 if the row is."""
        return self._raw(name, at, row).to(self.wide)

    def _raw(self, name: str, at: Place, row: fx.Int32 | None) -> Value:
        if at.key is None:
            return self._load(name, at, row)
        if (name, at.key) not in self._kept:
            self._kept[name, at.key] = self._load(name, at, row)
        return self._kept[name, at.key]

    def _load(self, name: str, at: Place, row: fx.Int32 | None) -> Value:
        line = self.line(self.arrays[name], row)
        if at.size == 1:
            return line[at.at]
        if name in self.form.aligned:
            return self._unit(line, at).load()
        return fx.Vector.from_elements([line[at.at + i] for i in range(at.size)], line.dtype)

    def _unit(self, line: fx.Tensor, at: Place) -> fx.Tensor:
        size = line.dtype.width // 8
        type_ = fx.PointerType.get(line.dtype.ir_type, fx.AddressSpace.Global, min(UNIT_BYTES, size * at.size))
        start = fx.inttoptr(type_, fx.ptrtoint(fx.get_iter(line)) + fx.Int64(at.at) * size)
        return fx.make_view(start, fx.make_layout(at.size, 1))

    def fetch(self, *names: str) -> None:
        """Start all reads of these arrays, where they are kept in registers."""
        if self.form.turns:
            for name in names:
                if name in self.arrays:
                    for at in (*self.turns(), *self._edge()):
                        self._raw(name, at, None)

    def keep(self, name: str, at: Place, make: Callable[[], Value]) -> Value:
        """A value made once for a place in registers, and each time elsewhere."""
        if at.key is None:
            return make()
        if (name, at.key) not in self._kept:
            self._kept[name, at.key] = make()
        return self._kept[name, at.key]

    def write(self, name: str, at: Place, value: Value) -> None:
        """Store the elements at a place, if they are this thread's."""
        self._guarded(self.mine(at), lambda: self._store(name, at, value))

    def mine(self, at: Place) -> bool | fx.Boolean:
        """Whether a place is there and this thread's."""
        return at.here if self.exists is True else self.exists if at.here is True else at.here & self.exists

    def _store(self, name: str, at: Place, value: Value) -> None:
        line = self.line(self.arrays[name])
        stored = value.to(line.dtype)
        if at.size == 1:
            line[at.at] = stored
        elif name in self.form.aligned:
            self._unit(line, at).store(stored)
        else:
            for i in range(at.size):
                line[at.at + i] = cast("fx.Vector", stored)[i]

    def _guarded(self, here: bool | fx.Boolean, work: Callable[[], None]) -> None:
        if here is True:
            work()
        else:
            when(here, work)

    def first(self, work: Callable[[], None]) -> None:
        """Once for the row, by its first thread."""
        leads = self.member == 0
        when(leads if self.exists is True else leads & self.exists, work)

    # --- passes -------------------------------------------------------------------------------------------------------

    def each(self, work: Callable[[Place], None]) -> None:
        """`work` at every place of the thread."""
        form = self.form
        if form.turns:
            for at in self.turns():
                work(at)
        else:
            walk(self.member, self.body, form.team, self._place, work)
        for at in self._edge():
            work(at)

    def _place(self, number: fx.Int32) -> Place:
        return Place(self.head + number * self.form.unit, self.form.unit, True, None)

    def collect(self, start: Sequence[Value], work: Callable[[Place, list[Value]], list[Value]]) -> list[Value]:
        """Values carried from place to place; `work` must leave them alone where the place is not the thread's."""
        values = list(start)
        if self.form.turns:
            for at in self.turns():
                values = work(at, values)
        else:
            values = carry(self.member, self.body, self.form.team, self._place, values, work)
        for at in self._edge():
            values = work(at, values)
        return values

    def fold(self, terms: Callable[[Place], Sequence[Value]], ops: Sequence[fx.ReductionOp]) -> list[fx.Numeric]:
        """The terms of all places of the row, combined."""
        form = self.form
        if form.turns:
            found = [self._masked(at, terms(at), ops) for at in self.turns()]
            totals = [_all(op, [part[i] for part in found]) for i, op in enumerate(ops)]
        else:
            start = [self._filled(_nothing(op)) for op in ops]

            def step(at: Place, so_far: list[Value]) -> list[Value]:
                return [_pair(op, a, b) for op, a, b in zip(ops, so_far, terms(at), strict=True)]

            totals = carry(self.member, self.body, form.team, self._place, start, step)
        scalars = [_one(t, op) for t, op in zip(totals, ops, strict=True)]
        for at in self._edge():
            edge = self._masked(at, terms(at), ops)
            scalars = [_one(_pair(op, s, e), op) for op, s, e in zip(ops, scalars, edge, strict=True)]
        return self.meet(scalars, ops)

    def _filled(self, value: float) -> Value:
        """A unit of one number."""
        return fx.full((self.form.unit,), value, self.wide) if self.form.unit > 1 else self.wide(value)

    def terms(self, term: Callable[[Place], Value]) -> list[Value]:
        """A term for each of the thread's units in registers: zero where the unit or the row is not there."""
        made: list[Value] = []
        for at in self.turns():
            here = self.mine(at)
            made.append(term(at) if here is True else pick(here, term(at), 0.0))
        return made

    def _masked(self, at: Place, terms: Sequence[Value], ops: Sequence[fx.ReductionOp]) -> list[Value]:
        if at.here is True:
            return list(terms)
        return [pick(at.here, t, _nothing(op)) for t, op in zip(terms, ops, strict=True)]

    def meet(self, values: Sequence[fx.Numeric], ops: Sequence[fx.ReductionOp]) -> list[fx.Numeric]:
        """The values of the threads of a row combined, in all of them."""
        if self.form.team > fx.num_warp_threads() and self._shared is None:
            self._shared = fx.SharedAllocator()
        return meet(self.form, values, ops, self._shared)


def wide_of(dtype: type[fx.Numeric]) -> type[fx.Numeric]:
    """What rows of a type are summed in."""
    return fx.Float64 if dtype is fx.Float64 else fx.Float32


def pick(here: fx.Boolean, value: Value, otherwise: float) -> Value:
    """The value, a scalar or a vector, or a constant."""
    if isinstance(value, fx.Vector):
        return cast("fx.Vector", here.select(value, fx.full_like(value, otherwise)))
    return here.select(value, type(value)(otherwise))


def _nothing(op: fx.ReductionOp) -> float:
    return {ADD: 0.0, MAX: float("-inf"), MIN: float("inf")}[op]


def _pair(op: fx.ReductionOp, a: Value, b: Value) -> Value:
    if op is ADD:
        return a + b
    # A NaN is dropped: those who ask for a largest value look for it otherwise.
    return fx.maxnumf(a, b) if op is MAX else fx.minnumf(a, b)


def _one(value: Value, op: fx.ReductionOp) -> fx.Numeric:
    """The elements of a vector combined; a scalar as it is."""
    return value.reduce(op) if isinstance(value, fx.Vector) else value


def _all(op: fx.ReductionOp, values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = _pair(op, total, value)
    return total


def meet(
    form: Form, values: Sequence[fx.Numeric], ops: Sequence[fx.ReductionOp], shared: fx.SharedAllocator | None
) -> list[fx.Numeric]:
    """The values of the threads of a team combined, in all of them; one barrier if a team has several warps."""
    lanes = fx.num_warp_threads()
    width = min(form.team, lanes)
    found = [fx.coop.warp_reduce(v, op, width=width) if width > 1 else v for v, op in zip(values, ops, strict=True)]
    if form.team <= lanes or shared is None:
        return found
    warps = form.team // lanes
    lane, warp = fx.thread_idx.x % lanes, fx.thread_idx.x // lanes
    slots = [shared.allocate(fx.Array[type(v), form.rows * warps, 16]).peek() for v in found]

    def leave() -> None:
        for slot, v in zip(slots, found, strict=True):
            slot[warp] = v

    when(lane == 0, leave)
    fx.barrier()
    at = fx.thread_idx.x // form.team * warps + lane % warps
    return [fx.coop.warp_reduce(s[at], op, width=warps) for s, op in zip(slots, ops, strict=True)]


@flyc.jit
def when(here: fx.Boolean, work: Callable[[], None]):
    if here:
        work()


@flyc.jit
def walk(
    first: fx.Int32, count: fx.Int32, step: int, place: Callable[[fx.Int32], Place], work: Callable[[Place], None]
):
    for number in range(first, count, step):
        work(place(number))


@flyc.jit
def carry(
    first: fx.Int32,
    count: fx.Int32,
    step: int,
    place: Callable[[fx.Int32], Place],
    values: list[Value],
    work: Callable[[Place, list[Value]], list[Value]],
) -> list[Value]:
    for number in range(first, count, step):
        values = work(place(number), values)
    return values


def power(x: Value, *, exact: bool = False) -> Value:
    """e^x; f32 by the hardware's power of two."""
    dtype = x.element_type if isinstance(x, fx.Vector) else type(x)
    return fx.exp(x) if exact or dtype is fx.Float64 else fx.exp2(x * LOG2E, fastmath="afn")


def logarithm(x: fx.Numeric) -> fx.Numeric:
    """ln x."""
    return fx.log(x)


__all__ = [
    "ADD",
    "LN2",
    "LOG2E",
    "MAX",
    "MIN",
    "Lines",
    "Place",
    "logarithm",
    "meet",
    "pick",
    "power",
    "when",
    "wide_of",
]
