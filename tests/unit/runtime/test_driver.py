"""The GPU runtimes against a recording driver library: what is called, in which order, and what statuses become."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flydsl.errors import (
    CaptureError,
    DeviceLostError,
    FlyRuntimeError,
    ForkedProcessError,
    InvalidHandleError,
    LaunchError,
    NotSupportedError,
    OutOfMemoryError,
    OutOfResourcesError,
)
from flydsl.runtime import CudaDeviceRuntime, Event, RocmDeviceRuntime, Stream, probe, register_device_runtime
from flydsl.runtime.device_runtime import get_device_runtime, reset_device_runtime
from flydsl.runtime.driver import DriverRuntime
from flydsl.runtime.driver_table import ENTRIES

# importlib import mode: a sibling module is loaded by its path.
_spec = importlib.util.spec_from_file_location("fake_driver", Path(__file__).with_name("fake_driver.py"))
assert _spec is not None and _spec.loader is not None
fake_driver: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake_driver)

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for the fake driver")

STACKS = {
    "cuda": ("cuda", CudaDeviceRuntime, "FLYDSL_CUDA_LIBRARY"),
    "rocm": ("hip", RocmDeviceRuntime, "FLYDSL_HIP_LIBRARY"),
}


@pytest.fixture(params=list(STACKS))
def stack(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[DriverRuntime, Any]]:
    """A fresh runtime over a fresh copy of the library, as the process's runtime."""
    column, cls, variable = STACKS[request.param]
    driver = fake_driver.build(tmp_path, column)
    monkeypatch.setenv(variable, str(driver.path))
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", request.param)
    register_device_runtime(cls)
    runtime = get_device_runtime()
    assert isinstance(runtime, DriverRuntime)
    yield runtime, driver
    driver.fail("none", 0)
    runtime._lost.clear()  # pyright: ignore[reportPrivateUsage]
    runtime._forked = False  # pyright: ignore[reportPrivateUsage]
    reset_device_runtime()


Stack = tuple[DriverRuntime, Any]


def test_nothing_is_called_before_it_is_needed(stack: Stack):
    runtime, driver = stack
    assert not runtime.driver_initialised() and driver.calls() == []
    assert runtime.device_count() == 2
    assert driver.names() == ["init", "device_count"]
    assert runtime.device_count() == 2 and driver.names() == []
    assert runtime.library_path() == str(driver.path)


def test_device_description(stack: Stack):
    runtime, _ = stack
    device = runtime.device(1)
    caps = device.capabilities
    if runtime.kind == "cuda":
        assert (device.name, device.arch, device.pci_bus_id) == ("Fake H200", "sm_90", "0000:01:00.0")
        assert (caps.warp_size, caps.shared_mem_per_block_optin, caps.cluster_launch) == (32, 232448, True)
        assert caps.max_block_dim == (1024, 1024, 64)
        assert device.target().key() == "cuda:sm_90:w32"
    else:
        assert (device.name, device.pci_bus_id) == ("Fake MI300X", "0000:05:06.0")
        assert (caps.warp_size, caps.compute_units, caps.shared_mem_per_block) == (64, 304, 65536)
        assert device.target().key() == "rocm:gfx942:w64:+sramecc,-xnack"
        assert not caps.cluster_launch
    assert device.ordinal == 1 and caps.total_memory == 1 << 34


def test_memory_operations(stack: Stack):
    runtime, driver = stack
    buffer = runtime.alloc(100)
    assert buffer.device.ordinal == 0
    driver.calls()
    buffer.copy_from(b"x" * 100)
    buffer.copy_to(bytearray(100))
    buffer.fill(3)
    buffer.copy_from(buffer.view(50, 50))
    names = driver.names()
    assert [n for n in names if n.startswith(("copy", "set8"))] == ["copy_h2d", "copy_d2h", "set8", "copy_d2d"]
    assert names.count("stream_synchronize") == 2, "fills and device copies return early in the drivers"
    runtime.memset32(buffer.ptr, -1, 3)
    assert ("set32", (buffer.ptr, 0xFFFFFFFF, 3)) in driver.calls()
    stream = Stream()
    driver.calls()
    buffer.copy_from(b"y", stream)
    buffer.fill(1, stream)
    calls = dict(driver.calls())
    assert calls["copy_h2d_async"][3] == stream.handle and calls["set8_async"][3] == stream.handle
    assert buffer.__cuda_array_interface__["data"] == (buffer.ptr, False)
    assert buffer.__dlpack_device__() == ({"cuda": 2, "rocm": 10}[runtime.kind], 0)
    assert not hasattr(buffer, "__array_interface__")
    buffer.copy_from(b"")
    assert "copy_h2d" not in driver.names()
    assert runtime.pointer_device(0x1234) == 1 and runtime.pointer_device(1) is None
    assert runtime.alloc(0).ptr == 0


def test_large_alignment_keeps_the_base(stack: Stack):
    runtime, driver = stack
    runtime.alloc(16)
    buffer = runtime.alloc(16, alignment=65536)
    size = [args[1] for name, args in driver.calls() if name == "alloc"][-1]
    base = buffer.handle
    assert buffer.ptr % 65536 == 0 and size == 16 + 65536 and base <= buffer.ptr
    buffer.free()
    assert ("free", (base,)) in driver.calls()


def test_other_devices_are_made_current_and_restored(stack: Stack):
    runtime, driver = stack
    before = runtime.current_device_id()
    buffer = runtime.alloc(8, device=1)
    assert buffer.device.ordinal == 1 and runtime.current_device_id() == before
    driver.calls()
    switch = "context_set" if runtime.kind == "cuda" else "set_device"
    buffer.free()
    names = driver.names()
    assert names.count(switch) == 2 and names.index(switch) < names.index("free")
    with runtime.device(1):
        assert runtime.current_device_id() == 1
    assert runtime.current_device_id() == before
    with pytest.raises(FlyRuntimeError, match="devices are 0 to 1, 5 was asked for"):
        runtime.set_device(5)


def test_finalisers_only_queue_and_later_calls_release(stack: Stack):
    runtime, driver = stack
    buffer, stream, event = runtime.alloc(8), Stream(), Event()
    handles = {"free": buffer.handle, "stream_destroy": stream.handle, "event_destroy": event.handle}
    driver.calls()
    del buffer, stream, event
    gc.collect()
    assert driver.calls() == []
    runtime.alloc(8)
    calls = driver.calls()
    for name, handle in handles.items():
        assert (name, (handle,)) in calls


def test_streams_and_events(stack: Stack):
    runtime, driver = stack
    stream = Stream(1, priority=-1)
    assert [args[1:] for name, args in driver.calls() if name == "stream_create"] == [(1, 0xFFFFFFFF)]
    start, end = Event(timing=True), Event(blocking=True)
    assert [args[1] for name, args in driver.calls() if name == "event_create"] == [0, 1]
    start.record(stream)
    end.record(stream)
    assert start.elapsed_ms(end) == 1.5
    driver.fail("event_query", 600)
    with pytest.raises(RuntimeError, match="start event has not completed"):
        start.elapsed_ms(end)
    driver.fail("stream_query", 600)
    assert not stream.query() and stream.query()
    stream.wait_event(end)
    assert not stream.is_capturing()
    assert Stream.from_handle(0x900000).device.ordinal == 1
    stream.close()
    assert "stream_destroy" in driver.names()


def test_launch(stack: Stack):
    runtime, driver = stack
    function = runtime.function(runtime.module_load(b"binary"), "kernel")
    assert (function.max_threads, function.shared_static, function.local_bytes, function.registers) == (
        100,
        101,
        103,
        104,
    )
    driver.calls()
    runtime.launch(function, (2, 3), 64, smem=16, params=[ctypes.c_int32(1), ctypes.c_int64(2)])
    (args,) = [args for name, args in driver.calls() if name == "launch"]
    assert args[:8] == (function.handle, 2, 3, 1, 64, 1, 1, 16) and args[8] == 0 and args[9] and args[10] == 0
    runtime.launch(function, (0, 1, 1), 64)
    assert "launch" not in driver.names()
    with pytest.raises(OutOfResourcesError, match="threads per block: 128 required, limit is 100"):
        runtime.launch(function, 1, 128)
    driver.fail("launch", 1)
    with pytest.raises(LaunchError) as caught:
        runtime.launch(function, 1, 64)
    assert caught.value.kernel == "kernel" and caught.value.code == 1
    assert runtime.launch_symbol() == runtime.table().address("launch")
    assert runtime.max_active_blocks(function, 64) == 3
    assert runtime.module_global(function.module, "g") == (0x5000, 64)


def test_launch_blocking(stack: Stack, monkeypatch: pytest.MonkeyPatch):
    runtime, driver = stack
    function = runtime.function(runtime.module_load(b"binary"), "kernel")
    monkeypatch.setenv("FLYDSL_RUNTIME_LAUNCH_BLOCKING", "1")
    driver.calls()
    driver.fail("stream_synchronize", 700)
    with pytest.raises(DeviceLostError) as caught:
        runtime.launch(function, 1, 64)
    assert caught.value.kernel == "kernel"


def test_cuda_opt_in_shared_memory_and_clusters(stack: Stack):
    runtime, driver = stack
    function = runtime.function(runtime.module_load(b"binary"), "kernel")
    driver.calls()
    if runtime.kind == "rocm":
        with pytest.raises(OutOfResourcesError, match="shared memory"):
            runtime.launch(function, 1, 64, smem=100_000)
        with pytest.raises(NotSupportedError, match="cluster launch"):
            runtime.launch(function, 4, 64, cluster=2)
        return
    runtime.launch(function, 1, 64, smem=100_000)
    runtime.launch(function, 1, 64, smem=90_000)
    limits = [args for name, args in driver.calls() if name == "function_set_attribute"]
    assert limits == [(function.handle, 8, 100_000)]
    runtime.launch(function, 4, 64, cluster=2, cooperative=True)
    names = driver.names()
    assert "launch_ex" in names and "launch" not in names


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (1, FlyRuntimeError),
        (2, OutOfMemoryError),
        (400, InvalidHandleError),
        (700, DeviceLostError),
        (701, OutOfResourcesError),
        (719, DeviceLostError),
        (801, NotSupportedError),
        (900, CaptureError),
    ],
)
def test_r18_every_status_becomes_its_exception(stack: Stack, code: int, error: type[Exception]):
    runtime, driver = stack
    runtime.alloc(1)
    driver.fail("alloc", code)
    with pytest.raises(error) as caught:
        runtime.alloc(64)
    found = caught.value
    assert isinstance(found, FlyRuntimeError) and found.code == code and found.device == 0
    assert found.api in ("cuMemAlloc_v2", "hipMalloc")


def test_out_of_memory_tells_the_numbers(stack: Stack):
    runtime, driver = stack
    driver.fail("alloc", 2)
    with pytest.raises(OutOfMemoryError, match="64 bytes requested, 1000 free of 2000") as caught:
        runtime.alloc(64)
    assert (caught.value.requested, caught.value.free, caught.value.total) == (64, 1000, 2000)


def test_lost_device_stays_lost(stack: Stack):
    runtime, driver = stack
    driver.fail("synchronize", 700)
    with pytest.raises(DeviceLostError) as first:
        runtime.synchronize()
    with pytest.raises(DeviceLostError) as later:
        runtime.alloc(4)
    assert later.value is first.value


def test_no_device_names_usable_stacks(stack: Stack):
    runtime, driver = stack
    driver.fail("init", 100)
    assert runtime.device_count() == 0
    with pytest.raises(FlyRuntimeError, match="there is no .* device.*cpu.*FLYDSL_COMPILE_BACKEND"):
        runtime.alloc(4)
    runtime._count = None  # pyright: ignore[reportPrivateUsage]


def test_r23_stale_error_is_reported_as_earlier(stack: Stack):
    runtime, driver = stack
    if runtime.kind == "cuda":
        pytest.skip("the CUDA driver API keeps no last error")
    runtime.alloc(1)
    driver.set_last_error(98)
    with pytest.raises(FlyRuntimeError, match="an earlier HIP call had failed"):
        runtime.module_load(b"binary")
    runtime.module_load(b"binary")


def test_r39_fork_after_initialisation(stack: Stack):
    runtime, _ = stack
    runtime.after_fork_in_child()
    assert not runtime.forked, "nothing was initialised yet"
    runtime.device_count()
    runtime.after_fork_in_child()
    for use in (runtime.device_count, lambda: runtime.alloc(1), lambda: runtime.device(0), runtime.driver_version):
        with pytest.raises(ForkedProcessError, match="spawn"):
            use()


def test_graphs_and_peers(stack: Stack):
    runtime, driver = stack
    stream = Stream()
    with pytest.raises(CaptureError, match="default stream"):
        runtime.graph_begin_capture(0)
    runtime.graph_begin_capture(stream.handle)
    graph = runtime.graph_end_capture(stream.handle)
    runtime.graph_launch(graph, stream.handle)
    assert {"capture_begin", "capture_end", "graph_instantiate", "graph_launch"} <= set(driver.names())
    assert runtime.can_access_peer(0, 1)
    driver.fail("enable_peer", 704)
    runtime.enable_peer_access(0, 1)
    runtime.disable_peer_access(0, 1)
    source, target = runtime.alloc(8, device=0), runtime.alloc(8, device=1)
    driver.calls()
    target.copy_from(source)
    (args,) = [args for name, args in driver.calls() if name == "copy_peer_async"]
    operands = (0xC1, 0xC0) if runtime.kind == "cuda" else (1, 0)
    assert (args[1], args[3]) == operands


def test_missing_entry_points_are_not_supported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    driver = fake_driver.build(tmp_path, "cuda", without=("cuLaunchKernelEx", "cuMemAllocAsync"))
    monkeypatch.setenv("FLYDSL_CUDA_LIBRARY", str(driver.path))
    runtime = CudaDeviceRuntime()
    function = runtime.function(runtime.module_load(b"x"), "k")
    with pytest.raises(NotSupportedError, match="the driver library has no cuLaunchKernelEx"):
        runtime.launch(function, 4, 32, cluster=2)
    with pytest.raises(NotSupportedError, match="cuMemAllocAsync"):
        runtime.alloc(8, stream=5)
    runtime.alive = False


def test_table_is_complete():
    for name, entry in ENTRIES.items():
        assert entry.hip or entry.cuda, name


def test_r3_handles_are_plain_integers(stack: Stack):
    runtime, _ = stack
    stream, event, buffer = Stream(), Event(), runtime.alloc(16)
    module = runtime.module_load(b"code")
    function = runtime.function(module, "k")
    for value in (stream.handle, event.handle, buffer.ptr, module.handle, function.handle):
        assert type(value) is int


def test_r21_the_library_stays_local(stack: Stack):
    runtime, driver = stack
    runtime.device_count()
    symbol = ENTRIES["init"].hip[0] if runtime.kind == "rocm" else ENTRIES["init"].cuda[0]
    assert not hasattr(ctypes.CDLL(None), symbol), "its symbols are not visible to other libraries"
    assert driver.path.exists()


def test_r34_enter_and_leave_restore_the_device(stack: Stack):
    runtime, _ = stack
    assert runtime.current_device_id() == 0
    before = runtime.enter(1)  # type: ignore[attr-defined]
    assert runtime.current_device_id() == 1 and before is not None
    runtime.leave(before)  # type: ignore[attr-defined]
    assert runtime.current_device_id() == 0 and runtime.enter(0) is None  # type: ignore[attr-defined]


def test_r33_peer_access_is_remembered(stack: Stack):
    runtime, _ = stack
    assert runtime.peer_access_enabled(0, 0) and not runtime.peer_access_enabled(0, 1)
    runtime.enable_peer_access(0, 1)
    assert runtime.peer_access_enabled(0, 1) and not runtime.peer_access_enabled(1, 0)
    runtime.disable_peer_access(0, 1)
    assert not runtime.peer_access_enabled(0, 1)


def test_r38_probes_initialise_nothing(stack: Stack, monkeypatch: pytest.MonkeyPatch):
    runtime, driver = stack
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND")
    probe.stack_present(runtime.kind)
    probe.present_stacks()
    probe.selected_backend()
    assert driver.calls() == [] and not runtime.driver_initialised()


@pytest.mark.parametrize("code", [100, 101])
def test_no_device_at_initialisation(stack: Stack, code: int):
    runtime, driver = stack
    driver.fail("init", code)
    assert runtime.device_count() == 0
    with pytest.raises(FlyRuntimeError, match=f"there is no {runtime.kind} device"):
        runtime.alloc(4)
    runtime._count = None  # pyright: ignore[reportPrivateUsage]


def test_line_tables_of_ptx_are_asked_for(stack: Stack):
    """The driver's own assembler drops `.loc` directives unless an option says otherwise; it is given only then."""
    runtime, driver = stack
    if runtime.kind != "cuda":
        return
    for text, options in (
        (b".version 8.3\n\tret;\n", 4),
        (b'.version 8.3\n\t.loc\t1 12 3\n\tret;\n\t.file\t1 "k.py"\n', 5),
    ):
        driver.calls()
        runtime.module_load(text)
        (args,) = [args for name, args in driver.calls() if name == "module_load_ex"]
        assert args[2] == options
