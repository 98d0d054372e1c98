"""Members that MLIR's bindings have on values, put on the classes of ours that stand for these.

xDSL has no member of any of these names, but for `replace_all_uses_with`, which goes on to take its own values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from xdsl.ir import Attribute, SSAValue, TypeAttribute
from xdsl.ir import Operation as XOperation

from ..errors import DSLTypeError
from ..expr.emit.facade import Made
from ..expr.scalars.operators import Operators
from ..ir.emitter import retype
from ..ir.values import Computes
from .insertion import Context, Location, location_of
from .operations import owner_of
from .text import value_name
from .values import unwrap


class Read:
    """A property that a field of the object's own hides."""

    def __init__(self, read: Callable[[Any], object]):
        self._read = read

    def __get__(self, held: object, cls: type | None = None) -> Made:
        return self if held is None else self._read(held)


def _current(_: object) -> Context:
    return cast(Context, Context.current)


# --- values -----------------------------------------------------------------------------------------------------------


def _name(value: object, use_local_scope: bool = False, use_name_loc_as_prefix: bool = False) -> str:
    """The name it has in print, as `%0`."""
    return value_name(unwrap(value), use_local_scope)


def _replace(value: object, other: object) -> None:
    """Let all its users use another value."""
    _replace_except(value, other, ())


def _replace_except(value: object, other: object, exceptions: object) -> None:
    """Let all its users but these ops use another value."""
    raw, by = unwrap(value), unwrap(other, "what replaces a value")
    given = cast("Sequence[object]", exceptions if isinstance(exceptions, Sequence) else [exceptions])
    kept = {getattr(op, "raw", op) for op in given}
    for use in tuple(raw.uses):
        if use.operation not in kept:
            use.operation.operands[use.index] = by


def _index(kind: type[SSAValue], what: str) -> Read:
    def read(value: object) -> int:
        raw = unwrap(value)
        if not isinstance(raw, kind):
            raise AttributeError(f"{raw.type} is no {what}")
        return cast(Any, raw).index

    return Read(read)


def _retype(value: object, type_: Attribute) -> None:
    """Give it another type; scalars and vectors of the language that hold it stay what they are."""
    if not isinstance(type_, TypeAttribute):
        raise DSLTypeError(f"expected a type, got {type_!r}")
    retype(unwrap(value), type_)


def _location(value: object) -> Location:
    owner = unwrap(value).owner
    return Location(owner.location if isinstance(owner, XOperation) else location_of(None))


class OpOperand(NamedTuple):
    """A place where a value is used."""

    owner: object
    operand_number: int


def _uses(value: object) -> list[OpOperand]:
    return [OpOperand(owner_of(use), use.index) for use in unwrap(value).uses]


def _members_of_values() -> dict[str, object]:
    from xdsl.ir import BlockArgument, OpResult

    return {
        "get_name": _name,
        "replace_all_uses_with": _replace,
        "replace_all_uses_except": _replace_except,
        "set_type": _retype,
        "maybe_downcast": lambda value: value,  # pyright: ignore
        "result_number": _index(OpResult, "result of an operation"),
        "arg_number": _index(BlockArgument, "argument of a block"),
        "context": Read(_current),
        "location": Read(_location),
    }


VALUES: dict[type, dict[str, object]] = {
    Computes: _members_of_values(),
    Operators: {**_members_of_values(), "uses": Read(_uses)},
}  # fmt: skip


def add_members(to: dict[type, dict[str, object]]) -> None:
    """Put members on classes."""
    for cls, members in to.items():
        for name, member in members.items():
            setattr(cls, name, member)


add_members(VALUES)
