"""Pipelines as text: `a,b{x=1 y="two"},builtin.module(c,gpu.module(d))`, parsed into passes.

An anchor says what the passes in its parentheses run on: the module itself, or each op of that name right inside what
surrounds it. `gpu.module(cse)` leaves the host functions alone, `gpu.module(gpu.func(cse))` works on each kernel.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from . import pass_class
from .base import Pass

ANCHORS = ("builtin.module", "gpu.module", "gpu.func", "func.func", "llvm.func", "any")
"""Ops passes can be nested on; `any` stands for whatever is there."""
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_OPTION = re.compile(r"""\s*([A-Za-z0-9_-]+)=("[^"]*"|'[^']*'|[^\s{}]*)""")


class PassSpec(NamedTuple):
    """A pass as a pipeline names it. Its module is imported when it is made, so one that does not run costs nothing."""

    name: str
    options: Mapping[str, str] = {}
    path: tuple[str, ...] = ()
    """Names of the ops it runs on, from the module down."""

    def make(self) -> Pass:
        """The pass itself."""
        made = make_pass(self.name, self.options)
        return Nested(made, self.path) if self.path else made


def parse_specs(text: str) -> list[PassSpec]:
    """What a pipeline names, in order."""
    return list(_parse(text, 0, len(text), None))


def parse_pipeline(text: str) -> list[Pass]:
    """Passes of a pipeline in order."""
    return [spec.make() for spec in parse_specs(text)]


@dataclasses.dataclass(frozen=True)
class Nested(Pass):
    """A pass on the ops an anchor names."""

    inner: Pass
    path: tuple[str, ...]
    """Names of the ops to look into, from the module down."""

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the pass."""
        return self.inner.name

    def run(self, module: ModuleOp) -> ModuleOp:
        for op in list(_found(module, self.path)):
            block = op.parent
            assert block is not None
            following = op.next_op
            op.detach()
            done = self.inner.run(ModuleOp([op])).body.block
            for new in list(done.ops):
                new.detach()
                if following is None:
                    block.add_op(new)
                else:
                    block.insert_op_before(new, following)
        return module


def _found(op: Operation, path: tuple[str, ...]) -> Iterator[Operation]:
    """Ops at the end of a path of names."""
    if not path:
        yield op
        return
    for region in op.regions:
        for block in region.blocks:
            for inner in list(block.ops):
                if inner.name == path[0] or (path[0] == "any" and inner.regions):
                    yield from _found(inner, path[1:])


def _parse(text: str, at: int, end: int, path: tuple[str, ...] | None) -> Iterator[PassSpec]:
    """Passes of a part of the text; `path` is None outside of all anchors."""
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
            top = path is None and name in ("builtin.module", "any")
            yield from _parse(text, at + 1, close, () if top else (*(path or ()), name))
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
        yield PassSpec(name, options, path or ())


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


def make_pass(name: str, options: Mapping[str, str] | None = None) -> Pass:
    """A pass by name; options set its fields and are converted to their types."""
    cls = pass_class(name)
    fields = {f.name.replace("_", "-"): f for f in dataclasses.fields(cls)}
    values: dict[str, object] = {}
    for key, text in (options or {}).items():
        field = fields.get(key.replace("_", "-"))
        if field is None:
            known = ", ".join(fields) or "none"
            raise ValueError(f"pass '{name}' has no option '{key}'; it has: {known}")
        values[field.name] = _convert(name, key, text, str(field.type))
    return cls(**values)


def _convert(name: str, key: str, text: str, type_: str) -> object:
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


TILED_COPIES = "fly.tiled_copies"
"""Attribute of a traced module with copies by the coordinates of a tensor."""
PRINTS = "fly.prints"
"""Attribute of a traced module with kernels that print into memory, until their prints are expanded."""
_FIRST = {PRINTS: "fly-expand-prints"}
"""Passes that only modules with an attribute need, in front of all others."""
_BEHIND = {TILED_COPIES: ("fly-canonicalize", "fly-rocdl-expand-ops")}
"""And behind which one they run: they walk every kernel."""


def with_demanded(fragments: Sequence[str], attributes: Container[str]) -> list[str]:
    """A pipeline with the passes that a module asks for by its attributes, but for those it has already."""
    made: list[str] = [name for word, name in _FIRST.items() if word in attributes and name not in fragments]
    for fragment in fragments:
        made.append(fragment)
        made += [name for word, (behind, name) in _BEHIND.items() if word in attributes and fragment == behind]
    return made
