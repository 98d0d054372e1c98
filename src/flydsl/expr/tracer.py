"""The tracer: a builder that stamps every op with the user's source line and knows the function being traced."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc

from ..dialects.builder import Builder
from ..dialects.emitter import UNKNOWN
from ..dialects.locations import chain_location, frame_location, read_depth
from ..dialects.user_code import is_user_code


def user_frames(depth: int = 1) -> list[FileLineColLoc]:
    """Locations of the user's frames, innermost first, up to the first frame that called into this package."""
    found: list[FileLineColLoc] = []
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    kinds = _kinds
    while frame is not None:
        code = frame.f_code
        kind = kinds.get(id(code))
        if kind is None:
            kind = _classify(code)
        if kind[0] == _USER:
            found.append(frame_location(frame))
        elif kind[0] == _BOUNDARY and found:
            break
        frame = frame.f_back
    return found


BOUNDARIES: set[CodeType] = set()
"""Code objects that call a user's function to trace it: frames above them are not part of the traced program."""

_OURS, _USER, _BOUNDARY = range(3)
_kinds: dict[int, tuple[int, CodeType]] = {}
"""What frames of a code object are, by its id; it is kept, so that the id stays its own."""


def _classify(code: CodeType) -> tuple[int, CodeType]:
    kind = _USER if is_user_code(code) else _BOUNDARY if code in BOUNDARIES else _OURS
    found = _kinds[id(code)] = (kind, code)
    return found


class Tracer(Builder):
    """A builder whose location is always the user's current line."""

    __slots__ = ("_last", "functions")

    def __init__(self) -> None:
        self._last: Any = UNKNOWN
        super().__init__()
        read_depth()
        self.functions: list[Any] = []
        """Functions being traced, innermost last: the jit function, then a kernel (see `compiler.kernel`)."""

    @property
    def loc(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Location of the user's code that is running now; asked for each op that is made, not for those at hand."""
        frames = user_frames(2)
        if frames:
            self._last = chain_location(frames)
        return self._last

    @loc.setter
    def loc(self, location: Any) -> None:
        self._last = location
