"""What can be told of a file without running it: its jit functions and kernels, where names are given, its hints.

A hint is a comment: `# fly: target=rocm:gfx942` for the whole file, and above a jit function
`# fly: args=(TensorSpec((1024,), "float32"), 1024)`, a tuple or a `dict(...)` evaluated with the names of the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

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


@dataclass
class Source:
    """A file."""

    text: str
    functions: list[Function] = field(default_factory=list[Function])
    names: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict[tuple[int, str], tuple[int, int]])
    """Line and name of what is given a value: where the name begins and ends, in characters."""
    target: str | None = None
    """Of the whole file."""

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
        found.functions.append(Function(node.name, kind, node.lineno, last, hints.get(above), level))
    for line, hint in hints.items():
        if line not in used and hint.target is not None and found.target is None:
            found.target = hint.target
    found.names = {(line, name): span for line, name, span in _names(tree, lines)}
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


def _names(tree: ast.AST, lines: list[str]) -> Iterator[tuple[int, str, tuple[int, int]]]:
    """Every name that is given a value. A statement over several lines gives it at its first one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for argument in node.args.args:
                yield node.lineno, argument.arg, _span(argument.lineno, argument.col_offset, argument.arg, lines)
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
            targets = [node.target]
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    yield name.lineno, name.id, _span(name.lineno, name.col_offset, name.id, lines)


def _span(line: int, offset: int, name: str, lines: list[str]) -> tuple[int, int]:
    start = len(lines[line - 1].encode()[:offset].decode(errors="replace"))  # `ast` counts bytes
    return start, start + len(name)


__all__ = ["Function", "Hint", "Source", "hint_of", "parse"]
