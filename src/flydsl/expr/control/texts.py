"""Texts with values of run time in them: what an f-string of a traced function gives.

Python makes an f-string while tracing, where a value of run time has no digits yet and stands as `?`. A `Text` is that
string and remembers the values, so that `fx.printf` prints them. What was made of one by other means than `+` and
f-strings, or in a function that is not traced, is a plain string: `printf` refuses it where it would print the `?`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import NamedTuple, TypeAlias

from ...errors import DSLValueError
from ...ir.user_code import is_user_code
from ..emit.trace import maybe_current
from ..scalars.scalar_ops import is_ir_value

UNKNOWN = "?"
"""What stands for a value in a string that Python makes while tracing."""


class Value(NamedTuple):
    """A value of a text, and its format."""

    value: object
    spec: str
    shown: str
    """What Python's string has in its place."""


Piece: TypeAlias = "str | Value"


class Text(str):
    """A string and the pieces it is made of."""

    pieces: tuple[Piece, ...]

    @staticmethod
    def of(pieces: list[Piece]) -> str:
        """Of pieces; a plain string where none is a value."""
        made = Text("".join(piece.shown if isinstance(piece, Value) else piece for piece in pieces))
        made.pieces = tuple(pieces)
        return made if any(isinstance(piece, Value) for piece in pieces) else str(made)

    def __add__(self, other: str) -> str:
        return Text.of([*self.pieces, *pieces_of(other)])

    def __radd__(self, other: str) -> str:
        return Text.of([*pieces_of(other), *self.pieces])


def pieces_of(text: str) -> tuple[Piece, ...]:
    """The pieces of any string."""
    return text.pieces if isinstance(text, Text) else (text,)


_CONVERSIONS: dict[int, Callable[[object], str]] = {115: str, 114: repr, 97: ascii}


def joined(printed: bool, *parts: str | tuple[object, int, str | None]) -> str:
    """An f-string: texts, and values with their conversion and format. Where it is an argument of `printf`, values of
    run time may have formats, too."""
    pieces: list[Piece] = []
    for part in parts:
        if isinstance(part, str):
            pieces.append(part)
            continue
        value, conversion, spec = part
        as_python: object = value if conversion == -1 else _CONVERSIONS[conversion](value)
        if isinstance(value, Text) and not spec:
            pieces += value.pieces
        elif _has_no_digits(value) and (printed or not spec):
            note_unknown()
            pieces.append(Value(value, spec or "", UNKNOWN if spec else format(as_python)))
        else:
            pieces.append(format(as_python, spec or ""))
    return Text.of(pieces)


def _has_no_digits(value: object) -> bool:
    """Whether Python's text of a value is not what a kernel prints of it."""
    from ..numeric import Numeric
    from ..tensors.algebra_values import AlgebraValue
    from ..vector import Vector

    if isinstance(value, AlgebraValue):
        return not value.is_static
    return isinstance(value, Numeric | Vector) or is_ir_value(value)


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and not is_user_code(frame.f_code):
        frame = frame.f_back
    return frame


def note_unknown() -> None:
    """A value of run time becomes a `?` in a string of the user's function that runs now."""
    tracer, frame = maybe_current(), _user_frame()
    if tracer is not None and frame is not None:
        tracer.unknown_in.add(frame.f_code)


def refuse_unknown(text: str) -> None:
    """Refuse to print a string that the function made of values it does not know yet."""
    tracer, frame = maybe_current(), _user_frame()
    if UNKNOWN not in text or tracer is None or frame is None or frame.f_code not in tracer.unknown_in:
        return
    if text not in _strings(frame.f_code):
        raise DSLValueError(
            f"printf({text!r}): this text was made while tracing, where values of run time are '?'; give them to "
            "printf: fx.printf('x = {}', x), or write the f-string in a @flyc.jit or @flyc.kernel function"
        )


def _strings(code: CodeType) -> list[str]:
    return [each for each in code.co_consts if isinstance(each, str)]


__all__ = ["Text", "Value", "joined", "note_unknown", "pieces_of", "refuse_unknown"]
