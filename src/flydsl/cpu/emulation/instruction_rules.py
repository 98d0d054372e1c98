"""What AMD's instructions mean, one line each: the table of `instructions.py`.

A rule is given the arguments in the order of the intrinsic, literals as Python numbers where they are, and the type of
the result. `RULES` is by the name of the intrinsic without `llvm.amdgcn.` and the types at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects import math
from xdsl.dialects.builtin import (
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    IndexType,
    IntegerType,
    StringAttr,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
)
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, SSAValue

from ...dialects.fly.atoms import Operand
from ...dialects.fly_rocdl.cdna3 import MfmaType
from ...dialects.upstream import gpu, llvm
from ...dialects.upstream.gpu import BlockIdOp, DimensionAttr, ThreadIdOp
from ...dialects.upstream.gpu.warp import BallotOp
from ...dialects.upstream.vector import FromElementsOp
from ...ir import arith
from ...ir.builder import elem_of, i32, i32_list, i64
from ...ir.types import bit_width, vector_type
from ...lowering import value_operands
from ...target import has

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions

Arg: TypeAlias = SSAValue | int
Rule: TypeAlias = "Callable[[EmulatedInstructions, Sequence[Arg], Attribute | None], SSAValue | None]"


def _nothing(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    """Waits, priorities and hints to a scheduler: every access is done when it is made."""


def _barrier(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    r.b.opn(gpu.BarrierOp, (), ())


# --- ids and lanes ------------------------------------------------------------------------------------------------


def _id(cls: type[ThreadIdOp] | type[BlockIdOp], dim: str) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        found = r.b.pure(cls, (), IndexType(), {"dimension": DimensionAttr(dim)})
        return r.b.cast("index_cast", found, i32)

    return rule


def _lane(r: EmulatedInstructions) -> SSAValue:
    return r.b.cast("trunci", r.group_lane(), i32)


def _from_lane(r: EmulatedInstructions, value: SSAValue, lane: SSAValue) -> SSAValue:
    """The value of a lane (i32) of the wave."""
    if isinstance(value.type, LLVMPointerType):
        number = r.b.pure(llvm.PtrToIntOp, (value,), i64, {})
        return r.b.pure(llvm.IntToPtrOp, (_from_lane(r, number, lane),), value.type, {})
    inside = r.b.int_binary("andi", lane, r.b.i32(r.warp_size() - 1))
    return r.exchange(value)(r.b.cast("extui", inside, i64))


def _count_zeros(r: EmulatedInstructions, mask: SSAValue) -> SSAValue:
    return _llvm(r, "llvm.cttz.i64", (mask, r.b.const(0, i1)), i64)


def _llvm(r: EmulatedInstructions, name: str, args: Sequence[SSAValue], type_: Attribute) -> SSAValue:
    """A call of an intrinsic that every target has."""
    props: dict[str, Attribute] = {"intrin": StringAttr(name), "operandSegmentSizes": i32_list((len(args), 0))}
    return r.b.op1(llvm.CallIntrinsicOp, list(args), type_, props)


def _readfirstlane(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    mask = r.b.op1(BallotOp, (r.b.const(1, i1),), i64, {})
    first = r.b.cast("trunci", _count_zeros(r, mask), i32)
    return _from_lane(r, r.word(args[0]), first)


def _readlane(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return _from_lane(r, r.word(args[0]), r.word(args[1]))


def _bpermute(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return _from_lane(r, r.word(args[1]), r.b.int_binary("shrui", r.word(args[0]), r.b.i32(2)))


def _swizzle(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    b, lane, pattern = r.b, _lane(r), r.number(args[1])
    if pattern & 0x8000:  # a permutation of every four lanes
        at = b.int_binary("shli", b.int_binary("andi", lane, b.i32(3)), b.i32(1))
        low = b.int_binary("andi", b.int_binary("shrui", b.i32(pattern & 0xFF), at), b.i32(3))
        return _from_lane(r, r.word(args[0]), b.int_binary("ori", b.int_binary("andi", lane, b.i32(~3)), low))
    low = b.int_binary("andi", lane, b.i32(pattern & 31))
    low = b.int_binary("xori", b.int_binary("ori", low, b.i32(pattern >> 5 & 31)), b.i32(pattern >> 10 & 31))
    return _from_lane(r, r.word(args[0]), b.int_binary("ori", b.int_binary("andi", lane, b.i32(~31)), low))


def _dpp_source(r: EmulatedInstructions, lane: SSAValue, ctrl: int) -> tuple[SSAValue, SSAValue]:
    """The lane that is read, and whether there is one."""
    b, wave = r.b, r.warp_size()

    def c(n: int) -> SSAValue:
        return b.i32(n)

    def op(name: str, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.int_binary(name, x, y)

    always = b.const(1, i1)
    if ctrl <= 0xFF:
        at = op("shli", op("andi", lane, c(3)), c(1))
        return op("ori", op("andi", lane, c(~3)), op("andi", op("shrui", c(ctrl), at), c(3))), always
    if ctrl in (0x130, 0x134):
        return op("addi", lane, c(1)), always if ctrl == 0x134 else b.cmpi("ult", lane, c(wave - 1))
    if ctrl in (0x138, 0x13C):
        return op("addi", lane, c(wave - 1)), always if ctrl == 0x13C else b.cmpi("ugt", lane, c(0))
    if ctrl == 0x142:
        return op("addi", op("andi", lane, c(~15)), c(wave - 1)), b.cmpi("uge", lane, c(16))
    if ctrl == 0x143:
        return c(31), b.cmpi("uge", lane, c(32))
    i, n = op("andi", lane, c(15)), ctrl & 15
    inside = always
    kind = ctrl & ~15
    if ctrl == 0x140:
        place = op("subi", c(15), i)
    elif ctrl == 0x141:
        place = op("ori", op("andi", i, c(8)), op("subi", c(7), op("andi", i, c(7))))
    elif kind == 0x100:
        place, inside = op("addi", i, c(n)), b.cmpi("ult", i, c(16 - n))
    elif kind == 0x110:
        place, inside = op("subi", i, c(n)), b.cmpi("uge", i, c(n))
    elif kind == 0x120:
        place = op("subi", i, c(n))
    elif kind == 0x150:
        place = c(n)
    elif kind == 0x160:
        place = op("xori", i, c(n))
    else:
        raise ValueError(f"there is no DPP control {ctrl:#x}")
    return op("ori", op("andi", lane, c(~15)), op("andi", place, c(15))), inside


def _update_dpp(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    b, old, value = r.b, r.word(args[0]), r.word(args[1])
    ctrl, rows, banks, bound = (r.number(a) for a in args[2:6])
    lane = _lane(r)
    source, inside = _dpp_source(r, lane, ctrl)
    moved = _from_lane(r, value, source)
    other = b.const(0, value.type) if bound else old
    row = b.int_binary("shrui", b.i32(rows), b.int_binary("shrui", lane, b.i32(4)))
    bank = b.int_binary("shrui", b.i32(banks), b.int_binary("andi", b.int_binary("shrui", lane, b.i32(2)), b.i32(3)))
    on = b.cmpi("ne", b.int_binary("andi", b.int_binary("andi", row, bank), b.i32(1)), b.i32(0))
    return b.select(on, b.select(inside, moved, other), old)


def _mov_dpp(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    value = r.word(args[0])
    return _update_dpp(r, [r.b.const(0, value.type), *args], type_)


def _mbcnt(start: int) -> Rule:
    """How many bits of a mask are below the lane, among those of 32 lanes."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, lane = r.b, r.group_lane()
        below = b.int_binary("subi", lane, b.const(start, i64)) if start else lane
        below = b.int_binary("maxsi", b.int_binary("minsi", below, b.const(32, i64)), b.const(0, i64))
        ones = b.int_binary("subi", b.int_binary("shli", b.const(1, i64), below), b.const(1, i64))
        kept = b.int_binary("andi", b.cast("extui", r.word(args[0]), i64), ones)
        count = b.cast("trunci", _llvm(r, "llvm.ctpop.i64", (kept,), i64), i32)
        return b.addi(count, r.word(args[1]))

    return rule


def _ballot(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    mask = r.b.op1(BallotOp, (r.word(args[0], i1),), i64, {})
    return mask if type_ == i64 else r.b.cast("trunci", mask, i32)


# --- buffers ------------------------------------------------------------------------------------------------------


def _make_rsrc(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    base = r.word(args[0])
    if base.type != llvm.ptr(0):
        base = r.b.pure(llvm.IntToPtrOp, (r.b.pure(llvm.PtrToIntOp, (base,), i64, {}),), llvm.ptr(0), {})
    size = r.word(args[2], i64)
    if size.type != i64:
        size = r.b.cast("extui", size, i64)
    return r.descriptor(base, r.word(args[1]), size, r.word(args[3]))


def _buffer_load(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    rsrc, offset, soffset = (r.word(a) for a in args[:3])
    return r.buffer_load(rsrc, offset, soffset, cast(Attribute, type_), 0)


def _buffer_store(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    value, rsrc, offset, soffset = (r.word(a) for a in args[:4])
    r.buffer_store(value, rsrc, offset, soffset, 0)


_BINARY = {
    "fadd": "fadd", "fmax": "fmax", "fmin": "fmin", "smax": "max", "smin": "min", "umax": "umax", "umin": "umin",
    "add": "add", "sub": "sub", "and": "_and", "or": "_or", "xor": "_xor", "swap": "xchg",
}  # fmt: skip
"""Operation of `atomicrmw` by the name of the buffer's."""


def _buffer_atomic(kind: str) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        value, rsrc, offset, soffset = (r.word(a) for a in args[:4])
        return r.buffer_exchange(_BINARY[kind], value, rsrc, offset, soffset)

    return rule


def _load_lds(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    rsrc, lds, size, offset, soffset, immediate = args[:6]
    r.raw_to_shared(r.word(lds), r.word(rsrc), r.word(offset), r.word(soffset), r.number(size), r.number(immediate))


def _global_load_lds(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> None:
    source, lds, size, immediate = args[:4]
    r.raw_global_to_shared(r.word(source), r.word(lds), r.number(size), r.number(immediate))


# --- arithmetic ---------------------------------------------------------------------------------------------------


def _one(r: EmulatedInstructions, type_: Attribute) -> SSAValue:
    return r.b.const(1.0, type_)


def _unary(cls: type[math.Exp2Op] | type[math.Log2Op] | type[math.SqrtOp], *, inverse: bool = False) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        x = r.word(args[0])
        made = r.expanded(cls, (x,), (x.type,), x.type)
        return r.b.float_binary("divf", _one(r, x.type), made) if inverse else made

    return rule


def _rcp(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    x = r.word(args[0])
    return r.b.float_binary("divf", _one(r, x.type), x)


def _turns(cls: type[math.SinOp] | type[math.CosOp]) -> Rule:
    """Sine or cosine of an angle in turns."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        x = r.word(args[0])
        wide = r.b.cast("extf", x, f64) if x.type != f64 else x
        angle = r.b.float_binary("mulf", wide, r.b.const(6.283185307179586, f64))
        made = r.expanded(cls, (angle,), (f64,), f64)
        return r.b.cast("truncf", made, x.type) if x.type != f64 else made

    return rule


def _fmed3(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    a, b, c = (r.word(x) for x in args)
    low, high = r.b.float_binary("minnumf", a, b), r.b.float_binary("maxnumf", a, b)
    return r.b.float_binary("maxnumf", low, r.b.float_binary("minnumf", high, c))


def _byte(r: EmulatedInstructions, x: SSAValue, at: SSAValue) -> SSAValue:
    """Byte `at` (i64) of an i64."""
    b = r.b
    moved = b.int_binary("shrui", x, b.int_binary("shli", at, b.const(3, i64)))
    return b.int_binary("andi", moved, b.const(0xFF, i64))


def _perm(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    b = r.b
    high, low, select = (b.cast("extui", r.word(a), i64) for a in args)
    words = b.int_binary("ori", b.int_binary("shli", high, b.const(32, i64)), low)
    made = b.const(0, i64)
    for i in range(4):
        pick = _byte(r, select, b.const(i, i64))
        plain = _byte(r, words, b.int_binary("andi", pick, b.const(7, i64)))
        half = b.int_binary("shli", b.int_binary("andi", pick, b.const(3, i64)), b.const(4, i64))
        sign_at = b.int_binary("addi", half, b.const(15, i64))
        sign = b.int_binary("andi", b.int_binary("shrui", words, sign_at), b.const(1, i64))
        sign = b.int_binary("muli", sign, b.const(0xFF, i64))
        special = b.select(b.cmpi("eq", pick, b.const(12, i64)), b.const(0, i64), b.const(0xFF, i64))
        value = b.select(
            b.cmpi("ult", pick, b.const(8, i64)), plain, b.select(b.cmpi("ult", pick, b.const(12, i64)), sign, special)
        )
        made = b.int_binary("ori", made, b.int_binary("shli", value, b.const(8 * i, i64)))
    return b.cast("trunci", made, i32)


def _dot(bits: int, signs: tuple[bool, bool] | None) -> Rule:
    """Sum of products of the small integers in two words, plus a word; `None`: the literals in front of them say."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b = r.b
        if signs is None:
            first, x, second, y, total, clamp = args
            pair, left, right = (bool(r.number(first)), bool(r.number(second))), r.word(x), r.word(y)
        else:
            left, right, total, clamp = r.word(args[0]), r.word(args[1]), args[2], args[3]
            pair = signs
        if r.number(clamp):
            return cast(SSAValue, None)
        words = [b.cast("bitcast", v, i32) if v.type != i32 else v for v in (left, right)]
        found = r.word(total)
        for i in range(32 // bits):
            parts: list[SSAValue] = []
            for word, signed in zip(words, pair, strict=True):
                top = b.int_binary("shli", word, b.i32(32 - bits * (i + 1)))
                parts.append(b.int_binary("shrsi" if signed else "shrui", top, b.i32(32 - bits)))
            found = b.addi(found, b.muli(parts[0], parts[1]))
        return found

    return rule


def _fdot2(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    b, x, y, total = r.b, r.word(args[0]), r.word(args[1]), r.word(args[2])
    for i in range(2):
        left, right = (b.cast("extf", b.extract(v, i), f32) for v in (x, y))
        total = b.float_binary("addf", b.float_binary("mulf", left, right), total)
    return total


# --- conversions --------------------------------------------------------------------------------------------------


def _small(r: EmulatedInstructions, bf8: bool) -> Attribute:
    fnuz = r.arch is not None and has(r.arch, "fp8_fnuz")
    if bf8:
        return Float8E5M2FNUZType() if fnuz else Float8E5M2Type()
    return Float8E4M3FNUZType() if fnuz else Float8E4M3FNType()


def _pack_fp8(bf8: bool) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, small = r.b, _small(r, bf8)
        high = bool(r.number(args[3]))
        pair = b.i32(0)
        for i, x in enumerate(args[:2]):
            byte = r.expanded(arith.TruncFOp, (r.word(x, f32),), (f32,), small)
            byte = byte if byte.type == i8 else b.cast("bitcast", byte, i8)
            pair = b.int_binary("ori", pair, b.int_binary("shli", b.cast("extui", byte, i32), b.i32(8 * i)))
        old = r.word(args[2])
        kept = b.int_binary("andi", old, b.i32(0xFFFF if high else -0x10000))
        return b.int_binary("ori", kept, b.int_binary("shli", pair, b.i32(16)) if high else pair)

    return rule


def _fp8_at(r: EmulatedInstructions, word: SSAValue, byte: int, bf8: bool) -> SSAValue:
    b = r.b
    cell = b.cast("trunci", b.int_binary("shrui", word, b.i32(8 * byte)), i8)
    return r.expanded(arith.ExtFOp, (cell,), (_small(r, bf8),), f32)


def _unpack_fp8(bf8: bool) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        first = 2 if r.number(args[1]) else 0
        parts = [_fp8_at(r, r.word(args[0]), first + i, bf8) for i in range(2)]
        return r.b.pure(FromElementsOp, parts, vector_type(f32, 2), {})

    return rule


def _one_fp8(bf8: bool) -> Rule:
    return lambda r, args, type_: _fp8_at(r, r.word(args[0]), r.number(args[1]), bf8)


def _pkrtz(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Two f32 as f16, toward zero: what was rounded away from it is one step too far."""
    b, parts = r.b, list[SSAValue]()
    i16 = IntegerType(16)
    for x in args:
        value = r.word(x, f32)
        near = b.cast("truncf", value, f16)
        sizes = [r.expanded(math.AbsFOp, (v,), (f32,), f32) for v in (b.cast("extf", near, f32), value)]
        bits = b.cast("bitcast", near, i16)
        less = b.int_binary("subi", bits, b.const(1, i16))
        parts.append(b.cast("bitcast", b.select(b.cmpf("ogt", sizes[0], sizes[1]), less, bits), f16))
    return b.pure(FromElementsOp, parts, vector_type(f16, 2), {})


# --- matrices -----------------------------------------------------------------------------------------------------

_MFMA = re.compile(r"(f32|i32|f64)\.(\d+)x(\d+)x(\d+)\.?(xf32|f32|f16|bf16|i8|f64|fp8|bf8)(?:\.(1k|fp8|bf8))?")
_INPUTS: dict[str, Attribute] = {"f32": f32, "xf32": f32, "f16": f16, "bf16": bf16, "i8": i8, "f64": f64}
_RESULTS: dict[str, Attribute] = {"f32": f32, "i32": i32, "f64": f64}


def _mfma(name: str) -> Rule | None:
    """`D = A * B + C` of a wave, by the model of the atoms."""
    found = _MFMA.fullmatch(name)
    if found is None:
        return None
    acc, m, n, k, first, second = found.groups()
    words = (first, second if second in ("fp8", "bf8") else first)

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue | None:
        if any(r.number(a) for a in args[3:]):
            return None
        elems = [_INPUTS.get(w) or _small(r, w == "bf8") for w in words] + [_RESULTS[acc]]
        atom = MfmaType.make(int(m), int(n), int(k), *elems)
        counts = [int(m) * int(k) // 64, int(n) * int(k) // 64, int(m) * int(n) // 64]
        given = [_as_elements(r, r.word(x), elem, count) for x, elem, count in zip(args, elems, counts, strict=False)]
        d = value_operands.operand(vector_type(elems[2], counts[2]) if counts[2] > 1 else elems[2], None)
        r.call_mma(atom, d, *given)
        return value_operands.value_of(d, r.b)

    return rule


def _as_elements(r: EmulatedInstructions, value: SSAValue, elem: Attribute, count: int) -> Operand:
    """An operand in registers, whose bits are elements of this type."""
    held: Attribute = value.type
    total = bit_width(held)
    if total != bit_width(elem) * count:
        raise ValueError(f"an operand of {held} where {count} elements of {elem} are expected")
    type_ = vector_type(elem, count) if count > 1 else elem
    if held != type_:
        value = r.expanded(arith.BitcastOp, (value,), (held,), type_) if count == 1 else r.bits_as(value, elem, count)
    return value_operands.operand(type_, value)


RULES: dict[str, Rule] = {
    **{
        name: _nothing
        for name in (
            "s.waitcnt", "s.nop", "s.sleep", "s.setprio", "sched.barrier", "sched.group.barrier", "iglp.opt",
            "wave.barrier", "asyncmark", "wait.asyncmark", "s.barrier.signal", "global.prefetch", "flat.prefetch",
            "s.wait.loadcnt", "s.wait.storecnt", "s.wait.dscnt", "s.wait.kmcnt", "s.wait.expcnt", "s.wait.tensorcnt",
            "s.wait.asynccnt", "s.wait.samplecnt", "s.wait.bvhcnt", "s.wait.loadcnt.dscnt", "s.wait.storecnt.dscnt",
        )
    },
    **{f"workitem.id.{d}": _id(ThreadIdOp, d) for d in "xyz"},
    **{f"workgroup.id.{d}": _id(BlockIdOp, d) for d in "xyz"},
    "s.barrier": _barrier,
    "s.barrier.wait": _barrier,
    "readfirstlane": _readfirstlane,
    "readlane": _readlane,
    "ds.bpermute": _bpermute,
    "ds_bpermute": _bpermute,
    "ds.swizzle": _swizzle,
    "ds_swizzle": _swizzle,
    "mov.dpp": _mov_dpp,
    "update.dpp": _update_dpp,
    "mbcnt.lo": _mbcnt(0),
    "mbcnt.hi": _mbcnt(32),
    "ballot": _ballot,
    "wavefrontsize": lambda r, args, type_: r.b.i32(r.warp_size()),
    "make.buffer.rsrc": _make_rsrc,
    "raw.ptr.buffer.load": _buffer_load,
    "raw.ptr.buffer.store": _buffer_store,
    **{f"raw.ptr.buffer.atomic.{kind}": _buffer_atomic(kind) for kind in _BINARY},
    "raw.ptr.buffer.load.lds": _load_lds,
    "raw.ptr.buffer.load.async.lds": _load_lds,
    "global.load.lds": _global_load_lds,
    "global.load.async.lds": _global_load_lds,
    "exp2": _unary(math.Exp2Op),
    "log": _unary(math.Log2Op),
    "sqrt": _unary(math.SqrtOp),
    "rsq": _unary(math.SqrtOp, inverse=True),
    "rcp": _rcp,
    "sin": _turns(math.SinOp),
    "cos": _turns(math.CosOp),
    "fmed3": _fmed3,
    "perm": _perm,
    "sdot4": _dot(8, (True, True)),
    "udot4": _dot(8, (False, False)),
    "sdot8": _dot(4, (True, True)),
    "udot8": _dot(4, (False, False)),
    "sdot2": _dot(16, (True, True)),
    "udot2": _dot(16, (False, False)),
    "sudot4": _dot(8, None),
    "sudot8": _dot(4, None),
    "fdot2": _fdot2,
    "cvt.pk.fp8.f32": _pack_fp8(False),
    "cvt.pk.bf8.f32": _pack_fp8(True),
    "cvt.pk.f32.fp8": _unpack_fp8(False),
    "cvt.pk.f32.bf8": _unpack_fp8(True),
    "cvt.f32.fp8": _one_fp8(False),
    "cvt.f32.bf8": _one_fp8(True),
    "cvt.pkrtz": _pkrtz,
}  # fmt: skip
"""The meaning of each intrinsic."""


def rule_of(name: str) -> Rule | None:
    """The meaning of an intrinsic of AMD's; the names of types at its end do not matter."""
    name = name.removeprefix("llvm.amdgcn.")
    if name.startswith("mfma."):
        return _mfma(name.removeprefix("mfma."))
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        found = RULES.get(".".join(parts[:end]))
        if found is not None:
            return found
    return None


IGNORED = {
    "s_waitcnt", "s_nop", "s_sleep", "s_setprio", "s_waitcnt_vscnt", "s_waitcnt_depctr", "s_delay_alu", "s_icache_inv",
    "buffer_wbl2", "buffer_inv", "buffer_gl0_inv", "buffer_gl1_inv", "s_wait_loadcnt", "s_wait_storecnt",
    "s_wait_dscnt", "s_wait_kmcnt", "s_wait_tensorcnt", "s_wait_asynccnt", "s_wait_alu", "s_sched_barrier",
}  # fmt: skip
"""Assembly that waits, hints or moves data between caches."""


def _two(name: str) -> Rule:
    return lambda r, args, type_: r.b.int_binary(name, r.word(args[0]), r.word(args[1]))


def _floats(name: str) -> Rule:
    return lambda r, args, type_: r.b.float_binary(name, r.word(args[0], f32), r.word(args[1], f32))


def _shifted(name: str) -> Rule:
    """`v_lshlrev_b32 $0, count, value`."""
    return lambda r, args, type_: r.b.int_binary(
        name, r.word(args[1]), r.b.int_binary("andi", r.word(args[0]), r.b.i32(31))
    )


def _fma(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    values = [r.word(a, f32) for a in args]
    return r.expanded(math.FmaOp, values, [f32] * 3, f32)


def _three(first: str, second: str) -> Rule:
    return lambda r, args, type_: r.b.int_binary(
        second, r.b.int_binary(first, r.word(args[0]), r.word(args[1])), r.word(args[2])
    )


def _copied(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return r.word(args[0], cast(Attribute, type_))


def _packed_bf16(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """`v_cvt_pk_bf16_f32`: two f32, rounded to nearest, in one word."""
    b, parts = r.b, list[SSAValue]()
    for x in args:
        half = r.expanded(arith.TruncFOp, (r.word(x, f32),), (f32,), bf16)
        bits = half if half.type == IntegerType(16) else b.cast("bitcast", half, IntegerType(16))
        parts.append(b.cast("extui", bits, i32))
    made = b.int_binary("ori", parts[0], b.int_binary("shli", parts[1], b.i32(16)))
    return (
        made
        if type_ == i32
        else r.bits_as(made, elem_of(cast(Attribute, type_)), 32 // bit_width(elem_of(cast(Attribute, type_))))
    )


ASSEMBLY: dict[str, Rule] = {
    "s_barrier": _barrier,
    "v_mov_b32": _copied,
    "v_mov_b32_e32": _copied,
    "s_mov_b32": _copied,
    "v_add_u32": _two("addi"),
    "v_add_u32_e32": _two("addi"),
    "v_sub_u32": _two("subi"),
    "v_and_b32": _two("andi"),
    "v_or_b32": _two("ori"),
    "v_xor_b32": _two("xori"),
    "v_mul_lo_u32": _two("muli"),
    "v_lshlrev_b32": _shifted("shli"),
    "v_lshrrev_b32": _shifted("shrui"),
    "v_ashrrev_i32": _shifted("shrsi"),
    "v_add_f32": _floats("addf"),
    "v_sub_f32": _floats("subf"),
    "v_mul_f32": _floats("mulf"),
    "v_max_f32": _floats("maxnumf"),
    "v_min_f32": _floats("minnumf"),
    "v_fma_f32": _fma,
    "v_and_or_b32": _three("andi", "ori"),
    "v_or3_b32": _three("ori", "ori"),
    "v_add3_u32": _three("addi", "addi"),
    "v_lshl_add_u32": _three("shli", "addi"),
    "v_lshl_or_b32": _three("shli", "ori"),
    "v_perm_b32": _perm,
    "v_exp_f32": RULES["exp2"],
    "v_log_f32": RULES["log"],
    "v_rcp_f32": RULES["rcp"],
    "v_rsq_f32": RULES["rsq"],
    "v_sqrt_f32": RULES["sqrt"],
    "v_med3_f32": RULES["fmed3"],
    "v_cvt_pk_bf16_f32": _packed_bf16,
}
"""The meaning of lines of assembly with one result in front and operands behind it."""

__all__ = ["ASSEMBLY", "IGNORED", "RULES", "Arg", "Rule", "rule_of"]
