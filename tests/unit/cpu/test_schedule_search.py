"""The search for schedules against all interleavings: whatever can come out of a program, one of its runs shows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flydsl.cpu.schedules.agents import Agent, Event, Strategy
from flydsl.cpu.schedules.findings import decode, encode
from flydsl.cpu.schedules.operations import WAITS, Kind, Object, Operation, dependent
from flydsl.cpu.schedules.search import Probe, Recorder, Replay, Search
from flydsl.errors import DSLValueError

Instruction = tuple[Kind, int, int]
"""What is done, the number of the word or barrier, and a value or parity."""
Outcome = tuple[object, ...]
COUNT = 2
"""Arrivals of a phase of a barrier."""
_OBJECTS = {
    Kind.ARRIVE: "mbarrier",
    Kind.WAIT: "mbarrier",
    Kind.NAMED_ARRIVE: "named barrier",
    Kind.NAMED_WAIT: "named barrier",
}


class Machine:
    """Threads with straight programs over words and mbarriers."""

    def __init__(self, programs: Sequence[Sequence[Instruction]]):
        self.programs = programs
        self.at = [0] * len(programs)
        self.words = [0, 0]
        self.arrived = [0, 0]
        self.named = [0, 0]
        self.joined = [(0, -1)] * len(programs)
        self.seen: list[list[int]] = [[] for _ in programs]

    def copy(self) -> Machine:
        made = Machine(self.programs)
        made.at, made.words, made.arrived = list(self.at), list(self.words), list(self.arrived)
        made.named, made.joined = list(self.named), list(self.joined)
        made.seen = [list(s) for s in self.seen]
        return made

    def key(self) -> tuple[object, ...]:
        return (*self.at, *self.words, *self.arrived, *self.named, *self.joined, *map(tuple, self.seen))

    def agents(self) -> list[Agent]:
        made: list[Agent] = []
        for i, (program, at) in enumerate(zip(self.programs, self.at, strict=True)):
            if at == len(program):
                continue
            kind, number, value = program[at]
            if kind is Kind.NAMED_WAIT:
                number, value = self.joined[i]
            on: Object = (_OBJECTS.get(kind, "global memory"), 0, number)
            counts = {"mbarrier": self.arrived, "named barrier": self.named}.get(on[0])
            phase = 0 if counts is None else counts[number] // COUNT
            operation = Operation(kind, on, value, 0, phase)
            enabled = kind not in WAITS or operation.enabled_in(phase)
            made.append(Agent(f"b0.w{i}", 0, i, 1, at + 1, (operation,), enabled, "here:1"))
        return made

    def step(self, agent: Agent) -> None:
        kind, number, value = self.programs[agent.warp][self.at[agent.warp]]
        self.at[agent.warp] += 1
        if kind is Kind.ARRIVE:
            self.arrived[number] += 1
        elif kind is Kind.NAMED_ARRIVE:
            self.joined[agent.warp] = (number, self.named[number] // COUNT)
            self.named[number] += 1
        elif kind is Kind.STORE:
            self.words[number] = value
        elif kind is Kind.UPDATE:
            self.words[number] += value
        elif kind not in WAITS:
            self.seen[agent.warp].append(self.words[number])
            if kind is Kind.EXCHANGE:
                self.words[number] = value

    def outcome(self) -> Outcome:
        return self.key()

    def run(self, strategy: Strategy) -> None:
        strategy.started("machine", 1)
        while True:
            agents = self.agents()
            if not any(a.enabled for a in agents):
                strategy.stuck(agents)
                return
            chosen = strategy.choose(agents)
            if chosen is None:
                return
            self.step(chosen)
            strategy.done(Event(chosen))


def all_outcomes(programs: Sequence[Sequence[Instruction]]) -> set[Outcome]:
    """By every interleaving."""
    found, known, todo = set[Outcome](), set[tuple[object, ...]](), [Machine(programs)]
    while todo:
        machine = todo.pop()
        if machine.key() in known:
            continue
        known.add(machine.key())
        enabled = [a for a in machine.agents() if a.enabled]
        if not enabled:
            found.add(machine.outcome())
        for agent in enabled:
            following = machine.copy()
            following.step(agent)
            todo.append(following)
    return found


def searched(programs: Sequence[Sequence[Instruction]]) -> tuple[set[Outcome], int, Search]:
    """By the search: outcomes, runs, and the search."""
    search, found, runs = Search(), set[Outcome](), 0
    while True:
        machine = Machine(programs)
        search.begin()
        machine.run(search)
        runs += 1
        if not search.abandoned:
            found.add(machine.outcome())
        if not search.advance():
            return found, runs, search
        assert runs < 5000


KINDS = st.sampled_from([Kind.STORE, Kind.LOAD, Kind.UPDATE, Kind.EXCHANGE, *_OBJECTS])
INSTRUCTIONS = st.tuples(KINDS, st.integers(0, 1), st.integers(0, 1))
PROGRAMS = st.one_of(  # three agents of four steps each have more orders than a test has time for
    st.lists(st.lists(INSTRUCTIONS, min_size=1, max_size=4), min_size=2, max_size=2),
    st.lists(st.lists(INSTRUCTIONS, min_size=1, max_size=3), min_size=3, max_size=3),
)


@settings(max_examples=150, deadline=None)
@given(PROGRAMS)
def test_every_outcome_is_found(programs: list[list[Instruction]]):
    found, runs, search = searched(programs)
    assert found == all_outcomes(programs)
    assert len(search.orders) <= runs and search.left == 0


def test_threads_that_share_nothing_run_once():
    programs = [[(Kind.STORE, i, 1), (Kind.LOAD, i, 0)] for i in range(2)]
    found, runs, search = searched(programs)
    assert runs == 1 and len(found) == len(search.orders) == 1


def test_arrivals_of_one_phase_run_once():
    programs = [[(Kind.ARRIVE, 0, 0), (Kind.WAIT, 0, 0)] for _ in range(2)]
    assert searched(programs)[1] == 1


def test_one_thread_too_many_at_a_barrier_is_seen_to_hang():
    """Three arrivals at a barrier of two: who is late in the second phase waits for ever."""
    programs = [[(Kind.ARRIVE, 0, 0), (Kind.WAIT, 0, 0)] for _ in range(4)]
    assert searched(programs)[0] == all_outcomes(programs)
    assert len(all_outcomes(programs)) > 1


@given(st.lists(st.integers(0, 12)))
def test_schedules_are_written_and_read(decisions: list[int]):
    assert decode(encode(decisions)) == decisions


@pytest.mark.parametrize("text", ["0*3", "s1:x", "s1:1*y", "s1:-1"])
def test_what_is_no_schedule_is_refused(text: str):
    with pytest.raises(DSLValueError, match="schedule"):
        decode(text)


@given(PROGRAMS, st.integers(0, 100))
def test_a_replay_does_the_same(programs: list[list[Instruction]], seed: int):
    first, second = Machine(programs), Machine(programs)
    probe = Probe(seed)
    first.run(probe)
    replay = Replay(decode(probe.schedule))
    second.run(replay)
    assert first.outcome() == second.outcome() and replay.timeline.text() == probe.timeline.text()


def test_the_timeline_names_warps_and_lines():
    recorder = Recorder()
    Machine([[(Kind.ARRIVE, 0, 0), (Kind.WAIT, 0, 0)], [(Kind.ARRIVE, 0, 0)]]).run(recorder)
    timeline = recorder.timeline
    assert timeline.lanes == ["b0.w0", "b0.w1"] and len(timeline) == 3
    assert "mbarrier wait" in timeline.text() and "here:1" in timeline.text()
    page = timeline.html("a <run>")
    assert page.count("<circle") == 3 and "a &lt;run&gt;" in page


def test_what_depends_on_what():
    word: Object = ("global memory", 0, 4)
    store, load = Operation(Kind.STORE, word), Operation(Kind.LOAD, word)
    assert dependent(store, load) and dependent(store, store) and not dependent(load, load)
    assert not dependent(store, Operation(Kind.LOAD, ("global memory", 0, 8)))
    early, late = (Operation(Kind.ARRIVE, ("mbarrier", 0, 0), phase=p) for p in (0, 1))
    assert not dependent(early, early) and dependent(early, late)
