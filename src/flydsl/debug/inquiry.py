"""Questions about a launch that stands: who wrote this cell, and where did this NaN come from?"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import DSLValueError
from .debugger import Debugger
from .machine import Thread
from .origins import origin_of
from .variables import Cell, Frame, cell

MOST = 8
"""Writers that are listed."""


def who(debugger: Debugger, thread: Thread, asked: Cell) -> str:
    """Who wrote a cell in this launch, the last one first."""
    found = debugger.writers(asked)
    if not found:
        return f"nobody has written {asked.label} in this launch"
    size = thread.block.size
    lines: list[str] = []
    for write, site in found[:MOST]:
        at = "before the first line" if site is None else f"{site.file}:{site.line}"
        x, y, z = write.thread % size[0], write.thread // size[0] % size[1], write.thread // (size[0] * size[1])
        lines.append(f"{asked.label}: thread {(x, y, z)} of block {write.block} at {at}, step {write.step}")
    if len(found) > MOST:
        lines.append(f"... and {len(found) - MOST} writes before")
    return "\n".join(lines)


QUESTIONS: dict[str, Callable[[Debugger, Thread, Cell], str]] = {"who": who, "nan": origin_of}


def inquire(debugger: Debugger, thread: Thread, frame: Frame | None, text: str) -> str | None:
    """Answer `who tile[3, 4]` or `nan tile[3, 4]`; None for anything else."""
    word, _, rest = text.partition(" ")
    if word not in QUESTIONS or not rest.strip() or rest.lstrip().startswith(("=", ".")):
        return None
    if frame is None:
        raise DSLValueError("the thread has not begun")
    return QUESTIONS[word](debugger, thread, cell(thread, frame, rest.strip()))
