"""Vector arithmetic on floating-point numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..decode import Context, Step, instruction
from ..operands import Array, reader
from ..text import Instruction
from ..wave import VCC, Mask, Wave
from . import floats
from .valu import Function, target_of, types_of, vector

Row = tuple[str, str, Function]
FMA = {"f32": floats.fma32, "f64": floats.fma64, "f16": floats.fma16}


def _wide(function: Function) -> Function:
    """On f16: in float32, then rounded."""
    return lambda *sources: function(*[np.asarray(x, np.float32) for x in sources]).astype(np.float16)


def _arithmetic(kind: str) -> dict[str, Row]:
    two = f"{kind} {kind}"
    three = f"{two} {kind}"
    rows: dict[str, Row] = {
        "add": (kind, two, np.add),
        "sub": (kind, two, np.subtract),
        "subrev": (kind, two, lambda a, b: b - a),
        "mul": (kind, two, np.multiply),
        "min": (kind, two, floats.fmin),
        "max": (kind, two, floats.fmax),
        "min_num": (kind, two, floats.fmin),
        "max_num": (kind, two, floats.fmax),
        "minimum": (kind, two, floats.minimum),
        "maximum": (kind, two, floats.maximum),
        "fma": (kind, three, FMA[kind]),
        "mad": (kind, three, lambda a, b, c: a * b + c),
        "fmaak": (kind, three, FMA[kind]),
        "fmamk": (kind, three, FMA[kind]),
        "madak": (kind, three, lambda a, b, c: a * b + c),
        "madmk": (kind, three, lambda a, b, c: a * b + c),
        "floor": (kind, kind, np.floor),
        "ceil": (kind, kind, np.ceil),
        "trunc": (kind, kind, np.trunc),
        "rndne": (kind, kind, np.rint),
        "fract": (kind, kind, floats.fract),
        "med3": (kind, three, floats.med3),
        "med3_num": (kind, three, floats.med3),
        "min3": (kind, three, lambda a, b, c: floats.fmin(floats.fmin(a, b), c)),
        "max3": (kind, three, lambda a, b, c: floats.fmax(floats.fmax(a, b), c)),
        "min3_num": (kind, three, lambda a, b, c: floats.fmin(floats.fmin(a, b), c)),
        "max3_num": (kind, three, lambda a, b, c: floats.fmax(floats.fmax(a, b), c)),
        "minimum3": (kind, three, lambda a, b, c: floats.minimum(floats.minimum(a, b), c)),
        "maximum3": (kind, three, lambda a, b, c: floats.maximum(floats.maximum(a, b), c)),
        "minmax": (kind, three, lambda a, b, c: floats.fmax(floats.fmin(a, b), c)),
        "maxmin": (kind, three, lambda a, b, c: floats.fmin(floats.fmax(a, b), c)),
        "minmax_num": (kind, three, lambda a, b, c: floats.fmax(floats.fmin(a, b), c)),
        "maxmin_num": (kind, three, lambda a, b, c: floats.fmin(floats.fmax(a, b), c)),
        "minimummaximum": (kind, three, lambda a, b, c: floats.maximum(floats.minimum(a, b), c)),
        "maximumminimum": (kind, three, lambda a, b, c: floats.minimum(floats.maximum(a, b), c)),
        "frexp_mant": (kind, kind, floats.frexp_mantissa),
        "ldexp": (kind, f"{kind} i16" if kind == "f16" else f"{kind} i32", floats.ldexp),
    }
    return {f"v_{name}_{kind}": row for name, row in rows.items()}


_ROWS: dict[str, Row] = {
    **_arithmetic("f32"),
    **_arithmetic("f64"),
    **_arithmetic("f16"),
    "v_mul_legacy_f32": ("f32", "f32 f32", lambda a, b: np.where((a == 0) | (b == 0), np.float32(0), a * b)),
    "v_mul_dx9_zero_f32": ("f32", "f32 f32", lambda a, b: np.where((a == 0) | (b == 0), np.float32(0), a * b)),
    "v_exp_f32": ("f32", "f32", floats.exp2),
    "v_log_f32": ("f32", "f32", floats.log2),
    "v_rcp_f32": ("f32", "f32", floats.rcp),
    "v_rcp_iflag_f32": ("f32", "f32", floats.rcp),
    "v_rsq_f32": ("f32", "f32", floats.rsq),
    "v_sqrt_f32": ("f32", "f32", floats.sqrt),
    "v_sin_f32": ("f32", "f32", floats.sin),
    "v_cos_f32": ("f32", "f32", floats.cos),
    "v_exp_f16": ("f16", "f16", _wide(np.exp2)),
    "v_log_f16": ("f16", "f16", _wide(np.log2)),
    "v_rcp_f16": ("f16", "f16", _wide(lambda x: 1 / x)),
    "v_rsq_f16": ("f16", "f16", _wide(lambda x: 1 / np.sqrt(x))),
    "v_sqrt_f16": ("f16", "f16", _wide(np.sqrt)),
    "v_sin_f16": ("f16", "f16", _wide(floats.sin)),
    "v_cos_f16": ("f16", "f16", _wide(floats.cos)),
    "v_tanh_f32": ("f32", "f32", np.tanh),
    # Good to some 2^-14 on the hardware: what uses them refines them.
    "v_rcp_f64": ("f64", "f64", lambda x: _coarse(1 / x)),
    "v_rsq_f64": ("f64", "f64", lambda x: _coarse(1 / np.sqrt(x))),
    "v_sqrt_f64": ("f64", "f64", lambda x: _coarse(np.sqrt(x))),
    "v_frexp_exp_i32_f32": ("i32", "f32", floats.frexp_exponent),
    "v_frexp_exp_i32_f64": ("i32", "f64", floats.frexp_exponent),
    "v_frexp_exp_i16_f16": ("i16", "f16", lambda x: floats.frexp_exponent(x).astype(np.int16)),
    "v_cvt_f32_f16": ("f32", "f16", lambda x: np.asarray(x, np.float32)),
    "v_cvt_f16_f32": ("f16", "f32", lambda x: np.asarray(x, np.float16)),
    "v_cvt_f64_f32": ("f64", "f32", lambda x: np.asarray(x, np.float64)),
    "v_cvt_f32_f64": ("f32", "f64", lambda x: np.asarray(x, np.float32)),
    "v_cvt_f32_i32": ("f32", "i32", lambda x: np.asarray(x, np.float32)),
    "v_cvt_f32_u32": ("f32", "u32", lambda x: np.asarray(x, np.float32)),
    "v_cvt_f64_i32": ("f64", "i32", lambda x: np.asarray(x, np.float64)),
    "v_cvt_f64_u32": ("f64", "u32", lambda x: np.asarray(x, np.float64)),
    "v_cvt_f16_i16": ("f16", "i16", lambda x: np.asarray(x, np.float16)),
    "v_cvt_f16_u16": ("f16", "u16", lambda x: np.asarray(x, np.float16)),
    "v_cvt_f32_bf16": ("f32", "bf16", floats.bf16_to_f32),
    "v_cvt_i16_f16": ("i16", "f16", floats.to_int(-(1 << 15), (1 << 15) - 1, np.int16)),
    "v_cvt_u16_f16": ("u16", "f16", floats.to_int(0, (1 << 16) - 1, np.uint16)),
    **{
        f"v_cvt_f32_ubyte{n}": ("f32", "u32", lambda x, n=n: (x >> np.uint32(8 * n) & 255).astype(np.float32))
        for n in range(4)
    },
    **{f"v_cvt_i32_f{n}": ("i32", f"f{n}", floats.to_int(-(1 << 31), (1 << 31) - 1, np.int32)) for n in (32, 64)},
    **{f"v_cvt_u32_f{n}": ("u32", f"f{n}", floats.to_int(0, (1 << 32) - 1, np.uint32)) for n in (32, 64)},
    "v_cvt_flr_i32_f32": ("i32", "f32", lambda x: floats.to_int(-(1 << 31), (1 << 31) - 1, np.int32)(np.floor(x))),
    "v_cvt_floor_i32_f32": ("i32", "f32", lambda x: floats.to_int(-(1 << 31), (1 << 31) - 1, np.int32)(np.floor(x))),
}


def _coarse(x: Array) -> Array:
    """Cut to 26 bits of the 53, as an estimate."""
    x = np.asarray(x, np.float64)
    return (x.view(np.uint64) & np.uint64(0xFFFFFFFFF8000000)).view(np.float64)


@instruction(*_ROWS)
def arithmetic(inst: Instruction, ctx: Context) -> Step:
    kind, kinds, function = _ROWS[inst.mnemonic]
    return vector(inst, ctx, kind, types_of(kinds), function)


@instruction("v_fmac_f32", "v_mac_f32", "v_fmac_f16", "v_mac_f16", "v_fmac_f64")
def accumulate(inst: Instruction, ctx: Context) -> Step:
    kind = inst.mnemonic[-3:]
    function: Any = FMA[kind] if "fmac" in inst.mnemonic else lambda a, b, c: a * b + c
    return vector(inst, ctx, kind, [kind] * 3, function, accumulate=True)


# --- division in steps ------------------------------------------------------------------------------------------------


@instruction("v_div_scale_f32", "v_div_scale_f64")
def div_scale(inst: Instruction, ctx: Context) -> Step:
    """Numerator or denominator, scaled where the quotient's steps would leave the range; a mask tells of scaling."""
    kind = inst.mnemonic[-3:]
    operands = ctx.operands(inst)
    reads = [reader(operand, kind) for operand in operands[2:]]
    write = target_of(inst, ctx, operands[0], kind)
    mask_at = operands[1]
    by = 64 if kind == "f32" else 128
    far, tiny, dtype = (96, -126, np.float32) if kind == "f32" else (768, -1022, np.float64)

    def step(w: Wave) -> None:
        s0, s1, s2 = (np.broadcast_to(np.asarray(read(w), np.float64), (w.lanes,)) for read in reads)
        e1, e2 = np.frexp(s1)[1] - 1, np.frexp(s2)[1] - 1
        of_den = s0 == s1
        out, flag = s0.copy(), np.zeros(w.lanes, np.bool_)
        denormal = (s1 != 0) & (e1 < tiny)
        reciprocal = -e1 < tiny
        quotient = e2 - e1 < tiny
        bad = (s1 == 0) | (s2 == 0)
        cases = [
            (bad, None, None),
            (e2 - e1 >= far, True, "den"),
            (denormal, False, "both"),
            (reciprocal & quotient, True, "den-down"),
            (reciprocal, False, "both-down"),
            (quotient, True, "num"),
            (e2 <= (-104 if kind == "f32" else -970), False, "both"),
        ]
        left = np.ones(w.lanes, np.bool_)
        for here, sets, what in cases:
            now = left & here
            left &= ~here
            if what is None:
                out[now] = np.nan
                continue
            flag |= now & bool(sets)
            scaled = now & (of_den if what.startswith("den") else s0 == s2 if what == "num" else np.True_)
            out[scaled] = np.ldexp(s0[scaled], -by if what.endswith("down") else by)
        write(w, out.astype(dtype), w.mask)
        _put_mask(w, mask_at.index, flag & w.mask)

    return step


def _put_mask(w: Wave, index: int, mask: Mask) -> None:
    value = w.number_of(mask)
    w.s[index] = value & 0xFFFFFFFF
    if w.lanes == 64:
        w.s[index + 1] = value >> 32


@instruction("v_div_fmas_f32", "v_div_fmas_f64")
def div_fmas(inst: Instruction, ctx: Context) -> Step:
    kind = inst.mnemonic[-3:]
    operands = ctx.operands(inst)
    reads = [reader(operand, kind) for operand in operands[1:]]
    write = target_of(inst, ctx, operands[0], kind)
    by = 32 if kind == "f32" else 64

    def step(w: Wave) -> None:
        value = FMA[kind](*[read(w) for read in reads])
        low = int(w.s[VCC])
        scaled = w.bits(low | int(w.s[VCC + 1]) << 32 if w.lanes == 64 else low)
        c = np.broadcast_to(np.asarray(reads[2](w), np.float64), (w.lanes,))
        up = np.frexp(c)[1] - 1 > 0
        more = np.where(scaled, np.where(up, 2 * by, -2 * by), 0)
        write(w, np.ldexp(value, more).astype(value.dtype), w.mask)

    return step


@instruction("v_div_fixup_f32", "v_div_fixup_f64", "v_div_fixup_f16")
def div_fixup(inst: Instruction, ctx: Context) -> Step:
    kind = inst.mnemonic[-3:]

    def fix(q: Array, den: Array, num: Array) -> Array:
        q, den, num = np.broadcast_arrays(q, den, num)
        dtype = q.dtype.type
        sign = np.signbit(den) ^ np.signbit(num)
        signed = lambda x: np.where(sign, -dtype(x), dtype(x))  # noqa: E731
        out = np.where(sign, -np.abs(q), np.abs(q))
        out = np.where(np.isinf(den) | (num == 0), signed(0), out)
        out = np.where((den == 0) | np.isinf(num), signed(np.inf), out)
        out = np.where(np.isinf(num) & np.isinf(den), dtype(np.nan), out)
        out = np.where((num == 0) & (den == 0), dtype(np.nan), out)
        return np.where(np.isnan(den) | np.isnan(num), dtype(np.nan), out)

    return vector(inst, ctx, kind, [kind] * 3, fix)
