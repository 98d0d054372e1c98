"""Source that is in no file: `python -c`, a program on standard input, what was typed at Python's prompt.

`inspect` knows nothing of these before Python 3.13. The first two are text that can be had once more; the third is in
the history of the prompt, where the statement being run is the last one.
"""

from __future__ import annotations

import ast
import linecache
import os
import stat
import sys
from types import FunctionType


def typed_in(fn: FunctionType) -> list[str] | None:
    """Lines of the text a function was defined in, the first of them line 1; None where they cannot be had."""
    filename = fn.__code__.co_filename
    if filename not in ("<string>", "<stdin>") or fn.__module__ != "__main__":
        return None
    lines = _argument() if filename == "<string>" else _standard_input()
    if lines is not None:
        # What shows lines of the program, in messages and tracebacks, asks there.
        linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
        return lines
    return _history(fn) if filename == "<stdin>" else None


def _argument() -> list[str] | None:
    """The program of `python -c`."""
    given = sys.orig_argv
    if "-c" not in given[:-1] or sys.argv[:1] != ["-c"]:
        return None
    return given[given.index("-c") + 1].splitlines(keepends=True)


def _standard_input() -> list[str] | None:
    """The program of `python < file`; what came through a pipe is gone."""
    try:
        about = os.fstat(0)
        if not stat.S_ISREG(about.st_mode):
            return None
        return os.pread(0, about.st_size, 0).decode().splitlines(keepends=True)
    except (OSError, UnicodeDecodeError, AttributeError):
        return None


def _history(fn: FunctionType) -> list[str] | None:
    """The statement that is being run at the prompt."""
    readline = sys.modules.get("readline")
    if readline is None or not sys.flags.interactive and not hasattr(sys, "ps1"):
        return None
    last = readline.get_current_history_length()
    lines: list[str] = []
    for i in range(last, max(last - 2000, 0), -1):
        lines.insert(0, (readline.get_history_item(i) or "") + "\n")
        head = lines[0].lstrip()
        if not head.startswith(("@", "def ")):
            continue
        try:
            (node,) = ast.parse("".join(lines)).body
        except (SyntaxError, ValueError):
            continue
        if isinstance(node, ast.FunctionDef) and node.name == fn.__name__ and _first_line(node) == 1:
            before = readline.get_history_item(i - 1) if i > 1 else ""
            if not (before or "").startswith("@"):
                return lines
    return None


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def how_to(filename: str) -> str:
    """What to do where the source cannot be had."""
    if filename == "<stdin>":
        return (
            "Put the function in a file and import it, start with python -i file.py, or use IPython; instead of "
            "piping a program into python, write it to a file and run that"
        )
    return (
        "Put the function in a file, or in a notebook cell; for generated code, register the text first: "
        "linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)"
    )
