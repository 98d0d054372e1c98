"""What `convert-gpu-to-rocdl` and `convert-gpu-to-nvvm` share: kernels as functions of `llvm`, ids and warps.

Arithmetic, branches and simple vector ops of the device code are converted on the way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerType, ModuleOp, StringAttr, UnitAttr, VectorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.upstream import gpu
from ...dialects.upstream.gpu import ids as gpu_ids
from ...dialects.upstream.gpu import warp as gpu_warp
from ...dialects.upstream.llvm.attrs import ConstantRangeAttr
from ...dialects.upstream.llvm.function import FunctionType
from ...dialects.upstream.math import Math
from ...dialects.upstream.table_ops import TableOp
from ...ir.builder import elem_of, i32, i64, operands_of
from ...ir.emitter import append
from ...ir.types import bit_width
from ...lowering.rebuild import Handler, remove_dead
from .bare_memref import HANDLERS as MEMREF
from .bare_memref import attribution
from .convert_arith_to_llvm import HANDLERS as ARITH
from .convert_arith_to_llvm import icmp
from .convert_cf_to_llvm import HANDLERS as CF
from .convert_func_to_llvm import HANDLERS as FUNC
from .convert_func_to_llvm import packed, return_values
from .convert_math_to_llvm import CLASSES
from .convert_math_to_llvm import HANDLERS as MATH
from .convert_vector_to_llvm import SIMPLE, element, shape_of, with_element
from .llvm_conversion import LlvmConversion, llvm_type, refuse
from .llvm_declare import make_function


class GpuConversion(LlvmConversion):
    """Base of the two conversions."""

    converts_blocks = True
    kernel_attribute: ClassVar[str]
    data_layout: ClassVar[Callable[[str], str]]
    instructions: ClassVar[Mapping[str, type[TableOp]]]
    """Ops of the target's dialect by name."""

    chip = ""

    def __init__(self) -> None:
        super().__init__()
        self.block_size: tuple[int, int, int] | None = None
        self.grid_size: tuple[int, int, int] | None = None
        self.in_device = False
        self._function: gpu.FuncOp | None = None

    @classmethod
    def convert_module(cls, module: ModuleOp, chip: str) -> ModuleOp:
        """Convert the device code of a module; dead ops go first, as they need not be convertible."""
        made = type(cls.__name__, (cls,), {"chip": chip})
        return cast(type[GpuConversion], made).rebuild(remove_dead(module))

    # --- instructions ---------------------------------------------------------------------------------------------

    def read(self, name: str, bound: int | None = None, type_: Attribute = i32) -> SSAValue:
        """A special register; `bound` if its values are known to be less."""
        props: dict[str, Attribute] = {} if bound is None else {"range": ConstantRangeAttr((32, 0, bound))}
        return self.make(self.instructions[name], (), type_, props)

    def call(
        self,
        name: str,
        operands: Sequence[SSAValue],
        type_: Attribute | None,
        props: dict[str, Attribute] | None = None,
    ) -> SSAValue | None:
        """An instruction with effects."""
        made = self.b.opn(self.instructions[name], operands, () if type_ is None else (type_,), props or {})
        return made.results[0] if made.results else None

    def wide(self, narrow: SSAValue) -> SSAValue:
        """An id as an index."""
        return self.make(xllvm.SExtOp, (narrow,), i64)

    @abstractmethod
    def id(self, kind: str, dim: str) -> SSAValue:
        """`thread_id`, `block_id`, `block_dim` or `grid_dim` as an i64."""

    @abstractmethod
    def lane_id(self) -> SSAValue:
        """The lane as an i32."""

    @abstractmethod
    def warp_size(self) -> SSAValue:
        """Lanes of a warp as an i64."""

    @abstractmethod
    def barrier(self, op: Operation) -> None:
        """A block barrier."""

    @abstractmethod
    def shuffle(self, op: gpu.ShuffleOp) -> None:
        """A value of another lane."""

    @abstractmethod
    def ballot(self, predicate: SSAValue) -> SSAValue:
        """A bit per lane as an i64."""

    @abstractmethod
    def vote(self, predicate: SSAValue, mode: str) -> SSAValue:
        """Whether `any` or `all` lanes agree."""

    @abstractmethod
    def broadcast(self, word: SSAValue, lane: SSAValue | None) -> SSAValue:
        """32 bits of one lane."""

    @abstractmethod
    def printf(self, op: gpu.PrintfOp) -> None:
        """Print by a format of C."""

    @abstractmethod
    def kernel_attributes(self, op: gpu.FuncOp) -> dict[str, Attribute]:
        """Attributes of a kernel with a known block size."""

    def argument_attributes(self, type_: Attribute) -> dict[str, Attribute]:
        """Attributes of an argument of a kernel."""
        return {}

    # --- warps ----------------------------------------------------------------------------------------------------

    def source_lane(self, op: gpu.ShuffleOp) -> tuple[SSAValue, SSAValue]:
        """The lane a shuffle reads, and whether it is in the reader's segment; out of it a lane reads itself."""
        by, width, lane = self.ll(op.offset), self.ll(op.width), self.lane_id()
        mask = self.make(xllvm.SubOp, (self.int(0, i32), width), i32)
        segment = self.make(xllvm.AndOp, (lane, mask), i32)
        mode = op.mode.data
        if mode == "idx":
            wanted = by
        else:
            step = {"xor": xllvm.XOrOp, "up": xllvm.SubOp, "down": xllvm.AddOp}[mode]
            wanted = self.make(step, (lane, by), i32)
        theirs = self.make(xllvm.AndOp, (wanted, mask), i32)
        valid = icmp(self, "eq", theirs, segment)
        return self.make(xllvm.SelectOp, (valid, wanted, lane), i32), valid

    def by_words(self, value: SSAValue, move: Callable[[SSAValue], SSAValue]) -> SSAValue:
        """Apply `move`, which takes and gives an i32, to every 32 bits of a value."""
        type_ = value.type
        bits = bit_width(elem_of(type_)) * prod(shape_of(value))
        whole, padded = _int(bits), -(-bits // 32) * 32
        number = value if type_ == whole else self.make(xllvm.BitcastOp, (value,), whole)
        if padded != bits:
            number = self.make(xllvm.ZExtOp, (number,), _int(padded))
        if padded == 32:
            moved = move(number)
        else:
            words = VectorType(i32, [padded // 32])
            split = self.make(xllvm.BitcastOp, (number,), words)
            made = split
            for i in range(padded // 32):
                made = with_element(self, move(element(self, split, i)), made, i)
            moved = self.make(xllvm.BitcastOp, (made,), _int(padded))
        if padded != bits:
            moved = self.make(xllvm.TruncOp, (moved,), whole)
        return moved if type_ == whole else self.make(xllvm.BitcastOp, (moved,), type_)

    # --- functions ------------------------------------------------------------------------------------------------

    def kernel(self, op: gpu.FuncOp) -> None:
        """Convert a device function."""
        self.block_size, self.grid_size = _sizes(op.known_block_size), _sizes(op.known_grid_size)
        given = op.arg_attrs.data if op.arg_attrs is not None else [None] * len(op.function_type.inputs.data)
        old = op.function_type.inputs.data
        inputs = [llvm_type(t) for t in old]
        type_ = FunctionType.of(inputs, packed(op.function_type.outputs.data))
        hidden = ("sym_name", "gpu.kernel", "workgroup_attributions")
        attributes = {k: v for k, v in op.attributes.items() if k not in hidden and not k.startswith("fly.")}
        properties: dict[str, Attribute] = {}
        argument_attrs = [
            DictionaryAttr({**(a.data if a is not None else {}), **self.argument_attributes(t)})
            for a, t in zip(given, old, strict=True)
        ]
        if op.kernel is not None:
            attributes["gpu.kernel"] = attributes[self.kernel_attribute] = UnitAttr()
            attributes |= self.kernel_attributes(op)
        if any(a.data for a in argument_attrs):
            properties["arg_attrs"] = ArrayAttr(argument_attrs)
        for name, size in (("known_block_size", op.known_block_size), ("known_grid_size", op.known_grid_size)):
            if size is not None:
                attributes[f"gpu.{name}"] = size
        self._function = op
        body = self.body_of(op.body)
        append(self.b.block, make_function(op.sym_name.data, type_, body, attributes, properties, op.location))

    def argument_types(self, block: Block) -> list[Attribute]:
        # What a kernel asks for as memory is no argument of the function.
        found = super().argument_types(block)
        op = self._function
        return found[: len(op.function_type.inputs.data)] if op is not None and block is op.body.blocks.first else found

    def enter(self, old: Block, new: Block) -> None:
        op = self._function
        if op is None or old is not op.body.blocks.first:
            super().enter(old, new)
            return
        for a, b in zip(old.args, new.args, strict=False):
            self.vm[a] = b
            b.name_hint = a.name_hint
        shared, private = op.attributions
        if private:
            raise refuse(op, "with private attributions")
        for i, value in enumerate(shared):
            self.vm[value] = attribution(self, op.sym_name.data, i, cast(Any, value.type))

    def open(self, op: gpu.ModuleOp) -> None:
        """Convert a device module."""
        body = Block()
        outer, self.module_block, self.in_device = self.module_block, body, True
        with self.b.region(body):
            self.walk(op.body.block)
        self.module_block, self.in_device = outer, False
        kept = {name: attr for name, attr in op.attributes.items() if not name.startswith("fly.")}
        attributes = {**kept, "llvm.data_layout": StringAttr(type(self).data_layout(self.chip))}
        self.b.with_regions(gpu.ModuleOp, (), (), [Region(body)], dict(op.properties), attributes)


_ints: dict[int, Attribute] = {}


def _int(bits: int) -> Attribute:
    if bits not in _ints:
        _ints[bits] = IntegerType(bits)
    return _ints[bits]


def _sizes(attr: Any) -> tuple[int, int, int] | None:
    if attr is None:
        return None
    x, y, z = (int(i) for i in attr.get_values())
    return x, y, z


def _kernel(r: GpuConversion, op: gpu.FuncOp) -> None:
    r.kernel(op)


def _function(r: GpuConversion, op: FuncOp) -> None:
    """A function of a device module is converted; host code is not our business."""
    if r.in_device:
        FUNC[FuncOp](r, op)
    else:
        r.b.with_regions(FuncOp, (), (), [op.detach_region(0)], dict(op.properties), dict(op.attributes))


def _module(r: GpuConversion, op: gpu.ModuleOp) -> None:
    r.open(op)


def _return(r: GpuConversion, op: Operation) -> None:
    return_values(r, operands_of(op))


def _id(kind: str) -> Handler:
    def handle(r: GpuConversion, op: Any) -> None:
        r.give(op, r.id(kind, op.dimension.data))

    return handle


def _global_id(r: GpuConversion, op: gpu_ids.GlobalIdOp) -> None:
    dim = op.dimension.data
    first = r.make(xllvm.MulOp, (r.id("block_id", dim), r.id("block_dim", dim)), i64)
    r.give(op, r.make(xllvm.AddOp, (first, r.id("thread_id", dim)), i64))


def _subgroup_id(r: GpuConversion, op: Operation) -> None:
    """The linear thread id over the size of a warp."""
    linear = r.id("thread_id", "z")
    for dim in ("y", "x"):
        linear = r.make(xllvm.MulOp, (linear, r.id("block_dim", dim)), i64)
        linear = r.make(xllvm.AddOp, (linear, r.id("thread_id", dim)), i64)
    r.give(op, r.make(xllvm.UDivOp, (linear, r.warp_size()), i64))


def _lane_id(r: GpuConversion, op: Operation) -> None:
    r.give(op, r.wide(r.lane_id()))


def _subgroup_size(r: GpuConversion, op: Operation) -> None:
    r.give(op, r.warp_size())


def _barrier(r: GpuConversion, op: Operation) -> None:
    r.barrier(op)


def _shuffle(r: GpuConversion, op: gpu.ShuffleOp) -> None:
    r.shuffle(op)


def _ballot(r: GpuConversion, op: gpu_warp.BallotOp) -> None:
    r.give(op, r.ballot(r.ll(op.predicate)))


def _vote(r: GpuConversion, op: gpu_warp.VoteOp) -> None:
    r.give(op, r.vote(r.ll(op.predicate), op.mode.data))


def _broadcast(r: GpuConversion, op: gpu_warp.SubgroupBroadcastOp) -> None:
    lane = None if op.lane is None else r.ll(op.lane)
    r.give(op, r.by_words(r.ll(op.value), lambda word: r.broadcast(word, lane)))


def _printf(r: GpuConversion, op: gpu.PrintfOp) -> None:
    r.printf(op)


def _illegal(r: GpuConversion, op: Operation) -> None:
    raise refuse(op)


def device_handlers(native_math: frozenset[str]) -> dict[type[Operation], Handler]:
    """The table of a target; functions of `math` it has no instructions for are refused."""
    whole = {"ctpop", "ctlz", "cttz", "absi", "rsqrt", *CLASSES}
    functions: dict[type[Operation], Handler] = {
        op: MATH[op] if op in MATH and op.name.removeprefix("math.") in native_math | whole else _illegal
        for op in Math.operations
    }
    return {
        **ARITH,
        **MEMREF,
        **functions,
        **SIMPLE,
        **CF,
        **FUNC,
        FuncOp: cast(Handler, _function),
        **cast(
            dict[type[Operation], Handler],
            {
                gpu.ModuleOp: _module,
                gpu.FuncOp: _kernel,
                gpu.ReturnOp: _return,
                gpu.ThreadIdOp: _id("thread_id"),
                gpu.BlockIdOp: _id("block_id"),
                gpu.BlockDimOp: _id("block_dim"),
                gpu.GridDimOp: _id("grid_dim"),
                gpu.LaneIdOp: _lane_id,
                gpu.SubgroupSizeOp: _subgroup_size,
                gpu.BarrierOp: _barrier,
                gpu.ShuffleOp: _shuffle,
                gpu.PrintfOp: _printf,
                gpu_warp.BallotOp: _ballot,
                gpu_warp.VoteOp: _vote,
                gpu_warp.SubgroupBroadcastOp: _broadcast,
                gpu_ids.GlobalIdOp: _global_id,
                gpu_ids.SubgroupIdOp: _subgroup_id,
                **dict.fromkeys(
                    (
                        gpu_ids.ClusterIdOp,
                        gpu_ids.ClusterDimOp,
                        gpu_ids.ClusterBlockIdOp,
                        gpu_ids.ClusterDimBlocksOp,
                        gpu_ids.NumSubgroupsOp,
                    ),
                    _illegal,
                ),
            },
        ),
    }


__all__ = ["GpuConversion", "device_handlers"]
