"""Objects, classes and modules of the user: they count with the attributes that some code of the walk names."""

from __future__ import annotations

import abc
import enum
import gc
import sys
import types
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, cast

from flydsl.compiler.key import libraries
from flydsl.compiler.key.cache_key import digest, qualified_name
from flydsl.compiler.key.component import MISSING, Component
from flydsl.compiler.key.images import SCALARS, DictProbe, Probe, dict_of, reduced, same_items, state

if TYPE_CHECKING:
    from flydsl.compiler.key.walk import Walk

_BUILT_IN = (int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_NEVER = frozenset(
    (
        *("__dict__", "__weakref__", "_abc_impl", "__firstlineno__", "__static_attributes__", "__annotations_cache__"),
        *("_member_map_", "_member_names_", "_value2member_map_", "_hashable_values_", "_unhashable_values_"),
        *("_unhashable_values_map_", "_member_type_", "_generate_next_value_", "_new_member_", "_use_args_"),
        *("_use_default_", "_value_repr_", "__new_member__", "__annotate__", "__annotate_func__"),
    )
)
"""What the interpreter and `enum` keep in a class for themselves."""
_IF_NAMED = frozenset(
    (
        *("__doc__", "__module__", "__qualname__", "__annotations__"),
        *("__abstractmethods__", "__parameters__", "__orig_bases__", "__dataclass_params__", "__type_params__"),
        *("__dataclass_fields__", "__subclasses__"),
    )
)
"""Special names that do not change what a class does."""
_ANNOTATIONS = frozenset(("__annotations__", "__annotate__", "get_annotations", "get_type_hints"))
"""Names by which annotations of a class are read."""
_OBJECT_NOISE = frozenset(("__objclass__", "_sort_order_", "_inverted_"))
_QUIET_BASES = frozenset(("builtins", "abc", "enum", "typing", "collections.abc", "contextlib", "types"))
"""Modules of base classes that do not read attributes of a class derived from them but by special names."""


class Holder:
    """Something with attributes, of which those count that can be read."""

    def __init__(
        self,
        number: int,
        label: str,
        kind: str,
        obj: object,
        members: Callable[[], Mapping[str, object]],
        place: Callable[[object, str, str], int],
        always: Callable[[str, object], bool] = lambda name, value: False,
    ):
        self.number, self.label, self.kind, self.obj = number, label, kind, obj
        self.members, self.place, self.always = members, place, always
        self.fixed: object = None
        self.parts: dict[str, int] = {}
        self.ordered = False
        self.named_only = False
        """Whether names that code computes are left out: what a library offers counts by version."""

    def expand(self, walk: Walk) -> None:
        """Take the attributes that have become known as read."""
        self.ordered = computed = walk.computed and not self.named_only
        for name, value in sorted(self.members().items(), key=lambda item: item[0]):
            if name not in self.parts and (computed or name in walk.read or self.always(name, value)):
                self.parts[name] = self.place(value, f"{self.label}.{name}", name)

    def component(self) -> Component:
        parts = sorted(self.parts.items())
        order = [name for name in self.members() if name in self.parts] if self.ordered else None
        return Component(self.label, self.kind, digest((self.fixed, parts, order)))


def _add(
    walk: Walk,
    obj: object,
    label: str,
    kind: str,
    members: Callable[[], Mapping[str, object]],
    place: Callable[[object, str, str], int] | None = None,
    always: Callable[[str, object], bool] = lambda name, value: False,
) -> tuple[Holder, bool]:
    number, new = walk.reserve(obj)
    made = Holder(number, label, kind, obj, members, place or (lambda v, l, n: walk.place(v, l)), always)  # noqa: E741
    if new:
        walk.holders.append(made)
    return made, new


def _foreign_bases(walk: Walk, cls: type) -> list[type]:
    """The classes of libraries that a class derives from and whose code may read its attributes."""
    return [b for b in cls.__mro__ if walk.whose.of_class(b) == "external" and b.__module__ not in _QUIET_BASES]


def add_class(walk: Walk, cls: type) -> int:
    """A class of the user: its bases, its special methods, and of its members those that are named."""
    label = qualified_name(cls)
    for name in ("__fly_cache_key__", "__cache_signature__"):
        hook = getattr(cls, name, None)
        if getattr(hook, "__self__", None) is cls:  # a classmethod: the class speaks for itself
            number, new = walk.reserve(cls)
            if new:
                told = walk.image(cast("Callable[[], object]", hook)(), label)
                walk.components[number - walk.offset] = Component(label, "class", digest((label, told)))
            return number
    every = bool(_foreign_bases(walk, cls)) or issubclass(cls, enum.Enum)
    listed = enum.Enum in cls.__mro__

    def members() -> dict[str, object]:
        found = {n: v for n, v in vars(cls).items() if n not in _NEVER and not isinstance(v, _DESCRIPTORS)}
        if "__annotate_func__" in vars(cls) and (walk.computed or not walk.read.isdisjoint(_ANNOTATIONS)):
            found["__annotations__"] = _annotations(cls)
        if "__subclasses__" in walk.read:
            found["__subclasses__"] = type.__subclasses__(cls)
        if listed:
            found |= cast("dict[str, object]", getattr(cls, "_member_map_", {}))
        return found

    def always(name: str, value: object) -> bool:
        return (every or (name.startswith("__") and name.endswith("__"))) and name not in _IF_NAMED

    def place(value: object, at: str, name: str) -> int:
        if name == "__subclasses__":
            known = tuple(cast("list[object]", value))
            walk.probes.append(lambda: tuple(type.__subclasses__(cls)) == known)
        return walk.place(value, at)

    holder, new = _add(walk, cls, label, "class", members, place, always)
    if new:
        named: object = vars(cls).get("__match_args__", ())
        if isinstance(named, tuple):
            walk.read |= {name for name in cast("tuple[object, ...]", named) if isinstance(name, str)}
        bases = [walk.add_class(base) for base in cls.__bases__]
        meta = walk.add_class(type(cls)) if type(cls) is not type else None
        order = walk.image(getattr(cls, "_member_names_", ()), label) if listed else None
        holder.fixed = (label, cls.__name__, bases, meta, order, _registered(walk, cls))
    return holder.number if new else walk.seen[id(cls)]


def _annotations(cls: type) -> object:
    """What Python 3.14 makes of a class's annotations when somebody asks, or else the code that cannot do it."""
    try:
        return cls.__annotations__
    except Exception:  # noqa: BLE001 - annotations are code of the user's
        return cast("types.FunctionType", vars(cls)["__annotate_func__"]).__code__


def _registered(walk: Walk, cls: type) -> object:
    """The classes that were registered with an abstract one."""
    if not isinstance(cls, abc.ABCMeta):
        return None
    token = abc.get_cache_token()
    walk.probes.append(lambda: abc.get_cache_token() == token)
    dump = cast("Callable[[type], tuple[set[Callable[[], type | None]], object]]", getattr(abc, "_get_dump"))  # noqa: B009
    found = [made for ref in dump(cls)[0] if (made := ref()) is not None]
    return sorted(qualified_name(made) for made in found)


def add_object(walk: Walk, value: object, label: str) -> int:
    """An object of a class of the user: its class, what it is as a number, text or container, and its attributes."""
    cls = type(value)
    libraries_of = _foreign_bases(walk, cls)
    standard = all(b.__module__.partition(".")[0] in sys.stdlib_module_names for b in libraries_of)
    listed = isinstance(value, enum.Enum)

    def always(name: str, held: object) -> bool:
        # Code of a library may read what no code of the user names; big ones keep there what is no part of a kernel.
        return listed or (bool(libraries_of) and (standard or _is_plain(held)))

    def members() -> dict[str, object]:
        return {name: held for name, held in state(value).items() if name not in _OBJECT_NOISE}

    holder, new = _add(walk, value, label, "object", members, always=always)
    if not new:
        return walk.seen[id(value)]
    bases = [base for base in _BUILT_IN if base in cls.__mro__]
    fixed: list[object] = [walk.add_class(cls), *(walk.base_image(value, base, label) for base in bases)]
    built_in = any(b.__module__ == "builtins" and b is not object and b not in _BUILT_IN for b in cls.__mro__)
    if (libraries_of or built_in) and not bases:
        fixed.append(_hidden(walk, value, label))
    holder.fixed = tuple(fixed)
    return holder.number


def _hidden(walk: Walk, value: object, label: str) -> object:
    """What an object holds for a class of a library it derives from, beside its attributes."""
    known = walk.array_image(value, label)
    if known is not None:
        return known
    try:
        parts = name, arguments, *rest = reduced(value)
        walk.watch_reduced(value, parts)
    except ValueError:
        return None
    except Exception as error:  # noqa: BLE001 - a class may refuse in any way
        walk.untracked(value, label, str(error))
        return None
    return walk.image((name, arguments, rest[1:]), label)


def _is_plain(value: object) -> bool:
    if type(value) is tuple:
        return all(_is_plain(item) for item in cast("tuple[object, ...]", value))
    return type(value) in SCALARS


def add_module(walk: Walk, module: ModuleType) -> int:
    """A module of the user that goes around as a value."""
    space = vars(module)

    def place(value: object, label: str, name: str) -> int:
        walk.look_up(space, name)
        return walk.place(value, label)

    return _module(walk, module, place, named_only=False)


def add_library_module(walk: Walk, module: ModuleType) -> int:
    """The same for one of a library: its own code counts by version."""
    space = vars(module)

    def place(value: object, label: str, name: str) -> int:
        walk.look_up(space, name)
        return libraries.add_attribute(walk, value, module.__name__, name, label)

    return _module(walk, module, place, named_only=True)


def _module(walk: Walk, module: ModuleType, place: Callable[[object, str, str], int], *, named_only: bool) -> int:
    space = vars(module)

    def members() -> dict[str, object]:
        return {n: v for n, v in space.items() if not n.startswith("__") or n == "__getattr__"}

    holder, new = _add(
        walk, module, module.__name__, "module", members, place, always=lambda name, value: name == "__getattr__"
    )
    holder.fixed, holder.named_only = module.__name__, named_only
    return holder.number if new else walk.seen[id(module)]


# -- probes ----------------------------------------------------------------------------------------------


def watch(walk: Walk) -> None:
    """Leave a probe for each holder, now that its attributes are known."""
    for holder in walk.holders:
        obj = holder.obj
        if isinstance(obj, type):
            walk.probes.append(_class_probe(obj))
        elif isinstance(obj, ModuleType):
            space, count = vars(obj), len(vars(obj))
            walk.probes.append(lambda space=space, count=count: len(space) == count)
        else:
            walk.probes.append(_object_probe(obj, tuple(holder.parts)))


def same_names(space: Mapping[str, object]) -> Probe:
    """Whether a namespace holds what it held under every name."""
    keys, values = tuple(space), tuple(space.values())
    return lambda: len(space) == len(keys) and same_items(space.values(), values) and same_items(space, keys)


def _class_probe(cls: type) -> Probe:
    bases, name, same = cls.__bases__, cls.__name__, same_names(vars(cls))
    # What the proxy of a class's names refers to is the dict itself.
    (space,) = gc.get_referents(vars(cls))
    probe = lambda: cls.__bases__ is bases and cls.__name__ == name and same()  # noqa: E731
    return DictProbe(probe, space, cls, (bases, name)) if type(space) is dict else probe


def _object_probe(obj: object, names: tuple[str, ...]) -> Probe:
    cls, space = type(obj), dict_of(obj)
    slots = tuple(name for name in names if space is None or name not in space)
    held = tuple(_slot(obj, name) for name in slots)
    if space is None and not slots:
        return lambda: type(obj) is cls
    if space is None:
        return lambda: type(obj) is cls and same_items((_slot(obj, name) for name in slots), held)
    keys, named = tuple(space), tuple(name for name in names if name in space)
    values = tuple(space[name] for name in named)

    def unchanged() -> bool:
        return (
            type(obj) is cls
            and dict_of(obj) is space
            and len(space) == len(keys)
            and same_items(space, keys)
            and same_items(map(space.get, named), values)
            and (not slots or same_items((_slot(obj, name) for name in slots), held))
        )

    return unchanged


def _slot(obj: object, name: str) -> object:
    return state(obj).get(name, MISSING)
