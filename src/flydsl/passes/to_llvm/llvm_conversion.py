"""Base of the passes that end in `llvm`: one walk, a table of handlers, and casts where converted meets unconverted.

The value map holds values of the old type or of the converted one. A handler asks for operands with `ll`, which gives
the converted type; ops that are copied get the old one. Where the two differ a `builtin.unrealized_conversion_cast`
stands between, which goes when its counterpart comes (`reconcile-unrealized-casts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.upstream import gpu, llvm
from ...ir.builder import Builder, i64, int_attr, operands_of
from ...ir.emitter import append, emit_head, insert_after
from ...lowering.llvm_types import llvm_type
from ...lowering.rebuild import Handler, Rebuilder
from .op_sink import OpSink


class LlvmBuilder(Builder):
    """A builder that also makes constants of `llvm`."""

    def constant(self, attr: Attribute, type_: Attribute) -> SSAValue:
        """The constant an attribute says; one op per function."""
        key = ("llvm", attr, type_)
        found = self._consts.get(key)
        if found is None:
            op = emit_head(self.entry, self._anchor, xllvm.ConstantOp, type_, {"value": attr}, self.loc)
            self._anchor = op
            found = self._consts[key] = op.results[0]
        return found

    def room(self, type_: Attribute, count: SSAValue, align: int) -> SSAValue:
        """Stack memory at the head of the function."""
        props: dict[str, Attribute] = {"elem_type": type_}
        if align:
            props["alignment"] = int_attr(align, i64)
        op = llvm.AllocaOp.create(operands=[count], result_types=[llvm.ptr()], properties=props)
        insert_after(self.entry, self._anchor, op)
        self._anchor = op
        return op.results[0]


class LlvmConversion(Rebuilder, OpSink):
    """Base of the conversions."""

    converts_blocks: ClassVar[bool] = False
    """Whether branches are converted, and with them the arguments of blocks."""
    skips_device: ClassVar[bool] = False
    """Whether device modules stay as they are."""

    b: LlvmBuilder

    def __init__(self) -> None:
        super().__init__()
        self.b = LlvmBuilder()
        self.module_block: Block = self.b.block
        """Body of the new module, the innermost one."""
        self._whole: Block | None = None
        """Entry block of a function whose signature is converted."""

    def mark(self, module: ModuleOp) -> set[int]:
        return set()

    def walk(self, block: Block) -> None:
        if isinstance(block.parent_op(), ModuleOp):
            self.module_block = self.b.block
        super().walk(block)

    # --- values ---------------------------------------------------------------------------------------------------

    def cast_to(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """The value with a type, through an unrealized cast if need be."""
        if value.type == type_:
            return value
        owner = value.owner
        if isinstance(owner, UnrealizedConversionCastOp) and len(owner.operands) == 1:
            source = owner.operands[0]
            if source.type == type_:
                return source
        return self.b.pure(UnrealizedConversionCastOp, (value,), type_, {})

    def val(self, old: SSAValue) -> SSAValue:
        return self.cast_to(self.vm[old], old.type)

    def ll(self, old: SSAValue) -> SSAValue:
        """An operand with its converted type."""
        return self.cast_to(self.vm[old], llvm_type(old.type))

    def lls(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """Operands with their converted types."""
        return [self.ll(v) for v in old]

    def copy(self, op: Operation) -> None:
        """Copy an op; one of `llvm` takes and gives types of `llvm`, whatever it stood between before."""
        if op.name.startswith("llvm.") and any(llvm_type(v.type) != v.type for v in op.operands):
            made = self.b.opn(type(op), self.lls(operands_of(op)), [r.type for r in op.results], dict(op.properties))
            made.attributes = dict(op.attributes)
            self.vm.update(zip(op.results, made.results, strict=True))
            return
        super().copy(op)

    # --- structure ------------------------------------------------------------------------------------------------

    def argument_types(self, block: Block) -> list[Attribute]:
        if block is self._whole or (self.converts_blocks and block.parent is not None and not _is_entry(block)):
            return [llvm_type(a.type) for a in block.args]
        return [a.type for a in block.args]

    def body_of(self, old: Region) -> Region:
        """The body of a function whose signature is converted."""
        first = old.blocks.first
        if first is None:
            return Region()
        self._whole = first
        entry = Block(arg_types=self.argument_types(first))
        with self.b.open_function(entry):
            return self.fill(old, entry)

    def branch(self, cls: type[Operation], operands: Sequence[SSAValue], targets: Sequence[Block], props: Any) -> None:
        """Append a branch to blocks of the new region."""
        op = cls.create(operands=operands, successors=targets, properties=props, location=self.b.loc)
        append(self.b.block, op)

    def passed(self, target: Block, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Arguments of a branch to a new block, with the types it takes."""
        return [self.cast_to(self.vm[v], a.type) for v, a in zip(values, target.args, strict=True)]

    @classmethod
    def table(cls) -> dict[type[Operation], Handler]:
        found = cls.__dict__.get("_table")
        if found is None:
            found = {**super().table(), **_STRUCTURE, **cls.handlers}
            cls._table = found
        return cast(dict[type[Operation], Handler], found)


def _is_entry(block: Block) -> bool:
    region = block.parent
    return region is not None and region.blocks.first is block


def _unrealized(r: LlvmConversion, op: UnrealizedConversionCastOp) -> None:
    if len(op.operands) != 1 or len(op.results) != 1:
        r.copy(op)
        return
    (value,) = operands_of(op)
    r.vm[op.results[0]] = r.cast_to(r.vm[value], op.results[0].type)


def _device(r: LlvmConversion, op: gpu.ModuleOp) -> None:
    if r.skips_device:
        region = op.detach_region(0)
        r.b.with_regions(gpu.ModuleOp, (), (), [region], dict(op.properties), dict(op.attributes))
        return
    body = Block()
    outer, r.module_block = r.module_block, body
    with r.b.region(body):
        r.walk(op.body.block)
    r.module_block = outer
    r.b.with_regions(gpu.ModuleOp, (), (), [Region(body)], dict(op.properties), dict(op.attributes))


_STRUCTURE: dict[type[Operation], Handler] = {
    UnrealizedConversionCastOp: cast(Handler, _unrealized),
    gpu.ModuleOp: _device,
}
