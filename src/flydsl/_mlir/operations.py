"""Operations with the members that MLIR's bindings have, around xDSL's."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, ClassVar, Self, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, ModuleOp, UnregisteredOp
from xdsl.ir import Attribute, Operation, SSAValue, Use
from xdsl.ir import Block as XBlock
from xdsl.ir import Region as XRegion

from ..errors import DSLTypeError, DSLValueError, MLIRError
from ..expr.emit.facade import Made
from ..ir.emitter import property_defaults
from ..ir.readable import NamedAttribute, readable
from ..ir.stands import stored
from ..ir.types import dense_ints
from .insertion import Context, Location, emit, forget, raw_context
from .signature import by_op, other_names, snake
from .text import op_text, parse_module, verify
from .values import unwrap, wrap

if TYPE_CHECKING:
    from .blocks import Block, Region
    from .signature import Parameter, Signature


class Attributes(MutableMapping[str, Attribute]):
    """`op.attributes`: all of them, whether xDSL keeps them as properties or not."""

    def __init__(self, op: Operation):
        self._op = op

    def __getitem__(self, name: str | int) -> Attribute:  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(name, int):
            key = list(self)[name]
            return cast(Attribute, NamedAttribute(key, self[key]))
        found = self._op.properties.get(name)
        return readable(self._op.attributes[name] if found is None else found)

    def __setitem__(self, name: str, value: Attribute) -> None:
        if not isinstance(value, Attribute):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"'{self._op.name}': {name} must be an attribute, got {value!r}")
        known = getattr(type(self._op), "get_irdl_definition", None)
        inherent = known is not None and name in known().properties
        (self._op.properties if inherent else self._op.attributes)[name] = stored(value)

    def __delitem__(self, name: str) -> None:
        del (self._op.properties if name in self._op.properties else self._op.attributes)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted([*self._op.properties, *self._op.attributes]))

    def keys(self) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The names, in their order."""
        return list(self)

    def values(self) -> list[Attribute]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The attributes, in the order of their names."""
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Attribute]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Names with their attributes."""
        return [(name, self[name]) for name in self]

    def __len__(self) -> int:
        return len(self._op.properties) + len(self._op.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._op.properties or name in self._op.attributes

    def __repr__(self) -> str:
        return repr({name: str(value) for name, value in self.items()})


class Values(list[Made]):
    """Results of an operation or arguments of a block, as the language has them."""

    def __init__(self, raws: Iterable[SSAValue]):
        super().__init__(wrap(v) for v in raws)

    @property
    def types(self) -> list[Attribute]:
        return [unwrap(v).type for v in self]


class Operands(Values):
    """Operands of an operation, which another value can be put in the place of."""

    def __init__(self, op: Operation):
        super().__init__(op.operands)
        self._op = op

    def __setitem__(self, index: int, value: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._op.operands[index] = unwrap(value, f"operand {index} of '{self._op.name}'")
        super().__setitem__(index, value)


class WalkOrder(enum.Enum):
    """Whether an operation comes before or behind those inside it."""

    PRE_ORDER = 0
    POST_ORDER = 1


class WalkResult(enum.Enum):
    """How to go on."""

    INTERRUPT = 0
    ADVANCE = 1
    SKIP = 2


def _walk(raw: Operation, callback: Callable[[Operation_], object], order: WalkOrder) -> WalkResult:
    if order is WalkOrder.PRE_ORDER:
        said = callback(Operation_.of(raw))
        if said is WalkResult.INTERRUPT:
            return WalkResult.INTERRUPT
        if said is WalkResult.SKIP:
            return WalkResult.ADVANCE
    for op in [op for region in raw.regions for block in region.blocks for op in block.ops]:
        if _walk(op, callback, order) is WalkResult.INTERRUPT:
            return WalkResult.INTERRUPT
    if order is WalkOrder.POST_ORDER and callback(Operation_.of(raw)) is WalkResult.INTERRUPT:
        return WalkResult.INTERRUPT
    return WalkResult.ADVANCE


class OperationBase:
    """What every operation has."""

    raw: Operation
    """xDSL's operation."""

    @property
    def name(self) -> Made:
        """Its full name."""
        raw = self.raw
        return raw.op_name.data if isinstance(raw, UnregisteredOp) else raw.name

    @property
    def operation(self) -> Operation_:
        """The operation without a class of its own."""
        return Operation_.of(self.raw)

    @property
    def opview(self) -> OperationBase:
        """The operation as one of its dialect's class."""
        return view(self.raw)

    @property
    def operands(self) -> Operands:
        return Operands(self.raw)

    @property
    def results(self) -> Values:
        return Values(self.raw.results)

    @property
    def result(self) -> Made:
        """Its only result."""
        if len(self.raw.results) != 1:
            raise DSLValueError(f"'{self.raw.name}' has {len(self.raw.results)} results, not one; use .results")
        return wrap(self.raw.results[0])

    @property
    def attributes(self) -> Attributes:
        """Its attributes by name."""
        return Attributes(self.raw)

    @property
    def regions(self) -> list[Region]:
        from .blocks import Region

        return [Region(r) for r in self.raw.regions]

    @property
    def successors(self) -> list[Block]:
        """The blocks it may go on to."""
        from .blocks import Block

        return [Block(b) for b in self.raw.successors]

    @property
    def location(self) -> Location:
        """Where it was written."""
        return Location(self.raw.location)

    @property
    def context(self) -> Context:
        return cast(Context, Context.current)

    @property
    def parent(self) -> Operation_ | None:
        """The operation around it."""
        found = self.raw.parent_op()
        return None if found is None else Operation_.of(found)

    @property
    def block(self) -> Block | None:
        from .blocks import Block

        return None if self.raw.parent is None else Block(self.raw.parent)

    @property
    def attached(self) -> bool:
        """Whether it is in a block."""
        return self.raw.parent is not None

    def is_before_in_block(self, other: OperationBase) -> bool:
        """Whether it stands in front of another operation of its block."""
        return self.raw.is_before_in_block(other.raw)

    def replace_uses_of_with(self, of: object, with_: object) -> None:
        """Let it use another value where it uses one."""
        old, new = unwrap(of), unwrap(with_)
        for i, value in enumerate(self.raw.operands):
            if value is old:
                self.raw.operands[i] = new

    def erase(self) -> None:
        """Remove it."""
        users = [use.operation.name for result in self.raw.results for use in result.uses]
        if users:
            raise DSLValueError(
                f"'{self.raw.name}' cannot be erased: its results are used by {', '.join(map(repr, users))}; call "
                "replace_all_uses_with first"
            )
        self.detach_from_parent()
        self.raw.erase()

    def detach_from_parent(self) -> Self:
        """Take it out of its block."""
        if self.raw.parent is None:
            raise DSLValueError(f"'{self.raw.name}' is in no block")
        forget()
        self.raw.detach()
        return self

    def _take_out(self, other: OperationBase) -> XBlock:
        """Out of its block, if it is in one; gives the block of another operation."""
        if other.raw.parent is None:
            raise DSLValueError(f"'{other.raw.name}' is in no block: nothing can be moved there")
        if self.raw.parent is not None:
            self.detach_from_parent()
        return other.raw.parent

    def move_before(self, other: OperationBase) -> None:
        """Put it in front of another."""
        self._take_out(other).insert_op_before(self.raw, other.raw)

    def move_after(self, other: OperationBase) -> None:
        """Put it behind another."""
        self._take_out(other).insert_op_after(self.raw, other.raw)

    def clone(self, ip: object = None) -> OperationBase:
        """A copy, inserted where ops go now; `ip=False` leaves it in no block."""
        made = self.raw.clone()
        if ip is not False:
            emit(made, Location(self.raw.location), ip)
        return view(made)

    def verify(self) -> bool:
        """Whether it is well formed; what is not raises `MLIRError`."""
        verify(self.raw)
        return True

    def walk(self, callback: Callable[[Operation_], object], walk_order: WalkOrder = WalkOrder.POST_ORDER) -> None:
        """Call a function with the operation and all inside it, innermost first or last. It may say how to go on, and
        erase what it is given."""
        _walk(self.raw, callback, walk_order)

    def get_asm(
        self,
        binary: bool = False,
        large_elements_limit: int | None = None,
        enable_debug_info: bool = False,
        pretty_debug_info: bool = False,
        print_generic_op_form: bool = False,
        use_local_scope: bool = False,
        assume_verified: bool = False,
    ) -> str | bytes:
        """Its text: the generic form where it does not verify. Large constants are written in full."""
        text = op_text(
            self.raw, generic=print_generic_op_form, debuginfo=enable_debug_info, use_local_scope=use_local_scope
        )
        text += "\n" if isinstance(self.raw, ModuleOp) else ""
        return text.encode() if binary else text

    def write_bytecode(self, file: object, desired_version: int | None = None) -> None:
        """MLIR's binary form, which is not written here."""
        raise DSLValueError("write_bytecode: MLIR's bytecode is not written here; write the text of get_asm()")

    def print(self, state: object = None, file: object = None, **options: Any) -> None:
        """Write its text to a file, or to the standard output."""
        text = self.get_asm(**options)
        line = text + b"\n" if isinstance(text, bytes) else text.rstrip("\n") + "\n"
        cast("IO[Any]", file or sys.stdout).write(line)

    def __str__(self) -> str:
        return str(self.get_asm())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperationBase) and self.raw is other.raw

    def __hash__(self) -> int:
        return hash(self.raw)


class Operation_(OperationBase):
    """`ir.Operation`."""

    @classmethod
    def of(cls, raw: Operation) -> Operation_:
        """Around an operation of xDSL's."""
        made = object.__new__(cls)
        made.raw = raw
        return made

    @staticmethod
    def create(
        name: str,
        results: Sequence[Attribute] | None = None,
        operands: Sequence[object] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        successors: Sequence[object] | None = None,
        regions: int = 0,
        loc: object = None,
        ip: object = None,
        infer_type: bool = False,
    ) -> Operation_:
        """An operation by its name. `ip=False` leaves it in no block."""
        cls = raw_context().get_optional_op(name)
        if cls is None:
            raise DSLValueError(f"there is no operation '{name}'")
        for key, value in (attributes or {}).items():
            if not isinstance(value, Attribute):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DSLTypeError(f"'{name}': {key} must be an attribute, got {value!r}")
        values = [unwrap(v, f"operand {i} of '{name}'") for i, v in enumerate(operands or ())]
        types = [readable(t) for t in results or ()]
        known = getattr(cls, "get_irdl_definition", None)
        inherent: set[str] = set() if known is None else set(known().properties)
        given = {key: stored(value) for key, value in (attributes or {}).items()}
        if infer_type and results is None:
            from .inference import infer

            types = infer(cls, values, given)
        made = cls.create(
            operands=values,
            result_types=types,
            properties={k: v for k, v in given.items() if k in inherent},
            attributes={k: v for k, v in given.items() if k not in inherent},
            successors=[cast(XBlock, getattr(b, "raw", b)) for b in successors or ()],
            regions=[XRegion() for _ in range(regions)],
        )
        if not isinstance(made, UnregisteredOp):
            made.properties = {**property_defaults(cls), **made.properties}
        if ip is not False:
            emit(made, loc, ip)
        return Operation_.of(made)

    @staticmethod
    def parse(source: str, *, source_name: str = "-", context: object = None) -> OperationBase:
        """The operation of a text."""
        return parse_operation(source, source_name)


Operation_.__name__ = Operation_.__qualname__ = "Operation"


class OpView(OperationBase):
    """`ir.OpView`: the base of the classes of all ops."""

    OPERATION_NAME: ClassVar[str] = ""
    SIGNATURE: ClassVar[Signature | None] = None

    @classmethod
    def parse(cls, source: str, *, source_name: str = "-", context: object = None) -> OperationBase:
        """The operation of a text, which must be one of this class."""
        return parse_operation(source, source_name, cls.OPERATION_NAME)

    def __setattr__(self, name: str, value: object) -> None:
        p = None if name == "raw" else self._attribute_called(name)
        if p is None:
            object.__setattr__(self, name, value)
        elif value is None:
            self.attributes.pop(p, None)
        else:
            self.attributes[p] = cast(Attribute, value)

    def _attribute_called(self, name: str) -> str | None:
        """The name in the definition of an attribute that MLIR's class has as a property."""
        known = getattr(type(self.raw), "get_irdl_definition", None)
        found = [] if self.SIGNATURE is None else [p.name for p in self.SIGNATURE.named("attribute")]
        found += [] if known is None else known().properties
        return next((each for each in found if name in (each, snake(each))), None)

    def __getattr__(self, name: str) -> Made:
        found = _member(self, name)
        if found is _MISSING:
            raise AttributeError(f"'{self.OPERATION_NAME}' has no '{name}'")
        return found


_MISSING = object()


def _member(op: OpView, name: str) -> object:
    """An operand, result, region or attribute by its name in the op's definition, or as MLIR spells it."""
    if name.startswith("__") or name == "raw":
        return _MISSING
    raw = op.raw
    groups = _groups(op)
    for spelled in (name, name.rstrip("_"), snake(name)):
        if spelled in groups:
            return groups[spelled]
    called = op._attribute_called(name)  # pyright: ignore[reportPrivateUsage]
    if called is not None:
        return op.attributes.get(called, op.attributes.get(called.rstrip("_")))
    found = op.attributes.get(name)
    return _MISSING if found is None and not hasattr(type(raw), name) else found


def _groups(op: OpView) -> dict[str, object]:
    """Operands, results and regions by name: the names of our definition, and those of the signature in their order."""
    raw = op.raw
    known = getattr(type(raw), "get_irdl_definition", None)
    found: dict[str, object] = {}
    if known is None:
        return found
    definition = known()
    for kind, parts, values in (
        ("operand", definition.operands, raw.operands),
        ("result", definition.results, raw.results),
    ):
        held = [getattr(raw, name) for name, _ in parts]
        ours = [_wrapped(x) for x in held]
        found.update(zip((name for name, _ in parts), ours, strict=True))
        wanted = [] if op.SIGNATURE is None else op.SIGNATURE.named(kind)
        if len(wanted) == len(parts):
            found.update((p.name, x) for p, x in zip(wanted, ours, strict=True))
        else:
            found.update(_named_apart(raw, wanted, values))
    from .blocks import Region

    for name, _ in definition.regions:
        region: Any = getattr(raw, name)
        several = cast("Sequence[XRegion]", region) if isinstance(region, Sequence) else None
        made: object = Region(cast(XRegion, region)) if several is None else [Region(r) for r in several]
        found[name] = found[snake(name)] = made
    for name, ours in other_names().get(raw.name, {}).items():
        found[name] = found[ours]
    return found


def _named_apart(raw: Operation, wanted: Sequence[Parameter], values: Sequence[SSAValue]) -> dict[str, object]:
    """Values by the names of a signature that tells apart what our definition keeps in one list."""
    counts = [1] * len(wanted)
    sizes = raw.properties.get("operandSegmentSizes")
    if isinstance(sizes, DenseArrayBase) and len(values) == len(raw.operands):
        known = dense_ints(cast("DenseArrayBase[IntegerType]", sizes))
        counts = list(known) if len(known) == len(wanted) else counts
    elif len(values) < len(wanted) and all(p.optional for p in wanted[len(values) :]):
        counts = [1] * len(values) + [0] * (len(wanted) - len(values))
    if sum(counts) != len(values):
        return {}
    found: dict[str, object] = {}
    at = 0
    for p, count in zip(wanted, counts, strict=True):
        held = values[at : at + count]
        found[p.name] = Values(held) if p.many else wrap(held[0]) if count else None
        at += count
    return found


def _wrapped(x: object) -> object:
    if isinstance(x, SSAValue):
        return wrap(cast(SSAValue, x))
    return None if x is None else Values(cast("Sequence[SSAValue]", x))


@cache
def _class_of(op: str) -> type[OpView] | None:
    """The class of an op: the one that the module of its dialect writes out, or the one made of its signature."""
    from .build import class_of

    dialect = op.partition(".")[0]
    signature = by_op(dialect).get(op)
    if signature is None:
        return None
    name = f"{__package__}.dialects.{dialect}"
    if find_spec(name) is None:
        return class_of(signature)
    return cast("type[OpView]", getattr(import_module(name), signature.cls))


def view(raw: Operation) -> OperationBase:
    """An operation as one of its dialect's class."""
    cls = _class_of(raw.name)
    if cls is None:
        return Operation_.of(raw)
    made = object.__new__(cls)
    made.raw = raw
    return made


def owner_of(value: object) -> OperationBase | Block:
    """The operation or the block a value comes from; of a use, the operation that uses it."""
    from .blocks import Block

    found = value.operation if isinstance(value, Use) else unwrap(value).owner
    return view(found) if isinstance(found, Operation) else Block(found)


def parse_operation(source: str, source_name: str, wanted: str = "") -> OperationBase:
    """The one operation of a text."""
    module = parse_module(source, source_name)
    ops = list(module.body.block.ops)
    found: Operation = module
    if len(ops) == 1 and (wanted != "builtin.module" or isinstance(ops[0], ModuleOp)):
        found = ops[0]
    elif len(ops) > 1 and not source.lstrip().startswith(("module", "builtin.module", '"builtin.module"')):
        raise MLIRError(f"expected the text of one operation, got {len(ops)}")
    if wanted and found.name != wanted:
        raise MLIRError(f"expected the text of a '{wanted}', got a '{found.name}'")
    if found is not module:
        found.detach()
    return view(found)


__all__ = [
    "Attributes", "OpView", "Operands", "OperationBase", "Operation_", "Values", "WalkOrder", "WalkResult", "owner_of",
    "parse_operation", "view",
]  # fmt: skip
