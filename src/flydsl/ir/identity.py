"""Remembering what was computed from an object, by the object's identity.

Types, attributes and code objects take longer to hash than most of what is asked of them. An id is a fine key as long
as its object lives, so each entry keeps the object. The number of entries is bounded: a process that compiles ever new
kernels forgets, and computes again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")

LIMIT = 1 << 12
"""Entries of one function before it forgets them all."""


class IdentityCache(Generic[T, R]):
    """Results of a function by the id of its argument.

    `entries.get(id(of)) or add(of)`, written out where even a call is too much, is an entry: the result and `of`.
    """

    __slots__ = ("entries", "function")

    def __init__(self, function: Callable[[T], R]):
        self.function = function
        self.entries: dict[int, tuple[R, T]] = {}

    def add(self, of: T) -> tuple[R, T]:
        """Make an entry."""
        if len(self.entries) >= LIMIT:
            self.entries.clear()
        made = self.entries[id(of)] = (self.function(of), of)
        return made


def by_identity(function: Callable[[T], R]) -> Callable[[T], R]:
    """`function` remembering its results by the identity of its argument."""
    cache = IdentityCache(function)
    find, add = cache.entries.get, cache.add

    @wraps(function)
    def remembered(of: T) -> R:
        return (find(id(of)) or add(of))[0]

    return remembered


def by_identity_and_value(function: Callable[[T, K], R]) -> Callable[[T, K], R]:
    """`function` remembering its results by the identity of its first argument and the value of its second."""
    known: dict[tuple[int, K], tuple[R, T]] = {}
    find = known.get

    @wraps(function)
    def remembered(of: T, value: K) -> R:
        found = find((id(of), value))
        if found is None:
            if len(known) >= LIMIT:
                known.clear()
            found = known[id(of), value] = (function(of, value), of)
        return found[0]

    return remembered
