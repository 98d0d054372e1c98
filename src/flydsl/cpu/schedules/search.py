"""Going through all schedules: dynamic partial-order reduction with sleep sets, by running the call again and again.

A run is a path in a tree of choices. Where two operations depend on each other and nothing else orders them, the one
that came second is also tried first: a step that leads there is noted at the place where the first was made (source
sets, Abdulla et al., 2014). Runs that differ in the order of independent operations only are left out (sleep sets).

What orders two steps is kept as a set of steps per step, one bit each. A hash of the partial order tells how many runs
were different.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ...errors import FlyRuntimeError
from .agents import Agent, Event, describe
from .findings import encode
from .operations import POLLS, WAITS, Object, Operation, dependent
from .timeline import Entry, Timeline

_LANES = (1 << 64) - 1


class Order:
    """Which steps of a run come before which, whatever the order of independent ones."""

    def __init__(self) -> None:
        self.before: list[int] = []
        """Of a step: those before it and itself."""
        self.touched: dict[Object, list[tuple[int, Operation]]] = {}
        self._lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._copies: dict[str, int] = {}
        self._blocks: dict[int, int] = {}
        """What all threads of a block know by its last barrier."""
        self._start = 0
        self._hashes: list[int] = []
        self.hash = 0

    def launched(self) -> None:
        """All that was done comes before what a new launch does."""
        self._start = (1 << len(self.before)) - 1
        self._lanes.clear()
        self._blocks.clear()
        self._copies.clear()
        self.touched.clear()

    def of(self, agent: Agent) -> int:
        """The steps before what an agent is about to do, by its own order."""
        if not agent.lanes:
            return self._copies[agent.name]
        return self._known(agent.block, agent.warp, agent.lanes)

    def needs(self, agent: Agent) -> int:
        """The same, and the steps that its operations depend on."""
        bits = self.of(agent)
        for o in agent.operations:
            for i, other in self.touched.get(o.on, ()):
                if not bits >> i & 1 and dependent(other, o):
                    bits |= self.before[i]
        return bits

    def _known(self, block: int, warp: int, lanes: int) -> int:
        found = self._start | self._blocks.get(block, 0)
        for mask, bits in self._lanes.get((block, warp), ()):
            if mask & lanes:
                found |= bits
        return found

    def _set(self, block: int, warp: int, lanes: int, bits: int) -> None:
        kept = [(mask & ~lanes, old) for mask, old in self._lanes.get((block, warp), ()) if mask & ~lanes]
        self._lanes[block, warp] = [*kept, (lanes, bits)]

    def add(self, event: Event) -> int:
        """A step; gives its number."""
        agent, number = event.agent, len(self.before)
        bits = self.needs(agent)
        self._note_hash(agent, bits)
        bits |= 1 << number
        self.before.append(bits)
        for o in agent.operations:
            self.touched.setdefault(o.on, []).append((number, o))
        if agent.lanes:
            self._set(agent.block, agent.warp, agent.lanes, bits)
        if event.drained:
            self._join(agent.block, event.drained)
        for name in event.issued:
            self._copies[name] = bits
        return number

    def _note_hash(self, agent: Agent, bits: int) -> None:
        """An order is the sum of its steps, each with what is before it."""
        earlier = 0
        i = 0
        while bits >> i:
            if bits >> i & 1:
                earlier += self._hashes[i]
            i += 1
        made = hash((agent.name, agent.status, agent.operations, earlier))
        self._hashes.append(made)
        self.hash = (self.hash + made) & _LANES

    def _join(self, block: int, groups: Sequence[tuple[int, int]]) -> None:
        bits = 0
        for warp, lanes in groups:
            bits |= self._known(block, warp, lanes)
        for warp, lanes in groups:
            self._set(block, warp, lanes, bits)

    def opened(self, block: int) -> None:
        """All threads of a block have met."""
        self._blocks[block] = self._all(block)
        for key in [key for key in self._lanes if key[0] == block]:
            del self._lanes[key]

    def _all(self, block: int) -> int:
        bits = self._start | self._blocks.get(block, 0)
        for (b, _), parts in self._lanes.items():
            if b == block:
                for _, each in parts:
                    bits |= each
        return bits

    def issued(self, block: int, names: Sequence[str]) -> None:
        """Copies issued between two operations, behind a barrier."""
        bits = self._all(block)
        for name in names:
            self._copies.setdefault(name, bits)


class Recorder:
    """A strategy that writes down what happens; `pick` decides."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new run."""
        self.decisions: list[int] = []
        self.entries: list[Entry] = []
        self.findings: list[tuple[str, str, str]] = []
        """Kind, text, and the schedule up to there."""
        self.kernels: list[str] = []
        self.notes: list[str] = []
        self.steps = self.barriers = 0
        self.abandoned = False
        self._last: Agent | None = None

    def pick(self, agents: Sequence[Agent], enabled: Sequence[Agent]) -> Agent | None:
        """Who goes on; the first is who went on last, where it can."""
        return enabled[0]

    def choose(self, agents: Sequence[Agent]) -> Agent | None:
        enabled = [a for a in agents if a.enabled]
        last = self._last
        if last is not None:
            enabled.sort(
                key=lambda a: not (a.block == last.block and a.warp == last.warp and bool(a.lanes & last.lanes))
            )
        chosen = self.pick(agents, enabled)
        if chosen is None:
            self.abandoned = True
            return None
        if len(enabled) > 1:
            self.decisions.append(enabled.index(chosen))
        self._last = chosen
        return chosen

    def done(self, event: Event) -> None:
        self.steps += 1
        self.entries.append(Entry(event.agent.name, describe(event.agent), event.agent.place))

    def stuck(self, agents: Sequence[Agent]) -> None: ...

    def opened(self, block: int) -> None:
        self.barriers += 1
        self.entries.append(Entry(f"b{block}.w0", "the barrier of the block opens", ""))

    def started(self, kernel: str, blocks: int) -> None:
        self._last = None
        if kernel not in self.kernels:
            self.kernels.append(kernel)

    def found(self, what: str, text: str, agents: Sequence[Agent]) -> None:
        self.entries += [Entry(a.name, describe(a), a.place, True) for a in agents]
        self.findings.append((what, text, self.schedule))

    def uncovered(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def schedule(self) -> str:
        return encode(self.decisions)

    @property
    def timeline(self) -> Timeline:
        return Timeline(self.entries)


class Replay(Recorder):
    """A schedule that is given."""

    def __init__(self, decisions: Sequence[int]):
        self.given = list(decisions)
        super().__init__()

    def pick(self, agents: Sequence[Agent], enabled: Sequence[Agent]) -> Agent | None:
        at = len(self.decisions)
        if len(enabled) == 1 or at >= len(self.given):
            return enabled[0]
        if self.given[at] >= len(enabled):
            raise FlyRuntimeError(
                f"the schedule makes choice {self.given[at]} of {len(enabled)} at decision {at}: it belongs to another "
                "kernel, or to other arguments"
            )
        return enabled[self.given[at]]


class Probe(Recorder):
    """One schedule by priorities that are drawn: warps far ahead of others, copies early or late."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.ranks: dict[str, float] = {}
        super().__init__()

    def pick(self, agents: Sequence[Agent], enabled: Sequence[Agent]) -> Agent | None:
        def rank(agent: Agent) -> float:
            key = agent.name if agent.lanes else "copies"
            if key not in self.ranks or self.random.random() < 0.05:
                self.ranks[key] = self.random.random()
            return self.ranks[key]

        return min(enabled, key=rank)


class _Node:
    """A place where somebody was chosen."""

    __slots__ = ("agents", "backtrack", "chosen", "done", "launch", "sleep")

    def __init__(self, agents: dict[str, Agent], sleep: dict[str, Agent], launch: int):
        self.agents, self.sleep, self.launch = agents, sleep, launch
        self.done: set[str] = set()
        self.backtrack: set[str] = set()
        self.chosen = ""


def _same(a: Agent, b: Agent | None) -> bool:
    """Whether an agent is about to do the same as before."""
    if b is None or a.lanes != b.lanes or a.status != b.status or len(a.operations) != len(b.operations):
        return False
    return all(
        x.on == y.on and x.kind is y.kind and x.arg == y.arg for x, y in zip(a.operations, b.operations, strict=True)
    )


def _independent(a: Agent, b: Agent) -> bool:
    return not any(dependent(x, y) for x in a.operations for y in b.operations)


class Search(Recorder):
    """The strategy that tries every order. `advance` makes the choices of the next run, until there are none left."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self.orders: set[int] = set()
        self._replayed = 0
        super().__init__()

    def begin(self) -> None:
        super().begin()
        self.order = Order()
        self._depth = self._launch = 0
        self._replayed = len(self.nodes)
        self._before: dict[str, Agent] = {}
        self._copies: set[str] = set()

    # --- a run ------------------------------------------------------------------------------------------------------

    def started(self, kernel: str, blocks: int) -> None:
        super().started(kernel, blocks)
        self.order.launched()
        self._launch += 1
        self._before = {}
        self._copies = set()

    def opened(self, block: int) -> None:
        super().opened(block)
        self.order.opened(block)

    def done(self, event: Event) -> None:
        super().done(event)
        self.order.add(event)

    def pick(self, agents: Sequence[Agent], enabled: Sequence[Agent]) -> Agent | None:
        by_name = {a.name: a for a in agents}
        self._enter_copies(agents)
        depth, self._depth = self._depth, self._depth + 1
        if depth < self._replayed:
            self._before = by_name
            node = self.nodes[depth]
            chosen = by_name.get(node.chosen)
            if depth == self._replayed - 1 and chosen is not None:
                # The last choice is a new one.
                self._look_back(chosen, depth)
            if chosen is None or not chosen.enabled or not _same(chosen, node.agents[chosen.name]):
                raise FlyRuntimeError(
                    f"the call does not run the same way twice: {node.chosen} does something else at step {depth}. "
                    "What it does must depend on its arguments alone, and arrays that kernels write must be arguments"
                )
            return chosen
        for agent in agents:
            # What is done is looked at when it is done; what may lose its chance, at once.
            if not agent.enabled:
                self._look_back(agent, depth, _same(agent, self._before.get(agent.name)))
        self._before = by_name
        node = _Node(by_name, self._sleep(by_name), self._launch)
        awake = [a for a in enabled if a.name not in node.sleep]
        if not awake:
            return None
        self._look_back(awake[0], depth)
        node.chosen = awake[0].name
        node.backtrack.add(node.chosen)
        self.nodes.append(node)
        return awake[0]

    def stuck(self, agents: Sequence[Agent]) -> None:
        """Those that wait for ever might have passed earlier."""
        for agent in agents:
            self._look_back(agent, self._depth)

    def _enter_copies(self, agents: Sequence[Agent]) -> None:
        """Copies that a barrier or a start let threads issue."""
        for a in agents:
            if not a.lanes and a.name not in self._copies:
                self._copies.add(a.name)
                self.order.issued(a.block, [a.name])

    def _sleep(self, by_name: dict[str, Agent]) -> dict[str, Agent]:
        """Those whose turn was tried before, and to whom the last step made no difference."""
        if not self.nodes or self.nodes[-1].launch != self._launch:
            return {}
        parent = self.nodes[-1]
        chosen = parent.agents[parent.chosen]
        asleep = {**parent.sleep, **{name: parent.agents[name] for name in parent.done if name != parent.chosen}}
        # Arrivals that the last step moved into the next phase are no longer independent of it.
        return {
            name: by_name[name]
            for name, agent in asleep.items()
            if name in by_name and _same(by_name[name], agent) and _independent(by_name[name], chosen)
        }

    def _look_back(self, agent: Agent, depth: int, unchanged: bool = False) -> None:
        """Note where an operation that is due might have been done earlier: before each step that it depends on and
        that nothing in between orders it behind.
        """
        known = self.order.of(agent)
        steps: dict[int, bool] = {}
        for o in agent.operations:
            for i, other in reversed(self.order.touched.get(o.on, ())):
                if unchanged and i < depth - 1:
                    break
                if not known >> i & 1 and dependent(other, o):
                    steps[i] = steps.get(i, True) and self._possible(agent, o, other, i)
        between = known
        for i, possible in steps.items():
            if possible:
                between |= self.order.before[i] & ~(1 << i)
        for i, possible in steps.items():
            if possible and not between >> i & 1:
                self._note(i, agent)

    def _possible(self, agent: Agent, o: Operation, other: Operation, i: int) -> bool:
        """Whether an operation could have been done in front of step `i`."""
        if o.kind in WAITS and other.kind is not o.kind and other.kind.name != "INIT":
            return o.enabled_in(other.phase)
        if o.kind in POLLS:
            then = self._agent_at(i, agent)
            if then is not None and not then.enabled and _same(then, agent):
                return False
        return True

    def _agent_at(self, i: int, agent: Agent) -> Agent | None:
        """The same lanes, or copy, at an earlier node."""
        if not agent.lanes:
            return self.nodes[i].agents.get(agent.name)
        for then in self.nodes[i].agents.values():
            if then.block == agent.block and then.warp == agent.warp and then.lanes & agent.lanes:
                return then
        return None

    def _note(self, i: int, agent: Agent) -> None:
        """Try, at node `i`, a run in which the agent's operation comes before step `i`.

        Such runs begin with a step that needs neither step `i` nor another one behind it; if none of those is to be
        tried at the node yet, one is noted.
        """
        node, before = self.nodes[i], self.order.before
        behind = [j for j in range(i + 1, len(before)) if not before[j] >> i & 1]
        mask = sum(1 << j for j in behind)
        first = [self.nodes[j].agents[self.nodes[j].chosen] for j in behind if not before[j] & mask & ~(1 << j)]
        if not self.order.needs(agent) & mask:
            first.append(agent)
        names = [then.name for then in (self._agent_at(i, a) for a in first) if then is not None and then.enabled]
        if any(name in node.backtrack for name in names):
            return
        node.backtrack.update(names[:1] or [name for name, a in node.agents.items() if a.enabled])

    # --- between runs -----------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Make the next run's choices; False where all were made."""
        if not self.abandoned:
            self.orders.add(self.order.hash)
        while self.nodes:
            node = self.nodes[-1]
            node.done.add(node.chosen)
            left = sorted(node.backtrack - node.done - node.sleep.keys())
            if left:
                node.chosen = left[0]
                return True
            self.nodes.pop()
        return False

    @property
    def left(self) -> int:
        """Choices that are known and were not made."""
        return sum(len(node.backtrack - node.done - node.sleep.keys() - {node.chosen}) for node in self.nodes)
