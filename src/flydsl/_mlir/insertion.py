"""Where new ops go, and with which location: `Context`, `Location`, `InsertionPoint`.

Inside a kernel that is traced the place is the tracer's, and `with InsertionPoint(...)` moves it: the language's own
ops go there too. Outside, an insertion point brings a tracer of its own, so that modules can be built by hand.
"""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast

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
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation
from xdsl.traits import IsTerminator

from ..errors import DSLRuntimeError, DSLTypeError, DSLValueError, MLIRError
from ..expr.emit.trace import active, maybe_current
from ..expr.emit.tracer import Tracer
from ..ir.emitter import UNKNOWN, Before, append
from ..ir.registry import make_context
from ..ir.stands import stored
from ..ir.values import own

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_points: ContextVar[tuple[InsertionPoint, ...]] = ContextVar("flydsl_insertion_points", default=())
_locations: ContextVar[tuple[LocationAttr, ...]] = ContextVar("flydsl_locations", default=())


class _HasCurrent(type):
    """Classes whose innermost object is `Class.current`."""

    @property
    def current(cls) -> object:
        return cast("Context", cls)._current()  # pyright: ignore[reportPrivateUsage]


class Context(metaclass=_HasCurrent):
    """`ir.Context`: which dialects there are. There is one set of them here, so that contexts are equal."""

    def __init__(self) -> None:
        self.allow_unregistered_dialects = False
        """Whether ops of other dialects may be read and made."""

    def __enter__(self) -> Self:
        _contexts.set((*_contexts.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _contexts.set(_contexts.get()[:-1])

    @classmethod
    def _current(cls) -> Context:
        return _contexts.get()[-1] if _contexts.get() else _THE_CONTEXT

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context)

    def __hash__(self) -> int:
        return hash(Context)

    def is_registered_operation(self, name: str) -> bool:
        """Whether there is such an op."""
        return raw_context(registered=True).get_optional_op(name) is not None

    def load_all_available_dialects(self) -> None:
        """They are loaded when they are met."""

    def enable_multithreading(self, enable: bool) -> None:
        """Nothing here has threads of its own."""


_contexts: ContextVar[tuple[Context, ...]] = ContextVar("flydsl_contexts", default=())
_THE_CONTEXT = Context()


@cache
def _dialects(allow_unregistered: bool) -> XContext:
    return make_context(allow_unregistered=allow_unregistered)


def raw_context(*, registered: bool = False) -> XContext:
    """The dialects, for a parser; `registered` ones alone, whatever the current context allows."""
    return _dialects(not registered and cast(Context, Context.current).allow_unregistered_dialects)


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
        """Several places, each of them once; one alone is itself."""
        kept = list(dict.fromkeys(found.attr for found in locations if found.attr != UNKNOWN))
        if metadata is None and len(kept) < 2:
            return cls(kept[0] if kept else UNKNOWN)
        return cls(FusedLoc(tuple(kept), NoneAttr() if metadata is None else metadata))

    @classmethod
    def callsite(cls, callee: Location, frames: Sequence[Location], context: Context | None = None) -> Location:
        """A place and those it was called from, innermost first."""
        if not frames:
            raise DSLValueError("a call needs at least one place that it was called from, got none")
        caller = frames[-1].attr
        for frame in reversed(frames[:-1]):
            caller = CallSiteLoc(frame.attr, caller)
        return cls(CallSiteLoc(callee.attr, caller))

    @classmethod
    def from_attr(cls, attribute: LocationAttr, context: Context | None = None) -> Location:
        return cls(attribute)

    @property
    def context(self) -> Context:
        return cast(Context, Context.current)

    def __getattr__(self, name: str) -> object:
        kind, read = _PARTS.get(name, (None, None))
        if kind is None or read is None or not isinstance(self.attr, kind):
            raise AttributeError(f"{self} has no '{name}'")
        found = read(self.attr)
        if isinstance(found, tuple):
            return [Location(each) for each in cast("tuple[LocationAttr, ...]", found)]
        return Location(found) if isinstance(found, LocationAttr) else found

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
        from ..ir.printer import IRPrinter

        return IRPrinter().location(self.attr)

    def __repr__(self) -> str:
        return f"Location({self})"


_PARTS: dict[str, tuple[type[LocationAttr], Callable[[Any], object]]] = {
    "filename": (FileLineColLoc, lambda at: at.filename.data),
    **dict.fromkeys(("start_line", "end_line"), (FileLineColLoc, lambda at: at.line.data)),
    **dict.fromkeys(("start_col", "end_col"), (FileLineColLoc, lambda at: at.column.data)),
    "name_str": (NameLoc, lambda at: at.desc.data),
    "child_loc": (NameLoc, lambda at: at.location),
    "locations": (FusedLoc, lambda at: at.locations.data),
    "callee": (CallSiteLoc, lambda at: at.callee),
    "caller": (CallSiteLoc, lambda at: at.caller),
}
"""What there is to ask of a location, by the class of its attribute."""


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


class InsertionPoint(metaclass=_HasCurrent):
    """`ir.InsertionPoint`: the end of a block, or the place in front of an op."""

    def __init__(self, beforeOrBlock: object):
        raw = getattr(beforeOrBlock, "raw", beforeOrBlock)
        self._end: Block | None = raw if isinstance(raw, Block) else None
        self._before: Operation | None = None
        self._inside: list[ExitStack] = []
        if self._end is None:
            if not isinstance(raw, Operation) or raw.parent is None:
                raise DSLTypeError(f"expected a block or an operation in one, got {beforeOrBlock!r}")
            self._before = raw

    @classmethod
    def at_block_begin(cls, block: object) -> InsertionPoint:
        """In front of the first op of a block."""
        found = cls(block)
        first = found.raw_block.first_op
        return found if first is None else cls(first)

    @classmethod
    def at_block_terminator(cls, block: object) -> InsertionPoint:
        """In front of the terminator of a block."""
        last = cls(block).raw_block.last_op
        if last is None or not last.has_trait(IsTerminator, value_if_unregistered=False):
            raise DSLValueError("the block has no terminator to insert in front of")
        return cls(last)

    @classmethod
    def after(cls, operation: object) -> InsertionPoint:
        """Behind an op."""
        found = cls(operation)
        assert found._before is not None
        following = found._before.next_op
        return cls(found.raw_block if following is None else following)

    @classmethod
    def _current(cls) -> InsertionPoint:
        if _points.get():
            return _points.get()[-1]
        tracer = maybe_current()
        if tracer is None:
            raise ValueError("No current InsertionPoint")
        return cls(tracer.block)

    @property
    def raw_block(self) -> Block:
        """The block it is in."""
        block = self._end if self._before is None else self._before.parent
        if block is None:
            raise DSLRuntimeError("the operation of the insertion point was taken out of its block")
        return block

    @property
    def block(self) -> object:
        from .blocks import Block as BlockView

        return BlockView(self.raw_block)

    @property
    def ref_operation(self) -> object:
        """The op in front of which is inserted, or None."""
        from .operations import Operation_

        return None if self._before is None else Operation_.of(self._before)

    def insert(self, operation: object) -> None:
        """Put an op that is in no block here."""
        raw = getattr(operation, "raw", operation)
        if not isinstance(raw, Operation):
            raise DSLTypeError(f"expected an operation, got {operation!r}")
        if raw.parent is not None:
            raise DSLValueError(f"expected an operation that is in no block, got '{raw.name}', which is in one")
        self.put(raw)

    def _place(self) -> Block:
        """What new ops are appended to."""
        return self.raw_block if self._before is None else cast(Block, Before(self._before))

    def put(self, op: Operation) -> None:
        """Link a new op here."""
        append(self._place(), op)

    def __enter__(self) -> Self:
        inside = ExitStack()
        tracer = maybe_current()
        if tracer is None:
            tracer = Tracer()
            inside.callback(active.reset, active.set(tracer))
        if not tracer.functions:
            inside.enter_context(tracer.open_function(self.raw_block))
        # What is numbered further on in the block may stand behind this place: start anew.
        inside.enter_context(tracer.resumed(self._place(), {}))
        self._inside.append(inside)
        _points.set((*_points.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _points.set(_points.get()[:-1])
        self._inside.pop().close()


class _KindOfLocation(type):
    """Classes of locations, of which there are no objects but those of `Location`."""

    kind: type[LocationAttr]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Location) and isinstance(instance.attr, cls.kind)

    def __call__(cls, location: object) -> object:
        if not isinstance(location, cls):
            raise MLIRError(f"cannot cast {location} to {cls.__name__}")
        return location


KINDS_OF_LOCATIONS = {
    kind.__name__: _KindOfLocation(kind.__name__, (), {"kind": kind, "__doc__": f"A location by `{kind.name}`."})
    for kind in (UnknownLoc, FileLineColLoc, NameLoc, FusedLoc, CallSiteLoc)
}


def forget() -> None:
    """An op goes away or elsewhere: what was computed before is computed anew from here on."""
    tracer = maybe_current()
    if tracer is not None:
        tracer.forget(0)


def emit(op: Operation, loc: object = None, ip: object = None) -> None:
    """Give a new op its location, and put it where `ip` says, or where ops go now."""
    op.location = location_of(loc)
    for held in (op.properties, op.attributes):
        held.update({name: stored(attr) for name, attr in held.items()})
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


__all__ = [
    "KINDS_OF_LOCATIONS", "Context", "InsertionPoint", "Location", "emit", "forget", "location_of", "raw_context",
]  # fmt: skip
