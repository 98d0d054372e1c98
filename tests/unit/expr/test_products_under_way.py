"""Accumulators of `wgmma` before, at and behind waits, against what the hardware does with groups of products."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLRuntimeError

from .conftest import trace_text

nv = fx.nvgpu
Event = tuple[Any, ...]
"""("product", i), ("commit",), ("wait", n, numbers named), ("use", i), ("loop", events)."""


def operand(base: fx.Pointer, first: int) -> fx.Tensor:
    return fx.make_view(base + first, fx.make_layout(((8, 8), (8, 2)), ((8, 64), (1, 512))))


def run(body: Callable[[list[fx.Tensor], Callable[[int], None]], None]) -> str:
    """The IR of a kernel with two accumulators; `body` gets them and a product into one of them."""

    @flyc.kernel
    def kernel(y: fx.Tensor):
        base = fx.get_dyn_shared(fx.Float16)
        mma = fx.make_tiled_mma(
            fx.make_mma_atom(nv.WGMMA(16, 16, fx.Float16, fx.Float32)), fx.make_layout((1, 1, 1), (0, 0, 0))
        )
        mine = mma.get_slice(fx.thread_idx.x)
        left = mine.partition_A(operand(base, 0))
        right = mine.partition_B(fx.make_view(base + 1024, fx.make_layout(((8, 2), (8, 2)), ((8, 64), (1, 128)))))
        out = fx.make_view(fx.get_iter(y), fx.make_layout((64, 16), (16, 1)))
        sums = [mine.make_fragment_C(out) for _ in range(2)]
        for acc in sums:
            acc.fill(0)
        body(sums, lambda i: fx.gemm(mma, sums[i], left, right, sums[i]))

    @flyc.jit
    def launch(y: fx.Tensor):
        kernel(y).launch(block=128, smem=4096)

    import numpy as np

    return trace_text(launch, np.zeros(1024, np.float32), target="cuda:sm_90a")


def waits(text: str) -> list[int]:
    """How many tensors each wait names."""
    return [len(re.findall("%", found)) for found in re.findall(r'wgmma_wait"\((.*?)\)', text)]


def use(acc: fx.Tensor) -> None:
    acc.store(acc.load() * 2.0)


def emit(events: list[Event], sums: list[fx.Tensor], multiply: Callable[[int], None]) -> None:
    for what, *rest in events:
        if what == "product":
            multiply(rest[0])
        elif what == "commit":
            nv.wgmma_commit()
        elif what == "wait":
            nv.wgmma_wait(rest[0], *(sums[i] for i in rest[1]))
        elif what == "use":
            use(sums[rest[0]])
        else:
            loop(rest[0], sums, multiply)


@flyc.jit
def loop(events: list[Event], sums: list[fx.Tensor], multiply: Callable[[int], None]):
    for _ in range(fx.thread_idx.x):
        emit(events, sums, multiply)


def unrolled(events: list[Event], counts: Iterator[int]) -> Iterator[Event]:
    for event in events:
        if event[0] == "loop":
            for _ in range(next(counts)):
                yield from event[1]
        else:
            yield event


def wrong_ways(events: list[Event]) -> list[bool]:
    """Whether a program is wrong, for all numbers of iterations of its loops."""
    loops = sum(event[0] == "loop" for event in events)
    return [is_wrong(events, iter(counts)) for counts in product(range(1, 4), repeat=loops)]


def is_wrong(events: list[Event], counts: Iterator[int]) -> bool:
    """Whether something is used while its products run: groups end in order, all but the youngest at a wait."""
    groups: list[set[int]] = []
    ready: set[int] = set()
    for what, *rest in unrolled(events, counts):
        if what == "product":
            ready.add(rest[0])
        elif what == "commit":
            groups.append(ready)
            ready = set()
        elif what == "wait":
            if ready:  # the compiler closes it
                groups.append(ready)
                ready = set()
            groups = groups[max(0, len(groups) - rest[0]) :]
        elif rest[0] in ready.union(*groups):
            return True
    return False


def draw(rng: random.Random, deep: bool = False) -> list[Event]:
    made: list[Event] = []
    for _ in range(rng.randint(2, 6)):
        what = rng.choice(("product", "product", "commit", "wait", "wait", "use", *(() if deep else ("loop",))))
        if what == "wait":
            made.append((what, rng.randint(0, 2), tuple(i for i in range(2) if rng.random() < 0.5)))
        elif what == "loop":
            made.append((what, draw(rng, deep=True)))
        else:
            made.append((what,) if what == "commit" else (what, rng.randrange(2)))
    return made


def test_random_programs_are_refused_if_they_are_wrong():
    rng = random.Random()
    seen = {True: 0, False: 0}
    for _ in range(70):
        events = draw(rng)
        wrong = wrong_ways(events)
        seen[all(wrong)] += 1
        try:
            run(lambda sums, multiply, events=events: emit(events, sums, multiply))
        except DSLRuntimeError as error:
            assert "under way" in str(error) and any(wrong), events
        else:
            assert not all(wrong), events
    assert all(seen.values()), seen


def test_a_wait_gets_the_accumulators_that_are_used_behind_it():
    def body(sums: list[fx.Tensor], multiply: Callable[[int], None]) -> None:
        multiply(0)
        multiply(1)
        nv.wgmma_wait(0)
        use(sums[1])
        nv.wgmma_wait(0)

    assert waits(run(body)) == [1, 0]


def test_a_wait_that_names_them_stays_as_it_is():
    def body(sums: list[fx.Tensor], multiply: Callable[[int], None]) -> None:
        multiply(0)
        multiply(1)
        nv.wgmma_wait(0, *sums)
        use(sums[0])
        use(sums[1])

    assert waits(run(body)) == [2]


def test_both_branches_wait():
    def body(sums: list[fx.Tensor], multiply: Callable[[int], None]) -> None:
        multiply(0)
        branch(sums)
        use(sums[0])

    @flyc.jit
    def branch(sums: list[fx.Tensor]):
        if fx.thread_idx.x < 3:
            nv.wgmma_wait(0, sums[0])
        else:
            nv.wgmma_wait(0)

    assert waits(run(body)) == [1, 1]


def test_pieces_of_a_fragment_are_accumulators_of_their_own():
    """One half is read while the other is computed."""

    def body(sums: list[fx.Tensor], multiply: Callable[[int], None]) -> None:
        multiply(0)
        nv.wgmma_commit()
        multiply(1)
        nv.wgmma_wait(1, sums[0])
        use(sums[0])
        nv.wgmma_wait(0, sums[1])

    assert waits(run(body)) == [1, 1]


@pytest.mark.parametrize("how", ["view", "copy", "fill"])
def test_whatever_touches_the_registers_counts(how: str):
    def body(sums: list[fx.Tensor], multiply: Callable[[int], None]) -> None:
        multiply(0)
        if how == "view":
            fx.make_view(fx.get_iter(sums[0]) + 2, fx.make_layout(2, 1))[0] = fx.Float32(1)
        elif how == "copy":
            fx.copy(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32), sums[0], sums[1])
        else:
            sums[0].fill(1)

    with pytest.raises(DSLRuntimeError, match=r"no wgmma_wait stands in between.*wgmma_wait\(0, acc\)"):
        run(body)


@pytest.mark.parametrize("how", ["assembly", "intrinsic"])
def test_waits_written_as_text_are_believed(how: str):
    def body(sums: list[fx.Tensor], multiply: Callable[[int], None]) -> None:
        multiply(0)
        nv.wgmma_commit()
        if how == "assembly":
            fx.inline_asm(None, [], "wgmma.wait_group.sync.aligned 0;", "~{memory}", has_side_effects=True)
        else:
            fx.llvm_intrinsic(None, "llvm.nvvm.wgmma.wait_group.sync.aligned", [fx.Int64(0)])
        use(sums[0])

    run(body)


def test_the_wait_that_leaves_them_running_is_named():
    def body(sums: list[fx.Tensor], multiply: Callable[[int], None]) -> None:
        multiply(0)
        nv.wgmma_wait(1, sums[0])
        use(sums[0])

    with pytest.raises(DSLRuntimeError, match=r"wgmma_wait\(1\) in line \d+ leaves their group running") as caught:
        run(body)
    assert "use(sums[0])" in "".join(caught.value.__notes__)
