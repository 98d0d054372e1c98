"""Where events lie in the memory of a trace. What the code of kernels and whoever reads it agree on.

All words are of 64 bits. A head of `HEAD` words, then a region for each unit of each recorded block, a unit being a
warp, on the cpu stack a thread. A region is two words (`LOST` or the number of events, `SPARSE`), then records. One
is `RECORD` words: two of time, `tag | where << 32`, the payload, and on the cpu stack its number in the launch.

On a GPU the first active lane of a warp writes. Where that is lane 0, its own count of events is the place, which
costs no memory access; events that lane 0 takes no part in go to places behind those, counted by an atomic (`SPARSE`).
"""

from __future__ import annotations

FIRST, BLOCKS, ORDER = 0, 1, 2
"""Words of the head: the first block that is recorded, how many are, and how many events the launch has (cpu)."""
HEAD = 8
LOST, SPARSE = 0, 1
"""Words of a region."""
REGION_HEAD = 2

RECORD = 4
HOST_RECORD = 6

MARK, RANGE_PUSH, RANGE_POP, RANGE_START, RANGE_STOP = range(5)
"""Kinds of events."""
NOTHING, INTEGER, FLOAT = range(3)
"""Kinds of payloads."""

_NAMES = 1 << 16


def tag_of(name: int, kind: int, payload: int) -> int:
    """The word that says what an event is; never 0.

    >>> parts_of(tag_of(5, RANGE_POP, FLOAT))
    (5, 2, 2)
    """
    if not 0 <= name < _NAMES:
        raise ValueError(f"a kernel has at most {_NAMES} names of events")
    return 1 << 31 | payload << 20 | kind << 16 | name


def parts_of(tag: int) -> tuple[int, int, int]:
    """Number of the name, kind and kind of payload."""
    return tag & 0xFFFF, tag >> 16 & 0xF, tag >> 20 & 0xF


def sparse_places(events: int) -> int:
    """Places for events that lane 0 takes no part in."""
    return max(events // 4, 4)


def region_words(events: int, host: bool) -> int:
    """Words of a region that keeps so many events."""
    if host:
        return REGION_HEAD + HOST_RECORD * events
    return REGION_HEAD + RECORD * (events + sparse_places(events))
