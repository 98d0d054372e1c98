"""Source locations: from Python frames to MLIR locations and back to frames that can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, IntAttr, StringAttr

from .. import config
from ..errors import SourceFrame
from .emitter import make_attribute, make_data
from .user_code import REGION_MARK

_positions: dict[int, tuple[list[tuple[int, int, int]], CodeType]] = {}
"""By the id of a code object, which is kept for it: hashing one hashes all it contains."""
_locations: dict[tuple[int, int], FileLineColLoc] = {}
end_columns: dict[FileLineColLoc, int] = {}
"""Where the marked span of a location ends; MLIR locations hold only its start."""
_owners: dict[FileLineColLoc, SourceFunction] = {}


class SourceFunction(NamedTuple):
    """The function a location is in."""

    name: str
    first_line: int


def function_of(location: FileLineColLoc) -> SourceFunction | None:
    """The Python function a location is in; None for one that was read from a file."""
    return _owners.get(location)


@cache
def _filename(name: str) -> StringAttr:
    return StringAttr(name)


@cache
def _number(value: int) -> IntAttr:
    return make_data(IntAttr, value)


def frame_location(frame: FrameType) -> FileLineColLoc:
    """Location of the instruction a frame is at, memoised by code and offset."""
    code, at = frame.f_code, frame.f_lasti
    found = _locations.get((id(code), at))
    if found is None:
        known = _positions.get(id(code))
        if known is None:
            table = [
                (line or code.co_firstlineno, col or 0, (end or 0) if end_line == line else 0)
                for line, end_line, col, end in code.co_positions()
            ]
            known = _positions[id(code)] = (table, code)
        line, col, end = known[0][at // 2] if at >= 0 else (code.co_firstlineno, 0, 0)
        parts = (_filename(code.co_filename), _number(line), _number(col))
        found = make_attribute(FileLineColLoc, ("filename", "line", "column"), parts)
        end_columns[found] = end
        _owners[found] = SourceFunction(code.co_qualname.partition(REGION_MARK)[0], code.co_firstlineno)
        _locations[id(code), at] = found
    return found


def frames_of(location: Any) -> list[FileLineColLoc]:
    """The frames a location is made of, outermost first; none for an unknown location."""
    found: list[FileLineColLoc] = []
    while isinstance(location, CallSiteLoc):
        found.append(cast(FileLineColLoc, location.callee))
        location = location.caller
    if isinstance(location, FileLineColLoc):
        found.append(location)
    return found[::-1]


def source_chain(location: Any) -> list[SourceFrame]:
    """A location as frames that can be shown, outermost first."""
    return [_source_frame(frame) for frame in frames_of(location)]


def _source_frame(location: FileLineColLoc) -> SourceFrame:
    col = location.column.data
    return SourceFrame(location.filename.data, location.line.data, col, end_columns.get(location, col + 1))


_chains: dict[tuple[int, ...], tuple[Any, Sequence[FileLineColLoc]]] = {}
"""By the ids of the frames' locations, which are kept with what they make: hashing them costs more than a walk."""


_depth = 0


def read_depth() -> None:
    """Take over how long chains may be; asked once per trace, as asking takes longer than finding a known chain."""
    global _depth
    if _depth != config.debug.max_loc_depth:
        _depth = config.debug.max_loc_depth
        _chains.clear()


def chain_location(frames: Sequence[FileLineColLoc]) -> Any:
    """One location for a chain of frames given innermost first; the middle of a long chain is dropped."""
    key = tuple(map(id, frames))
    known = _chains.get(key)
    if known is None:
        kept = tuple(frames)
        if len(kept) > _depth:
            kept = (*kept[: _depth - 1], kept[-1])
        found: Any = kept[-1]
        for frame in kept[-2::-1]:
            found = make_attribute(CallSiteLoc, ("callee", "caller"), (frame, found))
        known = _chains[key] = (found, frames)
    return known[0]


def traceback_location(tb: Any) -> SourceFrame:
    """The span of the instruction a traceback entry is at."""
    code = tb.tb_frame.f_code
    positions = list(code.co_positions())
    line, end_line, col, end = positions[tb.tb_lasti // 2]
    line = line or tb.tb_lineno
    return SourceFrame(code.co_filename, line, col or 0, (end or 0) if end_line == line else 0)
