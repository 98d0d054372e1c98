"""Integer division that a CPU cannot stop at.

x86 raises a signal for a division by zero, and of the smallest number by minus one, which would end the process. GPUs
go on with some number. So host code divides by one in these cases: the quotient is the dividend, the remainder zero.
"""

from __future__ import annotations

from xdsl.ir import Operation

from ...ir.builder import elem_of
from .function_text import FunctionText
from .spelling import bool_text, splat, type_text


def safe_divisor(f: FunctionText, op: Operation, signed: bool) -> tuple[str, str | None]:
    """The divisor to use, and the i1 (or vector of them) that says where the one given is zero; None if it is not."""
    a, b = op.operands
    x, y = f.names[a], f.names[b]
    if y.lstrip("-").isdigit() and y not in ("0", "-1"):
        return y, None
    t, flag = type_text(a.type), bool_text(a.type)
    zero = f.pure(f"icmp eq {t} {y}, {splat(0, a.type)}")
    bad = zero
    if signed:
        width = int(type_text(elem_of(a.type))[1:])
        least = f.pure(f"icmp eq {t} {x}, {splat(-1 << (width - 1), a.type)}")
        minus = f.pure(f"icmp eq {t} {y}, {splat(-1, a.type)}")
        over = f.pure(f"and {flag} {least}, {minus}")
        bad = f.pure(f"or {flag} {zero}, {over}")
    return f.pure(f"select {flag} {bad}, {t} {splat(1, a.type)}, {t} {y}"), zero
