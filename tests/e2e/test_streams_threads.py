"""Launches from many threads, on streams, on several devices and in forked children; nothing is left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import FlyRuntimeError, InvalidHandleError, LaunchError, StackMismatchError
from flydsl.runtime import (
    CpuDeviceRuntime,
    Device,
    Stream,
    get_device_runtime,
    register_device_runtime,
    reset_device_runtime,
)

THREADS, LAUNCHES, COUNT = 16, 200, 96


@flyc.kernel
def bump_kernel(x: fx.Tensor, n: fx.Int32, by: fx.Int32):
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] + by


@flyc.jit
def bump(x: fx.Tensor, n: fx.Int32, by: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    bump_kernel(x, n, by).launch(grid=fx.ceildiv(n, 32), block=32, stream=stream)


@flyc.kernel
def bytes_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] + fx.Uint8(1)


@flyc.jit
def bump_bytes(x: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    bytes_kernel(x, n).launch(grid=fx.ceildiv(n, 32), block=32, stream=stream)


@pytest.fixture(autouse=True)
def fresh_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    reset_device_runtime()
    yield
    reset_device_runtime()


def stream_threads() -> int:
    return sum(t.name.startswith("flydsl-stream") for t in threading.enumerate())


def wait_for(condition: Any, seconds: float = 10) -> bool:
    done = threading.Event()
    for _ in range(int(seconds * 100)):
        if condition():
            return True
        done.wait(0.01)
    return False


# --- threads ----------------------------------------------------------------------------------------------------------


def test_r40_sixteen_threads_of_two_hundred_launches_leave_nothing_behind():
    runtime = get_device_runtime()
    assert isinstance(runtime, CpuDeviceRuntime)
    bump(np.zeros(COUNT, np.int32), COUNT, 0)
    gc.collect()
    buffers, queues, threads = len(runtime._allocated), len(runtime._queues), threading.active_count()  # pyright: ignore[reportPrivateUsage]
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            stream = Stream()
            x, y = np.zeros(COUNT, np.int32), np.full(COUNT, number, np.int32)
            z = runtime.alloc(COUNT)
            z.fill(0)
            for launch in range(LAUNCHES):
                bump(x, COUNT, number + 1, stream)  # queued
                bump(y, COUNT, launch)  # at once, on the warm path
                if launch % 4 == 0:
                    bump_bytes(z, COUNT, stream)
            stream.synchronize()
            back = bytearray(COUNT)
            z.copy_to(back)
            if not (x == LAUNCHES * (number + 1)).all():
                failures.append(f"{number}: queued launches give {x[:4]}")
            if not (y == number + sum(range(LAUNCHES))).all():
                failures.append(f"{number}: launches give {y[:4]}")
            if back != bytes([LAUNCHES // 4]) * COUNT:
                failures.append(f"{number}: buffer holds {bytes(back[:4])!r}")
            z.free()
            stream.close()
        except Exception as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(f"{number}: {type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures
    gc.collect()
    assert len(runtime._allocated) == buffers and len(runtime._queues) == queues  # pyright: ignore[reportPrivateUsage]
    assert wait_for(lambda: threading.active_count() <= threads), threading.enumerate()


def test_concurrent_first_calls_compile_once():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        x[fx.thread_idx.x] = x[fx.thread_idx.x] * 3

    @flyc.jit
    def triple(x: fx.Tensor):
        kernel(x).launch(grid=1, block=32)

    arrays = [np.full(32, i, np.int32) for i in range(8)]
    workers = [threading.Thread(target=triple, args=(x,)) for x in arrays]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [int(x[0]) for x in arrays] == [3 * i for i in range(8)]
    assert triple.cache_info().misses == 1


# --- streams ----------------------------------------------------------------------------------------------------------


def test_r24_a_with_block_chooses_the_stream():
    runtime = get_device_runtime()
    assert isinstance(runtime, CpuDeviceRuntime)
    x = np.zeros(COUNT, np.int32)
    bump(x, COUNT, 1)
    bump(x, COUNT, 1)
    stream, gate = Stream(), threading.Event()
    runtime.enqueue(stream.handle, gate.wait)
    with stream:
        bump(x, COUNT, 1)
        bump(x, COUNT, 1, fx.Stream(None))
        assert (x == 2).all(), "queued behind the gate"
        bump(x, COUNT, 10, fx.Stream(0))
        assert (x == 12).all(), "the default stream runs at once"
    gate.set()
    stream.synchronize()
    assert (x == 14).all()
    bump(x, COUNT, 1)
    assert (x == 15).all()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: s,
        lambda s: s.handle,
        lambda s: fx.Stream(s),
        lambda s: SimpleNamespace(cuda_stream=s.handle),
        lambda s: SimpleNamespace(ptr=s.handle),
        lambda s: SimpleNamespace(__cuda_stream__=lambda: (0, s.handle)),
    ],
)
def test_r26_explicit_streams(wrap: Any):
    runtime = get_device_runtime()
    assert isinstance(runtime, CpuDeviceRuntime)
    stream, gate, x = Stream(), threading.Event(), np.zeros(COUNT, np.int32)
    runtime.enqueue(stream.handle, gate.wait)
    bump(x, COUNT, 5, wrap(stream))
    assert not x.any()
    gate.set()
    stream.synchronize()
    assert (x == 5).all()


def test_streams_that_are_not_there():
    x = np.zeros(COUNT, np.int32)
    stream = Stream()
    stream.close()
    with pytest.raises((InvalidHandleError, ValueError), match="closed|expected None"):
        bump(x, COUNT, 1, stream)
    with pytest.raises(InvalidHandleError, match="not a stream"):
        bump(x, COUNT, 1, 999_999)
    bump(x, COUNT, 1)
    assert (x == 1).all(), "the process is still usable"


def test_a_prepared_launch_can_be_replayed_on_a_stream():
    x, stream = np.zeros(COUNT, np.int32), Stream()
    compiled = flyc.compile(bump, x, COUNT, 2, run=False)
    prepared = compiled.prepare(x, COUNT, 2, stream=stream)
    for _ in range(10):
        prepared.launch()
    stream.synchronize()
    assert (x == 20).all()


def test_r22_launch_blocking_waits(monkeypatch: pytest.MonkeyPatch):
    x, stream = np.zeros(COUNT, np.int32), Stream()
    bump(x, COUNT, 1)
    monkeypatch.setenv("FLYDSL_RUNTIME_LAUNCH_BLOCKING", "1")
    for _ in range(50):
        before = x.copy()
        bump(x, COUNT, 1, stream)
        assert (x == before + 1).all(), "done when the call returns"
    runtime = get_device_runtime()
    assert isinstance(runtime, CpuDeviceRuntime)
    runtime.enqueue(stream.handle, lambda: 1 // 0)
    with pytest.raises(LaunchError, match="ZeroDivisionError") as caught:
        bump(x, COUNT, 1, stream)
    (note,) = (note for note in caught.value.__notes__ if note.startswith("while waiting for"))
    for part in ("kernel 'bump_kernel_0'", "TensorArgument", "grid (", "block (", f"at {__file__}:"):
        assert part in note
    line = int(note.rpartition(":")[2])
    assert ".launch(" in Path(__file__).read_text().splitlines()[line - 1], "the line of the launch"


@pytest.mark.parametrize("method", ["stream_is_capturing", "stream_device_of", "device", "pointer_device", "alloc"])
def test_r31_warm_calls_ask_the_runtime_nothing(method: str, monkeypatch: pytest.MonkeyPatch):
    x = np.zeros(COUNT, np.int32)
    bump(x, COUNT, 1)
    monkeypatch.setattr(CpuDeviceRuntime, method, lambda *_, **__: pytest.fail(f"{method} on the warm path"))
    bump(x, COUNT, 1)
    assert (x == 2).all()


# --- several devices --------------------------------------------------------------------------------------------------


class TwoDevices(CpuDeviceRuntime):
    """Two devices of one stack that cannot reach each other's memory, and a record of what was done where."""

    devices: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[int] = []
        self.entered: list[int] = []
        self.peers: set[tuple[int, int]] = set()

    def module_load(self, binary: bytes, *, device: int | None = None):
        self.loads.append(self.current_device_id() if device is None else device)
        return super().module_load(binary, device=device)

    def enter(self, ordinal: int) -> int | None:
        self.entered.append(ordinal)
        before = self.current_device_id()
        if before == ordinal:
            return None
        self.set_device(ordinal)
        return before

    def leave(self, ordinal: int) -> None:
        self.set_device(ordinal)

    def peer_access_enabled(self, device: int, peer: int) -> bool:
        return device == peer or (device, peer) in self.peers

    def enable_peer_access(self, device: int, peer: int) -> None:
        self.peers.add((device, peer))


@pytest.fixture
def two() -> TwoDevices:
    register_device_runtime(TwoDevices)
    found = get_device_runtime()
    assert isinstance(found, TwoDevices)
    bump_bytes.invalidate()
    return found


def content(buffer: Any) -> int:
    back = bytearray(buffer.nbytes)
    buffer.copy_to(back)
    assert len(set(back)) == 1
    return back[0]


def test_r33_r34_r35_the_arrays_decide_the_device(two: TwoDevices):
    buffers = [two.alloc(COUNT, device=i) for i in range(2)]
    for buffer in buffers:
        buffer.fill(0)
    for _ in range(3):
        for buffer in buffers:
            bump_bytes(buffer, COUNT)
            assert two.current_device_id() == 0, "the caller's device is restored"
    assert two.loads == [0, 1], "one module per device, loaded when first needed"
    assert two.entered == [0, 1, 0, 1, 0, 1]
    assert [content(b) for b in buffers] == [3, 3]


def test_r36_devices_of_one_arch_share_the_binary(two: TwoDevices):
    before = bump_bytes.cache_info()
    for i in range(2):
        bump_bytes(two.alloc(COUNT, device=i), COUNT)
    after = bump_bytes.cache_info()
    assert after.misses == before.misses + 1 and after.currsize == before.currsize + 1


def test_r33_an_explicit_stream_decides(two: TwoDevices):
    x = np.zeros(COUNT, np.uint8)
    stream = Stream(1)
    bump_bytes(x, COUNT, stream)
    stream.synchronize()
    assert two.loads == [1] and (x == 1).all(), "host memory is on no device"
    with Stream(1) as current:
        bump_bytes(x, COUNT)
        current.synchronize()
    assert two.loads == [1] and (x == 2).all()


def test_r33_else_the_current_device(two: TwoDevices):
    x = np.zeros(COUNT, np.uint8)
    bump_bytes(x, COUNT)
    with Device.all()[1]:
        bump_bytes(x, COUNT)
        bump_bytes(x, COUNT)
    bump_bytes(x, COUNT)
    assert two.loads == [0, 1] and two.entered == [0, 1, 1, 0] and (x == 4).all()


def test_warm_calls_of_adapters_follow_the_device(two: TwoDevices):
    arguments = [flyc.from_dlpack(two.alloc(COUNT, device=i)) for i in (0, 1, 0, 1)]
    for argument in arguments:
        bump_bytes(argument, COUNT)
        bump_bytes(argument, COUNT)
    assert two.entered == [0, 0, 1, 1, 0, 0, 1, 1]


@flyc.kernel
def add_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    if i < n:
        x[i] = x[i] + y[i]


@flyc.jit
def add(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    add_kernel(x, y, n).launch(grid=1, block=128, stream=stream)


def test_r33_arguments_on_different_devices(two: TwoDevices):
    x, y = two.alloc(COUNT, device=0), two.alloc(COUNT, device=1)
    x.fill(2), y.fill(3)
    with pytest.raises(ValueError, match="'x' on device 0, 'y' on device 1; copy them to one device"):
        add(x, y, COUNT)
    with pytest.raises(ValueError, match="the stream on device 1"):
        add(x, x, COUNT, Stream(1))
    devices = Device.all()
    devices[0].enable_peer_access(devices[1])
    add(x, y, COUNT)
    assert content(x) == 5, "with peer access it is allowed, and the process is still usable"


def test_wrong_ordinal(two: TwoDevices):
    with pytest.raises(FlyRuntimeError, match="devices 0 to 1, not 2"):
        two.alloc(4, device=2)


def test_a_stream_of_a_runtime_that_was_replaced(two: TwoDevices):
    stream = Stream(1)
    reset_device_runtime()
    register_device_runtime(TwoDevices)
    with pytest.raises((InvalidHandleError, StackMismatchError, ValueError), match="reset|belongs to|expected None"):
        bump_bytes(np.zeros(COUNT, np.uint8), COUNT, stream)
    register_device_runtime(TwoDevices, force=True)
    bump_bytes(np.zeros(COUNT, np.uint8), COUNT)


# --- fork -------------------------------------------------------------------------------------------------------------

FORK = """
import os, sys, threading
import numpy as np
import flydsl.compiler as flyc, flydsl.expr as fx
from flydsl.runtime import Stream

@flyc.kernel
def first_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = x[fx.thread_idx.x] + 1

@flyc.jit
def first(x: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    first_kernel(x).launch(grid=1, block=32, stream=stream)

@flyc.kernel
def second_kernel(x: fx.Tensor):
    x[fx.block_idx.x * 32 + fx.thread_idx.x] = fx.Int32(7)

@flyc.jit
def second(x: fx.Tensor):
    second_kernel(x).launch(grid=64, block=32)

x = np.zeros(32, np.int32)
stream = Stream()
first(x); first(x); first(x, stream); stream.synchronize()
assert (x == 3).all()

# A lock some other thread holds at the moment of the fork must not stop the child.
held, go_on = threading.Event(), threading.Event()
def hold():
    with second.code.lock, first.code.lock:
        held.set(); go_on.wait()
holder = threading.Thread(target=hold); holder.start(); held.wait()

pid = os.fork()
if pid == 0:
    try:
        y = np.zeros(64 * 32, np.int32)
        first(x)                      # loaded before the fork
        first(x, stream)              # on a stream whose thread is not here
        stream.synchronize()
        second(y)                     # compiled here, run by threads of this process
        own = Stream(); first(x, own); own.synchronize()
        os._exit(0 if (x == 6).all() and (y == 7).all() else 1)
    except BaseException as error:
        print(type(error), error, file=sys.stderr, flush=True)
        os._exit(2)
go_on.set(); holder.join()
_, status = os.waitpid(pid, 0)
first(x)
assert (x == 4).all()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_r39_a_child_compiles_and_launches_after_a_parent_that_launched(tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(FORK)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FLYDSL_COMPILE_BACKEND": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
