"""Pipelines as text: `a,b{x=1 y="two"},builtin.module(c,gpu.module(d))`, parsed into passes.

An anchor groups passes; `builtin.module` and `gpu.module` are accepted, since every pass here works on the whole
module and looks for the functions it is about.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from . import pass_class
from .base import Pass

ANCHORS = ("builtin.module", "gpu.module", "any")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_OPTION = re.compile(r"""\s*([A-Za-z0-9_-]+)=("[^"]*"|'[^']*'|[^\s{}]*)""")


def parse_pipeline(text: str) -> list[Pass]:
    """Passes of a pipeline in order."""
    passes = list(_parse(text, 0, len(text)))
    return passes


def _parse(text: str, at: int, end: int) -> Iterator[Pass]:
    while at < end:
        while at < end and text[at] in " ,\n\t":
            at += 1
        if at >= end:
            return
        match = _NAME.match(text, at, end)
        if match is None:
            raise ValueError(f"expected a pass name at column {at} of pipeline {text!r}")
        name, at = match.group(), match.end()
        if at < end and text[at] == "(":
            if name not in ANCHORS:
                raise ValueError(f"unknown anchor '{name}' in pipeline {text!r}; known: {', '.join(ANCHORS)}")
            close = _closing(text, at, end)
            yield from _parse(text, at + 1, close)
            at = close + 1
            continue
        options: dict[str, str] = {}
        if at < end and text[at] == "{":
            close = text.find("}", at, end)
            if close < 0:
                raise ValueError(f"missing '}}' after '{name}' in pipeline {text!r}")
            body = text[at + 1 : close]
            for found in _OPTION.finditer(body):
                options[found.group(1)] = found.group(2).strip("\"'")
            if _OPTION.sub("", body).strip():
                raise ValueError(f"cannot read options {body!r} of pass '{name}'")
            at = close + 1
        yield make_pass(name, options)


def pass_names(text: str) -> list[str]:
    """Names of the passes of a pipeline in order, known or not.

    >>> pass_names("a,builtin.module(b{x=1 y=2},gpu.module(c))")
    ['a', 'b', 'c']
    """
    plain = re.sub(r"\{[^{}]*\}", "", text)
    return [name for name in _NAME.findall(plain) if name not in ANCHORS]


def _closing(text: str, at: int, end: int) -> int:
    depth = 0
    for i in range(at, end):
        if text[i] == "(":
            depth += 1
        elif text[i] == ")":
            depth -= 1
            if depth == 0:
                return i
    raise ValueError(f"unbalanced parentheses in pipeline {text!r}")


def make_pass(name: str, options: dict[str, str] | None = None) -> Pass:
    """A pass by name; options set its fields and are converted to their types."""
    cls = pass_class(name)
    fields = {f.name.replace("_", "-"): f for f in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for key, text in (options or {}).items():
        field = fields.get(key.replace("_", "-"))
        if field is None:
            known = ", ".join(fields) or "none"
            raise ValueError(f"pass '{name}' has no option '{key}'; it has: {known}")
        values[field.name] = _convert(name, key, text, str(field.type))
    return cls(**values)


def _convert(name: str, key: str, text: str, type_: str) -> Any:
    if type_ == "bool":
        if text not in ("true", "false", "1", "0"):
            raise ValueError(f"option '{key}' of pass '{name}' is true or false, got {text!r}")
        return text in ("true", "1")
    if type_ == "int":
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"option '{key}' of pass '{name}' is an integer, got {text!r}") from None
    return text
