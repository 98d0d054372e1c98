"""The instructions of a code object with the values they name: what `dis.get_instructions` tells, without positions,
labels and texts, in a fifth of its time. It is on the way to every cache key."""

from __future__ import annotations

import opcode
import re
import sys
from collections.abc import Iterator
from itertools import compress
from types import CodeType
from typing import Any

_NAMES = opcode.opname
_EXTENDED = opcode.opmap["EXTENDED_ARG"]
_SPELLED = sys.version_info < (3, 13)
"""Whether every instruction has one argument of one of the kinds below; later ones name two variables at once."""

_PAIR = re.compile(r"((?:LOAD|STORE)_FAST(?:_BORROW)?)_((?:LOAD|STORE)_FAST(?:_BORROW)?)")

_SHIFT = {opcode.opmap["LOAD_GLOBAL"]: 1}
"""Low bits of an argument that are flags, not part of the index."""
if sys.version_info >= (3, 12):
    _SHIFT[opcode.opmap["LOAD_ATTR"]] = 1
    _SHIFT[opcode.opmap["LOAD_SUPER_ATTR"]] = 2

_ARGUMENTS = {
    op: (table, _SHIFT.get(op, 0))
    for table, ops in enumerate((opcode.hasconst, opcode.hasname, (*opcode.haslocal, *opcode.hasfree)))
    for op in ops
}
"""By instruction: which table its argument points into (constants, names, variables), behind how many flags."""


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
    variables = code.co_varnames
    if code.co_cellvars:
        variables += tuple(n for n in code.co_cellvars if n not in variables)
    tables = (code.co_consts, code.co_names, variables + code.co_freevars)
    data, extended = code.co_code, 0
    ops = data[::2]
    for op, argument in compress(zip(ops, data[1::2], strict=True), ops):  # more than half are CACHE, which is 0
        if op == _EXTENDED:
            extended = (extended | argument) << 8
            continue
        argument |= extended
        extended = 0
        where = _ARGUMENTS.get(op)
        yield _NAMES[op], argument if where is None else tables[where[0]][argument >> where[1]]
