"""Compile-time values as parts of a call's key, where they tell all of themselves; others are walked like globals."""

from __future__ import annotations

from typing import cast

from .cache_key import digest


def constexpr_key(value: object) -> object:
    """A plain compile-time value as part of a key: 1, True and 1.0 are different. Raises `TypeError` for others."""
    kind = type(value)
    if kind is tuple:
        return tuple((type(v).__name__, constexpr_key(v)) for v in cast("tuple[object, ...]", value))
    if kind is float:
        return cast(float, value).hex()
    if value is None or kind in (bool, int, str, bytes):
        return value
    if isinstance(value, type) and _is_ours(value):
        return value.__module__, value.__qualname__, digest(value)
    raise TypeError(f"{kind.__name__} is no plain value")


def hint_key(value: object) -> object:
    """The value of a hint as part of a key."""
    try:
        return constexpr_key(value)
    except TypeError:
        return digest(value)


def _is_ours(cls: type) -> bool:
    module = cls.__module__ + "."
    return module == "builtins." or (module.startswith("flydsl.") and not module.startswith("flydsl.kernels."))
