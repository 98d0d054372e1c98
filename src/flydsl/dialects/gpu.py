"""The part of the `gpu` dialect we use, with upstream's text form (xDSL's own ops have none)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IndexType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    UnitAttr,
    i1,
    i32,
)
from xdsl.dialects.gpu import AsyncTokenType
from xdsl.ir import Attribute, Block, Data, Dialect, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, Pure, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from .gpu_warp import WARP_OPS

DIMENSIONS = ("x", "y", "z")
SHUFFLE_MODES = ("xor", "up", "down", "idx")
_index = IndexType()


class _Keyword(Data[str]):
    """A keyword out of a fixed list."""

    choices: ClassVar[tuple[str, ...]]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        word = parser.parse_identifier()
        if word not in cls.choices:
            parser.raise_error(f"expected one of {', '.join(cls.choices)}, got '{word}'")
        return word

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f" {self.data}")


@irdl_attr_definition
class DimensionAttr(_Keyword):
    """`#gpu<dim x>`."""

    name = "gpu.dim"
    choices = DIMENSIONS


@irdl_attr_definition
class ShuffleModeAttr(_Keyword):
    """`#gpu<shuffle_mode xor>`."""

    name = "gpu.shuffle_mode"
    choices = SHUFFLE_MODES


DIM_ATTRS = {d: DimensionAttr(d) for d in DIMENSIONS}


class _IdOp(IRDLOperation):
    """An index per dimension: `gpu.thread_id x`."""

    dimension = prop_def(DimensionAttr)
    result = result_def(IndexType)

    @classmethod
    def parse(cls, parser: Parser) -> _IdOp:
        dim = DimensionAttr(DimensionAttr.parse_parameter(parser))
        attrs = parser.parse_optional_attr_dict()
        return cast(_IdOp, cls.create(result_types=[_index], properties={"dimension": dim}, attributes=attrs))

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.dimension.data}")
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ThreadIdOp(_IdOp):
    """Index of the thread in its block."""

    name = "gpu.thread_id"
    traits = traits_def(Pure())


@irdl_op_definition
class BlockIdOp(_IdOp):
    """Index of the block in the grid."""

    name = "gpu.block_id"
    traits = traits_def(Pure())


@irdl_op_definition
class BlockDimOp(_IdOp):
    """Threads per block."""

    name = "gpu.block_dim"
    traits = traits_def(Pure())


@irdl_op_definition
class GridDimOp(_IdOp):
    """Blocks per grid."""

    name = "gpu.grid_dim"
    traits = traits_def(Pure())


class _NullaryOp(IRDLOperation):
    """`gpu.lane_id`: an index without arguments."""

    result = result_def(IndexType)

    @classmethod
    def parse(cls, parser: Parser) -> _NullaryOp:
        attrs = parser.parse_optional_attr_dict()
        return cast(_NullaryOp, cls.create(result_types=[_index], attributes=attrs))

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class LaneIdOp(_NullaryOp):
    """Index of the thread in its warp or wave."""

    name = "gpu.lane_id"
    traits = traits_def(Pure())


@irdl_op_definition
class SubgroupSizeOp(_NullaryOp):
    """Threads of a warp or wave."""

    name = "gpu.subgroup_size"
    traits = traits_def(Pure())


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the block meet; memory written before is visible after: `gpu.barrier`."""

    name = "gpu.barrier"

    @classmethod
    def parse(cls, parser: Parser) -> BarrierOp:
        return cast(BarrierOp, cls.create(attributes=parser.parse_optional_attr_dict()))

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """`%r, %valid = gpu.shuffle xor %v, %offset, %width : f32`: a value of another lane."""

    name = "gpu.shuffle"
    value = operand_def()
    offset = operand_def(i32)
    width = operand_def(i32)
    mode = prop_def(ShuffleModeAttr)
    shuffle_result = result_def()
    valid = result_def(i1)

    @classmethod
    def parse(cls, parser: Parser) -> ShuffleOp:
        mode = ShuffleModeAttr(ShuffleModeAttr.parse_parameter(parser))
        pos = parser.pos
        operands = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        resolved = parser.resolve_operands(operands, (type_, i32, i32), pos)
        return cast(
            ShuffleOp,
            cls.create(operands=resolved, result_types=[type_, i1], properties={"mode": mode}, attributes=attrs),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.mode.data} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)


@irdl_op_definition
class PrintfOp(IRDLOperation):
    """Output of a kernel with a format of C: `gpu.printf "i = %d\\0A", %i : i32`."""

    name = "gpu.printf"
    format = prop_def(StringAttr)
    args = var_operand_def()

    @classmethod
    def parse(cls, parser: Parser) -> PrintfOp:
        format_ = StringAttr(parser.parse_str_literal())
        attrs = parser.parse_optional_attr_dict()
        parser.parse_optional_punctuation(",")
        pos = parser.pos
        unresolved = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        operands: Sequence[SSAValue] = ()
        if unresolved:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
            operands = parser.resolve_operands(unresolved, types, pos)
        return cast(PrintfOp, cls.create(operands=operands, properties={"format": format_}, attributes=attrs))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.format)
        printer.print_op_attributes(self.attributes)
        if self.args:
            printer.print_string(", ")
            printer.print_list(self.args, printer.print_operand)
            printer.print_string(" : ")
            printer.print_list([a.type for a in self.args], printer.print_attribute)


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
        return cast(
            ModuleOp, cls.create(properties=props, regions=[body], attributes=attrs.data if attrs is not None else {})
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.offloadingHandler is not None:
            printer.print_string(" <")
            printer.print_attribute(self.offloadingHandler)
            printer.print_string(">")
        if self.targets is not None:
            printer.print_string(" [")
            printer.print_list(self.targets.data, printer.print_attribute)
            printer.print_string("]")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A device function: `gpu.func @k(%a: T) kernel attributes {known_block_size = array<i32: 64, 1, 1>} { ... }`."""

    name = "gpu.func"
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    kernel = opt_prop_def(UnitAttr)
    known_block_size = opt_prop_def(DenseArrayBase)
    known_grid_size = opt_prop_def(DenseArrayBase)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def verify_(self) -> None:
        block = self.body.blocks.first
        if block is not None and tuple(block.arg_types) != self.function_type.inputs.data:
            raise VerifyException("entry block arguments do not match the function type")

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name = parser.parse_symbol_name()
        args = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_argument)
        results: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->") is not None:
            results = parser.parse_optional_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_type) or [
                parser.parse_type()
            ]
        props: dict[str, Attribute] = {
            "sym_name": name,
            "function_type": FunctionType.from_lists([a.type for a in args], results),
        }
        if parser.parse_optional_keyword("kernel") is not None:
            props["kernel"] = UnitAttr()
        given = parser.parse_optional_attr_dict_with_keyword()
        attrs = dict(given.data) if given is not None else {}
        for prop in ("known_block_size", "known_grid_size"):
            if prop in attrs:
                props[prop] = attrs.pop(prop)
        body = parser.parse_region(args)
        return cast(FuncOp, cls.create(properties=props, regions=[body], attributes=attrs))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        block = self.body.blocks.first
        printer.print_string("(")
        if block is not None:
            printer.print_list(block.args, printer.print_block_argument)
        printer.print_string(")")
        if self.function_type.outputs.data:
            printer.print_string(" -> (")
            printer.print_list(self.function_type.outputs.data, printer.print_attribute)
            printer.print_string(")")
        if self.kernel is not None:
            printer.print_string(" kernel")
        attrs = dict(self.attributes)
        for prop in ("known_block_size", "known_grid_size"):
            if prop in self.properties:
                attrs[prop] = self.properties[prop]
        printer.print_op_attributes(attrs, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """End of a device function."""

    name = "gpu.return"
    args = var_operand_def()
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> ReturnOp:
        pos = parser.pos
        unresolved = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        if not unresolved:
            return cast(ReturnOp, cls.create())
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        return cast(ReturnOp, cls.create(operands=parser.resolve_operands(unresolved, types, pos)))

    def print(self, printer: Printer) -> None:
        if self.args:
            printer.print_string(" ")
            printer.print_list(self.args, printer.print_operand)
            printer.print_string(" : ")
            printer.print_list([a.type for a in self.args], printer.print_attribute)


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
    asyncToken = opt_result_def(AsyncTokenType)
    kernel = prop_def(SymbolRefAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @staticmethod
    def segments(deps: int, cluster: bool, shared: bool, args: int) -> DenseArrayBase[Any]:
        """The `operandSegmentSizes` property."""
        c = int(cluster)
        return DenseArrayBase.from_list(i32, [deps, 1, 1, 1, 1, 1, 1, c, c, c, int(shared), args])

    @classmethod
    def parse(cls, parser: Parser) -> LaunchFuncOp:
        has_token = parser.parse_optional_keyword("async") is not None
        pos = parser.pos
        token = AsyncTokenType()
        deps = (
            parser.parse_optional_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_unresolved_operand) or []
        )
        kernel = parser.parse_attribute()

        def dims(word: str) -> list[Any]:
            parser.parse_keyword(word)
            parser.parse_keyword("in")
            return parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)

        cluster: list[Any] = []
        if parser.parse_optional_keyword("clusters") is not None:
            parser.parse_keyword("in")
            cluster = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        grid, block = dims("blocks"), dims("threads")
        dim_type: Attribute = _index
        if parser.parse_optional_punctuation(":") is not None:
            dim_type = parser.parse_type()
        shared: list[Any] = []
        if parser.parse_optional_keyword("dynamic_shared_memory_size") is not None:
            shared = [parser.parse_unresolved_operand()]
        args: list[tuple[Any, Attribute]] = []
        if parser.parse_optional_keyword("args") is not None:

            def argument() -> tuple[Any, Attribute]:
                value = parser.parse_unresolved_operand()
                parser.parse_punctuation(":")
                return value, parser.parse_type()

            args = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, argument)
        attrs = parser.parse_optional_attr_dict()
        values = [*deps, *grid, *block, *cluster, *shared, *(a for a, _ in args)]
        types: list[Attribute] = [
            *([token] * len(deps)),
            *([dim_type] * (len(grid) + len(block) + len(cluster))),
            *([cast(Attribute, i32)] * len(shared)),
            *(t for _, t in args),
        ]
        return cast(
            LaunchFuncOp,
            cls.create(
                operands=parser.resolve_operands(values, types, pos),
                result_types=[token] if has_token else [],
                properties={
                    "kernel": kernel,
                    "operandSegmentSizes": cls.segments(len(deps), bool(cluster), bool(shared), len(args)),
                },
                attributes=attrs,
            ),
        )

    def print(self, printer: Printer) -> None:
        if self.asyncToken is not None:
            printer.print_string(" async")
        if self.asyncDependencies:
            printer.print_string(" [")
            printer.print_list(self.asyncDependencies, printer.print_operand)
            printer.print_string("]")
        printer.print_string(" ")
        printer.print_attribute(self.kernel)
        if self.clusterSizeX is not None:
            self._dims(printer, "clusters", self.cluster)
        self._dims(printer, "blocks", self.grid)
        self._dims(printer, "threads", self.block_size)
        if self.gridSizeX.type != _index:
            printer.print_string(" : ")
            printer.print_attribute(self.gridSizeX.type)
        if self.dynamicSharedMemorySize is not None:
            printer.print_string(" dynamic_shared_memory_size ")
            printer.print_operand(self.dynamicSharedMemorySize)
        if self.kernelOperands:
            printer.print_string(" args(")

            def argument(value: SSAValue) -> None:
                printer.print_operand(value)
                printer.print_string(" : ")
                printer.print_attribute(value.type)

            printer.print_list(self.kernelOperands, argument)
            printer.print_string(")")
        printer.print_op_attributes(self.attributes)

    @staticmethod
    def _dims(printer: Printer, word: str, values: Sequence[SSAValue]) -> None:
        printer.print_string(f" {word} in (")
        printer.print_list(values, printer.print_operand)
        printer.print_string(")")

    @property
    def grid(self) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Blocks per dimension."""
        return self.gridSizeX, self.gridSizeY, self.gridSizeZ

    @property
    def block_size(self) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Threads per dimension."""
        return self.blockSizeX, self.blockSizeY, self.blockSizeZ

    @property
    def cluster(self) -> tuple[SSAValue, ...]:
        """Blocks per cluster and dimension, or nothing."""
        return tuple(v for v in (self.clusterSizeX, self.clusterSizeY, self.clusterSizeZ) if v is not None)


Gpu = Dialect(
    "gpu",
    [
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
        *WARP_OPS,
    ],
    [DimensionAttr, ShuffleModeAttr, AsyncTokenType],
)

__all__ = ["AsyncTokenType", "FuncOp", "Gpu", "LaunchFuncOp", "ModuleOp", "StringAttr"]
