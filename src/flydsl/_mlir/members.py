"""Members that MLIR's bindings have on types, attributes, values and uses, put on the classes that stand for these.

xDSL has no member of any of these names, but for `replace_all_uses_with`, which goes on to take its own values. A field
of an attribute comes before a member of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import builtin
from xdsl.ir import Attribute, SSAValue, TypeAttribute, Use
from xdsl.ir import Operation as XOperation
from xdsl.ir.affine import AffineMap

from ..errors import DSLTypeError, DSLValueError
from ..expr.emit.facade import Made
from ..expr.scalars.operators import Operators
from ..ir.emitter import retype
from ..ir.readable import Truth, readable
from ..ir.values import Computes
from .insertion import Context, Location, location_of
from .operations import owner_of
from .text import value_name
from .values import unwrap


@dataclass(frozen=True)
class NamedAttribute:
    """An attribute with its name."""

    name: str
    attr: Attribute

    def __str__(self) -> str:
        return f"NamedAttribute({self.name}={self.attr})"


class Read(classmethod):  # pyright: ignore[reportMissingTypeArgument]
    """A property that a field of the object's own hides. xDSL takes what it does not know in a class of attributes for
    a mistake in its definition, and lets methods of classes be."""

    def __init__(self, read: Callable[[Any], object]):
        super().__init__(cast(Any, read))  # pyright: ignore[reportUnknownMemberType]
        self._read = read

    def __get__(self, held: object, cls: type | None = None) -> Made:
        return self if held is None else self._read(held)


def _current(_: object) -> Context:
    return cast(Context, Context.current)


# --- types ------------------------------------------------------------------------------------------------------------


def _size(type_: builtin.ShapedType, dim: int) -> int:
    return type_.get_shape()[dim]


def _is_dynamic(number: int) -> bool:
    return number == builtin.DYNAMIC_INDEX


def strides_and_offset(type_: builtin.MemRefType[Attribute]) -> tuple[list[int], int]:
    """Strides and offset of a memref; an unknown one is `get_dynamic_stride_or_offset()`."""
    layout = type_.layout
    if isinstance(layout, builtin.StridedLayoutAttr):
        known = [layout.offset, *layout.strides.data]
        offset, *strides = (builtin.DYNAMIC_INDEX if isinstance(n, builtin.NoneAttr) else n.data for n in known)
        return strides, offset
    if not isinstance(layout, builtin.NoneAttr):
        raise DSLValueError(f"the layout {layout} of {type_} has no strides that are known by number")
    strides, step = list[int](), 1
    for extent in reversed(type_.get_shape()):
        strides.insert(0, step)
        step = builtin.DYNAMIC_INDEX if _is_dynamic(step) or _is_dynamic(extent) else step * extent
    return strides, 0


def _affine_map(type_: builtin.MemRefType[Attribute]) -> AffineMap:
    if isinstance(type_.layout, builtin.AffineMapAttr):
        return type_.layout.data
    if isinstance(type_.layout, builtin.NoneAttr):
        return AffineMap.identity(len(type_.get_shape()))
    raise DSLValueError(f"the layout of {type_} is given by strides: use get_strides_and_offset()")


_SHAPED: dict[str, object] = {
    "has_rank": Read(lambda type_: True),
    "is_dynamic_size": lambda type_, n: _is_dynamic(n),  # pyright: ignore
    "is_static_size": lambda type_, n: not _is_dynamic(n),  # pyright: ignore
    "is_dynamic_stride_or_offset": lambda type_, n: _is_dynamic(n),  # pyright: ignore
    "is_static_stride_or_offset": lambda type_, n: not _is_dynamic(n),  # pyright: ignore
    "get_dim_size": _size,
    "is_dynamic_dim": lambda type_, dim: _is_dynamic(_size(type_, dim)),  # pyright: ignore
    "is_static_dim": lambda type_, dim: not _is_dynamic(_size(type_, dim)),  # pyright: ignore
}


# --- attributes -------------------------------------------------------------------------------------------------------


def _entry(held: builtin.DictionaryAttr, key: str | int) -> object:
    if isinstance(key, str):
        return readable(held.data[key])
    name = sorted(held.data)[key]
    return NamedAttribute(name, readable(held.data[name]))


def _entries(held: builtin.DictionaryAttr) -> Iterator[NamedAttribute]:
    return (NamedAttribute(name, readable(held.data[name])) for name in sorted(held.data))


def _numbers(held: builtin.DenseArrayBase[Any]) -> list[int | float]:
    return [bool(n) if held.elt_type == builtin.i1 else n for n in held.get_values()]


def _longer(held: builtin.DenseArrayBase[Any], more: Iterable[int]) -> Attribute:
    return readable(builtin.DenseArrayBase.from_list(held.elt_type, [*_numbers(held), *more]))  # pyright: ignore


def _all_equal(held: builtin.DenseIntOrFPElementsAttr[Any]) -> Truth:
    values = held.get_values()
    return Truth(values.count(values[0]) == len(values))


def _splat_value(held: builtin.DenseIntOrFPElementsAttr[Any]) -> Attribute:
    if not _all_equal(held):
        raise DSLValueError(f"{held} has more than one number")
    return readable(held.get_attrs()[0])


ATTRIBUTES: dict[type, dict[str, object]] = {
    Attribute: {
        "context": Read(_current),
        "maybe_downcast": readable,
        "get_named": lambda attr, name: NamedAttribute(name, attr),  # pyright: ignore
    },
    TypeAttribute: {"value": Read(readable)},  # a type where an attribute is asked for is the type itself
    builtin.TensorType: _SHAPED,
    builtin.VectorType: {
        **_SHAPED,
        "scalable": Read(lambda type_: any(bool(n.value.data) for n in type_.scalable_dims.data)),
    },
    builtin.MemRefType: {
        **_SHAPED,
        "get_strides_and_offset": strides_and_offset,
        "affine_map": Read(_affine_map),
    },
    builtin.FunctionType: {"results": Read(lambda type_: type_.outputs)},
    builtin.TupleType: {
        "num_types": Read(lambda type_: len(type_.types.data)),
        "get_type": lambda type_, i: readable(type_.types.data[i]),  # pyright: ignore
    },
    builtin.IntegerAttr: {"__int__": lambda held: int(held.value.data)},  # pyright: ignore
    builtin.FloatAttr: {"__float__": lambda held: float(held.value.data)},  # pyright: ignore
    builtin.StringAttr: {"value_bytes": Read(lambda held: held.data.encode())},
    builtin.DictionaryAttr: {
        "__getitem__": _entry,
        "__iter__": _entries,
        "__contains__": lambda held, name: name in held.data,  # pyright: ignore
        "__len__": lambda held: len(held.data),  # pyright: ignore
        "__bool__": lambda held: True,  # pyright: ignore
    },
    builtin.DenseArrayBase: {
        "__getitem__": lambda held, i: _numbers(held)[i],  # pyright: ignore
        "__iter__": lambda held: iter(_numbers(held)),  # pyright: ignore
        "__add__": _longer,
    },
    builtin.DenseIntOrFPElementsAttr: {
        "__getitem__": lambda held, i: held.get_values()[i],  # pyright: ignore
        "__iter__": lambda held: iter(held.get_values()),  # pyright: ignore
        "is_splat": Read(_all_equal),
        "get_splat_value": _splat_value,
    },
}  # fmt: skip
"""By the classes of xDSL's that get them."""


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
    Operators: {**_members_of_values(), "uses": Read(lambda value: unwrap(value).uses)},
    Use: {
        "owner": Read(lambda use: owner_of(use)),
        "operand_number": Read(lambda use: use.index),
    },
}  # fmt: skip


def add_members(to: dict[type, dict[str, object]]) -> None:
    """Put members on classes."""
    for cls, members in to.items():
        for name, member in members.items():
            setattr(cls, name, member)


add_members(ATTRIBUTES)
add_members(VALUES)

__all__ = ["NamedAttribute", "Read", "add_members", "strides_and_offset"]
