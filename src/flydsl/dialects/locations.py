"""Source locations: from Python frames to MLIR locations and back to frames that can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, IntAttr, StringAttr

from .. import config
from ..errors import SourceFrame
from .emitter import make_attribute

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
_KERNELS = _PACKAGE + "kernels/"

_user_code: dict[CodeType, bool] = {}
_positions: dict[CodeType, list[tuple[int, int, int]]] = {}
_locations: dict[tuple[CodeType, int], FileLineColLoc] = {}
end_columns: dict[FileLineColLoc, int] = {}
"""Where the marked span of a location ends; MLIR locations hold only its start."""


def is_user_code(code: CodeType) -> bool:
    """Whether a code object belongs to the kernel author: not to this package (its kernel library counts as theirs)."""
    known = _user_code.get(code)
    if known is None:
        name = code.co_filename
        known = _user_code[code] = not name.startswith(_PACKAGE) or name.startswith(_KERNELS)
    return known


@cache
def _filename(name: str) -> StringAttr:
    return StringAttr(name)


@cache
def _number(value: int) -> IntAttr:
    return IntAttr(value)


def frame_location(frame: FrameType) -> FileLineColLoc:
    """Location of the instruction a frame is at, memoised by code and offset."""
    code, at = frame.f_code, frame.f_lasti
    found = _locations.get((code, at))
    if found is None:
        table = _positions.get(code)
        if table is None:
            table = _positions[code] = [
                (line or code.co_firstlineno, col or 0, (end or 0) if end_line == line else 0)
                for line, end_line, col, end in code.co_positions()
            ]
        line, col, end = table[at // 2] if at >= 0 else (code.co_firstlineno, 0, 0)
        parts = (_filename(code.co_filename), _number(line), _number(col))
        found = make_attribute(FileLineColLoc, ("filename", "line", "column"), parts)
        end_columns[found] = end
        _locations[code, at] = found
    return found


def source_chain(location: Any) -> list[SourceFrame]:
    """A location as frames, outermost first."""
    chain: list[SourceFrame] = []
    while isinstance(location, CallSiteLoc):
        chain.append(_source_frame(cast(FileLineColLoc, location.callee)))
        location = location.caller
    if isinstance(location, FileLineColLoc):
        chain.append(_source_frame(location))
    return chain[::-1]


def _source_frame(location: FileLineColLoc) -> SourceFrame:
    col = location.column.data
    return SourceFrame(location.filename.data, location.line.data, col, end_columns.get(location, col + 1))


_chains: dict[tuple[FileLineColLoc, ...], Any] = {}


def chain_location(frames: Sequence[FileLineColLoc]) -> Any:
    """One location for a chain of frames given innermost first; the middle of a long chain is dropped."""
    key = tuple(frames)
    found = _chains.get(key)
    if found is None:
        limit = config.debug.max_loc_depth
        if len(key) > limit:
            key = (*key[: limit - 1], key[-1])
        found = key[-1]
        for frame in key[-2::-1]:
            found = make_attribute(CallSiteLoc, ("callee", "caller"), (frame, found))
        _chains[tuple(frames)] = found
    return found


def traceback_location(tb: Any) -> SourceFrame:
    """The span of the instruction a traceback entry is at."""
    code = tb.tb_frame.f_code
    positions = list(code.co_positions())
    line, end_line, col, end = positions[tb.tb_lasti // 2]
    line = line or tb.tb_lineno
    return SourceFrame(code.co_filename, line, col or 0, (end or 0) if end_line == line else 0)
