"""The part of `gpu` that every compilation meets, with upstream's text form (xDSL's own ops have none).

The whole dialect is in `gpu_dialect.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.dialects.gpu import AsyncTokenType
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    attr_def,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, Pure, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from ....ir.builder import i32_list
from ....ir.emitter import operands_of
from ....ir.op_text import type_after, write
from ....ir.types import dense_ints
from ..keyword_attr import BracketedKeywordAttr, KeywordAttr

DIMENSIONS = ("x", "y", "z")
SHUFFLE_MODES = ("xor", "up", "down", "idx")
_index = IndexType()


@irdl_attr_definition
class DimensionAttr(KeywordAttr):
    """`#gpu<dim x>`."""

    name = "gpu.dim"
    choices = DIMENSIONS


@irdl_attr_definition
class ShuffleModeAttr(KeywordAttr):
    """`#gpu<shuffle_mode xor>`."""

    name = "gpu.shuffle_mode"
    choices = SHUFFLE_MODES


DIM_ATTRS = {d: DimensionAttr(d) for d in DIMENSIONS}


class IdOp(IRDLOperation):
    """An index per dimension: `gpu.thread_id x`."""

    dimension = prop_def(DimensionAttr)
    upper_bound = opt_prop_def(IntegerAttr.constr(_index))
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$dimension (`upper_bound` $upper_bound^)? attr-dict"


@irdl_op_definition
class ThreadIdOp(IdOp):
    """Index of the thread in its block."""

    name = "gpu.thread_id"


@irdl_op_definition
class BlockIdOp(IdOp):
    """Index of the block in the grid."""

    name = "gpu.block_id"


@irdl_op_definition
class BlockDimOp(IdOp):
    """Threads per block."""

    name = "gpu.block_dim"


@irdl_op_definition
class GridDimOp(IdOp):
    """Blocks per grid."""

    name = "gpu.grid_dim"


class NullaryOp(IRDLOperation):
    """An index without arguments: `gpu.subgroup_size : index`."""

    upper_bound = opt_prop_def(IntegerAttr.constr(_index))
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "(`upper_bound` $upper_bound^)? attr-dict `:` type($result)"


@irdl_op_definition
class LaneIdOp(NullaryOp):
    """Index of the thread in its warp or wave."""

    name = "gpu.lane_id"
    assembly_format = "(`upper_bound` $upper_bound^)? attr-dict"


@irdl_op_definition
class SubgroupSizeOp(NullaryOp):
    """Threads of a warp or wave."""

    name = "gpu.subgroup_size"


@irdl_attr_definition
class BarrierScopeAttr(BracketedKeywordAttr):
    """`#gpu.barrier_scope<subgroup>`: who meets at a barrier."""

    name = "gpu.barrier_scope"
    choices = ("workgroup", "subgroup")


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the block meet; memory written before is visible after: `gpu.barrier`.

    `gpu.barrier scope <subgroup>`: those of the warp alone.
    """

    name = "gpu.barrier"
    scope = opt_prop_def(BarrierScopeAttr, default_value=BarrierScopeAttr("workgroup"))
    assembly_format = "(`scope` $scope^)? attr-dict"

    @property
    def of_warp(self) -> bool:
        """Whether the lanes of a warp meet, and nobody else."""
        scope = self.properties.get("scope")
        return scope is not None and cast(BarrierScopeAttr, scope).data == "subgroup"


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """`%r, %valid = gpu.shuffle xor %v, %offset, %width : f32`: a value of another lane."""

    name = "gpu.shuffle"
    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    offset = operand_def(i32)
    width = operand_def(i32)
    mode = prop_def(ShuffleModeAttr)
    shuffle_result = result_def(T)
    valid = result_def(i1)
    assembly_format = "$mode $value `,` $offset `,` $width attr-dict `:` type($value)"


@irdl_op_definition
class PrintfOp(IRDLOperation):
    """Output of a kernel with a format of C: `gpu.printf "i = %d\\0A", %i : i32`."""

    name = "gpu.printf"
    format = prop_def(StringAttr)
    args = var_operand_def()
    assembly_format = "$format attr-dict (`,` $args^ `:` type($args))?"


@irdl_op_definition
class ModuleOp(IRDLOperation):
    """Device code: `gpu.module @kernels <#fly.explicit_module> [#rocdl.target] { ... }`."""

    name = "gpu.module"
    sym_name = prop_def(SymbolNameConstraint())
    targets = opt_prop_def(ArrayAttr)
    offloadingHandler = opt_prop_def(Attribute)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), SymbolTable())

    @classmethod
    def parse(cls, parser: Parser) -> ModuleOp:
        props: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        if parser.parse_optional_punctuation("<") is not None:
            props["offloadingHandler"] = parser.parse_attribute()
            parser.parse_punctuation(">")
        targets = parser.parse_optional_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_attribute)
        if targets is not None:
            props["targets"] = ArrayAttr(targets)
        attrs = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        return cls.create(properties=props, regions=[body], attributes=attrs.data if attrs is not None else {})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.offloadingHandler is not None:
            write(printer, " <", self.offloadingHandler, ">")
        if self.targets is not None:
            write(printer, " [", self.targets.data, "]")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A device function: `gpu.func @k(%a: T) kernel attributes {known_block_size = array<i32: 64, 1, 1>} { ... }`.

    Memory of the block or thread it asks for, `workgroup(%w : memref<...>)` and `private(...)`, are further arguments
    of its entry block.
    """

    name = "gpu.func"
    sym_name = attr_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    kernel = opt_attr_def(UnitAttr, attr_name="gpu.kernel")
    workgroup_attributions = opt_attr_def(IntegerAttr)
    known_block_size = opt_prop_def(DenseArrayBase)
    known_grid_size = opt_prop_def(DenseArrayBase)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    workgroup_attrib_attrs = opt_prop_def(ArrayAttr)
    private_attrib_attrs = opt_prop_def(ArrayAttr)
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def verify_(self) -> None:
        block = self.body.blocks.first
        inputs = self.function_type.inputs.data
        if block is None:
            return
        types = tuple(block.arg_types)
        if types[: len(inputs)] != inputs or len(types) < len(inputs) + self.workgroup_count:
            raise VerifyException("entry block arguments do not match the function type")

    @property
    def workgroup_count(self) -> int:
        """Number of allocations of the block's memory."""
        return 0 if self.workgroup_attributions is None else self.workgroup_attributions.value.data

    @property
    def attributions(self) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
        """Entry block arguments that are memory of the block, and of the thread."""
        block = self.body.blocks.first
        first = len(self.function_type.inputs.data)
        extra = block.args[first:] if block is not None else ()
        return extra[: self.workgroup_count], extra[self.workgroup_count :]

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name = parser.parse_symbol_name()

        def listed() -> tuple[list[Parser.Argument], Attribute | None]:
            """Arguments in parentheses, and their attributes if any has some."""
            attrs: list[DictionaryAttr] = []

            def argument() -> Parser.Argument:
                made = parser.parse_argument()
                attrs.append(DictionaryAttr(parser.parse_optional_dictionary_attr_dict() or {}))
                return made

            made = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, argument)
            return made, ArrayAttr(attrs) if any(a.data for a in attrs) else None

        args, arg_attrs = listed()
        results: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->") is not None:
            results = parser.parse_optional_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_type) or [
                parser.parse_type()
            ]
        props: dict[str, Attribute] = {"function_type": FunctionType.from_lists([a.type for a in args], results)}
        own: dict[str, Attribute] = {"sym_name": name}
        if arg_attrs is not None:
            props["arg_attrs"] = arg_attrs
        memory: list[Parser.Argument] = []
        for word, prop in (("workgroup", "workgroup_attrib_attrs"), ("private", "private_attrib_attrs")):
            if parser.parse_optional_keyword(word) is not None:
                made, given = listed()
                memory += made
                if given is not None:
                    props[prop] = given
                if word == "workgroup":
                    own["workgroup_attributions"] = IntegerAttr(len(made), i64)
        if parser.parse_optional_keyword("kernel") is not None:
            own["gpu.kernel"] = UnitAttr()
        found = parser.parse_optional_attr_dict_with_keyword()
        attrs = dict(found.data) if found is not None else {}
        for prop in ("known_block_size", "known_grid_size"):
            if prop in attrs:
                props[prop] = attrs.pop(prop)
        body = parser.parse_region([*args, *memory])
        return cls.create(properties=props, regions=[body], attributes={**attrs, **own})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        block = self.body.blocks.first

        def listed(values: Sequence[SSAValue], attrs: ArrayAttr | None) -> None:
            printer.print_string("(")
            for i, value in enumerate(values):
                printer.print_string(", " if i else "")
                printer.print_block_argument(cast(BlockArgument, value))
                given = None if attrs is None else cast(DictionaryAttr, attrs.data[i])
                if given is not None and given.data:
                    printer.print_op_attributes(given.data)
            printer.print_string(")")

        count = len(self.function_type.inputs.data)
        listed(block.args[:count] if block is not None else (), self.arg_attrs)
        if results := self.function_type.outputs.data:
            write(printer, " -> " if len(results) == 1 else " -> (", results, "" if len(results) == 1 else ")")
        workgroup, private = self.attributions
        for word, values, attrs in (
            ("workgroup", workgroup, self.workgroup_attrib_attrs),
            ("private", private, self.private_attrib_attrs),
        ):
            if values:
                printer.print_string(f" {word}")
                listed(values, attrs)
        if self.kernel is not None:
            printer.print_string(" kernel")
        hidden = ("sym_name", "gpu.kernel", "workgroup_attributions")
        shown = {k: v for k, v in self.attributes.items() if k not in hidden}
        for prop in ("known_block_size", "known_grid_size"):
            if prop in self.properties:
                shown[prop] = self.properties[prop]
        printer.print_op_attributes(shown, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """End of a device function."""

    name = "gpu.return"
    args = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($args^ `:` type($args))?"


class LaunchParts(NamedTuple):
    """The operands of a launch; `shared` is the size of its dynamic shared memory."""

    dependencies: tuple[SSAValue, ...]
    grid: tuple[SSAValue, ...]
    block: tuple[SSAValue, ...]
    cluster: tuple[SSAValue, ...]
    shared: SSAValue | None
    arguments: tuple[SSAValue, ...]
    stream: SSAValue | None


@irdl_op_definition
class LaunchFuncOp(IRDLOperation):
    """Launch a kernel: `gpu.launch_func async [%s] @kernels::@k blocks in (...) threads in (...) args(%a : T)`."""

    name = "gpu.launch_func"
    asyncDependencies = var_operand_def(AsyncTokenType)
    gridSizeX = operand_def()
    gridSizeY = operand_def()
    gridSizeZ = operand_def()
    blockSizeX = operand_def()
    blockSizeY = operand_def()
    blockSizeZ = operand_def()
    clusterSizeX = opt_operand_def()
    clusterSizeY = opt_operand_def()
    clusterSizeZ = opt_operand_def()
    dynamicSharedMemorySize = opt_operand_def(i32)
    kernelOperands = var_operand_def()
    asyncObject = opt_operand_def()
    asyncToken = opt_result_def(AsyncTokenType)
    kernel = prop_def(SymbolRefAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @staticmethod
    def segments(deps: int, cluster: bool, shared: bool, args: int, stream: bool = False) -> Attribute:
        """The `operandSegmentSizes` property."""
        c = int(cluster)
        return i32_list((deps, 1, 1, 1, 1, 1, 1, c, c, c, int(shared), args, int(stream)))

    @property
    def parts(self) -> LaunchParts:
        """The operands by what they are. The accessors of each read all segments, once for every operand."""
        deps, *_, clusters, shared, args, _ = dense_ints(self.properties["operandSegmentSizes"])
        rest = iter(operands_of(self))

        def take(count: int) -> tuple[SSAValue, ...]:
            return tuple(islice(rest, count))

        made = (take(deps), take(3), take(3), take(3 * clusters), take(shared), take(args), take(1))
        dependencies, grid, block, cluster, memory, arguments, stream = made
        return LaunchParts(
            dependencies, grid, block, cluster, next(iter(memory), None), arguments, next(iter(stream), None)
        )

    @classmethod
    def parse(cls, parser: Parser) -> LaunchFuncOp:
        has_token = parser.parse_optional_keyword("async") is not None
        pos = parser.pos
        token = AsyncTokenType()
        deps = (
            parser.parse_optional_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_unresolved_operand) or []
        )
        stream: list[UnresolvedOperand] = []
        stream_type: Attribute = token
        if parser.parse_optional_punctuation("<") is not None:
            stream = [parser.parse_unresolved_operand()]
            stream_type = type_after(parser, ":")
            parser.parse_punctuation(">")
        kernel = parser.parse_attribute()

        def dims(word: str) -> list[UnresolvedOperand]:
            parser.parse_keyword(word)
            parser.parse_keyword("in")
            return parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)

        cluster: list[UnresolvedOperand] = []
        if parser.parse_optional_keyword("clusters") is not None:
            parser.parse_keyword("in")
            cluster = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        grid, block = dims("blocks"), dims("threads")
        dim_type: Attribute = _index
        if parser.parse_optional_punctuation(":") is not None:
            dim_type = parser.parse_type()
        shared: list[UnresolvedOperand] = []
        if parser.parse_optional_keyword("dynamic_shared_memory_size") is not None:
            shared = [parser.parse_unresolved_operand()]
        args: list[tuple[UnresolvedOperand, Attribute]] = []
        if parser.parse_optional_keyword("args") is not None:

            def argument() -> tuple[UnresolvedOperand, Attribute]:
                value = parser.parse_unresolved_operand()
                parser.parse_punctuation(":")
                return value, parser.parse_type()

            args = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, argument)
        attrs = parser.parse_optional_attr_dict()
        values = [*deps, *grid, *block, *cluster, *shared, *(a for a, _ in args), *stream]
        types: list[Attribute] = [
            *([token] * len(deps)),
            *([dim_type] * (len(grid) + len(block) + len(cluster))),
            *([cast(Attribute, i32)] * len(shared)),
            *(t for _, t in args),
            *([stream_type] * len(stream)),
        ]
        return cls.create(
            operands=parser.resolve_operands(values, types, pos),
            result_types=[token] if has_token else [],
            properties={
                "kernel": kernel,
                "operandSegmentSizes": cls.segments(len(deps), bool(cluster), bool(shared), len(args), bool(stream)),
            },
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        if self.asyncToken is not None:
            printer.print_string(" async")
        if self.asyncDependencies:
            write(printer, " [", self.asyncDependencies, "]")
        if self.asyncObject is not None:
            write(printer, " <", self.asyncObject, " : ", self.asyncObject.type, ">")
        write(printer, " ", self.kernel)
        if self.clusterSizeX is not None:
            self._dims(printer, "clusters", self.parts.cluster)
        self._dims(printer, "blocks", self.parts.grid)
        self._dims(printer, "threads", self.parts.block)
        if self.gridSizeX.type != _index:
            write(printer, " : ", self.gridSizeX.type)
        if self.dynamicSharedMemorySize is not None:
            write(printer, " dynamic_shared_memory_size ", self.dynamicSharedMemorySize)
        if self.kernelOperands:
            printer.print_string(" args(")

            def argument(value: SSAValue) -> None:
                write(printer, value, " : ", value.type)

            printer.print_list(self.kernelOperands, argument)
            printer.print_string(")")
        printer.print_op_attributes(self.attributes)

    @staticmethod
    def _dims(printer: Printer, word: str, values: Sequence[SSAValue]) -> None:
        write(printer, f" {word} in (", values, ")")


GPU_OPS = [
    ThreadIdOp,
    BlockIdOp,
    BlockDimOp,
    GridDimOp,
    LaneIdOp,
    SubgroupSizeOp,
    BarrierOp,
    ShuffleOp,
    PrintfOp,
    ModuleOp,
    FuncOp,
    ReturnOp,
    LaunchFuncOp,
]
"""The ops of this file."""

__all__ = ["GPU_OPS", "AsyncTokenType", "FuncOp", "LaunchFuncOp", "ModuleOp", "StringAttr"]
