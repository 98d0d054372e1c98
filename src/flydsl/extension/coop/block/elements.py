"""The items that collectives of a block move: scalars, vectors and structs, each as a whole.

A thread brings one item, or several: a Vector of scalars, or a list of items of any class. What comes back has the same
form, a Vector where the items are scalars and a tuple where they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.gpu import shuffle
from ....expr.numeric import Boolean, Numeric, as_numeric
from ....expr.scalars.scalar_ops import common_type
from ....expr.structs import StructValue, coerce, is_specializable_struct_type, is_struct_type, value_type
from ....expr.vector import Vector
from ..elements import leaves

if TYPE_CHECKING:
    from ....expr.annotations import IntLike

Item: TypeAlias = "Numeric | Vector | StructValue"
ItemType: TypeAlias = "type[Numeric] | type[Vector] | type[StructValue]"
Items: TypeAlias = "Numeric | Vector | StructValue | tuple[Item, ...]"
"""What a thread brings or gets."""


def is_scalar_class(dtype: object) -> TypeGuard[type[Numeric]]:
    """Whether a class is one of concrete scalars."""
    return isinstance(dtype, type) and issubclass(dtype, Numeric) and bool(dtype.width)


def is_vector_class(dtype: object) -> TypeGuard[type[Vector]]:
    """Whether a class is one of Vectors with a shape."""
    return isinstance(dtype, type) and issubclass(dtype, Vector) and dtype.fixed


def check_item_type(owner: str, dtype: object) -> ItemType:
    """A class whose values can be items."""
    if is_scalar_class(dtype) or is_vector_class(dtype):
        scalar = cast("type[Numeric]", dtype if is_scalar_class(dtype) else dtype.dtype)
        if scalar.width < 8 and scalar is not Boolean:
            raise DSLTypeError(f"{owner}: items narrower than a byte have no place of their own, got {dtype}")
        return dtype
    if is_struct_type(dtype) and not is_specializable_struct_type(dtype):
        for field in dtype.__fields__:
            if not field.is_constexpr:
                check_item_type(f"{owner}: field {field.name!r}", value_type(field.type))
        return cast("type[StructValue]", dtype)
    raise DSLTypeError(
        f"{owner}: dtype must be a scalar class such as fx.Float32, a Vector class such as fx.Float32x4 or a struct of "
        f"such, got {dtype!r}"
    )


# --- one item -----------------------------------------------------------------------------------------------------


def as_item(owner: str, dtype: ItemType, value: object) -> Item:
    """A value as an item: Python numbers become scalars, everything else must be of the class already."""
    if not is_scalar_class(dtype):
        return coerce(dtype, value)
    if isinstance(value, Vector):
        raise DSLTypeError(f"{owner} takes items of {dtype}, got the Vector {value!r} as one of them")
    number = as_numeric(value)
    if not number.is_static() and type(number) is not dtype:
        raise DSLTypeError(f"{owner} takes {dtype}, got a {type(number)}; convert it with .to()")
    return dtype(number)


def widened(owner: str, dtype: ItemType, value: object) -> Item:
    """The same, where scalars that lose nothing convert by themselves."""
    if is_scalar_class(dtype) and isinstance(value, Numeric) and type(value) is not dtype:
        if common_type(type(value), dtype) is dtype:
            return dtype(value)
    return as_item(owner, dtype, value)


def converted(owner: str, value: Item, dtype: ItemType) -> Item:
    """An item as another class: scalars convert, vectors element by element, structs stay what they are."""
    if is_scalar_class(dtype) and isinstance(value, Numeric):
        return dtype(value)
    if is_vector_class(dtype) and isinstance(value, Vector) and value.shape == dtype.shape:
        return dtype(value.to(dtype.dtype))
    if isinstance(value, StructValue) and isinstance(value, dtype):
        return value
    raise DSLTypeError(f"{owner}: a {type(value).__name__} does not convert to {dtype}")


def filled(owner: str, dtype: ItemType, value: object) -> Item:
    """An item to fill holes with: an item, or a number for all its elements and fields."""
    if not isinstance(value, (Numeric, int, float)):
        return as_item(owner, dtype, value)
    if is_scalar_class(dtype):
        return dtype(value)
    if is_vector_class(dtype):
        return dtype(dtype.dtype(value))
    fields = cast("type[StructValue]", dtype).__fields__
    return cast("type[StructValue]", dtype)(
        **{f.name: filled(owner, cast("ItemType", f.type), value) for f in fields if not f.is_constexpr}
    )


def select(condition: Boolean, yes: Item, no: Item) -> Item:
    """`yes` where the condition holds, else `no`."""
    return cast("Item", condition.select(yes, no))


def from_lane(item: Item, lane: IntLike, width: int, mode: str) -> Item:
    """The item of another lane of the warp, as `fx.gpu.shuffle` says which."""

    def move(part: Numeric | Vector) -> Numeric | Vector:
        moved = shuffle(part, lane, width, mode)
        return type(part)(moved) if isinstance(part, Vector) and part.fixed else moved

    return leaves(move, item)


def differ(a: Item, b: Item) -> Boolean:
    """Whether two items differ in any element or field."""
    if isinstance(a, StructValue):
        both = zip(a.__values__(), cast("StructValue", b).__values__(), strict=True)
        found = [differ(cast("Item", x), cast("Item", y)) for (_, x), (_, y) in both]
    elif isinstance(a, Vector):
        found = [x != y for x, y in zip(a, cast("Vector", b), strict=True)]
    else:
        return Boolean(a != b)
    answer = found[0]
    for one in found[1:]:
        answer = answer | one
    return Boolean(answer)


# --- the items of a thread ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """How a thread brought its items, and gets them back."""

    owner: str
    dtype: ItemType
    count: int
    single: bool
    """One item, not a sequence of one."""
    shape: object = None
    """Of the Vector they came in."""

    def join(self, items: Sequence[Item], dtype: ItemType | None = None) -> Items:
        """Items in the same form; `dtype` is their class if it is another."""
        kind = self.dtype if dtype is None else dtype
        if self.single:
            return items[0]
        if not is_scalar_class(kind):
            return tuple(items)
        made = Vector.from_elements(cast("Sequence[Numeric]", items), kind)
        return made if self.shape is None else made.reshape(cast("tuple[int, ...]", self.shape))


def split(
    owner: str, dtype: ItemType, value: object, count: int | None = None, widen: bool = False
) -> tuple[list[Item], Form]:
    """The items a thread brings, checked, and their form; `count` is how many there must be."""
    convert = widened if widen else as_item
    shape: object = None
    single = False
    if isinstance(value, (list, tuple)):
        found = [convert(owner, dtype, item) for item in cast("Sequence[object]", value)]
    elif isinstance(value, Vector) and is_scalar_class(dtype):
        found = [convert(owner, dtype, item) for item in value]
        shape = value.shape
    else:
        found = [convert(owner, dtype, value)]
        single = True
    if not found:
        raise DSLValueError(f"{owner}: a thread brings at least one item, got {value!r}")
    if count is not None and len(found) != count:
        raise DSLValueError(f"{owner} takes {count} items per thread, got {len(found)}")
    return found, Form(owner, dtype, len(found), single, shape)


def numbers(owner: str, what: str, value: object, dtype: type[Numeric], count: int) -> list[Numeric]:
    """One integer (or flag) for each item, of a class."""
    parts = list(cast("Sequence[object]", value)) if isinstance(value, (list, tuple, Vector)) else [value]
    found = [as_numeric(part) for part in parts]
    if len(found) != count:
        raise DSLValueError(f"{owner}: {what} must be {count} integers, one for each item, got {len(found)}")
    for number in found:
        if number.is_float:
            raise DSLTypeError(f"{owner}: {what} must be integers, got a {type(number)}")
    return [dtype(number) for number in found]
