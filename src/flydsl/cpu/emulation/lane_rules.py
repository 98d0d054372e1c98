"""Instructions that look at the lanes of a wave: ids, votes, and moves between lanes.

A lane that takes no part gives 0, or what the instruction says for such lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import Float32Type, IndexType, IntegerType, i1
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, SSAValue

from ...dialects.upstream import gpu, llvm
from ...dialects.upstream.gpu import BlockDimOp, BlockIdOp, DimensionAttr, GridDimOp, ThreadIdOp
from ...dialects.upstream.gpu.warp import BallotOp
from ...errors import DSLCompileError
from ...ir.builder import i32, i64
from ...ir.types import bit_width
from .rule_tools import Arg, Rule, bits_of, llvm_call, pair_struct

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions


def place(cls: type[ThreadIdOp] | type[BlockIdOp] | type[BlockDimOp] | type[GridDimOp], dim: str) -> Rule:
    """An id or an extent."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        found = r.b.pure(cls, (), IndexType(), {"dimension": DimensionAttr(dim)})
        return r.b.cast("index_cast", found, type_ or i32)

    return rule


def lane(r: EmulatedInstructions) -> SSAValue:
    """Number of the thread in its wave, i32."""
    return r.b.cast("trunci", r.group_lane(), i32)


def ballot(r: EmulatedInstructions, flag: SSAValue) -> SSAValue:
    """A bit of an i64 for each lane: where the flag holds."""
    return r.b.op1(BallotOp, (flag,), i64, {})


def present(r: EmulatedInstructions) -> SSAValue:
    """A bit of an i64 for each lane that takes part."""
    return ballot(r, r.b.const(1, i1))


def meet(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    """The lanes that take part meet."""
    r.b.opn(gpu.BarrierOp, (), (), {"scope": gpu.BarrierScopeAttr("subgroup")})


def bit_at(r: EmulatedInstructions, mask: SSAValue, at: SSAValue) -> SSAValue:
    """A bit (i1) of an i64, by its number (i32)."""
    b = r.b
    moved = b.int_binary("shrui", mask, b.cast("extui", at, i64))
    return b.cast("trunci", moved, i1)


def _shuffles(type_: Attribute) -> bool:
    """Whether `gpu.shuffle` takes a type."""
    return type(type_) in (IntegerType, Float32Type) and bit_width(type_) in (8, 16, 32, 64)


def from_lane(r: EmulatedInstructions, value: SSAValue, source: SSAValue) -> SSAValue:
    """The value of a lane (i32) that takes part."""
    b = r.b
    type_: Attribute = value.type
    if isinstance(type_, LLVMPointerType):
        number = b.pure(llvm.PtrToIntOp, (value,), i64, {})
        return b.pure(llvm.IntToPtrOp, (from_lane(r, number, source),), type_, {})
    inside = b.int_binary("andi", source, b.i32(r.warp_size() - 1))
    if _shuffles(type_):
        props: dict[str, Attribute] = {"mode": gpu.ShuffleModeAttr("idx")}
        return b.opn(gpu.ShuffleOp, (value, inside, b.i32(r.warp_size())), (type_, i1), props).results[0]
    return r.exchange(value)(b.cast("extui", inside, i64))


def pulled(r: EmulatedInstructions, value: SSAValue, source: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The value of a lane (i32), this lane's own where that takes no part; and whether it does."""
    b = r.b
    source = b.int_binary("andi", source, b.i32(r.warp_size() - 1))
    there = bit_at(r, present(r), source)
    return from_lane(r, value, b.select(there, source, lane(r))), there


def or_zero(r: EmulatedInstructions, value: SSAValue, source: SSAValue) -> SSAValue:
    """The value of a lane (i32), 0 where that takes no part."""
    moved, there = pulled(r, value, source)
    return r.b.select(there, moved, r.b.const(0, moved.type))


def first_of(r: EmulatedInstructions, mask: SSAValue) -> SSAValue:
    """Number (i32) of the lowest bit of an i64."""
    return r.b.cast("trunci", llvm_call(r, "llvm.cttz.i64", (mask, r.b.const(0, i1)), i64), i32)


def _readfirstlane(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return from_lane(r, r.word(args[0]), first_of(r, present(r)))


def _readlane(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    # Of a lane that takes no part it would be what the register held before: checked mode reports that.
    return from_lane(r, r.word(args[0]), r.word(args[1]))


def _writelane(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    value, at, old = (r.word(a) for a in args)
    chosen = r.b.int_binary("andi", at, r.b.i32(r.warp_size() - 1))
    return r.b.select(r.b.cmpi("eq", lane(r), chosen), value, old)


def _bpermute(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return or_zero(r, r.word(args[1]), r.b.int_binary("shrui", r.word(args[0]), r.b.i32(2)))


def _permute(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Each lane sends; the highest sender wins, and who is sent nothing gets 0."""
    b, own = r.b, lane(r)
    wave = r.warp_size()
    to = b.int_binary("andi", b.int_binary("shrui", r.word(args[0]), b.i32(2)), b.i32(wave - 1))
    value, running = r.word(args[1]), present(r)
    made: SSAValue = b.const(0, value.type)
    for sender in range(wave):
        sends = bit_at(r, running, b.i32(sender))
        source = b.select(sends, b.i32(sender), own)
        there, sent = from_lane(r, to, source), from_lane(r, value, source)
        made = b.select(b.int_binary("andi", sends, b.cmpi("eq", there, own)), sent, made)
    return made


def _swizzled(r: EmulatedInstructions, i: SSAValue, pattern: int) -> SSAValue:
    """The lane of 32 that lane `i` reads."""
    b = r.b

    def op(name: str, x: SSAValue, y: SSAValue | int) -> SSAValue:
        return b.int_binary(name, x, b.i32(y) if isinstance(y, int) else y)

    mask = pattern & 31
    if pattern < 0x8000:
        return op("xori", op("ori", op("andi", i, mask), pattern >> 5 & 31), pattern >> 10 & 31)
    if pattern < 0xC000:
        at = op("shli", op("andi", i, 3), 1)
        return op("ori", op("andi", i, ~3), op("andi", op("shrui", b.i32(pattern & 0xFF), at), 3))
    if pattern < 0xE000:
        by = pattern >> 5 & 31
        moved = op("addi", i, -by if pattern & 0x400 else by)
        return op("ori", op("andi", i, mask), op("andi", moved, 31 & ~mask))
    mirrored: SSAValue = b.i32(0)
    for bit in range(5):
        mirrored = op("ori", mirrored, op("shli", op("andi", op("shrui", i, bit), 1), 4 - bit))
    return op("ori", op("shrui", mirrored, mask.bit_count()), op("andi", i, mask))


def _swizzle(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    b, own = r.b, lane(r)
    low = _swizzled(r, b.int_binary("andi", own, b.i32(31)), r.number(args[1]) & 0xFFFF)
    return or_zero(r, r.word(args[0]), b.int_binary("ori", b.int_binary("andi", own, b.i32(~31)), low))


# --- DPP ----------------------------------------------------------------------------------------------------------


def _dpp_source(r: EmulatedInstructions, own: SSAValue, ctrl: int) -> tuple[SSAValue, SSAValue]:
    """The lane that is read, and whether there is one."""
    b, wave = r.b, r.warp_size()

    def c(n: int) -> SSAValue:
        return b.i32(n)

    def op(name: str, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.int_binary(name, x, y)

    always = b.const(1, i1)
    if ctrl <= 0xFF:
        at = op("shli", op("andi", own, c(3)), c(1))
        return op("ori", op("andi", own, c(~3)), op("andi", op("shrui", c(ctrl), at), c(3))), always
    if ctrl in (0x130, 0x134):
        return op("addi", own, c(1)), always if ctrl == 0x134 else b.cmpi("ult", own, c(wave - 1))
    if ctrl in (0x138, 0x13C):
        return op("addi", own, c(wave - 1)), always if ctrl == 0x13C else b.cmpi("ugt", own, c(0))
    if ctrl == 0x142:
        return op("addi", op("andi", own, c(~15)), c(wave - 1)), b.cmpi("uge", own, c(16))
    if ctrl == 0x143:
        return c(31), b.cmpi("uge", own, c(32))
    i, n = op("andi", own, c(15)), ctrl & 15
    inside = always
    kind = ctrl & ~15
    if ctrl == 0x140:
        at = op("subi", c(15), i)
    elif ctrl == 0x141:
        at = op("ori", op("andi", i, c(8)), op("subi", c(7), op("andi", i, c(7))))
    elif kind == 0x100:
        at, inside = op("addi", i, c(n)), b.cmpi("ult", i, c(16 - n))
    elif kind == 0x110:
        at, inside = op("subi", i, c(n)), b.cmpi("uge", i, c(n))
    elif kind == 0x120:
        at = op("subi", i, c(n))
    elif kind == 0x150:
        at = c(n)
    elif kind == 0x160:
        at = op("xori", i, c(n))
    else:
        raise DSLCompileError(f"there is no DPP control {ctrl:#x}")
    return op("ori", op("andi", own, c(~15)), op("andi", at, c(15))), inside


def _update_dpp(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    b, old, value = r.b, r.word(args[0]), r.word(args[1])
    ctrl, rows, banks, bound = (r.number(a) for a in args[2:6])
    own = lane(r)
    source, inside = _dpp_source(r, own, ctrl)
    moved, there = pulled(r, value, source)
    other = b.const(0, value.type) if bound else old
    row = b.int_binary("shrui", b.i32(rows), b.int_binary("shrui", own, b.i32(4)))
    bank = b.int_binary("shrui", b.i32(banks), b.int_binary("andi", b.int_binary("shrui", own, b.i32(2)), b.i32(3)))
    on = b.cmpi("ne", b.int_binary("andi", b.int_binary("andi", row, bank), b.i32(1)), b.i32(0))
    return b.select(on, b.select(b.int_binary("andi", inside, there), moved, other), old)


def _mov_dpp(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    value = r.word(args[0])
    return _update_dpp(r, [r.b.const(0, value.type), *args], type_)


def _mov_dpp8(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Any permutation of every eight lanes: three bits for each."""
    b, own = r.b, lane(r)
    at = b.muli(b.int_binary("andi", own, b.i32(7)), b.i32(3))
    pick = b.int_binary("andi", b.int_binary("shrui", b.i32(r.number(args[1])), at), b.i32(7))
    return or_zero(r, r.word(args[0]), b.int_binary("ori", b.int_binary("andi", own, b.i32(~7)), pick))


# --- permlane -----------------------------------------------------------------------------------------------------


def _permlane(across: bool, by_lane: bool) -> Rule:
    """A lane of the own row of 16, or of its neighbour: named by a nibble of two scalars, or by the lane itself."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, own = r.b, lane(r)
        old, value = r.word(args[0]), r.word(args[1])
        if by_lane:
            pick, flags = r.word(args[2]), args[3:5]
        else:
            low, high = (b.cast("extui", r.word(a), i64) for a in args[2:4])
            both = b.int_binary("ori", b.int_binary("shli", high, b.const(32, i64)), low)
            at = b.cast("extui", b.int_binary("shli", b.int_binary("andi", own, b.i32(15)), b.i32(2)), i64)
            pick, flags = b.cast("trunci", b.int_binary("shrui", both, at), i32), args[4:6]
        row = b.int_binary("andi", own, b.i32(~15))
        row = b.int_binary("xori", row, b.i32(16)) if across else row
        source = b.int_binary("ori", row, b.int_binary("andi", pick, b.i32(15)))
        moved, there = pulled(r, value, source)
        fetch, bound = (r.number(f) for f in flags)
        if fetch:
            return moved
        return b.select(there, moved, b.const(0, value.type) if bound else old)

    return rule


def _permlane64(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return pulled(r, r.word(args[0]), r.b.int_binary("xori", lane(r), r.b.i32(32)))[0]


def _swap(rows: int) -> Rule:
    """The odd groups of so many lanes of the first operand change places with the even ones of the second."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, own = r.b, lane(r)
        first, second = r.word(args[0]), r.word(args[1])
        odd = b.cmpi("ne", b.int_binary("andi", own, b.i32(rows)), b.i32(0))
        other = b.int_binary("xori", own, b.i32(rows))
        from_second, from_first = pulled(r, second, other)[0], pulled(r, first, other)[0]
        return pair_struct(r, type_, (b.select(odd, from_second, first), b.select(odd, second, from_first)))

    return rule


# --- votes and counts ---------------------------------------------------------------------------------------------


def _mbcnt(start: int) -> Rule:
    """How many bits of a mask are below the lane, among those of 32 lanes."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, own = r.b, r.group_lane()
        below = b.int_binary("subi", own, b.const(start, i64)) if start else own
        below = b.int_binary("maxsi", b.int_binary("minsi", below, b.const(32, i64)), b.const(0, i64))
        ones = b.int_binary("subi", b.int_binary("shli", b.const(1, i64), below), b.const(1, i64))
        kept = b.int_binary("andi", b.cast("extui", r.word(args[0]), i64), ones)
        count = b.cast("trunci", llvm_call(r, "llvm.ctpop.i64", (kept,), i64), i32)
        return b.addi(count, r.word(args[1]))

    return rule


def _ballot(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    mask = ballot(r, r.word(args[0], i1))
    return mask if type_ == i64 else r.b.cast("trunci", mask, i32)


def _inverse_ballot(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    mask = r.word(args[0])
    return bit_at(r, mask if mask.type == i64 else r.b.cast("extui", mask, i64), lane(r))


_TESTS = {
    32: "eq", 33: "ne", 34: "ugt", 35: "uge", 36: "ult", 37: "ule", 38: "sgt", 39: "sge", 40: "slt", 41: "sle",
}  # fmt: skip
"""Comparisons by their numbers in LLVM."""
_FLOAT_TESTS = {
    1: "oeq", 2: "ogt", 3: "oge", 4: "olt", 5: "ole", 6: "one", 7: "ord", 8: "uno", 9: "ueq", 10: "ugt", 11: "uge",
    12: "ult", 13: "ule", 14: "une",
}  # fmt: skip


def _compared(floats: bool) -> Rule:
    """A ballot of a comparison."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue | None:
        word = (_FLOAT_TESTS if floats else _TESTS).get(r.number(args[2]))
        if word is None:
            return None
        x, y = r.word(args[0]), r.word(args[1])
        return _ballot(r, [r.b.cmpf(word, x, y) if floats else r.b.cmpi(word, x, y)], type_)

    return rule


def _itself(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return r.word(args[0])


def _wave_reduce(combine: Callable[[EmulatedInstructions, SSAValue, SSAValue], SSAValue]) -> Rule:
    """All lanes that take part combined, lane after lane."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, value, own, running = r.b, r.word(args[0]), lane(r), present(r)
        first = first_of(r, running)
        made = from_lane(r, value, first)
        for other in range(1, r.warp_size()):
            counts = b.int_binary("andi", bit_at(r, running, b.i32(other)), b.cmpi("ult", first, b.i32(other)))
            part = from_lane(r, value, b.select(counts, b.i32(other), own))
            made = b.select(counts, combine(r, made, part), made)
        return made

    return rule


def _integers(name: str) -> Rule:
    return _wave_reduce(lambda r, x, y: r.b.int_binary(name, x, y))


def _floats(name: str) -> Rule:
    return _wave_reduce(lambda r, x, y: r.b.float_binary(name, x, y))


def _wave_id(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return r.wave_number()


def _shuffle(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return bits_of(r, or_zero(r, r.word(args[0]), r.word(args[1])), type_ or i32)


RULES: dict[str, Rule] = {
    **{f"workitem.id.{d}": place(ThreadIdOp, d) for d in "xyz"},
    **{f"workgroup.id.{d}": place(BlockIdOp, d) for d in "xyz"},
    **{f"workgroup.dim.{d}": place(BlockDimOp, d) for d in "xyz"},
    **{f"grid.dim.{d}": place(GridDimOp, d) for d in "xyz"},
    "wavefrontsize": lambda r, args, type_: r.b.i32(r.warp_size()),
    "wave.id": _wave_id,
    "s.get.waveid.in.workgroup": _wave_id,
    "readfirstlane": _readfirstlane,
    "readlane": _readlane,
    "writelane": _writelane,
    "ds.bpermute": _bpermute,
    "ds.permute": _permute,
    "ds.swizzle": _swizzle,
    "wave.shuffle": _shuffle,
    "mov.dpp": _mov_dpp,
    "mov.dpp8": _mov_dpp8,
    "update.dpp": _update_dpp,
    "permlane16": _permlane(False, False),
    "permlanex16": _permlane(True, False),
    "permlane16.var": _permlane(False, True),
    "permlanex16.var": _permlane(True, True),
    "permlane64": _permlane64,
    "permlane16.swap": _swap(16),
    "permlane32.swap": _swap(32),
    "mbcnt.lo": _mbcnt(0),
    "mbcnt.hi": _mbcnt(32),
    "ballot": _ballot,
    "inverse.ballot": _inverse_ballot,
    "icmp": _compared(False),
    "fcmp": _compared(True),
    **{name: _itself for name in ("set.inactive", "strict.wwm", "wwm", "strict.wqm", "softwqm", "wqm")},
    "wave.reduce.add": _integers("addi"),
    "wave.reduce.and": _integers("andi"),
    "wave.reduce.or": _integers("ori"),
    "wave.reduce.xor": _integers("xori"),
    "wave.reduce.min": _integers("minsi"),
    "wave.reduce.max": _integers("maxsi"),
    "wave.reduce.umin": _integers("minui"),
    "wave.reduce.umax": _integers("maxui"),
    "wave.reduce.fadd": _floats("addf"),
    "wave.reduce.fmin": _floats("minnumf"),
    "wave.reduce.fmax": _floats("maxnumf"),
}
"""The meaning of each intrinsic."""
