"""Compile-time values as parts of a call's key: constexprs, classes, and what the object of a method holds."""

from __future__ import annotations

import sys
from collections.abc import Container
from types import FunctionType, ModuleType
from typing import Any, cast

from .cache_key import digest, qualified_name
from .dependencies import class_digest, function_key
from .origin import origin_of

_PLAIN = (bool, int, float, str, bytes, type(None))


def constexpr_key(value: object) -> object:
    """A compile-time value as part of a key: 1, True and 1.0 are different, a function counts with all it reaches."""
    if isinstance(value, tuple):
        items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple((type(v).__name__, constexpr_key(v)) for v in items)
    if isinstance(value, FunctionType):
        return function_key(value, environment=False).digest
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return value
    if isinstance(value, type):
        return class_key(cast("type[object]", value))
    return digest(value, resolve=_class_inside)


def class_key(cls: type) -> object:
    """A class: ours by name or by what it says of itself, others also by what they hold; names can be given twice."""
    name = (cls.__module__, cls.__qualname__, digest(cls))
    return name if _is_ours(cls) else (*name, class_digest(cls))


def _class_inside(value: object) -> object:
    return class_key(cast("type[object]", value)) if isinstance(value, type) else NotImplemented


def attributes_key(owner: object, read: Container[str]) -> object:
    """What a traced method can read from its object; `read` are the names its code mentions.

    Values count by value, objects of the user's classes by their attributes in turn, others by their class.
    """

    def stand_in(value: object) -> object:
        if isinstance(value, FunctionType):
            return NotImplemented
        if isinstance(value, type):
            return class_key(cast("type[object]", value))
        if isinstance(value, ModuleType):
            return value.__name__
        kind = type(value)
        if hasattr(kind, "__fly_function__"):
            return function_key(value, environment=False).digest
        return (qualified_name(kind), _state(value, read)) if _is_users(kind) else qualified_name(kind)

    if hasattr(type(owner), "__fly_cache_key__"):
        return digest(owner)
    return tuple(
        (name, type(value).__name__, repr(value) if isinstance(value, _PLAIN) else digest(value, resolve=stand_in))
        for name, value in sorted(_state(owner, read).items())
    )


def _state(value: object, read: Container[str]) -> dict[str, object]:
    """Attributes of an object by name: plain ones, and those whose name is read."""
    slots = [name for cls in type(value).__mro__ for name in _slots(cls)]
    found: dict[str, object] = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    found |= getattr(value, "__dict__", {})
    return {name: each for name, each in found.items() if isinstance(each, _PLAIN) or name in read}


def _slots(cls: type) -> tuple[str, ...]:
    slots: Any = vars(cls).get("__slots__", ())
    return tuple(name for name in ((slots,) if isinstance(slots, str) else slots) if not name.startswith("__"))


def _is_ours(cls: type) -> bool:
    module = cls.__module__ + "."
    return module == "builtins." or (module.startswith("flydsl.") and not module.startswith("flydsl.kernels."))


def _is_users(cls: type) -> bool:
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return not _is_ours(cls) and origin_of(file or "<class>") == "user"
