"""The cuda stack: the CUDA driver API, with the devices' primary contexts so that frameworks share them."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import ClassVar

from flydsl.errors import FlyRuntimeError
from flydsl.runtime import library
from flydsl.runtime.driver_shared import SharingDriverRuntime
from flydsl.runtime.driver_table import Column
from flydsl.runtime.objects import Device, DeviceCapabilities

_LOG_BYTES = 16384
_OPTION_INFO_LOG, _OPTION_INFO_SIZE, _OPTION_ERROR_LOG, _OPTION_ERROR_SIZE, _OPTION_LINES = 3, 4, 5, 6, 13
_MAJOR, _MINOR, _MULTICAST = 75, 76, 132


class CudaDeviceRuntime(SharingDriverRuntime):
    """NVIDIA GPUs.

    >>> CudaDeviceRuntime.kind
    'cuda'
    """

    kind: ClassVar[str] = "cuda"
    spec: ClassVar[library.LibrarySpec] = library.CUDA
    column: ClassVar[Column] = "cuda"

    def __init__(self) -> None:
        super().__init__()
        self._contexts: dict[int, int] = {}

    def _context(self, ordinal: int) -> int:
        known = self._contexts.get(ordinal)
        if known is None:
            with self._lock:
                known = self._contexts.get(ordinal)
                if known is None:
                    context = c_void_p()
                    self._call("context_retain", byref(context), ordinal)
                    known = self._contexts.setdefault(ordinal, context.value or 0)
        return known

    def _make_current(self, ordinal: int) -> None:
        self._call("context_set", self._context(ordinal))

    def _current(self) -> int:
        context = c_void_p()
        self._call("context_get", byref(context))
        if not context.value:
            self._make_current(0)
            return 0
        ordinal = c_int()
        self._call("context_device", byref(ordinal))
        return ordinal.value

    context_statuses = frozenset((3, 201, 400, 709))
    """Launch statuses of a thread without a context or with a foreign one: nothing was launched. In turn: driver not
    initialised, invalid context, invalid handle, context destroyed."""

    def enter(self, ordinal: int) -> int | None:
        """Make a device's primary context current for a native call; gives the context to `leave` to, or None.

        Generated host code calls the driver directly, on whatever thread runs it, and a fresh thread has no context.
        """
        wanted = self._contexts.get(ordinal) or self._context(ordinal)
        if self._lost:
            self._check_lost(ordinal)
        before = c_void_p()
        status = self.table().get("context_get")(byref(before))
        if status:
            raise self.error_of(status, "context_get")
        if before.value == wanted:
            return None
        self._call("context_set", wanted)
        return before.value

    def leave(self, context: int) -> None:
        """Give the thread back the context it had before `enter`."""
        self._call("context_set", context)

    def _stream_device(self, stream: int) -> int:
        if stream in (0, 1, 2):
            return self._current()
        context, before, ordinal = c_void_p(), c_void_p(), c_int()
        self._call("stream_context", stream, byref(context), stream=stream)
        self._call("context_push", context)
        try:
            self._call("context_device", byref(ordinal))
        finally:
            self._call("context_pop", byref(before))
        return ordinal.value

    def _peer_operand(self, ordinal: int) -> int:
        return self._context(ordinal)

    def _status_text(self, code: int) -> tuple[str, str]:
        found: list[str] = []
        for entry in ("cuda_error_name", "cuda_error_text"):
            text = c_char_p()
            failed = self._raw(entry, code, byref(text))
            found.append("unknown error" if failed or not text.value else text.value.decode(errors="replace"))
        return found[0], found[1]

    def _load_module(self, binary: bytes) -> int:
        """Load a cubin, or PTX, which the driver compiles; its log is part of the error."""
        handle = c_void_p()
        info, error = ctypes.create_string_buffer(_LOG_BYTES), ctypes.create_string_buffer(_LOG_BYTES)
        names = (_OPTION_INFO_LOG, _OPTION_INFO_SIZE, _OPTION_ERROR_LOG, _OPTION_ERROR_SIZE, _OPTION_LINES)
        options = (c_int * 5)(*names)
        values = (c_void_p * 5)(ctypes.addressof(info), _LOG_BYTES, ctypes.addressof(error), _LOG_BYTES, 1)
        # The driver keeps the line table of PTX only where it is asked to.
        count = 5 if b"\n\t.loc\t" in binary else 4
        image = ctypes.create_string_buffer(binary, len(binary) + 1)  # PTX must end with a zero byte
        status = self._raw("module_load_ex", byref(handle), image, count, options, values)
        if status:
            failure = self.error_of(status, "module_load_ex")
            log = b"\n".join(part for part in (error.value, info.value) if part).decode(errors="replace").strip()
            if log:
                failure.description = f"{failure.description}\n{log}"
            raise failure
        return handle.value or 0

    def _attribute(self, ordinal: int, attribute: int) -> int | None:
        value = c_int()
        if self._raw("device_attribute", byref(value), attribute, ordinal):
            return None
        return value.value

    def _describe(self, ordinal: int) -> Device:
        name = ctypes.create_string_buffer(256)
        self._call("device_name", name, 256, ordinal)
        uuid, pci = ctypes.create_string_buffer(16), ctypes.create_string_buffer(32)
        has_uuid = not self._raw("device_uuid", uuid, ordinal)
        has_pci = not self._raw("device_pci_bus_id", pci, 32, ordinal)
        total = c_size_t()
        self._call("device_total_mem", byref(total), ordinal)
        major, minor = self._attribute(ordinal, _MAJOR), self._attribute(ordinal, _MINOR)
        if major is None or minor is None:
            raise FlyRuntimeError("the driver does not tell the compute capability", device=ordinal)

        def number(attribute: int) -> int | None:
            return self._attribute(ordinal, attribute)

        def triple(first: int) -> tuple[int, int, int] | None:
            x, y, z = number(first), number(first + 1), number(first + 2)
            return None if x is None or y is None or z is None else (x, y, z)

        caps = DeviceCapabilities(
            warp_size=number(10),
            compute_units=number(16),
            max_threads_per_block=number(1),
            max_threads_per_cu=number(39),
            max_block_dim=triple(2),
            max_grid_dim=triple(5),
            shared_mem_per_block=number(8),
            shared_mem_per_block_optin=number(97),
            shared_mem_per_cu=number(81),
            registers_per_block=number(12),
            l2_bytes=number(38),
            total_memory=total.value,
            clock_khz=number(13),
            memory_clock_khz=number(36),
            memory_bus_bits=number(37),
            cooperative_launch=bool(number(95)),
            cluster_launch=bool(number(120)),
            managed_memory=bool(number(83)),
            unified_addressing=bool(number(41)),
            async_alloc=bool(number(115)),
            graph_capture=True,
            concurrent_kernels=bool(number(31)),
            event_timing=True,
        )
        return Device(
            ordinal,
            self.kind,
            name.value.decode(errors="replace"),
            f"sm_{major}{minor}",
            uuid.raw.hex() if has_uuid else None,
            pci.value.decode() if has_pci else None,
            caps,
        )

    def multicast_supported(self, device: int) -> bool:
        return bool(self._attribute(self._need(device), _MULTICAST))

    def last_error(self) -> int:
        """The driver API keeps no last error."""
        return 0
