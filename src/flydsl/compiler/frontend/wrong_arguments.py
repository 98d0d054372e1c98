"""An argument of the wrong kind for a function of the language: which one, what it takes and what came.

Such a call fails somewhere inside, in words of the inside. The annotations of the function that the user's line called
say whose mistake it was; they are looked at when something failed, never before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any, cast

from ...errors import FlyDSLError
from ...expr import aliases
from ...ir.user_code import is_user_code

_PLACES = ("expr", "expr.math", "expr.arith", "expr.rocdl", "expr.nvgpu")
_NUMBERS = {"int": int, "float": (int, float), "str": str, "bool": bool, "None": type(None)}
_SHOWN = 60


def wrong_argument(error: BaseException, at: TracebackType | None) -> str | None:
    """What of a call at the user's line `at` does not fit, where that is why an error came; None if it is not."""
    called = at.tb_next if at is not None else None
    while called is not None and called.tb_frame.f_code.co_filename == aliases.__file__:
        called = called.tb_next
    if called is None or isinstance(error, FlyDSLError) or is_user_code(called.tb_frame.f_code):
        return None
    found = _function(called.tb_frame)
    if found is None:
        return None
    name, function = found
    values = called.tb_frame.f_locals
    for parameter, text in cast("Mapping[str, object]", function.__annotations__).items():
        if parameter in values and isinstance(text, str):
            kinds = list(_kinds(text))
            if kinds and None not in kinds and not any(_is(values[parameter], kind) for kind in kinds):
                shown = repr(values[parameter])
                shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
                kind = type(values[parameter]).__name__
                return f"{name}: {parameter} takes {text}, got {shown} of type {kind}; help({name}) has an example"
    return None


def _function(frame: FrameType) -> tuple[str, Callable[..., object]] | None:
    """The public function, or method of one of our classes, whose frame it is."""
    name = frame.f_code.co_name
    holders: list[tuple[str, object]] = []
    if "self" in frame.f_locals:
        kind = cast("type[object]", type(frame.f_locals["self"]))
        holders.append((f"fx.{kind.__name__}", kind))
    holders += [(place.replace("expr", "fx"), import_module(f"flydsl.{place}")) for place in _PLACES]
    for place, holder in holders:
        function: Any = getattr(holder, name, None)
        function = getattr(function, "__wrapped__", function)
        if getattr(function, "__code__", None) is frame.f_code:
            return f"{place}.{name}", function
    return None


def _kinds(text: str) -> Iterator[Any]:
    """The classes that an annotation names; None for what cannot be told from its text."""
    fx = import_module("flydsl.expr")
    for part in map(str.strip, text.split("|")):
        of = re.fullmatch(r"type\[(\w+)\]", part)
        found: object = _NUMBERS.get(part) or getattr(fx, of[1] if of else part, None)
        if of is not None:
            found = ("type", found) if isinstance(found, type) else None
        yield found if isinstance(found, (type, tuple)) else None


def _is(value: object, kind: Any) -> bool:
    if isinstance(kind, tuple) and kind[0] == "type":
        return isinstance(value, type) and issubclass(value, cast("tuple[str, type]", kind)[1])
    return isinstance(value, kind)
