"""`Constexpr[T]`: a parameter or field whose value is part of the compiled program."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard, TypeVar, cast

from ..errors import DSLTypeError

_SCALARS = (int, bool, float, str)
_TYPING_CALLABLE: object = typing.Callable  # pyright: ignore[reportUnknownMemberType]


class ConstexprType:
    """What `Constexpr[T]` is: an annotation."""

    def __init__(self, inner: Any):
        self.inner = inner

    def check(self, name: str, value: object) -> None:
        """Raise unless `value` can be a compile-time value of this type."""
        if not self.accepts(value):
            hint = ""
            if hasattr(type(value), "__extract_to_ir_values__"):
                hint = (
                    "; it is known at run time only. Annotate the parameter with fx.Int32 or its like, or make it "
                    "known: extents of arrays wrapped by flyc.from_dlpack(x) are"
                )
            raise DSLTypeError(f"parameter '{name}' expects {self}, got {value!r} of type {type(value).__name__}{hint}")

    def accepts(self, value: object) -> bool:
        """Whether a value is of the declared type."""
        return _accepts(self.inner, value)

    is_specialized = True

    @property
    def value_type(self) -> object:
        """The declared type."""
        return self.inner

    def __repr__(self) -> str:
        return f"Constexpr[{getattr(self.inner, '__name__', self.inner)}]"


def _accepts(inner: Any, value: object) -> bool:
    if inner is Any:
        return _is_plain(value)
    if inner is bool:
        return isinstance(value, bool)
    if inner is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if inner is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if inner is str:
        return isinstance(value, str)
    origin = typing.get_origin(inner)
    if inner is tuple or origin is tuple:
        if not isinstance(value, tuple):
            return False
        items = cast("tuple[object, ...]", value)
        args = typing.get_args(inner)
        if not args:
            return _is_plain(items)
        if len(args) == 2 and args[1] is Ellipsis:
            return all(_accepts(args[0], v) for v in items)
        return len(args) == len(items) and all(map(_accepts, args, items))
    if inner is Callable or origin is Callable or inner is _TYPING_CALLABLE:
        return is_capture_free(value)
    return _is_tuple_class(inner) and isinstance(value, inner) and _is_plain(value)


def _is_tuple_class(inner: object) -> TypeGuard[type]:
    """Whether an annotation is a class of tuples: a NamedTuple is plain if its fields are."""
    return isinstance(inner, type) and issubclass(inner, tuple)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(v) for v in cast("tuple[object, ...]", value))
    return value is None or isinstance(value, _SCALARS) or is_capture_free(value)


def is_capture_free(value: object) -> bool:
    """Whether a callable is a lambda or function that reads nothing but its parameters."""
    if not isinstance(value, types.FunctionType):
        return False
    return not value.__code__.co_freevars and not value.__code__.co_names


class _ConstexprFactory:
    """`Constexpr[int]`, `Constexpr[tuple]`, a NamedTuple, ...; bare `Constexpr` accepts any plain value.

    >>> fx.Constexpr[int], fx.Constexpr[int].accepts(4), fx.Constexpr[int].accepts(4.0)
    (Constexpr[int], True, False)
    >>> from typing import NamedTuple
    >>> Tile = NamedTuple("Tile", [("m", int), ("n", int)])
    >>> fx.Constexpr[Tile].accepts(Tile(64, 128)), fx.Constexpr[Tile].accepts((64, 128))
    (True, False)
    """

    def __getitem__(self, inner: object) -> ConstexprType:
        ok = inner in (*_SCALARS, tuple, Any, Callable, _TYPING_CALLABLE) or typing.get_origin(inner) in (
            tuple,
            Callable,
        )
        if not ok and not _is_tuple_class(inner) and typing.get_origin(inner) is not type(Callable):
            raise DSLTypeError(f"Constexpr takes int, bool, float, str, tuple, a NamedTuple or Callable, got {inner!r}")
        return ConstexprType(inner)

    is_specialized = False
    """Whether a type is said."""
    value_type: object = Any
    value: object = None

    @staticmethod
    def is_constexpr_annotation(annotation: object) -> bool:
        """Whether an annotation is `Constexpr` or one of `Constexpr[...]`."""
        return isinstance(annotation, (ConstexprType, _ConstexprFactory))

    @staticmethod
    def value_signature(value: object) -> object:
        """What of a compile-time value enters the cache key."""
        return (type(value).__name__, repr(value))

    def __repr__(self) -> str:
        return "Constexpr"


if TYPE_CHECKING:
    C = TypeVar("C")
    Constexpr = Annotated[C, "a compile-time value"]
else:
    Constexpr = _ConstexprFactory()
"""Annotation of compile-time parameters: `n: fx.Constexpr[int]`."""
