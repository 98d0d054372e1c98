"""Variables of a kernel by their Python names: numbers, vectors, tensors with their layouts, from a thread that stands.

Tracing has said what a variable is made of (`expr/emit/line_marks.py`); here it is put together from values of
the thread and from memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type

from .. import layout as L
from ..dialects.fly.types import PtrData
from ..errors import DSLValueError
from ..expr.emit.line_marks import SITES, Shown, Site
from ..ir.enums import AddressSpace
from ..ir.fold import float_from_bits
from ..ir.types import bit_width
from ..layout.int_tuple import product
from ..llvm.text.spelling import type_text
from .kinds import Kind, from_int, kind
from .machine import Thread
from .memory import Memory
from .operations import signed
from .writer import Mark

MOST = 4096
"""Elements of a tensor that are read to be shown."""
_FLOATS = (Float16Type, BFloat16Type, Float32Type, Float64Type)
MISSING = "not set yet"


class Cell(NamedTuple):
    """An element in memory."""

    address: int
    nbytes: int
    label: str


def _int(leaf: object) -> int:
    """A leaf of a layout whose run-time parts were filled in."""
    return int(cast(int, leaf))


class TensorView:
    """A tensor in memory, as a debugger sees it."""

    def __init__(self, memory: Memory, address: int, pointer: PtrData, layout: Any, name: str = ""):
        self.memory, self.address, self.pointer, self.layout, self.name = memory, address, pointer, layout, name
        self.bits = bit_width(pointer.elem)
        self.count = _int(L.size(layout))
        self.extents = tuple(_int(product(mode)) for mode in L.wrap(layout.shape))

    @property
    def space(self) -> str:
        space = self.pointer.space
        return space.keyword if isinstance(space, AddressSpace) else str(space)

    def place(self, coordinate: L.IntTuple) -> tuple[int, int]:
        """Address of an element, and the bit in it where elements are smaller than a byte."""
        offset = _int(L.crd2idx(coordinate, self.layout)) * self.bits
        address = _int(self.pointer.swizzle(self.address + offset // 8))
        return address, offset % 8

    def at(self, coordinate: L.IntTuple) -> Any:
        """An element; floats of a few bits as the number they stand for."""
        address, first = self.place(coordinate)
        nbytes = -(-(first + self.bits) // 8)
        bits = int.from_bytes(self.memory.read(address, nbytes), "little") >> first & ((1 << self.bits) - 1)
        if self.bits == 1:
            return bool(bits)
        elem = self.pointer.elem
        k = kind(type_text(elem))
        if isinstance(elem, _FLOATS):
            return from_int(k, bits)
        name = str(elem)
        return float_from_bits(bits, name) if name.startswith("f") else signed(bits, self.bits)

    def cell(self, coordinate: L.IntTuple) -> Cell:
        address, _ = self.place(coordinate)
        where = L.format_int_tuple(coordinate).strip("()").replace(",", ", ")
        return Cell(address, -(-self.bits // 8), f"{self.name}[{where}]")

    def array(self) -> np.ndarray[Any, Any]:
        """All elements, an axis for each mode."""
        if self.count > MOST:
            raise DSLValueError(f"{self.name} has {self.count} elements; ask for some of them, as {self.name}[0, 1]")
        return np.array([self.at(i) for i in range(self.count)]).reshape(self.extents, order="F")

    def coordinates(self, most: int = MOST) -> Iterator[tuple[int, ...]]:
        """The first coordinates in order."""
        for i in range(min(self.count, most)):
            yield tuple(int(x) for x in np.unravel_index(i, self.extents, order="F"))

    def __getitem__(self, key: object) -> Any:
        items = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
        whole = tuple(_int(i) for i in items if hasattr(i, "__index__"))
        if len(whole) == len(items):
            return self.at(whole if len(whole) != 1 else whole[0])
        return self.array()[cast(Any, key)]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self.array() if dtype is None else self.array().astype(dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.array(), name)

    def __str__(self) -> str:
        elem = str(self.pointer.elem)
        return f"{elem} {self.space} {L.format_any(self.layout)} at {self.address:#x}"


def _filled(tree: Any, values: Iterator[int]) -> Any:
    """A tuple whose run-time leaves are numbers."""
    if isinstance(tree, tuple):
        return tuple(_filled(x, values) for x in cast("tuple[object, ...]", tree))
    return next(values) if isinstance(tree, L.Dyn) else tree


def _filled_layout(layout: Any, values: Iterator[int]) -> Any:
    if isinstance(layout, L.ComposedLayout):
        offset = _filled(layout.offset, values)
        return L.ComposedLayout(layout.inner, offset, _filled_layout(layout.outer, values))
    return L.Layout(_filled(layout.shape, values), _filled(layout.stride, values))


class Frame(NamedTuple):
    """A function of the user's that a thread is in."""

    site: Site
    mark: Mark


def frames_of(thread: Thread) -> list[Frame]:
    """Where a thread is, the innermost function first; nothing before its first line."""
    kernel = thread.block.kernel
    if thread.mark < 0:
        return []
    mark = kernel.marks[thread.mark]
    found = [Frame(SITES[mark.site], mark)]
    while found[-1].site.caller >= 0:
        caller = found[-1].site.caller
        mark = next((m for m in kernel.marks if m.site == caller), Mark(caller, (), ()))
        found.append(Frame(SITES[caller], mark))
    return found


class Missing:
    """A value that the thread does not have yet."""

    def __repr__(self) -> str:
        return MISSING


def read(thread: Thread, frame: Frame, name: str, shown: Shown) -> Any:
    """The value of a variable: a number, an array, a `TensorView`, or a dictionary of parts."""
    names = [frame.mark.values[i] for i in shown.at] if frame.mark.values or not shown.at else None
    if names is None:
        return Missing()
    kinds = [frame.mark.kinds[i] for i in shown.at]
    values = [thread.value(n) for n in names]
    if any(v is None for v in values):
        return Missing()
    if shown.kind == "constant":
        return _constant(shown)
    if shown.kind == "group":
        return {key: read(thread, frame, f"{name}.{key}", item) for key, item in shown.items}
    if shown.kind == "scalar":
        return _scalar(values[0], kinds[0], shown)
    if shown.kind == "vector":
        return _vector(values[0], kinds[0], shown)
    if shown.kind == "pointer":
        return int(values[0])
    numbers = iter(signed(v, k.bits) for v, k in zip(values, kinds, strict=True))
    if shown.kind == "layout":
        return _filled(shown.data, numbers)
    pointer, layout = shown.data
    next(numbers)
    return TensorView(thread.block.memory, int(values[0]), pointer, _filled_layout(layout, numbers), name)


def _constant(shown: Shown) -> Any:
    try:
        return ast.literal_eval(shown.text)
    except (ValueError, SyntaxError):
        return Text(shown.text)


class Text(str):
    """A value that is shown as it calls itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _scalar(value: Any, k: Kind, shown: Shown) -> Any:
    if k.is_float:
        return value
    dtype: Any = shown.dtype
    if k.bits == 1:
        return bool(value)
    if dtype is not None and dtype.is_float:
        return float_from_bits(int(value), str(dtype.ir_type))
    return signed(value, k.bits) if dtype is None or getattr(dtype, "signed", True) else int(value)


def _vector(value: Any, k: Kind, shown: Shown) -> Any:
    one = k.element
    items = value if one.is_float else np.array([_scalar(int(x), one, shown) for x in value.tolist()])
    extents = tuple(int(n) if isinstance(n, int) else prod(n) for n in shown.data)
    return items.reshape(extents, order="F") if len(extents) > 1 else items


def variables(thread: Thread, frame: Frame) -> dict[str, Any]:
    """All variables of a frame by name."""
    return {name: read(thread, frame, name, shown) for name, shown in frame.site.variables.items()}


def places(thread: Thread) -> Mapping[str, Any]:
    """Names that conditions and expressions may use beside the variables."""
    tx, ty, tz = thread.ids
    bx, by, bz = thread.block.ids
    warp = thread.block.kernel.warp
    return {
        "tx": tx, "ty": ty, "tz": tz, "bx": bx, "by": by, "bz": bz, "thread": thread.tid, "block": thread.block.number,
        "warp": thread.tid // warp, "lane": thread.tid % warp, "np": np,
    }  # fmt: skip


def evaluate(thread: Thread, frame: Frame | None, text: str) -> Any:
    """An expression of Python over a frame's variables."""
    names = _Names(thread, frame)
    return eval(compile(text, "<expression>", "eval"), {"__builtins__": _BUILTINS}, names)  # noqa: S307 - the user's own


class _Names(Mapping[str, Any]):
    """What an expression may name; a variable is put together when it is asked for."""

    def __init__(self, thread: Thread, frame: Frame | None):
        self._thread, self._frame = thread, frame
        self._places = places(thread)
        self._known: Mapping[str, Shown] = frame.site.variables if frame is not None else {}

    def __getitem__(self, name: str) -> Any:
        if self._frame is not None and name in self._known:
            return read(self._thread, self._frame, name, self._known[name])
        return self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._places, **self._known})

    def __len__(self) -> int:
        return len({**self._places, **self._known})


_BUILTINS = {
    f.__name__: f for f in (abs, all, any, bool, float, hex, int, len, list, max, min, range, round, sum, tuple)
}


def cell(thread: Thread, frame: Frame, text: str) -> Cell:
    """The element of a tensor that an expression such as `tile[3, 4]` names."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        tree = None
    if not isinstance(tree, ast.Subscript):
        raise DSLValueError(f"expected an element of a tensor, such as tile[3, 4], got {text!r}")
    view = evaluate(thread, frame, ast.unparse(tree.value))
    if not isinstance(view, TensorView):
        raise DSLValueError(f"{ast.unparse(tree.value)} is no tensor in memory, so nobody writes its elements")
    at = evaluate(thread, frame, ast.unparse(tree.slice))
    return view.cell(at)
