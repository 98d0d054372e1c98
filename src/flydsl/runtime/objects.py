"""The vendor-neutral objects above a device runtime: `Device`, `Stream`, `Event`, `Buffer`, `Module`, `Function`.

Handles are opaque integers. Every owning object remembers the process and the runtime it was made by; in another
process, or once its runtime was reset, its finaliser does nothing. Finalisers never call a driver: they queue.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Protocol, cast

from flydsl.errors import FlyRuntimeError, InvalidHandleError, StackMismatchError
from flydsl.runtime import dlpack
from flydsl.runtime.host_memory import exported
from flydsl.target import BUILTIN_STACKS, GPUTarget, make_builtin_target


class RuntimePort(Protocol):
    """What the objects ask of the runtime they belong to; `DeviceRuntime` is the implementation."""

    kind: ClassVar[str]
    pageable_host: ClassVar[bool]
    alive: bool

    def defer_release(self, what: str, handle: int, device: int) -> None: ...
    def device_count(self) -> int: ...
    def current_device_id(self) -> int: ...
    def set_device(self, ordinal: int) -> None: ...
    def device(self, ordinal: int) -> Device: ...
    def synchronize(self, device: int | None = None) -> None: ...
    def memory_info(self, ordinal: int) -> tuple[int, int]: ...
    def can_access_peer(self, device: int, peer: int) -> bool: ...
    def enable_peer_access(self, device: int, peer: int) -> None: ...
    def disable_peer_access(self, device: int, peer: int) -> None: ...
    def free(self, buffer: Buffer) -> None: ...
    def memcpy_h2d(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None: ...
    def memcpy_d2h(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None: ...
    def memcpy_d2d(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None: ...
    def memcpy_peer(
        self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, *, stream: int | None = None
    ) -> None: ...
    def memset(self, ptr: int, byte: int, nbytes: int, *, stream: int | None = None) -> None: ...
    def stream_create(self, device: int, priority: int, non_blocking: bool) -> int: ...
    def stream_destroy(self, stream: int) -> None: ...
    def stream_synchronize(self, stream: int) -> None: ...
    def stream_query(self, stream: int) -> bool: ...
    def stream_wait_event(self, stream: int, event: int) -> None: ...
    def stream_is_capturing(self, stream: int) -> bool: ...
    def stream_device_of(self, stream: int) -> int: ...
    def event_create(self, device: int, timing: bool, blocking: bool) -> int: ...
    def event_destroy(self, event: int) -> None: ...
    def event_record(self, event: int, stream: int) -> None: ...
    def event_query(self, event: int) -> bool: ...
    def event_synchronize(self, event: int) -> None: ...
    def event_elapsed_ms(self, start: int, end: int) -> float: ...
    def module_unload(self, module: Module) -> None: ...


_provider: list[Callable[[], RuntimePort]] = []


def set_runtime_provider(provider: Callable[[], RuntimePort]) -> None:
    """Say where objects made without a device find the process's runtime; called once by `device_runtime`."""
    _provider[:] = [provider]


def active_runtime() -> RuntimePort:
    """The process's runtime, created if need be."""
    return _provider[0]()


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.streams: list[Stream | None] = []
        """Of the `with` blocks around; None in a rank's thread (`launches_by_device`)."""
        self.devices: list[int] = []


per_thread = _PerThread()
entered: list[None] = []
"""One entry for each `with stream:` block that some thread is in, and for each rank's thread: where there is none, no
thread need be asked, which takes longer than all else that a warm call asks."""


def current_stream() -> Stream | None:
    """The stream of the innermost `with stream:` block of this thread, or None.

    >>> current_stream() is None
    True
    """
    return per_thread.streams[-1] if per_thread.streams else None


@contextmanager
def launches_by_device() -> Generator[None]:
    """Let every launch of this thread look where it goes, on a stack of host memory.

    Repeated calls there go to the code of the device they were first made on; a rank has code of its own.
    """
    per_thread.streams.append(None)
    entered.append(None)
    try:
        yield
    finally:
        per_thread.streams.pop()
        entered.pop()


# --- devices ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeviceCapabilities:
    """What a device can do; None means that it is not known.

    >>> Device.current().capabilities.warp_size in (32, 64)
    True
    """

    warp_size: int | None = None
    compute_units: int | None = None
    max_threads_per_block: int | None = None
    max_threads_per_cu: int | None = None
    max_block_dim: tuple[int, int, int] | None = None
    max_grid_dim: tuple[int, int, int] | None = None
    shared_mem_per_block: int | None = None
    shared_mem_per_block_optin: int | None = None
    shared_mem_per_cu: int | None = None
    registers_per_block: int | None = None
    l2_bytes: int | None = None
    total_memory: int | None = None
    clock_khz: int | None = None
    memory_clock_khz: int | None = None
    memory_bus_bits: int | None = None
    cooperative_launch: bool = False
    cluster_launch: bool = False
    managed_memory: bool = False
    unified_addressing: bool = False
    async_alloc: bool = False
    graph_capture: bool = False
    concurrent_kernels: bool = False
    event_timing: bool = False


@dataclass(frozen=True)
class Device:
    """One device of the active stack, by its visible ordinal. As a context manager it is the current device.

    >>> Device.current().ordinal, Device.current().kind
    (0, 'cpu')
    """

    ordinal: int
    kind: str
    name: str
    arch: str
    uuid: str | None = None
    pci_bus_id: str | None = None
    capabilities: DeviceCapabilities = DeviceCapabilities()

    @staticmethod
    def current() -> Device:
        """The device this thread works on."""
        runtime = active_runtime()
        return runtime.device(runtime.current_device_id())

    @staticmethod
    def all() -> list[Device]:
        """Every visible device."""
        runtime = active_runtime()
        return [runtime.device(i) for i in range(runtime.device_count())]

    @staticmethod
    def from_external(obj: object) -> Device:
        """The device of an int, a torch device or tensor, a CuPy device, or anything with `__dlpack_device__`."""
        runtime = active_runtime()
        stack, ordinal = _external_device(obj, runtime)
        if stack != runtime.kind:
            raise StackMismatchError(
                f"{type(obj).__name__} is on a device of the {stack} stack, but this process uses {runtime.kind}"
            )
        return runtime.device(runtime.current_device_id() if ordinal is None else ordinal)

    def _runtime(self) -> RuntimePort:
        runtime = active_runtime()
        if runtime.kind != self.kind:
            raise StackMismatchError(f"{self.kind} device {self.ordinal} used while the active stack is {runtime.kind}")
        return runtime

    def synchronize(self) -> None:
        """Wait until all work on the device is done."""
        self._runtime().synchronize(self.ordinal)

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        return self._runtime().memory_info(self.ordinal)

    def can_access_peer(self, other: Device) -> bool:
        return self._runtime().can_access_peer(self.ordinal, other.ordinal)

    def enable_peer_access(self, other: Device) -> None:
        self._runtime().enable_peer_access(self.ordinal, other.ordinal)

    def disable_peer_access(self, other: Device) -> None:
        self._runtime().disable_peer_access(self.ordinal, other.ordinal)

    @property
    def default_stream(self) -> Stream:
        return Stream.default(self)

    def target(self) -> GPUTarget:
        """The compile target of this device's own stack."""
        if self.kind in BUILTIN_STACKS:
            return make_builtin_target(self.kind, self.arch)
        if self.capabilities.warp_size is None:
            raise FlyRuntimeError(f"the {self.kind} runtime does not tell the warp size", device=self.ordinal)
        return GPUTarget(self.kind, self.arch, self.capabilities.warp_size)

    def __enter__(self) -> Device:
        runtime = self._runtime()
        per_thread.devices.append(runtime.current_device_id())
        runtime.set_device(self.ordinal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime().set_device(per_thread.devices.pop())


def _external_device(obj: object, runtime: RuntimePort) -> tuple[str, int | None]:
    """Stack and ordinal of a foreign object; frameworks are only recognised, never imported."""
    if isinstance(obj, Device):
        return obj.kind, obj.ordinal
    if isinstance(obj, int) and not isinstance(obj, bool):
        return runtime.kind, obj
    foreign = cast(Any, obj)
    if hasattr(obj, "__dlpack_device__"):
        code, ordinal = cast("tuple[int, int]", foreign.__dlpack_device__())
        return dlpack.STACK_OF_DEVICE.get(int(code), f"DLPack device type {int(code)}"), int(ordinal)
    module = type(obj).__module__.partition(".")[0]
    if module == "cupy" and hasattr(obj, "id"):
        return "cuda", int(foreign.id)
    if module == "torch" and hasattr(obj, "type") and hasattr(obj, "index"):
        return torch_stack(str(foreign.type)), cast("int | None", foreign.index)
    raise TypeError(
        f"cannot tell a device from {type(obj).__name__}: expected an int, a torch device or tensor, a CuPy device, "
        f"or an object with __dlpack_device__"
    )


def torch_stack(device_type: str) -> str:
    """torch says "cuda" for AMD GPUs as well."""
    torch = cast(Any, sys.modules.get("torch"))
    if device_type == "cuda" and torch is not None and getattr(torch.version, "hip", None):
        return "rocm"
    return device_type


def _device_of(device: Device | int | None, runtime: RuntimePort) -> int:
    if device is None:
        return runtime.current_device_id()
    if isinstance(device, int):
        return device
    if device.kind != runtime.kind:
        raise StackMismatchError(f"a {device.kind} device was given while the active stack is {runtime.kind}")
    return device.ordinal


# --- handles ------------------------------------------------------------------------------------------


def _finalise(runtime: RuntimePort, pid: int, what: str, handle: int, device: int) -> None:
    if os.getpid() == pid and runtime.alive:
        runtime.defer_release(what, handle, device)


class Handle:
    """A driver handle with an owner: checked before use, released once."""

    _what = "handle"

    def __init__(self, runtime: RuntimePort, handle: int, device: int, *, owned: bool):
        self.runtime = runtime
        self._handle = handle
        self._ordinal = device
        self._pid = os.getpid()
        self._closed = False
        self._finalizer: weakref.finalize[..., Handle] | None = None
        if owned:
            self._finalizer = weakref.finalize(self, _finalise, runtime, self._pid, self._what, handle, device)
            self._finalizer.atexit = False

    @property
    def handle(self) -> int:
        """The vendor's handle as an integer."""
        self._check()
        return self._handle

    @property
    def device(self) -> Device:
        return self.runtime.device(self._ordinal)

    @property
    def closed(self) -> bool:
        return self._closed

    def _check(self) -> None:
        if self._closed:
            raise InvalidHandleError(f"this {self._what} has been closed", device=self._ordinal)
        if not self.runtime.alive:
            raise InvalidHandleError(f"this {self._what} belongs to a {self.runtime.kind} runtime that was reset")

    def _disarm(self) -> bool:
        """Mark as closed; whether the handle is ours to release."""
        self._closed = True
        finalizer, self._finalizer = self._finalizer, None
        if finalizer is None or finalizer.detach() is None:
            return False
        return self._pid == os.getpid() and self.runtime.alive


class Stream(Handle):
    """An ordered queue of device work.

    >>> with Stream() as stream:
    ...     stream.query(), current_stream() is stream
    (True, True)
    """

    _what = "stream"

    def __init__(self, device: Device | int | None = None, *, priority: int = 0, non_blocking: bool = True):
        runtime = active_runtime()
        ordinal = _device_of(device, runtime)
        super().__init__(runtime, runtime.stream_create(ordinal, priority, non_blocking), ordinal, owned=True)
        self._owner: object = None

    @classmethod
    def from_handle(cls, handle: int, device: Device | int | None = None, owner: object = None) -> Stream:
        """A borrowed stream: never destroyed here; `owner` is kept alive."""
        runtime = active_runtime()
        if device is None and handle not in (0, 1, 2):
            ordinal = runtime.stream_device_of(handle)
        else:
            ordinal = _device_of(device, runtime)
        stream = cls.__new__(cls)
        Handle.__init__(stream, runtime, handle, ordinal, owned=False)
        stream._owner = owner
        return stream

    @classmethod
    def default(cls, device: Device | int | None = None) -> Stream:
        """The legacy default stream."""
        return cls.from_handle(0, device)

    @classmethod
    def per_thread_default(cls) -> Stream:
        """The calling thread's own default stream."""
        return cls.from_handle(2)

    def synchronize(self) -> None:
        """Wait until all work queued so far is done; a failure of that work is raised here."""
        self._check()
        self.runtime.stream_synchronize(self._handle)

    def query(self) -> bool:
        """Whether all queued work is done."""
        self._check()
        return self.runtime.stream_query(self._handle)

    def wait_event(self, event: Event) -> None:
        """Let later work of this stream wait for the event's last record."""
        self._check()
        self.runtime.stream_wait_event(self._handle, event.handle)

    def wait_stream(self, other: Stream) -> None:
        """Let later work of this stream wait for what `other` has queued so far."""
        event = Event(other.device, timing=False)
        event.record(other)
        self.wait_event(event)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event (a new one by default) after the work queued so far."""
        event = event or Event(self._ordinal)
        event.record(self)
        return event

    def is_capturing(self) -> bool:
        """Whether the stream records a graph."""
        self._check()
        return self.runtime.stream_is_capturing(self._handle)

    def close(self) -> None:
        """Destroy the stream once its work is done; closing twice, or a borrowed stream, is harmless."""
        if not self._closed and self._disarm():
            self.runtime.stream_destroy(self._handle)

    def __enter__(self) -> Stream:
        self._check()
        per_thread.streams.append(self)
        entered.append(None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        per_thread.streams.pop()
        entered.pop()


def stream_handle(stream: Stream | int | None) -> int | None:
    """The raw handle of a stream argument; None stays None."""
    return stream.handle if isinstance(stream, Stream) else stream


class Event(Handle):
    """A mark in a stream that can be waited for and timed.

    >>> start, end = Event(), Event()
    >>> start.record()
    >>> end.record()
    >>> end.synchronize()
    >>> start.elapsed_ms(end) >= 0
    True
    """

    _what = "event"

    def __init__(self, device: Device | int | None = None, *, timing: bool = True, blocking: bool = False):
        runtime = active_runtime()
        ordinal = _device_of(device, runtime)
        super().__init__(runtime, runtime.event_create(ordinal, timing, blocking), ordinal, owned=True)
        self.timing = timing
        self._recorded = False

    def record(self, stream: Stream | int | None = None) -> None:
        """Mark this point of the stream (default: the current stream, else the default one)."""
        self._check()
        if stream is None:
            stream = current_stream()
        self.runtime.event_record(self._handle, stream_handle(stream) or 0)
        self._recorded = True

    def query(self) -> bool:
        """Whether the recorded point has been reached."""
        self._check()
        return self.runtime.event_query(self._handle)

    def synchronize(self) -> None:
        """Wait until the recorded point has been reached."""
        self._check()
        self.runtime.event_synchronize(self._handle)

    def elapsed_ms(self, end: Event) -> float:
        """Milliseconds from this event to `end`; both must time, be recorded and be reached."""
        for name, event in (("start", self), ("end", end)):
            event._check()
            if not event.timing:
                raise FlyRuntimeError(f"the {name} event was made with timing=False", api="elapsed_ms")
            if not event._recorded:
                raise FlyRuntimeError(f"the {name} event was never recorded", api="elapsed_ms")
            if not event.query():
                raise FlyRuntimeError(f"the {name} event has not completed: synchronize() it first", api="elapsed_ms")
        return self.runtime.event_elapsed_ms(self._handle, end._handle)

    def close(self) -> None:
        """Destroy the event; closing twice is harmless."""
        if not self._closed and self._disarm():
            self.runtime.event_destroy(self._handle)


# --- memory -------------------------------------------------------------------------------------------


class Buffer(Handle):
    """Device memory that is freed with its last reference. `ptr` is 0 for a buffer of no bytes.

    >>> from flydsl.runtime import get_device_runtime
    >>> room = get_device_runtime().alloc(4)
    >>> room.fill(7)
    >>> out = bytearray(4)
    >>> room.copy_to(out)
    >>> list(out)
    [7, 7, 7, 7]
    """

    _what = "buffer"

    def __init__(
        self,
        runtime: RuntimePort,
        ptr: int,
        nbytes: int,
        device: int,
        *,
        stream_ordered: bool = False,
        base: int | None = None,
        parent: Buffer | None = None,
        pinned: bool = False,
    ):
        owned = parent is None and ptr != 0
        self._what = "pinned buffer" if pinned else "buffer"
        super().__init__(runtime, base if base is not None else ptr, device, owned=owned)
        self._ptr = ptr
        self._nbytes = nbytes
        self.stream_ordered = stream_ordered
        self.pinned = pinned
        self._parent = parent

    def _check(self) -> None:
        super()._check()
        if self._parent is not None:
            self._parent._check()

    @property
    def ptr(self) -> int:
        """Address of the first byte."""
        self._check()
        return self._ptr

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def __len__(self) -> int:
        return self._nbytes

    def free(self) -> None:
        """Give the memory back now; a second call is an error, a view does not own anything to free."""
        self._check()
        if self._parent is not None:
            raise InvalidHandleError("a view owns no memory; free the buffer it was made from", device=self._ordinal)
        self.runtime.free(self)

    def view(self, offset: int, nbytes: int) -> Buffer:
        """The bytes `offset .. offset + nbytes` of this buffer."""
        self._check()
        if offset < 0 or nbytes < 0 or offset + nbytes > self._nbytes:
            raise ValueError(f"view of {nbytes} bytes at {offset} does not fit into {self._nbytes} bytes")
        return Buffer(
            self.runtime,
            self._ptr + offset if nbytes else 0,
            nbytes,
            self._ordinal,
            stream_ordered=self.stream_ordered,
            base=0,
            parent=self,
            pinned=self.pinned,
        )

    def copy_from(self, src: object, stream: Stream | int | None = None) -> None:
        """Copy from another buffer or from host memory (anything with the buffer protocol) to the start of this one."""
        raw = stream_handle(stream)
        if isinstance(src, Buffer):
            self._fits(src.nbytes)
            self._copy_between(self, src, src.nbytes, raw)
            return
        with exported(src, writable=False) as span:
            self._fits(span.nbytes)
            self.runtime.memcpy_h2d(self.ptr, span.address, span.nbytes, stream=raw)

    def copy_to(self, dst: object, stream: Stream | int | None = None) -> None:
        """Copy to another buffer or to writable host memory, which must have room for all of it.

        With a stream the host memory must stay alive until the stream has passed this point.
        """
        raw = stream_handle(stream)
        if isinstance(dst, Buffer):
            dst._fits(self.nbytes)
            self._copy_between(dst, self, self.nbytes, raw)
            return
        with exported(dst, writable=True) as span:
            if span.nbytes < self.nbytes:
                raise ValueError(f"{self.nbytes} bytes do not fit into host memory of {span.nbytes} bytes")
            self.runtime.memcpy_d2h(span.address, self.ptr, self.nbytes, stream=raw)

    def fill(self, byte: int, stream: Stream | int | None = None) -> None:
        """Set every byte."""
        if not 0 <= byte <= 255:
            raise ValueError(f"fill takes one byte, 0 to 255, got {byte}")
        self.runtime.memset(self.ptr, byte, self.nbytes, stream=stream_handle(stream))

    def _fits(self, nbytes: int) -> None:
        if nbytes > self.nbytes:
            raise ValueError(f"{nbytes} bytes do not fit into a buffer of {self.nbytes} bytes")

    def _copy_between(self, dst: Buffer, src: Buffer, nbytes: int, stream: int | None) -> None:
        if dst.runtime is not src.runtime:
            raise StackMismatchError("the two buffers belong to different runtimes")
        if dst._ordinal == src._ordinal:
            self.runtime.memcpy_d2d(dst.ptr, src.ptr, nbytes, stream=stream)
        else:
            self.runtime.memcpy_peer(dst.ptr, dst._ordinal, src.ptr, src._ordinal, nbytes, stream=stream)

    # -- interop ---------------------------------------------------------------------------------------

    def __dlpack_device__(self) -> tuple[int, int]:
        code = dlpack.DEVICE_OF_STACK.get(self.runtime.kind)
        if code is None:
            raise BufferError(f"DLPack has no device type for the {self.runtime.kind} stack")
        return code, self._ordinal

    def __dlpack__(self, *, stream: object = None, **options: object) -> object:
        """A capsule over the bytes as uint8. Ordering is the caller's, as for every raw pointer."""
        return dlpack.bytes_capsule(self.ptr, self.nbytes, self.__dlpack_device__(), self)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        if self.runtime.pageable_host:
            raise AttributeError("this buffer is in host memory")
        return self._array_interface()

    @property
    def __array_interface__(self) -> dict[str, object]:
        if not (self.runtime.pageable_host or self.pinned):
            raise AttributeError("this buffer is in device memory")
        return self._array_interface()

    def _array_interface(self) -> dict[str, object]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.ptr, False), "strides": None, "version": 3}

    def memoryview(self) -> memoryview:
        """The bytes as a writable memoryview, where they are host memory."""
        import ctypes

        if not (self.runtime.pageable_host or self.pinned):
            raise FlyRuntimeError("this buffer is in device memory: copy_to() host memory instead")
        if not self.nbytes:
            return memoryview(bytearray())
        array = (ctypes.c_uint8 * self.nbytes).from_address(self.ptr)
        array._flydsl_owner = self  # type: ignore[attr-defined]
        return memoryview(array).cast("B")

    def __buffer__(self, flags: int, /) -> memoryview:
        """The buffer protocol (Python 3.12 and newer) on host memory."""
        if not (self.runtime.pageable_host or self.pinned):
            raise BufferError("this buffer is in device memory")
        return self.memoryview()


# --- code ---------------------------------------------------------------------------------------------


class Module(Handle):
    """A code object loaded for one device.

    >>> from flydsl.kernels.vector_add import vector_add
    >>> from flydsl.runtime import get_device_runtime
    >>> x = np.zeros(4, "f4")
    >>> compiled = flyc.compile(vector_add, x, x, x)
    >>> runtime = get_device_runtime()
    >>> module = runtime.module_load(compiled.artifact.binary())
    >>> module.device.ordinal
    0
    >>> module.unload()
    """

    _what = "module"

    def __init__(self, runtime: RuntimePort, handle: int, device: int):
        super().__init__(runtime, handle, device, owned=True)

    def unload(self) -> None:
        """Unload the code; functions of the module become invalid. A second call is harmless."""
        if not self._closed and self.runtime.alive:
            self.runtime.module_unload(self)

    def release(self) -> bool:
        """For runtimes: mark as closed; whether there is something to release."""
        return self._disarm()


class Function:
    """One kernel of a loaded module; holds its module alive. Sizes in bytes, None where the driver does not tell.

    >>> from flydsl.kernels.vector_add import vector_add
    >>> from flydsl.runtime import get_device_runtime
    >>> x = np.zeros(4, "f4")
    >>> compiled = flyc.compile(vector_add, x, x, x)
    >>> runtime = get_device_runtime()
    >>> module = runtime.module_load(compiled.artifact.binary())
    >>> runtime.function(module, compiled.artifact.kernels[0]["name"]).name
    'vector_add_kernel_0'
    >>> module.unload()
    """

    def __init__(
        self,
        module: Module,
        name: str,
        handle: int,
        *,
        registers: int | None = None,
        spills: int | None = None,
        shared_static: int | None = None,
        local_bytes: int | None = None,
        max_threads: int | None = None,
    ):
        self.module = module
        self.name = name
        self._handle = handle
        self.registers = registers
        self.spills = spills
        self.shared_static = shared_static
        self.local_bytes = local_bytes
        self.max_threads = max_threads
        self.dynamic_limit: int | None = None
        """Dynamic shared memory allowed so far, where the driver wants it raised."""

    @property
    def handle(self) -> int:
        """What the launch symbol takes as its first argument."""
        _ = self.module.handle
        return self._handle

    @property
    def device(self) -> Device:
        return self.module.device


class Graph:
    """A captured graph; `executable` is filled by `graph_instantiate`.

    >>> from flydsl.runtime import get_device_runtime
    >>> get_device_runtime().device(0).capabilities.graph_capture
    False
    """

    def __init__(self, runtime: RuntimePort, handle: int, device: int):
        self.runtime = runtime
        self.handle = handle
        self.device = device
        self.executable: int | None = None
