"""What `fx.printf` leaves in a kernel where it prints into memory (`runtime/print_buffer.py` has its form).

A wave asks for the room of all its active lanes by one atomic, and each lane writes its record at its place among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ...errors import DSLValueError
from ...runtime.print_buffer import HEAD_WORDS
from ..atomics import atomic_add
from ..control.control_flow import if_, if_expr
from ..gpu import lane_id
from ..math import ctpop
from ..numeric import Boolean, Float64, Int32, Int64, Numeric
from ..rocdl.instructions import ballot, readfirstlane
from .trace import current

MOST = 512
"""Values of a line."""
_WRITTEN = -1 << 63


def emit_record(form: str, values: Sequence[Numeric]) -> None:
    """Print values in a format of C."""
    if len(values) > MOST:
        raise DSLValueError(f"printf of {len(values)} values in a line; {MOST} are the most, print parts of them")
    buffers = current().functions[-1].side_buffers
    words = buffers.need("print")
    formats = cast("list[str]", buffers.details("print").setdefault("formats", []))
    if form not in formats:
        formats.append(form)
    head = _WRITTEN | (1 + len(values)) << 32 | formats.index(form)
    size = 1 + len(values)
    here = ballot(Int64, Boolean(True))
    rank = ctpop(here & ((Int64(1) << Int64(lane_id())) - 1))

    def ask() -> Int64:
        return cast(Int64, atomic_add(words, ctpop(here) * size))

    asked = cast(Int64, if_expr(rank == 0, ask, lambda: Int64(0)))
    at = _of_first_lane(asked) + rank * size

    def write() -> None:
        record = words + (at + HEAD_WORDS)
        record[0] = Int64(head)
        for i, value in enumerate(values):
            record[1 + i] = Float64(value).bitcast(Int64) if value.is_float else Int64(value)

    if_(at + size <= words[1], write, None, ())


def _of_first_lane(value: Int64) -> Int64:
    low, high = (readfirstlane(Int32, Int32(value >> shift)) for shift in (0, 32))
    return Int64(high) << 32 | (Int64(low) & 0xFFFFFFFF)


__all__ = ["MOST", "emit_record"]
