"""What collectives work on: elements, and the items of a thread.

An element is a scalar, a Vector or a struct of elements. A list or tuple holds a thread's items; so does a Vector where
the elements are scalars. Items of scalars come back as a Vector, others as a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from ...errors import DSLTypeError, DSLValueError
from ...expr.gpu import shuffle as shuffle_value
from ...expr.numeric import Boolean, Int32, Numeric, as_numeric
from ...expr.structs import CompositeMeta, StructValue, is_struct_type, make_struct
from ...expr.vector import Vector, VectorAlias, wrap

if TYPE_CHECKING:
    from ...expr.annotations import IntLike

Element: TypeAlias = Numeric | Vector | StructValue
ElementType: TypeAlias = type[Numeric] | type[Vector] | CompositeMeta
E = TypeVar("E", bound=Element)
Mapped = Callable[..., Numeric | Vector]


class IsLess(Protocol):
    """A strict order of elements: whether the first comes before the second."""

    def __call__(self, a: Any, b: Any, /) -> object: ...


def is_element_type(dtype: object) -> bool:
    """Whether a class is one of elements: a scalar class, a vector alias, a struct."""
    if isinstance(dtype, type) and issubclass(dtype, Numeric):
        return bool(dtype.width)
    if isinstance(dtype, type) and issubclass(dtype, Vector):
        return dtype.fixed
    return is_struct_type(dtype)


def type_of(element: Element) -> ElementType:
    """The class of an element; the alias of its shape for a Vector."""
    if isinstance(element, Vector):
        return VectorAlias(element.dtype, element.shape)
    return type(element)


def leaves(f: Mapped, first: E, *others: Element) -> E:
    """`f` of the scalars and vectors that elements are made of, field by field."""
    if not isinstance(first, StructValue):
        return cast("E", f(first, *others))
    cls = type(first)
    made = dict(cls.__consts__)
    for field, value in first.__values__():
        made[field.name] = leaves(f, cast("Element", value), *(getattr(other, field.name) for other in others))
    return cast("E", make_struct(cls, made))


def select(condition: Boolean, a: E, b: E) -> E:
    """`a` where the condition holds, else `b`."""
    if a is b:
        return a

    def chosen(x: Numeric | Vector, y: Numeric | Vector) -> Numeric | Vector:
        return cast("Numeric | Vector", condition.select(x, y))

    return leaves(chosen, a, b)


def shuffle(value: E, by: IntLike, width: int, mode: str) -> E:
    """The element of another lane."""

    def moved(x: Numeric | Vector) -> Numeric | Vector:
        return shuffle_value(x, by, width, mode)

    return leaves(moved, value)


def convert(value: object, dtype: ElementType, what: str) -> Element:
    """A value as an element of a class; a number fills all that a vector or a struct is made of."""
    if isinstance(value, StructValue):
        if is_struct_type(dtype) and isinstance(value, dtype):
            return value
        raise DSLTypeError(f"{what} must be {dtype}, got {value!r}")
    if isinstance(dtype, CompositeMeta):
        return _filled(dtype, value, what)
    if issubclass(dtype, Vector):
        if not isinstance(value, Vector):
            return _plain(dtype.filled(dtype.shape, as_numeric(value), dtype.dtype))
        if value.shape != dtype.shape:
            raise DSLTypeError(f"{what} must be {dtype}, got a Vector of shape {value.shape}")
        return _plain(value if value.dtype is dtype.dtype else value.to(dtype.dtype))
    if isinstance(value, Vector):
        raise DSLTypeError(f"{what} must be one {dtype}, got a Vector of {value.numel}")
    number = as_numeric(value)
    return number if type(number) is dtype else dtype(number)


def _plain(v: Vector) -> Vector:
    """A Vector of no alias: two can be chosen between only if they are of one class."""
    return v if type(v) is Vector else wrap(v.value, v.shape, v.dtype)


def _filled(cls: CompositeMeta, value: object, what: str) -> StructValue:
    if isinstance(value, (Vector, list, tuple)):
        raise DSLTypeError(f"{what} must be {cls} or a number, got {value!r}")
    made: dict[str, object] = dict(cls.__consts__)
    for field in cls.__fields__:
        if not field.is_constexpr:
            made[field.name] = convert(value, field.type, f"{what}.{field.name}")
    return make_struct(cls, made)


def is_items(value: object, dtype: ElementType | None = None) -> bool:
    """Whether a value holds the items of a thread rather than one element of a class."""
    scalars = dtype is None or issubclass(dtype, Numeric)
    return isinstance(value, (list, tuple)) or (isinstance(value, Vector) and scalars)


def as_element(value: object, dtype: ElementType | None, what: str) -> Element:
    """One element: of a class, or of its own."""
    if dtype is not None:
        return convert(value, dtype, what)
    if isinstance(value, Vector):
        return _plain(value)
    return value if isinstance(value, StructValue) else as_numeric(value)


def as_items(value: object, dtype: ElementType | None, what: str) -> list[Element]:
    """The items of a thread, all of one class; one element is one item."""
    if isinstance(value, Vector) and is_items(value, dtype):
        found: Sequence[object] = list(value.reshape(value.numel))
    elif isinstance(value, (list, tuple)):
        found = cast("Sequence[object]", value)
    else:
        found = [value]
    if not found:
        raise DSLValueError(f"{what} must hold at least one item")
    # Python's numbers follow the class of the others.
    typed = next((x for x in found if isinstance(x, (Numeric, Vector, StructValue))), found[0])
    wanted = dtype if dtype is not None else type_of(as_element(typed, None, what))
    made = [as_element(x, wanted if dtype is not None or isinstance(x, (int, float)) else None, what) for x in found]
    for item in made:
        if type_of(item) is not wanted:
            raise DSLTypeError(f"{what} must be items of one class, got {wanted} and {type_of(item)}")
    return made


def from_items(items: Sequence[Element]) -> Vector | tuple[Element, ...]:
    """Items as they come back: a Vector of scalars, a tuple of others and of none."""
    if items and isinstance(items[0], Numeric):
        return Vector.from_elements(cast("Sequence[Numeric]", items), type(items[0]))
    return tuple(items)


def check_count(what: str, count: object, most: int) -> int | Int32 | None:
    """A number of valid items from 0 to `most`, or None for all of them."""
    if count is None:
        return None
    number = None if isinstance(count, (bool, float, Vector)) else as_numeric(count)
    if number is None or not number.is_integer:
        raise DSLTypeError(f"{what} must be an integer, got {count!r}")
    if not number.is_static():
        return Int32(number)
    known = int(number)
    if not 0 <= known <= most:
        raise DSLValueError(f"{what} must be from 0 to {most}, got {known}")
    return None if known == most else known


def is_before(index: Int32, count: int | Int32) -> Boolean:
    """Whether an item is one of the first `count`."""
    return index < count
