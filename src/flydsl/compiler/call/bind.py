"""The first step of a call: its arguments by parameter, adapted, with what they contribute to its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...errors import DSLTypeError
from ..key.constant_keys import attributes_key, class_key, constexpr_key
from .arguments import Argument, adapt

if TYPE_CHECKING:
    from ..frontend.signature import Parameter, Signature


class BoundCall(NamedTuple):
    """The arguments of one call, adapted, with what they contribute to its key."""

    given: Mapping[str, object]
    """By parameter: the values as the caller gave them, defaults included."""
    arguments: dict[str, object]
    """By parameter: Python values of constexprs, adapters of run-time arguments."""
    adapted: dict[str, Argument]
    """The adapters alone."""
    key: tuple[object, ...]


def bind(
    signature: Signature,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    names_read: Callable[[], frozenset[str]] | None = None,
) -> BoundCall:
    """Adapt the arguments of a call.

    For a method, whose first argument is its object, `names_read` tells the names its code mentions: what the object
    holds under other names it cannot read.
    """
    given = signature.bind(args, kwargs)
    arguments: dict[str, object] = {}
    adapted: dict[str, Argument] = {}
    key: list[object] = []
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        value = given[name]
        if i == 0 and names_read is not None:
            cls = value.__class__
            arguments[name] = value
            key.append((cls.__module__, cls.__qualname__, attributes_key(value, names_read())))
        elif parameter.kind == "constexpr":
            _check_constexpr(parameter, value)
            arguments[name] = value
            key.append((name, type(value).__name__, constexpr_key(value)))
        elif parameter.kind == "type":
            if not isinstance(value, type):
                raise DSLTypeError(f"parameter '{name}' expects a class, got {value!r}")
            arguments[name] = value
            key.append((name, class_key(value)))
        elif value is None and parameter.optional:
            arguments[name] = None
            key.append((name, None))
        else:
            argument = adapt(name, value, parameter.annotation)
            argument.check()
            arguments[name] = adapted[name] = argument
            key.append((name, argument.__cache_signature__()))
    return BoundCall(given, arguments, adapted, tuple(key))


def _check_constexpr(parameter: Parameter, value: object) -> None:
    check = getattr(parameter.annotation, "check", None)
    if check is not None:
        check(parameter.name, value)
