"""One schedule of a launch: who can go on, and letting the strategy's choice go on, until all have ended or none can.

The hook is called by a launch whose threads have all been started (`code.py`). Warps are the agents, or their lanes
that are at the same place, and copies that are under way. Barriers of a block open, and collectives of a warp are run,
as soon as everybody is there: that commutes with all that others do.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from .agents import Agent, Event, Strategy, describe, session
from .operations import MBARRIER, POLLS, READS, WAITS, Kind, Object, Operation

if TYPE_CHECKING:
    from ..runtime.native import Symbols

_WORD = ctypes.c_int64
_HOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_INSTALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_INSTALL_SEEN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_TOLD = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_AGENTS = ctypes.PYFUNCTYPE(_WORD, ctypes.c_void_p, _WORD, _WORD, _WORD, ctypes.c_void_p, ctypes.c_void_p)
_STEP = ctypes.PYFUNCTYPE(_WORD, ctypes.c_void_p, _WORD, _WORD, ctypes.c_int32, _WORD, _WORD, _WORD)
_OPEN = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, _WORD, _WORD, _WORD, _WORD, ctypes.c_void_p)
_FORCE = ctypes.PYFUNCTYPE(_WORD, ctypes.c_void_p, _WORD, _WORD, _WORD)
_COMPLETE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

# Where things are, as `code/block.py`, `code/clusters.py` and `code/accesses.py` have them.
_CLUSTER, _BLOCK_IDS = 24, 48
_STATUS = 128
_TOOK = _STATUS + (4 + 8 + 8 + 8) * 1024
_NAMED = _TOOK + 1024
_JOINED = _NAMED + 64
_CLUSTER_PHASE = 8
_SITE_MASK = 0x0FFFFFFF
_TABLE_LINE = 80
_TX_MASK, _TX_ZERO = (1 << 31) - 1, 1 << 30
_ROW_WORDS, _SUMMARY_WORDS, _COPY_BYTES, _MOST_COPIES = 8, 4, 64, 1 << 14
MOST_BLOCKS = 64
MOST_STEPS = 20_000
PATIENCE = 1000
"""How often threads look at memory that does not change before they are taken to wait for ever."""
_WORDS = ("global memory", "shared memory")
REGISTERS = 65536
"""Registers of a multiprocessor; a kernel that trades them begins with all of them for one block."""


class Record(ctypes.Structure):
    """What a launch hands to the hook (`code.py`)."""

    _fields_: ClassVar = [
        (name, ctypes.c_void_p if name.endswith("_at") else _WORD)
        for name in (
            "states_at", "blocks", "n", "unit", "slot", "warp", "sites_at", "lines_at", "name_at", "per_cluster",
            "stride", "memories_at", "count_at", "copies_at", "agents_at", "step_at", "open_at", "force_at",
            "complete_at", "unused",
        )
    ]  # fmt: skip


class _Copies(NamedTuple):
    """Copies that one warp issued together and that one mbarrier counts."""

    name: str
    block: int
    warp: int
    operation: Operation
    place: str
    entries: list[int]


class Launch:
    """A launch under way."""

    def __init__(self, record: Record, strategy: Strategy):
        self.record, self.strategy = record, strategy
        self.blocks, self.n, self.warp = record.blocks, record.n, record.warp
        self.states: list[int] = list((ctypes.c_int64 * self.blocks).from_address(record.states_at))
        per = record.per_cluster
        memories = (ctypes.c_int64 * self.blocks).from_address(record.memories_at)
        self.memories = sorted((memories[b], b) for b in range(0, self.blocks, per))
        self.starts = [start for start, _ in self.memories]
        self.rows = (_WORD * (_ROW_WORDS * self.n * self.blocks))()
        self.summaries = (_WORD * (_SUMMARY_WORDS * self.blocks))()
        self.call_agents, self.call_step = _AGENTS(record.agents_at), _STEP(record.step_at)
        self.call_open, self.call_force = _OPEN(record.open_at), _FORCE(record.force_at)
        self.call_complete = _COMPLETE(record.complete_at)
        self.count = _WORD.from_address(record.count_at)
        self.seen = 0
        self.copies: dict[str, _Copies] = {}
        self.issued: dict[tuple[int, int], int] = {}
        self.phases: dict[Object, int] = {}
        self.versions: dict[Object, int] = {}
        self.initialised: set[Object] = set()
        self.polls: dict[tuple[int, int, int], dict[tuple[int, tuple[Operation, ...]], tuple[int, ...]]] = {}
        self.ended: set[int] = set()
        each = min(REGISTERS // max(self.n, 1) // 8 * 8, 256)
        self.held = {(b, w): each for b in range(self.blocks) for w in range(-(-self.n // self.warp))}
        self.free_registers = [0] * self.blocks
        self.places: dict[int, str] = {}
        self.patience = PATIENCE
        self.over = False
        """Whether what comes has no meaning any more."""

    # --- names and objects ------------------------------------------------------------------------------------------

    def block_at(self, address: int) -> tuple[int, int] | None:
        """Block and offset of an address in shared memory."""
        i = bisect_right(self.starts, address) - 1
        if i < 0:
            return None
        start, block = self.memories[i]
        number, offset = divmod(address - start, self.record.stride)
        return (block + number, offset) if number < self.record.per_cluster else None

    def place(self, status: int) -> str:
        """The line of a site."""
        site = status & _SITE_MASK
        if site not in self.places:
            text = ctypes.c_char_p.from_address(self.record.sites_at + 16 * site + 8).value or b""
            found = re.match(r"(.*?:\d+): ", text.decode(errors="replace"))
            self.places[site] = found.group(1) if found else "unknown line"
        return self.places[site]

    def _operations(self, block: int, first: int, kind: Kind, words: Sequence[int]) -> tuple[Operation, ...]:
        """What a row of the table says, with the objects named alike in every run."""
        at, arg, extra = words
        if kind in MBARRIER:
            return self._mbarrier(block, kind, at, arg, extra)
        if kind in (Kind.NAMED_ARRIVE, Kind.NAMED_WAIT):
            on = ("named barrier", block, at & 15)
            word = ctypes.c_uint32.from_address(self.states[block] + _NAMED + 4 * (at & 15)).value
            phase = word >> 16
            wanted = (arg & 0xFFFFFFFF) >> 16 if kind is Kind.NAMED_WAIT else arg
            return (Operation(kind, on, wanted, 0, phase),)
        if kind in (Kind.CLUSTER_ARRIVE, Kind.CLUSTER_WAIT, Kind.LEAVE):
            on = ("cluster barrier", block // self.record.per_cluster, 0)
            record = _WORD.from_address(self.states[block] + _CLUSTER).value
            phase = ctypes.c_int32.from_address(record + _CLUSTER_PHASE).value
            joined = ctypes.c_int32.from_address(self.states[block] + _JOINED + 4 * first).value
            made = Operation(kind, on, joined if kind is Kind.CLUSTER_WAIT else 0, 0, phase)
            return (made, Operation(kind, ("life of block", block, 0))) if kind is Kind.LEAVE else (made,)
        if kind is Kind.REGISTERS:
            return (Operation(kind, ("registers", block, 0), at, arg),)
        if kind is Kind.PEER:
            found = self.block_at(at)
            return (Operation(kind, ("life of block", found[0] if found else block, 0)),)
        found = self.block_at(at)
        word, of, base = ("global memory", 0, at) if found is None else ("shared memory", *found)
        return tuple(Operation(kind, (word, of, base + i), arg, extra) for i in range(0, max(arg, 1), 4))

    def _mbarrier(self, block: int, kind: Kind, at: int, arg: int, extra: int) -> tuple[Operation, ...]:
        found = self.block_at(at)
        on = ("mbarrier", *found) if found else ("mbarrier", -1, at)
        made = Operation(kind, on, arg, extra, self.phases.get(on, 0))
        if found and found[0] != block:
            return made, Operation(Kind.PEER, ("life of block", found[0], 0))
        return (made,)

    # --- who can go on ----------------------------------------------------------------------------------------------

    def look(self) -> list[Agent]:
        """All agents that have something left to do."""
        record = self.record
        count = self.call_agents(record.states_at, self.blocks, self.n, self.warp, self.rows, self.summaries)
        words = cast("list[int]", self.rows[: count * _ROW_WORDS])
        groups: dict[tuple[int, int, int], tuple[int, list[Operation]]] = {}
        for i in range(0, len(words), _ROW_WORDS):
            block, warp, status, lanes, kind, *rest = words[i : i + _ROW_WORDS]
            lanes &= (1 << 64) - 1
            first = warp * self.warp + (lanes & -lanes).bit_length() - 1
            made = self._operations(block, first, Kind(kind), rest)
            before = groups.get((block, warp, status))
            if before is None:
                groups[block, warp, status] = (lanes, list(made))
            else:
                groups[block, warp, status] = (before[0] | lanes, [*before[1], *made])
        agents: list[Agent] = []
        for (block, warp, status), (lanes, operations) in groups.items():
            lead = (lanes & -lanes).bit_length() - 1
            name = f"b{block}.w{warp}" + (f".l{lead}" if lead else "")
            unique = tuple(dict.fromkeys(operations))
            enabled = self._enabled(block, warp, lanes, status, unique)
            agents.append(Agent(name, block, warp, lanes, status, unique, enabled, self.place(status)))
        for copies in self.copies.values():
            operation = copies.operation._replace(phase=self.phases.get(copies.operation.on, 0))
            agents.append(Agent(copies.name, copies.block, copies.warp, 0, 0, (operation,), True, copies.place))
        return agents

    def _enabled(self, block: int, warp: int, lanes: int, status: int, operations: tuple[Operation, ...]) -> bool:
        kind = operations[0].kind
        if kind in WAITS:
            return any(o.enabled_in(self._phase(o)) or self._unset(o) for o in operations if o.kind in WAITS)
        if kind is Kind.REGISTERS and operations[0].extra:
            need = (operations[0].arg - self.held[block, warp]) * self.warp
            return self.free_registers[block] >= need
        if kind in POLLS:
            known = self.polls.get((block, warp, lanes))
            if known is not None and (status, operations) in known:
                return any(self._versions(key[1]) != versions for key, versions in known.items())
        return True

    def _unset(self, o: Operation) -> bool:
        """Whether an mbarrier has not been initialised: nobody can tell what a wait does then."""
        return o.kind in MBARRIER and o.kind is not Kind.INIT and o.on not in self.initialised

    def _phase(self, o: Operation) -> int:
        return self.phases.get(o.on, 0) if o.kind is Kind.WAIT else o.phase

    def _versions(self, operations: tuple[Operation, ...]) -> tuple[int, ...]:
        """What a look at the objects would show."""
        return tuple(self._value(o.on) if o.on[0] in _WORDS else self.versions.get(o.on, 0) for o in operations)

    # --- going on ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until all threads have ended, or the strategy gives up."""
        for _ in range(MOST_STEPS + PATIENCE):
            agents = self.look()
            if self._open_barriers():
                continue
            self._check_ends(agents)
            enabled = [a for a in agents if a.enabled]
            if not enabled:
                live = self.summaries[0::_SUMMARY_WORDS]
                if not any(live):
                    return
                if self._look_again(agents):
                    continue
                record = self.record
                if any([self.call_force(s, self.n, record.unit, record.slot) for s in self.states]):
                    continue
                self.strategy.stuck(agents)
                self._stuck(agents)
                return
            chosen = self.strategy.choose(agents)
            if chosen is None:
                return
            self.patience = PATIENCE
            self.step(chosen)
            if self.over:
                return
        self.strategy.uncovered(f"schedules of more than {MOST_STEPS} operations")

    def _look_again(self, agents: Sequence[Agent]) -> bool:
        """Let threads that look at memory look at it again, though it has not changed: they may count how often.

        That is no choice and no step of the schedule.
        """
        pollers = [a for a in agents if a.lanes and a.operations[0].kind in POLLS]
        if not pollers or not self.patience:
            return False
        self.patience -= 1
        record = self.record
        for agent in pollers:
            begin = agent.warp * self.warp
            end, state = min(begin + self.warp, self.n), self.states[agent.block]
            self.call_step(state, begin, end, agent.status, self.n, record.unit, record.slot)
            self._take_copies(agent.block, agent.warp)
        return True

    def _open_barriers(self) -> bool:
        any_open = False
        record = self.record
        for block in range(self.blocks):
            live, waiting = self.summaries[_SUMMARY_WORDS * block : _SUMMARY_WORDS * block + 2]
            if live and live == waiting:
                self.call_open(self.states[block], self.n, record.unit, record.slot, self.warp, record.sites_at)
                self.strategy.opened(block)
                self._take_copies(block, 0)
                any_open = True
        return any_open

    def step(self, agent: Agent) -> None:
        """Let an agent go on."""
        self._check(agent)
        values = self._values(agent)
        drained: list[tuple[int, int]] = []
        if agent.lanes:
            self._note_poll(agent)
            begin = agent.warp * self.warp
            record, state = self.record, self.states[agent.block]
            end = min(begin + self.warp, self.n)
            ran = self.call_step(state, begin, end, agent.status, self.n, record.unit, record.slot)
            if ran:
                drained = self._participants(agent)
        else:
            for entry in self.copies.pop(agent.name).entries:
                self.call_complete(self.record.copies_at + entry * _COPY_BYTES)
        self._note_effects(agent, values)
        self.strategy.done(Event(agent, tuple(drained), self._take_copies(agent.block, agent.warp)))

    def _participants(self, agent: Agent) -> list[tuple[int, int]]:
        unit = self.record.unit
        begin = agent.warp * self.warp // unit * unit
        took = ctypes.string_at(self.states[agent.block] + _TOOK + begin, min(unit, self.n - begin))
        found: list[tuple[int, int]] = []
        for i in range(0, len(took), self.warp):
            lanes = sum(1 << k for k, flag in enumerate(took[i : i + self.warp]) if flag)
            if lanes:
                found.append(((begin + i) // self.warp, lanes))
        return found

    def _take_copies(self, block: int, warp: int) -> tuple[str, ...]:
        """Enter the copies that were issued since the last time."""
        count, names = self.count.value, list[str]()
        if count >= _MOST_COPIES and self.seen < count:
            self.strategy.uncovered(f"the coming of copies beyond the first {_MOST_COPIES}")
        made: dict[tuple[int, int, Object], _Copies] = {}
        for i in range(self.seen, count):
            state, thread, at, arrivals, due, table = (_WORD * 6).from_address(self.record.copies_at + i * _COPY_BYTES)
            owner, w = self.states.index(state), thread // self.warp
            found = self.block_at(at)
            on: Object = ("mbarrier", *found) if found else ("mbarrier", -1, at)
            # The arrivals of a warp's lanes come together, copies of bytes each for itself.
            copies = made.get((owner, w, on)) if arrivals else None
            if copies is None:
                number = self.issued[owner, w] = self.issued.get((owner, w), 0) + 1
                name = f"b{owner}.w{w}.c{number}"
                operation = Operation(Kind.COMPLETE, on, arrivals, due)
                copies = _Copies(name, owner, w, operation, self._line(table), [])
                made[owner, w, on] = self.copies[name] = copies
                names.append(name)
            copies.entries.append(i)
        self.seen = count
        return tuple(names)

    def _line(self, table: int) -> str:
        number = _WORD.from_address(table + _TABLE_LINE).value if table else 0
        text = ctypes.c_char_p.from_address(self.record.lines_at + 8 * number).value
        return "unknown line" if text is None else text.decode(errors="replace")

    # --- what a step changes ----------------------------------------------------------------------------------------

    def _values(self, agent: Agent) -> list[int]:
        """What atomic updates find: one that changes nothing is a look."""
        return [self._value(o.on) for o in agent.operations if o.kind is Kind.EXCHANGE]

    def _value(self, on: Object) -> int:
        return ctypes.c_int32.from_address(self._address(on)).value

    def _address(self, on: Object) -> int:
        word, block, offset = on
        if word == "global memory" or block < 0:
            return offset
        first = block // self.record.per_cluster * self.record.per_cluster
        start = next(start for start, b in self.memories if b == first)
        return start + (block - first) * self.record.stride + offset

    def _note_poll(self, agent: Agent) -> None:
        """Remember what a thread has looked at since it last did something."""
        key = (agent.block, agent.warp, agent.lanes)
        if agent.operations[0].kind not in POLLS:
            self.polls.pop(key, None)
            return
        known = self.polls.setdefault(key, {})
        if any(self._versions(seen[1]) != versions for seen, versions in known.items()):
            known.clear()
        known[agent.status, agent.operations] = self._versions(agent.operations)

    def _note_effects(self, agent: Agent, values: list[int]) -> None:
        same = values == self._values(agent)
        for o in agent.operations:
            if o.kind is Kind.REGISTERS:
                held = self.held[o.on[1], agent.warp]
                self.free_registers[o.on[1]] += (held - o.arg) * self.warp
                self.held[o.on[1], agent.warp] = o.arg
            if o.kind in READS or (o.kind is Kind.EXCHANGE and same):
                continue
            self.versions[o.on] = self.versions.get(o.on, 0) + 1
            if o.kind in MBARRIER:
                if o.kind is Kind.INIT:
                    self.initialised.add(o.on)
                parity = ctypes.c_uint32.from_address(self._address(o.on) + 4).value >> 31
                phase = self.phases.get(o.on, 0)
                self.phases[o.on] = phase + ((phase & 1) != parity)
            if o.kind is Kind.EXCHANGE:
                # It did something: the thread does not go in circles.
                self.polls.pop((agent.block, agent.warp, agent.lanes), None)

    # --- what may be wrong ------------------------------------------------------------------------------------------

    def _check(self, agent: Agent) -> None:
        for o in agent.operations:
            if o.on[1] in self.ended and o.on[0] == "life of block":
                text = f"block {agent.block} uses the shared memory of block {o.on[1]}, which has ended"
                self.strategy.found("block has ended", f"{agent.place}: {text}", [agent])
                self.over = True
            elif self._unset(o):
                text = "an mbarrier is used before it has been initialised"
                self.strategy.found("not initialised", f"{agent.place}: {text}", [agent])
                self.over = True
            elif o.kind is Kind.ARRIVE and o.arg > 0:
                self._check_arrivals(agent, o)

    def _check_arrivals(self, agent: Agent, o: Operation) -> None:
        low, high = (_WORD_PAIR).from_address(self._address(o.on))
        due = (high & _TX_MASK) - _TX_ZERO + o.extra
        if due != 0 and o.arg * agent.lanes.bit_count() > (low & 0xFFFF):
            text = "more threads arrive at an mbarrier than its phase counts, while it waits for bytes"
            self.strategy.found("too many arrivals", f"{agent.place}: {text}", [agent])

    def _check_ends(self, agents: Sequence[Agent]) -> None:
        live = self.summaries[0::_SUMMARY_WORDS]
        for block, count in enumerate(live):
            if count or block in self.ended:
                continue
            self.ended.add(block)
            late = [a for a in agents if not a.lanes and a.operations[0].on[1] == block]
            if late:
                text = f"block {block} ends while a copy into its shared memory is under way: nobody waits for it"
                self.strategy.found("copy outlives its block", f"{late[0].place}: {text}", late)

    def _stuck(self, agents: Sequence[Agent]) -> None:
        """Nobody can go on: say where threads are."""
        lines: list[str] = []
        waiting = [a for a in agents if not a.enabled]
        for agent in waiting:
            lines.append(f"{agent.place}: {agent.name}: {describe(agent)}")
        for block in range(self.blocks):
            statuses = (ctypes.c_uint32 * self.n).from_address(self.states[block] + _STATUS)
            there: dict[int, list[int]] = {}
            for t in range(self.n):
                if 0 < statuses[t] < 0x60000000:
                    there.setdefault(statuses[t], []).append(t // self.warp)
            for status, warps in there.items():
                what = (
                    "waits at a barrier of the block" if status >= 0x40000000 else "waits at a collective of the warp"
                )
                named = ", ".join(f"b{block}.w{w}" for w in sorted(set(warps)))
                lines.append(f"{self.place(status)}: {named}: {what}")
        self.strategy.found("deadlock", "\n".join(["no thread can go on:", *(f"  {line}" for line in lines)]), waiting)


_WORD_PAIR = ctypes.c_uint32 * 2


# --- the hook ---------------------------------------------------------------------------------------------------------


class _First:
    """The strategy of a launch that nobody explores: one order."""

    def choose(self, agents: Sequence[Agent]) -> Agent | None:
        return next(a for a in agents if a.enabled)

    def done(self, event: Event) -> None: ...

    def stuck(self, agents: Sequence[Agent]) -> None: ...

    def opened(self, block: int) -> None: ...

    def started(self, kernel: str, blocks: int) -> None: ...

    def found(self, what: str, text: str, agents: Sequence[Agent]) -> None: ...

    def uncovered(self, text: str) -> None: ...


def _run(address: int) -> None:
    strategy = session.strategy or _First()
    try:
        record = Record.from_address(address)
        kernel = (ctypes.c_char_p.from_address(address + Record.name_at.offset).value or b"").decode()
        strategy.started(kernel, record.blocks)
        if record.blocks > MOST_BLOCKS:
            raise ValueError(
                f"schedules of at most {MOST_BLOCKS} blocks can be explored, {kernel} was launched with "
                f"{record.blocks}: use a smaller problem"
            )
        Launch(record, strategy).run()
    except BaseException as error:  # noqa: BLE001  What C calls cannot raise: the session does, after the launch.
        session.error = session.error or error


_hook = _HOOK(_run)


def _tell(name: bytes) -> None:
    """A kernel whose threads never meet is run: it has one order."""
    try:
        if session.strategy is not None:
            session.strategy.started(name.decode(), 0)
    except BaseException as error:  # noqa: BLE001  What C calls cannot raise: the session does, after the launch.
        session.error = session.error or error


_told = _TOLD(_tell)


SYMBOL = "fly_sched_install"
_SEEN_SYMBOL = "fly_seen_install"


def install(library: Symbols) -> None:
    """Tell code whose schedules can be explored where the hook is, and where it counts what it looks at."""
    if SYMBOL in library.symbols:
        _INSTALL(library.address(SYMBOL))(ctypes.cast(_hook, ctypes.c_void_p).value)
    if _SEEN_SYMBOL in library.symbols:
        told = ctypes.cast(_told, ctypes.c_void_p).value
        _INSTALL_SEEN(library.address(_SEEN_SYMBOL))(ctypes.addressof(session.seen), told)
