"""Values as plain data: what they hold, deeply and in order, with references to what has a component of its own.

Whatever can change in place leaves a probe, which tells later, by identities and without a walk, that it has not.
"""

from __future__ import annotations

import array
import enum
import itertools
import pathlib
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from operator import is_
from typing import Any, NamedTuple, TypeAlias, cast

from flydsl.compiler.key.cache_key import encode, framework_value, qualified_name
from flydsl.compiler.key.component import MISSING

Probe: TypeAlias = Callable[[], bool]
"""Whether something is as it was."""


class DictProbe(NamedTuple):
    """A probe whose answer stays the same as long as one dict does, and `held`, pointers of an object, are the same."""

    probe: Probe
    space: dict[Any, Any]
    owner: object = None
    held: tuple[object, ...] = ()

    def __call__(self) -> bool:
        return self.probe()


SCALARS = frozenset((type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented)))
_BASES: tuple[type, ...] = (int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
_FIXED = ("decimal", "datetime", "re", "operator", "_collections", "flydsl")
"""Modules and packages whose objects never change, but for containers."""


class _Named(typing.NamedTuple):
    x: int


_FIELD: type = type(cast(object, vars(_Named)["x"]))
"""Of the fields of a named tuple's class; versions of Python keep it in different modules."""
_VIEWS = frozenset(f"builtins.dict_{what}" for what in ("keys", "values", "items"))
_LOCKS = frozenset(("_thread.lock", "_thread.RLock"))


def is_snapshot(value: object) -> bool:
    """Whether a value stands for what it was made from, e.g. the content of a file: a new one means new code."""
    return bool(getattr(type(value), "__fly_snapshot__", False))


def token(value: object) -> bytes:
    """An encoding to compare a value with itself later; what has none counts by identity."""
    return encode(value, resolve=lambda obj: ("identity", id(obj)))


def same_items(items: Iterable[object], expected: tuple[object, ...]) -> bool:
    return all(map(is_, items, expected))


class Images:
    """Makes images; what it does not know is asked of `reference`."""

    def __init__(self) -> None:
        self.probes: list[Probe] = []
        self.alive: list[object] = []
        """Objects whose identity is remembered."""
        self._open: list[int] = []

    def reference(self, value: object, label: str) -> int | None:
        """The number of the component of a function, class, module or object; None for a value."""
        raise NotImplementedError

    def untracked(self, value: object, label: str, why: str = "") -> None:
        """A value was met whose content cannot be told."""
        raise NotImplementedError

    def image(self, value: object, label: str) -> object:
        """A value as scalars, text and tuples; no two values that could make different code have the same."""
        kind = type(value)
        if kind in SCALARS:
            return value if value is not NotImplemented else ("NotImplemented",)
        if id(value) in self._open:
            return ("cycle", self._open.index(id(value)))
        if (known := self.reference(value, label)) is not None:
            return ("#", known)
        self._open.append(id(value))
        try:
            return self._compound(value, kind, label)
        finally:
            self._open.pop()

    def _many(self, items: Iterable[object], label: str) -> tuple[object, ...]:
        return tuple([self.image(item, label) for item in items])

    def _compound(self, value: Any, kind: type, label: str) -> object:
        if kind in _BASES:
            return self.base_image(value, kind, label)
        if kind is types.MappingProxyType:
            return ("dict", self._items(value, label))
        if callable(hook := getattr(kind, "__fly_cache_key__", None)):
            return self._hooked("key", value, hook, label)
        if callable(hook := getattr(kind, "__cache_signature__", None)):
            # A signature tells the type of a run-time value; as a constant it also counts for what it holds.
            return (self._hooked("signature", value, hook, label), self.state_image(value, label))
        if kind is slice or kind is range:
            return (kind.__name__, *self._many((value.start, value.stop, value.step), label))
        if kind is types.CodeType:
            from flydsl.compiler.key.names import code_record

            return ("code", self.image(code_record(value, positions=False), label))
        if isinstance(value, enum.Enum):
            return (qualified_name(kind), value._name_)
        if isinstance(value, typing.TypeVar | typing.ParamSpec):
            return ("variable", value.__name__)
        if isinstance(value, typing.ForwardRef):
            # An annotation that is text, as those of named tuples are: what it was compiled and evaluated to follows.
            return ("annotation", value.__forward_arg__, self.image(value.__forward_module__, label))
        if (origin := typing.get_origin(value)) is not None:
            return ("generic", self.image(origin, label), self._many(typing.get_args(value), label))
        if (known := framework_value(value, kind)) is not None:
            if getattr(value, "names", None):  # the fields of a dtype can be renamed in place
                self.probes.append(lambda: framework_value(value, kind) == known)
            return (qualified_name(kind), self._many(known, label))
        return self._library_object(value, kind, label)

    def base_image(self, value: Any, base: type, label: str) -> object:
        """What a value holds as a number, a text or a container; `base` is its class among those of the language."""
        if base is tuple:
            return ("tuple", self._many(_plain_iter(tuple, value), label))
        if base is list:
            items = tuple(_plain_iter(list, value))
            self.probes.append(
                lambda: _plain_len(list, value) == len(items) and same_items(_plain_iter(list, value), items)
            )
            return ("list", self._many(items, label))
        if base is dict:
            return ("dict", self._items(value, label))
        if base is set or base is frozenset:
            members = tuple(_plain_iter(base, value))
            if base is set:
                self.probes.append(
                    lambda: _plain_len(set, value) == len(members) and same_items(_plain_iter(set, value), members)
                )
            return (base.__name__, tuple(sorted(self._many(sorted(members, key=_order), label), key=encode)))
        return base(value)

    def _items(self, value: Any, label: str) -> tuple[object, ...]:
        """Keys and values of a mapping in their order, which a loop over it would show."""
        # A subclass may say anything about itself.
        base: Any = types.MappingProxyType if type(value) is types.MappingProxyType else dict
        keys = cast("Callable[[], Iterable[object]]", partial(base.keys, value))
        values = cast("Callable[[], Iterable[object]]", partial(base.values, value))
        first, second = tuple(keys()), tuple(values())

        def unchanged() -> bool:
            return (
                _plain_len(base, cast(object, value)) == len(first)
                and same_items(values(), second)
                and same_items(keys(), first)
            )

        plain = cast(object, value)
        self.probes.append(DictProbe(unchanged, cast("dict[Any, Any]", plain)) if type(plain) is dict else unchanged)
        return tuple((self.image(k, label), self.image(v, label)) for k, v in zip(first, second, strict=True))

    def _hooked(self, what: str, value: object, hook: Callable[[object], object], label: str) -> object:
        told = hook(value)
        if not is_snapshot(value) and not _is_fixed(type(value)):
            before = token(told)
            self.probes.append(lambda: token(hook(value)) == before)
        return (what, qualified_name(type(value)), self.image(told, label))

    def _library_object(self, value: Any, kind: type, label: str) -> object:
        """An object of a class of some library, by its content."""
        if isinstance(value, pathlib.PurePath):
            return (qualified_name(kind), str(value))
        if kind is bytearray or kind is memoryview or kind is array.array:
            return self._buffer_image(
                value, kind, (getattr(value, "typecode", ""), getattr(value, "shape", None)), label
            )
        if (known := self.array_image(value, label)) is not None:
            return known
        name = qualified_name(kind)
        if name in _LOCKS:
            return name
        if name in _VIEWS:
            return (name, self.image(value.mapping, label))
        if name == "_struct.Struct":
            return (name, value.format)
        if name == "re.Pattern":
            return (name, value.pattern, value.flags)
        return self._reduced(value, kind, label)

    def array_image(self, value: Any, label: str) -> object:
        """The content of an array of numpy, whose class may be the user's; None for anything else."""
        numpy: Any = sys.modules.get("numpy")
        if numpy is None or not issubclass(type(value), numpy.ndarray) or value.dtype.hasobject:
            return None
        return self._buffer_image(value, value.__class__, (value.dtype, value.shape, value.strides), label)

    def _buffer_image(self, value: Any, kind: type, about: tuple[object, ...], label: str) -> object:
        data: bytes = value.tobytes() if hasattr(value, "tobytes") else bytes(value)
        read_only = getattr(getattr(value, "flags", None), "writeable", True) is False and value.base is None
        if not read_only:
            shape = getattr(value, "shape", None)

            def unchanged() -> bool:
                now = value.tobytes() if hasattr(value, "tobytes") else bytes(value)
                return now == data and getattr(value, "shape", None) == shape

            self.probes.append(unchanged)
        return (qualified_name(kind), self._many(about, label), data)

    def _reduced(self, value: object, kind: type, label: str) -> object:
        """What `pickle` would keep of an object: its class knows what that is."""
        try:
            parts = reduced(value)
            if not _is_fixed(kind):
                self.watch_reduced(value, parts)
        except Exception as error:  # noqa: BLE001 - a generator, a socket, a handle of a driver refuse in any way
            self.untracked(value, label, str(error))
            return ("untracked", qualified_name(kind))
        self.alive.append(parts)
        return (qualified_name(kind), self._many(parts, label))

    def watch_reduced(self, value: object, parts: tuple[object, ...]) -> None:
        before = token(parts)
        self.probes.append(lambda: token(reduced(value)) == before)

    def state_image(self, value: object, label: str) -> object:
        """The attributes of an object of this package, all of them."""
        found = state(value)
        if not _is_fixed(type(value)):
            names, held = tuple(found), tuple(found.values())
            self.probes.append(lambda: same_items(map(state(value).get, names, repeat(MISSING)), held))
        return tuple((name, self.image(each, label)) for name, each in sorted(found.items()))


def _is_fixed(kind: type) -> bool:
    return kind is _FIELD or (kind.__module__.partition(".")[0] in _FIXED and qualified_name(kind) != "decimal.Context")


def _plain_iter(base: Any, value: object) -> Iterator[object]:
    return base.__iter__(value)


def _plain_len(base: Any, value: object) -> int:
    return base.__len__(value)


def _order(value: object) -> bytes:
    return token(value) if type(value) in SCALARS else encode(qualified_name(type(value)))


def reduced(value: object) -> tuple[object, ...]:
    """The parts of `__reduce_ex__`, iterators read to their end."""
    if type(value) is itertools.count:  # Python 3.14 takes none of this module apart; only this one tells where it is
        return ("count", (repr(cast("object", value)),))
    parts: Any = value.__reduce_ex__(4)  # earlier ones leave out the fold of a time
    if isinstance(parts, str):
        return (parts,)
    made, arguments, *rest = parts
    if getattr(made, "__name__", "") == "__newobj__":
        arguments = arguments[1:]
    return (
        str(getattr(made, "__qualname__", "")),
        arguments,
        *(list(cast("Iterator[object]", part)) if isinstance(part, Iterator) else part for part in rest),
    )


def state(value: object) -> dict[str, object]:
    """What an object holds by name, in its dictionary and its slots."""
    found: dict[str, object] = {}
    for cls in reversed(type(value).__mro__):
        for name in slot_names(cls):
            member = cls.__dict__.get(name)
            if isinstance(member, types.MemberDescriptorType):
                try:
                    found[name] = member.__get__(value, cls)
                except AttributeError:  # not assigned
                    continue
    found |= dict_of(value) or {}
    return found


def dict_of(value: object) -> dict[str, object] | None:
    try:
        found: object = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return cast("dict[str, object]", found) if isinstance(found, dict) else None


def slot_names(cls: type) -> tuple[str, ...]:
    """The slots a class adds, as its dictionary names them."""
    slots: Any = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    prefix = "_" + cls.__name__.lstrip("_")
    return tuple(prefix + n if n.startswith("__") and not n.endswith("__") else n for n in names)
