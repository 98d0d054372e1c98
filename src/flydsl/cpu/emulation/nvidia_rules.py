"""NVIDIA's intrinsics: special registers, warp instructions, approximate functions, copies and fences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects import math
from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, i1
from xdsl.ir import Attribute, SSAValue

from ...dialects.upstream.gpu import BlockDimOp, BlockIdOp, GridDimOp, ThreadIdOp
from ...ir.builder import i32, i64
from ...ir.types import bit_width
from . import arithmetic_rules
from .conversion_rules import from_f32
from .lane_rules import ballot, bit_at, first_of, from_lane, lane, meet, place, present
from .memory_rules import barrier, in_cluster
from .rule_tools import Arg, NotEmulated, Rule, llvm_call, pair_struct, vector_of

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions

_LANES = 32
_SHUFFLES = ("bfly", "up", "down", "idx")


def _nothing(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    """Memory has one view, and copies are done when they are made."""


def _number(value: int) -> Rule:
    return lambda r, args, type_: r.b.const(value, type_ or i32)


def _warps(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    b = r.b
    total: SSAValue = b.i32(1)
    for dim in "xyz":
        total = b.muli(total, cast(SSAValue, place(BlockDimOp, dim)(r, (), i32)))
    return b.int_binary("divui", b.addi(total, b.i32(_LANES - 1)), b.i32(_LANES))


def _lane_mask(kind: str) -> Rule:
    """The lanes before this one, after it, or with it."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b = r.b
        own = b.int_binary("shli", b.const(1, i64), r.group_lane())
        below = b.int_binary("subi", own, b.const(1, i64))
        masks = {
            "eq": own,
            "lt": below,
            "le": b.int_binary("ori", own, below),
            "gt": b.int_binary("xori", b.int_binary("ori", own, below), b.const(-1, i64)),
            "ge": b.int_binary("xori", below, b.const(-1, i64)),
        }
        return b.cast("trunci", masks[kind], i32)

    return rule


def _clock(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    made = llvm_call(r, "llvm.readcyclecounter", (), i64)
    return made if type_ == i64 else r.b.cast("trunci", made, i32)


# --- warps --------------------------------------------------------------------------------------------------------


def _shuffle(kind: str, *, told: bool = False) -> Rule:
    """`shfl.sync`: (mask, value, b, c); `told`: with whether the lane is one of the segment."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, own = r.b, lane(r)
        value = r.word(args[1], f32 if str(type_) == "f32" else i32)

        def op(name: str, x: SSAValue, y: SSAValue | int) -> SSAValue:
            return b.int_binary(name, x, b.i32(y) if isinstance(y, int) else y)

        by, limits = op("andi", r.word(args[2]), 31), r.word(args[3])
        segment = op("andi", op("shrui", limits, 8), 31)
        outside = op("xori", segment, 31)
        last = op("ori", op("andi", own, segment), op("andi", op("andi", limits, 31), outside))
        source = {
            "up": lambda: op("subi", own, by),
            "down": lambda: op("addi", own, by),
            "bfly": lambda: op("xori", own, by),
            "idx": lambda: op("ori", op("andi", own, segment), op("andi", by, outside)),
        }[kind]()
        valid = b.cmpi("sge" if kind == "up" else "sle", source, last)
        made = from_lane(r, value, b.select(valid, source, own))
        return pair_struct(r, type_, (made, valid)) if told else made

    return rule


def _vote(kind: str) -> Rule:
    """(mask, flag) of the lanes that are there."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, flag = r.b, r.word(args[-1], i1)
        votes = ballot(r, flag)
        if kind == "ballot":
            return b.cast("trunci", votes, i32)
        if kind == "any":
            return b.cmpi("ne", votes, b.const(0, i64))
        everyone = b.cmpi("eq", votes, present(r))
        if kind == "all":
            return everyone
        return b.int_binary("ori", everyone, b.cmpi("eq", votes, b.const(0, i64)))

    return rule


def _active(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return r.b.cast("trunci", present(r), i32)


def _elect(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    first = first_of(r, present(r))
    chosen = r.b.cmpi("eq", lane(r), first)
    return chosen if type_ == i1 else pair_struct(r, type_, (first, chosen))


def _match(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """The lanes with the same value."""
    b, value, running = r.b, r.word(args[1]), present(r)
    of_lane = r.exchange(value)
    made: SSAValue = b.i32(0)
    for other in range(_LANES):
        there = bit_at(r, running, b.i32(other))
        theirs = of_lane(b.const(other, i64))
        same = b.int_binary("andi", there, b.cmpi("eq", theirs, value))
        made = b.int_binary("ori", made, b.select(same, b.i32(1 << other if other < 31 else -(1 << 31)), b.i32(0)))
    return made


def _redux(combine: Callable[[EmulatedInstructions, SSAValue, SSAValue], SSAValue]) -> Rule:
    """(value, mask): the values of the lanes of the mask combined."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, value = r.b, r.word(args[0])
        running = b.int_binary("andi", present(r), b.cast("extui", r.word(args[1]), i64))
        first = first_of(r, running)
        of_lane = r.exchange(value)
        made = of_lane(b.cast("extui", first, i64))
        for other in range(1, _LANES):
            counts = b.int_binary("andi", bit_at(r, running, b.i32(other)), b.cmpi("ult", first, b.i32(other)))
            part = of_lane(b.const(other, i64))
            made = b.select(counts, combine(r, made, part), made)
        return made

    return rule


def _block_barrier(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    """Barrier 0 is that of the block; the others are met by a number of threads."""
    if args and r.number(args[0]):
        if len(args) < 2:
            raise NotEmulated("a barrier other than 0 needs the number of threads that meet there")
        r.emulate_call("barrier.sync", (r.word(args[0]), r.word(args[1])))
        return
    barrier(r, (), None)


def _call(name: str) -> Rule:
    """An operation of `fly_nvgpu`."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue | None:
        found = r.emulate_call(name, [r.word(a) for a in args])
        return found[0] if found else None

    return rule


# --- arithmetic ---------------------------------------------------------------------------------------------------


def prmt(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Four bytes of `{b, a}` by the nibbles of a selector; the top bit of a nibble spreads the byte's sign."""
    b = r.b
    low, high, select = (b.cast("extui", r.word(a), i64) for a in args[:3])
    words = b.int_binary("ori", b.int_binary("shli", high, b.const(32, i64)), low)
    made: SSAValue = b.const(0, i64)
    for i in range(4):
        pick = b.int_binary("andi", b.int_binary("shrui", select, b.const(4 * i, i64)), b.const(15, i64))
        at = b.int_binary("shli", b.int_binary("andi", pick, b.const(7, i64)), b.const(3, i64))
        byte = b.int_binary("andi", b.int_binary("shrui", words, at), b.const(255, i64))
        negative = b.cmpi("uge", byte, b.const(128, i64))
        sign = b.select(negative, b.const(255, i64), b.const(0, i64))
        byte = b.select(b.cmpi("uge", pick, b.const(8, i64)), sign, byte)
        made = b.int_binary("ori", made, b.int_binary("shli", byte, b.const(8 * i, i64)))
    return b.cast("trunci", made, i32)


def _math(cls: type[math.ExpOp]) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        x = r.word(args[0], f32)
        return r.expanded(cls, (x,), (x.type,), x.type)

    return rule


def _floats(name: str) -> Rule:
    return lambda r, args, type_: r.b.float_binary(name, r.word(args[0], f32), r.word(args[1], f32))


def _fma(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    values = [r.word(a, f32) for a in args]
    return r.expanded(math.FmaOp, values, [v.type for v in values], values[0].type)


def _saturate(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    b, x = r.b, r.word(args[0], f32)
    held = b.float_binary("maxnumf", x, b.const(0.0, x.type))
    return b.float_binary("minnumf", held, b.const(1.0, x.type))


def _high(signed: bool) -> Rule:
    """The upper half of a product."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b = r.b
        bits = bit_width(cast(Attribute, type_))
        wide = IntegerType(2 * bits)
        x, y = (b.cast("extsi" if signed else "extui", r.word(a), wide) for a in args)
        moved = b.int_binary("shrui", b.muli(x, y), b.const(bits, wide))
        return b.cast("trunci", moved, cast(Attribute, type_))

    return rule


def _pair(elem: Attribute) -> Rule:
    """Two f32 in one word, the first in the upper half."""
    return lambda r, args, type_: vector_of(r, [from_f32(r, r.word(a, f32), elem) for a in reversed(args)])


def _copy(nbytes: int) -> Rule:
    """`cp.async`: (shared, global, bytes that are there)."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
        if len(args) > 2:
            raise NotEmulated("the form that fills with zeros is not known")
        target = r.word(args[0])
        r.put(r.take(r.word(args[1]), IntegerType(8 * nbytes), issued=True), target)
        r.note_copy("cp_async", target, nbytes)

    return rule


_MATH: dict[str, Rule] = {
    "ex2.approx": _math(cast("type[math.ExpOp]", math.Exp2Op)),
    "lg2.approx": _math(cast("type[math.ExpOp]", math.Log2Op)),
    "sqrt.approx": arithmetic_rules.RULES["sqrt"],
    "sqrt.rn": arithmetic_rules.RULES["sqrt"],
    "rsqrt.approx": arithmetic_rules.RULES["rsq"],
    "rcp.approx": arithmetic_rules.RULES["rcp"],
    "rcp.rn": arithmetic_rules.RULES["rcp"],
    "sin.approx": _math(cast("type[math.ExpOp]", math.SinOp)),
    "cos.approx": _math(cast("type[math.ExpOp]", math.CosOp)),
    "tanh.approx": arithmetic_rules.RULES["tanh"],
    "fma.rn": _fma,
    "add.rn": _floats("addf"),
    "mul.rn": _floats("mulf"),
    "div.rn": _floats("divf"),
    "div.approx": _floats("divf"),
    "fmax": _floats("maxnumf"),
    "fmin": _floats("minnumf"),
    "fmax.nan": _floats("maximumf"),
    "fmin.nan": _floats("minimumf"),
    "saturate": _saturate,
    "floor": _math(cast("type[math.ExpOp]", math.FloorOp)),
    "ceil": _math(cast("type[math.ExpOp]", math.CeilOp)),
    "trunc": _math(cast("type[math.ExpOp]", math.TruncOp)),
    "round": _math(cast("type[math.ExpOp]", math.RoundEvenOp)),
    "fabs": _math(cast("type[math.ExpOp]", math.AbsFOp)),
}


def _flushed(rule: Rule) -> Rule:
    """A function of f32 that takes subnormal numbers for zeros, and gives none."""

    def zero(r: EmulatedInstructions, x: SSAValue) -> SSAValue:
        b = r.b
        word = b.cast("bitcast", x, i32)
        exponent = b.int_binary("andi", word, b.const(0x7F800000, i32))
        sign = b.int_binary("andi", word, b.const(-(1 << 31), i32))
        return b.select(b.cmpi("eq", exponent, b.i32(0)), b.cast("bitcast", sign, x.type), x)

    def flushing(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue | None:
        if type_ != f32:
            return rule(r, args, type_)
        made = rule(r, [zero(r, r.word(a, f32)) for a in args], type_)
        return None if made is None else zero(r, made)

    return flushing


def _spelled(name: str) -> list[str]:
    """The names of a function: of f32 and f64, f32 also with small numbers flushed to 0."""
    head, _, tail = name.partition(".")
    if tail == "nan":
        return [f"{head}.nan.f", f"{head}.ftz.nan.f"]
    if not tail:
        return [f"{head}.f", f"{head}.d", f"{head}.ftz.f", f"{head}.ftz", head]
    return [f"{name}.f", f"{name}.d", f"{name}.ftz.f", f"{name}.ftz.d", f"{name}.ftz", name]


RULES: dict[str, Rule] = {
    **{
        f"read.ptx.sreg.{word}.{d}": place(cls, d)
        for word, cls in (("tid", ThreadIdOp), ("ntid", BlockDimOp), ("ctaid", BlockIdOp), ("nctaid", GridDimOp))
        for d in "xyz"
    },
    **{
        f"read.ptx.sreg.{word}.{d}": in_cluster(what, i)
        for word, what in (
            ("clusterid", "cluster"),
            ("nclusterid", "clusters"),
            ("cluster.ctaid", "block"),
            ("cluster.nctaid", "extent"),
        )
        for i, d in enumerate("xyz")
    },
    "read.ptx.sreg.laneid": lambda r, args, type_: lane(r),
    "read.ptx.sreg.warpid": lambda r, args, type_: r.wave_number(),
    "read.ptx.sreg.nwarpid": _warps,
    "read.ptx.sreg.warpsize": _number(_LANES),
    "read.ptx.sreg.smid": _number(0),
    "read.ptx.sreg.nsmid": _number(1),
    "read.ptx.sreg.gridid": _number(0),
    **{f"read.ptx.sreg.lanemask.{kind}": _lane_mask(kind) for kind in ("eq", "lt", "le", "gt", "ge")},
    **{f"read.ptx.sreg.{name}": _clock for name in ("clock", "clock64", "globaltimer")},
    "read.ptx.sreg.cluster.ctarank": _call("cluster.rank"),
    "read.ptx.sreg.cluster.nctarank": _call("cluster.size"),
    **{f"shfl.sync.{kind}": _shuffle(kind) for kind in _SHUFFLES},
    **{f"shfl.sync.{kind}.{t}p": _shuffle(kind, told=True) for kind in _SHUFFLES for t in ("i32", "f32")},
    **{f"vote.{kind}.sync": _vote(kind) for kind in ("any", "all", "ballot", "uni")},
    **{f"vote.{kind}": _vote(kind) for kind in ("any", "all", "ballot", "uni")},
    "activemask": _active,
    "elect.sync": _elect,
    "match.any.sync": _match,
    "bar.warp.sync": meet,
    **{
        f"redux.sync.{word}": _redux(lambda r, x, y, name=name: r.b.int_binary(name, x, y))
        for word, name in {
            "add": "addi",
            "min": "minsi",
            "max": "maxsi",
            "umin": "minui",
            "umax": "maxui",
            "and": "andi",
            "or": "ori",
            "xor": "xori",
        }.items()
    },
    **{
        f"redux.sync.f{word}": _redux(lambda r, x, y, name=f"{word}numf": r.b.float_binary(name, x, y))
        for word in ("min", "max")
    },
    "barrier0": barrier,
    "barrier": _block_barrier,
    "barrier.n": _block_barrier,
    "barrier.sync": _block_barrier,
    "barrier.sync.cnt": _block_barrier,
    **{f"barrier.cta.sync.{kind}": _block_barrier for kind in ("all", "aligned.all", "count", "aligned.count")},
    "barrier.cluster.arrive": _call("cluster.arrive"),
    "barrier.cluster.arrive.aligned": _call("cluster.arrive"),
    "barrier.cluster.arrive.relaxed": _call("cluster.arrive_relaxed"),
    "barrier.cluster.arrive.relaxed.aligned": _call("cluster.arrive_relaxed"),
    "barrier.cluster.wait": _call("cluster.wait"),
    "barrier.cluster.wait.aligned": _call("cluster.wait"),
    **{f"membar.{scope}": _nothing for scope in ("cta", "gl", "sys")},
    **{
        f"fence.{kind}": _nothing
        for kind in ("sc.cluster", "proxy.async", "proxy.async.global", "mbarrier_init.release.cluster")
    },
    **{f"griddepcontrol.{kind}": _nothing for kind in ("wait", "launch.dependents")},
    "nanosleep": _nothing,
    "cp.async.commit.group": _call("cp_async.commit"),
    "cp.async.wait.group": _call("cp_async.wait"),
    "cp.async.wait.all": _call("cp_async.wait_all"),
    **{f"cp.async.ca.shared.global.{n}": _copy(n) for n in (4, 8, 16)},
    "cp.async.cg.shared.global.16": _copy(16),
    "prmt": prmt,
    "mulhi.i": _high(True),
    "mulhi.ui": _high(False),
    "mulhi.ll": _high(True),
    "mulhi.ull": _high(False),
    "ff2bf16x2.rn": _pair(bf16),
    "ff2f16x2.rn": _pair(f16),
    **{
        spelled: _flushed(rule) if ".ftz" in spelled else rule
        for name, rule in _MATH.items()
        for spelled in _spelled(name)
    },
}
"""The meaning of each intrinsic, by its name behind `llvm.nvvm.`."""
