"""Registers that were never set, in checked mode.

Registers are values mostly: what they hold at first is `ub.poison`. `unset_elements` says which elements of a value are
that on every path, so that using them is a mistake wherever it is done; storing them to memory, branching on them or
addressing by them is reported. A predicated copy leaves elements that may be set or not, of which nothing is said.

Registers that are indexed when the kernel runs are memory. A byte for each of their bytes says whether it was set.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import ub
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects import fly_cpu
from ...dialects.upstream import llvm, scf, vector
from ...ir import arith
from ...ir.builder import operands_of
from ...ir.types import bit_width
from ...llvm.text.function_text import FunctionText
from ...llvm.text.memory_ops import MEMORY_OPS
from .check import offset_in, report, unless, where

if TYPE_CHECKING:
    from .abi import CpuAbi

Unset = dict[SSAValue, int]
"""Elements of values, one bit each."""


def _count(type_: Attribute) -> int:
    return prod(cast(VectorType, type_).get_shape()) if isinstance(type_, VectorType) else 1


def _whole(type_: Attribute) -> int:
    return (1 << _count(type_)) - 1


def _ints(op: Operation, name: str) -> list[int]:
    attr: Any = op.properties.get(name)
    return [] if attr is None else [int(v) for v in attr.get_values()]


class _Search:
    """The elements that are never set, of the values of a kernel."""

    def __init__(self) -> None:
        self.unset: Unset = {}

    def of(self, value: SSAValue) -> int:
        return self.unset.get(value, 0)

    def block(self, block: Block) -> Sequence[SSAValue]:
        """Look at the ops of a block; gives what its terminator hands on."""
        for op in block.ops:
            if op.regions:
                self.region_op(op)
            elif op.results:
                self.plain(op)
        last = block.last_op
        return () if last is None else operands_of(last)

    def give(self, value: SSAValue, bits: int) -> None:
        if bits:
            self.unset[value] = bits
        else:
            self.unset.pop(value, None)

    def region_op(self, op: Operation) -> None:
        if isinstance(op, scf.IfOp):
            ends = [self.block(region.block) for region in op.regions if region.blocks]
            for i, result in enumerate(op.results):
                self.give(result, self.of(ends[0][i]) & self.of(ends[-1][i]) if len(ends) == 2 else 0)
        elif isinstance(op, scf.ForOp):
            body, init = op.body.block, operands_of(op)[3:]
            held = [self.of(v) for v in init]
            again = True
            while again:
                for arg, bits in zip(body.args[1:], held, strict=True):
                    self.give(arg, bits)
                after = [bits & self.of(v) for bits, v in zip(held, self.block(body), strict=True)]
                again, held = after != held, after
            for result, bits in zip(op.results, held, strict=True):
                self.give(result, bits)
        else:
            for region in op.regions:
                for block in region.blocks:
                    self.block(block)

    def plain(self, op: Operation) -> None:
        if isinstance(op, ub.PoisonOp):
            self.give(op.results[0], _whole(op.results[0].type))
            return
        args = operands_of(op)
        bits = [self.of(v) for v in args]
        if not any(bits):
            return
        if isinstance(op, vector.FromElementsOp):
            self.give(op.results[0], sum((b & 1) << i for i, b in enumerate(bits)))
        elif isinstance(op, vector.ToElementsOp):
            for i, result in enumerate(op.results):
                self.give(result, bits[0] >> i & 1)
        elif op.name in ("vector.extract", "vector.insert"):
            self.element(op, args, bits)
        elif isinstance(op, arith.SelectOp):
            self.give(op.results[0], bits[1] & bits[2])
        elif op.name == "vector.broadcast":
            self.give(op.results[0], _whole(op.results[0].type) if bits[0] and _count(args[0].type) == 1 else 0)
        elif fly_cpu.EMULATED in op.attributes:
            self.give(op.results[0], bits[-1])
        elif op.name.partition(".")[0] in ("arith", "math") or op.name == "vector.shape_cast":
            self.by_elements(op, args, bits)

    def element(self, op: Operation, args: Sequence[SSAValue], bits: list[int]) -> None:
        """An element of a vector of one dimension, at a place that is known."""
        inserts = op.name == "vector.insert"
        source = args[1 if inserts else 0]
        place = _ints(op, "static_position")
        known = len(place) == 1 and place[0] >= 0 and len(cast(Any, source.type).get_shape()) == 1
        if not known:
            return
        if inserts:
            self.give(op.results[0], bits[1] & ~(1 << place[0]) | (bits[0] & 1) << place[0])
        else:
            self.give(op.results[0], bits[0] >> place[0] & 1)

    def by_elements(self, op: Operation, args: Sequence[SSAValue], bits: list[int]) -> None:
        (result,) = op.results
        count = _count(result.type)
        if all(_count(a.type) == count for a in args):
            made = 0
            for b in bits:
                made |= b
            self.give(result, made)


def unset_elements(kernel: Operation) -> Unset:
    """The elements of the values of a kernel that hold nothing on every path."""
    search = _Search()
    for region in kernel.regions:
        for block in region.blocks:
            search.block(block)
    return search.unset


def check_value(f: FunctionText, abi: CpuAbi, op: Operation, value: SSAValue, verb: str) -> None:
    """Report the use of a value that was never set."""
    if abi.unset.get(value):
        text = f"{where(op)}: a register that was never set is {verb}"
        report(f, abi, text, "0", None)


def check_address(f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue) -> None:
    """The same of the numbers an address is made of."""
    owner = pointer.owner
    while isinstance(owner, llvm.GEPOp):
        for index in owner.operands[1:]:
            check_value(f, abi, op, index, "part of an address")
        owner = owner.operands[0].owner


# --- registers in memory ----------------------------------------------------------------------------------------------


def _in_sight(address: SSAValue) -> bool:
    """Whether all that is done with memory is loads and stores."""
    todo = [address]
    while todo:
        for use in todo.pop().uses:
            user = use.operation
            if isinstance(user, llvm.GEPOp):
                todo.append(user.results[0])
            elif not (isinstance(user, llvm.LoadOp) or (isinstance(user, llvm.StoreOp) and use.index == 1)):
                return False
    return True


def alloca(f: FunctionText, op: Operation) -> None:
    """Stack memory; in checked mode with a byte for each of its bytes."""
    MEMORY_OPS[llvm.AllocaOp](f, op)
    abi: Any = f.abi
    (number,) = operands_of(op)
    count = f.names[number]
    if not abi.checked or not count.isdigit() or not _in_sight(op.results[0]):
        return
    nbytes = int(count) * -(-bit_width(op.properties["elem_type"]) // 8)
    shadow = f.assign(f"alloca [{nbytes} x i8]")
    f.line(f"store [{nbytes} x i8] zeroinitializer, ptr {shadow}" if nbytes <= 64 else _clear(f, shadow, nbytes))
    abi.registers[op.results[0]] = shadow


def _clear(f: FunctionText, at: str, nbytes: int) -> str:
    f.module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
    return f"call void @llvm.memset.p0.i64(ptr {at}, i8 0, i64 {nbytes}, i1 false)"


def check_register(f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue, root: SSAValue) -> None:
    """Note what is set of a register in memory; report an element that is read and was not."""
    shadow = abi.registers.get(root)
    if shadow is None:
        return
    stores = isinstance(op, llvm.StoreOp)
    type_ = op.operands[0].type if stores else op.results[0].type
    nbytes = -(-bit_width(type_) // 8)
    offset = offset_in(pointer, root)
    if offset is not None:
        known = f"{shadow}, bytes {offset} to {offset + nbytes}"
        if known in f.known:
            return  # set or reported before, on every way that leads here
        if stores or not isinstance(type_, VectorType):
            f.known[known] = ""
    else:
        here, start = (f.assign(f"ptrtoint {f.typed(v)} to i64") for v in (pointer, root))
        offset = f.assign(f"sub i64 {here}, {start}")
    at = f.assign(f"getelementptr i8, ptr {shadow}, i64 {offset}")
    if stores:
        ones = ", ".join(["i8 1"] * nbytes)
        f.line(f"store <{nbytes} x i8> <{ones}>, ptr {at}, align 1")
    elif not isinstance(type_, VectorType):
        # Vectors may be loaded whole for the elements that were set.
        seen = f.assign(f"load i8, ptr {at}")
        text = f"{where(op)}: an element of a register tensor that was never set is read"
        unless(f, f.assign(f"icmp ne i8 {seen}, 0"), lambda: report(f, abi, text, "0", None))
