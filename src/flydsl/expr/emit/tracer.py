"""The tracer: a builder that stamps every op with the user's source line and knows the function being traced."""

from __future__ import annotations

import sys
from types import CellType, CodeType, FrameType
from typing import Any

from xdsl.ir import Attribute, Block

from ...ir.builder import Builder
from ...ir.emitter import UNKNOWN
from ...ir.identity import IdentityCache
from ...ir.locations import chain_location, chains, read_depth
from ...ir.user_code import is_user_code
from ...ir.values import use_language
from ..numeric import as_dsl_value

use_language(as_dsl_value)


def user_location(depth: int = 1) -> Attribute | None:
    """Location of the user's frames, innermost first, up to the first frame that called into this package, or None."""
    frames: list[FrameType] = []
    key: list[int] = []
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        kind = (_kind_of(id(code)) or _kinds.add(code))[0]
        if kind is _USER:
            frames.append(frame)
            key += id(code), frame.f_lasti
        elif kind is _BOUNDARY and key:
            break
        frame = frame.f_back
    if not key:
        return None
    chain = tuple(key)
    found = chains.get(chain)
    if found is None:
        if len(chains) >= _CHAINS:
            chains.clear()
        found = chains[chain] = (chain_location(frames), [frame.f_code for frame in frames])
    return found[0]


BOUNDARIES: set[CodeType] = set()
"""Code objects that call a user's function to trace it: frames above them are not part of the traced program."""

_OURS, _USER, _BOUNDARY = range(3)
_CHAINS = 1 << 16
"""Chains of frames that are remembered."""


def _classify(code: CodeType) -> int:
    return _USER if is_user_code(code) else _BOUNDARY if code in BOUNDARIES else _OURS


_kinds = IdentityCache(_classify)
"""What frames of a code object are."""
_kind_of = _kinds.entries.get


class Tracer(Builder):
    """A builder whose location is always the user's current line."""

    __slots__ = ("_last", "broken_off", "functions", "loose", "unbound", "unknown_in")

    def __init__(self) -> None:
        self._last: Attribute = UNKNOWN
        super().__init__()
        read_depth()
        self.functions: list[Any] = []
        """Functions being traced, innermost last: the jit function, then a kernel (see `compiler.kernel`)."""
        self.loose: dict[int, CellType] = {}
        """Variables that came into being in a compile-time `if`, by the identity of their cells. Further on they may
        be names of something else: a run-time region that gives one another type ends it (`control.carried`)."""
        self.unbound: dict[str, str] = {}
        """Variables that a run-time region made or gave another type, with why they do not exist after it."""
        self.unknown_in: set[CodeType] = set()
        """Code of the user's that made a string of a value of run time: there is a `?` in it."""
        self.broken_off: BaseException | None = None
        """The first exception that left a run-time region, which is a mistake unless it ends the trace."""

    def no_branch(self, block: Block) -> None:
        """An `if` has no else-branch, whose block stays empty; for tracers that count."""

    @property
    def loc(self) -> Attribute:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Location of the user's code that is running now; asked for each op that is made, not for those at hand."""
        found = user_location(2)
        if found is not None:
            self._last = found
        return self._last

    @loc.setter
    def loc(self, location: Attribute) -> None:
        self._last = location
