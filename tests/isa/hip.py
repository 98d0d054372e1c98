"""A HIP library of callbacks: the real host code launches through it, and kernels are executed here."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from flydsl.runtime.driver_table import ENTRIES

from .errors import IsaError
from .image import Image
from .machine import Dim, Kernel, run
from .memory import Memory

_INVALID = 1
_NUMBERS = (ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_ubyte, ctypes.c_uint64, ctypes.c_float)


class HipLibrary:
    """Stands where the opened driver library does: a callback for every entry point that is used."""

    def __init__(self, arch: str, seed: int):
        self.arch, self.seed = arch, seed
        self.lds = 163840 if arch == "gfx950" else 327680 if arch == "gfx1250" else 65536
        self.memory = Memory()
        self.launches: list[tuple[str, tuple[int, int, int], tuple[int, int, int], int]] = []
        self.instructions = 0
        self.failure: BaseException | None = None
        self.reported = False
        """Whether the stack was told what the failure is."""
        self._images: dict[int, Image] = {}
        self._functions: dict[int, Kernel] = {}
        self._rooms: dict[int, Any] = {}
        self._next = 0x1000
        self._text = ctypes.create_string_buffer(1)
        for name, entry in ENTRIES.items():
            for symbol in entry.hip:
                setattr(self, symbol, self._callback(name, entry.args, entry.result))

    def _callback(self, name: str, args: tuple[Any, ...], result: Any) -> Any:
        answer: Callable[..., int] | None = getattr(self, f"_on_{name}", None)

        def called(*given: Any) -> Any:
            if result is ctypes.c_char_p:
                self.reported = True
                self._text = ctypes.create_string_buffer(str(self.failure or "no failure").encode())
                return ctypes.addressof(self._text)
            try:
                if answer is None:
                    raise IsaError(f"the HIP library here has no {name}")
                return answer(*[value or 0 for value in given])
            except BaseException as error:  # noqa: BLE001  # Python drops what a callback raises
                self.failure = error
                return _INVALID

        # Texts and pointers come as addresses.
        plain = [kind if kind in _NUMBERS else ctypes.c_void_p for kind in args]
        return ctypes.CFUNCTYPE(ctypes.c_void_p if result is ctypes.c_char_p else result, *plain)(called)

    def _handle(self) -> int:
        self._next += 0x1000
        return self._next

    def raise_failure(self) -> None:
        """What went wrong inside a callback, where Python could not let it through."""
        failure, self.failure = self.failure, None
        if failure is not None and not self.reported:
            raise failure

    # -- devices ---------------------------------------------------------------------------------------

    def _on_init(self, flags: int) -> int:
        return 0

    def _on_device_count(self, out: int) -> int:
        return _put32(out, 1)

    def _on_device_get(self, out: int, ordinal: int) -> int:
        return _put32(out, 0)

    def _on_driver_version(self, out: int) -> int:
        return _put32(out, 70100000)

    _on_runtime_version = _on_driver_version

    def _on_set_device(self, ordinal: int) -> int:
        return 0 if ordinal == 0 else _INVALID

    def _on_get_device(self, out: int) -> int:
        return _put32(out, 0)

    def _on_device_attribute(self, out: int, which: int, ordinal: int) -> int:
        return _put32(out, 0)

    def _on_device_properties(self, out: int, ordinal: int) -> int:
        raw = bytearray(1472)
        raw[: len(self.arch)] = self.arch.encode()
        wave = 64 if self.arch.startswith("gfx9") else 32
        words = {304: 65536, 308: wave, 320: 1024, 324: 1024, 328: 1024, 332: 1024, 336: 2**31 - 1, 340: 65535}
        words |= {344: 65535, 388: 8, 624: 2048, 588: 1}
        for offset, value in words.items():
            raw[offset : offset + 4] = value.to_bytes(4, "little")
        for offset, value in {288: 1 << 34, 296: self.lds, 640: self.lds}.items():
            raw[offset : offset + 8] = value.to_bytes(8, "little")
        name = f"{self.arch}:sramecc+:xnack-" if self.arch.startswith("gfx9") else self.arch
        raw[1160 : 1160 + len(name)] = name.encode()
        ctypes.memmove(out, bytes(raw), len(raw))
        return 0

    def _on_synchronize(self) -> int:
        return 0

    def _on_last_error(self) -> int:
        return 0

    # -- memory ----------------------------------------------------------------------------------------

    def _on_alloc(self, out: int, size: int) -> int:
        room = np.full(size + 512, 0xA5, np.uint8)
        address = (room.ctypes.data + 255) // 256 * 256
        self._rooms[address] = room
        self.memory.add(address, size, "device memory", owner=room)
        return _put64(out, address)

    def _on_alloc_async(self, out: int, size: int, stream: int) -> int:
        return self._on_alloc(out, size)

    def _on_alloc_host(self, out: int, size: int, flags: int) -> int:
        return self._on_alloc(out, size)

    def _on_free(self, address: int) -> int:
        self.memory.remove(address)
        return 0 if self._rooms.pop(address, None) is not None else _INVALID

    def _on_free_async(self, address: int, stream: int) -> int:
        return self._on_free(address)

    def _on_free_host(self, address: int) -> int:
        return self._on_free(address)

    def _on_copy_h2d(self, target: int, source: int, size: int) -> int:
        ctypes.memmove(target, source, size)
        return 0

    _on_copy_d2h = _on_copy_d2d = _on_copy_h2d

    def _on_copy_h2d_async(self, target: int, source: int, size: int, stream: int) -> int:
        return self._on_copy_h2d(target, source, size)

    _on_copy_d2h_async = _on_copy_d2d_async = _on_copy_h2d_async

    def _on_set8(self, target: int, value: int, size: int) -> int:
        ctypes.memset(target, value, size)
        return 0

    def _on_set8_async(self, target: int, value: int, size: int, stream: int) -> int:
        return self._on_set8(target, value, size)

    def _on_set32(self, target: int, value: int, count: int) -> int:
        ctypes.memmove(target, value.to_bytes(4, "little") * count, 4 * count)
        return 0

    def _on_set32_async(self, target: int, value: int, count: int, stream: int) -> int:
        return self._on_set32(target, value, count)

    def _on_pointer_attribute(self, out: int, which: int, pointer: int) -> int:
        return _put32(out, 0)

    # -- streams and events ----------------------------------------------------------------------------

    def _on_stream_synchronize(self, stream: int) -> int:
        return 0

    def _on_stream_is_capturing(self, stream: int, out: int) -> int:
        return _put32(out, 0)

    def _on_event_create(self, out: int, flags: int) -> int:
        return _put64(out, self._handle())

    def _on_event_record(self, event: int, stream: int) -> int:
        return 0

    def _on_event_destroy(self, event: int) -> int:
        return 0

    def _on_event_synchronize(self, event: int) -> int:
        return 0

    # -- code ------------------------------------------------------------------------------------------

    def _on_module_load(self, out: int, image: int) -> int:
        size = _elf_size(image)
        handle = self._handle()
        self._images[handle] = Image(ctypes.string_at(image, size), self.memory)
        return _put64(out, handle)

    def _on_module_unload(self, module: int) -> int:
        self._images.pop(module).close()
        return 0

    def _on_module_function(self, out: int, module: int, name: int) -> int:
        handle = self._handle()
        self._functions[handle] = Kernel.load(self._images[module], ctypes.string_at(name).decode())
        return _put64(out, handle)

    def _on_module_global(self, out: int, size: int, module: int, name: int) -> int:
        address, count = self._images[module].globals[ctypes.string_at(name).decode()]
        _put64(size, count)
        return _put64(out, address)

    def _on_function_attribute(self, out: int, which: int, function: int) -> int:
        info = self._functions[function].info
        values = {0: info.max_flat_workgroup_size, 1: info.lds, 3: info.scratch, 4: info.vgpr}
        return _put32(out, values.get(which, 0))

    def _on_launch(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, smem: int, stream: int,
        params: int, extra: int,
    ) -> int:  # fmt: skip
        return self._launched(function, (gx, gy, gz), (bx, by, bz), smem, params, (1, 1, 1))

    def _on_launch_ex(self, config: int, function: int, params: int, extra: int) -> int:
        """A record of 56 bytes; its attributes are of 72, with the value behind the number."""
        words = [_read32(config + 4 * at) for at in range(7)]
        cluster = (1, 1, 1)
        for at in range(_read32(config + 48)):
            entry = _read64(config + 40) + 72 * at
            if _read32(entry) != 4:
                raise IsaError(f"attribute {_read32(entry)} of a launch")
            cluster = (_read32(entry + 8), _read32(entry + 12), _read32(entry + 16))
        return self._launched(
            function, (words[0], words[1], words[2]), (words[3], words[4], words[5]), words[6], params, cluster
        )

    def _launched(self, function: int, grid: Dim, block: Dim, smem: int, params: int, cluster: Dim) -> int:
        kernel = self._functions[function]
        sizes = [arg.size for arg in kernel.info.args if not arg.hidden]
        given = [_read64(params + 8 * at) for at in range(len(sizes))]
        data = [ctypes.string_at(address, size) for address, size in zip(given, sizes, strict=True)]
        if kernel.descriptor.lds + smem > self.lds:
            raise IsaError(f"{kernel.descriptor.lds} and {smem} bytes of shared memory, the device has {self.lds}")
        self.launches.append((kernel.info.name, grid, block, smem))
        self.seed += 1
        self.instructions += run(kernel, self.memory, data, grid, block, smem, self.seed, cluster)
        return 0


def _put32(out: int, value: int) -> int:
    ctypes.memmove(out, (value & 0xFFFFFFFF).to_bytes(4, "little"), 4)
    return 0


def _put64(out: int, value: int) -> int:
    ctypes.memmove(out, value.to_bytes(8, "little"), 8)
    return 0


def _read32(address: int) -> int:
    return int.from_bytes(ctypes.string_at(address, 4), "little")


def _read64(address: int) -> int:
    return int.from_bytes(ctypes.string_at(address, 8), "little")


def _elf_size(image: int) -> int:
    """A module is loaded from its address alone: its section headers come last."""
    head = ctypes.string_at(image, 64)
    start = int.from_bytes(head[40:48], "little")
    size, count = int.from_bytes(head[58:60], "little"), int.from_bytes(head[60:62], "little")
    return start + size * count
