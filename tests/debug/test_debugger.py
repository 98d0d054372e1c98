"""Breakpoints, steps in both directions, variables by name, watched cells, on kernels whose course is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.debug.debugger import Breakpoint, Command, Debugger, Quit, Stop
from flydsl.debug.inquiry import inquire
from flydsl.debug.memory import Watch
from flydsl.debug.variables import TensorView, cell, evaluate, frames_of, variables
from flydsl.errors import DSLValueError, KernelCheckError

N = 40
Debug = Callable[..., tuple[Any, Debugger]]


def line_of(comment: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


def square(x):
    y = x * x  # square
    return y  # squared


@flyc.kernel
def sums_kernel(a: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 32]).peek()  # first
    t = fx.thread_idx.x
    i = fx.block_idx.x * 32 + t
    total = fx.Float32(0.0)
    tile[t] = a[i] if i < n else 0.0  # fill
    fx.barrier()  # barrier
    for j in range(3):
        total = total + square(tile[(t + j) % 32])  # add
    if i < n:
        out[i] = total  # store
    t = t  # last


@flyc.jit
def sums(a: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    sums_kernel(a, out, n).launch(grid=fx.ceildiv(n, 32), block=32)


@pytest.fixture
def arrays(rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return rng.integers(1, 9, N).astype(np.float32), np.zeros(N, np.float32)


def wanted(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    padded = np.zeros(64, np.float32)
    padded[:N] = a
    rows = (padded**2).reshape(2, 32)
    return (rows + np.roll(rows, -1, 1) + np.roll(rows, -2, 1)).reshape(-1)[:N]


def at(comment: str, condition: str = "", every: int = 1) -> Breakpoint:
    return Breakpoint(__file__, line_of(comment), condition, every)


def here(stop: Stop) -> tuple[int, int, int]:
    """Line, block and thread of a stop."""
    return frames_of(stop.thread)[0].site.line, stop.thread.block.number, stop.thread.tid


def go(move: Any) -> Callable[[Debugger, Stop], Command]:
    return lambda debugger, stop: Command(move)


def test_a_condition_on_thread_and_block_stops_once(debug: Debug, arrays: Any):
    a, out = arrays
    seen: dict[str, Any] = {}

    def look(debugger: Debugger, stop: Stop) -> Command:
        frame = frames_of(stop.thread)[0]
        values = variables(stop.thread, frame)
        seen.update({k: values[k] for k in ("t", "i", "n", "total")})
        tile = values["tile"]
        assert isinstance(tile, TensorView) and tile.space == "shared" and "32:1" in str(tile)
        seen["tile"] = tile.array()
        seen["a"] = np.asarray(values["a"])
        seen["expression"] = evaluate(stop.thread, frame, "tile[t] * 2 + tx + np.max(a)")
        return Command("continue")

    script, debugger = debug(
        lambda: sums(a, out, N), lambda d: d.set_breakpoints([at("store", "thread == 5 and bx == 1")]), [look]
    )
    assert script.places == [(line_of("store"), 1, 5)] and debugger.breakpoints[0].hits == 1
    assert (seen["t"], seen["i"], seen["n"], seen["total"]) == (5, 37, N, wanted(a)[37])
    block = np.concatenate([a[32:], np.zeros(24, np.float32)])
    assert seen["tile"].tolist() == block.tolist() and seen["a"].tolist() == a.tolist()
    assert seen["expression"] == block[5] * 2 + 5 + a.max()
    np.testing.assert_array_equal(out, wanted(a))


def test_stepping_over_into_and_out(debug: Debug, arrays: Any):
    a, out = arrays
    moves = ["over", "over", "in", "over", "continue"]
    script, _ = debug(
        lambda: sums(a, out, N), lambda d: d.set_breakpoints([at("add", "thread == 3 and block == 0", every=3)]),
        [go(m) for m in moves],
    )  # fmt: skip
    # The third hit is the last round of the loop: behind the call comes the branch.
    store = line_of("store")
    lines = [line_of("add"), store - 1, store, line_of("last")]
    assert script.places[:4] == [(line, 0, 3) for line in lines]
    # There is no line behind the last one: the next thread's is shown.
    assert script.places[4][1:] == (0, 4) and "has ended" in script.stops[4].text
    np.testing.assert_array_equal(out, wanted(a))


def test_a_function_that_is_stepped_into_has_its_caller_above_it(debug: Debug, arrays: Any):
    a, out = arrays
    chains: list[list[tuple[str, int]]] = []

    def chain(move: Any) -> Callable[[Debugger, Stop], Command]:
        def answer(debugger: Debugger, stop: Stop) -> Command:
            frames = frames_of(stop.thread)
            chains.append([(f.site.function, f.site.line) for f in frames])
            if len(frames) == 2:
                assert variables(stop.thread, frames[0])["x"] == a[3]
                assert variables(stop.thread, frames[1])["i"] == 3
            return Command(move)

        return answer

    debug(
        lambda: sums(a, out, N), lambda d: d.set_breakpoints([at("add", "thread == 3 and i == 3 and j == 0")]),
        [chain("in"), chain("in"), chain("out"), chain("continue")],
    )  # fmt: skip
    add = ("sums_kernel", line_of("add"))
    assert chains[:3] == [[add], [("square", line_of("square")), add], [("square", line_of("squared")), add]]
    assert len(chains[3]) == 1


def test_stepping_back_undoes_memory(debug: Debug, arrays: Any):
    a, out = arrays
    states: list[tuple[int, list[float], float]] = []

    def note(move: Any) -> Callable[[Debugger, Stop], Command]:
        def answer(debugger: Debugger, stop: Stop) -> Command:
            value = variables(stop.thread, frames_of(stop.thread)[0])["total"]
            states.append((here(stop)[0], out.tolist(), float(value)))
            return Command(move)

        return answer

    script, _ = debug(
        lambda: sums(a, out, N), lambda d: d.set_breakpoints([at("last", "thread == 7 and block == 1")]),
        [note("back"), note("back"), note("over"), note("over"), note("continue")],
    )  # fmt: skip
    assert [s[0] for s in states] == [line_of(x) for x in ("last", "store")] + [
        line_of("store") - 1, line_of("store"), line_of("last"),
    ]  # fmt: skip
    assert states[0][1][39] == wanted(a)[39] and states[1][1][39] == 0 and states[4] == states[0]
    assert states[3] == states[1] and len({s[2] for s in states}) == 1
    np.testing.assert_array_equal(out, wanted(a))
    assert script.stops[-1].thread.tid == 7


def test_back_from_the_second_block_into_the_first(debug: Debug, arrays: Any):
    a, out = arrays
    found: list[tuple[int, int, int]] = []

    def back(debugger: Debugger, stop: Stop) -> Command:
        found.append(here(stop))
        return Command("reverse")

    def done(debugger: Debugger, stop: Stop) -> Command:
        found.append(here(stop))
        assert out[:32].any() == (stop.thread.tid > 0) and not out[32:].any()
        debugger.set_breakpoints([])
        return Command("continue")

    debug(
        lambda: sums(a, out, N), lambda d: d.set_breakpoints([at("store", "t == 9 or (t == 2 and block == 1)")]),
        [go("continue"), back, done],
    )  # fmt: skip
    assert found == [(line_of("store"), 1, 2), (line_of("store"), 0, 9)]
    np.testing.assert_array_equal(out, wanted(a))


def test_back_at_the_beginning_stays_there(debug: Debug, arrays: Any):
    a, out = arrays

    def prepare(debugger: Debugger) -> None:
        debugger.stop_at_entry = True

    script, _ = debug(lambda: sums(a, out, N), prepare, [go("back"), go("reverse"), go("continue")])
    assert script.places == [(line_of("first"), 0, 0)] * 3
    assert [s.reason for s in script.stops] == ["entry", "step", "step"]
    assert "the first line" in script.stops[1].text


def test_a_watched_cell_stops_its_writer(debug: Debug, arrays: Any):
    a, out = arrays

    def watch(debugger: Debugger, stop: Stop) -> Command:
        frame = frames_of(stop.thread)[0]
        debugger.set_watches([Watch(*cell(stop.thread, frame, "out[33]")), Watch(*cell(stop.thread, frame, "tile[4]"))])
        return Command("continue")

    def who(debugger: Debugger, stop: Stop) -> Command:
        frame = frames_of(stop.thread)[0]
        told = inquire(debugger, stop.thread, frame, "who tile[4]")
        assert told is not None and "thread (4, 0, 0) of block 1" in told and f":{line_of('fill')}" in told
        assert inquire(debugger, stop.thread, frame, "who = 3") is None
        assert "nobody has written a[0]" in str(inquire(debugger, stop.thread, frame, "who a[0]"))
        with pytest.raises(DSLValueError, match="expected an element of a tensor"):
            inquire(debugger, stop.thread, frame, "who total")
        with pytest.raises(DSLValueError, match="is no tensor"):
            inquire(debugger, stop.thread, frame, "who t[0]")
        return Command("continue")

    script, _ = debug(
        lambda: sums(a, out, N), lambda d: d.set_breakpoints([at("barrier", "thread == 0 and block == 1")]),
        [watch, go("continue"), who],
    )  # fmt: skip
    reasons = [(s.reason, place) for s, place in zip(script.stops, script.places, strict=True)]
    assert reasons == [
        ("breakpoint", (line_of("barrier"), 1, 0)),
        ("data breakpoint", (line_of("fill"), 1, 4)),
        ("data breakpoint", (line_of("store"), 1, 1)),
    ]
    assert "out[33] was written" in script.stops[2].text


def test_quitting_ends_the_call(debug: Debug, arrays: Any):
    a, out = arrays
    with pytest.raises(Quit):
        debug(lambda: sums(a, out, N), lambda d: d.set_breakpoints([at("fill", "thread == 9")]), [go("quit")])
    assert not out.any()
    sums(a, out, N)  # the process goes on, with compiled code
    np.testing.assert_array_equal(out, wanted(a))


def test_a_mistake_in_a_condition_stops_and_says_so(debug: Debug, arrays: Any):
    a, out = arrays

    def drop(debugger: Debugger, stop: Stop) -> Command:
        debugger.set_breakpoints([])
        return Command("continue")

    script, _ = debug(lambda: sums(a, out, N), lambda d: d.set_breakpoints([at("fill", "nothing > 3")]), [drop])
    assert "name 'nothing' is not defined" in script.stops[0].text and len(script.stops) == 1
    with pytest.raises(SyntaxError):
        Debugger(script).set_breakpoints([at("fill", "a b")])


def test_kernels_in_which_nothing_can_stop_run_compiled(debug: Debug, arrays: Any):
    a, out = arrays
    script, _ = debug(lambda: sums(a, out, N), lambda d: d.set_breakpoints([Breakpoint(__file__, 1)]), [])
    assert script.launches == 0 and not script.stops
    np.testing.assert_array_equal(out, wanted(a))


@flyc.kernel
def views_kernel(a: fx.Tensor, out: fx.Tensor, scale: fx.Float32):
    t = fx.thread_idx.x
    swizzle = fx.static(fx.SwizzleType.get(2, 0, 2))
    room = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 16]).peek()
    tile = fx.make_view(room.ptr, fx.make_composed_layout(swizzle, fx.make_layout((4, 4), (4, 1))))
    tile[t // 4, t % 4] = fx.Float16(a[t // 4, t % 4])
    fx.barrier()
    row = a[t // 4, None]
    values = row.load()
    parts = fx.make_rmem_tensor(fx.make_layout(4, 1), fx.Float32)
    parts.store(values * scale)
    pair = (t, {"scaled": parts[1], "code": fx.Float8E4M3FN(scale)})  # noqa: F841
    small = fx.Uint8(t) - 1  # noqa: F841
    flag = t > 3  # noqa: F841
    out[t] = parts[t % 4]  # views


def test_tensors_vectors_fragments_and_containers(debug: Debug, rng: np.random.Generator):
    @flyc.jit
    def run(a: fx.Tensor, out: fx.Tensor, scale: fx.Float32):
        views_kernel(a, out, scale).launch(grid=1, block=16)

    a, out = rng.integers(-4, 5, (4, 4)).astype(np.float32), np.zeros(16, np.float32)
    got: dict[str, Any] = {}

    def look(debugger: Debugger, stop: Stop) -> Command:
        got.update(variables(stop.thread, frames_of(stop.thread)[0]))
        got["tile_values"], got["parts_values"] = got["tile"].array(), got["parts"].array()
        got["row_values"], got["raw"] = got["row"].array(), got["room"].array()
        return Command("continue")

    debug(lambda: run(flyc.from_dlpack(a), out, 1.5), lambda d: d.set_breakpoints([at("views", "t == 6")]), [look])
    np.testing.assert_array_equal(got["tile_values"], a)
    assert got["raw"].tolist() != a.reshape(-1).tolist(), "the tile is swizzled"
    np.testing.assert_array_equal(got["row_values"].reshape(-1), a[1])
    np.testing.assert_array_equal(got["values"], a[1])
    np.testing.assert_array_equal(got["parts_values"], a[1] * np.float32(1.5))
    assert got["parts"].space == "register" and got["tile"].space == "shared" and got["a"].space == "global"
    assert got["pair"]["[0]"] == 6 and got["pair"]["[1]"] == {"scaled": a[1][1] * 1.5, "code": 1.5}
    assert got["small"] == 5 and got["flag"] is True and got["scale"] == np.float32(1.5)


@flyc.kernel
def outside_kernel(a: fx.Tensor, far: fx.Int64):
    type_ = fx.PointerType.get(fx.Float32.ir_type, fx.AddressSpace.Global)
    t = fx.thread_idx.x
    if t == 2:
        a[t] = fx.make_view(fx.inttoptr(type_, far), fx.make_layout(1, 1))[0]  # outside


def test_a_wrong_address_stops_at_its_line(debug: Debug):
    @flyc.jit
    def run(a: fx.Tensor, far: fx.Int64):
        outside_kernel(a, far).launch(grid=1, block=4)

    stops: list[tuple[str, tuple[int, int, int]]] = []

    def keep(debugger: Debugger, stop: Stop) -> Command:
        stops.append((stop.reason, here(stop)))
        return Command("continue")

    def outside(debugger: Debugger) -> None:
        debugger.set_breakpoints([at("outside", "False")])

    with pytest.raises(KernelCheckError, match="no memory"):
        debug(lambda: run(np.zeros(4, np.float32), fx.Int64(64)), outside, [keep])
    assert stops == [("exception", (line_of("outside"), 0, 2))]
