"""What LLVM's instructions compute, on values as `kinds` says.

Most instructions become a Python expression in place (`expressions.py`); here is what takes more than that.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..errors import DSLCompileError
from .kinds import Kind, Value, from_int, kind, to_bfloat, to_int

Function = Callable[..., Value]


def _one(f: Callable[[Value], Value]) -> Function:
    return f


def two(f: Callable[[Value, Value], Value]) -> Function:
    return f


def _three(f: Callable[[Value, Value, Value], Value]) -> Function:
    return f


_libm = ctypes.CDLL(ctypes.util.find_library("m") or None)
_libm.fma.restype, _libm.fma.argtypes = ctypes.c_double, (ctypes.c_double,) * 3
_libm.fmaf.restype, _libm.fmaf.argtypes = ctypes.c_float, (ctypes.c_float,) * 3


def signed(x: int, bits: int) -> int:
    """A number of so many bits, read with a sign."""
    half = 1 << (bits - 1)
    return (int(x) ^ half) - half


# --- integers -----------------------------------------------------------------------------------------------------


def _sdiv(a: int, b: int, w: int) -> int:
    x, y = signed(a, w), signed(b, w)
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


_SCALAR: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, w: a + b,
    "sub": lambda a, b, w: a - b,
    "mul": lambda a, b, w: a * b,
    "and": lambda a, b, w: a & b,
    "or": lambda a, b, w: a | b,
    "xor": lambda a, b, w: a ^ b,
    "shl": lambda a, b, w: a << b if b < w else 0,
    "lshr": lambda a, b, w: a >> b,
    "ashr": lambda a, b, w: signed(a, w) >> min(b, w - 1),
    "udiv": lambda a, b, w: a // b,
    "urem": lambda a, b, w: a % b,
    "sdiv": _sdiv,
    "srem": lambda a, b, w: signed(a, w) - _sdiv(a, b, w) * signed(b, w),
    "umin": lambda a, b, w: min(a, b),
    "umax": lambda a, b, w: max(a, b),
    "smin": lambda a, b, w: min(a, b, key=lambda x: signed(x, w)),
    "smax": lambda a, b, w: max(a, b, key=lambda x: signed(x, w)),
}
INT_WORDS = frozenset(_SCALAR)


def integer(word: str, k: Kind) -> Function:
    """An operation of two integers or of vectors of them, element by element."""
    one, bits, mask = _SCALAR[word], k.bits, k.mask
    if not k.count:
        return two(lambda a, b: one(a, b, bits) & mask)
    return two(
        lambda a, b: np.array(
            [one(int(x), int(y), bits) & mask for x, y in zip(a.tolist(), b.tolist(), strict=True)], k.dtype
        )
    )


def guarded(k: Kind, is_signed: bool) -> Function:
    """The divisor to use: one where the given one would stop a CPU."""

    def one(a: int, b: int) -> int:
        least = is_signed and b == k.mask and a == 1 << (k.bits - 1)
        return 1 if b == 0 or least else b

    if not k.count:
        return one
    return two(lambda a, b: np.array([one(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], k.dtype))


def _count(word: str, x: int, bits: int) -> int:
    if word == "ctpop":
        return x.bit_count()
    if word == "ctlz":
        return bits - x.bit_length()
    if word == "abs":
        return abs(signed(x, bits)) & ((1 << bits) - 1)
    return bits if x == 0 else (x & -x).bit_length() - 1


# --- conversions --------------------------------------------------------------------------------------------------


def _whole(x: Value, bits: int, is_signed: bool) -> int:
    """A float as an integer, towards zero; what does not fit is what x86 gives: the top bit alone."""
    f = float(x)
    if math.isfinite(f):
        found = int(f)
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
        if low <= found <= high:
            return found & ((1 << bits) - 1)
    return 1 << (bits - 1)


def _as_float(x: int, k: Kind) -> Value:
    # numpy rounds integers of up to 64 bits once; to the narrow formats they go by way of float32, which could
    # round twice, so the integer is first cut to odd in the last place that can matter.
    if k.element.text == "double":
        return np.float64(x)
    sign, size = (-1, -x) if x < 0 else (1, x)
    extra = max(size.bit_length() - 60, 0)
    if extra:
        size = (size >> extra | bool(size & ((1 << extra) - 1))) << extra
    wide = float(size)
    if int(wide) != size:
        below = math.nextafter(wide, 0.0) if int(wide) > size else wide
        odd = np.float64(below).view(np.uint64) | np.uint64(1)
        wide = float(odd.view(np.float64))
    return round_float(np.float64(sign * wide), k)


def round_float(x: Value, k: Kind) -> Value:
    """A float of another format, to the nearest even."""
    if k.element.text != "bfloat":
        return x.astype(k.dtype) if k.count else k.dtype.type(x)
    if x.dtype == np.float64:
        # To odd in float32 first, so that rounding twice is rounding once.
        near = x.astype(np.float32)
        bits = np.asarray(near).view(np.uint32)
        exact = (near.astype(np.float64) == x) | np.isnan(x)
        toward = np.asarray(np.where(np.abs(near.astype(np.float64)) > np.abs(x), bits - 1, bits), np.uint32)
        bits = np.where(exact, bits, toward | 1).astype(np.uint32)
        near = bits.view(np.float32)
        return to_bfloat(near if near.ndim else near[()])
    return to_bfloat(x)


def conversion(word: str, source: Kind, target: Kind) -> Function:
    """`sext`, `fptrunc`, ... between two types."""
    if word in ("bitcast", "ptrtoint", "inttoptr", "addrspacecast"):
        if word == "bitcast":
            if source.raw and target.raw and source.count and target.count:
                return _one(lambda a: a.view(target.dtype))
            return _one(lambda a: from_int(target, to_int(source, a)))
        return _one(lambda a: a & target.mask)
    if word in ("fpext", "fptrunc"):
        return _one(lambda a: round_float(a, target))
    sb, tb = source.bits, target.bits
    one: Function
    if word == "zext":
        one = int
    elif word == "trunc":
        one = _one(lambda a: int(a) & target.mask)
    elif word == "sext":
        one = _one(lambda a: signed(a, sb) & target.mask)
    elif word in ("fptosi", "fptoui"):
        is_signed = word == "fptosi"
        one = _one(lambda a: _whole(a, tb, is_signed))
    elif word == "sitofp":
        one = _one(lambda a: _as_float(signed(a, sb), target))
    elif word == "uitofp":
        one = _one(lambda a: _as_float(int(a), target))
    else:
        raise DSLCompileError(f"the interpreter does not know the conversion {word}")
    if not source.count:
        return one
    return _one(lambda a: np.array([one(x) for x in a.tolist()], target.dtype))


# --- functions ----------------------------------------------------------------------------------------------------

_UNARY: dict[str, Function] = {
    "fabs": np.abs, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "roundeven": np.rint, "rint": np.rint,
    "nearbyint": np.rint, "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "log10": np.log10, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
}  # fmt: skip
EXACT = frozenset({"fabs", "ceil", "floor", "trunc", "roundeven", "rint", "nearbyint", "round", "copysign"})
"""Functions that round nothing."""


def _round(x: Value) -> Value:
    """To the nearest whole number, halves away from zero."""
    wide = np.asarray(x, np.float64)
    down = np.floor(np.abs(wide))
    up = down + (np.abs(wide) - down >= 0.5)
    made = np.copysign(up, wide).astype(np.asarray(x).dtype)
    return made if made.ndim else made[()]


_where: Function = np.where


def _smaller(a: Value, b: Value, *, greater: bool, keeps_nan: bool) -> Value:
    """Minimum or maximum; a zero with a sign is less than one without."""
    first = (a > b) if greater else (a < b)
    tie = (a == b) & (np.signbit(b) if greater else np.signbit(a))
    made = _where(first | tie, a, b)
    if keeps_nan:
        made = _where(np.isnan(a), a, _where(np.isnan(b), b, made))
    else:
        made = _where(np.isnan(a), b, _where(np.isnan(b), a, made))
    made = made.astype(np.asarray(a).dtype)
    return made if made.ndim else made[()]


_MINMAX = {"minnum": (False, False), "maxnum": (True, False), "minimum": (False, True), "maximum": (True, True)}


def _fused(k: Kind) -> Function:
    """`a * b + c`, rounded once."""
    if k.element.text == "double":
        one = _three(lambda a, b, c: _libm.fma(float(a), float(b), float(c)))
    elif k.element.text == "float":
        one = _three(lambda a, b, c: _libm.fmaf(float(a), float(b), float(c)))
    else:
        # Products of narrow floats are exact in float64, and so is the sum but for digits that cannot decide.
        return _three(lambda a, b, c: round_float(_wide(a) * _wide(b) + _wide(c), k))
    if not k.count:
        return _three(lambda a, b, c: k.dtype.type(one(a, b, c)))
    return _three(lambda a, b, c: np.array([one(*v) for v in zip(a, b, c, strict=True)], k.dtype))


def _wide(x: Value) -> Value:
    return np.float64(x) if not getattr(x, "ndim", 0) else x.astype(np.float64)


_CLASSES = {0x003: np.isnan, 0x204: np.isinf, 0x1F8: np.isfinite}


def _fpclass(k: Kind, bits: int) -> Function:
    if bits in _CLASSES:
        test = _CLASSES[bits]
        return test if k.count else _one(lambda x: bool(test(x)))
    if bits != 0x108:
        raise DSLCompileError(f"the interpreter does not know the class {bits:#x} of floats")
    tiny = np.float64(np.finfo(k.dtype).tiny)
    normal = _one(lambda x: np.isfinite(x) & (np.abs(x) >= tiny))
    return normal if k.count else _one(lambda x: bool(normal(x)))


def _reduction(word: str, k: Kind) -> Function:
    one = k.element
    if word in ("fadd", "fmul"):

        def total(start: Value, v: Value) -> Value:
            for x in v:
                start = start + x if word == "fadd" else start * x
                if one.text == "bfloat":
                    start = to_bfloat(start)
            return start

        return total
    if word in ("fmin", "fmax", "fminimum", "fmaximum"):
        greater = word.startswith("fmax")
        keeps = word.endswith("imum")

        def extreme(v: Value) -> Value:
            found = v[0]
            for x in v[1:]:
                found = _smaller(found, x, greater=greater, keeps_nan=keeps)
            return found

        return extreme
    pair = integer(word, one)

    def fold(v: Value) -> int:
        found, *rest = (int(x) for x in v.tolist())
        for x in rest:
            found = pair(found, x)
        return found

    return fold


def intrinsic(key: str, types: Sequence[Kind], immediate: int | None = None) -> Function:
    """`llvm.KEY` on operands of these types."""
    k = types[0]
    if key.startswith("vector.reduce."):
        return _reduction(key.removeprefix("vector.reduce."), types[-1])
    if key == "is.fpclass":
        return _fpclass(k, immediate or 0)
    if key in ("ctpop", "ctlz", "cttz", "abs"):
        if not k.count:
            return lambda *args: _count(key, int(args[0]), k.bits)
        return lambda *args: np.array([_count(key, int(v), k.bits) for v in args[0]], k.dtype)
    if key in ("smin", "smax", "umin", "umax"):
        return integer(key, k)
    if key in _MINMAX:
        greater, keeps = _MINMAX[key]
        return two(lambda a, b: _smaller(a, b, greater=greater, keeps_nan=keeps))
    if key in ("fma", "fmuladd"):
        return _fused(k)
    if key == "copysign":
        return np.copysign
    if key == "round":
        return _round
    wide: Function | None = _UNARY.get(key)
    if key in ("fabs", "ceil", "floor", "trunc", "roundeven", "rint", "nearbyint"):
        assert wide is not None
        return wide
    if key == "pow":
        wide = np.power
    elif key == "atan2":
        wide = np.arctan2
    elif key == "powi":
        return two(lambda a, b: round_float(_wide(a) ** signed(b, types[1].bits), k))
    if wide is None:
        raise DSLCompileError(f"the interpreter does not know the intrinsic llvm.{key}")
    known = wide
    # In double precision, rounded once: closer to the exact result than any library is required to be.
    return lambda *args: round_float(known(*map(_wide, args)), k)


FCMP: dict[str, str] = {
    "oeq": "{a} == {b}", "ogt": "{a} > {b}", "oge": "{a} >= {b}", "olt": "{a} < {b}", "ole": "{a} <= {b}",
    "one": "({a} < {b}) | ({a} > {b})", "ord": "({a} == {a}) & ({b} == {b})", "ueq": "~(({a} < {b}) | ({a} > {b}))",
    "ugt": "~({a} <= {b})", "uge": "~({a} < {b})", "ult": "~({a} >= {b})", "ule": "~({a} > {b})",
    "une": "{a} != {b}", "uno": "({a} != {a}) | ({b} != {b})",
}  # fmt: skip
"""Comparisons of floats as Python writes them for numpy's values."""
ICMP = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

__all__ = [
    "EXACT", "FCMP", "ICMP", "INT_WORDS", "Function", "conversion", "guarded", "integer", "intrinsic", "kind",
    "round_float", "signed", "two",
]  # fmt: skip
