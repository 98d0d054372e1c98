"""The shape of most passes: build the module anew in one walk.

A `Rebuilder` visits ops in order with a map from old values to new ones. A handler per op class builds what replaces
the op; ops without a handler are copied as they are, or folded where the pass builds with a `FoldingBuilder`. Dead pure
ops are marked first and skipped.
The map may hold anything a pass likes in place of an IR value (see `layout_lowering.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..dialects.upstream import gpu, scf
from ..errors import DSLCompileError
from ..ir import arith
from ..ir.builder import Builder, operands_of
from ..ir.dead_code import is_pure, mark_dead
from ..ir.emitter import append
from ..ir.types import function_type
from .dominance import DominatorTree

Handler = Callable[[Any, Any], None]


def location_of(error: BaseException) -> object:
    """Location of the op an error of a pass is about, or None."""
    return getattr(error, "ir_location", None)


def failure_at(op: Operation, message: str) -> DSLCompileError:
    """An error about an op, for passes that change ops where they are."""
    error = DSLCompileError(message)
    error.ir_location = op.location  # pyright: ignore[reportAttributeAccessIssue]
    return error


def remove_dead(module: ModuleOp) -> ModuleOp:
    """Erase the pure ops nobody uses, in place."""
    dead = mark_dead(module)
    if dead:
        for op in list(module.walk(reverse=True)):
            if id(op) in dead:
                op.detach()
                op.erase()
    return module


class Rebuilder:
    """Base of one-walk passes."""

    handlers: ClassVar[dict[type[Operation], Handler]] = {}
    pairs_bf16: ClassVar[bool] = False
    """Whether pairs of bf16 are widened as words: LLVM takes three instructions for two of them there."""
    folds: ClassVar[bool] = False
    """Whether what is copied is folded and shared: the work of `canonicalize`, done by no other pass alone."""

    def __init__(self) -> None:
        self.b = self.make_builder()
        self.vm: dict[SSAValue, Any] = {}
        self.blocks: dict[Block, Block] = {}
        """New blocks of regions with more than one."""
        self.dead: set[int] = set()
        self.widened: dict[SSAValue, Attribute] = {}
        """Values that were small floats, and their types."""
        self.missed: bool = False
        """Whether something was expanded that folds as long as it is not: a conversion of a small float and back."""

    def make_builder(self) -> Builder:
        """What the pass builds with."""
        return Builder()

    @classmethod
    def rebuild(cls, module: ModuleOp) -> ModuleOp:
        """The rewritten module; the old one must not be used afterwards."""
        return cls().run(module)

    def run(self, module: ModuleOp) -> ModuleOp:
        """Rebuild a module."""
        self.dead = self.mark(module)
        body = Block()
        self.b.block = body
        self.walk(module.body.block)
        return ModuleOp.create(
            regions=[Region(body)],
            attributes=dict(module.attributes),
            properties=dict(module.properties),
            location=module.location,
        )

    def mark(self, module: ModuleOp) -> set[int]:
        """Ids of the ops to leave out."""
        return mark_dead(module)

    # --- walking --------------------------------------------------------------------------------------------------

    def walk(self, block: Block) -> None:
        """Rebuild every op of a block into the current one."""
        dead, table, b = self.dead, self.table(), self.b
        op: Any = block.first_op
        try:
            while op is not None:
                if id(op) not in dead:
                    b.loc = op.location
                    handler = table.get(type(op))  # pyright: ignore[reportUnknownArgumentType]
                    if handler is None:
                        self.copy(op)
                    else:
                        handler(self, op)
                op = op._next_op
        except Exception as error:
            if location_of(error) is None:
                error.ir_location = b.loc  # pyright: ignore[reportAttributeAccessIssue]
            raise

    @classmethod
    def table(cls) -> dict[type[Operation], Handler]:
        """Handlers of the class over the common ones."""
        found = cls.__dict__.get("_table")
        if found is None:
            found = {**COMMON, **cls.handlers}
            cls._table = found
        return cast(dict[type[Operation], Handler], found)

    def val(self, old: SSAValue) -> SSAValue:
        """The new IR value of an old value."""
        return self.vm[old]

    def vals(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """New IR values of old values."""
        return [self.val(v) for v in old]

    def copy(self, op: Operation) -> None:
        """Copy an op; one that folds is folded."""
        if op.name == "llvm.func":
            # By name, since few modules have any: the dialect's functions are not imported for the others.
            _llvm_func(self, op)
            return
        operands = [self.val(v) for v in operands_of(op)]
        if self.folds and len(op.results) == 1 and is_pure(type(op)) and not op.attributes and not op.regions:
            result = op.results[0]
            self.vm[result] = self.b.pure(type(op), operands, result.type, dict(op.properties))
            return
        if op.regions or op.successors:
            new = type(op).create(
                operands=operands,
                result_types=[r.type for r in op.results],
                properties=dict(op.properties),
                attributes=dict(op.attributes),
                successors=[self.blocks[s] for s in op.successors],
                regions=[self.region(region) for region in op.regions],
                location=self.b.loc,
            )
            append(self.b.block, new)
        else:
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
            if a.name_hint is not None:
                b.name_hint = a.name_hint

    def result_types(self, types: Sequence[Attribute]) -> list[Attribute]:
        """Result types of a function after the pass."""
        return list(types)

    def function(self, op: Any, cls: type[Operation]) -> None:
        """Rebuild a function."""
        props = dict(op.properties)
        old: Region = op.body
        outputs = self.result_types(op.function_type.outputs.data)
        if old.blocks.first is None:
            inputs = self.declared_types(op.function_type.inputs.data)
            props["function_type"] = function_type(inputs, outputs)
            self.b.with_regions(cls, (), (), [Region()], props, dict(op.attributes))
            return
        entry = Block(arg_types=self.argument_types(old.blocks.first))
        with self.b.open_function(entry):
            region = self.fill(old, entry)
        props["function_type"] = function_type(list(entry.arg_types), outputs)
        self.b.with_regions(cls, (), (), [region], props, dict(op.attributes))

    def declared_types(self, types: Sequence[Attribute]) -> list[Attribute]:
        """Argument types of a function without a body after the pass."""
        return list(types)

    def fill(self, old: Region, entry: Block) -> Region:
        """Rebuild the blocks of a region, the first into `entry`, which is the current block."""
        first = old.blocks.first
        assert first is not None
        if first is old.blocks.last:
            self.enter(first, entry)
            self.walk(first)
            return Region(entry)
        tree = DominatorTree(old)
        new = {block: Block(arg_types=self.argument_types(block)) for block in tree.order[1:]}
        new[first] = entry
        self.blocks.update(new)
        b = self.b
        # A block knows what its dominators number, so they come first; what it numbers itself goes when it is done.
        stack: list[tuple[Block | None, int]] = [(first, b.mark())]
        # Of several, the one that is written first: what handlers number or add to the module is in the text's order.
        place = {block: i for i, block in enumerate(old.blocks)}
        while stack:
            block, mark = stack.pop()
            if block is None:
                b.forget(mark)
                continue
            stack.append((None, b.mark()))
            b.block = new[block]
            self.enter(block, new[block])
            self.walk(block)
            stack += [(child, 0) for child in sorted(tree.children[block], key=place.__getitem__, reverse=True)]
        return Region([new[block] for block in old.blocks if block in new])

    def region(self, old: Region) -> Region:
        """Rebuild a nested region with any number of blocks."""
        first = old.blocks.first
        if first is None:
            return Region()
        if first is old.blocks.last:
            return Region(self.nested(first))
        entry = Block(arg_types=self.argument_types(first))
        with self.b.region(entry):
            return self.fill(old, entry)

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


def _llvm_func(r: Rebuilder, op: Operation) -> None:
    """A function of `llvm`: as it is, with constants of its own."""
    (old,) = op.regions
    region = Region()
    if old.blocks.first is not None:
        entry = Block(arg_types=[a.type for a in old.blocks.first.args])
        with r.b.open_function(entry):
            region = r.fill(old, entry)
    r.b.with_regions(type(op), (), (), [region], dict(op.properties), dict(op.attributes))


def _structured(r: Rebuilder, op: Operation) -> None:
    """`scf.for`, `scf.if`, `scf.while`: operands, then each region."""
    operands = r.vals(operands_of(op))
    regions = [r.region(region) for region in op.regions]
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


COMMON: dict[type[Operation], Handler] = {
    gpu.ModuleOp: _gpu_module,
    gpu.FuncOp: _gpu_func,
    func.FuncOp: _func,
    scf.ForOp: _structured,
    scf.IfOp: _structured,
    scf.WhileOp: _structured,
    arith.ConstantOp: _constant,
}
