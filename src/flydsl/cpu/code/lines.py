"""Counters of source lines as text: one number per line, and a table that says which line it belongs to.

`fly_lines()` gives the address of a record: how many lines there are, their counters, and file and line of each.
"""

from __future__ import annotations

from typing import Any

from ...dialects.fly_cpu import CountOp
from ...llvm.text.function_text import FunctionText
from ...llvm.text.module_text import ModuleText
from ...llvm.text.print_text import string_constant

SYMBOL = "fly_lines"
_NOTE = "line "


def count(f: FunctionText, op: CountOp) -> None:
    """One more run of a line; blocks run in parallel, so the counter is shared."""
    line: Any = op.line
    name = f"{_NOTE}{line.value.data} {op.file.data}"
    notes = f.module.notes
    if name not in notes:
        notes[name] = str(sum(key.startswith(_NOTE) for key in notes))
    at = f.assign(f"getelementptr i64, ptr @fly_line_counts, i64 {notes[name]}")
    f.line(f"atomicrmw add ptr {at}, i64 1 monotonic")


def finish(text: ModuleText) -> None:
    """The counters and their table, if any line is counted."""
    lines = [key.removeprefix(_NOTE).split(" ", 1) for key in text.notes if key.startswith(_NOTE)]
    if not lines:
        return
    rows = ", ".join(f"{{ ptr, i64 }} {{ ptr {string_constant(text, file)}, i64 {line} }}" for line, file in lines)
    n = len(lines)
    text.globals += [
        f"@fly_line_counts = internal global [{n} x i64] zeroinitializer",
        f"@fly_line_places = internal constant [{n} x {{ ptr, i64 }}] [{rows}]",
        f"@fly_line_table = internal constant {{ i64, ptr, ptr }} "
        f"{{ i64 {n}, ptr @fly_line_counts, ptr @fly_line_places }}",
        f"define ptr @{SYMBOL}() nounwind {{\n  ret ptr @fly_line_table\n}}",
    ]
