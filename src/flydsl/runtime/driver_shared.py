"""Memory of the GPU stacks that several processes map: the drivers' virtual memory management.

A handle is a piece of a device's memory without an address. It travels to other processes as a file descriptor, and
whoever has it maps it where it likes, so that the memories of all ranks lie in a row in each of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint, c_ushort, c_void_p
from typing import ClassVar

from flydsl.runtime.driver import DriverRuntime

_PINNED, _ON_DEVICE, _DESCRIPTOR, _READ_WRITE, _MINIMUM = 1, 1, 1, 3, 0
"""The same numbers in both APIs: kind of allocation, of place, of handle, of access, of granularity."""


class Location(ctypes.Structure):
    """Where memory is."""

    _fields_: ClassVar = [("type", c_int), ("id", c_int)]


class AllocationProperties(ctypes.Structure):
    """`CUmemAllocationProp` and `hipMemAllocationProp`."""

    _fields_: ClassVar = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("windows", c_void_p),
        ("compression", c_ubyte),
        ("rdma", c_ubyte),
        ("usage", c_ushort),
        ("reserved", c_ubyte * 4),
    ]


class AccessDescription(ctypes.Structure):
    """`CUmemAccessDesc` and `hipMemAccessDesc`."""

    _fields_: ClassVar = [("location", Location), ("flags", c_uint)]


def _properties(device: int) -> AllocationProperties:
    return AllocationProperties(_PINNED, _DESCRIPTOR, Location(_ON_DEVICE, device))


class SharingDriverRuntime(DriverRuntime):
    """A GPU stack with memory for ranks."""

    def __init__(self) -> None:
        super().__init__()
        self._mapped: dict[int, tuple[int, int]] = {}
        """By the first address: how many memories, and the bytes of each."""

    def release_handle(self, what: str, handle: int, device: int) -> None:
        if what == "mapping":
            self.shared_unmap(handle)
        else:
            super().release_handle(what, handle, device)

    def shared_granularity(self, device: int) -> int:
        found, properties = c_size_t(), _properties(self._need(device))
        with self.on_device(device):
            self._call("vmm_granularity", byref(found), ctypes.addressof(properties), _MINIMUM)
        return found.value

    def shared_create(self, nbytes: int, device: int) -> int:
        handle, properties = c_void_p(), _properties(self._need(device))
        with self.on_device(device):
            self._call("vmm_create", byref(handle), nbytes, ctypes.addressof(properties), 0)
        return handle.value or 0

    def shared_export(self, handle: int) -> int:
        descriptor = c_int(-1)
        self._call("vmm_export", ctypes.addressof(descriptor), handle, _DESCRIPTOR, 0)
        return descriptor.value

    def _imported_descriptor(self, descriptor: int) -> c_void_p:
        """How the import takes a descriptor."""
        return c_void_p(descriptor)

    def shared_import(self, descriptor: int, device: int) -> int:
        handle = c_void_p()
        with self.on_device(device):
            self._call("vmm_import", byref(handle), self._imported_descriptor(descriptor), _DESCRIPTOR)
        return handle.value or 0

    def shared_map(self, handles: Sequence[int], nbytes: int, devices: Sequence[int]) -> int:
        base = c_void_p()
        whole = nbytes * len(handles)
        mapped = 0
        with self.on_device(devices[0]):
            self._call("vmm_reserve", byref(base), whole, 0, 0, 0)
            start = base.value or 0
            try:
                for i, handle in enumerate(handles):
                    self._call("vmm_map", start + i * nbytes, nbytes, 0, handle, 0)
                    mapped = i + 1
                rights = (AccessDescription * len(devices))(
                    *(AccessDescription(Location(_ON_DEVICE, self._need(d)), _READ_WRITE) for d in devices)
                )
                for i in range(len(handles)):  # one by one: HIP takes what one `vmm_map` has mapped
                    self._call("vmm_access", start + i * nbytes, nbytes, ctypes.addressof(rights), len(devices))
            except BaseException:
                self._unmap(start, mapped, nbytes, len(handles))
                raise
        self._mapped[start] = (len(handles), nbytes)
        return start

    def _unmap(self, base: int, mapped: int, nbytes: int, count: int) -> None:
        for i in range(mapped):
            self._call("vmm_unmap", base + i * nbytes, nbytes)
        self._call("vmm_free", base, nbytes * count)

    def shared_unmap(self, base: int) -> None:
        count, nbytes = self._mapped.pop(base)
        # As `free` does: kernels that still use the memory come first.
        for ordinal in range(self.device_count()):
            if ordinal in self._devices:
                self.synchronize(ordinal)
        self._unmap(base, count, nbytes, count)

    def shared_release(self, handle: int) -> None:
        self._call("vmm_release", handle)
