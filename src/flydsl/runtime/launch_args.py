"""Arguments of a launch in the forms the launch symbols take: parameter addresses and the extended launch record."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, cast


class LaunchConfig:
    """The 56-byte extended launch record of HIP and CUDA with its attributes (Appendix C)."""

    def __init__(self, record: Any, attributes: Any):
        self._record = record
        self._attributes = attributes
        self.address = ctypes.addressof(record)


def launch_config(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    smem: int,
    stream: int,
    cluster: tuple[int, int, int] | None,
    cooperative: bool,
    attrs: Sequence[tuple[int, bytes]] = (),
) -> LaunchConfig:
    """The record an extended launch symbol takes; `attrs` are further (id, value bytes)."""
    entries = list(attrs)
    if cooperative:
        entries.append((2, struct.pack("<i", 1)))
    if cluster is not None:
        entries.append((4, struct.pack("<3I", *cluster)))
    packed = b"".join(struct.pack("<I4x64s", number, value) for number, value in entries)
    attributes = ctypes.create_string_buffer(packed, max(len(packed), 8))
    where = ctypes.addressof(attributes) if entries else 0
    head = struct.pack("<7I4xQQI4x", *grid, *block, smem, stream, where, len(entries))
    return LaunchConfig(ctypes.create_string_buffer(head, len(head)), attributes)


def param_address(param: Any) -> int:
    """Where a launch parameter is stored: the address of a ctypes object, or the int given."""
    if isinstance(param, int):
        return param
    try:
        return ctypes.addressof(param)
    except TypeError:
        got = type(param).__name__
        raise TypeError(f"a launch parameter must be a ctypes object or an address, got {got}") from None


def copied_param(param: object, kernel: str) -> object:
    """A private copy of an argument, as a driver takes one when a launch is queued."""
    if isinstance(param, int):
        raise TypeError(
            f"kernel {kernel}: on a cpu stream, launch parameters must be ctypes objects (a bare address has no size)"
        )
    return cast(Any, type(param)).from_buffer_copy(param)
