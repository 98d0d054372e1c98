"""`fx.ktrace` from the kernel to the trace, on the cpu stack; and that nothing of it is left where it is off."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLRuntimeError, DSLTypeError, DSLValueError, FlyRuntimeError, NotSupportedError
from flydsl.runtime import Stream
from flydsl.runtime.side_buffers import SideBuffers, SideLaunch, refuse_capture


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")


@flyc.kernel
def stages_kernel(x: fx.Tensor, rounds: fx.Int32):
    t = fx.thread_idx.x
    room = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()
    with fx.ktrace.range("load", fx.block_idx.x):
        room[t] = x[fx.block_idx.x * 64 + t]
    fx.barrier()
    for r in range(rounds):
        with fx.ktrace.range("work"):
            room[t] = room[t] * 2.0
        if t == 40:
            fx.ktrace.mark("odd one", r)
    fx.barrier()
    x[fx.block_idx.x * 64 + t] = room[63 - t]


@flyc.jit
def stages(x: fx.Tensor, rounds: fx.Int32, blocks: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    stages_kernel(x, rounds).launch(grid=blocks, block=64, stream=stream)


def reversed_twice(x: np.ndarray, rounds: int) -> np.ndarray:
    return x.reshape(-1, 64)[:, ::-1].reshape(-1) * 2.0**rounds


def test_each_warp_records_once_and_the_result_is_the_same():
    x = np.random.default_rng(1).standard_normal(192).astype("f4")
    y = x.copy()
    with fx.ktrace.capture() as capture:
        stages(y, 3, 3)
    np.testing.assert_array_equal(y, reversed_twice(x, 3))
    (launch,) = capture.launches()
    assert launch.grid == (3, 1, 1) and launch.block == (64, 1, 1) and not launch.lost and not launch.open
    warps = {(b, w) for b in range(3) for w in range(2)}
    loads = [r for r in launch.ranges if r.name == "load"]
    assert {(r.block, r.warp) for r in loads} == warps and len(loads) == 6
    assert all(r.payload == r.block and r.lane == 0 for r in loads)
    assert sum(r.name == "work" for r in launch.ranges) == 6 * 3
    odd = [(e.block, e.warp, e.lane, e.payload) for e in launch.events if e.kind == "mark"]
    assert sorted(odd) == [(b, 1, 8, r) for b in range(3) for r in range(3)]
    for warp in warps:
        ends = [r.end for r in launch.ranges if (r.block, r.warp) == warp and r.name == "load"]
        begins = [r.begin for r in launch.ranges if (r.block, r.warp) == warp and r.name == "work"]
        assert max(ends) <= min(begins) and begins == sorted(begins)


def test_warm_calls_streams_and_threads_record(monkeypatch: pytest.MonkeyPatch):
    x = np.ones(64, "f4")
    with fx.ktrace.capture() as capture:
        stages(x, 1, 1)
        stages(x, 1, 1)
        stream = Stream()
        stages(x, 1, 1, stream)  # queued: it runs on a thread of its own
        worker = threading.Thread(target=stages, args=(x, 1, 1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLYDSL_KTRACE", "1")  # what is around this thread is not around the other
            worker.start()
            worker.join()
    assert len(capture.launches()) == 4
    assert all(len(one.ranges) == 4 for one in capture)
    stages(x, 1, 1)
    assert len(capture.launches()) == 4, "what runs outside is not recorded"
    capture.clear()
    assert not capture.launches() and capture.export() is None
    stream.close()


def test_warm_calls_of_a_process_with_tracing_record(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_KTRACE", "1")
    before = len(fx.ktrace.recorded().launches)
    x = np.ones(64, "f4")
    hits = stages.cache_info().hits
    for _ in range(3):
        stages(x, 2, 1)
    assert stages.cache_info().hits >= hits + 2
    made = fx.ktrace.recorded().launches[before:]
    assert [len(one.ranges) for one in made] == [6, 6, 6]
    assert (fx.ktrace.summary() or {})["work"].count >= 12


def test_more_events_than_places_are_counted():
    x = np.ones(128, "f4")
    with fx.ktrace.capture(events=4) as capture:
        stages(x, 5, 2)
    (launch,) = capture.launches()
    # A thread of these has 12 events, the odd one five more.
    assert launch.lost == 2 * (64 * (12 - 4) + 5)
    assert all(sum(e.block == b and e.warp == 0 for e in launch.events) == 4 for b in range(2))
    assert "events lost" in capture.read().text()


def test_some_blocks_of_a_grid():
    x = np.ones(64 * 6, "f4")
    with fx.ktrace.capture(blocks=range(2, 4)) as some, fx.ktrace.capture(blocks=1) as first:
        stages(x, 1, 6)
    assert {e.block for e in some.read().events} == {0, 1, 2, 3}, "both are served by one launch"
    assert first.read().launches[0].recorded == range(4)
    for wanted, blocks in ((range(4, 99), {4, 5}), ((3, 0, 0), {3}), ("1:3", {1, 2}), ((6, 0, 0), set[int]())):
        with fx.ktrace.capture(blocks=wanted) as capture:
            stages(x, 1, 6)
        assert {e.block for e in capture.read().events} == blocks


def test_memory_of_many_launches_is_read_early(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_KTRACE_BUFFER_BYTES", "32768")
    monkeypatch.setenv("FLYDSL_KTRACE_LAUNCHES", "8")
    x = np.ones(64, "f4")
    with fx.ktrace.capture(events=8) as capture:
        for _ in range(12):
            stages(x, 1, 1)
        held = sum(one.nbytes for one in capture._recorder._launches)  # pyright: ignore[reportPrivateUsage]
    assert held <= 4 * 32768
    assert [len(one.ranges) for one in capture] == [4] * 8
    assert "4 launches before these were dropped" in capture.read().text()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_KTRACE_BUFFER_BYTES", str(3 * 64 * 8 * (2 + 6 * 8) + 100))
    with fx.ktrace.capture(events=8) as capture:
        stages(np.ones(64 * 6, "f4"), 1, 6)
    assert capture.launches()[0].recorded == range(3)
    assert "3 of 6 blocks recorded" in capture.read().text()


@flyc.kernel
def tokens_kernel(x: fx.Tensor):
    outer = fx.ktrace.range_start("outer")
    other = fx.ktrace.range_start("outer", 7)
    fx.ktrace.range_push("pushed")
    x[fx.thread_idx.x] = 1.0
    fx.ktrace.range_stop(outer)
    fx.ktrace.range_pop()
    fx.ktrace.range_stop(other, 2.5)
    fx.ktrace.range_stop(fx.ktrace.inactive_token("never"))


@flyc.jit
def tokens(x: fx.Tensor):
    tokens_kernel(x).launch(grid=1, block=32)


@flyc.kernel
def silent_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = 3.0


@flyc.jit
def two_kernels(x: fx.Tensor):
    silent_kernel(x).launch(grid=1, block=32)
    tokens_kernel(x).launch(grid=1, block=32)


def test_tokens_and_pushed_ranges():
    with fx.ktrace.capture() as capture:
        tokens(np.zeros(32, "f4"))
    ranges = capture.read().ranges
    assert [(r.name, r.payload) for r in ranges] == [("outer", None), ("outer", 2.5), ("pushed", None)]
    first, second, pushed = ranges
    assert first.begin <= second.begin <= pushed.begin <= first.end <= pushed.end <= second.end


def test_a_kernel_without_events_takes_no_memory():
    x = np.zeros(32, "f4")
    with fx.ktrace.capture() as capture:
        two_kernels(x)
        artifact = flyc.compile(two_kernels, x, target="cpu:native").artifact
    assert [one.kernel for one in capture] == ["tokens_kernel_0"] and (x == 1).all()
    assert [len(k["parameters"]) for k in artifact.kernels] == [2, 3]


def test_checked_mode_and_the_emulation_of_gpus_record(monkeypatch: pytest.MonkeyPatch):
    x = np.ones(64, "f4")
    for arch, check in (("sm_90a", "0"), ("gfx942", "1")):
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
        monkeypatch.setenv("FLYDSL_CPU_CHECK", check)
        with fx.ktrace.capture() as capture:
            stages(x, 2, 1)
        warps = {e.warp for e in capture.read().events}
        assert warps == ({0} if arch == "gfx942" else {0, 1})


# --- off --------------------------------------------------------------------------------------------------------------

PROGRAM = """
import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def k(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    {one}
    if i < n:
        {two}
        for _ in range(n):
            {three}
            x[i] = x[i] + 1.0
        {four}


@flyc.jit
def f(x: fx.Tensor, n: fx.Int32):
    k(x, n).launch(grid=4, block=64)
"""
CALLS = {
    "one": 'fx.ktrace.mark("one", n)',
    "two": 'token = fx.ktrace.range_start("two")',
    "three": 'fx.ktrace.mark("three")',
    "four": "fx.ktrace.range_stop(token)",
}


def load(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", ["cuda:sm_90a", "rocm:gfx942", "cpu:native"])
def test_off_leaves_nothing(tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND")
    made = []
    for name, calls in (("plain", dict.fromkeys(CALLS, "pass")), ("recording", CALLS)):
        (tmp_path / f"{name}.py").write_text(PROGRAM.format(**calls))
        module = load(tmp_path / f"{name}.py")
        made.append(flyc.compile(module.f, flyc.TensorSpec((256,), "float32"), 256, target=target).artifact)
    plain, off = made
    assert plain.sections.keys() == off.sections.keys()
    for section in ("host", "llvm", plain.metadata["binary_ext"]):
        assert plain.sections[section] == off.sections[section], section
    assert plain.kernels[0]["parameters"] == off.kernels[0]["parameters"] and "side_buffers" not in off.kernels[0]
    with fx.ktrace.capture():
        on = flyc.compile(module.f, flyc.TensorSpec((256,), "float32"), 256, target=target).artifact
    assert on.key != off.key
    assert len(on.kernels[0]["parameters"]) == len(off.kernels[0]["parameters"]) + 1
    assert on.kernels[0]["side_buffers"][0]["names"] == ["one", "two", "three"]


def test_the_code_of_gpus_reads_its_clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND")
    (tmp_path / "clocks.py").write_text(PROGRAM.format(**CALLS))
    module = load(tmp_path / "clocks.py")
    words = {
        "cuda:sm_90a": ("%globaltimer", "%clock64", "activemask", "%smid"),
        "rocm:gfx942": ("s_memrealtime", "s_memtime", "HW_REG_HW_ID", "HW_REG_XCC_ID"),
        "rocm:gfx1201": ("MSG_RTN_GET_REALTIME", "HW_ID1"),
    }
    for target, wanted in words.items():
        with fx.ktrace.capture():
            asm = flyc.compile(module.f, flyc.TensorSpec((256,), "float32"), 256, target=target).artifact.asm
        assert all(word in asm for word in wanted), target


# --- ways to a launch -------------------------------------------------------------------------------------------------


def test_an_exported_function_records(tmp_path: Path):
    x = np.ones(64, "f4")
    with fx.ktrace.capture():
        flyc.export(stages, tmp_path / "stages.fly", args=(x, 2, 1, fx.Stream(None)), targets=["cpu:native"])
    loaded = flyc.load(tmp_path / "stages.fly")
    with fx.ktrace.capture() as capture:
        loaded(x, 2, 1, fx.Stream(None))
    assert [len(one.ranges) for one in capture] == [6]


def test_a_raw_export_is_refused(tmp_path: Path):
    with fx.ktrace.capture(), pytest.raises(NotSupportedError, match="records a trace.*flyc.export"):
        flyc.export_raw(tokens, tmp_path, args=(np.zeros(32, "f4"),))


def test_a_graph_is_refused():
    runtime = SimpleNamespace(pageable_host=False, stream_is_capturing=lambda stream: stream == 5)
    for kind, words in (("ktrace", "records a trace"), ("print", "prints")):
        launch = SideLaunch("f", "k", {"kind": kind}, (1, 1, 1), (32, 1, 1), 5, runtime)  # pyright: ignore[reportArgumentType]
        with pytest.raises(FlyRuntimeError, match=f"kernel 'k' {words}.*graph"):
            refuse_capture(launch)


def test_what_goes_wrong_in_making_memory_is_raised_by_the_call(monkeypatch: pytest.MonkeyPatch):
    def fails(self: SideBuffers, *rest: object) -> None:
        raise KeyboardInterrupt("stopped")

    x = np.ones(64, "f4")
    with fx.ktrace.capture() as capture:
        with monkeypatch.context() as patch:
            patch.setattr(SideBuffers, "_open", fails)
            with pytest.raises(KeyboardInterrupt, match="stopped"):
                stages(x, 1, 1)
        assert (x == 1).all(), "nothing was launched"
        stages(x, 1, 1)
    assert (x == 2).all() and len(capture.launches()) == 1


def test_an_empty_grid_records_nothing():
    with fx.ktrace.capture() as capture:
        stages(np.ones(64, "f4"), 1, 0)
    assert not capture.read().events


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_mistakes():
    with pytest.raises(DSLValueError, match="events is a number of at least 4"):
        fx.ktrace.capture(events=1)
    with pytest.raises(DSLValueError, match="range of neighbours"):
        fx.ktrace.capture(blocks=range(0, 8, 2))
    with pytest.raises(DSLValueError, match="`x,y,z`, `first:last` or a number, got 'xcc:1'"):
        fx.ktrace.capture(blocks="xcc:1")
    with pytest.raises(DSLTypeError, match="has a name"):
        fx.ktrace.mark("")
    with pytest.raises(DSLTypeError, match="what fx.ktrace.range_start gave"):
        fx.ktrace.range_stop("load")  # pyright: ignore[reportArgumentType]
    with fx.ktrace.capture() as capture:
        with pytest.raises(DSLRuntimeError, match="inside a @flyc.kernel"):
            fx.ktrace.mark("outside")
        with pytest.raises(DSLValueError, match="there is none"):
            flyc.evaluate(lambda: fx.ktrace.range_pop())
        with pytest.raises(DSLTypeError, match="payload of an event is a number"):
            flyc.evaluate(lambda: fx.ktrace.mark("x", "text"))  # pyright: ignore[reportArgumentType]
        with pytest.raises(DSLRuntimeError, match="open already"), capture:
            pass
    with pytest.raises(DSLValueError, match=r"ends in \.perfetto-trace"):
        capture.read().write("trace.doc")
    with pytest.raises(DSLValueError, match="0 launches and 1 names"):
        capture.export_launches(["one"])


SCRIPT = """
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def k(x: fx.Tensor):
    with fx.ktrace.range("fill"):
        x[fx.thread_idx.x] = 1.0


@flyc.jit
def f(x: fx.Tensor):
    k(x).launch(grid=1, block=32)


f(np.zeros(32, "f4"))
"""


def test_fly_trace(tmp_path: Path):
    script = tmp_path / "fills.py"
    script.write_text(SCRIPT)
    variables = {**os.environ, "FLYDSL_KTRACE_FILE": ""}
    command = [sys.executable, "-m", "flydsl", "trace", "--target", "cpu:native", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fill " in done.stdout and "1 launches, 2 events" in done.stdout
    assert (tmp_path / "fills.perfetto-trace").read_bytes()[:1] == b"\x0a"
    # Without the command: a file when the process ends.
    variables |= {"FLYDSL_KTRACE": "1", "FLYDSL_KTRACE_FILE": str(tmp_path / "end.json")}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=variables, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"fill"' in (tmp_path / "end.json").read_text()


def test_the_pipelines_of_the_library_record(monkeypatch: pytest.MonkeyPatch):
    torch = pytest.importorskip("torch")
    from flydsl.kernels.gemm_sm90 import gemm_sm90

    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    a, b = torch.randn(128, 192).half(), torch.randn(256, 192).half()
    c = torch.full((128, 256), float("nan")).half()
    with fx.ktrace.capture(events=64) as capture:
        gemm_sm90(a, b, c, 1, cluster_size=1)
    assert (c.double() - a.double() @ b.double().T).abs().max() < 0.1
    (launch,) = capture.launches()
    steps = 3
    counts = {name: row.count for name, row in capture.summary().items()}
    # One thread fetches; eight warps multiply.
    assert counts == {
        "wait empty": steps,
        "issue copies": steps,
        "wait full": 8 * steps,
        "multiply": 8 * steps,
        "store": 8,
    }
    assert not launch.lost and not launch.open
    copied = [r.end for r in launch.ranges if r.name == "issue copies"]
    multiplied = [r.begin for r in launch.ranges if r.name == "multiply"]
    assert min(copied) <= min(multiplied)


def test_texts_of_stored_code_are_made_again_as_it_was_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_BINARY_ONLY", "1")
    made = []
    for _ in range(2):
        tokens.invalidate()
        with fx.ktrace.capture():
            made.append(flyc.compile(tokens, np.zeros(32, "f4"), target="cuda:sm_90a").artifact)
    fresh, stored = (artifact.asm for artifact in made)  # asked for outside of the capture
    assert "%globaltimer" in fresh and fresh == stored
