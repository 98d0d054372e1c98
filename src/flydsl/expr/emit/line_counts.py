"""A tracer that makes kernels count how often each of their source lines runs: `fly profile --lines`.

Python says when a line begins (`sys.settrace`); the first op a line emits is preceded by `fly_cpu.count` of that line.
So a line in a loop that is unrolled while tracing counts once for each copy, a line in a branch counts where the branch
is taken, the head of a loop counts its entries, and a line that emits nothing has no count.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.fly_cpu import CountOp
from ...ir.types import i32
from ...ir.user_code import REGION_MARK, is_user_code
from .tracer import BOUNDARIES, Tracer

if TYPE_CHECKING:
    from _typeshed import TraceFunction


class _Visit:
    """How far a frame has come: the lines that were counted since it last went back."""

    __slots__ = ("at", "counted")

    def __init__(self) -> None:
        self.at = -1
        self.counted: set[int] = set()


class CountingTracer(Tracer):
    """Emits a count in front of the first op of every line."""

    __slots__ = ("_visits",)

    def __init__(self) -> None:
        super().__init__()
        self._visits: dict[FrameType, _Visit] = {}

    @contextmanager
    def following(self) -> Generator[None]:
        """A block in which Python tells this tracer of every line of the user's code."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            self._visits.clear()

    def _in_kernel(self) -> bool:
        return bool(self.functions) and getattr(self.functions[-1], "is_kernel", False)

    def _called(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        if not is_user_code(frame.f_code) or not self._in_kernel():
            return None
        self._visits[frame] = _Visit()
        return self._moved

    def _moved(self, frame: FrameType, event: str, argument: object) -> TraceFunction:
        if event == "line":
            visit = self._visits[frame]
            if frame.f_lasti <= visit.at:
                visit.counted.clear()
            visit.at = frame.f_lasti
        elif event == "return":
            self._visits.pop(frame, None)
        return self._moved

    def _count(self) -> None:
        """Count the current line of each frame from here to the function, or to the region, that is being built."""
        if not self._in_kernel():
            return
        frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        users: list[FrameType] = []
        while frame is not None and frame.f_code not in BOUNDARIES:
            if is_user_code(frame.f_code):
                users.append(frame)
            frame = frame.f_back
        for inner, outer in zip(users, [*users[1:], None], strict=True):
            visit = self._visits.get(inner)
            line, file = inner.f_lineno, inner.f_code.co_filename
            # An expression with a frame of its own, as `a if b else c` or a comprehension, is a part of its line.
            own = outer is None or outer.f_lineno != line or outer.f_code.co_filename != file
            if visit is not None and own and line not in visit.counted:
                visit.counted.add(line)
                super().opn(CountOp, (), (), {"file": StringAttr(file), "line": IntegerAttr(line, i32)})
            if inner.f_code.co_qualname.endswith(REGION_MARK):
                # What is around the region counts where the op with the region stands.
                break

    def region(self, block: Block):
        # The line of a statement counts before its regions, not in the first of them.
        self._count()
        return super().region(block)

    def op1(
        self, cls: type[Operation], operands: Sequence[SSAValue], type_: Attribute, props: dict[str, Attribute]
    ) -> SSAValue:
        self._count()
        return super().op1(cls, operands, type_, props)

    def opn(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        types: Sequence[Attribute],
        props: dict[str, Attribute] | None = None,
    ) -> Operation:
        self._count()
        return super().opn(cls, operands, types, props)

    def share(
        self, cls: type[Operation], operands: Sequence[SSAValue], type_: Attribute, props: dict[str, Attribute]
    ) -> SSAValue:
        self._count()
        return super().share(cls, operands, type_, props)

    pure = share

    def with_regions(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        types: Sequence[Attribute],
        regions: Sequence[Region],
        props: dict[str, Attribute] | None = None,
        attrs: dict[str, Attribute] | None = None,
    ) -> Operation:
        self._count()
        return super().with_regions(cls, operands, types, regions, props, attrs)
