"""The cuda runtime on a real GPU, with PTX written by hand."""

from __future__ import annotations

import array
import ctypes
import gc
import os
import subprocess
import sys

import pytest

from flydsl.errors import CaptureError, DeviceLostError, FlyRuntimeError, OutOfMemoryError, OutOfResourcesError
from flydsl.runtime import Device, Event, Stream, get_device_runtime
from flydsl.runtime.base import DeviceRuntime

pytestmark = pytest.mark.cuda

# add(out, value): out[global thread] += value
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry add(.param .u64 out, .param .u32 value)
{
  .reg .b32 %r<7>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  mul.wide.u32 %d2, %r5, 4;
  add.u64 %d3, %d1, %d2;
  ld.global.u32 %r6, [%d3];
  add.u32 %r6, %r6, %r1;
  st.global.u32 [%d3], %r6;
  ret;
}
"""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> DeviceRuntime:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    return get_device_runtime()


def test_copies_fills_and_device(runtime: DeviceRuntime):
    device = Device.current()
    caps = device.capabilities
    assert device.arch.startswith("sm_") and caps.warp_size == 32 and device.uuid and device.pci_bus_id
    assert device.target().backend == "cuda" and device.memory_info()[0] <= (caps.total_memory or 0)
    buffer, back = runtime.alloc(1000, alignment=4096), bytearray(1000)
    assert buffer.ptr % 4096 == 0
    buffer.copy_from(bytes(range(250)) * 4)
    other = runtime.alloc(1000)
    other.copy_from(buffer)
    other.view(0, 10).fill(7)
    other.copy_to(back)
    assert bytes(back) == b"\7" * 10 + (bytes(range(250)) * 4)[10:]
    assert runtime.pointer_device(buffer.ptr) == 0
    pinned = runtime.alloc_pinned(1000)
    stream = Stream()
    buffer.copy_to(pinned.memoryview(), stream)
    stream.synchronize()
    assert bytes(pinned.memoryview()) == bytes(range(250)) * 4
    ordered = runtime.alloc(64, stream=stream.handle)
    ordered.fill(3, stream)
    result = bytearray(64)
    ordered.copy_to(result, stream)
    stream.synchronize()
    assert result == b"\3" * 64
    ordered.free()


def test_launches_streams_events(runtime: DeviceRuntime):
    function = runtime.function(runtime.module_load(PTX), "add")
    assert function.registers and function.max_threads and function.max_threads >= 256
    buffer = runtime.alloc(4 * 1024)
    buffer.fill(0)
    pointer, value = ctypes.c_void_p(buffer.ptr), ctypes.c_uint32(3)
    stream = Stream()
    start = stream.record_event()
    for _ in range(10):
        runtime.launch(function, 4, 256, params=[pointer, value], stream=stream)
    end = stream.record_event()
    end.synchronize()
    assert start.elapsed_ms(end) > 0 and stream.query()
    runtime.launch(function, 4, 256, params=[pointer, value], smem=100_000)
    runtime.launch(function, 4, 256, params=[pointer, value], cluster=2)
    runtime.launch(function, 4, 256, params=[pointer, value], cooperative=True)
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, *(ctypes.c_uint,) * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )
    params = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(value))
    launch = prototype(runtime.launch_symbol())
    assert launch(function.handle, 4, 1, 1, 256, 1, 1, 0, None, ctypes.addressof(params), None) == 0
    runtime.synchronize()
    out = array.array("I", bytes(4096))
    buffer.copy_to(out)
    assert set(out) == {42}
    assert runtime.max_active_blocks(function, 256) > 0
    with pytest.raises(OutOfResourcesError):
        runtime.launch(function, 1, 2048, params=[pointer, value])


def test_errors(runtime: DeviceRuntime):
    with pytest.raises(FlyRuntimeError, match="(?s)PTX.*(syntax|Parsing) error") as caught:
        runtime.module_load(b".version 7.0\n.target sm_70\n.address_size 64\n nonsense;\n")
    assert caught.value.code == 218
    with pytest.raises(FlyRuntimeError, match="NOT_FOUND"):
        runtime.function(runtime.module_load(PTX), "sub")
    with pytest.raises(OutOfMemoryError) as full:
        runtime.alloc(1 << 50)
    assert full.value.requested == 1 << 50 and full.value.free


def test_graph_capture(runtime: DeviceRuntime):
    function = runtime.function(runtime.module_load(PTX), "add")
    buffer = runtime.alloc(4 * 256)
    buffer.fill(0)
    stream = Stream()
    params = [ctypes.c_void_p(buffer.ptr), ctypes.c_uint32(5)]
    garbage = runtime.alloc(64)
    with stream:
        runtime.graph_begin_capture(stream.handle)
        assert stream.is_capturing()
        del garbage
        gc.collect()
        runtime.launch(function, 1, 256, params=params)
        with pytest.raises(CaptureError):
            function.module.unload()
        graph = runtime.graph_instantiate(runtime.graph_end_capture(stream.handle))
    for _ in range(3):
        runtime.graph_launch(graph, stream.handle)
    stream.synchronize()
    out = array.array("I", bytes(1024))
    buffer.copy_to(out)
    assert set(out) == {15}


FORK = """
import os, sys
from flydsl.runtime import get_device_runtime, ForkedProcessError
runtime = get_device_runtime()
initialise = sys.argv[1] == "1"
if initialise:
    runtime.alloc(16)
pid = os.fork()
if pid == 0:
    try:
        runtime.alloc(16)
        os._exit(1 if initialise else 0)
    except ForkedProcessError:
        os._exit(0 if initialise else 2)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize("initialise", ["0", "1"])
def test_r39_fork(initialise: str):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FLYDSL_COMPILE_BACKEND": "cuda"}
    done = subprocess.run([sys.executable, "-c", FORK, initialise], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


FAULT = """
import ctypes, sys
from flydsl.errors import DeviceLostError
from flydsl.runtime import get_device_runtime
runtime = get_device_runtime()
function = runtime.function(runtime.module_load(sys.stdin.buffer.read()), "add")
try:
    runtime.launch(function, 1, 32, params=[ctypes.c_void_p(64), ctypes.c_uint32(1)])
    sys.exit("not reported")
except DeviceLostError as error:
    assert error.kernel == "add", error
    try:
        runtime.alloc(8)
        sys.exit("not sticky")
    except DeviceLostError as again:
        assert again is error
"""


def test_r22_fault_is_attributed_and_sticky():
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "FLYDSL_COMPILE_BACKEND": "cuda",
        "FLYDSL_RUNTIME_LAUNCH_BLOCKING": "1",
    }
    done = subprocess.run([sys.executable, "-c", FAULT], env=env, input=PTX, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert DeviceLostError.__name__ == "DeviceLostError"


def test_timing_event_flags(runtime: DeviceRuntime):
    with pytest.raises(RuntimeError, match="timing=False"):
        Event(timing=False).elapsed_ms(Event())


def test_ptx_with_a_line_table_loads_and_runs(runtime: DeviceRuntime):
    """The driver is asked to keep the lines; its assembler must take what LLVM writes."""
    lines = PTX.replace(b"  ld.global.u32", b"\t.loc\t1 12 3\n  ld.global.u32")
    lines = lines.replace(b"  st.global.u32", b"\t.loc\t1 13 3\n  st.global.u32") + b'\t.file\t1 "/nowhere/kernel.py"\n'
    assert lines.count(b"\n\t.loc\t") == 2
    function = runtime.function(runtime.module_load(lines), "add")
    buffer, back = runtime.alloc(4 * 64), bytearray(4 * 64)
    buffer.copy_from(array.array("I", range(64)).tobytes())
    runtime.launch(function, 2, 32, params=[ctypes.c_uint64(buffer.ptr), ctypes.c_uint32(5)])
    runtime.synchronize()
    buffer.copy_to(back)
    assert list(memoryview(back).cast("I")) == [i + 5 for i in range(64)]
