"""The cpu stack's native launcher, with the signatures of the GPU drivers' launch calls.

Compiled once per process. A kernel handle is the address of a `KernelDescriptor`; no Python runs inside a launch.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
from collections.abc import Collection
from typing import ClassVar, Protocol

from flydsl.cpu.runtime.interrupt_ir import SUPPORTED
from flydsl.cpu.runtime.launcher_ir import launcher_ir


class KernelDescriptor(ctypes.Structure):
    """What a kernel handle of the cpu stack points to.

    `block_fn(params, geometry, shared, first_block, last_block)` runs the blocks `first_block <= i < last_block`,
    counted with x fastest.
    """

    _fields_: ClassVar = [
        ("block_fn", ctypes.c_void_p),
        ("shared_static_bytes", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("reports", ctypes.c_void_p),
        ("cluster", ctypes.c_uint32 * 3),
    ]


class Symbols(Protocol):
    """What is loaded, by name."""

    @property
    def symbols(self) -> Collection[str]: ...

    def address(self, name: str) -> int: ...


def cluster_of(library: Symbols, name: str) -> tuple[int, int, int]:
    """Extents of the clusters a kernel of a library was compiled for; zeros for none."""
    symbol = f"{name}.cluster"
    if symbol not in library.symbols:
        return 0, 0, 0
    packed = ctypes.CFUNCTYPE(ctypes.c_uint32)(library.address(symbol))()
    return packed & 1023, packed >> 10 & 1023, packed >> 20


LAUNCH_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    *(ctypes.c_uint32,) * 7,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
"""Prototype of the launch symbol of every stack: fn, grid, block, shared bytes, stream, params, extra."""

LAUNCH_EX_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
"""Prototype of the extended launch symbol: config, fn, params, extra."""


class Launcher:
    """The compiled launcher; its addresses stay valid as long as it lives."""

    EXPORTS: ClassVar = (
        "flydsl_cpu_launch",
        "flydsl_cpu_launch_ex",
        "flydsl_cpu_threads",
        "flydsl_cpu_serial_below",
        "flydsl_cpu_tensor_map",
        "flydsl_cpu_helpers",
        *(("flydsl_cpu_watch_interrupts", "flydsl_cpu_stop") if SUPPORTED else ()),
    )

    def __init__(self) -> None:
        from flydsl.llvm import host_jit

        # pthread_create, sched_yield, aligned_alloc and free come from the C library of this process.
        # Hand-written code: optimising it takes 40 ms of every process and saves 10 ns of a launch.
        self._library = host_jit.load_ir(launcher_ir(), opt_level=0, exports=self.EXPORTS, name="cpu-launcher")
        self.launch_address = self._library.address("flydsl_cpu_launch")
        self.launch_ex_address = self._library.address("flydsl_cpu_launch_ex")
        self.tensor_map_address = self._library.address("flydsl_cpu_tensor_map")
        self.launch = LAUNCH_PROTOTYPE(self.launch_address)
        self.launch_ex = LAUNCH_EX_PROTOTYPE(self.launch_ex_address)
        self._helpers = ctypes.c_int64.from_address(self._library.address("flydsl_cpu_helpers"))
        atexit.register(self.wait_for_helpers)
        self._threads = ctypes.c_int32.from_address(self._library.address("flydsl_cpu_threads"))
        self._serial_below = ctypes.c_int64.from_address(self._library.address("flydsl_cpu_serial_below"))

    def watch_interrupts(self) -> None:
        """Let Control-C end kernels; whoever sets a handler of signals later takes its place until this is called."""
        if SUPPORTED:
            ctypes.CFUNCTYPE(ctypes.c_int32)(self._library.address("flydsl_cpu_watch_interrupts"))()

    def stop_kernels(self) -> bool:
        """Take every other thread out of the kernel it runs; whether that is possible here."""
        if SUPPORTED:
            ctypes.CFUNCTYPE(ctypes.c_int32)(self._library.address("flydsl_cpu_stop"))()
        return SUPPORTED

    def wait_for_helpers(self, seconds: float = 10.0) -> None:
        """Wait until no helper runs this code any more; some may start after the launch they were made for."""
        end = time.monotonic() + seconds
        while self._helpers.value > 0 and time.monotonic() < end:
            time.sleep(0.001)

    def forget_helpers(self) -> None:
        """In a forked child: its parent's helpers are not here."""
        self._helpers.value = 0

    @property
    def threads(self) -> int:
        """How many threads a launch may use."""
        return self._threads.value

    @threads.setter
    def threads(self, count: int) -> None:
        self._threads.value = max(1, min(count, 256))

    @property
    def serial_below(self) -> int:
        """Launches of fewer threads in all stay on the calling thread."""
        return self._serial_below.value

    @serial_below.setter
    def serial_below(self, threads: int) -> None:
        self._serial_below.value = threads


_lock = threading.Lock()
_launcher: list[Launcher] = []


def launcher() -> Launcher:
    """The process's launcher, compiled at the first call."""
    if not _launcher:
        with _lock:
            if not _launcher:
                _launcher.append(Launcher())
    return _launcher[0]


def reset_lock_after_fork() -> None:
    """Give a forked child a lock of its own: another thread may have held this one."""
    global _lock
    _lock = threading.Lock()
    for made in _launcher:
        made.forget_helpers()
