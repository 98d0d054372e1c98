"""`fx.ktrace`: ranges and marks in a kernel, which each warp records with their times.

With tracing off, which is how a process starts, they leave nothing: no code, no argument, no part of a key. It is on
inside `with fx.ktrace.capture() as trace:`, in a process with FLYDSL_KTRACE=1, and under `fly trace script.py`.
"""

from .captures import Capture, capture, collect, recorded, summary
from .events import (
    KIND_MARK,
    KIND_RANGE_POP,
    KIND_RANGE_PUSH,
    KIND_RANGE_START,
    KIND_RANGE_STOP,
    RangeToken,
    inactive_token,
    mark,
    range,
    range_pop,
    range_push,
    range_start,
    range_stop,
)
from .switch import tracing_enabled

__all__ = [
    "KIND_MARK", "KIND_RANGE_POP", "KIND_RANGE_PUSH", "KIND_RANGE_START", "KIND_RANGE_STOP", "Capture", "RangeToken",
    "capture", "collect", "inactive_token", "mark", "range", "range_pop", "range_push", "range_start", "range_stop",
    "recorded", "summary", "tracing_enabled",
]  # fmt: skip
