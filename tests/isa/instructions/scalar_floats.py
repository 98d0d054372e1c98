"""Scalar instructions on numbers with a point, from gfx11 on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..decode import Context, Step, instruction
from ..operands import Array, read_scalar, reader, write_scalar
from ..text import Instruction
from ..wave import Wave
from . import floats

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": np.fmin,
    "max": np.fmax,
    "min_num": np.fmin,
    "max_num": np.fmax,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "rndne": np.rint,
    "fmac": floats.fma32,
    "fmaak": floats.fma32,
    "fmamk": floats.fma32,
}
_KINDS: dict[str, Any] = {"f32": np.float32, "f16": np.float16}


@instruction(*(f"s_{name}_{kind}" for name in _FUNCTIONS for kind in _KINDS))
def arithmetic(inst: Instruction, ctx: Context) -> Step:
    name, _, kind = inst.mnemonic.removeprefix("s_").rpartition("_")
    function = floats.fma16 if kind == "f16" and name.startswith("fma") else _FUNCTIONS[name]
    target, *sources = ctx.operands(inst)
    if name == "fmac":
        sources.append(target)
    reads = [reader(operand, kind) for operand in sources]
    write = write_scalar(target)
    bits: Any = np.uint32 if kind == "f32" else np.uint16
    return lambda w: write(w, int(_KINDS[kind](function(*[read(w) for read in reads])).view(bits)))


_LONE: dict[str, Callable[[Array], Array]] = {
    "exp": floats.exp2,
    "log": floats.log2,
    "rcp": floats.rcp,
    "rsq": floats.rsq,
    "sqrt": floats.sqrt,
}


@instruction(*(f"v_s_{name}_{kind}" for name in _LONE for kind in _KINDS))
def of_the_vector_unit(inst: Instruction, ctx: Context) -> Step:
    """A function that the vector unit has, on one number."""
    name, kind = inst.mnemonic.split("_")[-2:]
    target, source = ctx.operands(inst)
    write, read = write_scalar(target), reader(source, kind)
    bits: Any = np.uint32 if kind == "f32" else np.uint16
    return lambda w: write(w, int(_KINDS[kind](_LONE[name](np.float32(read(w)))).view(bits)))  # pyright: ignore[reportArgumentType]


_COMPARE: dict[str, Callable[[Array, Array], Any]] = {
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lg": lambda a, b: (a < b) | (a > b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "nle": lambda a, b: ~(a <= b),
    "ngt": lambda a, b: ~(a > b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
}


@instruction(*(f"s_cmp_{name}_{kind}" for name in _COMPARE for kind in _KINDS))
def compare(inst: Instruction, ctx: Context) -> Step:
    name, kind = inst.mnemonic.split("_")[-2:]
    function = _COMPARE[name]
    left, right = (reader(operand, kind) for operand in ctx.operands(inst))

    def step(w: Wave) -> None:
        w.scc = int(bool(np.asarray(function(left(w), right(w)))))

    return step


@instruction("s_cvt_f32_i32", "s_cvt_f32_u32")
def from_whole(inst: Instruction, ctx: Context) -> Step:
    target, source = ctx.operands(inst)
    write, read = write_scalar(target), reader(source, inst.mnemonic[-3:])
    return lambda w: write(w, int(np.float32(read(w)).view(np.uint32)))


@instruction("s_cvt_i32_f32", "s_cvt_u32_f32")
def to_whole(inst: Instruction, ctx: Context) -> Step:
    target, source = ctx.operands(inst)
    write, read = write_scalar(target), reader(source, "f32")
    limits = (-(1 << 31), (1 << 31) - 1) if "_i32_" in inst.mnemonic else (0, (1 << 32) - 1)
    convert = floats.to_int(*limits, np.int64)
    return lambda w: write(w, int(convert(read(w))) & 0xFFFFFFFF)


@instruction("s_cvt_f16_f32", "s_cvt_f32_f16", "s_cvt_hi_f32_f16")
def other_width(inst: Instruction, ctx: Context) -> Step:
    target, source = ctx.operands(inst)
    write = write_scalar(target)
    if inst.mnemonic == "s_cvt_f16_f32":
        wide = reader(source, "f32")
        return lambda w: write(w, int(np.float16(wide(w)).view(np.uint16)))
    half = reader(source, "f16", "_hi_" in inst.mnemonic)
    return lambda w: write(w, int(np.float32(half(w)).view(np.uint32)))


@instruction("s_cvt_pk_rtz_f16_f32")
def two_halves(inst: Instruction, ctx: Context) -> Step:
    target, a, b = ctx.operands(inst)
    write, left, right = write_scalar(target), read_scalar(a), read_scalar(b)

    def half(bits: int) -> int:
        cut = floats.toward_zero16(np.array([bits], np.uint32).view(np.float32))
        return int(cut.view(np.uint16)[0])

    return lambda w: write(w, half(left(w)) | half(right(w)) << 16)
