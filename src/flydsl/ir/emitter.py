"""Creating operations and attributes, fast. The one file that touches xDSL's private fields.

`emit1` and `emitn` append a new operation to a block. They build exactly what `Op.create` plus `Block.add_op` build
(a test compares field by field), for a fifth of the time: no keyword calls, no ancestor checks, no location import.
Set `FAST = False` to go through xDSL's public constructors instead. `make_attribute` does the same for attributes whose
parts are known to be right.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Block, Data, Operation, ParametrizedAttribute, Region, SSAValue, SSAValues, Use
from xdsl.irdl import IRDLOperation, OptPropertyDef

from ..errors import DSLRuntimeError
from .values import BlockArgument, OpResult, own

if TYPE_CHECKING:
    from xdsl.dialects.builtin import LocationAttr
    from xdsl.ir import Attribute

P = TypeVar("P", bound=ParametrizedAttribute)
D = TypeVar("D", bound=Data[Hashable])
T = TypeVar("T")
V = TypeVar("V", bound=SSAValue)

FAST: bool = True
UNKNOWN: Final = UnknownLoc()


class _New(Protocol):
    def __call__(self, cls: type[T], /) -> T: ...


class _NewValues(Protocol):
    def __call__(self, cls: type[object], values: Iterable[V], /) -> SSAValues[V]: ...


_new = cast("_New", object.__new__)
_tup = cast("_NewValues", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
_defaults: dict[type[Operation], dict[str, Attribute]] = {}


def property_defaults(cls: type[Operation]) -> dict[str, Attribute]:
    """Property defaults of an op class, which IRDL would fill in at construction."""
    found: dict[str, Attribute] = {}
    if issubclass(cls, IRDLOperation):
        for name, prop in cls.get_irdl_definition().properties.items():
            if prop.default_value is not None and not isinstance(prop, OptPropertyDef):
                found[name] = prop.default_value
    _defaults[cls] = found
    return found


def _make(
    block: Block,
    cls: type[Operation],
    operands: Sequence[SSAValue],
    types: Sequence[Attribute],
    props: dict[str, Attribute],
    loc: LocationAttr,
) -> Operation:
    op = _new(cls)
    op._operands = _tup(SSAValues, operands)
    uses: list[Use] = []
    i = 0
    for v in operands:
        head = v.first_use
        u = Use(op, i, None, head)
        if head is not None:
            head._prev_use = u
        v.first_use = u
        uses.append(u)
        i += 1
    op._operand_uses = tuple(uses)
    if len(types) == 1:
        op.results = _tup(SSAValues, (OpResult(types[0], op, 0),))
    else:
        op.results = _tup(SSAValues, [OpResult(t, op, i) for i, t in enumerate(types)])
    d = _defaults.get(cls)
    if d is None:
        d = property_defaults(cls)
    op.properties = {**d, **props} if d else props
    op.attributes, op.location, op.parent = {}, loc, block
    return op


_set = object.__setattr__


def make_attribute(cls: type[P], fields: tuple[str, ...], values: Sequence[Attribute]) -> P:
    """A parametrised attribute as `cls.new(values)` makes it, not verified: half of a compilation's attributes are
    locations, and xDSL's checks of one take 20 us."""
    if not FAST:
        return cls.new(values)
    made = _new(cls)
    for name, value in zip(fields, values, strict=True):
        _set(made, name, value)
    return made


def make_data(cls: type[D], value: object) -> D:
    """A data attribute as `cls(value)` makes it, not verified."""
    if not FAST:
        return cast("Callable[[object], D]", cls)(value)
    made = _new(cls)
    _set(made, "data", value)
    return made


def add_field(attr: Attribute, name: str, value: object) -> None:
    """Give a new attribute, which nobody has seen yet, a field beside those that it is compared by."""
    _set(attr, name, value)


def retype(value: SSAValue, type_: Attribute) -> None:
    """Let the type of a value be an equal one."""
    value._type = type_


def blocks_in(region: Region) -> list[Block]:
    """The blocks of a region, one mostly: `region.blocks` asks for each in Python, and says the end by an exception."""
    found: list[Block] = []
    block = region._first_block
    while block is not None:
        found.append(block)
        block = block._next_block
    return found


def ops_in(block: Block) -> Iterator[Operation]:
    """The ops of a block and of everything in it, outer ones first: `block.walk()` in a third of its time."""
    todo: list[Operation | None] = [block._first_op]
    while todo:
        op = todo.pop()
        while op is not None:
            yield op
            if op.regions:
                todo.append(op._next_op)
                inner = [b._first_op for region in op.regions for b in blocks_in(region)]
                inner.reverse()
                todo += inner
                break
            op = op._next_op


def new_block(types: Iterable[Attribute]) -> Block:
    """A block with arguments, whose values compute."""
    block = Block()
    block._args = tuple(BlockArgument(t, block, i) for i, t in enumerate(types))
    return block


def _create(cls: type[Operation], **parts: Any) -> Operation:
    """An op by xDSL's public constructor."""
    op = cls.create(**parts)
    for result in op.results:
        own(result)
    return op


def append(block: Block, op: Operation) -> None:
    """Link a new, parentless op at the end of a block, without the ancestor check of `Block.add_op`."""
    op.parent = block
    last = block._last_op
    if last is None:
        block._first_op = op
    else:
        last._next_op, op._prev_op = op, last
    block._last_op = op


def insert_after(block: Block, anchor: Operation | None, op: Operation) -> None:
    """Link a new op right behind `anchor`, or at the head of the block when there is none."""
    op.parent = block
    following = block._first_op if anchor is None else anchor._next_op
    op._prev_op, op._next_op = anchor, following
    if anchor is None:
        block._first_op = op
    else:
        anchor._next_op = op
    if following is None:
        block._last_op = op
    else:
        following._prev_op = op


class Before:
    """In the place of a block: what is appended to it stands in front of an op, wherever that is by then."""

    __slots__ = ("_anchor",)

    def __init__(self, anchor: Operation):
        self._anchor = anchor

    @property
    def _block(self) -> Block:
        block = self._anchor.parent
        if block is None:
            raise DSLRuntimeError(
                f"new operations go in front of '{self._anchor.name}', which was taken out of its block: leave the "
                "`with InsertionPoint(...)` first, or choose another place"
            )
        return block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    @property
    def _last_op(self) -> Operation | None:
        return self._block and self._anchor._prev_op

    @_last_op.setter
    def _last_op(self, op: Operation) -> None:
        op.parent, op._next_op, self._anchor._prev_op = self._block, self._anchor, op

    @property
    def _first_op(self) -> Operation | None:
        return self._block._first_op

    @_first_op.setter
    def _first_op(self, op: Operation) -> None:
        self._block._first_op = op

    def add_op(self, op: Operation) -> None:
        """As a block's."""
        self._block.insert_op_before(op, self._anchor)


def relink(block: Block, order: Sequence[Operation]) -> None:
    """Put the ops of a block into another order; those that are left out are dropped."""
    kept = 0
    op = block._first_op
    for wanted in order:
        if op is None or op is not wanted:
            break
        op = op._next_op
        kept += 1
    if op is None and kept == len(order):
        return
    everything: list[Operation] = []
    op = block._first_op
    while op is not None:
        everything.append(op)
        op = op._next_op
    previous: Operation | None = None
    for made in order:
        made._prev_op = previous
        if previous is None:
            block._first_op = made
        else:
            previous._next_op = made
        previous = made
    if previous is None:
        block._first_op = None
    else:
        previous._next_op = None
    block._last_op = previous
    if len(everything) != len(order):
        left = set(map(id, order))
        for gone in everything:
            if id(gone) not in left:
                gone.parent = gone._prev_op = gone._next_op = None
                gone.drop_all_references()


def emit1(
    block: Block,
    cls: type[Operation],
    operands: Sequence[SSAValue],
    type_: Attribute,
    props: dict[str, Attribute],
    loc: LocationAttr = UNKNOWN,
) -> SSAValue:
    """Append an op with one result and no regions; give the result."""
    if not FAST:
        return emitn(block, cls, operands, (type_,), props, loc).results[0]
    op = _make(block, cls, operands, (type_,), props, loc)
    last = block._last_op
    if last is None:
        block._first_op = op
    else:
        last._next_op, op._prev_op = op, last
    block._last_op = op
    (result,) = op.results
    return result


def emitn(
    block: Block,
    cls: type[Operation],
    operands: Sequence[SSAValue],
    types: Sequence[Attribute],
    props: dict[str, Attribute],
    loc: LocationAttr = UNKNOWN,
) -> Operation:
    """Append an op with any number of results and no regions; give the op. `props` becomes the op's own dict."""
    if not FAST:
        made = _create(cls, operands=operands, result_types=types, properties=props, location=loc)
        block.add_op(made)
        return made
    op = _make(block, cls, operands, types, props, loc)
    last = block._last_op
    if last is None:
        block._first_op = op
    else:
        last._next_op, op._prev_op = op, last
    block._last_op = op
    return op


def emit_head(
    block: Block,
    anchor: Operation | None,
    cls: type[Operation],
    type_: Attribute,
    props: dict[str, Attribute],
    loc: LocationAttr = UNKNOWN,
) -> Operation:
    """Insert an operand-less op behind `anchor` (at the block's head without one): constants of a function."""
    if FAST:
        op = _make(block, cls, (), (type_,), props, loc)
    else:
        op = _create(cls, result_types=[type_], properties=props, location=loc)
    insert_after(block, anchor, op)
    return op


def emit_regions(
    block: Block,
    cls: type[Operation],
    operands: Sequence[SSAValue],
    types: Sequence[Attribute],
    props: dict[str, Attribute],
    regions: Sequence[Region],
    loc: LocationAttr = UNKNOWN,
    attrs: dict[str, Attribute] | None = None,
) -> Operation:
    """Append an op with regions. Fill the regions' blocks before the call: a detached block links faster."""
    if FAST:
        op = _make(block, cls, operands, types, props, loc)
        for region in regions:
            op.add_region(region)
        if attrs:
            op.attributes = attrs
    else:
        op = _create(
            cls,
            operands=operands,
            result_types=types,
            properties=props,
            attributes=attrs or {},
            regions=regions,
            location=loc,
        )
    append(block, op)
    return op


def operands_of(op: Operation) -> tuple[SSAValue, ...]:
    """The operands as the plain tuple they are stored in (the public property wraps them in a view)."""
    return op._operands
