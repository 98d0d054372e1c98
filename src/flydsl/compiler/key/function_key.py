"""`FunctionKey`: what a function contributes to a cache key, and the check whether it still holds."""

from __future__ import annotations

import marshal
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
)
from typing import Any, TypeAlias, cast

from flydsl import config
from flydsl.compiler.key.cache_key import digest, encode
from flydsl.compiler.key.component import MISSING, Component
from flydsl.compiler.key.names import all_codes
from flydsl.errors import DSLRuntimeError

_Name: TypeAlias = tuple[Callable[[str, object], object], str, object]
"""How a namespace is asked, for what, and what it said."""

Identities: TypeAlias = tuple[list[_Name], list[tuple[CellType, object]], Sequence[tuple[FunctionType, CodeType]]]
"""Names, closure cells and functions, with what they were."""
Container: TypeAlias = CellType | Mapping[str, object]


class Watch:
    """A place whose content a key depends on: a name in a namespace, or a closure cell."""

    __slots__ = ("blank", "container", "deep", "expected", "kind", "marshalled", "module", "name", "old", "token")

    def __init__(self, container: Container, name: str, expected: object, kind: str, module: str):
        self.container = container
        self.name = name
        self.expected = expected
        self.kind = kind
        """`value`, or anything else for what is compared by identity alone."""
        self.module = module
        self.deep = kind == "value" and not is_immutable(expected)
        self.old = ""
        self.marshalled: bytes | None = None
        self.token = self.blank = b""
        if kind == "value":
            self.remember(expected)

    def remember(self, value: object) -> None:
        self.expected = value
        self.token = _token(value)
        self.old = reprlib.repr(value)
        self.marshalled = None
        if self.deep:
            self.blank = _token(value, blank=True)
            self.marshalled = _marshal(value)

    def current(self) -> object:
        if isinstance(self.container, CellType):
            return contents(self.container)
        return self.container.get(self.name, MISSING)

    def unchanged(self, value: object) -> bool:
        """Whether a value that may be another object still means the same."""
        if self.marshalled is not None and value is self.expected and _marshal(value) == self.marshalled:
            return True
        if self.kind != "value" or value is MISSING:
            return value is self.expected
        try:
            same = _token(value) == self.token
        except TypeError:
            return False
        if same and value is not self.expected:
            self.remember(value)
        return same


def contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return MISSING


def _marshal(value: Any) -> bytes | None:
    """Exact bytes of plain data at the speed of C; version 2 has neither references nor interning."""
    try:
        return marshal.dumps(value, 2)
    except ValueError:
        return None


def _token(value: object, *, blank: bool = False) -> bytes:
    """An encoding to compare a value with itself later; functions and classes by identity, or not at all."""
    return encode(value, resolve=(lambda obj: None) if blank else (lambda obj: ("identity", id(obj))))


_IMMUTABLE = (type(None), bool, int, float, complex, str, bytes, type, Enum, FunctionType, BuiltinFunctionType)


def is_snapshot(value: object) -> bool:
    """Whether a value stands for what it was made from, e.g. the content of a file: a new one means new code."""
    return bool(getattr(type(value), "__fly_snapshot__", False))


def is_immutable(value: object) -> bool:
    if is_snapshot(value):
        return True
    if isinstance(value, tuple | frozenset):
        return all(is_immutable(item) for item in cast("Iterable[object]", value))
    if is_dataclass(value) and not isinstance(value, type):
        params: object = getattr(type(value), "__dataclass_params__", None)
        return bool(getattr(params, "frozen", False)) and all(
            is_immutable(getattr(value, f.name)) for f in fields(value)
        )
    return isinstance(value, _IMMUTABLE)


class FunctionKey:
    """The part of a cache key that a function contributes, and the check whether it still holds."""

    __slots__ = (
        "_cells",
        "_codes",
        "_deep",
        "_mentioned",
        "_names",
        "_watches",
        "components",
        "debug_info",
        "digest",
        "source_missing",
    )

    def __init__(
        self,
        components: tuple[Component, ...],
        watches: Sequence[Watch],
        codes: Sequence[tuple[FunctionType, CodeType]],
        *,
        debug_info: bool = False,
        source_missing: bool = False,
    ):
        self.components = components
        self.digest = digest([tuple(component) for component in components])
        """64 hex digits over all components."""
        self.debug_info = debug_info
        self.source_missing = source_missing
        """Whether the source text was not to be found, so that compiled code stands for it."""
        self._watches = tuple(watches)
        self._codes = tuple(codes)
        self._mentioned: frozenset[str] | None = None
        self._index()

    def _index(self) -> None:
        """Lay the watches out for the warm path."""
        self._deep = [watch for watch in self._watches if watch.deep]
        plain = [watch for watch in self._watches if not watch.deep]
        self._cells = [(w.container, w.expected) for w in plain if isinstance(w.container, CellType)]
        self._names = [(w.container.get, w.name, w.expected) for w in plain if not isinstance(w.container, CellType)]

    def __repr__(self) -> str:
        return f"<FunctionKey {self.digest[:12]}: {len(self.components)} components>"

    def check(self, *, environment: bool = True) -> bool:
        """Whether the key still holds; False: compute it again.

        A changed value of a global variable or closure cell raises `RuntimeError`, unless
        FLYDSL_COMPILE_GLOBALS=recompile. A changed helper, class or module never does. `environment=False` is for a
        caller that compares `config.environment_snapshot()` itself: the switch for debug info is not looked at.
        """
        missing = MISSING
        for get, name, expected in self._names:
            if get(name, missing) is not expected:
                return self._compare()
        try:
            for cell, expected in self._cells:
                if cell.cell_contents is not expected:
                    return self._compare()
        except ValueError:
            if any(contents(cell) is not expected for cell, expected in self._cells):
                return self._compare()
        for function, code in self._codes:
            if function.__code__ is not code:
                return False
        for watch in self._deep:
            if not watch.unchanged(watch.current()):
                return self._compare()
        return not environment or config.debug.enable_debug_info == self.debug_info

    def identities(self) -> Identities | None:
        """What `check` compares by identity: names, closure cells and code; None if some value must be looked into."""
        return None if self._deep else (self._names, self._cells, self._codes)

    def names(self) -> frozenset[str]:
        """Every global name and attribute the code mentions."""
        if self._mentioned is None:
            codes = [part for _, code in self._codes for part in all_codes(code)]
            self._mentioned = frozenset(name for code in codes for name in code.co_names)
        return self._mentioned

    def _compare(self) -> bool:
        """The slow way: which value changed, and what follows from it."""
        refreshed = False
        for watch in self._watches:
            value = watch.current()
            before = watch.expected
            if value is before and not watch.deep:
                continue
            if not watch.unchanged(value):
                if (
                    watch.kind != "value"
                    or config.compile.globals == "recompile"
                    or is_snapshot(value)
                    or self._only_callables(watch, value)
                ):
                    return False
                raise DSLRuntimeError(
                    f"{watch.name!r} of {watch.module} has changed since a kernel that uses it was compiled: it was "
                    f"{watch.old}, now it is {reprlib.repr(value)}. Pass it as an argument (Constexpr), or set "
                    "FLYDSL_COMPILE_GLOBALS=recompile to compile again for each value"
                )
            refreshed = refreshed or watch.expected is not before
        if refreshed:
            self._index()
        return all(f.__code__ is c for f, c in self._codes) and config.debug.enable_debug_info == self.debug_info

    @staticmethod
    def _only_callables(watch: Watch, value: object) -> bool:
        """Whether a container differs in the functions and classes it holds, not in its values."""
        if not watch.deep or value is MISSING:
            return False
        try:
            return _token(value, blank=True) == watch.blank
        except TypeError:
            return False


def changed_components(ours: Iterable[Sequence[str]], theirs: Iterable[Sequence[str]]) -> list[tuple[str, str]]:
    """Name and kind of the components in which two keys differ, those of `ours` first.

    Components are (name, kind, digest), as in `FunctionKey.components` or read back from an artifact's header.
    """
    left = [tuple(component) for component in ours]
    right = [tuple(component) for component in theirs]
    differ = [c for c in left if c not in right] + [c for c in right if c not in left]
    return list(dict.fromkeys((c[0], c[1]) for c in differ))
