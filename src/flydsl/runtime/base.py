"""`DeviceRuntime`: what a stack must offer. Three members are abstract, all others raise `NotSupportedError`.

Methods that count as GPU work are wrapped when a subclass is made: the first one makes the runtime active, each one
checks for fork() and releases what finalisers have queued.
"""

from __future__ import annotations

import functools
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, cast

from flydsl import config
from flydsl.errors import ForkedProcessError, LaunchError, NotSupportedError, OutOfResourcesError
from flydsl.runtime.objects import (
    Buffer,
    Device,
    DeviceCapabilities,
    Event,
    Function,
    Graph,
    Module,
    Stream,
    current_stream,
    stream_handle,
)

GPU_WORK = frozenset(
    (
        *("alloc", "alloc_pinned", "memcpy_h2d", "memcpy_d2h", "memcpy_d2d", "memcpy_peer", "memset", "memset32"),
        *("stream_create", "event_create", "module_load", "launch", "graph_launch", "shared_create", "shared_import"),
    )
)
"""Methods after which the process is bound to its runtime."""

Dim = int | Sequence[int]
T = TypeVar("T", bound=Callable[..., object])


def _as_gpu_work(method: T) -> T:
    @functools.wraps(method)
    def counted(self: DeviceRuntime, *args: object, **options: object) -> object:
        self.begin_work()
        return method(self, *args, **options)

    return cast("T", counted)


def dim3(value: Dim, name: str) -> tuple[int, int, int]:
    """Launch dimensions as three ints; missing ones are 1."""
    dims = (value,) if isinstance(value, int) else tuple(value)
    if not 1 <= len(dims) <= 3 or not all(isinstance(d, int) for d in dims):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"{name} must be an int or up to three ints, got {value!r}")
    x, y, z = (*dims, 1, 1)[:3]
    return x, y, z


HIP_KINDS = frozenset({"rocm"})
"""Stacks whose driver is HIP."""


class DeviceRuntime(ABC):
    """One stack's devices, memory, streams, code and launches. Exactly one is active per process.

    Streams and events are passed as integer handles; `stream=None` means synchronous with the host.

    >>> class Toy(DeviceRuntime):
    ...     kind = "toy"
    ...     def device_count(self):
    ...         return 1
    ...     def current_device_id(self):
    ...         return 0
    >>> Toy().device_count()
    1
    """

    kind: ClassVar[str]
    """The stack's id; one namespace with the compile backends."""

    pageable_host: ClassVar[bool] = False
    """Whether buffers are ordinary host memory."""

    alive: bool = True
    """False once the runtime was replaced or reset; its objects are then invalid."""

    _active: bool = False
    _forked: bool = False
    _pid: int
    _deferred: deque[tuple[str, int, int]]

    @property
    def poses_as_cuda(self) -> bool:
        """Whether its arrays are announced by `__cuda_array_interface__` although they are not cuda's: HIP's are."""
        return self.kind in HIP_KINDS

    @property
    def loads_in_capture(self) -> bool:
        """Whether code can be loaded while a stream records a graph; whether HIP allows it has not been seen."""
        return self.kind not in HIP_KINDS

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        for name in GPU_WORK & vars(cls).keys():
            setattr(cls, name, _as_gpu_work(vars(cls)[name]))

    def __new__(cls, *args: Any, **options: Any) -> DeviceRuntime:
        # Not in __init__: runtimes that never call super().__init__() must work too.
        self = super().__new__(cls)
        self._pid = os.getpid()
        self._deferred = deque()
        return self

    # -- life cycle ------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether GPU work has been done."""
        return self._active

    @property
    def forked(self) -> bool:
        """Whether this is the child of a process that had initialised the driver."""
        return self._forked

    def begin_work(self) -> None:
        """Called before each GPU-work method: fork check, activation, queued releases."""
        if self._forked:
            self.check_fork()
        self._active = True
        if self._deferred:
            self.drain_releases()

    def check_fork(self) -> None:
        """Raise in a child of a process that had initialised the driver."""
        if self._forked:
            raise ForkedProcessError(
                f"the {self.kind} driver was initialised before fork() and cannot be used in the child process; "
                "start workers with multiprocessing's 'spawn' method"
            )

    def driver_initialised(self) -> bool:
        """Whether a fork()ed child could not use the driver any more."""
        return self._active

    def after_fork_in_child(self) -> None:
        """Bring the runtime into a usable or a clearly unusable state in a fork()ed child."""
        self._pid = os.getpid()
        self._deferred = deque()
        if self.driver_initialised():
            self._forked = True

    def shutdown(self) -> None:
        """Wait for all devices, release what is owned, and become invalid."""
        for ordinal in range(self.device_count()):
            self.synchronize(ordinal)
        self.drain_releases()
        self.alive = False

    # -- deferred release -----------------------------------------------------------------------

    def defer_release(self, what: str, handle: int, device: int) -> None:
        """Queue a handle whose owner was collected; nothing is called from a finaliser."""
        self._deferred.append((what, handle, device))

    def drain_releases(self) -> None:
        """Release queued handles unless a graph capture is going on."""
        if not self._deferred or self.capture_active():
            return
        while self._deferred:
            try:
                what, handle, device = self._deferred.popleft()
            except IndexError:
                return
            self.release_handle(what, handle, device)

    def capture_active(self) -> bool:
        """Whether any stream known here, or torch's current one, records a graph."""
        stream = current_stream()
        if stream is not None and stream.runtime == self and not stream.closed and stream.is_capturing():
            return True
        torch = cast(object, sys.modules.get("torch"))
        if torch is None or self.pageable_host:
            return False
        cuda = getattr(torch, "cuda", None)
        return bool(cuda is not None and cuda.is_available() and cuda.is_current_stream_capturing())

    def release_handle(self, what: str, handle: int, device: int) -> None:
        """Release one handle: `what` is buffer, pinned buffer, stream, event or module."""
        raise NotSupportedError(self.kind, f"releasing a {what}")

    def _unsupported(self, name: str) -> NotSupportedError:
        return NotSupportedError(self.kind, name)

    # -- devices ---------------------------------------------------------------------------------------

    @abstractmethod
    def device_count(self) -> int:
        """Number of visible devices."""

    @abstractmethod
    def current_device_id(self) -> int:
        """Ordinal of the calling thread's current device."""

    def set_device(self, ordinal: int) -> None:
        """Make a device current for the calling thread."""
        raise self._unsupported("set_device")

    def device(self, ordinal: int) -> Device:
        """A device with its properties."""
        raise self._unsupported("device")

    def synchronize(self, device: int | None = None) -> None:
        """Wait for all work of a device (default: the current one)."""
        raise self._unsupported("synchronize")

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        """Free and total bytes of a device."""
        raise self._unsupported("memory_info")

    # -- memory ----------------------------------------------------------------------------------------

    def alloc(
        self, nbytes: int, *, device: int | None = None, stream: int | None = None, alignment: int = 256
    ) -> Buffer:
        """Device memory; with a stream it is ordered with that stream's work. No bytes give a buffer with `ptr` 0."""
        raise self._unsupported("alloc")

    def alloc_pinned(self, nbytes: int) -> Buffer:
        """Page-locked host memory."""
        raise self._unsupported("alloc_pinned")

    def free(self, buffer: Buffer) -> None:
        """Free a buffer now."""
        raise self._unsupported("free")

    def memcpy_h2d(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None:
        """Copy from host to device. With a stream: pageable host memory is staged, pinned memory is read later."""
        raise self._unsupported("memcpy_h2d")

    def memcpy_d2h(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None:
        """Copy from device to host. With a stream the host memory is written later, or at once if pageable."""
        raise self._unsupported("memcpy_d2h")

    def memcpy_d2d(self, dst: int, src: int, nbytes: int, *, stream: int | None = None) -> None:
        """Copy within a device."""
        raise self._unsupported("memcpy_d2d")

    def memcpy_peer(
        self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, *, stream: int | None = None
    ) -> None:
        """Copy between two devices."""
        raise self._unsupported("memcpy_peer")

    def memset(self, ptr: int, byte: int, nbytes: int, *, stream: int | None = None) -> None:
        """Set `nbytes` bytes."""
        raise self._unsupported("memset")

    def memset32(self, ptr: int, word: int, count: int, *, stream: int | None = None) -> None:
        """Set `count` 32-bit words."""
        raise self._unsupported("memset32")

    def pointer_device(self, ptr: int) -> int | None:
        """The device an address belongs to, or None for foreign memory."""
        raise self._unsupported("pointer_device")

    # -- streams and events ----------------------------------------------------------------------------

    def stream_create(self, device: int, priority: int, non_blocking: bool) -> int:
        raise self._unsupported("stream_create")

    def stream_destroy(self, stream: int) -> None:
        raise self._unsupported("stream_destroy")

    def stream_synchronize(self, stream: int) -> None:
        raise self._unsupported("stream_synchronize")

    def stream_query(self, stream: int) -> bool:
        raise self._unsupported("stream_query")

    def stream_wait_event(self, stream: int, event: int) -> None:
        raise self._unsupported("stream_wait_event")

    def stream_is_capturing(self, stream: int) -> bool:
        raise self._unsupported("stream_is_capturing")

    def stream_device_of(self, stream: int) -> int:
        """Ordinal of the device a stream belongs to."""
        raise self._unsupported("stream_device_of")

    def event_create(self, device: int, timing: bool, blocking: bool) -> int:
        raise self._unsupported("event_create")

    def event_destroy(self, event: int) -> None:
        raise self._unsupported("event_destroy")

    def event_record(self, event: int, stream: int) -> None:
        raise self._unsupported("event_record")

    def event_query(self, event: int) -> bool:
        raise self._unsupported("event_query")

    def event_synchronize(self, event: int) -> None:
        raise self._unsupported("event_synchronize")

    def event_elapsed_ms(self, start: int, end: int) -> float:
        raise self._unsupported("event_elapsed_ms")

    # -- code ------------------------------------------------------------------------------------------

    def module_load(self, binary: bytes, *, device: int | None = None) -> Module:
        """Load a code object for a device (default: the current one)."""
        raise self._unsupported("module_load")

    def module_unload(self, module: Module) -> None:
        raise self._unsupported("module_unload")

    def function(self, module: Module, name: str, *, shared_bytes: int = 0) -> Function:
        """A kernel by its symbol. `shared_bytes` tells runtimes whose objects do not say it the static shared size."""
        raise self._unsupported("function")

    def function_attributes(self, function: Function) -> dict[str, int | None]:
        """Registers, spills and sizes of a kernel."""
        return {
            "registers": function.registers,
            "spills": function.spills,
            "shared_static": function.shared_static,
            "local_bytes": function.local_bytes,
            "max_threads": function.max_threads,
        }

    def set_dynamic_smem_limit(self, function: Function, nbytes: int) -> None:
        """Allow launches of `function` with up to `nbytes` of dynamic shared memory."""
        raise self._unsupported("set_dynamic_smem_limit")

    def module_global(self, module: Module, name: str) -> tuple[int, int]:
        """Address and size of a global variable of a module."""
        raise self._unsupported("module_global")

    # -- launch ----------------------------------------------------------------------------------------

    def launch(
        self,
        function: Function,
        grid: Dim,
        block: Dim,
        *,
        smem: int = 0,
        stream: Stream | int | None = None,
        params: Sequence[object] = (),
        cluster: Dim | None = None,
        cooperative: bool = False,
        attrs: Sequence[tuple[int, bytes]] = (),
    ) -> None:
        """Launch a kernel, validating first. `params`: ctypes objects, or addresses of argument storage as ints."""
        raise self._unsupported("launch")

    def launch_symbol(self) -> int:
        """Address of a C function with the signature of cuLaunchKernel, for generated host code."""
        raise self._unsupported("launch_symbol")

    def launch_ex_symbol(self) -> int:
        """Address of a C function with the signature of cuLaunchKernelEx."""
        raise self._unsupported("launch_ex_symbol")

    def check_launch_status(self, status: int, kernel: str, stream: int = 0) -> None:
        """Raise the exception of a status that the launch symbol returned to generated code."""
        if status:
            raise LaunchError(f"launch failed with status {status}", code=status, stream=stream, kernel=kernel)

    # -- occupancy -------------------------------------------------------------------------------------

    def max_active_blocks(self, function: Function, block_threads: int, smem: int = 0) -> int:
        """Blocks of this size that fit on one compute unit."""
        raise self._unsupported("max_active_blocks")

    def suggest_block_size(
        self, function: Function, smem_of_block: Callable[[int], int] | int = 0, limit: int = 0
    ) -> tuple[int, int]:
        """A block size with the best occupancy and the grid size that fills the device once."""
        caps = self.device(function.device.ordinal).capabilities
        warp = caps.warp_size or 32
        top = min(x for x in (function.max_threads, caps.max_threads_per_block, limit or None, 1024) if x)
        best = (0, warp, 0)
        for threads in range(top - top % warp, 0, -warp):
            smem = smem_of_block(threads) if callable(smem_of_block) else smem_of_block
            blocks = self.max_active_blocks(function, threads, smem)
            if blocks * threads > best[0]:
                best = (blocks * threads, threads, blocks)
        return best[1], best[2] * (caps.compute_units or 1)

    # -- peers -----------------------------------------------------------------------------------------

    def can_access_peer(self, device: int, peer: int) -> bool:
        raise self._unsupported("can_access_peer")

    def peer_access_enabled(self, device: int, peer: int) -> bool:
        """Whether kernels on `device` may use memory of `peer` now, because `enable_peer_access` was called."""
        return device == peer

    def enable_peer_access(self, device: int, peer: int) -> None:
        raise self._unsupported("enable_peer_access")

    def disable_peer_access(self, device: int, peer: int) -> None:
        raise self._unsupported("disable_peer_access")

    # -- memory that ranks share (`runtime/dist`) ------------------------------------------------------

    def enter_ranks(self, size: int) -> None:
        """Before threads of this process become the ranks of a world."""
        return

    def leave_ranks(self) -> None:
        """After the ranks that `enter_ranks` announced have ended."""
        return

    def ranks_meet(self) -> None:
        """All ranks of this process are at one place of the host's program, and none goes on yet."""
        return

    def rank_device(self, rank: int) -> int:
        """The device a rank uses: they take turns."""
        return rank % self.device_count()

    def stop_kernels(self) -> bool:
        """End every kernel that runs now, where the stack can; whether it can."""
        return False

    def shared_granularity(self, device: int) -> int:
        """What sizes of memory that can be mapped by others are multiples of."""
        raise self._unsupported("shared_granularity")

    def shared_create(self, nbytes: int, device: int) -> int:
        """Memory on a device that other processes can map; a handle."""
        raise self._unsupported("shared_create")

    def shared_export(self, handle: int) -> int:
        """A file descriptor that stands for the memory in any process; the caller closes it."""
        raise self._unsupported("shared_export")

    def shared_import(self, descriptor: int, device: int) -> int:
        """The handle of memory another process made; the descriptor stays the caller's."""
        raise self._unsupported("shared_import")

    def shared_map(self, handles: Sequence[int], nbytes: int, devices: Sequence[int]) -> int:
        """Map memories of `nbytes` each one behind the other, for kernels on `devices`; the first address."""
        raise self._unsupported("shared_map")

    def shared_unmap(self, base: int) -> None:
        """Undo `shared_map`; finalisers queue it as the release of a `mapping`."""
        raise self._unsupported("shared_unmap")

    def shared_release(self, handle: int) -> None:
        """Let go of a handle; what is mapped stays until it is unmapped."""
        raise self._unsupported("shared_release")

    def multicast_supported(self, device: int) -> bool:
        """Whether a switch between the devices adds up and copies for kernels."""
        return False

    # -- graphs ----------------------------------------------------------------------------------------

    def graph_begin_capture(self, stream: int, mode: int = 0) -> None:
        raise self._unsupported("graph_begin_capture")

    def graph_end_capture(self, stream: int) -> Graph:
        raise self._unsupported("graph_end_capture")

    def graph_instantiate(self, graph: Graph) -> Graph:
        raise self._unsupported("graph_instantiate")

    def graph_launch(self, graph: Graph, stream: int) -> None:
        raise self._unsupported("graph_launch")

    # -- info ------------------------------------------------------------------------------------------

    def driver_version(self) -> int:
        raise self._unsupported("driver_version")

    def runtime_version(self) -> int:
        raise self._unsupported("runtime_version")

    def library_path(self) -> str:
        """Path of the vendor library in use."""
        raise self._unsupported("library_path")

    def last_error(self) -> int:
        """The calling thread's last vendor error code, cleared."""
        raise self._unsupported("last_error")

    def error_string(self, code: int) -> str:
        """Name and description of a vendor status."""
        raise self._unsupported("error_string")


def check_launch(
    function: Function,
    caps: DeviceCapabilities,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    smem: int,
    cluster: tuple[int, int, int] | None,
) -> bool:
    """Refuse launches the device cannot do; False for an empty grid, which is a success without a launch."""
    if min(grid) < 0 or min(block) < 1 or smem < 0:
        raise ValueError(f"kernel {function.name}: bad launch: grid {grid}, block {block}, smem {smem}")
    if 0 in grid:
        return False
    unknown = (None, None, None)
    limits = (
        *((f"block {a}", b, m) for a, b, m in zip("xyz", block, caps.max_block_dim or unknown, strict=True)),
        *((f"grid {a}", g, m) for a, g, m in zip("xyz", grid, caps.max_grid_dim or unknown, strict=True)),
        ("threads per block", block[0] * block[1] * block[2], function.max_threads or caps.max_threads_per_block),
        ("shared memory", smem + (function.shared_static or 0), _shared_limit(caps)),
    )
    for name, required, limit in limits:
        if limit is not None and required > limit:
            raise OutOfResourcesError(required, limit, name, kernel=function.name)
    if cluster is not None:
        if min(cluster) < 1 or any(g % c for g, c in zip(grid, cluster, strict=True)):
            raise ValueError(f"kernel {function.name}: cluster {cluster} must divide grid {grid}")
        if cluster != (1, 1, 1) and not caps.cluster_launch:
            raise NotSupportedError(function.device.kind, "cluster launch", kernel=function.name)
    return True


def _shared_limit(caps: DeviceCapabilities) -> int | None:
    return caps.shared_mem_per_block_optin or caps.shared_mem_per_block


def launch_stream(stream: Stream | int | None) -> int | None:
    """The handle a launch uses: the one given, else this thread's current stream, else None (the default stream)."""
    if stream is None:
        stream = current_stream()
    return stream_handle(stream)


def launch_blocking() -> bool:
    """Whether each launch has to be waited for (FLYDSL_RUNTIME_LAUNCH_BLOCKING)."""
    return config.runtime.launch_blocking


__all__ = [
    "GPU_WORK", "Buffer", "Device", "DeviceRuntime", "Dim", "Event", "check_launch", "dim3", "launch_blocking",
    "launch_stream",
]  # fmt: skip
