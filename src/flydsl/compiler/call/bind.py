"""The first step of a call: its arguments by parameter, adapted, with what they contribute to its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...errors import DSLOverflowError, DSLTypeError, DSLValueError, FlyDSLError
from ..key.constant_keys import constexpr_key
from .arguments import Argument, adapt

if TYPE_CHECKING:
    from ..frontend.signature import Parameter, Signature
    from ..key.function_key import FunctionKey, Problem, Walked


class BoundCall(NamedTuple):
    """The arguments of one call, adapted, with what they contribute to its key."""

    given: Mapping[str, object]
    """By parameter: the values as the caller gave them, defaults included."""
    arguments: dict[str, object]
    """By parameter: Python values of constexprs, adapters of run-time arguments."""
    adapted: dict[str, Argument]
    """The adapters alone."""
    key: tuple[object, ...]
    problems: tuple[Problem, ...] = ()
    """What of its compile-time values no key can hold."""
    objects: frozenset[str] = frozenset()
    """Parameters whose compile-time values are no plain ones."""
    told: Walked | None = None
    """What the code may read of these."""


def bind(
    signature: Signature,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    function: Callable[[], FunctionKey],
    *,
    method: bool = False,
) -> BoundCall:
    """Adapt the arguments of a call.

    `function` gives the key of the function, asked for where a compile-time value is no plain one: an object counts for
    what the code can read of it. The first argument of a `method` is such an object.
    """
    given = signature.bind(args, kwargs)
    arguments: dict[str, object] = {}
    adapted: dict[str, Argument] = {}
    key: list[object] = []
    objects: dict[str, object] = {}
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        value = given[name]
        if (i == 0 and method) or parameter.kind in ("constexpr", "type"):
            if parameter.kind == "constexpr":
                _check_constexpr(parameter, value)
            elif parameter.kind == "type" and not isinstance(value, type):
                raise DSLTypeError(f"parameter '{name}' expects a class, got {value!r}")
            arguments[name] = value
            try:
                key.append((name, type(value).__name__, constexpr_key(value)))
            except TypeError:
                objects[name] = value
        elif value is None and parameter.optional:
            arguments[name] = None
            key.append((name, None))
        else:
            try:
                argument = adapt(name, value, parameter.annotation)
                argument.check()
            except (DSLTypeError, DSLValueError, DSLOverflowError) as error:
                raise _named(error, name) from error.__cause__
            arguments[name] = adapted[name] = argument
            key.append((name, argument.__cache_signature__()))
    if not objects:
        return BoundCall(given, arguments, adapted, tuple(key))
    told = function().with_values(objects)
    parts = (*key, tuple(objects), told.digest)
    return BoundCall(given, arguments, adapted, parts, told.problems, frozenset(objects), told)


def _named(error: FlyDSLError, name: str) -> FlyDSLError:
    """An error about an argument, which says which one."""
    text = str(error)
    return error if f"'{name}'" in text else type(error)(f"parameter '{name}': {text}")


def _check_constexpr(parameter: Parameter, value: object) -> None:
    check = getattr(parameter.annotation, "check", None)
    if check is not None:
        check(parameter.name, value)
