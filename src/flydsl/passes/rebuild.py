"""The shape of most passes: build the module anew in one walk.

A `Rebuilder` visits ops in order with a map from old values to new ones. A handler per op class builds what replaces
the op; ops without a handler are copied, folding and numbering on the way. Dead pure ops are marked first and skipped.
The map may hold anything a pass likes in place of an IR value (see `layout_lowering.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FloatAttr, FunctionType, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects import gpu
from ..dialects.builder import CASTS, CMPI, INT_BINARY, Builder, operands_of
from ..dialects.dead_code import is_pure, mark_dead

Handler = Callable[[Any, Any], None]

_CMPI_NAMES = {i: p for p, i in CMPI.items()}


class Rebuilder:
    """Base of one-walk passes."""

    handlers: ClassVar[dict[type[Operation], Handler]] = {}

    def __init__(self) -> None:
        self.b = Builder()
        self.vm: dict[SSAValue, Any] = {}
        self.dead: set[int] = set()

    @classmethod
    def rebuild(cls, module: ModuleOp) -> ModuleOp:
        """The rewritten module; the old one must not be used afterwards."""
        self = cls()
        self.dead = mark_dead(module)
        body = Block()
        self.b.block = body
        self.walk(module.body.block)
        return ModuleOp.create(
            regions=[Region(body)],
            attributes=dict(module.attributes),
            properties=dict(module.properties),
            location=module.location,
        )

    # --- walking --------------------------------------------------------------------------------------------------

    def walk(self, block: Block) -> None:
        """Rebuild every op of a block into the current one."""
        dead, table, b = self.dead, self.table(), self.b
        op: Any = block.first_op
        while op is not None:
            if id(op) not in dead:
                b.loc = op.location
                handler = table.get(type(op))  # pyright: ignore[reportUnknownArgumentType]
                if handler is None:
                    self.copy(op)
                else:
                    handler(self, op)
            op = op._next_op

    @classmethod
    def table(cls) -> dict[type[Operation], Handler]:
        """Handlers of the class over the common ones."""
        found = cls.__dict__.get("_table")
        if found is None:
            found = {**COMMON, **cls.handlers}
            cls._table = found  # pyright: ignore[reportAttributeAccessIssue]
        return cast(dict[type[Operation], Handler], found)

    def val(self, old: SSAValue) -> SSAValue:
        """The new IR value of an old value."""
        return self.vm[old]

    def vals(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """New IR values of old values."""
        return [self.val(v) for v in old]

    def copy(self, op: Operation) -> None:
        """Copy an op without regions; pure ones are shared."""
        operands = [self.val(v) for v in operands_of(op)]
        if len(op.results) == 1 and is_pure(type(op)) and not op.attributes:
            result = op.results[0]
            self.vm[result] = self.b.pure(type(op), operands, result.type, dict(op.properties))
            return
        if op.regions:
            raise NotImplementedError(f"no rule to rebuild '{op.name}', which has regions")
        new = self.b.opn(type(op), operands, [r.type for r in op.results], dict(op.properties))
        if op.attributes:
            new.attributes = dict(op.attributes)
        for old, fresh in zip(op.results, new.results, strict=True):
            self.vm[old] = fresh

    # --- structure ------------------------------------------------------------------------------------------------

    def argument_types(self, block: Block) -> list[Attribute]:
        """Types of a block's arguments after the pass."""
        return [a.type for a in block.args]

    def enter(self, old: Block, new: Block) -> None:
        """Map the arguments of an old block to those of its replacement."""
        for a, b in zip(old.args, new.args, strict=True):
            self.vm[a] = b

    def function(self, op: Any, cls: type[Operation]) -> None:
        """Rebuild a function with a body."""
        old = op.body.blocks.first
        if old is None:
            self.b.with_regions(cls, (), (), [Region()], dict(op.properties), dict(op.attributes))
            return
        entry = Block(arg_types=self.argument_types(old))
        with self.b.open_function(entry):
            self.enter(old, entry)
            self.walk(old)
        props = dict(op.properties)
        props["function_type"] = FunctionType.from_lists(list(entry.arg_types), list(op.function_type.outputs.data))
        self.b.with_regions(cls, (), (), [Region(entry)], props, dict(op.attributes))

    def nested(self, old: Block) -> Block:
        """Rebuild a nested single-block region's block."""
        new = Block(arg_types=self.argument_types(old))
        with self.b.region(new):
            self.enter(old, new)
            self.walk(old)
        return new


def _gpu_module(r: Rebuilder, op: gpu.ModuleOp) -> None:
    body = Block()
    with r.b.region(body):
        r.walk(op.body.block)
    r.b.with_regions(gpu.ModuleOp, (), (), [Region(body)], dict(op.properties), dict(op.attributes))


def _gpu_func(r: Rebuilder, op: gpu.FuncOp) -> None:
    r.function(op, gpu.FuncOp)


def _func(r: Rebuilder, op: func.FuncOp) -> None:
    r.function(op, func.FuncOp)


def _structured(r: Rebuilder, op: Operation) -> None:
    """`scf.for`, `scf.if`, `scf.while`: operands, then each region."""
    operands = r.vals(operands_of(op))
    regions = [Region(r.nested(region.block)) if region.blocks else Region() for region in op.regions]
    new = r.b.with_regions(
        type(op), operands, [x.type for x in op.results], regions, {**op.properties}, {**op.attributes}
    )
    for old, fresh in zip(op.results, new.results, strict=True):
        r.vm[old] = fresh


def _constant(r: Rebuilder, op: arith.ConstantOp) -> None:
    value = op.properties["value"]
    result = op.results[0]
    if isinstance(value, IntegerAttr):
        r.vm[result] = r.b.const(cast(Any, value).value.data, result.type)
    elif isinstance(value, FloatAttr):
        r.vm[result] = r.b.const(cast(Any, value).value.data, result.type)
    else:
        r.copy(op)


def _int_binary(name: str) -> Handler:
    def handle(r: Rebuilder, op: Operation) -> None:
        a, b = operands_of(op)
        r.vm[op.results[0]] = r.b.int_binary(name, r.val(a), r.val(b))

    return handle


def _cast(name: str) -> Handler:
    def handle(r: Rebuilder, op: Operation) -> None:
        (a,) = operands_of(op)
        result = op.results[0]
        r.vm[result] = r.b.cast(name, r.val(a), result.type)

    return handle


def _cmpi(r: Rebuilder, op: arith.CmpiOp) -> None:
    a, b = operands_of(op)
    r.vm[op.results[0]] = r.b.cmpi(_CMPI_NAMES[op.predicate.value.data], r.val(a), r.val(b))


def _select(r: Rebuilder, op: arith.SelectOp) -> None:
    c, a, b = operands_of(op)
    r.vm[op.results[0]] = r.b.select(r.val(c), r.val(a), r.val(b))


COMMON: dict[type[Operation], Handler] = {
    gpu.ModuleOp: _gpu_module,
    gpu.FuncOp: _gpu_func,
    func.FuncOp: _func,
    scf.ForOp: _structured,
    scf.IfOp: _structured,
    scf.WhileOp: _structured,
    arith.ConstantOp: _constant,
    arith.CmpiOp: _cmpi,
    arith.SelectOp: _select,
    **{cls: _int_binary(name) for name, cls in INT_BINARY.items()},
    **{cls: _cast(name) for name, cls in CASTS.items() if name != "bitcast"},
}
