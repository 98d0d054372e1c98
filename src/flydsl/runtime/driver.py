"""The runtime of both GPU stacks: one implementation over the driver table; vendors differ in a few hooks.

Nothing is loaded or initialised before the first call that needs the driver. Every status is checked.
"""

from __future__ import annotations

import ctypes
import threading
from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import Any, ClassVar

from flydsl.errors import (
    CaptureError,
    DeviceLostError,
    FlyRuntimeError,
    InvalidHandleError,
    LaunchError,
    LibraryNotFoundError,
    NotSupportedError,
    OutOfMemoryError,
    OutOfResourcesError,
)
from flydsl.runtime import library, probe
from flydsl.runtime.base import DeviceRuntime, Dim, check_launch, dim3, launch_blocking, launch_stream
from flydsl.runtime.driver_table import STICKY, Column, DriverTable, Status
from flydsl.runtime.launch_args import launch_config, param_address
from flydsl.runtime.objects import Buffer, Device, Function, Graph, Module, Stream

_ATTRIBUTES = {"max_threads": 0, "shared_static": 1, "local_bytes": 3, "registers": 4}
_MAX_DYNAMIC_SHARED = 8
_DEVICE_ORDINAL = 9
_PLAIN_ALIGNMENT = 256


class DriverRuntime(DeviceRuntime):
    """HIP or CUDA through ctypes; subclasses name the library and fill in the hooks."""

    spec: ClassVar[library.LibrarySpec]
    column: ClassVar[Column]

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._load_lock = threading.Lock()
        self._table: DriverTable | None = None
        self._path = ""
        self._count: int | None = None
        self._devices: dict[int, Device] = {}
        self._lost: dict[int, DeviceLostError] = {}
        self._peers: set[tuple[int, int]] = set()

    # -- vendor hooks ----------------------------------------------------------------------------------

    @abstractmethod
    def _make_current(self, ordinal: int) -> None: ...

    @abstractmethod
    def _current(self) -> int:
        """The calling thread's device, made usable if it has none yet."""

    @abstractmethod
    def _describe(self, ordinal: int) -> Device: ...

    @abstractmethod
    def _stream_device(self, stream: int) -> int: ...

    @abstractmethod
    def _peer_operand(self, ordinal: int) -> int:
        """How the peer functions name a device."""

    @abstractmethod
    def _status_text(self, code: int) -> tuple[str, str]:
        """Name and description of a status."""

    @abstractmethod
    def _load_module(self, binary: bytes) -> int: ...

    def _clear_stale_error(self) -> None:
        """Report a vendor error left over from an earlier call."""

    # -- calling ---------------------------------------------------------------------------------------

    def table(self) -> DriverTable:
        """The entry points; loads the library at the first use."""
        if self._forked:
            self.check_fork()
        if self._table is None:
            with self._lock:
                if self._table is None:
                    try:
                        handle, self._path = library.open_library(self.spec)
                    except LibraryNotFoundError as error:
                        raise LibraryNotFoundError(f"{error.description}\n{self._usable_hint()}") from None
                    self._table = DriverTable(self.kind, self.column, handle)
        return self._table

    def _usable_hint(self) -> str:
        stacks = [kind for kind in probe.present_stacks() if kind != self.kind]
        return f"Stacks usable on this machine: {', '.join(stacks)}; choose one with FLYDSL_COMPILE_BACKEND."

    def _raw(self, name: str, *args: Any) -> int:
        """Call an entry point; its status unchecked."""
        return self.table().get(name)(*args)

    def _call(self, name: str, *args: Any, stream: int | None = None, kernel: str | None = None) -> None:
        """Call an entry point and raise what its status means."""
        status = self.table().get(name)(*args)
        if status:
            raise self.error_of(status, name, stream=stream, kernel=kernel)

    def error_of(
        self, status: int, name: str, *, stream: int | None = None, kernel: str | None = None
    ) -> FlyRuntimeError:
        """The exception for a status; a fault that kills the device is remembered for it."""
        label, text = self._status_text(status)
        api = self.table().symbol(name)
        device = self._known_device()
        more: dict[str, Any] = dict(api=api, code=status, device=device, stream=stream, kernel=kernel)
        if status == Status.OUT_OF_MEMORY:
            free, total = self._memory_or_none(device)
            return OutOfMemoryError(text, free=free, total=total, name=label, **more)
        if status in STICKY:
            first = self._lost.get(device or 0)
            error = DeviceLostError(text, name=label, **more)
            error.__cause__ = first
            self._lost.setdefault(device or 0, error)
            return error
        if status == Status.OUT_OF_RESOURCES:
            return OutOfResourcesError(None, None, label, description=text, **more)
        if status == Status.NOT_SUPPORTED:
            return NotSupportedError(self.kind, name, text, name=label, **more)
        if Status.CAPTURE_UNSUPPORTED <= status <= Status.CAPTURE_LAST:
            return CaptureError(f"{text}; call prepare() or warmup() before the capture starts", name=label, **more)
        if status in (Status.INVALID_HANDLE, 201):
            return InvalidHandleError(text, name=label, **more)
        if status in (Status.NO_DEVICE, Status.INVALID_DEVICE):
            return FlyRuntimeError(f"{text}. {self._usable_hint()}", name=label, **more)
        kind = LaunchError if name.startswith("launch") else FlyRuntimeError
        return kind(text, name=label, **more)

    def _known_device(self) -> int | None:
        return None if self._count is None else self._current_quietly()

    def _current_quietly(self) -> int | None:
        """The current device for an error message; asking must not fail again."""
        try:
            return self._current()
        except FlyRuntimeError:
            return None

    def _memory_or_none(self, device: int | None) -> tuple[int | None, int | None]:
        free, total = c_size_t(), c_size_t()
        if device is None or self._raw("memory_info", byref(free), byref(total)):
            return None, None
        return free.value, total.value

    def _check_lost(self, ordinal: int) -> None:
        if self._lost and (error := self._lost.get(ordinal)) is not None:
            raise error

    # -- life cycle ------------------------------------------------------------------------------------

    def driver_initialised(self) -> bool:
        return self._count is not None

    def after_fork_in_child(self) -> None:
        super().after_fork_in_child()
        self._lock = threading.RLock()
        self._load_lock = threading.Lock()

    def release_handle(self, what: str, handle: int, device: int) -> None:
        entry = {
            "buffer": "free",
            "pinned buffer": "free_host",
            "stream": "stream_destroy",
            "event": "event_destroy",
            "module": "module_unload",
        }[what]
        with self.on_device(device):
            self._call(entry, handle)

    # -- devices ---------------------------------------------------------------------------------------

    def device_count(self) -> int:
        if self._forked:
            self.check_fork()
        if self._count is None:
            with self._lock:
                if self._count is None:
                    self._count = self._initialise()
        return self._count

    def _initialise(self) -> int:
        status = self._raw("init", 0)
        if status in (Status.NO_DEVICE, Status.INVALID_DEVICE):  # HIP 5 says "invalid device" on a machine without one.
            return 0
        if status:
            raise self.error_of(status, "init")
        count = c_int()
        status = self._raw("device_count", byref(count))
        if status in (Status.NO_DEVICE, Status.INVALID_DEVICE):
            return 0
        if status:
            raise self.error_of(status, "device_count")
        return count.value

    def _need(self, ordinal: int) -> int:
        count = self.device_count()
        if not 0 <= ordinal < count:
            what = f"there is no {self.kind} device" if not count else f"{self.kind} devices are 0 to {count - 1}"
            hint = f". {self._usable_hint()}" if not count else ""
            raise FlyRuntimeError(f"{what}, {ordinal} was asked for{hint}", device=ordinal)
        self._check_lost(ordinal)
        return ordinal

    def current_device_id(self) -> int:
        self._need(0)
        return self._current()

    def set_device(self, ordinal: int) -> None:
        self._make_current(self._need(ordinal))

    @contextmanager
    def on_device(self, ordinal: int | None) -> Generator[int]:
        """Make a device current (None: keep the current one) and restore the caller's afterwards."""
        before = self.current_device_id()
        if ordinal is None or ordinal == before:
            self._check_lost(before)
            yield before
            return
        self._make_current(self._need(ordinal))
        try:
            yield ordinal
        finally:
            self._make_current(before)

    def device(self, ordinal: int) -> Device:
        known = self._devices.get(ordinal)
        if known is None:
            known = self._devices.setdefault(ordinal, self._describe(self._need(ordinal)))
        return known

    def synchronize(self, device: int | None = None) -> None:
        with self.on_device(device):
            self._call("synchronize")

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        free, total = c_size_t(), c_size_t()
        with self.on_device(ordinal):
            self._call("memory_info", byref(free), byref(total))
        return free.value, total.value

    # -- memory ----------------------------------------------------------------------------------------

    def alloc(
        self, nbytes: int, *, device: int | None = None, stream: int | None = None, alignment: int = 256
    ) -> Buffer:
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        if alignment < 1 or alignment & (alignment - 1):
            raise ValueError(f"alignment must be a power of two, got {alignment}")
        if device is None and stream:
            device = self.stream_device_of(stream)
        with self.on_device(device) as ordinal:
            if nbytes == 0:
                return Buffer(self, 0, 0, ordinal, stream_ordered=stream is not None)
            extra = alignment if alignment > _PLAIN_ALIGNMENT else 0
            base = c_void_p()
            try:
                if stream is None:
                    self._call("alloc", byref(base), nbytes + extra)
                else:
                    self._call("alloc_async", byref(base), nbytes + extra, stream, stream=stream)
            except OutOfMemoryError as error:
                error.requested = nbytes
                error.description = f"{error.description}: {nbytes} bytes requested, {error.free} free of {error.total}"
                raise
            start = base.value or 0
            ptr = -(-start // alignment) * alignment
            return Buffer(self, ptr, nbytes, ordinal, stream_ordered=stream is not None, base=start)

    def alloc_pinned(self, nbytes: int) -> Buffer:
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        with self.on_device(None) as ordinal:
            if nbytes == 0:
                return Buffer(self, 0, 0, ordinal, pinned=True)
            base = c_void_p()
            self._call("alloc_host", byref(base), nbytes, 0)
            return Buffer(self, base.value or 0, nbytes, ordinal, pinned=True)

    def free(self, buffer: Buffer) -> None:
        ordinal, pinned, handle = buffer.device.ordinal, buffer.pinned, buffer.handle
        if buffer._disarm():  # pyright: ignore[reportPrivateUsage]
            self.release_handle("pinned buffer" if pinned else "buffer", handle, ordinal)

    def _copy(self, name: str, dst: int, src: int, nbytes: int, stream: int | None) -> None:
        if nbytes < 0:
            raise ValueError(f"cannot copy {nbytes} bytes")
        if nbytes and not (dst and src):
            raise ValueError("address 0 given for a copy")
        if not nbytes:
            return
        if stream is None:
            with self.on_device(None):
                self._call(name, dst, src, nbytes)
        else:
            with self.on_device(self._device_of_stream(stream)):
                self._call(f"{name}_async", dst, src, nbytes, stream, stream=stream)

    def memcpy_h2d(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None:
        self._copy("copy_h2d", dst, src, nbytes, stream)

    def memcpy_d2h(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None:
        self._copy("copy_d2h", dst, src, nbytes, stream)

    def memcpy_d2d(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None:
        self._copy("copy_d2d", dst, src, nbytes, stream)
        if stream is None and nbytes:
            self._wait_default()

    def memcpy_peer(
        self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, *, stream: int | None = None
    ) -> None:
        if nbytes < 0:
            raise ValueError(f"cannot copy {nbytes} bytes")
        if not nbytes:
            return
        to, come_from = self._peer_operand(self._need(dst_device)), self._peer_operand(self._need(src_device))
        with self.on_device(src_device):
            self._call("copy_peer_async", dst, to, src, come_from, nbytes, stream or 0, stream=stream)
            if stream is None:
                self._wait_default()

    def _wait_default(self) -> None:
        """Copies inside a device and fills may return early; `stream=None` promises that they are done."""
        self._call("stream_synchronize", 0)

    def memset(self, ptr: int, byte: int, nbytes: int, *, stream: int | None = None) -> None:
        if not 0 <= byte <= 255:
            raise ValueError(f"memset takes one byte, 0 to 255, got {byte}")
        self._set("set8", ptr, byte, nbytes, stream)

    def memset32(self, ptr: int, word: int, count: int, *, stream: int | None = None) -> None:
        self._set("set32", ptr, word & 0xFFFFFFFF, count, stream)

    def _set(self, name: str, ptr: int, value: int, count: int, stream: int | None) -> None:
        if count < 0 or (count and not ptr):
            raise ValueError(f"cannot set {count} elements at {ptr:#x}")
        if not count:
            return
        if stream is None:
            with self.on_device(None):
                self._call(name, ptr, value, count)
                self._wait_default()
        else:
            with self.on_device(self._device_of_stream(stream)):
                self._call(f"{name}_async", ptr, value, count, stream, stream=stream)

    def pointer_device(self, ptr: int) -> int | None:
        self.current_device_id()
        ordinal = c_int(-1)
        status = self._raw("pointer_attribute", byref(ordinal), _DEVICE_ORDINAL, ptr)
        if status == Status.INVALID_VALUE:
            return None
        if status:
            raise self.error_of(status, "pointer_attribute")
        return ordinal.value if ordinal.value >= 0 else None

    # -- streams ---------------------------------------------------------------------------------------

    def _device_of_stream(self, stream: int) -> int | None:
        return None if stream in (0, 1, 2) else self.stream_device_of(stream)

    def stream_create(self, device: int, priority: int, non_blocking: bool) -> int:
        handle = c_void_p()
        with self.on_device(device):
            self._call("stream_create", byref(handle), 1 if non_blocking else 0, priority)
        return handle.value or 0

    def stream_destroy(self, stream: int) -> None:
        self._call("stream_destroy", stream, stream=stream)

    def stream_synchronize(self, stream: int) -> None:
        self.current_device_id()
        self._call("stream_synchronize", stream, stream=stream)

    def stream_query(self, stream: int) -> bool:
        self.current_device_id()
        return self._ready("stream_query", stream)

    def _ready(self, name: str, handle: int) -> bool:
        status = self._raw(name, handle)
        if status not in (Status.SUCCESS, Status.NOT_READY):
            raise self.error_of(status, name)
        return status == Status.SUCCESS

    def stream_wait_event(self, stream: int, event: int) -> None:
        self.current_device_id()
        self._call("stream_wait_event", stream, event, 0, stream=stream)

    def stream_is_capturing(self, stream: int) -> bool:
        self.current_device_id()
        state = c_int()
        self._call("stream_is_capturing", stream, byref(state), stream=stream)
        return state.value != 0

    def stream_device_of(self, stream: int) -> int:
        self.current_device_id()
        return self._stream_device(stream)

    # -- events ----------------------------------------------------------------------------------------

    def event_create(self, device: int, timing: bool, blocking: bool) -> int:
        handle = c_void_p()
        with self.on_device(device):
            self._call("event_create", byref(handle), (1 if blocking else 0) | (0 if timing else 2))
        return handle.value or 0

    def event_destroy(self, event: int) -> None:
        self._call("event_destroy", event)

    def event_record(self, event: int, stream: int) -> None:
        with self.on_device(self._device_of_stream(stream)):
            self._call("event_record", event, stream, stream=stream)

    def event_query(self, event: int) -> bool:
        return self._ready("event_query", event)

    def event_synchronize(self, event: int) -> None:
        self._call("event_synchronize", event)

    def event_elapsed_ms(self, start: int, end: int) -> float:
        value = ctypes.c_float()
        self._call("event_elapsed", byref(value), start, end)
        return value.value

    # -- code ------------------------------------------------------------------------------------------

    def module_load(self, binary: bytes, *, device: int | None = None) -> Module:
        with self._load_lock, self.on_device(device) as ordinal:
            self._clear_stale_error()
            return Module(self, self._load_module(binary), ordinal)

    def module_unload(self, module: Module) -> None:
        handle, ordinal = module.handle, module.device.ordinal
        if self.capture_active():
            raise CaptureError("a module cannot be unloaded while a stream is captured", device=ordinal)
        if module.release():
            self.release_handle("module", handle, ordinal)

    def function(self, module: Module, name: str, *, shared_bytes: int = 0) -> Function:
        handle = c_void_p()
        with self.on_device(module.device.ordinal):
            self._clear_stale_error()
            self._call("module_function", byref(handle), module.handle, name.encode(), kernel=name)
            values: dict[str, int | None] = {}
            for key, attribute in _ATTRIBUTES.items():
                value = c_int()
                failed = self._raw("function_attribute", byref(value), attribute, handle)
                values[key] = None if failed else value.value
        return Function(module, name, handle.value or 0, **values)

    def set_dynamic_smem_limit(self, function: Function, nbytes: int) -> None:
        if (function.dynamic_limit or 0) >= nbytes or not self.table().has("function_set_attribute"):
            return
        with self.on_device(function.device.ordinal):
            self._call("function_set_attribute", function.handle, _MAX_DYNAMIC_SHARED, nbytes, kernel=function.name)
        function.dynamic_limit = nbytes

    def module_global(self, module: Module, name: str) -> tuple[int, int]:
        address, size = c_void_p(), c_size_t()
        with self.on_device(module.device.ordinal):
            self._call("module_global", byref(address), byref(size), module.handle, name.encode())
        return address.value or 0, size.value

    # -- launch ----------------------------------------------------------------------------------------

    def launch(
        self, function: Function, grid: Dim, block: Dim, *, smem: int = 0, stream: Stream | int | None = None,
        params: Sequence[object] = (), cluster: Dim | None = None, cooperative: bool = False,
        attrs: Sequence[tuple[int, bytes]] = (),
    ) -> None:  # fmt: skip
        device = function.device
        caps = device.capabilities
        grid3, block3 = dim3(grid, "grid"), dim3(block, "block")
        cluster3 = dim3(cluster, "cluster") if cluster is not None else None
        if not check_launch(function, caps, grid3, block3, smem, cluster3):
            return
        if caps.shared_mem_per_block is not None and smem + (function.shared_static or 0) > caps.shared_mem_per_block:
            self.set_dynamic_smem_limit(function, smem)
        raw = launch_stream(stream) or 0
        addresses = (c_void_p * max(len(params), 1))(*(param_address(p) for p in params))
        where = ctypes.addressof(addresses)
        with self.on_device(device.ordinal):
            if cooperative or attrs or (cluster3 is not None and cluster3 != (1, 1, 1)):
                record = launch_config(grid3, block3, smem, raw, cluster3, cooperative, attrs)
                self._call("launch_ex", record.address, function.handle, where, None, stream=raw, kernel=function.name)
            else:
                self._call(
                    "launch", function.handle, *grid3, *block3, smem, raw, where, None, stream=raw, kernel=function.name
                )
            if launch_blocking():
                self._call("stream_synchronize", raw, stream=raw, kernel=function.name)

    def launch_symbol(self) -> int:
        return self.table().address("launch")

    def launch_ex_symbol(self) -> int:
        return self.table().address("launch_ex")

    def check_launch_status(self, status: int, kernel: str, stream: int = 0) -> None:
        """Raise the exception of a status the launch symbol returned."""
        if status:
            raise self.error_of(status, "launch", stream=stream, kernel=kernel)

    # -- occupancy, peers ------------------------------------------------------------------------------

    def max_active_blocks(self, function: Function, block_threads: int, smem: int = 0) -> int:
        blocks = c_int()
        with self.on_device(function.device.ordinal):
            self._call("occupancy", byref(blocks), function.handle, block_threads, smem, kernel=function.name)
        return blocks.value

    def peer_access_enabled(self, device: int, peer: int) -> bool:
        return device == peer or (device, peer) in self._peers

    def can_access_peer(self, device: int, peer: int) -> bool:
        answer = c_int()
        self._call("can_access_peer", byref(answer), self._need(device), self._need(peer))
        return bool(answer.value)

    def enable_peer_access(self, device: int, peer: int) -> None:
        with self.on_device(device):
            status = self._raw("enable_peer", self._peer_operand(self._need(peer)), 0)
            if status not in (Status.SUCCESS, Status.PEER_ENABLED):
                raise self.error_of(status, "enable_peer")
        self._peers.add((device, peer))

    def disable_peer_access(self, device: int, peer: int) -> None:
        with self.on_device(device):
            self._call("disable_peer", self._peer_operand(self._need(peer)))
        self._peers.discard((device, peer))

    # -- graphs ----------------------------------------------------------------------------------------

    def graph_begin_capture(self, stream: int, mode: int = 0) -> None:
        if stream in (0, 1):
            raise CaptureError("the legacy default stream cannot be captured; use a Stream()", stream=stream)
        self._call("capture_begin", stream, mode, stream=stream)

    def graph_end_capture(self, stream: int) -> Graph:
        handle = c_void_p()
        self._call("capture_end", stream, byref(handle), stream=stream)
        return Graph(self, handle.value or 0, self.stream_device_of(stream))

    def graph_instantiate(self, graph: Graph) -> Graph:
        handle = c_void_p()
        with self.on_device(graph.device):
            self._call("graph_instantiate", byref(handle), graph.handle, 0)
        graph.executable = handle.value
        return graph

    def graph_launch(self, graph: Graph, stream: int) -> None:
        if graph.executable is None:
            self.graph_instantiate(graph)
        with self.on_device(graph.device):
            self._call("graph_launch", graph.executable, stream, stream=stream)

    # -- info ------------------------------------------------------------------------------------------

    def driver_version(self) -> int:
        version = c_int()
        self._call("driver_version", byref(version))
        return version.value

    def runtime_version(self) -> int:
        version = c_int()
        self._call("runtime_version", byref(version))
        return version.value

    def library_path(self) -> str:
        self.table()
        return self._path

    def error_string(self, code: int) -> str:
        name, text = self._status_text(code)
        return f"{name}: {text}"
