"""What libraries bring: their code counts by version, the user's functions and values inside it by themselves."""

from __future__ import annotations

import builtins
import copy
import functools
import gc
import importlib
import operator
import os
import sys
import weakref
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, cast

from flydsl.compiler.key import memos, states
from flydsl.compiler.key.images import SCALARS
from flydsl.compiler.key.outside import WATCHED

if TYPE_CHECKING:
    from flydsl.compiler.key.walk import Walk

_BUILT_IN_CALLABLES = (
    BuiltinFunctionType,
    MethodWrapperType,
    WrapperDescriptorType,
    MethodDescriptorType,
    ClassMethodDescriptorType,
)
_CONTAINERS = (tuple, list, dict, set, frozenset)
_READERS: tuple[object, ...] = (
    *(getattr, hasattr, vars, dir, eval, exec, operator.attrgetter, operator.methodcaller, copy.copy),
)
FACTS = frozenset(("__name__", "__qualname__", "__doc__", "__annotations__"))
"""What functions tell of themselves."""
_READING_MODULES = frozenset(("dataclasses", "copy", "pickle", "inspect", "pprint", "copyreg", "json"))
"""Their functions read attributes of what they are given by computed names."""
_FACT_MODULES = frozenset(("inspect", "typing"))
"""Theirs read what functions tell of themselves."""
_ANYTHING: tuple[object, ...] = (
    *(builtins.__import__, importlib.import_module, sys.modules, gc.get_objects, gc.get_referrers),
    *(sys._getframe, sys._current_frames),  # pyright: ignore[reportPrivateUsage]
)
"""By these, code reaches what no walk can follow."""
_CHANGING_MODULES = frozenset(("time", "secrets", "uuid", "socket", "_socket", "select", "gc"))
_CHANGING = frozenset(
    (
        *(("datetime", name) for name in ("datetime.now", "datetime.today", "datetime.utcnow", "date.today")),
        *(("posix", name) for name in ("getpid", "urandom", "times", "getloadavg", "umask")),
        *(("threading", name) for name in ("current_thread", "active_count", "enumerate", "get_ident")),
        *(
            ("_thread", "get_ident"),
            ("_contextvars", "copy_context"),
            ("signal", "getsignal"),
            ("random", "SystemRandom"),
        ),
        *(("_sqlite3", "connect"), ("sqlite3", "connect"), ("_io", "FileIO"), ("builtins", "input")),
    )
)
"""Functions that may answer differently the next time."""
_READING = frozenset(
    (
        *((module, name) for module in ("posix", "nt") for name in ("open", "listdir", "scandir", "stat", "lstat")),
        *((module, name) for module in ("posix", "nt") for name in ("access", "readlink", "getcwd", "statvfs")),
        *((module, name) for module in ("io", "_io") for name in ("open", "open_code")),
    )
)
"""Functions that read from outside, which is recorded while tracing where they are called by their own names."""


def callable_parts(walk: Walk, value: object, label: str) -> object:
    """What a callable or descriptor of the standard library holds; None for anything else."""
    if isinstance(value, staticmethod | classmethod):
        made = cast("staticmethod[..., object]", value)
        return (type(made).__name__, walk.place(made.__func__, label))
    if isinstance(value, property):
        return ("property", *(walk.place(p, label) for p in (value.fget, value.fset, value.fdel) if p))
    if isinstance(value, functools.cached_property):
        return ("cached property", walk.place(cast("functools.cached_property[object]", value).func, label))
    if isinstance(value, functools.partial | functools.partialmethod):
        given = cast("functools.partial[object]", value)
        held = walk.image(getattr(given, "__dict__", {}), label)
        return ("partial", walk.place(given.func, label), walk.image((given.args, given.keywords), label), held)
    if isinstance(value, functools.singledispatchmethod):
        chosen = cast("functools.singledispatchmethod[object]", value)
        return ("dispatch", walk.place(chosen.func, label), walk.place(chosen.dispatcher, label))
    if type(value) is functools._lru_cache_wrapper:  # pyright: ignore[reportPrivateUsage]
        memos.note(value)
        return ("cached", walk.place(getattr(cast(object, value), "__wrapped__", None), label))
    if isinstance(value, weakref.ref):
        return ("weak", walk.place(cast("weakref.ref[object]", value)(), label))
    if isinstance(value, operator.attrgetter | operator.methodcaller):
        walk.computed = True
    if (logging := sys.modules.get("logging")) is not None and isinstance(value, logging.Logger):
        return states.note_logger(walk, value)
    if isinstance(value, _BUILT_IN_CALLABLES):
        return _built_in(walk, value, label)
    return None


def _built_in(walk: Walk, value: object, label: str) -> object:
    held = getattr(value, "__self__", None)
    name = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
    if held is not None and not isinstance(held, ModuleType | type):
        return ("bound", name, walk.image(held, label))
    cls = held if isinstance(held, type) else getattr(value, "__objclass__", None)
    module = str(getattr(value if cls is None else cls, "__module__", None) or "builtins")
    if any(value is each for each in _READERS):
        walk.computed = True
    _note_changing(walk, value, module, name, label)
    return walk.external(module, name)


def _note_changing(walk: Walk, value: object, module: str, name: str, label: str) -> None:
    if any(value is each for each in _ANYTHING):
        walk.untracked(value, label, "it reaches anything in the process")
    elif (module, name) in _READING and label not in WATCHED:
        walk.untracked(value, label, "what it reads is seen under its own name only")
    elif module in _CHANGING_MODULES or (module, name) in _CHANGING:
        walk.untracked(value, label, "its answer may differ at every call")


def add_library_function(walk: Walk, fn: FunctionType) -> int:
    """A Python function of a library: its version, and what of the user's it carries in its closure."""
    module, name = fn.__module__ or "", fn.__qualname__
    if module in _READING_MODULES:
        walk.computed = True
    if module in _FACT_MODULES:
        walk.read |= FACTS
    _note_changing(walk, fn, module, name, f"{module}.{name}")
    held = fn.__dict__
    if "registry" in held and "dispatch" in held:  # functools.singledispatch
        return walk.external(module, name, (walk.image(held["registry"], name), walk.place(held["__wrapped__"], name)))
    if not fn.__closure__ and not held and not fn.__defaults__:
        return walk.external(module, name)
    number, new = walk.reserve(fn)
    if new:
        walk.quiet += 1
        try:
            from flydsl.compiler.key.walk import contents

            cells = [walk.place(contents(cell), f"{module}:{name}") for cell in fn.__closure__ or ()]
            inner = held.get("__wrapped__")
            parts = (cells, None if inner is None else walk.place(inner, f"{module}:{name}"))
        finally:
            walk.quiet -= 1
        outer = walk.external(module, name, parts)
        walk.components[number - walk.offset] = walk.components[outer - walk.offset]
    return number


def add_library_class(walk: Walk, cls: type) -> int:
    _note_changing(walk, cls, cls.__module__, cls.__qualname__, f"{cls.__module__}.{cls.__qualname__}")
    return walk.external(cls.__module__, cls.__qualname__)


def add_library_module(walk: Walk, module: ModuleType) -> int:
    """A module of a library that goes around as a value."""
    from flydsl.compiler.key import holders

    if module.__name__ in _READING_MODULES:
        walk.computed = True
    if module.__name__ in _FACT_MODULES:
        walk.read |= FACTS
    return holders.add_library_module(walk, module)


def add_attribute(walk: Walk, value: object, module: str, name: str, label: str) -> int:
    """What a module of a library holds under a name: the user may have put it there."""
    if value is sys.modules:
        walk.untracked(value, label, "it reaches anything in the process")
        return walk.external(module, name)
    if value is os.environ or value is getattr(os, "environb", None):
        return walk.external(module, name)  # which variables are read is recorded while tracing
    kind = type(value)
    if kind is functools._lru_cache_wrapper:  # pyright: ignore[reportPrivateUsage]
        memos.note(value)
    known = isinstance(value, (FunctionType, MethodType, type, ModuleType, functools.partial, *_BUILT_IN_CALLABLES))
    if known or kind in SCALARS:
        return walk.place(cast(object, value), label)
    if kind in _CONTAINERS or walk.whose.of_class(kind) == "user":
        walk.quiet += 1
        try:
            return walk.place(value, label)
        finally:
            walk.quiet -= 1
    return walk.external(module, name)
