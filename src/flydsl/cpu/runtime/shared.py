"""Memory of the cpu stack that several ranks map, threads or processes, and devices for ranks that are threads.

Every rank has a device of its own, so that code is loaded for each apart, with the tables of checked mode.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
import threading
from collections.abc import Sequence

from flydsl.cpu import rank_clocks
from flydsl.cpu.runtime import native as cpu_native
from flydsl.errors import FlyRuntimeError, OutOfMemoryError
from flydsl.runtime.base import DeviceRuntime

_NOTHING, _READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED = 1, 2, 16
_MAP_ANONYMOUS = 0x1000 if sys.platform == "darwin" else 0x20
_FAILED = ctypes.c_void_p(-1).value


class SharedHostMemory(DeviceRuntime):
    """The part of the cpu stack that ranks need."""

    devices: int = 1
    """How many devices to show. They are all this machine; more than one lets tests see where work goes."""

    _worlds: int = 0
    _alone: int = 1
    """Devices without any ranks."""

    def __init__(self) -> None:
        self._worlds_lock = threading.Lock()
        self._mapped: dict[int, int] = {}
        """Bytes of what is mapped, by the first address."""

    def enter_ranks(self, size: int) -> None:
        with self._worlds_lock:
            if not self._worlds:
                self._alone = self.devices
            rank_clocks.begin(size)
            self._worlds += 1
            self.devices = max(self.devices, size)

    def leave_ranks(self) -> None:
        with self._worlds_lock:
            self._worlds -= 1
            if not self._worlds:
                self.devices = self._alone
                rank_clocks.end()

    def stop_kernels(self) -> bool:
        return cpu_native.launcher().stop_kernels()

    def shared_granularity(self, device: int) -> int:
        return mmap.PAGESIZE

    def shared_create(self, nbytes: int, device: int) -> int:
        """A file without a name; its descriptor is the handle."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("flydsl-rank")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        try:
            os.ftruncate(descriptor, nbytes)
        except OSError as error:
            os.close(descriptor)
            raise OutOfMemoryError(requested=nbytes, device=device) from error
        return descriptor

    def shared_export(self, handle: int) -> int:
        return os.dup(handle)

    def shared_import(self, descriptor: int, device: int) -> int:
        return os.dup(descriptor)

    def shared_map(self, handles: Sequence[int], nbytes: int, devices: Sequence[int]) -> int:
        whole = nbytes * len(handles)
        base = _map(None, whole, _NOTHING, _MAP_PRIVATE | _MAP_ANONYMOUS, -1)
        try:
            for i, handle in enumerate(handles):
                _map(base + i * nbytes, nbytes, _READ_WRITE, _MAP_SHARED | _MAP_FIXED, handle)
        except OutOfMemoryError:
            _unmap(base, whole)
            raise
        self._mapped[base] = whole
        if self._worlds:
            rank_clocks.watch(base, whole)
        return base

    def ranks_meet(self) -> None:
        rank_clocks.meet()

    def shared_unmap(self, base: int) -> None:
        rank_clocks.forget(base)
        _unmap(base, self._mapped.pop(base))

    def shared_release(self, handle: int) -> None:
        os.close(handle)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_ssize_t,
    )
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _map(at: int | None, nbytes: int, rights: int, flags: int, descriptor: int) -> int:
    found: int | None = _libc().mmap(at, nbytes, rights, flags, descriptor, 0)
    if found is None or found == _FAILED:
        raise OutOfMemoryError(f"mmap: {os.strerror(ctypes.get_errno())}", requested=nbytes)
    return found


def _unmap(base: int, nbytes: int) -> None:
    if _libc().munmap(base, nbytes):
        raise FlyRuntimeError(f"cannot unmap {nbytes} bytes at {base:#x}", api="munmap")
