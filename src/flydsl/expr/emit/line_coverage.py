"""A tracer that makes kernels count every line that runs, and every `if` that is passed by: coverage of kernels.

Python says when a line begins (`sys.settrace`), and right there a `fly_cpu.count` of it is emitted, also for a line
that emits nothing else. While a kernel is traced, whoever else follows Python's lines (coverage.py) does not: that a
line was traced does not mean that it runs.
"""

from __future__ import annotations

import atexit
import dis
import os
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Block

from ...dialects.fly_cpu import CountOp
from ...ir.types import i64
from ...ir.user_code import REGION_MARK, is_user_code
from .line_counts import CountingTracer

if TYPE_CHECKING:
    from _typeshed import TraceFunction

PASSED = 1 << 32
"""Added to the number of a line: its `if` was passed by, the condition being false and there being no `else`."""
_registered: list[bool] = []


_STDLIB = os.path.realpath(sysconfig.get_path("stdlib")) + os.sep
_PACKAGES = frozenset(("site-packages", "dist-packages"))


@lru_cache(maxsize=4096)
def counts(code: CodeType) -> bool:
    """Whether lines of a function count: it is the user's, and neither Python's nor of an installed package."""
    if not is_user_code(code) or code.co_filename.startswith("<"):
        return False
    path = os.path.realpath(code.co_filename)
    return not path.startswith(_STDLIB) and _PACKAGES.isdisjoint(path.split(os.sep))


@lru_cache(maxsize=4096)
def made_for_regions(code: CodeType) -> frozenset[int]:
    """Lines of a function that do nothing but make the function of a region: they run when that is called."""
    by_line: defaultdict[int, list[dis.Instruction]] = defaultdict(list)
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        at = instruction.positions
        line = at.lineno if at is not None and at.lineno is not None else line
        by_line[line].append(instruction)
    return frozenset(line for line, found in by_line.items() if _makes_regions(found))


_MAKING = frozenset((
    "LOAD_CLOSURE", "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_CONST", "BUILD_TUPLE", "MAKE_FUNCTION",
    "SET_FUNCTION_ATTRIBUTE", "STORE_FAST", "STORE_DEREF", "NOP", "EXTENDED_ARG",
))  # fmt: skip
"""Instructions of which a `def` inside a function consists."""


def _makes_regions(instructions: Sequence[dis.Instruction]) -> bool:
    made = [i.argval.co_qualname for i in instructions if isinstance(i.argval, CodeType)]
    plain = all(i.opname in _MAKING for i in instructions)
    return plain and bool(made) and all(name.endswith(REGION_MARK) for name in made)


class _Alone:
    """A block in which one function alone is told of lines. Not a generator: each of its frames would be one more that
    others see called and not returning, or the other way round."""

    def __init__(self, told: TraceFunction):
        self._told = told
        self._before: TraceFunction | None = None

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        # Whoever saw this call must see it return.
        sys._getframe().f_trace = self._before  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        sys.settrace(self._told)

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)


class CoverageTracer(CountingTracer):
    """Emits a count at the begin of every line."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        if not _registered:
            _registered.append(True)
            atexit.register(_write)

    @contextmanager
    def following(self) -> Generator[None]:
        """The host function's lines are left to whoever follows them."""
        yield

    def following_kernel(self) -> _Alone:
        """A block in which Python tells this tracer of every line, and nobody else."""
        return _Alone(self._called)

    def _called(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        return self._moved if self._in_kernel() and counts(frame.f_code) else None

    def _moved(self, frame: FrameType, event: str, argument: object) -> TraceFunction:
        if event == "line" and frame.f_lineno not in made_for_regions(frame.f_code):
            self._emit(frame, 0)
        return self._moved

    def _emit(self, frame: FrameType, what: int) -> None:
        line = IntegerAttr(frame.f_lineno | what, i64)
        super(CountingTracer, self).opn(CountOp, (), (), {"file": StringAttr(frame.f_code.co_filename), "line": line})

    def _count(self) -> None:
        """Lines count when they begin."""

    def no_branch(self, block: Block) -> None:
        frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and not counts(frame.f_code):
            frame = frame.f_back
        if frame is not None and self._in_kernel():
            with self.region(block):
                self._emit(frame, PASSED)


def _write() -> None:
    # A name, not an import: what reads the counters stands above the language.
    import_module("flydsl.debug.coverage").write_at_exit()
