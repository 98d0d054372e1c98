"""The rocm stack: the HIP runtime library, used through its driver-level entry points."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_int, c_void_p
from typing import ClassVar

from flydsl.errors import FlyRuntimeError
from flydsl.runtime import library
from flydsl.runtime.driver_shared import SharingDriverRuntime
from flydsl.runtime.driver_table import Column
from flydsl.runtime.objects import Device, DeviceCapabilities
from flydsl.target import has

_PROPERTIES_BYTES = 1472
"""Size of `hipDeviceProp_tR0600`; allocated with room to spare."""

_ATTRIBUTE_POOLS = 88
_DESCRIPTOR_BY_VALUE = 70100000
"""HIP's version 7.1.0."""


class RocmDeviceRuntime(SharingDriverRuntime):
    """AMD GPUs.

    >>> RocmDeviceRuntime.kind
    'rocm'
    """

    kind: ClassVar[str] = "rocm"
    spec: ClassVar[library.LibrarySpec] = library.HIP
    column: ClassVar[Column] = "hip"

    def _make_current(self, ordinal: int) -> None:
        self._call("set_device", ordinal)

    def _current(self) -> int:
        ordinal = c_int()
        self._call("get_device", byref(ordinal))
        return ordinal.value

    def enter(self, ordinal: int) -> int | None:
        """Make a device current for a native call; gives the one to `leave` to, or None if it was current already."""
        self._check_lost(ordinal)
        before = self._current()
        if before == ordinal:
            return None
        self._make_current(ordinal)
        return before

    def leave(self, ordinal: int) -> None:
        """Give the thread back the device it had before `enter`."""
        self._make_current(ordinal)

    def _stream_device(self, stream: int) -> int:
        if stream in (0, 1, 2):
            return self._current()
        ordinal = c_int()
        self._call("stream_device", stream, byref(ordinal), stream=stream)
        return ordinal.value

    def _peer_operand(self, ordinal: int) -> int:
        return ordinal

    def _status_text(self, code: int) -> tuple[str, str]:
        name: bytes | None = self.table().get("hip_error_name")(code)
        text: bytes | None = self.table().get("hip_error_text")(code)
        return (name or b"unknown error").decode(errors="replace"), (text or b"").decode(errors="replace")

    def _clear_stale_error(self) -> None:
        code = self.last_error()
        if code:
            name, text = self._status_text(code)
            what = f"an earlier HIP call had failed: {text}"
            raise FlyRuntimeError(what, api="hipGetLastError", code=code, name=name)

    def _load_module(self, binary: bytes) -> int:
        handle = c_void_p()
        self._call("module_load", byref(handle), ctypes.create_string_buffer(binary, len(binary)))
        return handle.value or 0

    def _describe(self, ordinal: int) -> Device:
        raw = ctypes.create_string_buffer(2 * _PROPERTIES_BYTES)
        self._call("device_properties", raw, ordinal)
        data = raw.raw

        def i32(offset: int) -> int:
            return struct.unpack_from("<i", data, offset)[0]

        def u64(offset: int) -> int:
            return struct.unpack_from("<Q", data, offset)[0]

        def text(offset: int) -> str:
            return data[offset : offset + 256].split(b"\0")[0].decode(errors="replace")

        pools = c_int()
        has_pools = not self._raw("device_attribute", byref(pools), _ATTRIBUTE_POOLS, ordinal) and bool(pools.value)
        caps = DeviceCapabilities(
            warp_size=i32(308),
            compute_units=i32(388),
            max_threads_per_block=i32(320),
            max_threads_per_cu=i32(624),
            max_block_dim=(i32(324), i32(328), i32(332)),
            max_grid_dim=(i32(336), i32(340), i32(344)),
            shared_mem_per_block=u64(296),
            shared_mem_per_block_optin=u64(696) or None,
            shared_mem_per_cu=u64(640) or None,
            registers_per_block=i32(304),
            l2_bytes=i32(616),
            total_memory=u64(288),
            clock_khz=i32(348),
            memory_clock_khz=i32(608),
            memory_bus_bits=i32(612),
            cooperative_launch=bool(i32(688)),
            cluster_launch=has(text(1160).split(":")[0], "clusters") and self.table().has("launch_ex"),
            managed_memory=bool(i32(652)),
            unified_addressing=bool(i32(604)),
            async_alloc=has_pools,
            graph_capture=True,
            concurrent_kernels=bool(i32(576)),
            event_timing=True,
        )
        pci = f"{i32(592):04x}:{i32(584):02x}:{i32(588):02x}.0"
        return Device(ordinal, self.kind, text(0), text(1160), data[256:272].hex(), pci, caps)

    def _imported_descriptor(self, descriptor: int) -> c_void_p:
        """Before 7.1 the library wants the address of the descriptor, since then the descriptor itself."""
        if self.runtime_version() >= _DESCRIPTOR_BY_VALUE:
            return c_void_p(descriptor)
        self._descriptor = c_int(descriptor)
        return c_void_p(ctypes.addressof(self._descriptor))

    def last_error(self) -> int:
        return self._raw("last_error")
