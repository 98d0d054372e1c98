"""A tracer that marks in kernels where each source line begins, with the variables there: what the debugger stops at.

Python says when a line begins (`sys.settrace`); `fly_cpu.line` goes there. It names a site, which tells file, line and
function, and for every variable how it is made of the op's operands.
"""

from __future__ import annotations

import dis
import linecache
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType
from xdsl.ir import Block, SSAValue

from ... import layout as L
from ...dialects.fly_cpu import LineOp
from ...ir.enums import AddressSpace
from ...ir.identity import by_identity
from ...ir.types import i32
from ...ir.user_code import REGION_MARK, is_user_code
from ..numeric import Numeric
from ..structs import StructValue
from ..tensor import Pointer, Tensor
from ..tensors.algebra_values import AlgebraValue, IntTuple
from ..tensors.storage import Array
from ..vector import Vector
from .ir import raw_pointer
from .tracer import BOUNDARIES, Tracer

if TYPE_CHECKING:
    from _typeshed import TraceFunction

_HIDDEN = ("__fly", "@")
_LIBRARY = str(Path(linecache.__file__).parent) + os.sep
"""Where Python's own library is; its lines are nobody's kernel."""
_SCALARS = (AnyFloat, IntegerType)
_DEEPEST = 4
"""Levels of containers that are shown."""
_LONGEST = 64
"""Items of a container that are shown."""


@dataclass(frozen=True)
class Shown:
    """A variable at a line; `at` are indices of the operands of the mark."""

    kind: str
    """`constant`, `scalar`, `vector`, `tensor`, `pointer`, `layout` or `group`."""
    at: tuple[int, ...] = ()
    text: str = ""
    """Of a constant, what it is; of others, how they call themselves."""
    dtype: type[Numeric] | None = None
    data: Any = None
    """Of a tensor or a layout: its layout, with leaves that are run-time values where `?` stands."""
    items: tuple[tuple[str, Shown], ...] = ()


@dataclass(frozen=True)
class Site:
    """A line of a kernel, as one trace came by."""

    file: str
    line: int
    function: str
    depth: int
    """How many functions of the user are between it and the kernel."""
    caller: int
    """Site of the line that called the function; -1 in the kernel itself."""
    variables: Mapping[str, Shown]
    stops: bool = False
    """Whether `breakpoint()` stands there."""


SITES: list[Site] = []
"""Every site of this process; kernels refer to them by their index."""


@dataclass
class _Visit:
    """What is known of a function of the user that is running."""

    caller: int
    depth: int
    site: int = -1
    names: dict[str, object] = field(default_factory=dict[str, object])


class _Operands:
    """The operands of a mark, each once."""

    def __init__(self) -> None:
        self.values: list[SSAValue] = []
        self._index: dict[SSAValue, int] = {}

    def add(self, value: SSAValue) -> int:
        if value not in self._index:
            self._index[value] = len(self.values)
            self.values.append(value)
        return self._index[value]


class MarkingTracer(Tracer):
    """Emits a mark wherever a line of a kernel begins."""

    __slots__ = ("_busy", "_taken", "_visits")

    def __init__(self) -> None:
        super().__init__()
        self._visits: dict[FrameType, _Visit] = {}
        self._taken: list[dict[int, tuple[object, Sequence[SSAValue]]]] = [{}]
        """Values that were taken out of objects, by the identity of these, which are kept beside them: what is in
        reach, one table for each region that is open."""
        self._busy = False

    @contextmanager
    def following(self) -> Generator[None]:
        """A block in which Python tells this tracer of every line of the user's code."""
        before, hook = sys.gettrace(), sys.breakpointhook
        sys.settrace(self._called)
        # In functions that are not rewritten, `breakpoint()` is Python's own.
        sys.breakpointhook = lambda *args, **kwargs: self.stop_here() or hook(*args, **kwargs)
        try:
            yield
        finally:
            sys.settrace(before)
            sys.breakpointhook = hook
            self._visits.clear()

    @contextmanager
    def open_function(self, entry: Block) -> Generator[None]:
        before, self._taken = self._taken, [{}]
        try:
            with super().open_function(entry):
                yield
        finally:
            self._taken = before

    @contextmanager
    def region(self, block: Block) -> Generator[None]:
        self._taken.append({})
        try:
            with super().region(block):
                yield
        finally:
            self._taken.pop()

    def _in_kernel(self) -> bool:
        return bool(self.functions) and getattr(self.functions[-1], "is_kernel", False)

    def _called(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        if self._busy or not self._in_kernel() or not self._is_followed(frame):
            return None
        above = self._owner(frame.f_back)
        if above is None:
            self._visits[frame] = _Visit(-1, 0)
        elif self._is_part(frame):
            self._visits[frame] = above
        else:
            self._visits[frame] = _Visit(above.site, above.depth + 1)
        return self._moved

    def _is_followed(self, frame: FrameType) -> bool:
        """Whether a frame is the kernel's, a function's that the user's code calls itself, or a part of one."""
        code, back = frame.f_code, frame.f_back
        if not is_user_code(code) or code.co_filename.startswith(("<", _LIBRARY)):
            return False
        region = code.co_qualname.endswith(REGION_MARK)
        return region or back is None or back in self._visits or back.f_code in BOUNDARIES

    def _is_part(self, frame: FrameType) -> bool:
        """Whether a frame is a stretch of the function around it: a region's body, a comprehension, an expression."""
        return frame.f_code.co_qualname.endswith(REGION_MARK) or frame.f_code.co_name.startswith("<")

    def _owner(self, frame: FrameType | None) -> _Visit | None:
        """The nearest function of the user around a frame."""
        while frame is not None and frame.f_code not in BOUNDARIES:
            if frame in self._visits:
                return self._visits[frame]
            frame = frame.f_back
        return None

    def _moved(self, frame: FrameType, event: str, argument: object) -> TraceFunction:
        if event == "line" and not self._busy and frame.f_lasti not in _hidden_lines(frame.f_code):
            self._busy = True
            try:
                self.mark_line(frame)
            finally:
                self._busy = False
        elif event == "return":
            self._visits.pop(frame, None)
        return self._moved

    def stop_here(self) -> bool:
        """`breakpoint()`: a mark at the line that calls it, if that is a kernel's."""
        frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and frame not in self._visits:
            frame = frame.f_back
        if frame is None:
            return False
        self._busy = True
        try:
            self.mark_line(frame, stops=True)
        finally:
            self._busy = False
        return True

    def mark_line(self, frame: FrameType, stops: bool = False) -> None:
        """A mark for the line a frame is at."""
        visit = self._visits[frame]
        operands = _Operands()
        names = self._variables(frame)
        variables = {name: self._shown(value, operands, 0) for name, value in names.items()}
        code = frame.f_code
        function = code.co_qualname.partition(REGION_MARK)[0]
        SITES.append(Site(code.co_filename, frame.f_lineno, function, visit.depth, visit.caller, variables, stops))
        visit.site = len(SITES) - 1
        self.opn(LineOp, operands.values, (), {"site": IntegerAttr(visit.site, i32)})

    def _variables(self, frame: FrameType) -> dict[str, object]:
        """Names and values of the function a frame is in: those of a region's body and of the bodies around it."""
        frames = [frame]
        back: FrameType | None = frame
        while back is not None and self._is_part(frames[-1]) and back.f_code not in BOUNDARIES:
            back = back.f_back
            if back is not None and back in self._visits:
                frames.append(back)
        found: dict[str, object] = {}
        for each in reversed(frames):
            found.update(
                (name, value)
                for name, value in each.f_locals.items()
                if not name.startswith(_HIDDEN) and not callable(value) or isinstance(value, (Tensor, Pointer))
            )
        return {name: value for name, value in found.items() if type(value).__name__ != "module"}

    # --- variables ------------------------------------------------------------------------------------------------

    def _shown(self, value: object, operands: _Operands, depth: int) -> Shown:
        if isinstance(value, Numeric):
            if value.is_static():
                return Shown("constant", text=repr(value.value), dtype=type(value))
            return Shown("scalar", (operands.add(value.ir_value()),), dtype=type(value))
        if isinstance(value, Vector):
            at = operands.add(value.ir_value())
            return Shown("vector", (at,), dtype=value.dtype, data=value.shape)
        if isinstance(value, (Pointer, Tensor)) and _is_descriptor(value):
            return Shown("constant", text=repr(value))
        if isinstance(value, Pointer):
            return Shown("pointer", self._add(value, operands, _pointer), repr(value))
        if isinstance(value, Tensor):
            if not hasattr(value.data.iter, "data"):
                return Shown("constant", text=repr(value))
            leaves = self._add(value, operands, _tensor)
            return Shown("tensor", leaves, repr(value), value.dtype, (value.data.iter.data, value.data.layout))
        if isinstance(value, Array):
            pointer = value.ptr
            if not isinstance(pointer.type.data.elem, _SCALARS):
                return Shown("pointer", self._add(pointer, operands, _pointer), repr(value))
            layout = L.Layout(value.size, 1)
            return Shown(
                "tensor", self._add(pointer, operands, _pointer), repr(value), data=(pointer.type.data, layout)
            )
        if isinstance(value, AlgebraValue):
            if value.is_static or not isinstance(value, IntTuple):
                return Shown("constant", text=repr(value))
            return Shown("layout", self._add(value, operands, _leaves), data=value.data)
        items = _items(value)
        if items is not None and depth < _DEEPEST:
            inner = tuple((key, self._shown(item, operands, depth + 1)) for key, item in items[:_LONGEST])
            return Shown("group", text=type(value).__name__, items=inner)
        return Shown("constant", text=repr(value)[:200])

    def _add(self, value: object, operands: _Operands, take: Any) -> tuple[int, ...]:
        """The values an object stands for; they are taken out of it once."""
        found = next((known[id(value)] for known in self._taken if id(value) in known), None)
        if found is None:
            found = self._taken[-1][id(value)] = (value, take(value))
        return tuple(operands.add(v) for v in found[1])


@by_identity
def _hidden_lines(code: CodeType) -> frozenset[int]:
    """Where lines begin that no one is to stop at: expressions with a frame of their own are a part of their line, and
    the bodies of regions are defined, at their own lines, before the statement that they belong to."""
    starts = dict(dis.findlinestarts(code))
    if code.co_name.startswith("<"):
        return frozenset(starts)
    hidden: set[int] = set()
    at = -1
    for instruction in dis.get_instructions(code):
        if instruction.offset in starts:
            at = instruction.offset
        inner: object = instruction.argval
        if isinstance(inner, CodeType) and inner.co_qualname.endswith(REGION_MARK):
            hidden.add(at)
    return frozenset(hidden)


def _is_descriptor(value: Pointer | Tensor) -> bool:
    """Whether it is a buffer, which has a descriptor and no address."""
    at = value if isinstance(value, Pointer) else value.data.iter
    data = at.type.data if isinstance(at, Pointer) else getattr(at, "data", None)
    return data is not None and not isinstance(data.space, AddressSpace)


def _pointer(p: Pointer) -> list[SSAValue]:
    return [raw_pointer(p, 0)]


def _tensor(t: Tensor) -> list[SSAValue]:
    """The address, then the run-time leaves of the layout in order."""
    return [raw_pointer(t.iter, 0), *_layout_leaves(t.layout)]


def _layout_leaves(layout: Any) -> list[SSAValue]:
    data = layout.data
    if isinstance(data, L.ComposedLayout):
        parts = [layout.offset, layout.outer]
        return [v for part in parts for v in (_leaves(part) if isinstance(part, IntTuple) else _layout_leaves(part))]
    return [*_leaves(layout.shape), *_leaves(layout.stride)]


def _leaves(t: IntTuple) -> list[SSAValue]:
    from .ir import dynamic_leaves

    return [] if t.is_static else [leaf.ir_value() for leaf in dynamic_leaves(t)]


def _items(value: object) -> list[tuple[str, object]] | None:
    if isinstance(value, dict):
        return [(str(k), v) for k, v in cast("dict[object, object]", value).items()]
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[object]", value)
        names: Sequence[str] | None = getattr(items, "_fields", None)
        return [(names[i] if names else f"[{i}]", v) for i, v in enumerate(items)]
    if isinstance(value, StructValue):
        return [(k, v) for k, v in vars(value).items() if not k.startswith("_")]
    return None
