"""The cpu runtime: memory, streams, events, modules, launches, fork."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from flydsl.errors import (
    InvalidHandleError,
    LaunchError,
    NotSupportedError,
    OutOfMemoryError,
    OutOfResourcesError,
    RuntimeStateError,
    StackMismatchError,
)
from flydsl.llvm import host_jit
from flydsl.runtime import CpuDeviceRuntime, Device, Event, Stream, current_stream, get_device_runtime
from flydsl.runtime.objects import Function

ADD = """
define void @add(ptr %params, ptr %geometry, ptr %shared, i64 %first, i64 %last) {
entry:
  %slot = load ptr, ptr %params
  %out = load ptr, ptr %slot
  %value.slot.at = getelementptr ptr, ptr %params, i64 1
  %value.slot = load ptr, ptr %value.slot.at
  %value = load i32, ptr %value.slot
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %at = getelementptr i32, ptr %out, i64 %i
  %old = load i32, ptr %at
  %new = add i32 %old, %value
  store i32 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.fixture(scope="module")
def add_object() -> bytes:
    return host_jit.compile_host(ADD)


@pytest.fixture
def runtime() -> CpuDeviceRuntime:
    found = get_device_runtime()
    assert isinstance(found, CpuDeviceRuntime)
    return found


@pytest.fixture
def add(runtime: CpuDeviceRuntime, add_object: bytes) -> Function:
    return runtime.function(runtime.module_load(add_object), "add")


# --- memory -------------------------------------------------------------------------------------------


def test_copies_and_fills(runtime: CpuDeviceRuntime):
    data = np.random.default_rng(0).integers(0, 255, 1000, dtype=np.uint8)
    first, second = runtime.alloc(1000), runtime.alloc(1000)
    first.copy_from(data)
    second.copy_from(first)
    back = np.zeros(1000, np.uint8)
    second.copy_to(back)
    assert (back == data).all()
    second.fill(7)
    assert bytes(second.memoryview()) == b"\7" * 1000
    runtime.memset32(second.ptr, 0x01020304, 250)
    assert (np.asarray(second).view(np.uint32) == 0x01020304).all()
    first.copy_from(b"read-only")
    assert bytes(first.memoryview()[:9]) == b"read-only"


@pytest.mark.parametrize("alignment", [1, 256, 4096, 1 << 16])
def test_alignment(runtime: CpuDeviceRuntime, alignment: int):
    assert runtime.alloc(10, alignment=alignment).ptr % max(alignment, 64) == 0


def test_bad_sizes(runtime: CpuDeviceRuntime):
    with pytest.raises(ValueError, match="power of two"):
        runtime.alloc(10, alignment=3)
    with pytest.raises(ValueError, match="cannot allocate"):
        runtime.alloc(-1)
    buffer = runtime.alloc(4)
    with pytest.raises(ValueError, match="5 bytes do not fit into a buffer of 4 bytes"):
        buffer.copy_from(b"12345")
    with pytest.raises(ValueError, match="do not fit into host memory"):
        buffer.copy_to(bytearray(3))
    with pytest.raises(TypeError, match="buffer protocol"):
        buffer.copy_from(object())
    with pytest.raises(ValueError, match="one byte"):
        buffer.fill(256)
    with pytest.raises(ValueError, match="does not fit"):
        buffer.view(2, 3)


def test_zero_sizes(runtime: CpuDeviceRuntime):
    first, second = runtime.alloc(0), runtime.alloc(0)
    assert first.ptr == 0 and first is not second and len(first) == 0
    first.copy_from(b"")
    first.copy_to(bytearray())
    first.fill(1)
    runtime.memcpy_d2d(0, 0, 0)
    with pytest.raises(ValueError, match="address 0"):
        runtime.memcpy_d2d(0, 0, 1)
    with pytest.raises(ValueError):
        runtime.memcpy_d2d(0, 0, -1)
    first.free()


def test_out_of_memory_has_numbers(runtime: CpuDeviceRuntime):
    with pytest.raises(OutOfMemoryError) as caught:
        runtime.alloc(1 << 60)
    error = caught.value
    assert error.requested == 1 << 60 and error.total and error.free
    assert str(1 << 60) in str(error)


def test_double_free_and_use_after_free(runtime: CpuDeviceRuntime):
    buffer = runtime.alloc(8)
    view = buffer.view(0, 4)
    with pytest.raises(InvalidHandleError, match="view owns no memory"):
        view.free()
    buffer.free()
    for use in (buffer.free, lambda: buffer.ptr, lambda: view.ptr):
        with pytest.raises(InvalidHandleError):
            use()


def test_collected_buffers_are_freed(runtime: CpuDeviceRuntime):
    buffer = runtime.alloc(64)
    ptr = buffer.ptr
    assert ptr in runtime._allocated  # pyright: ignore[reportPrivateUsage]
    del buffer
    gc.collect()
    assert ptr not in runtime._allocated  # pyright: ignore[reportPrivateUsage]


def test_views_keep_their_buffer(runtime: CpuDeviceRuntime):
    buffer = runtime.alloc(16)
    buffer.fill(3)
    view = buffer.view(8, 8)
    array = np.asarray(view)
    memory = view.memoryview()
    del buffer, view
    gc.collect()
    assert (array == 3).all() and bytes(memory) == b"\3" * 8


def test_dlpack(runtime: CpuDeviceRuntime):
    buffer = runtime.alloc(32)
    buffer.fill(9)
    array = np.from_dlpack(buffer)
    ptr = buffer.ptr
    del buffer
    gc.collect()
    assert (array == 9).all() and array.dtype == np.uint8 and ptr in runtime._allocated  # pyright: ignore[reportPrivateUsage]
    del array
    gc.collect()
    assert ptr not in runtime._allocated  # pyright: ignore[reportPrivateUsage]
    unused = runtime.alloc(32).__dlpack__()
    del unused
    gc.collect()
    assert not runtime._allocated  # pyright: ignore[reportPrivateUsage]


def test_no_cuda_interface_on_host_memory(runtime: CpuDeviceRuntime):
    assert not hasattr(runtime.alloc(4), "__cuda_array_interface__")


# --- streams and events -------------------------------------------------------------------------------


def test_stream_order(runtime: CpuDeviceRuntime):
    stream, seen = Stream(), list[int]()
    for i in range(100):
        runtime.enqueue(stream.handle, lambda i=i: seen.append(i))
    stream.synchronize()
    assert seen == list(range(100)) and stream.query()


def test_default_stream_runs_now(runtime: CpuDeviceRuntime):
    seen: list[int] = []
    for handle in (None, 0, 1, 2):
        runtime.enqueue(handle, lambda: seen.append(threading.get_ident()))
    assert seen == [threading.get_ident()] * 4


def test_default_stream_waits_for_blocking_streams_only(runtime: CpuDeviceRuntime):
    blocking, free = Stream(non_blocking=False), Stream()
    gate = threading.Event()
    seen: list[str] = []
    runtime.enqueue(free.handle, gate.wait)
    runtime.enqueue(blocking.handle, lambda: (time.sleep(0.02), seen.append("blocking")))
    runtime.enqueue(None, lambda: seen.append("default"))
    assert seen == ["blocking", "default"]
    gate.set()
    free.synchronize()


def test_async_copies_take_the_source_at_the_call(runtime: CpuDeviceRuntime):
    stream, gate = Stream(), threading.Event()
    buffer, source, back = runtime.alloc(4), bytearray(b"abcd"), bytearray(4)
    runtime.enqueue(stream.handle, gate.wait)
    buffer.copy_from(source, stream)
    source[:] = b"----"
    buffer.copy_to(back, stream)
    assert not stream.query() and back == bytearray(4)
    gate.set()
    stream.synchronize()
    assert back == b"abcd"


def test_events_order_streams_and_time(runtime: CpuDeviceRuntime):
    one, two, seen = Stream(), Stream(), list[str]()
    start, gate = one.record_event(), threading.Event()
    runtime.enqueue(one.handle, lambda: (gate.wait(), time.sleep(0.02), seen.append("one")))
    end = one.record_event()
    two.wait_event(end)
    runtime.enqueue(two.handle, lambda: seen.append("two"))
    start.synchronize()
    with pytest.raises(RuntimeError, match="end event has not completed"):
        start.elapsed_ms(end)
    gate.set()
    two.synchronize()
    assert seen == ["one", "two"]
    assert start.query() and end.query() and 15 < start.elapsed_ms(end)
    end.synchronize()
    with pytest.raises(RuntimeError, match="timing=False"):
        Event(timing=False).elapsed_ms(end)
    with pytest.raises(RuntimeError, match="never recorded"):
        Event().elapsed_ms(end)


def test_wait_stream_and_unrecorded_events(runtime: CpuDeviceRuntime):
    one, two, seen = Stream(), Stream(), list[str]()
    runtime.enqueue(one.handle, lambda: (time.sleep(0.01), seen.append("one")))
    two.wait_stream(one)
    two.wait_event(Event())
    runtime.enqueue(two.handle, lambda: seen.append("two"))
    two.synchronize()
    assert seen == ["one", "two"]
    assert Event().query()


def test_failures_surface_at_synchronisation(runtime: CpuDeviceRuntime):
    stream = Stream()
    runtime.enqueue(stream.handle, lambda: 1 // 0)
    event = stream.record_event()
    with pytest.raises(LaunchError, match="ZeroDivisionError") as caught:
        event.synchronize()
    with pytest.raises(LaunchError) as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    stream.synchronize()


def test_waiting_for_oneself_is_refused(runtime: CpuDeviceRuntime):
    stream = Stream()
    runtime.enqueue(stream.handle, stream.synchronize)
    with pytest.raises(RuntimeStateError, match="cannot wait for that stream"):
        stream.synchronize()


def test_closed_streams_and_unknown_handles(runtime: CpuDeviceRuntime):
    stream, seen = Stream(), list[int]()
    handle = stream.handle
    runtime.enqueue(handle, lambda: (time.sleep(0.01), seen.append(1)))
    event = stream.record_event()
    stream.close()
    stream.close()
    event.synchronize()
    assert seen == [1], "queued work of a closed stream is done"
    for use in (stream.synchronize, lambda: stream.handle, lambda: runtime.enqueue(handle, lambda: None)):
        with pytest.raises(InvalidHandleError):
            use()
    with pytest.raises(InvalidHandleError):
        Stream.from_handle(987654)
    event.close()
    with pytest.raises(InvalidHandleError):
        event.query()


def test_borrowed_streams_are_not_destroyed(runtime: CpuDeviceRuntime):
    stream = Stream()
    borrowed = Stream.from_handle(stream.handle, owner=stream)
    borrowed.close()
    stream.synchronize()
    assert borrowed.closed and Stream.default().handle == 0 and Stream.per_thread_default().handle == 2


def test_current_stream_is_per_thread():
    stream, seen = Stream(), list[object]()
    with stream:
        assert current_stream() is stream
        thread = threading.Thread(target=lambda: seen.append(current_stream()))
        thread.start()
        thread.join()
    assert seen == [None] and current_stream() is None


def test_collected_streams_end_their_thread(runtime: CpuDeviceRuntime):
    stream = Stream()
    runtime.enqueue(stream.handle, lambda: None)
    stream.synchronize()
    names = {t.name for t in threading.enumerate() if t.name.startswith("flydsl-stream")}
    assert names
    del stream
    gc.collect()
    runtime.alloc(1)
    deadline = time.monotonic() + 5
    while any(t.name in names for t in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not any(t.name in names for t in threading.enumerate())


# --- code and launches --------------------------------------------------------------------------------


def test_launch_sync_and_async(runtime: CpuDeviceRuntime, add: Function):
    buffer = runtime.alloc(4 * 512)
    buffer.fill(0)
    pointer, value = ctypes.c_void_p(buffer.ptr), ctypes.c_int32(3)
    runtime.launch(add, 512, 32, params=[pointer, value])
    runtime.launch(add, (512,), (1, 1), params=[ctypes.addressof(pointer), value])
    stream, gate = Stream(), threading.Event()
    runtime.enqueue(stream.handle, gate.wait)
    runtime.launch(add, 512, 32, params=[pointer, value], stream=stream)
    value.value = 1000  # arguments were taken at the launch
    gate.set()
    stream.synchronize()
    assert (np.asarray(buffer).view(np.int32) == 9).all()
    with stream:
        runtime.launch(add, 512, 32, params=[pointer, ctypes.c_int32(1)])
    stream.synchronize()
    assert (np.asarray(buffer).view(np.int32) == 10).all()
    with pytest.raises(TypeError, match="must be ctypes objects"):
        runtime.launch(add, 1, 1, params=[ctypes.addressof(pointer), value], stream=stream)


def test_r19_launch_validation(runtime: CpuDeviceRuntime, add: Function):
    runtime.launch(add, (0, 5, 5), 32)
    with pytest.raises(ValueError, match="bad launch"):
        runtime.launch(add, (-1, 1, 1), 32)
    with pytest.raises(ValueError, match="bad launch"):
        runtime.launch(add, 1, (32, 0))
    with pytest.raises(OutOfResourcesError) as caught:
        runtime.launch(add, 1, (1024, 2))
    assert (caught.value.required, caught.value.limit) == (2048, 1024)
    with pytest.raises(ValueError, match="must divide"):
        runtime.launch(add, 4, 1, cluster=3)
    with pytest.raises(NotSupportedError, match="801"):
        runtime.launch(add, 4, 1, cluster=2)
    with pytest.raises(ValueError, match="up to three ints"):
        runtime.launch(add, (1, 2, 3, 4), 1)
    with pytest.raises(NotSupportedError, match="launch attributes"):
        runtime.launch(add, 1, 1, attrs=((9, b""),))


def test_descriptor_lives_as_long_as_the_module(runtime: CpuDeviceRuntime, add_object: bytes):
    module = runtime.module_load(add_object)
    first = runtime.function(module, "add", shared_bytes=48)
    assert runtime.function(module, "add", shared_bytes=48).handle == first.handle
    assert runtime.function(module, "add").handle != first.handle
    assert runtime.function_attributes(first)["shared_static"] == 48
    with pytest.raises(InvalidHandleError, match="no kernel 'sub'; it has: add"):
        runtime.function(module, "sub")
    module.unload()
    module.unload()
    with pytest.raises(InvalidHandleError):
        _ = first.handle


def test_launch_symbol_uses_the_configured_threads(runtime: CpuDeviceRuntime, monkeypatch: pytest.MonkeyPatch):
    from flydsl.cpu.runtime import native as cpu_native

    monkeypatch.setenv("FLYDSL_CPU_THREADS", "3")
    assert runtime.launch_symbol() == cpu_native.launcher().launch_address
    assert cpu_native.launcher().threads == 3
    assert runtime.device(0).capabilities.compute_units == 3
    assert runtime.launch_ex_symbol() == cpu_native.launcher().launch_ex_address


def test_device(runtime: CpuDeviceRuntime):
    device = Device.current()
    assert (device.kind, device.ordinal, device.arch) == ("cpu", 0, "native")
    assert Device.all() == [device] and device.target().key() == "cpu:native:w32"
    assert device.can_access_peer(device) and not device.capabilities.graph_capture
    free, total = device.memory_info()
    assert 0 < free <= total
    with device as current:
        assert current == Device.current()
    device.synchronize()
    with pytest.raises(RuntimeError, match="one device"):
        runtime.device(1)


def test_r33b_foreign_devices():
    device = Device.current()
    assert Device.from_external(0) == device and Device.from_external(np.zeros(1)) == device

    class OnCuda:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(StackMismatchError, match="cuda stack, but this process uses cpu"):
        Device.from_external(OnCuda())
    with pytest.raises(TypeError, match="cannot tell a device"):
        Device.from_external("cpu")


def test_unsupported_operations_say_so(runtime: CpuDeviceRuntime):
    with pytest.raises(NotSupportedError, match="the cpu runtime does not support graph_begin_capture"):
        runtime.graph_begin_capture(0)


def test_occupancy(runtime: CpuDeviceRuntime, add: Function):
    assert runtime.max_active_blocks(add, 1024) == 1 and runtime.max_active_blocks(add, 2048) == 0
    threads, blocks = runtime.suggest_block_size(add)
    assert threads == 1024 and blocks == Device.current().capabilities.compute_units


# --- fork ---------------------------------------------------------------------------------------------

FORK = """
import os, sys
from flydsl.runtime import Stream, get_device_runtime
runtime = get_device_runtime()
stream, seen = Stream(), []
runtime.enqueue(stream.handle, lambda: seen.append("parent"))
stream.synchronize()
buffer = runtime.alloc(16)
pid = os.fork()
if pid == 0:
    runtime.enqueue(stream.handle, lambda: seen.append("child"))
    stream.synchronize()
    Stream().synchronize()
    buffer.fill(1)
    os._exit(0 if seen == ["parent", "child"] else 1)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_r39_child_gets_workers_of_its_own():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FLYDSL_COMPILE_BACKEND": "cpu"}
    done = subprocess.run([sys.executable, "-c", FORK], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
