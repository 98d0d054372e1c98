"""Source locations: from Python frames to MLIR locations and back to frames that can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from threading import Lock
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, IntAttr, StringAttr

from .. import config
from ..errors import SourceFrame
from .emitter import make_attribute, make_data
from .identity import by_identity
from .user_code import REGION_MARK

if TYPE_CHECKING:
    from xdsl.dialects.builtin import LocationAttr


class _Code:
    """What is known of a code object."""

    __slots__ = ("locations", "positions")

    def __init__(self, code: CodeType):
        self.positions = list(chain.from_iterable(code.co_positions()))
        """The four numbers of each two bytes of code follow each other: as tuples they would be thousands of objects
        for the garbage collector."""
        self.locations: dict[int, FileLineColLoc] = {}
        """Those that were asked for, by the offset of an instruction."""


_code = by_identity(_Code)


class SourceFunction(NamedTuple):
    """The function a location is in."""

    name: str
    first_line: int


class _Origin(NamedTuple):
    """What an MLIR location does not tell of the Python code it stands for."""

    end_column: int
    """Where the marked span ends, 0 if on another line."""
    function: SourceFunction


_origins: dict[FileLineColLoc, _Origin] = {}
_unread: list[tuple[FileLineColLoc, int, CodeType]] = []
"""What is to go there once someone asks: a location takes longer to hash than to make, and most are never asked for."""
_reading = Lock()


def _origin(location: FileLineColLoc) -> _Origin | None:
    with _reading:
        made = _unread[:]
        for known, end, code in made:
            function = SourceFunction(code.co_qualname.partition(REGION_MARK)[0], code.co_firstlineno)
            _origins[known] = _Origin(end, function)
        del _unread[: len(made)]
    return _origins.get(location)


def function_of(location: FileLineColLoc) -> SourceFunction | None:
    """The Python function a location is in; None for one that was read from a file."""
    origin = _origin(location)
    return None if origin is None else origin.function


def note_function(location: FileLineColLoc, name: str, first_line: int) -> None:
    """What a text says of the function that a location is in; what a traced program has told of it stays."""
    if _origin(location) is None:
        _origins[location] = _Origin(0, SourceFunction(name, first_line))


@cache
def _filename(name: str) -> StringAttr:
    return StringAttr(name)


@cache
def _number(value: int) -> IntAttr:
    return make_data(IntAttr, value)


def frame_location(frame: FrameType) -> FileLineColLoc:
    """Location of the instruction a frame is at, memoised by code and offset."""
    code, at = frame.f_code, frame.f_lasti
    known = _code(code)
    found = known.locations.get(at)
    if found is None:
        line, end_line, col, end = known.positions[2 * at : 2 * at + 4] if at >= 0 else (None, None, None, None)
        parts = (_filename(code.co_filename), _number(line or code.co_firstlineno), _number(col or 0))
        found = make_attribute(FileLineColLoc, ("filename", "line", "column"), parts)
        _unread.append((found, (end or 0) if end_line == line else 0, code))
        known.locations[at] = found
    return found


def frames_of(location: object) -> list[FileLineColLoc]:
    """The frames a location is made of, outermost first; none for an unknown location."""
    found: list[FileLineColLoc] = []
    while isinstance(location, CallSiteLoc):
        found.append(cast(FileLineColLoc, location.callee))
        location = location.caller
    if isinstance(location, FileLineColLoc):
        found.append(location)
    return found[::-1]


def source_chain(location: object) -> list[SourceFrame]:
    """A location as frames that can be shown, outermost first."""
    return [_source_frame(frame) for frame in frames_of(location)]


def _source_frame(location: FileLineColLoc) -> SourceFrame:
    col, origin = location.column.data, _origin(location)
    end = col + 1 if origin is None else origin.end_column
    return SourceFrame(location.filename.data, location.line.data, col, end)


_depth = 0
chains: dict[tuple[int, ...], tuple[LocationAttr, list[CodeType]]] = {}
"""Locations of chains of frames, by the id of the code and the offset of each; the code is kept beside them."""


def read_depth() -> None:
    """Take over how long chains may be; asked once per trace, as asking takes longer than finding a known chain."""
    global _depth
    if _depth != config.debug.max_loc_depth:
        _depth = config.debug.max_loc_depth
        chains.clear()


def chain_location(frames: Sequence[FrameType]) -> LocationAttr:
    """One location for a chain of frames given innermost first; the middle of a long chain is dropped."""
    kept = [frame_location(frame) for frame in frames]
    if len(kept) > _depth:
        kept[_depth - 1 : -1] = []
    found: LocationAttr = kept[-1]
    for location in kept[-2::-1]:
        found = make_attribute(CallSiteLoc, ("callee", "caller"), (location, found))
    return found


def traceback_location(tb: Any) -> SourceFrame:
    """The span of the instruction a traceback entry is at."""
    code = tb.tb_frame.f_code
    positions = list(code.co_positions())
    line, end_line, col, end = positions[tb.tb_lasti // 2]
    line = line or tb.tb_lineno
    return SourceFrame(code.co_filename, line, col or 0, (end or 0) if end_line == line else 0)
