"""Where new ops go, and with which location: `Context`, `Location`, `InsertionPoint`.

Inside a kernel that is traced the place is the tracer's, and `with InsertionPoint(...)` moves it: the language's own
ops go there too. Outside, an insertion point brings a tracer of its own, so that modules can be built by hand.
"""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self, cast

from xdsl.context import Context as XContext
from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation
from xdsl.traits import IsTerminator

from ..errors import DSLRuntimeError, DSLTypeError
from ..expr.emit.trace import active, maybe_current
from ..expr.emit.tracer import Tracer
from ..ir.emitter import UNKNOWN, append, insert_after
from ..ir.registry import make_context
from ..ir.values import own

if TYPE_CHECKING:
    from collections.abc import Sequence

_points: ContextVar[tuple[InsertionPoint, ...]] = ContextVar("flydsl_insertion_points", default=())
_locations: ContextVar[tuple[LocationAttr, ...]] = ContextVar("flydsl_locations", default=())


class _HasCurrent(type):
    """Classes whose innermost object is `Class.current`."""

    @property
    def current(cls) -> object:
        return cast("Context", cls)._current()  # pyright: ignore[reportPrivateUsage]


class Context(metaclass=_HasCurrent):
    """`ir.Context`: which dialects there are. There is one set of them here, and nothing to configure."""

    allow_unregistered_dialects = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @classmethod
    def _current(cls) -> Context:
        return _THE_CONTEXT

    def is_registered_operation(self, name: str) -> bool:
        """Whether there is such an op."""
        return raw_context().get_optional_op(name) is not None

    def load_all_available_dialects(self) -> None:
        """They are loaded when they are met."""


_THE_CONTEXT = Context()
_raw: list[XContext] = []


def raw_context() -> XContext:
    """The dialects, for a parser."""
    if not _raw:
        _raw.append(make_context())
    return _raw[0]


class Location(metaclass=_HasCurrent):
    """`ir.Location`: where an op was written. Inside a kernel each op has the line of the user's code by itself."""

    def __init__(self, attr: LocationAttr):
        self.attr = attr

    @classmethod
    def _current(cls) -> Location:
        return cls(location_of(None))

    @classmethod
    def unknown(cls, context: Context | None = None) -> Location:
        """No place."""
        return cls(UNKNOWN)

    @classmethod
    def file(cls, filename: str, line: int, col: int, context: Context | None = None) -> Location:
        """A place in a file."""
        return cls(FileLineColLoc(StringAttr(filename), IntAttr(line), IntAttr(col)))

    @classmethod
    def name(cls, name: str, childLoc: Location | None = None, context: Context | None = None) -> Location:
        """A place with a name."""
        return cls(NameLoc(StringAttr(name), UNKNOWN if childLoc is None else childLoc.attr))

    @classmethod
    def fused(
        cls, locations: Sequence[Location], metadata: Attribute | None = None, context: Context | None = None
    ) -> Location:
        """Several places."""
        return cls(FusedLoc(tuple(found.attr for found in locations), NoneAttr() if metadata is None else metadata))

    @classmethod
    def callsite(cls, callee: Location, frames: Sequence[Location], context: Context | None = None) -> Location:
        """A place and those it was called from, innermost first."""
        caller = frames[-1].attr
        for frame in reversed(frames[:-1]):
            caller = CallSiteLoc(frame.attr, caller)
        return cls(CallSiteLoc(callee.attr, caller))

    @classmethod
    def from_attr(cls, attribute: LocationAttr, context: Context | None = None) -> Location:
        return cls(attribute)

    def __enter__(self) -> Self:
        _locations.set((*_locations.get(), self.attr))
        return self

    def __exit__(self, *_: object) -> None:
        _locations.set(_locations.get()[:-1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self.attr == other.attr

    def __hash__(self) -> int:
        return hash(self.attr)

    def __str__(self) -> str:
        return str(self.attr)


def location_of(given: object) -> LocationAttr:
    """The location of a new op."""
    if isinstance(given, Location):
        return given.attr
    if isinstance(given, LocationAttr):
        return given
    if given is not None:
        raise DSLTypeError(f"loc= must be a Location, got {given!r}")
    if _locations.get():
        return _locations.get()[-1]
    tracer = maybe_current()
    return UNKNOWN if tracer is None else cast(LocationAttr, tracer.loc)


def _block_of(x: object) -> Block | None:
    raw = getattr(x, "raw", x)
    return raw if isinstance(raw, Block) else None


class InsertionPoint(metaclass=_HasCurrent):
    """`ir.InsertionPoint`: the end of a block, or the place in front of an op."""

    def __init__(self, beforeOrBlock: object):
        block = _block_of(beforeOrBlock)
        raw = getattr(beforeOrBlock, "raw", beforeOrBlock)
        self._before: Operation | None = None
        if block is None:
            if not isinstance(raw, Operation) or raw.parent is None:
                raise DSLTypeError(f"expected a block or an operation in one, got {beforeOrBlock!r}")
            block, self._before = raw.parent, raw
        self._block = block
        self._inside: ExitStack | None = None

    @classmethod
    def at_block_begin(cls, block: object) -> InsertionPoint:
        """In front of the first op of a block."""
        found = cls(block)
        found._before = found._block.first_op
        return found

    @classmethod
    def at_block_terminator(cls, block: object) -> InsertionPoint:
        """In front of the terminator of a block."""
        found = cls(block)
        last = found._block.last_op
        if last is None or not last.has_trait(IsTerminator):
            raise DSLRuntimeError("the block has no terminator to insert in front of")
        found._before = last
        return found

    @classmethod
    def after(cls, operation: object) -> InsertionPoint:
        """Behind an op."""
        found = cls(operation)
        assert found._before is not None
        found._before = found._before.next_op
        return found

    @classmethod
    def _current(cls) -> InsertionPoint:
        if _points.get():
            return _points.get()[-1]
        tracer = maybe_current()
        if tracer is None:
            raise ValueError("No current InsertionPoint")
        return cls(tracer.block)

    @property
    def block(self) -> object:
        from .operations import Block as BlockView

        return BlockView(self._block)

    @property
    def ref_operation(self) -> object:
        """The op in front of which is inserted, or None."""
        from .operations import view

        return None if self._before is None else view(self._before)

    def insert(self, operation: object) -> None:
        """Put an op that is in no block here."""
        raw = getattr(operation, "raw", operation)
        if not isinstance(raw, Operation) or raw.parent is not None:
            raise DSLTypeError(f"expected an operation that is in no block, got {operation!r}")
        self.put(raw)

    def put(self, op: Operation) -> None:
        """Link a new op here."""
        if self._before is None or self._inside is not None:
            append(self._block, op)
        else:
            insert_after(self._block, self._before.prev_op, op)

    def __enter__(self) -> Self:
        # A tracer appends: what stands behind the place is set aside until it is left.
        op = self._before
        self._tail: list[Operation] = []
        while op is not None:
            following = op.next_op
            op.detach()
            self._tail.append(op)
            op = following
        self._inside = ExitStack()
        tracer = maybe_current()
        if tracer is None:
            tracer = Tracer()
            self._inside.callback(active.reset, active.set(tracer))
        if tracer.functions:
            # What is numbered further on in the block is not there yet: start anew.
            self._inside.enter_context(tracer.resumed(self._block, {}))
        else:
            self._inside.enter_context(tracer.open_function(self._block))
        _points.set((*_points.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _points.set(_points.get()[:-1])
        assert self._inside is not None
        self._inside.close()
        self._inside = None
        for op in self._tail:
            append(self._block, op)


def emit(op: Operation, loc: object = None, ip: object = None) -> None:
    """Give a new op its location, and put it where `ip` says, or where ops go now."""
    op.location = location_of(loc)
    for result in op.results:
        own(result)
    if ip is not None:
        if not isinstance(ip, InsertionPoint):
            raise DSLTypeError(f"ip= must be an InsertionPoint, got {ip!r}")
        ip.put(op)
        return
    tracer = maybe_current()
    if tracer is None:
        raise DSLRuntimeError(
            "no place for a new operation: build inside a @flyc.kernel or @flyc.jit function, or in a "
            "`with InsertionPoint(...)` block"
        )
    append(tracer.block, op)


__all__ = ["Context", "InsertionPoint", "Location", "emit", "location_of", "raw_context"]
