"""Arguments that are no arrays: flags, numbers and names, of Python's classes or numpy's.

What only looks like one is refused by the argument's name, before anything is decided: a string is no flag, however
true it is, and a flag is no number. Calls that are remembered ask for the class alone, which is quick; what is new goes
through here whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from operator import index
from typing import TYPE_CHECKING, SupportsFloat, SupportsIndex, TypeVar, cast

from flydsl.errors import DSLTypeError, DSLValueError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T", int, float)

LONG = -(2**63), 2**63 - 1
"""Integers of 64 bits."""


def flag(op: str, name: str, x: object) -> bool:
    """True or False; 1 and 0 of any class of whole numbers mean them, too."""
    if type(x) is bool:
        return x
    found = int(bool(x)) if _is_flag(x) else _whole(x)
    if found not in (0, 1):
        raise DSLTypeError(f"{op}: {name} is True or False, got {x!r:.80}")
    return bool(found)


def flags(op: str, name: str, x: object, count: int) -> list[bool]:
    """So many flags."""
    if not isinstance(x, (tuple, list)) or len(cast("Sequence[object]", x)) != count:
        raise DSLTypeError(f"{op}: {name} is {count} of True and False, got {x!r:.80}")
    return [flag(op, name, each) for each in cast("Sequence[object]", x)]


def whole(op: str, name: str, x: object, low: int = LONG[0], high: int = LONG[1]) -> int:
    """A whole number, of any class that can be an index."""
    found = x if type(x) is int or _is_symbol(x) else None if _is_flag(x) else _whole(x)
    if found is None:
        raise DSLTypeError(f"{op}: {name} is a whole number, got {x!r:.80}")
    return _between(op, name, found, low, high)


def wholes(op: str, name: str, x: object) -> list[int]:
    """Whole numbers one behind the other."""
    if not isinstance(x, (tuple, list, range)):
        raise DSLTypeError(f"{op}: {name} is a tuple of whole numbers, got {x!r:.80}")
    return [whole(op, name, each) for each in cast("Sequence[object]", x)]


def number(op: str, name: str, x: object, low: float = -inf, high: float = inf) -> float:
    """A finite number; one with a fraction or without."""
    # Comparisons, not `isfinite`: a compiler of torch's knows those of a number that it has not yet.
    if (type(x) is float or _is_symbol(x)) and -inf < cast("float", x) < inf:
        return _between(op, name, x, low, high)
    try:
        # What has one element and a direction is an array.
        no_number = _is_flag(x) or isinstance(x, (str, bytes)) or getattr(x, "ndim", 0)
        found = inf if no_number else float(cast("SupportsFloat", x))
    except (TypeError, ValueError, OverflowError):
        found = inf
    if not -inf < found < inf:
        raise DSLValueError(f"{op}: {name} is a finite number, got {x!r:.80}")
    return _between(op, name, found, low, high)


def choice(op: str, name: str, x: object, allowed: Collection[str]) -> str:
    """One of the names that there are."""
    if not isinstance(x, str) or x not in allowed:
        raise DSLValueError(f"{op}: {name} is one of {', '.join(allowed)}, got {x!r:.80}")
    return x


def _is_symbol(x: object) -> TypeIs[int]:
    """What stands for a number while torch compiles: asking which one it is would make a graph for each number."""
    return type(x).__module__ == "torch" and type(x).__name__ in ("SymInt", "SymFloat")


def _is_flag(x: object) -> bool:
    """Python's True and False, and numpy's, which need not be imported."""
    return isinstance(x, bool) or type(x).__module__ == "numpy" and type(x).__name__ in ("bool", "bool_")


def _whole(x: object) -> int | None:
    """None for what is no whole number: arrays of truth values would be, too."""
    if getattr(x, "ndim", 0) or "bool" in str(getattr(x, "dtype", "")):
        return None
    try:
        return index(cast("SupportsIndex", x))
    except TypeError:
        return None


def _between(op: str, name: str, x: T, low: float, high: float) -> T:
    if low <= x <= high:
        return x
    if (low, high) == LONG:
        raise DSLValueError(f"{op}: {name} is an integer of 64 bits, got {x}")
    bounds = f"at least {low}" if high in (inf, LONG[1]) else f"between {low} and {high}"
    raise DSLValueError(f"{op}: {name} is {bounds}, got {x}")


__all__ = ["LONG", "choice", "flag", "flags", "number", "whole", "wholes"]
