"""What the threads of a launch print, where the driver has no `printf`: records in memory, read after the launch.

All words are of 64 bits. Word 0 counts the words that waves have asked for, word 1 says how many there are; records
follow from word 2. A record is a head, `1 << 63 | words << 32 | format`, and a word for each value: integers extended
with their sign, floats as f64. A wave asks for the words of all its lanes at once and the lanes write in their order,
so records lie in the order of waves, and of lanes within each. Records that do not fit are not written.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from flydsl import config
from flydsl.errors import LostOutputWarning
from flydsl.runtime.side_buffers import SideLaunch, content, device_memory

if TYPE_CHECKING:
    from flydsl.runtime.objects import Buffer

HEAD_WORDS = 2
_CONVERSION = re.compile(r"%[-+ 0#]*\d*(?:\.\d+)?(l?)([a-zA-Z])|%%")
_FLOATS = "eEfFgG"
_UNSIGNED = "xXo"


def lines_of(data: bytes, formats: Sequence[str]) -> Iterator[str]:
    """The texts of a buffer, in order.

    >>> words = [3, 8, 1 << 63 | 2 << 32, 7, 1 << 63 | 1 << 32 | 1]
    >>> list(lines_of(struct.pack("<5Q", *words), ["n is %d\\n", "done\\n"]))
    ['n is 7\\n', 'done\\n']
    """
    asked, room = struct.unpack_from("<2Q", data)
    at, end = 8 * HEAD_WORDS, min(8 * (HEAD_WORDS + min(asked, room)), len(data))
    while at < end:
        (head,) = struct.unpack_from("<Q", data, at)
        words = head >> 32 & 0x7FFFFFFF
        if not head >> 63 or not words or at + 8 * words > end:
            return  # from here on nothing fitted
        yield text_of(formats[head & 0xFFFFFFFF], data[at + 8 : at + 8 * words])
        at += 8 * words


def text_of(form: str, values: bytes) -> str:
    """Values in a format of C.

    >>> text_of("%d %08x %.3e %%", struct.pack("<qqd", -5, -1, 0.5))
    '-5 ffffffff 5.000e-01 %'
    """
    at = 0

    def one(found: re.Match[str]) -> str:
        nonlocal at
        if found.group() == "%%":
            return "%"
        long, kind = found.groups()
        (value,) = struct.unpack_from("<d" if kind in _FLOATS else "<q", values, at)
        at += 8
        if kind in _UNSIGNED:
            value &= (1 << (64 if long else 32)) - 1
        return found.group() % value

    return _CONVERSION.sub(one, form)


class _Open:
    """The buffer of a launch."""

    def __init__(self, launch: SideLaunch):
        self._launch = launch
        words = config.runtime.printf_bytes // 8
        self._nbytes = 8 * (HEAD_WORDS + words)
        self._buffer: Buffer = device_memory(launch, struct.pack("<2Q", 0, words), self._nbytes)

    @property
    def address(self) -> int:
        return self._buffer.ptr

    def launched(self) -> None:
        """Print, so that what a kernel says is there before the next thing the program does."""
        head = content(self._launch, self._buffer, 0, 8 * HEAD_WORDS)
        asked, room = struct.unpack("<2Q", head)
        used = content(self._launch, self._buffer, 0, 8 * (HEAD_WORDS + min(asked, room))) if asked else head
        self._buffer.free()
        sys.stdout.write("".join(lines_of(used, cast("list[str]", self._launch.details["formats"]))))
        sys.stdout.flush()
        if asked > room:
            config.warn(
                f"kernel '{self._launch.kernel}' printed {8 * asked} bytes of records and there was room for "
                f"{8 * room}: the rest is lost; print in fewer threads or raise FLYDSL_RUNTIME_PRINTF_BYTES",
                LostOutputWarning,
            )


def open_buffer(launch: SideLaunch) -> _Open:
    """The memory for what a launch prints."""
    return _Open(launch)
