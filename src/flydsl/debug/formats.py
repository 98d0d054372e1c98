"""Values as text: C's formats for `printf` of kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .kinds import Kind, Value
from .operations import signed

_SPEC = re.compile(r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>\.\d+)?(?:hh|h|ll|l|z|j|t)?(?P<type>[a-zA-Z%])")


def printed(form: str, kinds: Sequence[Kind], values: Sequence[Value]) -> str:
    """What `printf` prints.

    >>> from flydsl.debug.kinds import kind
    >>> printed("%d %u %.2f%%\\n", [kind("i32"), kind("i32"), kind("double")], (2**32 - 1, 7, 0.5))
    '-1 7 0.50%\\n'
    """
    left = list(zip(kinds, values, strict=True))

    def one(match: re.Match[str]) -> str:
        how = match["type"]
        if how == "%":
            return "%"
        k, value = left.pop(0)
        spec = f"%{match['flags']}{match['width']}{match['precision'] or ''}"
        if how in "di":
            return (spec + "d") % (value if k.bits == 1 else signed(value, k.bits))
        if how == "p":
            return f"{value:#x}"
        if how in "uxXoc":
            return (spec + how.replace("u", "d")) % int(value)
        return (spec + how) % float(value)

    return _SPEC.sub(one, form)
