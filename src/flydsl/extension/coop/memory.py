"""Items of a thread from and to memory: one by one, or packed where they lie side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ... import layout as L
from ...errors import DSLTypeError
from ...expr.control.control_flow import if_, if_expr
from ...expr.numeric import Boolean, Int32, Numeric
from ...expr.tensor import Pointer, Tensor
from ...expr.tensors.storage import Array
from ...expr.vector import Vector, VectorAlias
from ...ir.enums import AddressSpace
from .elements import Element, ElementType, convert

if TYPE_CHECKING:
    pass

_PACKED_BITS = 128
_SPACES = (AddressSpace.Global, AddressSpace.Shared)


class Indexable(Protocol):
    """What items are read from and written to: a tensor, a pointer, an array."""

    def __getitem__(self, index: Int32, /) -> object: ...

    def __setitem__(self, index: Int32, value: object, /) -> None: ...


def check_memory(what: str, place: object) -> Indexable:
    """Something that can be indexed."""
    if not isinstance(place, (Tensor, Pointer, Array)):
        raise DSLTypeError(f"{what} must be a tensor, a pointer or an array, got {place!r}")
    return cast("Indexable", place)


def load_item(place: Indexable, index: Int32, dtype: ElementType, valid: Boolean | None, default: Element) -> Element:
    """One item; the default where it is not valid, and then memory is not read."""

    def read() -> Element:
        return convert(place[index], dtype, "what source holds")

    return read() if valid is None else if_expr(valid, read, lambda: default)


def store_item(place: Indexable, index: Int32, item: Element, valid: Boolean | None) -> None:
    """One item, where it is valid."""

    def write() -> None:
        place[index] = item

    if valid is None:
        write()
    else:
        if_(valid, write, None, ())


def packed_pointer(place: object) -> Pointer | None:
    """Where the first element is, if the others follow side by side; None if not, or if they cannot be packed."""
    if isinstance(place, Tensor):
        layout = place.data.layout
        if not isinstance(layout, L.Layout) or not _is_line(layout):
            return None
        found = place.iter
    else:
        found = place.ptr if isinstance(place, Array) else place
    if not isinstance(found, Pointer) or found.address_space not in _SPACES or found.type.data.swizzle is not None:
        return None
    return found if found.dtype.width in (8, 16, 32, 64) else None


def _is_line(layout: L.Layout) -> bool:
    flat = L.coalesce(layout)
    return flat.stride == 1


def pieces(count: int, width: int) -> list[tuple[int, int]]:
    """How a run of items is cut into packed accesses: where each begins, and its length.

    >>> pieces(7, 32)
    [(0, 4), (4, 2), (6, 1)]
    """
    made: list[tuple[int, int]] = []
    at = 0
    while at < count:
        length = 1 << (min(count - at, max(_PACKED_BITS // width, 1)).bit_length() - 1)
        made.append((at, length))
        at += length
    return made


def load_run(pointer: Pointer, at: Int32, count: int, dtype: ElementType) -> list[Element]:
    """A run of neighbouring elements."""
    made: list[Element] = []
    for first, length in pieces(count, pointer.dtype.width):
        vector = (pointer + (at + first)).load(VectorAlias(pointer.dtype, length))
        made += [convert(vector[i], dtype, "what source holds") for i in range(length)]
    return made


def store_run(pointer: Pointer, at: Int32, items: Sequence[Element]) -> None:
    """A run of neighbouring elements, as the memory holds them."""
    held = [convert(item, pointer.dtype, "an item") for item in items]
    for first, length in pieces(len(items), pointer.dtype.width):
        part = cast("list[Numeric]", held[first : first + length])
        (pointer + (at + first)).store(Vector.from_elements(part, pointer.dtype))
