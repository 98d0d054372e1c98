"""`fly-expand-prints`: what `fly.print` becomes in a kernel that prints into memory (`runtime/print_buffer.py`).

The kernel declares that it does, where no driver has a `printf`: on AMD GPUs. A wave asks for the room of all its
active lanes by one atomic, and each lane writes its record at its place among them, by ordinary operations, which the
passes behind lower like any others. The memory becomes the kernel's last argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, IndexType, ModuleOp, StringAttr, f64, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.fly.atomic_ops import AtomicRMWOp
from ...dialects.fly.infer import python_value
from ...dialects.fly.ops import OPS
from ...dialects.fly.types import int_tuple_type
from ...dialects.upstream import gpu, llvm, scf
from ...errors import DSLValueError
from ...ir import arith, print_format
from ...ir.builder import Builder, i32, i32_list, index, operands_of
from ...ir.types import bit_width, function_type
from ...layout import Dyn
from ...llvm.side_buffers import WORDS, declaration, declared_by
from ...llvm.stub_abi import SIDE_BUFFERS_ATTRIBUTE
from ...runtime.print_buffer import HEAD_WORDS
from ..base import Pass
from ..pipeline import PRINTS

MOST = 512
"""Values of a line."""
_WRITTEN = -1 << 63
_KIND = "print"


@dataclass(frozen=True)
class FlyExpandPrintsPass(Pass):
    """Expand prints of kernels that print into memory their launches add."""

    name = "fly-expand-prints"
    needs = "layouts not lowered yet (before `fly-layout-lowering`)"

    def run(self, module: ModuleOp) -> ModuleOp:
        made = module.clone()
        made.attributes.pop(PRINTS, None)
        for device in made.ops:
            for op in device.body.block.ops if isinstance(device, gpu.ModuleOp) else ():
                if isinstance(op, gpu.FuncOp) and _prints_into_memory(op):
                    _expand(op)
        return made


def _prints_into_memory(kernel: gpu.FuncOp) -> bool:
    """Whether a kernel declares memory that it prints into and has no argument for it yet."""
    return any(details["kind"] == _KIND and "formats" not in details for details in declared_by(kernel))


def _expand(kernel: gpu.FuncOp) -> None:
    """Replace the prints of a kernel, and append the argument."""
    entry = kernel.body.block
    words = entry.insert_arg(WORDS, len(entry.args))
    formats: list[str] = []
    b = Builder()
    with b.open_function(entry):
        for op in [op for op in kernel.walk() if isinstance(op, OPS["print"])]:
            b.loc = op.location
            _replace(b, op, words, formats)
    kernel.properties["function_type"] = function_type([a.type for a in entry.args], ())
    *others, _ = cast("ArrayAttr[StringAttr]", kernel.attributes[SIDE_BUFFERS_ATTRIBUTE]).data
    kernel.attributes[SIDE_BUFFERS_ATTRIBUTE] = ArrayAttr([*others, declaration(_KIND, {"formats": formats})])


def _replace(b: Builder, op: Operation, words: SSAValue, formats: list[str]) -> None:
    values = operands_of(op)
    if len(values) > MOST:
        error = DSLValueError(f"printf of {len(values)} values in a line; {MOST} are the most, print parts of them")
        error.ir_location = op.location  # pyright: ignore[reportAttributeAccessIssue]
        raise error
    form = _c_format(python_value(op.properties["format"]), values)
    if form not in formats:
        formats.append(form)
    made = Block()
    with b.region(made):
        _Record(b, words).write(formats.index(form), values)
    around = op.parent
    assert around is not None
    for new in list(made.ops):
        new.detach()
        around.insert_op_before(new, op)
    op.detach()
    op.erase()


def _c_format(text: str, values: Sequence[SSAValue]) -> str:
    """A format of `fly.print` as one of C, and the end of the line."""
    pieces, specs = print_format.split(text)
    made = pieces[0].replace("%", "%%")
    for piece, spec, value in zip(pieces[1:], specs, values, strict=True):
        is_float = isinstance(value.type, AnyFloat)
        made += print_format.conversion(spec, is_float, bit_width(value.type)) + piece.replace("%", "%%")
    return made + "\n"


class _Record:
    """What a wave does to print a line."""

    def __init__(self, b: Builder, words: SSAValue):
        self.b, self.words = b, words

    def write(self, form: int, values: Sequence[SSAValue]) -> None:
        """Write a format's number and values."""
        b = self.b
        size = 1 + len(values)
        here = self.intrinsic("ballot.i64", i64, b.const(1, i1))
        lane = b.cast("extsi", b.cast("index_cast", b.pure(gpu.LaneIdOp, (), index, {}), i32), i64)
        before = b.int_binary("subi", b.int_binary("shli", self.number(1), lane), self.number(1))
        rank = self.bits(b.int_binary("andi", here, before))
        asked = self.asked(b.cmpi("eq", rank, self.number(0)), here, size)
        at = b.addi(self.of_first_lane(asked), b.muli(rank, self.number(size)))
        end = b.addi(at, self.number(size))
        room = b.op1(OPS["ptr.load"], (self.moved(self.words, 1),), i64, {})
        block = Block()
        with b.region(block):
            record = self.moved(self.words, b.addi(at, self.number(HEAD_WORDS)))
            self.store(self.number(_WRITTEN | size << 32 | form), record)
            for i, value in enumerate(values, 1):
                self.store(self.word(value), self.moved(record, i))
            b.opn(scf.YieldOp, (), ())
        b.with_regions(scf.IfOp, (b.cmpi("sle", end, room),), (), [Region(block), Region()])

    def asked(self, first: SSAValue, here: SSAValue, size: int) -> SSAValue:
        """Where the room starts that the first of the lanes has asked for, in that lane."""
        b, then, otherwise = self.b, Block(), Block()
        with b.region(then):
            props: dict[str, Attribute] = {"bin_op": StringAttr("add"), "ordering": StringAttr("monotonic")}
            wanted = b.muli(self.bits(here), self.number(size))
            b.opn(scf.YieldOp, (b.op1(AtomicRMWOp, (self.words, wanted), i64, props),), ())
        with b.region(otherwise):
            b.opn(scf.YieldOp, (self.number(0),), ())
        return b.with_regions(scf.IfOp, (first,), (i64,), [Region(then), Region(otherwise)]).results[0]

    def of_first_lane(self, value: SSAValue) -> SSAValue:
        b = self.b
        low, high = (
            self.intrinsic(
                "readfirstlane.i32", i32, b.cast("trunci", b.int_binary("shrsi", value, self.number(shift)), i32)
            )
            for shift in (0, 32)
        )
        upper = b.int_binary("shli", b.cast("extsi", high, i64), self.number(32))
        return b.int_binary("ori", upper, b.int_binary("andi", b.cast("extsi", low, i64), self.number(0xFFFFFFFF)))

    def word(self, value: SSAValue) -> SSAValue:
        """A value as a word of 64 bits."""
        b, type_ = self.b, value.type
        if isinstance(type_, AnyFloat):
            return b.pure(arith.BitcastOp, (b.cast("extf", value, f64),), i64, {})
        if isinstance(type_, IndexType):
            return b.cast("index_cast", value, i64)
        return b.cast("extui" if type_ == i1 else "extsi", value, i64)

    def number(self, value: int) -> SSAValue:
        return self.b.const(value, i64)

    def bits(self, value: SSAValue) -> SSAValue:
        return self.b.pure(math.CtPopOp, (value,), i64, {})

    def moved(self, pointer: SSAValue, by: int | SSAValue) -> SSAValue:
        """A pointer some words further on."""
        b, cls = self.b, OPS["add_offset"]
        if isinstance(by, int):
            offset = b.pure(OPS["static"], (), int_tuple_type(by), {})
        else:
            offset = b.pure(OPS["make_int_tuple"], (by,), int_tuple_type(Dyn.get(64, 1)), {})
        (type_,) = cast(Any, cls.INFER)([pointer.type, offset.type], {})
        return b.pure(cls, (pointer, offset), type_, {})

    def store(self, value: SSAValue, pointer: SSAValue) -> None:
        self.b.opn(OPS["ptr.store"], (value, pointer), ())

    def intrinsic(self, name: str, type_: Attribute, operand: SSAValue) -> SSAValue:
        props: dict[str, Attribute] = {
            "intrin": StringAttr(f"llvm.amdgcn.{name}"),
            "operandSegmentSizes": i32_list((1, 0)),
        }
        return self.b.opn(llvm.CallIntrinsicOp, (operand,), (type_,), props).results[0]
