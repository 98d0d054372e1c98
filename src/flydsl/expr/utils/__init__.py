"""Helpers for authors: drawing layouts, class attributes made on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any, Generic, TypeVar, cast

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ..aliases import also_called
from ..tensors.algebra_values import AlgebraValue

T = TypeVar("T")


class lazy_classattr(Generic[T]):
    """A class attribute computed at its first use, once for each class.

    >>> class A:
    ...     @lazy_classattr
    ...     def name_length(cls):
    ...         return len(cls.__name__)
    >>> A.name_length
    1
    """

    def __init__(self, fn: Callable[[Any], T]):
        self._function = fn
        self._name = fn.__name__
        self.__doc__ = fn.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> T:
        cls = type(instance) if owner is None else owner
        key = f"_lazy_{self._name}"
        if key not in cls.__dict__:
            setattr(cls, key, self._function(cls))
        return cls.__dict__[key]


@also_called(layout="arg")
def print_typst(arg: object, *, color: bool = False, file: IO[str] | None = None) -> str:
    """A static layout of rank 1 or 2 drawn as a table of offsets, in Typst; printed to `file` if given.

    With `color` every offset has a shade of its own, so that equal ones are seen to be equal.

    >>> print(print_typst(L.Layout((2, 2), (1, 2))))
    #table(
      columns: 3,
      [], [*0*], [*1*],
      [*0*], [0], [2],
      [*1*], [1], [3],
    )
    """
    data = arg.data if isinstance(arg, AlgebraValue) else arg
    if not isinstance(data, (L.Layout, L.ComposedLayout)):
        raise DSLTypeError(f"print_typst draws a Layout, got {arg!r}")
    sizes = [L.size(data[i]) for i in range(data.rank)] if not data.is_leaf else [L.size(data)]
    if len(sizes) > 2 or not all(type(n) is int for n in sizes):
        raise DSLValueError(f"print_typst draws static layouts of rank 1 or 2, got {L.format_any(data)}")
    rows, columns = cast("tuple[int, int]", (sizes[0], sizes[1]) if len(sizes) == 2 else (1, sizes[0]))
    cells = [["", *(f"*{c}*" for c in range(columns))]]
    for r in range(rows):
        at = [(r, c) if len(sizes) == 2 else c for c in range(columns)]
        cells.append([f"*{r}*", *(_shown(L.crd2idx(x, data), color) for x in at)])
    lines = [f"  {', '.join(cell if cell.startswith('table') else f'[{cell}]' for cell in row)}," for row in cells]
    text = "\n".join(["#table(", f"  columns: {columns + 1},", *lines, ")"])
    if file is not None:
        file.write(text + "\n")
    return text


def _shown(offset: Any, color: bool) -> str:
    """The cell of an offset."""
    text = L.format_any(offset)
    if not color or type(offset) is not int:
        return text
    hue = offset * 137 % 360  # the golden angle keeps neighbours apart
    return f"table.cell(fill: color.hsl({hue}deg, 60%, 85%))[{text}]"


__all__ = ["lazy_classattr", "print_typst"]
