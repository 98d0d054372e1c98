"""What can be told of a file without running it: its jit functions and kernels, where names are given, its hints.

A hint is a comment: `# fly: target=rocm:gfx942` for the whole file, and above a jit function
`# fly: args=(TensorSpec((1024,), "float32"), 1024)`, a tuple or a `dict(...)` evaluated with the names of the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_HINT = re.compile(r"^\s*#\s*fly:\s*(.*)$")
_TARGET = re.compile(r"\btarget\s*=\s*([\w.:+-]+)")
_ARGUMENTS = re.compile(r"\bargs\s*=\s*(.+)$")
_KINDS = ("jit", "kernel")


@dataclass(frozen=True)
class Hint:
    """What a comment says."""

    line: int
    target: str | None
    arguments: str | None
    """Text of a Python expression."""


@dataclass(frozen=True)
class Function:
    """A function the language compiles."""

    name: str
    kind: str
    """`jit` or `kernel`."""
    line: int
    """Of `def`."""
    last: int
    hint: Hint | None
    level: int
    """0 at the top of the file."""


class Name(NamedTuple):
    """Where a name stands; columns in characters."""

    line: int
    start: int
    end: int


@dataclass
class Source:
    """A file."""

    text: str
    functions: list[Function] = field(default_factory=list[Function])
    names: dict[tuple[int, str], Name] = field(default_factory=dict[tuple[int, str], "Name"])
    """Line and name of what is given a value: where the name stands. Each line of a statement counts."""
    target: str | None = None
    """Of the whole file."""
    inlined: set[str] = field(default_factory=set[str])
    """Names that kernels and jit functions use: those among the functions are part of their callers."""

    def at(self, line: int) -> Function | None:
        """The innermost function around a line."""
        around = [f for f in self.functions if f.line <= line <= f.last]
        return max(around, key=lambda f: f.line, default=None)


def hint_of(line: int, text: str) -> Hint | None:
    """The hint of one line.

    >>> hint_of(3, "# fly: target=cuda:sm_90a, args=(1, 2)")
    Hint(line=3, target='cuda:sm_90a', arguments='(1, 2)')
    """
    found = _HINT.match(text)
    if found is None:
        return None
    arguments = _ARGUMENTS.search(found[1])
    head = found[1][: arguments.start()] if arguments else found[1]
    target = _TARGET.search(head)
    return Hint(line, target[1] if target else None, arguments[1].strip() if arguments else None)


def parse(text: str, filename: str = "<file>") -> Source:
    """Read a file; raises SyntaxError as Python does."""
    tree = ast.parse(text, filename)
    lines = text.split("\n")
    hints = {i: hint for i, line in enumerate(lines, 1) if (hint := hint_of(i, line)) is not None}
    found = Source(text)
    used: set[int] = set()
    for node, level in _functions(tree, 0):
        kind = next((k for d in node.decorator_list if (k := _kind(d)) is not None), None)
        if kind is None:
            continue
        above = min(d.lineno for d in node.decorator_list) - 1
        while above >= 1 and lines[above - 1].lstrip().startswith("#") and above not in hints:
            above -= 1
        used.add(above)
        last = node.end_lineno or node.lineno
        found.inlined |= {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)} - {node.name}
        found.functions.append(Function(node.name, kind, node.lineno, last, hints.get(above), level))
    for line, hint in hints.items():
        if line not in used and hint.target is not None and found.target is None:
            found.target = hint.target
    for node, name, first, last in _names(tree):
        start = len(lines[node.lineno - 1].encode()[: node.col_offset].decode(errors="replace"))  # `ast` counts bytes
        for line in range(first, last + 1):
            found.names.setdefault((line, name), Name(node.lineno, start, start + len(name)))
    return found


def _functions(node: ast.AST, level: int) -> Iterator[tuple[ast.FunctionDef, int]]:
    for child in ast.iter_child_nodes(node):
        inside = isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        if isinstance(child, ast.FunctionDef):
            yield child, level
        yield from _functions(child, level + inside)


def _kind(decorator: ast.expr) -> str | None:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name if name in _KINDS else None


def _names(tree: ast.AST) -> Iterator[tuple[ast.Name | ast.arg, str, int, int]]:
    """Every name that is given a value, and the lines of what gives it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                yield argument, argument.arg, first, node.body[0].lineno - 1
        targets: Sequence[ast.expr] = ()
        first = last = 0
        if isinstance(node, ast.Assign):
            targets, first, last = node.targets, node.lineno, node.end_lineno or node.lineno
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets, first, last = [node.target], node.lineno, node.end_lineno or node.lineno
        elif isinstance(node, ast.For):
            targets, first, last = [node.target], node.lineno, node.iter.end_lineno or node.lineno
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    yield name, name.id, first, last
