"""The instructions of a code object with the values they name: what `dis.get_instructions` tells, without positions,
labels and texts, in a fifth of its time. It is on the way to every cache key."""

from __future__ import annotations

import opcode
import re
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

_NAMES = opcode.opname
_EXTENDED = opcode.opmap["EXTENDED_ARG"]
_CACHE = opcode.opmap.get("CACHE", 0)
_SPELLED = sys.version_info < (3, 13)
"""Whether every instruction has one argument of one of the kinds below; later ones name two variables at once."""

_PAIR = re.compile(r"((?:LOAD|STORE)_FAST(?:_BORROW)?)_((?:LOAD|STORE)_FAST(?:_BORROW)?)")

_SHIFT = {opcode.opmap["LOAD_GLOBAL"]: 1}
"""Low bits of an argument that are flags, not part of the index."""
if sys.version_info >= (3, 12):
    _SHIFT[opcode.opmap["LOAD_ATTR"]] = 1
    _SHIFT[opcode.opmap["LOAD_SUPER_ATTR"]] = 2


def instructions(code: CodeType) -> Iterator[tuple[str, Any]]:
    """Name and argument of each instruction: a constant, a name, or else a number or None.

    Instructions on two variables come as two: `STORE_FAST_LOAD_FAST (x, y)` as `STORE_FAST x` and `LOAD_FAST y`.
    """
    if not _SPELLED:
        import dis

        for step in dis.get_instructions(code):
            value: Any = step.argval
            if parts := _PAIR.fullmatch(step.opname):
                yield from zip(parts.groups(), value, strict=True)
            else:
                yield step.opname, value
        return
    tables = _tables(code)
    data, extended = code.co_code, 0
    for at in range(0, len(data), 2):
        op = data[at]
        if op == _EXTENDED:
            extended = (extended | data[at + 1]) << 8
            continue
        if op != _CACHE:
            argument = extended | data[at + 1]
            table = tables.get(op)
            yield _NAMES[op], argument if table is None else table[argument >> _SHIFT.get(op, 0)]
        extended = 0


def _tables(code: CodeType) -> dict[int, tuple[object, ...]]:
    """Where the argument of an instruction points to."""
    variables = code.co_varnames + tuple(n for n in code.co_cellvars if n not in code.co_varnames) + code.co_freevars
    found: dict[int, tuple[object, ...]] = dict.fromkeys(opcode.hasconst, code.co_consts)
    found.update(dict.fromkeys(opcode.hasname, code.co_names))
    found.update(dict.fromkeys((*opcode.haslocal, *opcode.hasfree), variables))
    return found
