"""Text of the functions around a kernel's thread on the CPU: loops over blocks and threads, and the scheduler.

Threads that meet are coroutines, resumed in order. The scheduler works on *units* of threads: a warp, or more where an
instruction spans several. A thread that suspends leaves in its status what it waits for:

| status | the thread |
|---|---|
| 0 | has finished |
| site `s` | waits at collective `s` for the threads of its unit |
| `BARRIER | s` | waits for the block |
| `WAIT | s` | waits at `s` until memory has changed, and for nothing else |
| `POLL | s` | looked at memory at `s` and may do something else when it looks again |

In a unit the threads at the lowest site go on together while the others wait, as the lanes of a GPU reconverge; sites
are numbered in program order. While some threads of a unit wait for memory, those at its collectives wait for them too,
unless nobody could go on otherwise. A barrier opens when no thread of the block can go on otherwise. So nothing waits
for ever, whatever the control flow, except on memory. Blocks of a cluster take turns: one runs until its threads wait
for memory alone. When that is so of all of them and a turn has changed nothing, the wait is reported and the cluster is
given up (`cpu_clusters.py`).

Threads of a unit pass data through two buffers. They write one; when a collective is complete the two are swapped, and
they read what was written. Threads that stay behind have their slots carried over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from ...llvm.text.module_text import ModuleText
from ...llvm.text.routine import Routine, Value

MAX_THREADS = 1024
BARRIER = 0x40000000
WAIT = 0x60000000
POLL = 0x70000000
SITE_MASK = 0x0FFFFFFF
POLL_LIMIT = 1 << 22
"""Rounds in which threads only look at memory before they are given up."""

SHADOW, CLUSTER, RANK, PROGRESS, BLOCK_IDS, SHARED = 8, 24, 32, 40, 48, 72
STATUS = 128
HANDLES = STATUS + 4 * MAX_THREADS
DEPOSIT = HANDLES + 8 * MAX_THREADS
SHOWN = DEPOSIT + 8 * MAX_THREADS
TOOK = SHOWN + 8 * MAX_THREADS
NAMED = TOOK + MAX_THREADS
JOINED = NAMED + 64
EXCHANGE = JOINED + 4 * MAX_THREADS
"""Where things are in a block's state: addresses of the frames, of the shadow (checked mode) and of the cluster's
record, the block's rank in it, a count of what waiting threads achieved, its ids, its shared memory; then per thread
its status and its coroutine, per unit the buffers to write and to read, per thread whether it took part in the last
exchange, the named barriers, per thread the phase of the cluster's barrier it arrived in; the buffers last."""


class Synchronization(NamedTuple):
    """How the threads of a kernel synchronize."""

    unit: int
    """Threads that are scheduled together, a power of two."""
    slot: int
    """Bytes of exchange buffer per thread."""
    waits: bool = False
    """Whether threads wait for memory to change."""
    cluster: tuple[int, int, int] | None = None
    """Blocks of a cluster per dimension, where the kernel has to do with its cluster."""

    @property
    def blocks(self) -> int:
        """Blocks that are scheduled together."""
        x, y, z = self.cluster or (1, 1, 1)
        return x * y * z


class Check(NamedTuple):
    """What checked mode needs of a kernel."""

    warp: int
    static: int
    """Bytes of static shared memory."""


BY_VALUE = "by value"
"""In place of an argument's type: the kernel gets the address of the bytes that were passed."""
_DYNAMIC, _STRIDE, _LAUNCH = 9, 10, 11
"""Where in the geometry, behind the extents of grid and block, other numbers of a launch stand."""

Ids = tuple[Value, Value, Value]


class BlockFunction:
    """The function of a range of blocks being written: what it was given, and calls of the kernel's thread."""

    def __init__(self, name: str, arguments: Sequence[str], block: tuple[int, int, int] | None):
        self.name = name
        params = "ptr params, ptr geometry, ptr shared, i64 first, i64 last"
        self.routine = r = Routine(f'"{name}"', "void", params, linkage="")
        self.arguments: list[Value] = []
        for i, type_ in enumerate(arguments):
            at = r.load("ptr", r["params"], 8 * i, align=8)
            self.arguments.append(at if type_ == BY_VALUE else r.load(type_, at))
        self.grid: Ids = (self._geometry(0), self._geometry(1), self._geometry(2))
        if block is None:
            self.block: Ids = (self._geometry(3), self._geometry(4), self._geometry(5))
        else:
            self.block = (r.number(block[0]), r.number(block[1]), r.number(block[2]))
        self.dynamic = self._geometry(_DYNAMIC)

    def _geometry(self, at: int) -> Value:
        return self.routine.load("i32", self.routine["geometry"], 4 * at, align=4).to("i64")

    def threads(self) -> Value:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z

    def stride(self) -> Value:
        """Bytes from the shared memory of a block of a cluster to that of the next."""
        return self._geometry(_STRIDE)

    def number_launch(self) -> None:
        """In checked mode: which launch it is."""
        self.routine.store("i64", self._geometry(_LAUNCH), Value(self.routine, "ptr", "@fly_launch"), align=8)

    def ids(self, block: Value) -> Ids:
        """Ids of a block by its number."""
        x, y, _ = self.grid
        inside = block % (x * y)
        return inside % x, inside // x, block // (x * y)

    def call(self, what: str, *ids: Value, shared: Value, more: Sequence[Value] = ()) -> None:
        """Call the kernel's function of a thread or of a block."""
        geometry = (*self.grid, *self.block, shared, self.dynamic)
        self.routine.call(f'"{self.name}.{what}"', "void", *self.arguments, *ids, *geometry, *more)


def plain_function(
    name: str,
    arguments: Sequence[str],
    block: tuple[int, int, int] | None,
    checked: bool = False,
    first: Sequence[str] = (),
) -> str:
    """Loops over blocks and threads, behind the lines `first`."""
    f = BlockFunction(name, arguments, block)
    r = f.routine
    if checked:
        f.number_launch()
    for line in first:
        r.line(line.strip())
    with r.loop(r["last"], r["first"]) as number:
        ids = f.ids(number)
        with r.loop(f.block[2]) as z, r.loop(f.block[1]) as y, r.loop(f.block[0]) as x:
            f.call("thread", x, y, z, *ids, shared=r["shared"])
    return r.text()


def phased_function(name: str, arguments: Sequence[str], block: tuple[int, int, int]) -> str:
    """A loop over blocks around a function of a whole block."""
    f = BlockFunction(name, arguments, block)
    r = f.routine
    with r.loop(r["last"], r["first"]) as number:
        f.call("block", *f.ids(number), shared=r["shared"])
    return r.text()


class Cluster:
    """Blocks that run together, in the function of a range of blocks: their states and what they share."""

    def __init__(self, f: BlockFunction, how: Synchronization, states: Value, record: Value, stride: Value, n: Value):
        self.f, self.how, self.states, self.record, self.stride, self.n = f, how, states, record, stride, n

    def make(self, memory: Value, more: Callable[[Value, Value], None]) -> None:
        """Make the state of each block, in its part of the shared memory; `more` is told its number and the state."""
        r, how = self.f.routine, self.how
        with r.loop(how.blocks) as rank:
            state = r.value_of("fly_make_state", "ptr", self.n, ("i64", how.unit), ("i64", how.slot))
            r.store("ptr", state, self.states, rank * 8, align=8)
            r.store("ptr", self.record, state, CLUSTER, align=8)
            r.store("i64", rank, state, RANK, align=8)
            r.store("ptr", r.at(memory, rank * self.stride), state, SHARED, align=8)
            more(rank, state)

    def open(self) -> None:
        """The record of a cluster, see `cpu_clusters.py`."""
        r, record, extents = self.f.routine, self.record, self.how.cluster or (1, 1, 1)
        _clear(r, record, 64)
        r.store("i32", (self.n * self.how.blocks).to("i32"), record, 4, align=4)
        r.store("i64", self.stride, record, 16, align=8)
        r.store("ptr", self.states, record, 24, align=8)
        r.store("i64", self.how.blocks, record, 32, align=8)
        for at, extent in enumerate(extents):
            r.store("i32", extent, record, 40 + 4 * at, align=4)

    def start(self, first: Value, clear: Callable[[Value], None] | None) -> None:
        """Start the threads of all blocks, unit by unit, up to where they wait; the cluster begins at block `first`."""
        f, how = self.f, self.how
        r = f.routine
        x, y, _ = f.block
        with r.loop(how.blocks) as rank:
            state = r.load("ptr", self.states, rank * 8, align=8)
            memory = r.load("ptr", state, SHARED, align=8)
            ids = f.ids(first) if how.blocks == 1 else self._ids(first, rank)
            for at, number in enumerate(ids):
                r.store("i64", number, state, BLOCK_IDS + 8 * at, align=8)
            _clear(r, r.at(state, NAMED), 64)
            if clear is not None:
                clear(state)
            with r.loop(self.n, 0, how.unit) as begin:
                end = r.least(begin + how.unit, self.n)
                with r.loop(end, begin) as t:
                    thread = (t % x, t // x % y, t // x // y)
                    f.call("thread", *thread, *ids, shared=memory, more=(state, t))
                _drain(r, state, begin, end, r.number(how.unit), r.number(how.slot))

    def _ids(self, first: Value, rank: Value) -> Ids:
        """Ids of the block of a rank in the cluster that starts at a block; x runs fastest in both."""
        cx, cy, cz = self.how.cluster or (1, 1, 1)
        which, across, along = first // (cx * cy * cz), self.f.grid[0] // cx, self.f.grid[1] // cy
        inside = which % (across * along)
        return (
            inside % across * cx + rank % cx,
            inside // across * cy + rank // cx % cy,
            which // (across * along) * cz + rank // (cx * cy),
        )


def synchronizing_function(
    name: str,
    arguments: Sequence[str],
    block: tuple[int, int, int] | None,
    how: Synchronization,
    sites: str,
    check: Check | None = None,
) -> str:
    """Loops over blocks; in each, threads are started unit by unit and then scheduled until all have finished.

    Where a kernel has to do with its cluster, blocks come in the order of clusters and those of one run together.
    `sites` is the table of what to say of places where threads wait.
    """
    f = BlockFunction(name, arguments, block)
    r = f.routine
    if check is not None:
        f.number_launch()
    states, record = r.alloca(8 * how.blocks), r.alloca(64, 64)
    cluster = Cluster(f, how, states, record, f.stride(), f.threads())
    numbers = r.number(how.unit), r.number(how.slot), r.number(check.warp if check else 0), Value(r, "ptr", sites)

    def shadow(rank: Value, state: Value) -> None:
        if check is not None:
            r.call("fly_check_make", "void", state, f.dynamic + check.static, ("i64", check.warp), cluster.n)

    def clear(state: Value) -> None:
        if check is not None:
            r.call("fly_check_clear", "void", state)

    cluster.make(r["shared"], shadow)
    with r.loop(r["last"], r["first"], how.blocks) as first:
        cluster.open()
        cluster.start(first, clear)
        if how.waits:
            r.call("fly_run_cluster", "void", states, ("i64", how.blocks), cluster.n, *numbers)
        else:
            r.call("fly_run_block", "i32", r.load("ptr", states, align=8), cluster.n, *numbers)
    with r.loop(how.blocks) as rank:
        state = r.load("ptr", states, rank * 8, align=8)
        if check is not None:
            r.call("fly_check_free", "void", state)
        free_state(r, state)
    return r.text()


def free_state(r: Routine, state: Value) -> None:
    """Free a block's state, and the frames of its threads."""
    r.call("free", "void", r.load("ptr", state, align=8))
    r.call("free", "void", state)


def _clear(r: Routine, at: Value, nbytes: Value | int) -> None:
    r.call("llvm.memset.p0.i64", "void", at, ("i8", 0), ("i64", nbytes), ("i1", 0))


def _drain(r: Routine, state: Value, begin: Value, end: Value, unit: Value, slot: Value) -> None:
    r.call("fly_drain", "i64", state, begin, end, unit, slot, ("i1", 0))


def _resume(r: Routine, handles: Value, thread: Value) -> None:
    r.call("llvm.coro.resume", "void", r.load("ptr", handles, thread * 8, align=8))


def _status(r: Routine, statuses: Value, thread: Value) -> Value:
    return r.load("i32", statuses, thread * 4, align=4)


def _make_state() -> Routine:
    """The state of a block, whose units have two buffers each."""
    r = Routine("fly_make_state", "ptr", "i64 n, i64 unit, i64 slot")
    units = (r["n"] + r["unit"] - 1) // r["unit"]
    unit = r["unit"] * r["slot"]
    half = units * unit
    nbytes = (half + half + (EXCHANGE + 63)) & -64
    state = r.value_of("aligned_alloc", "ptr", ("i64", 64), nbytes)
    _clear(r, state, nbytes)
    with r.loop(units) as u:
        first = r.at(state, u * unit + EXCHANGE)
        r.store("ptr", first, state, u * 8 + DEPOSIT, align=8)
        r.store("ptr", r.at(first, half), state, u * 8 + SHOWN, align=8)
    r.give(state)
    return r


def _drain_unit(checked: bool) -> Routine:
    """Run the collectives of the threads begin <= t < end, which are one unit, until none of them waits at one, or some
    wait for memory and `force` is not set. Gives how many were run."""
    r = Routine("fly_drain", "i64", "ptr state, i64 begin, i64 end, i64 unit, i64 slot, i1 force")
    state, begin, end = r["state"], r["begin"], r["end"]
    with r.when(r["slot"].is_(0)):  # a kernel without collectives has no slots
        r.give(0)
    statuses, handles, took = (r.at(state, at) for at in (STATUS, HANDLES, TOOK))
    number = begin // r["unit"] * 8
    deposit, shown = r.at(state, number + DEPOSIT), r.at(state, number + SHOWN)
    ran, low, most, behind = r.variable("i64", 0), r.variable("i32", 0), r.variable("i32", 0), r.variable("i1", 0)

    def some_go() -> Value:
        low.set(BARRIER)
        most.set(0)
        with r.loop(end, begin) as t:
            status = _status(r, statuses, t)
            low.set(r.choose(status.is_not(0), r.least(low.get(), status), low.get()))
            most.set(r.most(most.get(), status))
        return low.get().is_not(BARRIER) & ((most.get() < WAIT) | r["force"])

    with r.again(some_go):
        lowest = low.get()
        old, new = r.load("ptr", deposit, align=8), r.load("ptr", shown, align=8)
        r.store("ptr", new, deposit, align=8)
        r.store("ptr", old, shown, align=8)
        behind.set(0)
        with r.loop(end, begin) as t:
            status = _status(r, statuses, t)
            goes = status.is_(lowest)
            r.store("i8", goes.to("i8"), took, t)
            behind.set(behind.get() | (status.is_not(0) & (status < BARRIER) & ~goes))
        # Threads that wait elsewhere in the unit wrote to the buffer that is being read now.
        with r.when(behind.get()), r.loop(end, begin) as t, r.when(r.load("i8", took, t).is_(0)):
            offset = (t - begin) * r["slot"]
            r.call("llvm.memcpy.p0.p0.i64", "void", r.at(new, offset), r.at(old, offset), r["slot"], ("i1", 0))
        if checked:
            r.call("fly_check_meet", "void", state, begin, end)
        with r.loop(end, begin) as t, r.when(r.load("i8", took, t).is_not(0)):
            _resume(r, handles, t)
        ran.set(ran.get() + 1)
    r.give(ran.get())
    return r


def _run_block(checked: bool) -> Routine:
    """Open barriers until every thread has finished. Threads that wait for memory go first: they may come to the
    barrier. Gives 0 at the end, 1 after a round in which threads that wait for memory achieved nothing, 2 if some of
    them poll."""
    r = Routine("fly_run_block", "i32", "ptr state, i64 n, i64 unit, i64 slot, i64 warp, ptr sites")
    state, n, unit = r["state"], r["n"], r["unit"]
    progress, statuses, handles = (r.at(state, at) for at in (PROGRESS, STATUS, HANDLES))
    most, few = r.variable("i32", 0), r.variable("i32", 0)
    with r.again(lambda: r.number(1, "i1")):
        before = r.load("i64", progress, align=8)
        most.set(0)
        few.set(-1)
        with r.loop(n) as t:
            status = _status(r, statuses, t)
            most.set(r.most(most.get(), status))
            few.set(r.least(few.get(), status))
        with r.when(most.get().is_(0)):
            r.give(0)
        memory = most.get() >= WAIT
        least = r.choose(memory, r.number(WAIT, "i32"), r.number(1, "i32"))
        with r.when(~memory):
            r.store("i64", before + 1, progress, align=8)
            if checked:
                r.call("fly_check_barrier", "void", state, n, r["warp"], r["sites"])
        everyone = few.get() >= least
        with r.loop(n, 0, unit) as begin:
            end = r.least(begin + unit, n)

            def all_go(begin: Value = begin, end: Value = end) -> None:
                with r.loop(end, begin) as t:
                    _resume(r, handles, t)

            def some_go(begin: Value = begin, end: Value = end) -> None:
                with r.loop(end, begin) as t, r.when(_status(r, statuses, t) >= least):
                    _resume(r, handles, t)

            r.either(everyone, all_go, some_go)  # the usual case is the first: all wait for the same
            _drain(r, state, begin, end, unit, r["slot"])
        with r.when(r.load("i64", progress, align=8).is_(before)):
            r.give(r.choose(most.get() >= POLL, r.number(2, "i32"), r.number(1, "i32")))
    return r


def _ballot() -> Routine:
    """Votes of a warp as a mask."""
    r = Routine("fly_ballot", "i64", "ptr from, i64 stride, ptr took, i64 lanes")
    mask = r.variable("i64", 0)
    with r.loop(r["lanes"]) as i:
        vote = r.load("i8", r["from"], i * r["stride"]) & r.load("i8", r["took"], i)
        mask.set(mask.get() | (vote.to("i64") << i))
    r.give(mask.get())
    return r


def _first() -> Routine:
    """The first lane that took part."""
    r = Routine("fly_first", "i64", "ptr took, i64 lanes")
    with r.loop(r["lanes"]) as i, r.when(r.load("i8", r["took"], i).is_not(0)):
        r.give(i)
    r.give(0)
    return r


def once(text: ModuleText, code: str) -> bool:
    """Add a piece of the module's text unless it is there."""
    if code in text.globals:
        return False
    text.globals.append(code)
    return True


@cache
def _scheduler(checked: bool) -> str:
    return "\n".join(r.text() for r in (_make_state(), _drain_unit(checked), _run_block(checked)))


def need_scheduler(text: ModuleText, checked: bool = False) -> None:
    """The scheduler's functions, once per module."""
    if once(text, _scheduler(checked)):
        text.declare("aligned_alloc", "ptr", ["i64", "i64"])
        text.declare("free", "void", ["ptr"])
        text.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
        text.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        text.declare("llvm.coro.resume", "void", ["ptr"])


@cache
def _text_of(write: Callable[[], Routine]) -> str:
    return write().text()


def need_ballot(text: ModuleText) -> None:
    """Votes of a warp as a mask."""
    once(text, _text_of(_ballot))


def need_first(text: ModuleText) -> None:
    """The first lane that took part."""
    once(text, _text_of(_first))
