"""Every seeded hang or race is found by exploring schedules, its witness replays, and the mended kernel is clean."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError, FlyRuntimeError, KernelScheduleError

from .schedules import TEMPLATES, drawn

BUGS = [(name, bug) for name, template in TEMPLATES.items() for bug in template.bugs]


def test_there_are_many_bugs():
    assert len(BUGS) >= 90 and len({text for t in TEMPLATES.values() for text, _ in t.bugs.values()}) >= 80


@pytest.mark.parametrize("name", TEMPLATES)
def test_mended_kernel_is_clean(name: str, emulate: Callable[[str], None]):
    template = TEMPLATES[name]
    emulate(template.arch)
    x, y, bug = template.arguments(0)
    before = x.copy(), y.copy()
    report = flyc.explore_schedules(template.launch, x, y, bug, budget_s=60)
    assert report and report.complete, report
    assert np.array_equal(x, before[0]) and np.array_equal(y, before[1]), "arguments are as before"
    if template.expected is not None:
        template.launch(x, y, bug)
        assert np.array_equal(y, template.expected(x))


@pytest.mark.parametrize(("name", "bug"), BUGS)
def test_bug_is_found_and_replays(name: str, bug: int, emulate: Callable[[str], None]):
    template = TEMPLATES[name]
    emulate(template.arch)
    arguments = template.arguments(bug)
    report = flyc.explore_schedules(template.launch, *arguments, budget_s=60)
    words = template.bugs[bug][1]
    found = [f for f in report.findings if words in f.kind or words in f.text]
    assert found and not report, report
    assert f"{name}" in report.kernels[0] and ".py:" in (found[0].text + found[0].timeline.text())
    again = flyc.replay_schedule(template.launch, *arguments, schedule=found[0].schedule)
    assert found[0].kind in [f.kind for f in again.findings], again
    assert again.timeline.text() == found[0].timeline.text()


# --- the search leaves nothing to luck --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_search_alone_finds_every_bug(name: str, emulate: Callable[[str], None]):
    """Schedules by drawn priorities find most mistakes sooner, and would hide it if the search passed some over."""
    template = TEMPLATES[name]
    emulate(template.arch)
    missed = [bug for bug in template.bugs if not drawn.by_search(template.launch, template.arguments(bug), 2000)[0]]
    assert not missed


def test_what_drawn_schedules_show_the_search_finds(emulate: Callable[[str], None]):
    emulate("sm_90a")
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    wrong = clean = 0
    for choices in {drawn.draw(rng) for _ in range(80)} | {drawn.Choices()}:
        found, complete = drawn.by_search(drawn.launch, drawn.arguments(choices), 400)
        shown = drawn.by_luck(drawn.launch, drawn.arguments(choices), 10, rng)
        assert found or (complete and not shown), f"{choices} (seed {seed}): {shown or 'not all orders were tried'}"
        wrong, clean = wrong + found, clean + complete
    assert wrong > 5 and clean > 1


# --- what is said -----------------------------------------------------------------------------------------------------


def opposite_locks() -> tuple[Any, ...]:
    return (TEMPLATES["locks"].launch, *TEMPLATES["locks"].arguments(1))


def test_the_report_says_what_was_not_tried(emulate: Callable[[str], None]):
    emulate("native")
    clean = flyc.explore_schedules(TEMPLATES["locks"].launch, *TEMPLATES["locks"].arguments(0))
    assert "nothing found" in repr(clean) and "every order" in repr(clean) and "not covered: " in repr(clean)
    assert "looked at in each: 0 barrier(s) of a block, " in repr(clean)
    short = flyc.explore_schedules(TEMPLATES["locks"].launch, *TEMPLATES["locks"].arguments(0), budget_s=0)
    assert not short.complete and "the time was over" in repr(short)
    report = flyc.explore_schedules(*opposite_locks())
    assert "1 finding(s)" in repr(report) and report.findings[0].schedule in repr(report)


def test_a_witness_is_a_page_and_a_text(emulate: Callable[[str], None]):
    emulate("native")
    timeline = flyc.explore_schedules(*opposite_locks()).findings[0].timeline
    assert timeline.lanes == ["b0.w0", "b1.w0"]
    stuck = [line for line in timeline.text().splitlines() if line[4] == "!"]
    assert len(stuck) == 2 and all("flags.py:" in line for line in stuck)
    page = timeline.html()
    assert page.startswith("<!doctype html>") and page.count("<circle") == len(timeline)


def test_all_findings_can_be_asked_for(emulate: Callable[[str], None]):
    emulate("native")
    report = flyc.explore_schedules(*opposite_locks(), stop_at_first=False)
    assert report.complete and [f.kind for f in report.findings] == ["deadlock"]


def test_results_that_depend_on_the_order_may_be_meant(emulate: Callable[[str], None]):
    emulate("native")
    call = TEMPLATES["locks"].launch, *TEMPLATES["locks"].arguments(6)
    assert [f.kind for f in flyc.explore_schedules(*call).findings] == ["order"]
    assert flyc.explore_schedules(*call, compare_results=False).complete


def test_calls_are_explored_by_an_environment_variable(emulate: Callable[[str], None], monkeypatch: pytest.MonkeyPatch):
    emulate("native")
    launch, *_ = opposite_locks()
    x, y, _ = TEMPLATES["locks"].arguments(0)
    launch(x, y, 0)
    launch(x, y, 0)
    monkeypatch.setenv("FLYDSL_RUNTIME_CPU_SCHEDULES", "20")
    x, y, _ = TEMPLATES["locks"].arguments(0)
    launch(x, y, 0)
    assert y[0] == 2
    with pytest.raises(KernelScheduleError, match=r"deadlock(.|\n)*schedule s1:(.|\n)*b1\.w0"):
        launch(x, y, 1)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_schedule_of_another_call_is_refused(emulate: Callable[[str], None]):
    emulate("native")
    with pytest.raises(FlyRuntimeError, match="makes choice 9 of 2 at decision 0"):
        flyc.replay_schedule(*opposite_locks(), schedule="s1:9")
    with pytest.raises(DSLValueError, match="begins with 's1:'"):
        flyc.replay_schedule(*opposite_locks(), schedule="")


def test_other_backends_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    with pytest.raises((DSLValueError, FlyRuntimeError)):
        flyc.explore_schedules(lambda: None)


def test_what_cannot_be_called_is_refused(emulate: Callable[[str], None]):
    emulate("native")
    with pytest.raises(DSLTypeError, match="another callable, got 3"):
        flyc.explore_schedules(3)  # pyright: ignore[reportArgumentType]


@flyc.kernel
def counted(x: fx.Tensor):
    fx.atomic_add(fx.get_iter(x), 1)


@flyc.jit
def count(x: fx.Tensor, blocks: fx.Int32):
    counted(x).launch(grid=blocks, block=32)


def test_too_many_blocks_are_refused(emulate: Callable[[str], None]):
    emulate("native")
    with pytest.raises(ValueError, match="at most 64 blocks can be explored, counted_0 was launched with 65"):
        flyc.explore_schedules(count, np.zeros(1, np.int32), 65)


_CALLS = [0]


def test_calls_that_differ_are_refused(emulate: Callable[[str], None]):
    emulate("native")

    @flyc.kernel
    def kernel(x: fx.Tensor, late: fx.Int32):
        if fx.thread_idx.x == 0:
            if fx.block_idx.x == late:
                fx.atomic_xchg(fx.get_iter(x), 1)
            fx.atomic_xchg(fx.get_iter(x), 2 + fx.block_idx.x)

    @flyc.jit
    def run(x: fx.Tensor, late: fx.Int32):
        kernel(x, late).launch(grid=2, block=32)

    def moody(x: Any) -> None:
        _CALLS[0] += 1
        run(x, 0 if _CALLS[0] < 8 else 7)

    _CALLS[0] = 0
    with pytest.raises(FlyRuntimeError, match="does not run the same way twice"):
        flyc.explore_schedules(moody, np.zeros(1, np.int32), compare_results=False)


# --- looking again and again ------------------------------------------------------------------------------------------


@flyc.kernel
def looking(x: fx.Tensor, plain: fx.Constexpr[bool]):
    """Block 0 looks at a word that block 1 writes: until it has changed, or twenty times."""
    word = fx.get_iter(x)
    if fx.thread_idx.x == 0:
        if fx.block_idx.x == 0:
            if fx.const_expr(plain):
                while x[0] == 0:
                    pass
            else:
                seen = fx.Int32(0)
                for _ in range(20):
                    seen = seen + fx.generic_load(word + 1, memory_order=fx.AtomicOrdering.Acquire)
                x[2] = seen + 1
        else:
            fx.generic_store(word, 1, memory_order=fx.AtomicOrdering.Release)


@flyc.jit
def look(x: fx.Tensor, plain: fx.Constexpr[bool]):
    looking(x, plain).launch(grid=2, block=32)


def test_a_plain_flag_is_a_race_and_no_endless_loop(emulate: Callable[[str], None]):
    emulate("native")
    report = flyc.explore_schedules(look, np.zeros(4, np.int32), True)
    assert "race on the tensor" in report.findings[0].text, report


def test_a_limited_number_of_looks_is_no_deadlock(emulate: Callable[[str], None]):
    emulate("native")
    x = np.zeros(4, np.int32)
    assert flyc.explore_schedules(look, x, False).complete
    assert not flyc.replay_schedule(look, x, False, schedule="s1:").findings and x[2] == 1


# --- a conditional without a then-branch ------------------------------------------------------------------------------


@flyc.kernel
def nothing_or_barrier(x: fx.Tensor, which: fx.Int32):
    if which == fx.thread_idx.x:
        pass
    else:
        fx.barrier()
    x[fx.thread_idx.x] = 1


@flyc.jit
def run_nothing_or_barrier(x: fx.Tensor, which: fx.Int32):
    nothing_or_barrier(x, which).launch(grid=1, block=64)


def test_an_empty_branch_beside_a_barrier(emulate: Callable[[str], None]):
    emulate("native")
    x = np.zeros(64, np.int32)
    run_nothing_or_barrier(x, 5)
    assert x.sum() == 64


# --- what hangs here hangs on a GPU -----------------------------------------------------------------------------------

HANGS = {
    "full_and_empty": (4, 5, 7, 11, 14, 19, 21),
    "two_named_barriers": (1, 2, 6),
    "uneven_loops": (1, 2),
    "flag_between_blocks": (4, 5),
}
"""Of the deadlocks those that need no particular order."""
AT_ONCE = 5
"""Processes that share the GPU: it gives each of them a slice of its time, so that one that hangs holds up nobody."""


def on_a_gpu(name: str, bug: int, seconds: float) -> str:
    """The last word of a process that runs the mended kernel and then the other one, which gets some seconds."""
    script = Path(__file__).parent / "schedules" / "on_device.py"
    environment = {**os.environ, "FLYDSL_COMPILE_BACKEND": "cuda"}
    environment.pop("FLYDSL_COMPILE_ARCH", None)
    command = [sys.executable, str(script), name, str(bug)]
    with TemporaryFile("w+") as errors:
        said: list[str] = []
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as child:
            # Whatever it waits for, it ends: first for the start of Python and the compiler, then for the kernel.
            timer = Timer(60, child.kill)
            timer.start()
            assert child.stdout is not None
            for line in child.stdout:
                said.append(line.strip())
                if said[-1] == "launched":
                    timer.cancel()
                    timer = Timer(seconds, child.kill)
                    timer.start()
            child.wait()
            timer.cancel()
        if "mended" not in said:
            errors.seek(0)
            return f"did not come to the launch: {errors.read()[-500:]}"
    return said[-1]


@pytest.mark.cuda
def test_deadlocks_hang_on_a_gpu():
    cases = [(name, bug) for name, bugs in HANGS.items() for bug in bugs]
    assert all(TEMPLATES[name].bugs[bug][1] == "deadlock" for name, bug in cases) and len(cases) >= 10
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = list(pool.map(lambda case: on_a_gpu(case[0], case[1], 4), cases))
    wrong = {case: end for case, end in zip(cases, ends, strict=True) if end != "launched"}
    assert not wrong
