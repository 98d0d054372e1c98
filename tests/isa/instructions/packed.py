"""Vector instructions on several small numbers in a register, and those that put such registers together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..decode import Context, Step, instruction
from ..errors import IsaError
from ..operands import DTYPES, Array, Operand, Read, reader, writer
from ..text import Instruction
from ..wave import Wave
from . import floats
from .valu import Function, vector

# --- two halves -------------------------------------------------------------------------------------------------------


def _shift(function: Any) -> Function:
    return lambda n, x: function(np.asarray(x), (np.asarray(n) & np.asarray(n).dtype.type(15)))


def _bf16(function: Any) -> Function:
    return lambda *given: floats.f32_to_bf16(function(*(floats.bf16_to_f32(x) for x in given)))


_HALVES: dict[str, tuple[str, int, Function]] = {
    "add_f16": ("f16", 2, np.add),
    "mul_f16": ("f16", 2, np.multiply),
    "fma_f16": ("f16", 3, floats.fma16),
    "min_f16": ("f16", 2, floats.fmin),
    "max_f16": ("f16", 2, floats.fmax),
    "min_num_f16": ("f16", 2, floats.fmin),
    "max_num_f16": ("f16", 2, floats.fmax),
    "minimum_f16": ("f16", 2, floats.minimum),
    "maximum_f16": ("f16", 2, floats.maximum),
    "min3_num_f16": ("f16", 3, lambda a, b, c: floats.fmin(floats.fmin(a, b), c)),
    "max3_num_f16": ("f16", 3, lambda a, b, c: floats.fmax(floats.fmax(a, b), c)),
    "minimum3_f16": ("f16", 3, lambda a, b, c: floats.minimum(floats.minimum(a, b), c)),
    "maximum3_f16": ("f16", 3, lambda a, b, c: floats.maximum(floats.maximum(a, b), c)),
    "add_bf16": ("bf16", 2, _bf16(np.add)),
    "mul_bf16": ("bf16", 2, _bf16(np.multiply)),
    "fma_bf16": ("bf16", 3, _bf16(floats.fma32)),
    "min_num_bf16": ("bf16", 2, _bf16(floats.fmin)),
    "max_num_bf16": ("bf16", 2, _bf16(floats.fmax)),
    "add_u16": ("u16", 2, np.add),
    "sub_u16": ("u16", 2, np.subtract),
    "add_i16": ("u16", 2, np.add),
    "sub_i16": ("u16", 2, np.subtract),
    "mul_lo_u16": ("u16", 2, np.multiply),
    "mad_u16": ("u16", 3, lambda a, b, c: a * b + c),
    "mad_i16": ("u16", 3, lambda a, b, c: a * b + c),
    "min_u16": ("u16", 2, np.minimum),
    "max_u16": ("u16", 2, np.maximum),
    "min_i16": ("i16", 2, np.minimum),
    "max_i16": ("i16", 2, np.maximum),
    "lshlrev_b16": ("u16", 2, _shift(np.left_shift)),
    "lshrrev_b16": ("u16", 2, _shift(np.right_shift)),
    "ashrrev_i16": ("i16", 2, _shift(np.right_shift)),
}


def _signs(read: Read, flip: int, kind: str) -> Read:
    if not flip:
        return read
    if kind == "bf16":
        return lambda w: read(w) ^ np.uint16(0x8000)
    if kind[0] != "f":
        raise IsaError("the sign of a whole number")
    return lambda w: -read(w)


@instruction(*(f"v_pk_{name}" for name in _HALVES))
def halves(inst: Instruction, ctx: Context) -> Step:
    kind, count, function = _HALVES[inst.mnemonic.removeprefix("v_pk_")]
    target, *sources = ctx.operands(inst)
    if len(sources) != count or "clamp" in inst.modifiers:
        raise IsaError("its operands")
    made: list[tuple[list[Read], Any]] = []
    for high, (select, default, sign) in enumerate((("op_sel", 0, "neg_lo"), ("op_sel_hi", 1, "neg_hi"))):
        chosen, flips = inst.bits(select, count, default), inst.bits(sign, count, 0)
        reads = [_signs(_half(o, kind, bool(c)), f, kind) for o, c, f in zip(sources, chosen, flips, strict=True)]
        made.append((reads, writer(target, kind, high=bool(high))))

    def step(w: Wave) -> None:
        results = [function(*[read(w) for read in reads]) for reads, _ in made]
        for (_, write), result in zip(made, results, strict=True):
            write(w, result, w.mask)

    return step


def _half(operand: Operand, kind: str, high: bool) -> Read:
    """A half of a source; a constant is a float of the lower half, or a whole word if it is written as one."""
    return reader(operand, kind, high)


_PAIRS: dict[str, tuple[int, Function]] = {
    "add_f32": (2, np.add),
    "mul_f32": (2, np.multiply),
    "fma_f32": (3, floats.fma32),
}


@instruction(*(f"v_pk_{name}" for name in _PAIRS))
def pairs(inst: Instruction, ctx: Context) -> Step:
    count, function = _PAIRS[inst.mnemonic.removeprefix("v_pk_")]
    target, *sources = ctx.operands(inst)
    if len(sources) != count:
        raise IsaError("its operands")
    made: list[list[Read]] = []
    for select, default, sign in (("op_sel", 0, "neg_lo"), ("op_sel_hi", 1, "neg_hi")):
        chosen, flips = inst.bits(select, count, default), inst.bits(sign, count, 0)
        made.append([_signs(_word(o, c), f, "f32") for o, c, f in zip(sources, chosen, flips, strict=True)])
    writes = [writer(Operand("v", target.index + at), "f32") for at in range(2)]

    def step(w: Wave) -> None:
        results = [function(*[read(w) for read in reads]) for reads in made]
        for write, result in zip(writes, results, strict=True):
            write(w, result, w.mask)

    return step


def _word(operand: Operand, which: int, kind: str = "f32") -> Read:
    if operand.kind == "c":
        if which and operand.text != "0":  # whether it is there twice or once is not said
            raise IsaError(f"the upper half of the constant {operand.text}")
        return reader(operand, kind)
    return reader(Operand(operand.kind, operand.index + which, 1), kind)


@instruction("v_pk_mov_b32")
def move_pair(inst: Instruction, ctx: Context) -> Step:
    target, a, b = ctx.operands(inst)
    chosen = inst.bits("op_sel", 2, 0)
    reads = [_word(a, chosen[0], "u32"), _word(b, chosen[1], "u32")]

    def step(w: Wave) -> None:
        results = [np.array(read(w)) for read in reads]
        for at, result in enumerate(results):
            np.copyto(w.v[target.index + at], result, where=w.mask)

    return step


# --- sources of mixed types -------------------------------------------------------------------------------------------


@instruction(
    *("v_mad_mix_f32", "v_fma_mix_f32", "v_mad_mixlo_f16", "v_mad_mixhi_f16", "v_fma_mixlo_f16", "v_fma_mixhi_f16"),
    *("v_fma_mix_f32_bf16", "v_fma_mixlo_bf16", "v_fma_mixhi_bf16"),
)
def mixed(inst: Instruction, ctx: Context) -> Step:
    target, *sources = ctx.operands(inst)
    small = "bf16" if "bf16" in inst.mnemonic else "f16"
    chosen, halves_of = inst.bits("op_sel", 3, 0), inst.bits("op_sel_hi", 3, 0)
    reads: list[Read] = []
    for operand, high, is_half in zip(sources, chosen, halves_of, strict=True):
        if not is_half:
            reads.append(reader(operand, "f32"))
            continue
        half = reader(operand, small, bool(high))
        reads.append(
            (lambda w, r=half: floats.bf16_to_f32(r(w)))
            if small == "bf16"
            else (lambda w, r=half: np.asarray(r(w), np.float32))
        )
    if "clamp" in inst.modifiers:
        raise IsaError("clamp")
    kind = "f32" if "_mix_f32" in inst.mnemonic else small
    write = writer(target, kind, high="mixhi" in inst.mnemonic)

    def step(w: Wave) -> None:
        value = floats.fma32(*[read(w) for read in reads])
        if kind == "f16":
            value = value.astype(np.float16)
        elif kind == "bf16":
            value = floats.f32_to_bf16(value)
        write(w, value, w.mask)

    return step


# --- products of parts ------------------------------------------------------------------------------------------------


def _parts(operand: Operand, kind: str, signed: bool = True) -> Read:
    """All small numbers of a register, by lane: an array of lanes by parts."""
    read = reader(Operand(operand.kind, operand.index, 1, text=operand.text), "u32")

    def get(w: Wave) -> Array:
        word = np.ascontiguousarray(np.broadcast_to(read(w), (w.lanes,)))
        if kind == "f16":
            return word.view(np.float16).reshape(w.lanes, 2).astype(np.float64)
        if kind == "bf16":
            return floats.bf16_to_f32(word.view(np.uint16)).reshape(w.lanes, 2).astype(np.float64)
        if kind == "8":
            return word.view(np.int8 if signed else np.uint8).reshape(w.lanes, 4).astype(np.int64)
        nibbles = word[:, None] >> (4 * np.arange(8, dtype=np.uint32)) & np.uint32(15)
        return np.where(signed & (nibbles > 7), nibbles.astype(np.int64) - 16, nibbles.astype(np.int64))

    return get


_DOTS = {
    **{"v_dot2_f32_f16": ("f16", "f32"), "v_dot2c_f32_f16": ("f16", "f32"), "v_dot2_f32_bf16": ("bf16", "f32")},
    **{"v_dot2acc_f32_f16": ("f16", "f32"), "v_dot2c_f32_bf16": ("bf16", "f32")},
    **{"v_dot4_i32_i8": ("8", "i32"), "v_dot4c_i32_i8": ("8", "i32"), "v_dot4_u32_u8": ("8u", "u32")},
    **{"v_dot4_i32_iu8": ("8", "i32"), "v_dot8_i32_i4": ("4", "i32"), "v_dot8_u32_u4": ("4u", "u32")},
    **{"v_dot8_i32_iu4": ("4", "i32"), "v_dot8c_i32_i4": ("4", "i32")},
}


@instruction(*_DOTS)
def dot(inst: Instruction, ctx: Context) -> Step:
    kind, result = _DOTS[inst.mnemonic]
    target, *sources = ctx.operands(inst)
    if len(sources) == 2:
        sources.append(target)
    signs = [kind[-1] != "u"] * 2
    if "_iu" in inst.mnemonic:
        signs = [bool(bit) for bit in inst.bits("neg_lo", 3, 0)[:2]]
    elif any(name in inst.modifiers for name in ("neg_lo", "neg_hi", "op_sel", "op_sel_hi", "clamp")):
        raise IsaError("its modifiers")
    left, right = (_parts(o, kind.rstrip("u"), s) for o, s in zip(sources[:2], signs, strict=True))
    more, write = reader(sources[2], result), writer(target, result)

    def step(w: Wave) -> None:
        total = (left(w) * right(w)).sum(axis=1)
        if result == "f32":
            write(w, (total + more(w)).astype(np.float32), w.mask)
        else:
            write(w, (total + np.asarray(more(w), np.int64)).astype(DTYPES[result]), w.mask)

    return step


# --- putting together -------------------------------------------------------------------------------------------------


def _join(low: Array, high: Array) -> Array:
    low, high = np.broadcast_arrays(np.asarray(low), np.asarray(high))
    return low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << np.uint32(16)


def _clipped(low: int, high: int, dtype: Any) -> Any:
    return lambda x: np.clip(np.asarray(x, np.int64), low, high).astype(dtype)


_short, _ushort = _clipped(-(1 << 15), (1 << 15) - 1, np.int16), _clipped(0, (1 << 16) - 1, np.uint16)
_JOINS: dict[str, tuple[str, Function]] = {
    "v_cvt_pkrtz_f16_f32": ("f32", floats.toward_zero16),
    "v_cvt_pk_rtz_f16_f32": ("f32", floats.toward_zero16),
    "v_cvt_pk_f16_f32": ("f32", lambda x: np.asarray(x, np.float16)),
    "v_cvt_pk_bf16_f32": ("f32", floats.f32_to_bf16),
    "v_cvt_pk_i16_i32": ("i32", _short),
    "v_cvt_pk_u16_u32": ("u32", _ushort),
    "v_cvt_pk_i16_f32": ("f32", floats.to_int(-(1 << 15), (1 << 15) - 1, np.int16)),
    "v_cvt_pk_u16_f32": ("f32", floats.to_int(0, (1 << 16) - 1, np.uint16)),
    "v_pack_b32_f16": ("u16", lambda x: x),
}


@instruction(*_JOINS)
def join(inst: Instruction, ctx: Context) -> Step:
    kind, function = _JOINS[inst.mnemonic]
    if kind != "u16":
        return vector(inst, ctx, "u32", [kind, kind], lambda a, b: _join(function(a), function(b)))
    target, a, b = ctx.operands(inst)
    chosen = inst.bits("op_sel", 3, 0)
    left, right = reader(a, "u16", bool(chosen[0])), reader(b, "u16", bool(chosen[1]))
    write = writer(target, "u32")
    return lambda w: write(w, _join(left(w), right(w)), w.mask)


@instruction("v_cvt_pk_u8_f32")
def byte_into_word(inst: Instruction, ctx: Context) -> Step:
    convert = floats.to_int(0, 255, np.uint32)

    def run(x: Array, which: Array, word: Array) -> Array:
        at = (np.asarray(which, np.uint32) & np.uint32(3)) * np.uint32(8)
        return np.asarray(word) & ~(np.uint32(255) << at) | convert(np.rint(x)) << at

    return vector(inst, ctx, "u32", ["f32", "u32", "u32"], run)
