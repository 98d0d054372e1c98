"""What a thread has of a row: units of it at places, in registers or read in a loop, and what a team makes of them.

A kernel is written once, as passes over places:

    lines = Lines(form, row, m, n, x=x, out=out)
    (total,) = lines.fold(lambda at: [lines.read("x", at)], [ADD])
    lines.each(lambda at: lines.write("out", at, lines.read("x", at) * total))

In registers a pass is unrolled, and what was read is kept; otherwise it is a loop that reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.nvgpu.target import trace_target

from .form import UNIT_BYTES, Form

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

ADD, MAX, MIN = fx.ReductionOp.ADD, fx.ReductionOp.MAX, fx.ReductionOp.MIN
LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453

At = TypeVar("At")


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
    parked: bool = False
    """Whether it stays in shared memory instead."""


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
        self.member = _member(form)
        lead = next(iter(self.arrays.values()))
        self.wide = wide_of(lead.dtype)
        self._shared = shared
        self._kept: dict[tuple[str, int], Value] = {}
        self._waits: list[str] = []
        self._ahead: tuple[str, ...] = ()
        self._last = False
        self._pass = 0
        self._left: set[tuple[str, int]] = set()
        self._copying = False
        self._fresh = form.turns
        self._met = form.cluster == 1 or form.ring > 0
        if not self._met:
            # Nobody writes into a block that has not begun; the copies of the row are started meanwhile.
            fx.nvgpu.cluster.arrive(relaxed=True)
        self.head, self.body = units_within(form, self.line(lead), n)

    def line(self, t: fx.Tensor, row: fx.Int32 | None = None) -> fx.Tensor:
        """A row of a matrix, or a vector as it is."""
        return t[self.row if row is None else row, None] if t.rank == 2 else t

    # --- places -------------------------------------------------------------------------------------------------------

    def turns(self) -> list[Place]:
        """The units of the thread, where they are kept."""
        form, made = self.form, list[Place]()
        for turn in range(form.turns):
            number = self.member + turn * form.team
            last = turn == form.turns - 1
            # In all turns but the last every thread has a unit: a row with edges lacks at most one.
            here = number < self.body if last else True
            number = fx.min(number, self.body - 1) if last else number
            parked = turn >= form.turns - form.parked
            made.append(Place(self.head + number * form.unit, form.unit, here, turn, parked))
        return made

    def _edge(self) -> list[Place]:
        """An element in front of the first unit, or behind the last one."""
        if not self.form.edges:
            return []
        unit, ends = self.form.unit, 3 if self.form.shifted else 2
        tail = self.head + self.body * unit
        front = self.member < unit
        at = front.select(self.member, tail + self.member - unit)
        here = (self.member < ends * unit) & (at < front.select(self.head, self.n))
        return [Place(fx.min(at, self.n - 1), 1, here, -1)]

    # --- memory -------------------------------------------------------------------------------------------------------

    def read(self, name: str, at: Place, row: fx.Int32 | None = None) -> Value:
        """The elements at a place, as they are summed: f32, or f64 if the row is."""
        return self._anew(self._raw(name, at, row), at).to(self.wide)

    def stored(self, name: str, at: Place) -> Value:
        """The elements at a place in their own type."""
        return self._raw(name, at, None)

    def _anew(self, value: Value, at: Place) -> Value:
        """The unit itself, but nothing that a compiler could know to be the same as in the pass before.

        It would keep the wide elements of that pass in twice the registers, also of units that wait elsewhere.
        """
        if at.key is None or not (self.form.narrow or at.parked) or self._pass < 2:
            return value
        if not isinstance(value, fx.Vector) or value.element_type.width != 16:
            return value
        nothing = fx.Uint32(self.n >> 31)  # lengths are not negative
        words = value.bitcast(fx.Uint32)
        words = words ^ nothing if self._pass == 2 else words + nothing
        return words.bitcast(value.element_type)

    def _raw(self, name: str, at: Place, row: fx.Int32 | None) -> Value:
        if at.key is None:
            return self._load(name, at, row)
        if at.parked:
            return self._waiting(name, at)
        if (name, at.key) not in self._kept:
            self._kept[name, at.key] = self._load(name, at, row)
        return self._kept[name, at.key]

    def _waiting(self, name: str, at: Place) -> Value:
        """A unit of a row, which was copied to shared memory, or which the first to ask leaves there.

        A thread reads back only what it has left there itself. Vectors along the row are read as often as asked.
        """
        array, turn = self.arrays[name], cast(int, at.key)
        if array.rank != 2:
            return self._load(name, at, None)
        if (name, turn) in self._left:
            if self._copying:
                fx.nvgpu.cp_async_wait_all()
                self._copying = False
            return self._slot(name, turn).load()
        self._left.add((name, turn))
        value = self._load(name, at, None)
        self._slot(name, turn).store(cast("fx.Vector", value))
        return value

    def _slot(self, name: str, turn: int) -> fx.Tensor:
        """Where a unit waits."""
        form = self.form
        if name not in self._waits:
            self._waits.append(name)
        number = turn - form.turns + form.parked * (1 + self._waits.index(name))
        start = (number * form.block + fx.thread_idx.x) * form.unit
        place = fx.get_dyn_shared(self.arrays[name].dtype)
        return fx.make_view(place, fx.make_layout((form.unit, 2**20), (1, form.unit)))[None, start // form.unit]

    def _send(self, name: str, at: Place) -> None:
        """Start the copy of a unit to where it waits, where there are such copies: no register holds it meanwhile."""
        array, turn = self.arrays[name], cast(int, at.key)
        target = trace_target()
        # Where most units wait, they would take all registers on their way.
        copies = 2 * self.form.parked > self.form.turns and target is not None and target.has("cp_async")
        copies = copies and name in self.form.aligned
        if array.rank != 2 or not copies or (name, turn) in self._left:
            return
        self._left.add((name, turn))
        self._copying = True
        atom = fx.make_copy_atom(fx.nvgpu.CpAsync128b(), array.dtype)
        fx.copy_atom_call(atom, unit_of(self.line(array), at.at, at.size), self._slot(name, turn))

    def _load(self, name: str, at: Place, row: fx.Int32 | None) -> Value:
        line = self.line(self.arrays[name], row)
        if at.size == 1:
            return line[at.at]
        if name in self.form.aligned:
            unit = unit_of(line, at.at, at.size)
            if line is self.arrays[name]:
                return fx.nvgpu.load_global(unit, read_only=True) if self.form.constant else unit.load()
            # In a loop the next pass finds what this one has read, if it is not the last.
            passes_by = self.form.streamed and (self.form.turns > 0 or self._last)
            return fx.nvgpu.load_global(unit, cache="cs") if passes_by else unit.load()
        if name in self.form.shifted:
            first = at._replace(at=at.at - self.head)
            pair = (first, first._replace(at=first.at + at.size))
            return self._across(line, [cast("fx.Vector", unit_of(line, p.at, p.size).load()) for p in pair])
        return fx.Vector.from_elements([line[at.at + i] for i in range(at.size)], line.dtype)

    def _across(self, line: fx.Tensor, pair: Sequence[fx.Vector]) -> fx.Vector:
        """A unit of the row in a vector whose units it does not keep to: the end of one, and the front of the next."""
        words = [word for part in pair for word in _words(part)]
        bits = self.head * line.dtype.width
        for step in (2, 1):
            far = (bits & (32 * step)) != 0
            words = [far.select(words[i + step], words[i]) for i in range(len(words) - step)]
        if line.dtype.width < 32:
            within = fx.Uint64(bits % 32)
            both = [fx.Uint64(low) | fx.Uint64(high) << 32 for low, high in zip(words, words[1:], strict=False)]
            words = [fx.Uint32(pair >> within) for pair in both]
        return fx.Vector.from_elements(words[: len(words) // 4 * 4], fx.Uint32).bitcast(line.dtype)

    def fetch(self, *names: str) -> None:
        """Start all reads of these arrays, where they are kept in registers; sums in a loop read them ahead."""
        self._ahead = tuple(name for name in names if name in self.arrays)
        if self.form.turns:
            for name in names:
                if name in self.arrays:
                    for at in (*self.turns(), *self._edge()):
                        if at.parked:
                            self._send(name, at)
                        else:
                            self._raw(name, at, None)

    def held(self, *names: str) -> list[Value]:
        """What was fetched of these arrays, in the order of `take`."""
        return [self._kept[name, turn] for name in names if name in self.arrays for turn in range(self.form.turns)]

    def take(self, values: Sequence[Value], *names: str) -> None:
        """Use values that were fetched before, or by the lines of another row, instead of reading."""
        keys = [(name, turn) for name in names if name in self.arrays for turn in range(self.form.turns)]
        self._kept.update(zip(keys, values, strict=True))

    def keep(self, name: str, at: Place, make: Callable[[], Value]) -> Value:
        """A value made once for a place in registers, and each time elsewhere."""
        if at.key is None or at.parked or (self.form.narrow and at.size > 1):
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
            if self.form.streamed:
                fx.nvgpu.store_global(unit_of(line, at.at, at.size), stored, cache="cs")
            else:
                unit_of(line, at.at, at.size).store(stored)
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

    def each(self, work: Callable[[Place], None], ahead: Sequence[str] = ()) -> None:
        """The last pass: `work` at every place of the thread; a loop reads some of the arrays `ahead` at once."""

        def alone(at: Place, values: list[Value]) -> list[Value]:
            work(at)
            return values

        self._last = True
        self.collect([], alone, ahead)

    def _place(self, number: fx.Int32, key: int | None = None) -> Place:
        return Place(self.head + number * self.form.unit, self.form.unit, True, key)

    def collect(
        self, start: Sequence[Value], work: Callable[[Place, list[Value]], list[Value]], ahead: Sequence[str] = ()
    ) -> list[Value]:
        """Values carried from place to place; `work` must leave them alone where the place is not the thread's."""
        values = list(start)
        self._pass += 1
        if self.form.turns:
            for at in self.turns():
                values = work(at, values)
        else:
            values = self._loop(values, work, ahead)
        for at in self._edge():
            values = work(at, values)
        return values

    def _loop(
        self, values: list[Value], work: Callable[[Place, list[Value]], list[Value]], ahead: Sequence[str]
    ) -> list[Value]:
        """The units of the thread one after the other, or some at once where there are arrays to read ahead."""
        team = self.form.team
        if not ahead or self.form.ahead == 1:
            return carry(self.member, self.body, team, self._place, values, work)
        step = self.form.ahead * team
        whole = self.body // step * step
        values = carry(self.member, whole, step, lambda at: at, values, partial(self._several, ahead, work))
        return carry(whole + self.member, self.body, team, self._place, values, work)

    def _several(
        self,
        ahead: Sequence[str],
        work: Callable[[Place, list[Value]], list[Value]],
        first: fx.Int32,
        values: list[Value],
    ) -> list[Value]:
        """Places of one turn of a loop, known by keys that no other loop has."""
        count = self.form.ahead
        places = [self._place(first + i * self.form.team, self._fresh + i) for i in range(count)]
        self._fresh += count
        for name in ahead:
            for at in places:
                self._raw(name, at, None)
        for at in places:
            values = work(at, values)
        return values

    def fold(self, terms: Callable[[Place], Sequence[Value]], ops: Sequence[fx.ReductionOp]) -> list[fx.Numeric]:
        """The terms of all places of the row, combined."""
        return self.meet(self._folded(terms, ops), ops)

    def fold_warp(self, terms: Callable[[Place], Sequence[Value]], ops: Sequence[fx.ReductionOp]) -> list[fx.Numeric]:
        """The terms of the places that the threads of a warp have of the row, combined; `join` is left to do."""
        return reduce_warp(self.form, self._folded(terms, ops), ops)

    def _folded(self, terms: Callable[[Place], Sequence[Value]], ops: Sequence[fx.ReductionOp]) -> list[fx.Numeric]:
        """The terms of the thread's places, combined."""
        self._pass += 1
        if self.form.turns:
            found = [self._masked(at, terms(at), ops) for at in self.turns()]
            totals = [_all(op, [part[i] for part in found]) for i, op in enumerate(ops)]
        else:
            start = [self._filled(_nothing(op)) for op in ops]

            def step(at: Place, so_far: list[Value]) -> list[Value]:
                return [_pair(op, a, b) for op, a, b in zip(ops, so_far, terms(at), strict=True)]

            totals = self._loop(start, step, self._ahead)
        scalars = [_one(t, op) for t, op in zip(totals, ops, strict=True)]
        for at in self._edge():
            edge = self._masked(at, terms(at), ops)
            scalars = [_one(_pair(op, s, e), op) for op, s, e in zip(ops, scalars, edge, strict=True)]
        return scalars

    def join(self, values: Sequence[fx.Numeric]) -> tuple[list[list[fx.Numeric]], int]:
        """The values of all warps of a row, as `gather` gives them."""
        self._prepare()
        return self._gather(values)

    def _gather(self, values: Sequence[fx.Numeric]) -> tuple[list[list[fx.Numeric]], int]:
        assert self._shared is not None
        return gather(self.form, values, self._shared)

    def squares(self, term: Callable[[Place], Value]) -> fx.Numeric:
        """The sum of the squares of a row's terms: a product and a sum are one instruction."""
        self._pass += 1
        if self.form.turns:
            total = _squares([self._masked(at, [term(at)], [ADD])[0] for at in self.turns()])
        else:

            def step(at: Place, so_far: list[Value]) -> list[Value]:
                return [_more(term(at), so_far[0])]

            (total,) = self._loop([self._filled(0.0)], step, self._ahead)
        scalar = _one(total, ADD)
        for at in self._edge():
            scalar = cast("fx.Numeric", _more(self._masked(at, [term(at)], [ADD])[0], scalar))
        return self.meet([scalar], [ADD])[0]

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
        """The values of the threads of a row combined, in all of them; one barrier if they are several warps."""
        found = reduce_warp(self.form, values, ops)
        if self.form.team <= fx.num_warp_threads():
            return found
        gathered, width = self.join(found)
        combined = [cast("fx.Numeric", _all(op, some)) for some, op in zip(gathered, ops, strict=True)]
        return [fx.coop.warp_reduce(v, op, width=width) for v, op in zip(combined, ops, strict=True)]

    def _prepare(self) -> None:
        """What a meeting needs of the block, and of the cluster."""
        if self.form.team > fx.num_warp_threads() and self._shared is None:
            self._shared = fx.SharedAllocator()
        if not self._met:
            fx.nvgpu.cluster.wait()
            self._met = True

    def moments(self, term: Callable[[Place], Value]) -> tuple[fx.Numeric, fx.Numeric]:
        """The mean of a row's terms, and the sum of their squared distances from it.

        In registers a warp finds those of its own terms, and one meeting joins them: nothing is lost to a large mean,
        as it would be by sums of terms and of their squares.
        """
        if not self.form.turns:
            mean = self.fold(lambda at: [term(at)], [ADD])[0] * self.share
            return mean, self.squares(lambda at: term(at) - mean)
        lanes = fx.num_warp_threads()
        width = min(self.form.team, lanes)
        places = [at for at in self.turns() if not at.parked]
        brief = [_Moments.of(at, cast("fx.Vector", term(at))) for at in self.turns() if at.parked]
        total = self._within(places, term, width, [b.total for b in brief])
        if self.form.team <= lanes:
            level = total * self.share
            return level, self._within(places, lambda at: term(at) - level, width, squared=True)
        mine = self.wide(self._elements(lanes))
        level = _over(total, mine)
        more = [b.squares_from(level) for b in brief]
        spread = self._within(places, lambda at: term(at) - level, width, more, squared=True)
        found, width = self.join([mine, total, spread])
        parts = list(zip(*found, strict=True))
        mean = fx.coop.warp_reduce(_sum([t for _, t, _ in parts]), ADD, width=width) * self.share
        # Distances from a level that is no mean to the last bit are those from the mean, to the last bits.
        distances = [(c, _over(t, c) - mean, s) for c, t, s in parts]
        return mean, fx.coop.warp_reduce(_sum([fx.fma(c * d, d, s) for c, d, s in distances]), ADD, width=width)

    @cached_property
    def share(self) -> fx.Numeric:
        """One of the row's elements: what a sum is multiplied by for a mean."""
        return 1.0 / self.wide(self.n)

    def _within(
        self,
        places: Sequence[Place],
        term: Callable[[Place], Value],
        width: int,
        more: Sequence[fx.Numeric] = (),
        *,
        squared: bool = False,
    ) -> fx.Numeric:
        """The sum of the terms at places and edges, or of their squares, of a warp's threads that share a row."""
        self._pass += 1
        parts = [self._masked(at, [term(at)], [ADD])[0] for at in places]
        total = _sum([_one(_squares(parts) if squared else _all(ADD, parts), ADD), *more])
        for at in self._edge():
            value = self._masked(at, [term(at)], [ADD])[0]
            total = cast("fx.Numeric", _more(value, total) if squared else total + value)
        return fx.coop.warp_reduce(total, ADD, width=width) if width > 1 else total

    def _elements(self, lanes: int) -> fx.Int32:
        """How many elements the threads of this warp have, where a row has several warps."""
        form = self.form
        begin = self.member // lanes * lanes
        last = fx.min(fx.max(self.body - (form.turns - 1) * form.team - begin, fx.Int32(0)), fx.Int32(lanes))
        units = last + (form.turns - 1) * lanes
        if not form.edges:
            return units * form.unit
        # The elements at edges are those of the first threads.
        edges = self.n - self.body * form.unit
        return units * form.unit + (begin == 0).select(edges, fx.Int32(0))


class _Moments(NamedTuple):
    """What is left of a unit that is parked: its sum, and the squared distances from its mean; zeros where none."""

    here: bool | fx.Boolean
    size: int
    total: fx.Numeric
    squares: fx.Numeric

    @classmethod
    def of(cls, at: Place, values: fx.Vector) -> _Moments:
        total = values.reduce(ADD)
        far = values - total * (1.0 / at.size)
        squares = (far * far).reduce(ADD)
        if at.here is not True:
            total, squares = (cast("fx.Numeric", pick(at.here, v, 0.0)) for v in (total, squares))
        return cls(at.here, at.size, total, squares)

    def squares_from(self, level: fx.Numeric) -> fx.Numeric:
        """The squared distances from another value."""
        far = self.total * (1.0 / self.size) - level
        made = fx.fma(far * float(self.size), far, self.squares)
        return made if self.here is True else cast("fx.Numeric", pick(self.here, made, 0.0))


def units_within(form: Form, line: fx.Tensor, n: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
    """Elements of a row in front of its first unit, and how many units it has."""
    head = fx.Int32(0)
    if form.edges:
        behind = fx.Int32(fx.ptrtoint(fx.get_iter(line)) % UNIT_BYTES) // (line.dtype.width // 8)
        head = (form.unit - behind) % form.unit
    body = (n - head) // form.unit if form.unit > 1 else n
    return head, body - 1 if form.shifted else body


def unit_of(line: fx.Tensor, at: fx.Int32, count: int) -> fx.Tensor:
    """Elements of a row, or of a vector, that lie in aligned units."""
    size = line.dtype.width // 8
    type_ = fx.PointerType.get(line.dtype.ir_type, fx.AddressSpace.Global, min(UNIT_BYTES, size * count))
    start = fx.inttoptr(type_, fx.ptrtoint(fx.get_iter(line)) + fx.Int64(at) * size)
    return fx.make_view(start, fx.make_layout(count, 1))


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


def _sum(values: Sequence[fx.Numeric]) -> fx.Numeric:
    return cast("fx.Numeric", _all(ADD, values))


def _all(op: fx.ReductionOp, values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = _pair(op, total, value)
    return total


def _member(form: Form) -> fx.Int32:
    """Which of its row's threads this one is."""
    if form.cluster > 1:
        return fx.nvgpu.cluster.rank() * form.block + fx.thread_idx.x
    return fx.thread_idx.x % form.team if form.rows > 1 else fx.thread_idx.x


def _words(unit: fx.Vector) -> list[fx.Uint32]:
    """The 32-bit words of 16 bytes."""
    words = unit.bitcast(fx.Uint32)
    return [cast("fx.Uint32", words[i]) for i in range(4)]


def _over(a: fx.Numeric, b: fx.Numeric) -> fx.Numeric:
    """a / b, or 0 of none; f32 to the last bits but one."""
    b = fx.maxnumf(b, type(b)(1.0))
    if type(a) is fx.Float64:
        return a / b
    with fx.arith.fastmath("afn"):
        return a / b


def _more(x: Value, total: Value) -> Value:
    """A square on top of others."""
    return fx.fma(x, x, total)


def _squares(values: Sequence[Value]) -> Value:
    total = values[0] * values[0]
    for value in values[1:]:
        total = _more(value, total)
    return total


def reduce_warp(form: Form, values: Sequence[fx.Numeric], ops: Sequence[fx.ReductionOp]) -> list[fx.Numeric]:
    """The values of the threads of a warp that share a row, combined."""
    width = min(form.team, fx.num_warp_threads())
    return [fx.coop.warp_reduce(v, op, width=width) if width > 1 else v for v, op in zip(values, ops, strict=True)]


def gather(form: Form, values: Sequence[fx.Numeric], shared: fx.SharedAllocator) -> tuple[list[list[fx.Numeric]], int]:
    """The values of all warps of a team, spread over the lanes of each: some a lane, equal ones every `width` lanes."""
    lanes = fx.num_warp_threads()
    lane, warp = fx.thread_idx.x % lanes, fx.thread_idx.x // lanes
    warps = form.team // lanes
    slots = [shared.allocate(fx.Array[type(v), form.rows * warps, 16]).peek() for v in values]

    def leave(places: Sequence[fx.Array | fx.Tensor], at: fx.Int32) -> None:
        for slot, v in zip(places, values, strict=True):
            slot[at] = v

    if form.cluster == 1:
        when(lane == 0, lambda: leave(slots, warp))
        fx.barrier()
        at = fx.thread_idx.x // form.team * warps + lane % warps
        return [[s[at]] for s in slots], warps
    # A lane for each block of the cluster; no block leaves before it has met the others.
    cluster = fx.nvgpu.cluster
    views = [fx.make_view(s.ptr, fx.make_layout(warps, 1)) for s in slots]
    own = cluster.rank() * (warps // form.cluster) + warp
    when(lane < form.cluster, lambda: leave([cluster.peer(v, lane) for v in views], own))
    cluster.sync()
    width = min(warps, lanes)
    return [[s[lane % width + turn * width] for turn in range(warps // width)] for s in slots], width


@flyc.jit
def when(here: fx.Boolean, work: Callable[[], None]):
    if here:
        work()


@flyc.jit
def either(which: fx.Boolean, work: Callable[[], None], other: Callable[[], None]):
    if which:
        work()
    else:
        other()


@flyc.jit
def carry(
    first: fx.Int32,
    count: fx.Int32,
    step: int,
    place: Callable[[fx.Int32], At],
    values: list[Value],
    work: Callable[[At, list[Value]], list[Value]],
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
    "carry",
    "either",
    "gather",
    "logarithm",
    "pick",
    "power",
    "unit_of",
    "units_within",
    "when",
    "wide_of",
]
