"""What the names of a kernel stand for while it is traced: watched line by line, described in words and pictures."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from flydsl import layout as L
from flydsl.expr.numeric import Numeric
from flydsl.expr.tensor import Tensor
from flydsl.expr.tensors.algebra_values import AlgebraValue
from flydsl.expr.vector import Vector
from flydsl.layout.draw import picture_of
from flydsl.tools.lsp.found import FoundValue

if TYPE_CHECKING:
    from xdsl.ir import Attribute

MOST_NAMES = 2000


@runtime_checkable
class _Typed(Protocol):
    @property
    def type(self) -> object: ...

    def _repr_html_(self) -> str | None: ...


def describe(value: object) -> str:
    """A value of the language in words; nothing for others.

    >>> describe(fx.make_layout((4, 8), (8, 1))), describe(fx.Int32(3)), describe(7)
    ('Layout (4,8):(8,1)', 'Int32', '')
    """
    if isinstance(value, Numeric):
        return str(type(value))
    if isinstance(value, Tensor):
        space = str(getattr(getattr(value.data.iter, "address_space", ""), "name", "")).lower()
        return " ".join(filter(None, ("Tensor", str(value.dtype), space, L.format_any(value.data.layout))))
    if isinstance(value, AlgebraValue):
        return f"{type(value).__name__} {L.format_any(value.data)}"
    if isinstance(value, Vector):
        return f"{value.dtype}x{_extents(value.shape)}"
    if isinstance(value, tuple | list):
        parts = [describe(each) for each in cast("tuple[object, ...]", value)[:8]]
        return f"({', '.join(part or '_' for part in parts)})" if any(parts) else ""
    if type(value).__module__.startswith("flydsl.expr.") and isinstance(value, _Typed):
        return type(value).__name__
    return ""


def _extents(shape: object) -> str:
    sizes = cast("tuple[object, ...]", shape) if isinstance(shape, tuple) else (shape,)
    return str(sizes[0]) if len(sizes) == 1 else f"({','.join(map(str, sizes))})"


def _layout_of(value: object) -> L.AnyLayout | None:
    found = value.data.layout if isinstance(value, Tensor) else getattr(value, "data", None)
    return found if isinstance(found, (L.Layout, L.ComposedLayout)) else None


def _pictures(value: object) -> list[str]:
    layout = _layout_of(value)
    if layout is not None:
        picture = picture_of(layout, 512)
        return [] if picture is None else [picture]
    if isinstance(value, _Typed) and type(value).__module__.startswith("flydsl.expr."):
        from flydsl.dialects.fly.drawings import pictures_of

        return [svg for _, svg in pictures_of(cast("Attribute", value.type))]
    return []


def grid_of(layout: L.AnyLayout, most: int = 256) -> str:
    """The offsets of a layout as lines of text; nothing where it is too large, or not known.

    >>> print(grid_of(L.Layout((2, 3), (3, 1))))
    0 1 2
    3 4 5
    """
    if not layout.is_static_shape or layout.rank > 2 or not 1 < cast(int, L.size(layout)) <= most:
        return ""
    rows = cast(int, L.size(layout[0])) if layout.rank == 2 else 1
    columns = cast(int, L.size(layout)) // rows
    table = [[str(L.crd2idx((r, c) if layout.rank == 2 else c, layout)) for c in range(columns)] for r in range(rows)]
    wide = max(len(cell) for row in table for cell in row)
    return "\n".join(" ".join(cell.rjust(wide) for cell in row) for row in table)


class Watch:
    """Values of one file's names, in the order in which they were made."""

    def __init__(self, filename: str):
        self.filename = filename
        self.found: dict[tuple[int, str], FoundValue] = {}
        self._frames: dict[FrameType, tuple[int, dict[str, int]]] = {}

    @contextmanager
    def watching(self) -> Generator[None]:
        """While this is open, functions of the file are followed."""
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)
            self._frames.clear()

    def _call(self, frame: FrameType, event: str, arg: object):
        code = frame.f_code
        if code.co_filename != self.filename or code.co_name == "<module>":
            return None
        names = {name: id(value) for name, value in frame.f_locals.items()}
        self._frames[frame] = code.co_firstlineno, names
        self._parameters(frame)
        return self._line

    def _parameters(self, frame: FrameType) -> None:
        code = frame.f_code
        for name in code.co_varnames[: code.co_argcount]:
            if name in frame.f_locals:
                self._note(code.co_firstlineno, name, frame.f_locals[name])

    def _line(self, frame: FrameType, event: str, arg: object):
        if event in ("line", "return"):
            at, known = self._frames.get(frame, (frame.f_lineno, {}))
            for name, value in frame.f_locals.items():
                if known.get(name) != id(value):
                    known[name] = id(value)
                    self._note(at, name, value)
            self._frames[frame] = frame.f_lineno, known
            if event == "return":
                self._frames.pop(frame, None)
        return self._line

    def _note(self, line: int, name: str, value: object) -> None:
        if len(self.found) >= MOST_NAMES or (line, name) in self.found or name.startswith("_"):
            return
        text = describe(value)
        if text:
            layout = _layout_of(value)
            grid = grid_of(layout) if layout is not None else ""
            self.found[line, name] = {
                "line": line,
                "name": name,
                "text": text,
                "pictures": _pictures(value),
                "grid": grid,
            }

    def values(self) -> list[FoundValue]:
        """In the order of the trace."""
        return list(self.found.values())
