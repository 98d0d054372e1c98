"""Formats of `fly.print`: text around `{}` and `{:spec}`, with the specifications of Python's `format`.

Kernels print through C's `printf` or something that reads the same formats, so a specification has to be one of those
that C can say: sign, width, zeros, precision and the letters d, x, X, o, e, E, f, F, g, G.
"""

from __future__ import annotations

import re

_PLACE = re.compile(r"(\{\{|\}\}|\{[^{}]*\})")
_SPEC = re.compile(r"(?:(.)?([<>=^]))?([+\- ])?(#)?(0)?(\d+)?(,|_)?(?:\.(\d+))?([a-zA-Z%])?")
_INTEGER, _FLOAT = "dxXo", "eEfFgG"


def split(text: str) -> tuple[list[str], list[str]]:
    """The text around placeholders, and the specification of each.

    >>> split("a {} b {{}} {:.3e}")
    (['a ', ' b {} ', ''], ['', '.3e'])
    """
    texts, specs = [""], list[str]()
    for part in _PLACE.split(text):
        if part in ("{{", "}}"):
            texts[-1] += part[0]
        elif part == "{}" or part.startswith("{:"):
            texts.append("")
            specs.append(part[2:-1])
        elif "{" in part or "}" in part:
            raise ValueError(
                f"{part!r} is no placeholder: {{}} stands for the next value, {{:.3e}} for one with a format, "
                "{{ and }} for braces; values have no names or numbers"
            )
        else:
            texts[-1] += part
    return texts, specs


def letter(spec: str) -> str:
    """The letter that a specification ends in, or nothing.

    >>> letter("08x"), letter("10")
    ('x', '')
    """
    return spec[-1] if spec[-1:].isalpha() else ""


def conversion(spec: str, is_float: bool, bits: int) -> str:
    """How C prints a number that Python would print by `format(number, spec)`.

    >>> conversion("08x", False, 32), conversion("+.3e", True, 32), conversion("<6", False, 64)
    ('%08x', '%+.3e', '%-6ld')
    """
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise ValueError(f"{spec!r} is no format of a number; write it as in Python: {{:.3e}}, {{:08x}}, {{:>6}}")
    fill, align, sign, other, zeros, width, grouping, precision, kind = found.groups()
    if (fill not in (None, " ")) or align in ("=", "^") or grouping or kind not in (None, *_INTEGER, *_FLOAT):
        raise ValueError(
            f"the format {spec!r} cannot be printed from a kernel; there are <, >, a sign, zeros, width, precision and "
            f"the letters {', '.join(_INTEGER + _FLOAT)}"
        )
    if is_float and kind is not None and kind in _INTEGER:
        raise ValueError(f"the format {spec!r} is for integers, the value is a float; convert it with fx.Int32(x)")
    flags = ("-" if align == "<" else "") + (sign or "").replace("-", "") + (zeros or "")
    if is_float:
        if precision is None and kind is None:
            precision, kind = "2", "f"
        point = "" if precision is None else f".{precision}"
        return f"%{flags}{other or ''}{width or ''}{point}{kind or 'g'}"
    if precision is not None:
        raise ValueError(f"the format {spec!r} has a precision, the value is an integer; convert it with fx.Float32(x)")
    head, room = "", width
    if other and kind in ("x", "X", "o"):
        # C leaves the prefix of a zero out, Python does not.
        head = f"0{kind}"
        if width and not zeros:
            raise ValueError(f"the format {spec!r} pads in front of the prefix; pad with zeros: {{:#0{width}{kind}}}")
        room = str(max(int(width) - 2, 0)) if width else None
    return f"{head}%{flags}{room or ''}{'l' if bits == 64 else ''}{kind or 'd'}"
