"""What a block reads and writes by element, and how many elements of it go at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from ....expr.tensor import Pointer, Tensor, get_iter
from ....ir.enums import AddressSpace

if TYPE_CHECKING:
    from ....expr.numeric import Int32

_BYTES = 16
"""The widest read or write of a thread."""


class Elements(Protocol):
    """A tensor of one mode, a pointer, an array: what has elements by number."""

    def __getitem__(self, index: Int32, /) -> object: ...
    def __setitem__(self, index: Int32, value: object, /) -> None: ...


def packed_pointer(memory: object, items: int) -> tuple[Pointer, int] | None:
    """Where neighbouring elements are neighbours in memory: their address, and how many go at a time; else None."""
    pointer = memory
    if isinstance(memory, Tensor):
        layout = memory.data.layout
        if getattr(layout, "stride", None) not in (1, (1,)):
            return None
        pointer = get_iter(memory)
    if not isinstance(pointer, Pointer) or pointer.type.data.space not in (AddressSpace.Global, AddressSpace.Shared):
        return None
    width = pointer.dtype.width
    many = math.gcd(items, _BYTES * 8 // width) if width >= 8 else 1
    return (pointer, many) if many > 1 else None
