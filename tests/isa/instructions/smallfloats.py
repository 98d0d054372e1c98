"""Conversions between floats of 32 or 16 bits and those of 8, 6 and 4."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..decode import MAKERS, Context, Step, instruction
from ..errors import IsaError
from ..operands import Array, Operand, reader, writer
from ..text import Instruction
from ..wave import Wave
from . import floats
from .valu import sdwa_source

F32 = NDArray[np.float32]

_OCP: dict[str, Any] = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}
_FNUZ: dict[str, Any] = {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz}
_LESS: dict[str, Any] = {
    "fp6": ml_dtypes.float6_e2m3fn,
    "bf6": ml_dtypes.float6_e3m2fn,
    "fp4": ml_dtypes.float4_e2m1fn,
}
BITS = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}


def type_of(name: str, arch: str) -> Any:
    """The format that an architecture means by a name."""
    if name in _LESS:
        return _LESS[name]
    return (_FNUZ if arch in ("gfx940", "gfx941", "gfx942") else _OCP)[name]


@cache
def table(name: str, arch: str) -> F32:
    """Bits -> number."""
    count = 1 << BITS[name]
    return np.arange(count, dtype=np.uint8).view(type_of(name, arch)).astype(np.float32)


def decode(bits: Array, name: str, arch: str) -> F32:
    return table(name, arch)[np.asarray(bits, np.int64) & (1 << BITS[name]) - 1]


def encode(x: Array, name: str, arch: str) -> NDArray[np.uint8]:
    """To the nearest, ties to even; what is too large becomes what the format has for it."""
    return np.asarray(x, np.float32).astype(type_of(name, arch)).view(np.uint8)


def saturate(x: Array, name: str, arch: str) -> F32:
    top = np.nanmax(np.where(np.isfinite(table(name, arch)), table(name, arch), 0))
    return np.clip(np.asarray(x, np.float32), -top, top)


# --- eight bits -------------------------------------------------------------------------------------------------------


@instruction("v_cvt_f32_fp8", "v_cvt_f32_bf8")
def one_byte(inst: Instruction, ctx: Context) -> Step:
    target, source = ctx.operands(inst)
    name, write = inst.mnemonic[-3:], writer(target, "f32")
    select = inst.modifiers.get("src0_sel", "BYTE_0")
    if "byte_sel" in inst.modifiers:
        select = f"BYTE_{inst.number('byte_sel')}"
    elif "op_sel" in inst.modifiers:
        low, high = inst.bits("op_sel", 2, 0)[:2]
        select = f"BYTE_{low + 2 * high}" if ctx.family == "gfx9" else f"BYTE_{2 * low + high}"
    read = sdwa_source(source, "u32", select)
    return lambda w: write(w, decode(read(w), name, ctx.arch), w.mask)


@instruction("v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8")
def two_bytes(inst: Instruction, ctx: Context) -> Step:
    target, source = ctx.operands(inst)
    name = inst.mnemonic[-3:]
    high = inst.modifiers.get("src0_sel") == "WORD_1" or bool(inst.bits("op_sel", 1, 0)[0]) or source.half == "h"
    read = sdwa_source(Operand(source.kind, source.index, text=source.text), "u32", "WORD_1" if high else "WORD_0")
    writes = [writer(Operand("v", target.index + at), "f32") for at in range(2)]

    def step(w: Wave) -> None:
        word = read(w)
        for at, write in enumerate(writes):
            write(w, decode(word >> np.uint32(8 * at) & np.uint32(255), name, ctx.arch), w.mask)

    return step


@instruction("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32")
def to_two_bytes(inst: Instruction, ctx: Context) -> Step:
    target, a, b = ctx.operands(inst)
    name = inst.mnemonic.split("_")[3]
    left, right = reader(a, "f32"), reader(b, "f32")
    write = writer(target, "u16", high=bool(inst.bits("op_sel", 3, 0)[-1]))

    def step(w: Wave) -> None:
        low, high = (encode(read(w), name, ctx.arch).astype(np.uint16) for read in (left, right))
        write(w, low | high << np.uint16(8), w.mask)

    return step


# --- with a scale -----------------------------------------------------------------------------------------------------


def _scale(read: Any, w: Wave) -> Array:
    """A power of two: the exponent of a float."""
    bits = np.broadcast_to(read(w), (w.lanes,)) >> np.uint32(23) & np.uint32(255)
    return np.ldexp(np.ones(w.lanes), bits.astype(np.int64) - 127)


def _wide(w: Wave, operand: Operand, kind: str, count: int) -> NDArray[np.float64]:
    """`count` numbers of 32 or 16 bits from registers, by lane."""
    words = count if kind == "f32" else count // 2
    raw = np.ascontiguousarray(w.v[operand.index : operand.index + words].T)
    if kind == "f32":
        return raw.view(np.float32).astype(np.float64)
    if kind == "f16":
        return raw.view(np.float16).astype(np.float64)
    return floats.bf16_to_f32(raw.view(np.uint16)).astype(np.float64)


def _put_wide(w: Wave, target: Operand, kind: str, values: Array) -> None:
    if kind == "f32":
        raw = values.astype(np.float32).view(np.uint32)
    elif kind == "f16":
        raw = values.astype(np.float16).view(np.uint32)
    else:
        raw = floats.f32_to_bf16(values.astype(np.float32)).view(np.uint32)
    for at in range(raw.shape[1]):
        np.copyto(w.v[target.index + at], raw[:, at], where=w.mask)


def unpack(words: NDArray[np.uint32], bits: int, count: int) -> NDArray[np.uint32]:
    """Numbers of some bits that lie behind each other, from lanes by words."""
    flat = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little")
    parts = flat[:, : count * bits].reshape(len(words), count, bits).astype(np.uint32)
    return (parts << np.arange(bits, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)


def pack(values: NDArray[np.uint8], bits: int) -> NDArray[np.uint32]:
    flat = np.unpackbits(values[:, :, None], axis=2, bitorder="little")[:, :, :bits].reshape(len(values), -1)
    return np.packbits(flat, axis=1, bitorder="little").view(np.uint32)


_SCALED = re.compile(
    r"v_cvt_scalef32_pk(|8|16|32)_(f32|f16|bf16|fp8|bf8|fp6|bf6|fp4)_(f32|f16|bf16|fp8|bf8|fp6|bf6|fp4)"
)


def _scaled(inst: Instruction, ctx: Context) -> Step:
    match = _SCALED.fullmatch(inst.mnemonic)
    if match is None:
        raise IsaError("a scaled conversion")
    count = int(match[1] or 2)
    return (
        _scaled_up(inst, ctx, count, match[2], match[3])
        if match[3] in BITS
        else _scaled_down(inst, ctx, count, match[2], match[3])
    )


def _scaled_up(inst: Instruction, ctx: Context, count: int, kind: str, name: str) -> Step:
    target, source, scale = ctx.operands(inst)
    by = reader(scale, "u32")
    width = BITS[name] * count
    select = inst.bits("op_sel", 2, 0)
    part = select[0] + 2 * select[1] if width == 8 else select[0] if width == 16 else 0

    def step(w: Wave) -> None:
        words = w.v[source.index : source.index + max(1, width // 32)].T
        if width < 32:
            words = words >> np.uint32(width * part)
        values = decode(unpack(words, BITS[name], count), name, ctx.arch).astype(np.float64)
        _put_wide(w, target, kind, values * _scale(by, w)[:, None])

    return step


def _scaled_down(inst: Instruction, ctx: Context, count: int, name: str, kind: str) -> Step:
    target, *sources, scale = ctx.operands(inst)
    by = reader(scale, "u32")
    width = BITS[name] * count
    select = [*inst.bits("op_sel", 4, 0), 0, 0, 0, 0][:4] if "op_sel" in inst.modifiers else [0] * 4
    part = select[2] + 2 * select[3] if width == 8 else (select[3] or select[2]) if width == 16 else 0

    def step(w: Wave) -> None:
        each = count // len(sources)
        if each == 1:
            columns = [np.broadcast_to(reader(o, "f32")(w), (w.lanes,)).astype(np.float64)[:, None] for o in sources]
        else:
            columns = [_wide(w, o, kind, each) for o in sources]
        values = np.concatenate(columns, axis=1) / _scale(by, w)[:, None]
        words = encode(saturate(values, name, ctx.arch), name, ctx.arch)
        if width >= 32:
            packed = pack(words, BITS[name])
            for at in range(packed.shape[1]):
                np.copyto(w.v[target.index + at], packed[:, at], where=w.mask)
            return
        small = pack(
            np.concatenate([words, np.zeros((w.lanes, 32 // BITS[name] - count), np.uint8)], axis=1), BITS[name]
        )
        keep = np.uint32(~(((1 << width) - 1) << width * part) & 0xFFFFFFFF)
        old = w.v[target.index]
        np.copyto(old, old & keep | small[:, 0] << np.uint32(width * part), where=w.mask)

    return step


for _count in ("", "8", "16", "32"):
    for _a in (*BITS, "f32", "f16", "bf16"):
        for _b in (*BITS, "f32", "f16", "bf16"):
            MAKERS[f"v_cvt_scalef32_pk{_count}_{_a}_{_b}"] = _scaled
