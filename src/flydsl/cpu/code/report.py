"""The table in which code for the CPU notes what went wrong: checked mode's findings, and waits that never end.

`fly_reports(reset)` gives the table: a count, then `RECORDS` records of `FIELDS` words: text, kind, address, bounds,
thread, block, the address of a description of the tensor or 0, another thread concerned (from 1) or 0, and the text of
its line. Each place reports once; its flag remembers.
`cpu/runtime/reports.py` reads it.
"""

from __future__ import annotations

from ...llvm.text.module_text import ModuleText
from ...llvm.text.routine import Routine

RECORDS = 32
FIELDS = 12
MISTAKE, DEADLOCK = 0, 1
"""Kinds of reports."""
OTHER_RANKS = 1 << 16
"""In place of another thread: from here on a rank, from 1."""

_TABLE = f"{{ i32, i32, [{RECORDS} x [{FIELDS} x i64]] }}"
PARAMETERS = (
    "ptr flag, ptr text, i64 kind, i64 at, i64 low, i64 high, i64 thread, i64 bx, i64 by, i64 bz, ptr tensor, "
    "i64 other, ptr line"
)


def new_flag(module: ModuleText) -> str:
    """A byte of its own for a place that reports once."""
    count = int(module.notes.get("report sites", "0"))
    module.notes["report sites"] = str(count + 1)
    return f"getelementptr (i8, ptr @fly_flags, i64 {count})"


def _report() -> str:
    r = Routine("fly_report", "void", PARAMETERS, "cold noinline nounwind")
    told = r.assign("i8", "atomicrmw xchg ptr %flag, i8 1 monotonic")
    with r.when(told.is_not(0)):
        r.give()
    i = r.assign("i32", "atomicrmw add ptr @fly_table, i32 1 monotonic")
    with r.when(i >= RECORDS):
        r.give()
    record = r.assign("ptr", f"getelementptr {_TABLE}, ptr @fly_table, i32 0, i32 2, i32 {i.name}")
    words = [r.address(r["text"]), *(r[w] for w in ("kind", "at", "low", "high", "thread", "bx", "by", "bz"))]
    for k, word in enumerate([*words, r.address(r["tensor"]), r["other"], r.address(r["line"])]):
        r.store("i64", word, record, 8 * k, 8)
    return r.text()


def finish(module: ModuleText) -> None:
    """Add the table to a module whose functions are all written."""
    count = max(int(module.notes.get("report sites", "0")), 1)
    module.globals += [
        f"@fly_flags = internal global [{count} x i8] zeroinitializer",
        f"@fly_table = internal global {_TABLE} zeroinitializer, align 8",
        _report(),
        f"""
define ptr @fly_reports(i1 %reset) {{
entry:
  br i1 %reset, label %clear, label %out
clear:
  store i32 0, ptr @fly_table
  call void @llvm.memset.p0.i64(ptr @fly_flags, i8 0, i64 {count}, i1 false)
  br label %out
out:
  ret ptr @fly_table
}}
""",
    ]
    module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
