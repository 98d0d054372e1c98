"""A progress bar on a terminal; one line per finished item where there is none."""

from __future__ import annotations

import shutil
import time
from typing import TextIO


class Progress:
    """Counts items of a known number; what it writes on a terminal it removes at the end."""

    def __init__(self, total: int, stream: TextIO):
        self.total = total
        self.done = 0
        self.failed = 0
        self._stream = stream
        self._terminal = stream.isatty()
        self._start = time.monotonic()

    def start(self) -> None:
        if self._terminal:
            self._draw("")

    def advance(self, label: str, *, failed: bool = False) -> None:
        """One item more is finished."""
        self.done += 1
        self.failed += failed
        if self._terminal:
            self._draw(label)
        else:
            mark = "FAILED " if failed else ""
            self._stream.write(f"[{self.done}/{self.total}] {mark}{label}\n")
            self._stream.flush()

    def line(self, label: str, width: int) -> str:
        """The bar as one line of a terminal of this width."""
        seconds = time.monotonic() - self._start
        left = f", {seconds / self.done * (self.total - self.done):.0f} s left" if self.done else ""
        failed = f", {self.failed} failed" if self.failed else ""
        tail = f" {self.done}/{self.total}{failed} {seconds:.0f} s{left if self.done < self.total else ''} "
        room = max(10, min(40, width - len(tail) - 24))
        full = room * self.done // max(self.total, 1)
        return (f"[{'#' * full}{'.' * (room - full)}]{tail}{label}")[: max(width - 1, 1)]

    def _draw(self, label: str) -> None:
        width = shutil.get_terminal_size().columns
        self._stream.write(f"\r\x1b[K{self.line(label, width)}")
        self._stream.flush()

    def finish(self) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows in aligned columns; the first is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
