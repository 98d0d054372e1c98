"""Operations, blocks, regions and modules with the members that MLIR's bindings have, around xDSL's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir import Block as XBlock
from xdsl.ir import Region as XRegion
from xdsl.printer import Printer

from ..errors import DSLTypeError, DSLValueError
from ..expr.emit.facade import Made
from ..ir.emitter import new_block
from ..ir.readable import readable
from ..ir.values import add_argument
from .insertion import Context, Location, emit, raw_context
from .signature import by_op, snake
from .values import unwrap, wrap

if TYPE_CHECKING:
    from .signature import Signature


class Attributes(MutableMapping[str, Attribute]):
    """`op.attributes`: all of them, whether xDSL keeps them as properties or not."""

    def __init__(self, op: Operation):
        self._op = op

    def __getitem__(self, name: str) -> Attribute:
        found = self._op.properties.get(name)
        return readable(self._op.attributes[name] if found is None else found)

    def __setitem__(self, name: str, value: Attribute) -> None:
        known = getattr(type(self._op), "get_irdl_definition", None)
        inherent = known is not None and name in known().properties
        (self._op.properties if inherent else self._op.attributes)[name] = value

    def __delitem__(self, name: str) -> None:
        del (self._op.properties if name in self._op.properties else self._op.attributes)[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._op.properties, *self._op.attributes])

    def __len__(self) -> int:
        return len(self._op.properties) + len(self._op.attributes)


class OperationBase:
    """What every operation has."""

    raw: Operation
    """xDSL's operation."""

    @property
    def name(self) -> str:
        """Its full name."""
        return self.raw.name

    @property
    def operation(self) -> Operation_:
        """The operation without a class of its own."""
        return Operation_.of(self.raw)

    @property
    def opview(self) -> OperationBase:
        """The operation as one of its dialect's class."""
        return view(self.raw)

    @property
    def operands(self) -> list[Made]:
        return [wrap(v) for v in self.raw.operands]

    @property
    def results(self) -> list[Made]:
        return [wrap(v) for v in self.raw.results]

    @property
    def result(self) -> Made:
        """Its only result."""
        if len(self.raw.results) != 1:
            raise DSLValueError(f"'{self.name}' has {len(self.raw.results)} results, not one; use .results")
        return wrap(self.raw.results[0])

    @property
    def attributes(self) -> Attributes:
        """Its attributes by name."""
        return Attributes(self.raw)

    @property
    def regions(self) -> list[Region]:
        return [Region(r) for r in self.raw.regions]

    @property
    def successors(self) -> list[Block]:
        """The blocks it may go on to."""
        return [Block(b) for b in self.raw.successors]

    @property
    def location(self) -> Location:
        """Where it was written."""
        return Location(self.raw.location)

    @property
    def context(self) -> Context:
        return cast(Context, Context.current)

    @property
    def parent(self) -> OperationBase | None:
        """The operation around it."""
        found = self.raw.parent_op()
        return None if found is None else view(found)

    @property
    def block(self) -> Block | None:
        return None if self.raw.parent is None else Block(self.raw.parent)

    @property
    def attached(self) -> bool:
        """Whether it is in a block."""
        return self.raw.parent is not None

    def erase(self) -> None:
        """Remove it."""
        self.raw.detach()
        self.raw.erase()

    def detach_from_parent(self) -> Self:
        """Take it out of its block."""
        self.raw.detach()
        return self

    def move_before(self, other: OperationBase) -> None:
        """Put it in front of another."""
        self.raw.detach()
        cast(XBlock, other.raw.parent).insert_op_before(self.raw, other.raw)

    def move_after(self, other: OperationBase) -> None:
        """Put it behind another."""
        self.raw.detach()
        cast(XBlock, other.raw.parent).insert_op_after(self.raw, other.raw)

    def clone(self, ip: object = None) -> OperationBase:
        """A copy, inserted where ops go now."""
        made = self.raw.clone()
        emit(made, Location(self.raw.location), ip)
        return view(made)

    def verify(self) -> bool:
        """Whether it is well formed; what is not raises."""
        self.raw.verify()
        return True

    def walk(self, callback: Callable[[OperationBase], object]) -> None:
        """Call a function with the operation and all inside it, innermost first."""
        for op in reversed(list(self.raw.walk(reverse=True))):
            callback(view(op))

    def get_asm(self, **_: object) -> str:
        """Its text."""
        text = StringIO()
        Printer(stream=text).print_op(self.raw)
        return text.getvalue()

    def print(self, file: object = None, **_: object) -> None:
        """Write its text to a file, or to the standard output."""
        import sys

        cast(StringIO, file or sys.stdout).write(self.get_asm() + "\n")

    def __str__(self) -> str:
        return self.get_asm()

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
    ) -> OperationBase:
        """An operation by its name. `ip=False` leaves it in no block."""
        cls = raw_context().get_optional_op(name)
        if cls is None:
            raise DSLValueError(f"there is no operation '{name}'")
        values = [unwrap(v, f"operand {i} of '{name}'") for i, v in enumerate(operands or ())]
        types = [readable(t) for t in results or ()]
        known = getattr(cls, "get_irdl_definition", None)
        inherent: set[str] = set() if known is None else set(known().properties)
        given = dict(attributes or {})
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
        if ip is not False:
            emit(made, loc, ip)
        return view(made)

    @staticmethod
    def parse(source: str, *, source_name: str = "-", context: object = None) -> OperationBase:
        """The operation of a text."""
        return view(Module.parse(source).raw)


class OpView(OperationBase):
    """`ir.OpView`: the base of the classes of all ops."""

    OPERATION_NAME: ClassVar[str] = ""
    SIGNATURE: ClassVar[Signature | None] = None

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
    signature = op.SIGNATURE
    groups = _groups(op)
    for spelled in (name, name.rstrip("_"), snake(name)):
        if spelled in groups:
            return groups[spelled]
    if signature is not None and any(
        p.kind == "attribute" and name in (p.name, snake(p.name)) for p in signature.parameters
    ):
        return op.attributes.get(name)
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
        elif len(wanted) == len(values):
            found.update((p.name, wrap(v)) for p, v in zip(wanted, values, strict=True))
    for name, _ in definition.regions:
        region: Any = getattr(raw, name)
        several = cast("Sequence[XRegion]", region) if isinstance(region, Sequence) else None
        made: object = Region(cast(XRegion, region)) if several is None else [Region(r) for r in several]
        found[name] = found[snake(name)] = made
    return found


def _wrapped(x: object) -> object:
    if isinstance(x, SSAValue):
        return wrap(cast(SSAValue, x))
    return None if x is None else [wrap(v) for v in cast("Sequence[SSAValue]", x)]


def view(raw: Operation) -> OperationBase:
    """An operation as one of its dialect's class."""
    from .build import class_of

    if isinstance(raw, ModuleOp):
        return Operation_.of(raw)
    signature = by_op(raw.name.partition(".")[0]).get(raw.name)
    if signature is None:
        return Operation_.of(raw)
    made = object.__new__(class_of(signature))
    made.raw = raw
    return made


def owner_of(value: object) -> OperationBase | Block:
    """The operation or the block a value comes from."""
    found = unwrap(value).owner
    return view(found) if isinstance(found, Operation) else Block(found)


class Block:
    """`ir.Block`."""

    def __init__(self, raw: XBlock):
        self.raw = raw

    @staticmethod
    def create_at_start(parent: Region, arg_types: Sequence[Attribute] = (), arg_locs: object = None) -> Block:
        """A new first block of a region."""
        made = new_block(arg_types)
        parent.raw.insert_block(made, 0)
        return Block(made)

    def create_after(self, *arg_types: Attribute, arg_locs: object = None) -> Block:
        """A new block behind this one."""
        made = new_block(arg_types)
        cast(XRegion, self.raw.parent).insert_block_after(made, self.raw)
        return Block(made)

    def create_before(self, *arg_types: Attribute, arg_locs: object = None) -> Block:
        """A new block in front of this one."""
        made = new_block(arg_types)
        cast(XRegion, self.raw.parent).insert_block_before(made, self.raw)
        return Block(made)

    @property
    def arguments(self) -> list[Made]:
        return [wrap(a) for a in self.raw.args]

    @property
    def operations(self) -> list[OperationBase]:
        return [view(op) for op in self.raw.ops]

    @property
    def owner(self) -> OperationBase | None:
        """The operation whose region it is in."""
        found = self.raw.parent_op()
        return None if found is None else view(found)

    @property
    def region(self) -> Region | None:
        return None if self.raw.parent is None else Region(self.raw.parent)

    def add_argument(self, type: Attribute, loc: object = None) -> Made:
        """A new last argument."""
        return wrap(add_argument(self.raw, type))

    def append(self, operation: OperationBase) -> None:
        """Move an operation to its end."""
        if operation.raw.parent is not None:
            operation.raw.detach()
        self.raw.add_op(operation.raw)

    def append_to(self, region: Region) -> None:
        """Move it to the end of a region."""
        if self.raw.parent is not None:
            self.raw.parent.detach_block(self.raw)
        region.raw.add_block(self.raw)

    def __iter__(self) -> Iterator[OperationBase]:
        return iter(self.operations)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.raw is other.raw

    def __hash__(self) -> int:
        return hash(self.raw)


class BlockList(Sequence[Block]):
    """The blocks of a region."""

    def __init__(self, region: XRegion):
        self._region = region

    def append(self, *types: Attribute, arg_locs: object = None) -> Block:
        """A new last block with arguments of these types."""
        made = new_block(types)
        self._region.add_block(made)
        return Block(made)

    def __getitem__(self, index: int | slice) -> Block:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Block(list(self._region.blocks)[cast(int, index)])

    def __len__(self) -> int:
        return len(list(self._region.blocks))


class Region:
    """`ir.Region`."""

    def __init__(self, raw: XRegion):
        self.raw = raw

    @property
    def blocks(self) -> BlockList:
        return BlockList(self.raw)

    @property
    def owner(self) -> OperationBase | None:
        return None if self.raw.parent is None else view(self.raw.parent)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: int) -> Block:
        return self.blocks[index]


class Module:
    """`ir.Module`."""

    def __init__(self, raw: ModuleOp):
        self.raw = raw

    @staticmethod
    def create(loc: object = None) -> Module:
        """An empty module."""
        return Module(ModuleOp([]))

    @staticmethod
    def parse(asm: str, context: object = None) -> Module:
        """The module of a text."""
        from ..ir.parser import LocatedParser

        return Module(LocatedParser(raw_context(), asm, "-").parse_module())

    @property
    def body(self) -> Block:
        return Block(self.raw.body.block)

    @property
    def operation(self) -> OperationBase:
        return Operation_.of(self.raw)

    @property
    def context(self) -> Context:
        return cast(Context, Context.current)

    def dump(self) -> None:
        """Write its text to the standard output."""
        self.operation.print()

    def __str__(self) -> str:
        return self.operation.get_asm()


class SymbolTable:
    """`ir.SymbolTable`: the named operations in one."""

    def __init__(self, operation: OperationBase | Module):
        if len(operation.raw.regions) != 1:
            raise DSLTypeError(f"'{operation.raw.name}' is no symbol table")
        self._op = operation.raw

    def _named(self) -> dict[str, Operation]:
        found: dict[str, Operation] = {}
        for op in self._op.regions[0].block.ops:
            name = op.properties.get("sym_name") or op.attributes.get("sym_name")
            if name is not None:
                found[str(getattr(name, "data", name))] = op
        return found

    def __getitem__(self, name: str) -> OperationBase:
        return view(self._named()[name])

    def __contains__(self, name: str) -> bool:
        return name in self._named()

    def insert(self, operation: OperationBase) -> None:
        """Put an operation at the end."""
        Block(self._op.regions[0].block).append(operation)


__all__ = [
    "Attributes", "Block", "Module", "OpView", "OperationBase", "Operation_", "Region", "SymbolTable", "owner_of",
    "view",
]  # fmt: skip
