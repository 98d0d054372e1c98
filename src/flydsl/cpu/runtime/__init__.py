"""The cpu stack: host memory, streams as queues with a worker thread, events with real time stamps, native launches.

A call that names no stream, or the default one, has finished when it returns. Work on an explicit stream runs later,
in order; a failure in it is raised by the next synchronisation.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from flydsl import config
from flydsl.cpu import rank_clocks, unwritten_arrays
from flydsl.cpu.runtime import lines as cpu_lines
from flydsl.cpu.runtime import native as cpu_native
from flydsl.cpu.runtime import reports as cpu_reports
from flydsl.cpu.runtime.launcher_ir import FAILED_CHECKS, FLAG_CLUSTERS, MAX_BLOCK_THREADS
from flydsl.cpu.runtime.native import KernelDescriptor
from flydsl.cpu.runtime.shared import SharedHostMemory
from flydsl.cpu.runtime.stream import EventState, Mark, TaskQueue, as_launch_error
from flydsl.cpu.schedules import native as cpu_schedules
from flydsl.errors import (
    FlyRuntimeError,
    InvalidHandleError,
    KernelCheckError,
    KernelDeadlockError,
    LaunchError,
    NotSupportedError,
    OutOfMemoryError,
    OutOfResourcesError,
)
from flydsl.runtime.base import Dim, check_launch, dim3, launch_blocking, launch_stream
from flydsl.runtime.launch_args import copied_param, launch_config, param_address
from flydsl.runtime.objects import Buffer, Device, DeviceCapabilities, Function, Module, Stream

_DEFAULT_STREAMS = (0, 1, 2)
"""Null, legacy and per-thread default stream: all mean "now" here."""

_STATUS = {
    1: "invalid value",
    2: "out of memory",
    400: "invalid handle",
    719: "the kernel reported mistakes",
    801: "not supported",
}


class _LoadedModule:
    """The host library of a module and the kernel descriptors that point into it."""

    def __init__(self, library: Any):
        self.library = library
        self.descriptors: dict[tuple[str, int, int], KernelDescriptor] = {}


class _Current(threading.local):
    ordinal = 0


class CpuDeviceRuntime(SharedHostMemory):
    """One device, ordinal 0: this process's CPUs and memory.

    >>> CpuDeviceRuntime.kind, CpuDeviceRuntime.pageable_host
    ('cpu', True)
    """

    kind: ClassVar[str] = "cpu"
    pageable_host: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._current = _Current()
        self._stream_devices: dict[int, int] = {}
        self._lock = threading.RLock()
        self._ids = itertools.count(16)
        self._queues: dict[int, TaskQueue] = {}
        self._events: dict[int, EventState] = {}
        self._modules: dict[int, _LoadedModule] = {}
        self._lines: cpu_lines.Lines = cpu_lines.Lines()
        """How often lines ran, of modules that are gone or were asked."""
        self._allocated: dict[int, int] = {}

    # -- life cycle ------------------------------------------------------------------------------------

    def after_fork_in_child(self) -> None:
        self._pid = os.getpid()
        self._deferred = deque()
        self._lock = threading.RLock()
        cpu_native.reset_lock_after_fork()
        for queue in self._queues.values():
            queue.reset()

    def driver_initialised(self) -> bool:
        return False

    def shutdown(self) -> None:
        super().shutdown()
        with self._lock:
            for queue in self._queues.values():
                queue.close()
            for loaded in self._modules.values():
                loaded.library.close()
            for address in self._allocated:
                _libc().free(address)
            self._queues.clear()
            self._events.clear()
            self._modules.clear()
            self._allocated.clear()

    def capture_active(self) -> bool:
        return False

    def _all_idle(self) -> bool:
        return all(queue.idle for queue in tuple(self._queues.values()))

    def defer_release(self, what: str, handle: int, device: int) -> None:
        # Queued work may still use the memory; without any, freeing takes no lock and is safe in a finaliser.
        if what == "buffer" and self._all_idle():
            self.release_handle(what, handle, device)
        else:
            self._deferred.append((what, handle, device))

    def drain_releases(self) -> None:
        if self._all_idle():
            super().drain_releases()

    def release_handle(self, what: str, handle: int, device: int) -> None:
        if what in ("buffer", "pinned buffer"):
            if self._allocated.pop(handle, None) is not None:
                _libc().free(handle)
        elif what == "stream":
            self.stream_destroy(handle)
        elif what == "event":
            self.event_destroy(handle)
        elif what == "mapping":
            self.shared_unmap(handle)
        else:
            self._unload(handle)

    # -- devices ---------------------------------------------------------------------------------------

    def device_count(self) -> int:
        return self.devices

    def current_device_id(self) -> int:
        return self._current.ordinal

    def set_device(self, ordinal: int) -> None:
        self._current.ordinal = self._check_ordinal(ordinal)

    def _check_ordinal(self, ordinal: int | None) -> int:
        """The ordinal, or that of the current device."""
        if ordinal is None:
            return self._current.ordinal
        if not 0 <= ordinal < self.devices:
            known = "one device, 0" if self.devices == 1 else f"devices 0 to {self.devices - 1}"
            raise FlyRuntimeError(f"the {self.kind} stack has {known}, not {ordinal}", device=ordinal)
        return ordinal

    def device(self, ordinal: int) -> Device:
        self._check_ordinal(ordinal)
        caps = DeviceCapabilities(
            warp_size=config.cpu.warp_size,
            compute_units=config.cpu.threads,
            max_threads_per_block=MAX_BLOCK_THREADS,
            max_threads_per_cu=MAX_BLOCK_THREADS,
            max_block_dim=(1024, 1024, 1024),
            max_grid_dim=(2**31 - 1, 2**31 - 1, 2**31 - 1),
            total_memory=_memory()[1],
            cluster_launch=True,
            cooperative_launch=True,
            managed_memory=True,
            unified_addressing=True,
            concurrent_kernels=True,
            event_timing=True,
        )
        return Device(ordinal, self.kind, _cpu_name(), "native", capabilities=caps)

    def synchronize(self, device: int | None = None) -> None:
        self._check_ordinal(device)
        for queue in tuple(self._queues.values()):
            queue.synchronize()

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        self._check_ordinal(ordinal)
        return _memory()

    # -- memory ----------------------------------------------------------------------------------------

    def alloc(
        self, nbytes: int, *, device: int | None = None, stream: int | None = None, alignment: int = 256
    ) -> Buffer:
        if stream is not None:
            of_stream = self.stream_device_of(stream)
            device = of_stream if device is None else device
        ordinal = self._check_ordinal(device)
        if nbytes < 0:
            raise ValueError(f"cannot allocate {nbytes} bytes")
        if alignment < 1 or alignment & (alignment - 1):
            raise ValueError(f"alignment must be a power of two, got {alignment}")
        if nbytes == 0:
            return Buffer(self, 0, 0, ordinal, stream_ordered=stream is not None)
        address = ctypes.c_void_p()
        free, total = _memory()
        status = 12 if nbytes > total else _libc().posix_memalign(ctypes.byref(address), max(alignment, 64), nbytes)
        if status or not address.value:
            raise OutOfMemoryError(requested=nbytes, free=free, total=total, device=ordinal)
        self._allocated[address.value] = nbytes
        return Buffer(self, address.value, nbytes, ordinal, stream_ordered=stream is not None)

    def alloc_pinned(self, nbytes: int) -> Buffer:
        return self.alloc(nbytes)

    def free(self, buffer: Buffer) -> None:
        ptr = buffer.ptr
        if any(queue.on_worker() for queue in tuple(self._queues.values())):
            if buffer._disarm():  # pyright: ignore[reportPrivateUsage]
                self._deferred.append(("buffer", ptr, 0))
            return
        # As on a GPU: freeing waits for work that may use the memory.
        for queue in tuple(self._queues.values()):
            queue.wait()
        if buffer._disarm():  # pyright: ignore[reportPrivateUsage]
            self.release_handle("buffer", ptr, 0)

    def memcpy_h2d(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None:
        if not self._check_span(dst, src, nbytes):
            return
        if self._runs_now(stream):
            ctypes.memmove(dst, src, nbytes)
            return
        staged = ctypes.create_string_buffer(nbytes)
        ctypes.memmove(staged, src, nbytes)
        self.enqueue(stream, lambda: ctypes.memmove(dst, staged, nbytes))

    def memcpy_d2h(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None:
        self.memcpy_d2d(dst, src, nbytes, stream=stream)

    def memcpy_d2d(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None:
        if self._check_span(dst, src, nbytes):
            self.enqueue(stream, lambda: ctypes.memmove(dst, src, nbytes))

    def memcpy_peer(
        self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, *, stream: int | None = None
    ) -> None:
        self._check_ordinal(dst_device)
        self._check_ordinal(src_device)
        self.memcpy_d2d(dst, src, nbytes, stream=stream)

    def memset(self, ptr: int, byte: int, nbytes: int, *, stream: int | None = None) -> None:
        if not 0 <= byte <= 255:
            raise ValueError(f"memset takes one byte, 0 to 255, got {byte}")
        if self._check_span(ptr, ptr, nbytes):
            self.enqueue(stream, lambda: ctypes.memset(ptr, byte, nbytes))

    def memset32(self, ptr: int, word: int, count: int, *, stream: int | None = None) -> None:
        if ptr % 4:
            raise ValueError(f"memset32 needs an address aligned to 4 bytes, got {ptr:#x}")
        if self._check_span(ptr, ptr, count):
            pattern = (word & 0xFFFFFFFF).to_bytes(4, "little" if _LITTLE else "big") * count
            self.enqueue(stream, lambda: ctypes.memmove(ptr, pattern, 4 * count))

    def _check_span(self, dst: int, src: int, nbytes: int) -> bool:
        """Validate a memory operation; False when there is nothing to do."""
        if nbytes < 0:
            raise ValueError(f"cannot copy or set {nbytes} bytes")
        if nbytes and not (dst and src):
            raise ValueError("address 0 given for an operation on memory")
        return nbytes > 0

    def pointer_device(self, ptr: int) -> int | None:
        return 0 if ptr else None

    # -- streams ---------------------------------------------------------------------------------------

    def enqueue(self, stream: int | None, task: Callable[[], object]) -> None:
        """Run `task` in the order of a stream: now for None and the default stream, else on the stream's thread."""
        if self._runs_now(stream):
            task()
        else:
            self._queue(cast(int, stream)).submit(task)

    def _runs_now(self, stream: int | None) -> bool:
        if stream is not None and stream not in _DEFAULT_STREAMS:
            return False
        for queue in tuple(self._queues.values()):
            if queue.blocking and not queue.idle and not queue.on_worker():
                queue.wait()
        return True

    def _queue(self, stream: int) -> TaskQueue:
        if stream in _DEFAULT_STREAMS:
            return _NOW
        try:
            return self._queues[stream]
        except KeyError:
            raise InvalidHandleError("not a stream of the cpu runtime, or closed", stream=stream) from None

    def stream_create(self, device: int, priority: int, non_blocking: bool) -> int:
        ordinal = self._check_ordinal(device)
        with self._lock:
            handle = next(self._ids)
            self._stream_devices[handle] = ordinal
            self._queues[handle] = TaskQueue(handle, blocking=not non_blocking)
        return handle

    def stream_destroy(self, stream: int) -> None:
        queue = self._queues.pop(stream, None)
        self._stream_devices.pop(stream, None)
        if queue is not None:
            queue.close()

    def stream_synchronize(self, stream: int) -> None:
        if stream in _DEFAULT_STREAMS:
            self._runs_now(stream)
        else:
            self._queue(stream).synchronize()

    def stream_query(self, stream: int) -> bool:
        return self._queue(stream).idle

    def stream_wait_event(self, stream: int, event: int) -> None:
        mark = self._event(event).mark
        if mark is None or mark.reached.is_set():
            return
        self.enqueue(stream, mark.reached.wait)

    def stream_is_capturing(self, stream: int) -> bool:
        self._queue(stream)
        return False

    def stream_device_of(self, stream: int) -> int:
        self._queue(stream)
        return self._stream_devices.get(stream, self._current.ordinal)

    # -- events ----------------------------------------------------------------------------------------

    def _event(self, event: int) -> EventState:
        try:
            return self._events[event]
        except KeyError:
            raise InvalidHandleError("not an event of the cpu runtime, or closed") from None

    def event_create(self, device: int, timing: bool, blocking: bool) -> int:
        self._check_ordinal(device)
        with self._lock:
            handle = next(self._ids)
            self._events[handle] = EventState(timing)
        return handle

    def event_destroy(self, event: int) -> None:
        self._events.pop(event, None)

    def event_record(self, event: int, stream: int) -> None:
        mark = Mark()
        self._event(event).mark = mark
        if self._runs_now(stream):
            mark.set()
            return
        queue = self._queue(stream)
        queue.submit(lambda: mark.set(queue.error))

    def event_query(self, event: int) -> bool:
        mark = self._event(event).mark
        return mark is None or mark.reached.is_set()

    def event_synchronize(self, event: int) -> None:
        mark = self._event(event).mark
        if mark is None:
            return
        mark.reached.wait()
        if mark.error is not None:
            raise as_launch_error(mark.error, 0)

    def event_elapsed_ms(self, start: int, end: int) -> float:
        marks = (self._event(start).mark, self._event(end).mark)
        for name, mark in zip(("start", "end"), marks, strict=True):
            if mark is None or not mark.reached.is_set():
                raise FlyRuntimeError(f"the {name} event was not recorded or has not completed", api="elapsed_ms")
        first, last = cast("tuple[Mark, Mark]", marks)
        return (last.stamp_ns - first.stamp_ns) / 1e6

    # -- code ------------------------------------------------------------------------------------------

    def module_load(self, binary: bytes, *, device: int | None = None) -> Module:
        """Load a host object file; undefined symbols come from this process's C and math libraries."""
        from flydsl.llvm import host_jit

        ordinal = self._check_ordinal(device)
        with self._lock:
            loaded = _LoadedModule(host_jit.load_object(binary, name="cpu-module"))
            unwritten_arrays.install(loaded.library)
            rank_clocks.install(loaded.library, ordinal)
            cpu_schedules.install(loaded.library)
            handle = next(self._ids)
            self._modules[handle] = loaded
        return Module(self, handle, ordinal)

    def module_unload(self, module: Module) -> None:
        handle = module.handle
        for queue in tuple(self._queues.values()):
            queue.wait()
        if module.release():
            self._unload(handle)

    def _unload(self, handle: int) -> None:
        loaded = self._modules.pop(handle, None)
        if loaded is not None:
            cpu_lines.take(loaded.library, self._lines)
            loaded.library.close()

    def line_counts(self) -> dict[tuple[str, int], int]:
        """How often each line of kernels compiled under FLYDSL_CPU_PROFILE=1 has run, by file and line."""
        self.synchronize()
        for loaded in tuple(self._modules.values()):
            cpu_lines.take(loaded.library, self._lines)
        return dict(self._lines)

    def take_line_counts(self) -> dict[tuple[str, int], int]:
        """The same, counted anew from here on."""
        found = self.line_counts()
        self._lines.clear()
        return found

    def function(self, module: Module, name: str, *, shared_bytes: int = 0, flags: int = 0) -> Function:
        """A kernel: the symbol `name` is its block function, `shared_bytes` its static shared memory."""
        loaded = self._modules[module.handle]
        if name not in loaded.library.symbols:
            known = ", ".join(loaded.library.symbols) or "none"
            raise InvalidHandleError(f"the module has no kernel {name!r}; it has: {known}", kernel=name)
        key = (name, shared_bytes, flags)
        with self._lock:
            if key not in loaded.descriptors:
                reports = cpu_reports.table(loaded.library)
                cluster = cpu_native.cluster_of(loaded.library, name)
                flags |= FLAG_CLUSTERS if any(cluster) else 0
                loaded.descriptors[key] = KernelDescriptor(
                    loaded.library.address(name), shared_bytes, flags, reports, cluster
                )
            descriptor = loaded.descriptors[key]
        return Function(
            module, name, ctypes.addressof(descriptor), shared_static=shared_bytes, max_threads=MAX_BLOCK_THREADS
        )

    def set_dynamic_smem_limit(self, function: Function, nbytes: int) -> None:
        function.dynamic_limit = nbytes

    def module_global(self, module: Module, name: str) -> tuple[int, int]:
        raise NotSupportedError(self.kind, "module_global", "host modules do not record the size of variables")

    # -- launch ----------------------------------------------------------------------------------------

    def refresh_threads(self) -> None:
        """Let native launches use FLYDSL_CPU_THREADS threads (default: usable cores), read now."""
        cpu_native.launcher().threads = config.cpu.threads

    def launch_symbol(self) -> int:
        self.refresh_threads()
        cpu_native.launcher().watch_interrupts()
        return cpu_native.launcher().launch_address

    def launch_ex_symbol(self) -> int:
        self.refresh_threads()
        return cpu_native.launcher().launch_ex_address

    def tensor_map_symbol(self) -> int:
        """Address of the function that describes a tensor to the emulated copy engine."""
        return cpu_native.launcher().tensor_map_address

    def launch(
        self, function: Function, grid: Dim, block: Dim, *, smem: int = 0, stream: Stream | int | None = None,
        params: Sequence[Any] = (), cluster: Dim | None = None, cooperative: bool = False,
        attrs: Sequence[tuple[int, bytes]] = (),
    ) -> None:  # fmt: skip
        if attrs:
            raise NotSupportedError(self.kind, "launch attributes", kernel=function.name)
        grid3, block3 = dim3(grid, "grid"), dim3(block, "block")
        cluster3 = dim3(cluster, "cluster") if cluster is not None else None
        if not check_launch(function, self.device(0).capabilities, grid3, block3, smem, cluster3):
            return
        raw = launch_stream(stream)
        self.refresh_threads()
        handle = function.handle
        storage = list(params) if self._runs_now(raw) else [copied_param(p, function.name) for p in params]
        addresses = (ctypes.c_void_p * max(len(storage), 1))(*(param_address(p) for p in storage))
        extended = cooperative or (cluster3 is not None and cluster3 != (1, 1, 1))
        config_record = launch_config(grid3, block3, smem, 0, cluster3, cooperative) if extended else None

        def run() -> None:
            native = cpu_native.launcher()
            if config_record is None:
                status = native.launch(handle, *grid3, *block3, smem, None, ctypes.addressof(addresses), None)
            else:
                status = native.launch_ex(config_record.address, handle, ctypes.addressof(addresses), None)
            _ = storage, function  # both stay alive until here
            self.check_launch_status(status, function.name, raw or 0)

        self.enqueue(raw, run)
        if raw and launch_blocking():
            self.stream_synchronize(raw)

    def check_launch_status(self, status: int, kernel: str, stream: int = 0) -> None:
        """Raise the exception of a status the launch symbol returned."""
        if status == 0:
            return
        text = f"launch failed with status {status} ({self.error_string(status)})"
        if status == 2:
            free, total = _memory()
            raise OutOfMemoryError(f"{text}: no memory for shared data", free=free, total=total, code=2, kernel=kernel)
        if status == 701:
            raise OutOfResourcesError(None, None, "launch", description=text, code=status, kernel=kernel)
        if status == FAILED_CHECKS:
            taken = [cpu_reports.take(m.library) for m in tuple(self._modules.values())]
            found = [line for lines, _ in taken for line in lines]
            if all(stuck for _, stuck in taken):
                text = f"deadlock in kernel {kernel}; its results are incomplete:\n" + "\n".join(found)
                raise KernelDeadlockError(text, code=status, stream=stream, kernel=kernel)
            text = f"checked mode found {len(found)} mistake(s) in kernel {kernel}:\n" + "\n".join(found)
            raise KernelCheckError(text, code=status, stream=stream, kernel=kernel)
        if status == 801:
            raise NotSupportedError(self.kind, "this launch", text, code=status, kernel=kernel)
        raise LaunchError(text, code=status, stream=stream, kernel=kernel)

    # -- occupancy, peers, info ------------------------------------------------------------------------

    def max_active_blocks(self, function: Function, block_threads: int, smem: int = 0) -> int:
        if not 1 <= block_threads <= MAX_BLOCK_THREADS:
            return 0
        return 1

    def can_access_peer(self, device: int, peer: int) -> bool:
        self._check_ordinal(device)
        self._check_ordinal(peer)
        return True

    def peer_access_enabled(self, device: int, peer: int) -> bool:
        return self.can_access_peer(device, peer)

    def enable_peer_access(self, device: int, peer: int) -> None:
        self.can_access_peer(device, peer)

    def disable_peer_access(self, device: int, peer: int) -> None:
        self.can_access_peer(device, peer)

    def driver_version(self) -> int:
        return 0

    def runtime_version(self) -> int:
        return 0

    def library_path(self) -> str:
        return ""

    def last_error(self) -> int:
        return 0

    def error_string(self, code: int) -> str:
        return _STATUS.get(code, "success" if code == 0 else "unknown status")


_NOW = TaskQueue(0, blocking=False)
"""Stands for the default streams: always idle."""

_LITTLE = ctypes.c_uint16.from_buffer_copy(b"\x01\x00").value == 1


_libc_handle: list[ctypes.CDLL] = []


def _libc() -> ctypes.CDLL:
    if not _libc_handle:
        libc = ctypes.CDLL(None)
        libc.free.argtypes = (ctypes.c_void_p,)
        libc.free.restype = None
        libc.posix_memalign.argtypes = (ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)
        _libc_handle.append(libc)
    return _libc_handle[0]


def _memory() -> tuple[int, int]:
    """Free and total bytes of physical memory."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    free = page * os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in os.sysconf_names else total
    return free, total


_name: list[str] = []


def _cpu_name() -> str:
    if not _name:
        found = platform.machine()
        info = Path("/proc/cpuinfo")
        if info.exists():
            lines = (line.partition(":") for line in info.read_text().splitlines())
            found = next((value.strip() for key, _, value in lines if key.strip() == "model name"), found)
        _name.append(found)
    return _name[0]
