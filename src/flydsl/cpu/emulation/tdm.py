"""AMD's tensor data mover on the CPU: the lanes of a wave move the elements of its block among them.

The block lies packed in shared memory from its start on, with `pad` elements after every so many. Outside the extents
that are left, loads give zero and stores are dropped. Workgroups of a cluster in the mask all get what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Block, Region, SSAValue

from ...dialects.fly.atom_lowering import TileCopy
from ...dialects.fly.atoms import vector_length
from ...dialects.upstream import gpu, llvm, scf
from ...ir.builder import Builder, i32, i64, index
from ...ir.types import bit_width

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions
    from .lanes import Emulation

_MOST_BLOCKS = 16


def counted(b: Builder, start: SSAValue, stop: SSAValue | int, step: int, body: Callable[[SSAValue], None]) -> None:
    """`for i in range(start, stop, step)` over i64."""
    block = Block(arg_types=[index])
    end = b.const(stop, index) if isinstance(stop, int) else b.cast("index_cast", stop, index)
    bounds = [b.cast("index_cast", start, index), end, b.const(step, index)]
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
            when(b, inside, lambda: _store(low, here, there, cell, "tensor_store", tests=False))
            return
        zero = b.const(0, cell)
        value = guarded_load(low, inside, there, zero)
        if copy.mask is None:
            low.put(value, here)
            low.note_piece("tensor_load", here, copy.nbytes, tests=False)
        else:
            to_blocks(low, value, here, copy.mask, "tensor_load", tests=False)

    _share_out(low, b.const(count, i64), element)
    low.note_issued("tensor")


def _share_out(low: Emulation, count: SSAValue, each: Callable[[SSAValue], None]) -> None:
    """Let every lane do its run of what is to be moved: what is next to each other is told of as one.

    The wave issues one instruction, so all that its lanes did before comes first.
    """
    b, lanes = low.b, low.warp_size()
    b.opn(gpu.BarrierOp, (), (), {"scope": gpu.BarrierScopeAttr("subgroup")})
    run = b.int_binary("divui", b.addi(count, b.const(lanes - 1, i64)), b.const(lanes, i64))
    start = b.muli(low.group_lane(), run)
    counted(b, start, b.int_binary("minui", b.addi(start, run), count), 1, each)


def _store(low: Emulation, here: SSAValue, there: SSAValue, cell: IntegerType, kind: str, *, tests: bool) -> None:
    low.put(low.take(here, cell), there, issued=True)
    low.note_piece(kind, here, cell.width.data // 8, tests=tests)


def to_blocks(low: Emulation, value: SSAValue, here: SSAValue, mask: SSAValue, kind: str, *, tests: bool) -> None:
    """Store a value in the shared memory of the blocks of a cluster that a mask (i32) names; of this one where it is 0.

    `here` is the place in this block's memory. Several blocks may bring the same, which is not tested as a race.
    """
    b, nbytes = low.b, bit_width(value.type) // 8

    def to_own() -> None:
        low.put(value, here)
        low.note_piece(kind, here, nbytes, tests=tests)

    when(b, b.cmpi("eq", mask, b.i32(0)), to_own)

    def to(block: SSAValue) -> None:
        rank = b.cast("trunci", block, i32)
        bit = b.int_binary("andi", b.int_binary("shrui", mask, rank), b.i32(1))

        def put() -> None:
            there = low.routine("fly_remote", (here, rank), llvm.ptr())
            low.put(value, there)
            low.note_piece(kind, there, nbytes, tests=False)

        when(b, b.cmpi("ne", bit, b.i32(0)), put)

    counted(b, b.const(0, i64), _MOST_BLOCKS, 1, to)


class Descriptor:
    """The words of a descriptor (see `TdmType`), read at run time; dimensions count from the innermost."""

    def __init__(self, b: Builder, groups: Sequence[SSAValue]):
        self.b = b
        words = [[b.extract(g, i) for i in range(vector_length(g.type))] for g in groups]
        zero = [b.i32(0)] * 4
        first, second = words[0], words[1]
        third, fourth = (words[i] if len(words) > i else zero for i in (2, 3))

        def low(x: SSAValue) -> SSAValue:
            return b.int_binary("andi", x, b.i32(0xFFFF))

        def high(x: SSAValue) -> SSAValue:
            return b.int_binary("shrui", x, b.i32(16))

        def joined(x: SSAValue, y: SSAValue) -> SSAValue:
            return b.int_binary("ori", high(x), b.int_binary("shli", low(y), b.i32(16)))

        def wide(x: SSAValue, y: SSAValue) -> SSAValue:
            upper = b.int_binary("shli", b.cast("extui", y, i64), b.const(32, i64))
            return b.int_binary("ori", b.cast("extui", x, i64), upper)

        self.valid = b.cmpi("ne", b.int_binary("andi", first[0], b.i32(3)), b.i32(0))
        self.shared = first[1]
        self.address = wide(first[2], b.int_binary("andi", first[3], b.i32(0x1FFFFFF)))
        self.mask = low(second[0])
        self.size = b.int_binary("shli", b.const(1, i64), b.cast("extui", self._bits(second[0], 16, 2), i64))
        self.extents = [
            joined(second[1], second[2]),
            joined(second[2], second[3]),
            third[0],
            third[1],
            joined(fourth[1], fourth[2]),
        ]
        self.tile = [high(second[3]), low(second[4]), high(second[4]), high(third[3]), high(fourth[2])]
        self.strides = [
            wide(second[5], low(second[6])),
            wide(joined(second[6], second[7]), high(second[7])),
            wide(third[2], low(third[3])),
            wide(fourth[0], low(fourth[1])),
        ]
        # With rows by their numbers the last two groups hold those, of 32 bits or of 16.
        self.rows = [*third, *fourth] if len(words) > 3 else []
        self.gathers = self._bits(first[0], 31, 1) if self.rows else None
        self.wide_rows = b.cmpi("ne", self._bits(first[0], 30, 1), b.i32(0))
        # Padding is counted in words: two to the power of the code plus one, and the code plus one.
        pads = b.cmpi("ne", self._bits(second[0], 20, 1), b.i32(0))
        interval = b.int_binary("shli", b.i32(8), self._bits(second[0], 22, 3))
        self.interval = b.cast("extui", interval, i64)
        amount = b.int_binary("shli", b.addi(self._bits(second[0], 25, 7), b.i32(1)), b.i32(2))
        self.amount = b.cast("extui", b.select(pads, amount, b.i32(0)), i64)

    def row(self, number: SSAValue) -> SSAValue:
        """The row (i64) that is the n-th (i64) to gather."""
        b = self.b

        def word(at: SSAValue) -> SSAValue:
            made = self.rows[0]
            for i, found in enumerate(self.rows[1:], 1):
                made = b.select(b.cmpi("eq", at, b.const(i, i64)), found, made)
            return made

        half = b.int_binary("divui", number, b.const(2, i64))
        upper = b.cmpi("ne", b.int_binary("andi", number, b.const(1, i64)), b.const(0, i64))
        pair = word(half)
        short = b.select(upper, b.int_binary("shrui", pair, b.i32(16)), b.int_binary("andi", pair, b.i32(0xFFFF)))
        return b.cast("extui", b.select(self.wide_rows, word(number), short), i64)

    def _bits(self, word: SSAValue, at: int, count: int) -> SSAValue:
        return self.b.int_binary("andi", self.b.int_binary("shrui", word, self.b.i32(at)), self.b.i32((1 << count) - 1))


def emulate_descriptor(low: EmulatedInstructions, groups: Sequence[SSAValue], *, load: bool) -> None:
    """A copy of the tensor data mover by its descriptor, byte by byte; a barrier that it names is not signalled."""
    b, d = low.b, Descriptor(low.b, groups)
    tile = [b.cast("extui", t, i64) for t in d.tile]
    gathers = None if d.gathers is None else b.cmpi("ne", d.gathers, b.i32(0))
    if gathers is not None:
        tile = [*tile[:2], *(b.select(gathers, b.const(0, i64), t) for t in tile[2:])]
    counts = [b.int_binary("maxui", t, b.const(1, i64)) for t in tile]
    total = d.size
    for count in counts:
        total = b.muli(total, count)
    memory = b.pure(llvm.IntToPtrOp, (d.address,), llvm.ptr(), {})
    shared = low.pointer_at(d.shared, llvm.ptr(), shared=True)
    cell = IntegerType(8)

    def byte(number: SSAValue) -> None:
        rest = b.int_binary("divui", number, d.size)
        offset = b.const(0, i64)
        inside = d.valid
        for i, count in enumerate(counts):
            at, rest = b.int_binary("remui", rest, count), b.int_binary("divui", rest, count)
            if i == 1 and gathers is not None:
                at = b.select(gathers, d.row(at), at)
            used = b.cmpi("ne", tile[i], b.const(0, i64))
            fits = b.cmpi("ult", at, b.cast("extui", d.extents[i], i64))
            inside = b.int_binary("andi", inside, b.select(used, fits, b.const(1, i1)))
            offset = b.addi(offset, b.muli(at, d.strides[i - 1]) if i else at)
        there = low.at(memory, b.addi(b.muli(offset, d.size), b.int_binary("remui", number, d.size)))
        gaps = b.muli(b.int_binary("divui", number, d.interval), d.amount)
        here = low.at(shared, b.addi(number, gaps))
        if load:
            value = guarded_load(low, inside, there, b.const(0, cell))
            when(b, d.valid, lambda: to_blocks(low, value, here, d.mask, "tensor_load", tests=True))
        else:
            when(b, inside, lambda: _store(low, here, there, cell, "tensor_store", tests=True))

    _share_out(low, total, byte)
    low.note_issued("tensor")


def guarded_load(low: Emulation, flag: SSAValue, at: SSAValue, otherwise: SSAValue) -> SSAValue:
    """What is at an address where the flag holds, for a copy."""
    b, yes, no = low.b, Block(), Block()
    with b.region(yes):
        b.opn(scf.YieldOp, (low.take(at, otherwise.type, issued=True),), ())
    with b.region(no):
        b.opn(scf.YieldOp, (otherwise,), ())
    return b.with_regions(scf.IfOp, (flag,), (otherwise.type,), [Region(yes), Region(no)]).results[0]
