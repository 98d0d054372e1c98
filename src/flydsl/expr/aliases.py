"""Parameters that are also known by another name.

The parameters of the language are called as in FlyDSL; names under which they were published here before stay good as
keywords. What is passed by position, and every keyword of the new name, goes straight through.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

from ..errors import DSLAttributeError, DSLTypeError

F = TypeVar("F", bound=Callable[..., object])


def also_called(**names: str) -> Callable[[F], F]:
    """A function whose parameters may be given by other keywords: `@also_called(other="own")`.

    >>> @also_called(x="layout")
    ... def size_of(layout):
    ...     return layout * 2
    >>> size_of(3), size_of(layout=3), size_of(x=3)
    (6, 6, 6)
    >>> size_of(3, x=3)
    Traceback (most recent call last):
    TypeError: size_of() got multiple values for argument 'layout'
    """
    others = names.keys()

    def decorate(function: F) -> F:
        made: Any = function

        @wraps(made)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs and not others.isdisjoint(kwargs):
                for other, own in names.items():
                    if other in kwargs:
                        if own in kwargs:
                            raise DSLTypeError(f"{function.__name__}() got both {own!r} and its other name {other!r}")
                        kwargs[own] = kwargs.pop(other)
            return made(*args, **kwargs)

        return call  # pyright: ignore[reportReturnType]

    return decorate


def placed(function: F) -> F:
    """A function that, as MLIR's builders, also takes where its ops go (`ip=`) and come from (`loc=`).

    >>> @placed
    ... def four():
    ...     return 4
    >>> four(), four(loc=None, ip=None)
    (4, 4)
    >>> four(ip=3)
    Traceback (most recent call last):
    flydsl.errors.DSLTypeError: four(): ip= must be an ir.InsertionPoint, got 3
    """
    made: Any = function

    @wraps(made)
    def call(*args: Any, loc: Any = None, ip: Any = None, **kwargs: Any) -> Any:
        if loc is None and ip is None:
            return made(*args, **kwargs)
        with ExitStack() as places:
            for word, place, kind in (("ip", ip, "InsertionPoint"), ("loc", loc, "Location")):
                if place is None:
                    continue
                if not isinstance(place, AbstractContextManager):
                    raise DSLTypeError(f"{function.__name__}(): {word}= must be an ir.{kind}, got {place!r}")
                places.enter_context(cast("AbstractContextManager[object]", place))
            return made(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


def raw_binding(dialect: str, name: str) -> object:
    """A builder or op class of an IR dialect, by the name the MLIR bindings have for it."""
    # Private names are what the import system asks for: they must not load the bindings.
    hidden = name.startswith("_")
    found = None if hidden else getattr(import_module(f"flydsl._mlir.dialects.{dialect}"), name, None)
    if found is None:
        raise DSLAttributeError(f"flydsl.expr.{dialect} has no attribute {name!r}")
    return found


def name_of_language(name: str) -> object:
    """A name of `flydsl.expr`, for modules that offer all of them under another path."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_module("flydsl.expr"), name)


__all__ = ["also_called", "name_of_language", "placed", "raw_binding"]
