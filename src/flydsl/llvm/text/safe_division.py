"""Integer division that a CPU cannot stop at.

x86 raises a signal for a division by zero, and of the smallest number by minus one, which would end the process. GPUs
go on with some number. So host code divides by one in these cases: the quotient is the dividend, the remainder zero.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation

from .translate import FunctionText, bool_text, elem_of, literal, type_text


def safe_divisor(f: FunctionText, op: Operation, signed: bool) -> tuple[str, str | None]:
    """The divisor to use, and the i1 (or vector of them) that says where the one given is zero; None if it is not."""
    a, b = op.operands
    x, y = f.names[a], f.names[b]
    if y.lstrip("-").isdigit() and y not in ("0", "-1"):
        return y, None
    t, flag = type_text(a.type), bool_text(a.type)
    zero = f.assign(f"icmp eq {t} {y}, {_all(a.type, 0)}")
    bad = zero
    if signed:
        width = int(type_text(elem_of(a.type))[1:])
        least = f.assign(f"icmp eq {t} {x}, {_all(a.type, -1 << (width - 1))}")
        minus = f.assign(f"icmp eq {t} {y}, {_all(a.type, -1)}")
        over = f.assign(f"and {flag} {least}, {minus}")
        bad = f.assign(f"or {flag} {zero}, {over}")
    return f.assign(f"select {flag} {bad}, {t} {_all(a.type, 1)}, {t} {y}"), zero


def _all(type_: Attribute, value: int) -> str:
    elem: Any = elem_of(type_)
    text = literal(value, elem)
    return f"splat ({type_text(elem)} {text})" if isinstance(type_, VectorType) else text
