"""Memoisation of pure layout functions.

Arguments are immutable and hashable. Results for arguments that carry run-time values are never kept: code emitted
for them belongs to the place where the call was made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from flydsl.layout.int_tuple import VALUED, kind_of
from flydsl.layout.layout import ComposedLayout, Layout
from flydsl.layout.leaf import Basis, Dyn

P = ParamSpec("P")
R = TypeVar("R")

_LIMIT = 1 << 16
_CACHES: list[dict[Any, Any]] = []


def carries_values(x: object) -> bool:
    """Some leaf of this argument is a run-time value."""
    if isinstance(x, (Layout, ComposedLayout)):
        return x.kind == VALUED
    if isinstance(x, tuple):
        return any(map(carries_values, cast("tuple[object, ...]", x)))
    return isinstance(x, (Dyn, Basis)) and kind_of(x) == VALUED


def memo(fn: Callable[P, R]) -> Callable[P, R]:
    """`fn` remembering its results by positional arguments, unless those carry run-time values."""
    cache: dict[object, R] = {}
    _CACHES.append(cache)

    @wraps(fn)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            return fn(*args, **kwargs)
        # Hashing takes longer than asking, and what carries values is never found.
        if any(map(carries_values, args)):
            return fn(*args, **kwargs)
        found = cache.get(args, cache)
        if found is not cache:
            return cast(R, found)
        if len(cache) >= _LIMIT:
            cache.clear()
        result = cache[args] = fn(*args, **kwargs)
        return result

    return remembered


def clear_memos() -> None:
    """Forget all remembered results.

    >>> clear_memos()
    """
    for cache in _CACHES:
        cache.clear()
