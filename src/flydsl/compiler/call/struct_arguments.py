"""Structs of numbers in repeated calls: which classes can be served, and where their numbers are."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from ...expr.numeric import Numeric
from ...expr.structs import StructValue, method_functions
from .arguments import UserArgument


class Leaf(NamedTuple):
    """A number inside a struct."""

    name: str
    dtype: type[Numeric]


_leaves: WeakKeyDictionary[type, tuple[Leaf, ...] | None] = WeakKeyDictionary()


def struct_leaves(argument: object) -> tuple[Leaf, ...] | None:
    """The numbers of a struct in the order of their slots; None where its class does not say all about its code.

    The class of an instance carries its compile-time fields, and a field declared as a number holds one of that class.
    A struct with methods is left out: what they reach may change. So is one that holds anything else.
    """
    value = argument.adapter if isinstance(argument, UserArgument) else None
    if not isinstance(value, StructValue):
        return None
    cls = type(value)
    if cls not in _leaves:
        _leaves[cls] = _find(value)
    return _leaves[cls]


def _find(value: StructValue) -> tuple[Leaf, ...] | None:
    if method_functions(type(value).__declared__):
        return None
    found: list[Leaf] = []
    for field, held in value.__values__():
        declared: object = field.type
        if not isinstance(declared, type) or not issubclass(declared, Numeric) or type(held) is not declared:
            return None  # also a struct in a struct: its class may differ from one instance to the next
        found.append(Leaf(field.name, declared))
    return tuple(found)
