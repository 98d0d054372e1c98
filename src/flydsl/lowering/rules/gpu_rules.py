"""What the `gpu` dialect means on every GPU: ids, and values that move between the lanes of a warp.

A `GpuTarget` knows the instructions; `gpu_rules` makes the table of a target. The cpu stack has its own
(`cpu/code/rules.py`): there threads meet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import gpu
from ...dialects.upstream.gpu import ids as gpu_ids
from ...dialects.upstream.gpu import warp as gpu_warp
from ...ir import arith
from ...ir.builder import i32, i64
from ...ir.types import bit_width, vector_type
from .arith_rules import ARITH
from .func_rules import CALLS
from .math_rules import math_rules
from .sink import Rule, Sink, Sizes, refused
from .vector_rules import ELEMENTS

T = TypeVar("T")


def constant_of(value: SSAValue) -> int | None:
    """The number an integer constant of `arith` or `llvm` stands for."""
    if isinstance(value.owner, arith.ConstantOp | xllvm.ConstantOp):
        attr = value.owner.properties["value"]
        if isinstance(attr, IntegerAttr):
            return cast(IntegerAttr, attr).value.data
    return None


def sizes_of(attr: Any) -> Sizes | None:
    """The numbers of `array<i32: x, y, z>`."""
    if attr is None:
        return None
    x, y, z = attr.get_values()
    return int(x), int(y), int(z)


def widen(s: Sink[T], narrow: T) -> T:
    """An id, which is not negative, as an index."""
    return s.cast("zext", narrow, i32, i64)


def source_lane(s: Sink[T], op: gpu.ShuffleOp, lane: T, lanes: T) -> tuple[T, T]:
    """The lane a shuffle reads, and whether it may: within the reader's segment, for `idx` within all `lanes`.

    Elsewhere a lane reads itself.
    """
    by, width = s.value(op.offset), s.value(op.width)
    mode = op.mode.data
    if mode == "idx":
        # A width is at most the warp; it is asked for so that what computes it is in use on every way to LLVM.
        valid = s.binary("or", i1, s.icmp("ult", i32, by, lanes), s.icmp("ult", i32, by, width))
        return s.select(i1, i32, valid, by, lane), valid
    mask = s.binary("sub", i32, s.number(0, i32), width)
    segment = s.binary("and", i32, lane, mask)
    wanted = s.binary({"xor": "xor", "up": "sub", "down": "add"}[mode], i32, lane, by)
    theirs = s.binary("and", i32, wanted, mask)
    valid = s.icmp("eq", i32, theirs, segment)
    return s.select(i1, i32, valid, wanted, lane), valid


def by_words(s: Sink[T], value: SSAValue, move: Callable[[T], T], result: SSAValue) -> None:
    """Apply `move`, which takes and gives an i32, to every 32 bits of a value; the result may be unread."""
    read = s.used(result)
    type_ = value.type
    bits = bit_width(type_)
    padded = -(-bits // 32) * 32
    whole, rounded = IntegerType(bits), IntegerType(padded)
    number = s.cast("bitcast", s.value(value), type_, whole)
    if padded != bits:
        number = s.cast("zext", number, whole, rounded)
    if padded == 32:
        moved = move(number)
    else:
        words = vector_type(i32, padded // 32)
        split = s.cast("bitcast", number, rounded, words)
        made = s.poison(words)
        for i in range(padded // 32):
            word = move(s.element(words, split, i))
            made = s.with_element(words, made, word, i) if read else made
        moved = s.cast("bitcast", made, words, rounded) if read else made
    if not read:
        return
    if padded != bits:
        moved = s.cast("trunc", moved, rounded, whole)
    s.give(result, s.cast("bitcast", moved, whole, type_))


class GpuTarget(ABC):
    """The instructions of a GPU."""

    kernel_attribute: ClassVar[str]
    """What marks an `llvm.func` as a kernel."""
    native_math: ClassVar[frozenset[str]]
    """Functions of `math` there is code for."""

    @abstractmethod
    def id(self, s: Sink[T], kind: str, dim: str) -> T:
        """`thread_id`, `block_id`, `block_dim` or `grid_dim` as an i64."""

    @abstractmethod
    def lane_id(self, s: Sink[T]) -> T:
        """The lane as an i32."""

    @abstractmethod
    def warp_size(self, s: Sink[T]) -> T:
        """Lanes of a warp as an i64."""

    @abstractmethod
    def barrier(self, s: Sink[T], op: gpu.BarrierOp) -> None:
        """A barrier of the block, or of the warp."""

    @abstractmethod
    def shuffle(self, s: Sink[T], op: gpu.ShuffleOp) -> None:
        """A value of another lane."""

    @abstractmethod
    def ballot(self, s: Sink[T], predicate: T) -> T:
        """A bit per lane as an i64."""

    @abstractmethod
    def vote(self, s: Sink[T], predicate: T, mode: str) -> T:
        """Whether `any` or `all` lanes agree."""

    @abstractmethod
    def broadcast(self, s: Sink[T], word: T, lane: T | None) -> T:
        """32 bits of one lane."""

    @abstractmethod
    def printf(self, s: Sink[T], text: str, values: Sequence[SSAValue]) -> None:
        """Print by a format of C."""

    @abstractmethod
    def kernel_attributes(self, op: gpu.FuncOp) -> dict[str, Attribute]:
        """Attributes of a kernel beyond those it has."""

    def argument_attributes(self, type_: Attribute) -> dict[str, Attribute]:
        """Attributes of an argument of a kernel."""
        return {}


def gpu_rules(target: GpuTarget) -> dict[type[Operation], Rule]:
    """The rules of device code for a target, branches apart."""

    def id_rule(kind: str) -> Rule:
        def rule(s: Sink[T], op: Any) -> None:
            s.give(op.results[0], target.id(s, kind, op.dimension.data))

        return rule

    def global_id(s: Sink[T], op: Any) -> None:
        dim = op.dimension.data
        first = s.binary("mul", i64, target.id(s, "block_id", dim), target.id(s, "block_dim", dim))
        s.give(op.results[0], s.binary("add", i64, first, target.id(s, "thread_id", dim)))

    def subgroup_id(s: Sink[T], op: Operation) -> None:
        """The linear thread id over the size of a warp."""
        linear = target.id(s, "thread_id", "z")
        for dim in ("y", "x"):
            linear = s.binary("mul", i64, linear, target.id(s, "block_dim", dim))
            linear = s.binary("add", i64, linear, target.id(s, "thread_id", dim))
        s.give(op.results[0], s.binary("udiv", i64, linear, target.warp_size(s)))

    def lane_id(s: Sink[T], op: Operation) -> None:
        s.give(op.results[0], widen(s, target.lane_id(s)))

    def subgroup_size(s: Sink[T], op: Operation) -> None:
        s.give(op.results[0], target.warp_size(s))

    def ballot(s: Sink[T], op: gpu_warp.BallotOp) -> None:
        s.give(op.results[0], target.ballot(s, s.value(op.predicate)))

    def vote(s: Sink[T], op: gpu_warp.VoteOp) -> None:
        s.give(op.results[0], target.vote(s, s.value(op.predicate), op.mode.data))

    def broadcast(s: Sink[T], op: gpu_warp.SubgroupBroadcastOp) -> None:
        lane = None if op.lane is None else s.value(op.lane)
        by_words(s, op.value, lambda word: target.broadcast(s, word, lane), op.result)

    def printf(s: Sink[T], op: gpu.PrintfOp) -> None:
        target.printf(s, op.format.data, op.args)

    unknown = (
        gpu_ids.ClusterIdOp, gpu_ids.ClusterDimOp, gpu_ids.ClusterBlockIdOp, gpu_ids.ClusterDimBlocksOp,
        gpu_ids.NumSubgroupsOp,
    )  # fmt: skip
    return {
        **ARITH,
        **math_rules(target.native_math),
        **ELEMENTS,
        **CALLS,
        gpu.ThreadIdOp: id_rule("thread_id"),
        gpu.BlockIdOp: id_rule("block_id"),
        gpu.BlockDimOp: id_rule("block_dim"),
        gpu.GridDimOp: id_rule("grid_dim"),
        gpu.LaneIdOp: lane_id,
        gpu.SubgroupSizeOp: subgroup_size,
        gpu.BarrierOp: target.barrier,
        gpu.ShuffleOp: target.shuffle,
        gpu_warp.BallotOp: ballot,
        gpu_warp.VoteOp: vote,
        gpu_warp.SubgroupBroadcastOp: broadcast,
        gpu.PrintfOp: printf,
        gpu_ids.GlobalIdOp: global_id,
        gpu_ids.SubgroupIdOp: subgroup_id,
        **dict.fromkeys(unknown, refused),
    }
