"""The canonical bytes of a value for cache keys: type-tagged, length-prefixed, the same in every process.

Two values that could make different code never share an encoding: `1`, `1.0` and `True` differ, `0.0` and `-0.0` do,
a tuple is no list. The order of dicts and sets, addresses, paths and hash seeds do not show. `repr` is never used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import sys
import types
import typing
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, cast

Resolve = Callable[[object], object]
"""Asked for functions, types and what has no encoding: a value that stands for it, or `NotImplemented`."""

_LENGTH = struct.Struct("<Q")
_DOUBLE = struct.Struct("<d")


def qualified_name(obj: Any) -> str:
    """`module.qualname` of a class or function."""
    return f"{obj.__module__}.{obj.__qualname__}"


def encode(value: object, *, resolve: Resolve | None = None) -> bytes:
    """The canonical bytes of a value; `TypeError` for one that cannot be part of a cache key."""
    return _Encoder(resolve).encode(value)


def digest(value: object, *, resolve: Resolve | None = None) -> str:
    """SHA-256 of `encode(value)`, as 64 hex digits."""
    return hashlib.sha256(encode(value, resolve=resolve)).hexdigest()


def _tagged(tag: bytes, payload: bytes) -> bytes:
    return tag + _LENGTH.pack(len(payload)) + payload


def _counted(tag: bytes, items: list[bytes]) -> bytes:
    return tag + _LENGTH.pack(len(items)) + b"".join(items)


def _int(value: int) -> bytes:
    size = value.bit_length() // 8 + 1
    return b"i" + _LENGTH.pack(size) + value.to_bytes(size, "little", signed=True)


def _str(value: str) -> bytes:
    payload = value.encode("utf-8", "surrogatepass")
    return b"s" + _LENGTH.pack(len(payload)) + payload


_SCALARS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"N",
    bool: lambda value: b"B\1" if value else b"B\0",
    int: _int,
    float: lambda value: b"f" + _DOUBLE.pack(value),
    complex: lambda value: b"c" + _DOUBLE.pack(value.real) + _DOUBLE.pack(value.imag),
    str: _str,
    bytes: lambda value: _tagged(b"b", value),
    type(Ellipsis): lambda value: b"E",
}
_BASES: tuple[Callable[[Any], object], ...] = (int, float, complex, str, bytes, tuple, list, dict, set, frozenset)


class _Encoder:
    def __init__(self, resolve: Resolve | None):
        self.resolve = resolve
        self.open: list[int] = []
        """Identities of the containers being encoded, outermost first: a cycle is written as its depth."""

    def encode(self, value: object) -> bytes:
        kind = type(value)
        if (scalar := _SCALARS.get(kind)) is not None:
            return scalar(value)
        if id(value) in self.open:
            return b"@" + _LENGTH.pack(self.open.index(id(value)))
        self.open.append(id(value))
        try:
            return self.compound(value, kind)
        finally:
            self.open.pop()

    def many(self, items: Iterable[Any]) -> list[bytes]:
        # Most of a key are texts and tuples of texts: written out here, since every call counts.
        made: list[bytes] = []
        length, scalars, around = _LENGTH.pack, _SCALARS.get, self.open
        for item in items:
            kind: type[object] = type(item)  # pyright: ignore[reportUnknownVariableType]
            if kind is str:
                payload: bytes = item.encode("utf-8", "surrogatepass")
                made.append(b"s" + length(len(payload)) + payload)
            elif kind is tuple and id(item) not in around:
                around.append(id(item))
                try:
                    inner = self.many(item)
                finally:
                    around.pop()
                made.append(b"t" + length(len(inner)) + b"".join(inner))
            else:
                scalar = scalars(kind)
                made.append(self.encode(item) if scalar is None else scalar(item))
        return made

    def mapping(self, tag: bytes, value: dict[object, object]) -> bytes:
        pairs = sorted((self.encode(key), self.encode(item)) for key, item in value.items())
        return _counted(tag, [part for pair in pairs for part in pair])

    def named(self, tag: bytes, cls: type, *rest: object) -> bytes:
        return _counted(tag, [_str(qualified_name(cls)), *self.many(rest)])

    def compound(self, value: Any, kind: type) -> bytes:
        if kind is tuple:
            return _counted(b"t", self.many(value))
        if kind is list:
            return _counted(b"l", self.many(value))
        if kind is dict:
            return self.mapping(b"d", value)
        if kind is set or kind is frozenset:
            return _counted(b"S" if kind is set else b"Z", sorted(self.many(value)))
        if isinstance(value, type):
            return self.of_type(value)
        if isinstance(value, types.FunctionType):
            return self.of_function(value)
        if callable(hook := getattr(kind, "__fly_cache_key__", None)):
            return self.named(b"K", kind, hook(value))
        if callable(hook := getattr(kind, "__cache_signature__", None)):
            return _counted(b"J", [self.encode(hook(value))])
        return self.of_object(value, kind)

    def of_object(self, value: object, kind: type) -> bytes:
        if isinstance(value, Enum):
            return self.of_enum(value, kind)
        if dataclasses.is_dataclass(value):
            fields = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
            return self.named(b"D", kind, tuple(fields))
        if isinstance(value, types.SimpleNamespace):
            return self.named(b"A", kind, vars(value))
        if isinstance(value, types.MappingProxyType):
            return self.mapping(b"d", dict(cast("types.MappingProxyType[object, object]", value)))
        if isinstance(value, slice | range):
            bounds = cast(range, value)
            return self.named(b"r", kind, bounds.start, bounds.stop, bounds.step)
        for base in _BASES:
            if isinstance(value, cast("type[object]", base)):
                # What a subclass keeps beside its value (a defaultdict its factory) does not show.
                return self.named(b"U", kind, base(value))
        if (origin := typing.get_origin(value)) is not None:
            return _counted(b"G", [self.encode(origin), *self.many(typing.get_args(value))])
        if (known := framework_value(value, kind)) is not None:
            return self.named(b"V", kind, *known)
        return self.other(value)

    def of_enum(self, value: Enum, kind: type) -> bytes:
        name: object = value.name
        try:
            content = self.encode(value.value)
        except TypeError:  # A member may hold anything; its name tells it from the others.
            content = b"N"
        return _counted(b"M", [_str(f"{qualified_name(kind)}.{name}"), content])

    def of_type(self, value: type) -> bytes:
        for name in ("__fly_cache_key__", "__cache_signature__"):
            hook = getattr(value, name, None)
            if getattr(hook, "__self__", None) is value:  # a classmethod: the class speaks for itself
                return self.named(b"k", value, cast("Callable[[], object]", hook)())
        if (replaced := self.ask(value)) is not None:
            return replaced
        return _tagged(b"y", qualified_name(value).encode("utf-8"))

    def of_function(self, value: types.FunctionType) -> bytes:
        if (replaced := self.ask(value)) is not None:
            return replaced
        from flydsl.compiler.key.walk import function_key

        return _tagged(b"F", function_key(value, environment=False).digest.encode())

    def ask(self, value: object) -> bytes | None:
        replacement = self.resolve(value) if self.resolve is not None else NotImplemented
        return None if replacement is NotImplemented else _counted(b"R", [self.encode(replacement)])

    def other(self, value: object) -> bytes:
        if (replaced := self.ask(value)) is not None:
            return replaced
        kind = type(value)
        raise TypeError(
            f"{qualified_name(kind)} cannot be part of a cache key; use numbers, text, bytes, None, enums, dataclasses "
            f"or containers of them, or give {kind.__name__} a method __fly_cache_key__()"
        )


def framework_value(value: Any, kind: type) -> tuple[object, ...] | None:
    """What tells apart dtypes and scalars of numpy and torch, which are not imported for it."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.dtype):
        return str(value.name), str(value.str), value.fields and list(value.descr)
    if numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject:
        return value.dtype, value.tobytes()
    if kind.__module__.partition(".")[0] == "torch" and kind.__name__ in ("dtype", "layout", "memory_format"):
        return (str(value),)
    return None
