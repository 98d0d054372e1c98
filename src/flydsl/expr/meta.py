"""For authors of functions like those of the language: options of a trace, and where in the user's code it is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import DSLRuntimeError
from .numeric import Numeric, as_dsl_value, is_ir_value
from .vector import Vector

if TYPE_CHECKING:
    from .annotations import Attribute

F = TypeVar("F", bound=Callable[..., object])
_options: ContextVar[Mapping[str, object]] = ContextVar("flydsl_tracing_options", default=MappingProxyType({}))


def dsl_loc_tracing(fn: F) -> F:
    """Mark a function whose operations belong to the line that calls it.

    Operations get the line of the user's code they come from without it: the chain of calls is recorded.
    """
    return fn


def tracing_context(func: Callable[..., object] | None = None, **options: object) -> Any:
    """Set options that `tracing_option` reads: around a block, or around every call of a function.

    >>> with tracing_context(unroll=4):
    ...     tracing_option("unroll"), tracing_option("order", "rows")
    (4, 'rows')
    >>> @tracing_context(unroll=2)
    ... def unrolling():
    ...     return tracing_option("unroll")
    >>> unrolling(), tracing_option("unroll")
    (2, None)
    """
    made = _context(options)
    return made if func is None else made(func)


@contextmanager
def _context(options: dict[str, object]) -> Generator[None]:
    token = _options.set({**_options.get(), **options})
    try:
        yield
    finally:
        _options.reset(token)


tracing_options: Callable[[], Mapping[str, object]] = _options.get
"""All options of now: code that was traced under others is other code. Asked at every call, so there is no Python code
in between."""


def tracing_option(key: str, default: object = None) -> Any:
    """An option of the innermost `tracing_context` that has it."""
    return _options.get().get(key, default)


def capture_user_location() -> Attribute:
    """The location of the user's line that is being traced, an IR attribute."""
    from .emit.tracer import user_location

    found = user_location()
    if found is None:
        raise DSLRuntimeError("no line of user code is being traced")
    return found


def file_location(filename: str, line: int, col: int = 0, context: object = None) -> Attribute:
    """A location by file, line and column."""
    from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

    return FileLineColLoc(StringAttr(filename), IntAttr(line), IntAttr(col))


def _wrapped(value: object, target: object) -> object:
    if isinstance(value, (tuple, list)):
        items = [_wrapped(v, target) for v in cast("Sequence[object]", value)]
        return items if isinstance(value, list) else tuple(items)
    if not is_ir_value(value):
        return value
    if isinstance(target, type) and issubclass(target, (Numeric, Vector)):
        return cast(Any, target)(value)
    return as_dsl_value(value, cast(object, target))


def dsl_wrap_result(target: object = None) -> Callable[..., object]:
    """Decorate a function on raw values so that its results are values of the language, of `target` if given.

    >>> @dsl_wrap_result
    ... def same(x):
    ...     return x
    >>> same(3)
    3
    """
    if callable(target) and not isinstance(target, type):
        return cast("Callable[..., object]", dsl_wrap_result()(target))

    def decorate(function: Callable[..., object]) -> Callable[..., object]:
        @wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            return _wrapped(function(*args, **kwargs), target)

        return call

    return decorate


def dsl_math_wrap_result(
    fn: Callable[..., object] | None = None, *, exemplar: int = 0, preserve_numeric_type: bool = True
) -> Callable[..., object]:
    """Decorate a function on raw values so that its result is like the argument at `exemplar`: a scalar or a Vector.

    With `preserve_numeric_type` of the class of that argument too, else of the class its IR type names.
    """

    def decorate(function: Callable[..., object]) -> Callable[..., object]:
        @wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            like = args[exemplar] if exemplar < len(args) else None
            result = function(*args, **kwargs)
            if not is_ir_value(result):
                return result
            if isinstance(like, Vector):
                dtype = like.dtype if preserve_numeric_type else None
                return Vector(result, like.shape, dtype)
            if isinstance(like, Numeric) and preserve_numeric_type:
                return type(like)(result)
            return as_dsl_value(result)

        return call

    return decorate if fn is None else decorate(fn)


__all__ = [
    "capture_user_location", "dsl_loc_tracing", "dsl_math_wrap_result", "dsl_wrap_result", "file_location",
    "tracing_context", "tracing_option",
]  # fmt: skip
