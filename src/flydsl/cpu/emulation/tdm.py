"""AMD's tensor data mover on the CPU: the lanes of a wave move the elements of its block among them.

The block lies packed in shared memory from its start on, with `pad` elements after every so many. Outside the extents
that are left, loads give zero and stores are dropped. Workgroups of a cluster in the mask all get what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Region, SSAValue

from ...dialects.fly.atoms import TileCopy
from ...dialects.upstream import llvm, scf
from ...ir.builder import Builder, i32, i64, index

if TYPE_CHECKING:
    from .lanes import Emulation

_MOST_BLOCKS = 16


def counted(b: Builder, start: SSAValue, stop: int, step: int, body: Callable[[SSAValue], None]) -> None:
    """`for i in range(start, stop, step)` over i64."""
    block = Block(arg_types=[index])
    bounds = [b.cast("index_cast", start, index), b.const(stop, index), b.const(step, index)]
    with b.region(block):
        body(b.cast("index_cast", block.args[0], i64))
        b.opn(scf.YieldOp, (), ())
    b.with_regions(scf.ForOp, bounds, (), [Region(block)])


def when(b: Builder, flag: SSAValue, then: Callable[[], None]) -> None:
    """`if flag:`."""
    block = Block()
    with b.region(block):
        then()
        b.opn(scf.YieldOp, (), ())
    b.with_regions(scf.IfOp, (flag,), (), [Region(block), Region()])


def emulate_tile_copy(low: Emulation, copy: TileCopy) -> None:
    """Emit the copy of a wave."""
    b = low.b
    lanes = low.warp_size()
    count = 1
    for extent in copy.block:
        count *= extent
    cell = IntegerType(8 * copy.nbytes)

    def element(number: SSAValue) -> None:
        rest, offset = number, b.const(0, i64)
        inside: SSAValue | None = None
        for d in reversed(range(len(copy.block))):
            extent = b.const(copy.block[d], i64)
            at, rest = b.int_binary("remui", rest, extent), b.int_binary("divui", rest, extent)
            fits = b.cmpi("slt", at, b.cast("extsi", copy.left[d], i64))
            inside = fits if inside is None else b.int_binary("andi", inside, fits)
            step = at if d == len(copy.block) - 1 else b.muli(at, copy.strides[d])
            offset = b.addi(offset, step)
        assert inside is not None
        placed = number
        interval, amount = copy.pad
        if interval:
            gaps = b.muli(b.int_binary("divui", number, b.const(interval, i64)), b.const(amount, i64))
            placed = b.addi(number, gaps)
        size = b.const(copy.nbytes, i64)
        there = low.at(copy.memory, b.muli(offset, size))
        here = low.at(copy.shared, b.muli(placed, size))
        if not copy.load:
            when(b, inside, lambda: low.put(low.take(here, cell), there))
            return
        zero = b.const(0, cell)
        value = guarded_load(low, inside, there, zero)
        deliver(value, here)

    def deliver(value: SSAValue, here: SSAValue) -> None:
        if copy.mask is None:
            low.put(value, here)
            return
        own = b.cmpi("eq", copy.mask, b.i32(0))
        when(b, own, lambda: low.put(value, here))
        mask = copy.mask

        def to(block: SSAValue) -> None:
            rank = b.cast("trunci", block, i32)
            bit = b.int_binary("andi", b.int_binary("shrui", mask, rank), b.i32(1))
            chosen = b.cmpi("ne", bit, b.i32(0))
            when(b, chosen, lambda: low.put(value, low.routine("fly_remote", (here, rank), llvm.ptr())))

        counted(b, b.const(0, i64), _MOST_BLOCKS, 1, to)

    counted(b, low.group_lane(), count, lanes, element)


def guarded_load(low: Emulation, flag: SSAValue, at: SSAValue, otherwise: SSAValue) -> SSAValue:
    """What is at an address where the flag holds."""
    b, yes, no = low.b, Block(), Block()
    with b.region(yes):
        b.opn(scf.YieldOp, (low.take(at, otherwise.type),), ())
    with b.region(no):
        b.opn(scf.YieldOp, (otherwise,), ())
    return b.with_regions(scf.IfOp, (flag,), (otherwise.type,), [Region(yes), Region(no)]).results[0]


__all__ = ["emulate_tile_copy"]
