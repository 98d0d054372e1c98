"""Vector arithmetic on whole numbers and bits."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from ..decode import Context, Step, instruction
from ..operands import DTYPES, Array, reader, writer
from ..text import Instruction
from ..wave import Wave
from .valu import Function, types_of, vector

Row = tuple[str, str, Function]
U64, U32 = np.uint64, np.uint32


def _u64(x: Array) -> Array:
    return np.asarray(x, U64)


def _sign24(x: Array) -> Array:
    return ((np.asarray(x, U32) & 0xFFFFFF) ^ U32(0x800000)).astype(np.int64) - 0x800000


def _bfe(x: Array, offset: Array, width: Array) -> Array:
    width = np.asarray(width, U64) & U64(31)
    return (_u64(x) >> (_u64(offset) & U64(31)) & ((U64(1) << width) - U64(1))).astype(U32)


def _bfe_signed(x: Array, offset: Array, width: Array) -> Array:
    width = np.asarray(width, np.int64) & 31
    field = (np.asarray(x, np.int64) >> (np.asarray(offset, np.int64) & 31)) & ((1 << width) - 1)
    sign = np.where(width > 0, np.int64(1) << np.maximum(width - 1, 0), 0)
    return ((field ^ sign) - sign).astype(np.int32)


def _count(x: Array) -> Array:
    return np.bitwise_count(np.asarray(x, U32)).astype(U32)


def _reverse(x: Array) -> Array:
    raw = np.ascontiguousarray(np.atleast_1d(np.asarray(x, U32)))
    bits = np.unpackbits(raw.view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    return np.packbits(bits[:, ::-1], axis=1, bitorder="little").view(U32)[:, 0]


def _leading(x: Array) -> Array:
    x = np.asarray(x, U32)
    exponent = np.frexp(x.astype(np.float64))[1]
    return np.where(x == 0, U32(0xFFFFFFFF), (32 - exponent).astype(U32))


def _leading_signed(x: Array) -> Array:
    x = np.asarray(x, np.int32)
    flat = (x ^ (x >> 31)).view(U32) if isinstance(x, np.ndarray) else x
    found = _leading(flat)
    return np.where((x == 0) | (x == -1), U32(0xFFFFFFFF), found)


def _trailing(x: Array) -> Array:
    x = np.asarray(x, U32)
    low = x & (~x + U32(1))
    exponent = np.frexp(low.astype(np.float64))[1] - 1
    return np.where(x == 0, U32(0xFFFFFFFF), exponent.astype(U32))


def _perm(a: Array, b: Array, select: Array) -> Array:
    """Bytes of {a, b}, four of them chosen; b holds bytes 0 to 3."""
    both = _u64(a) << U64(32) | _u64(b)
    select = np.asarray(select, U32)
    out = np.zeros(np.broadcast(both, select).shape, U32)
    for at in range(4):
        which = (select >> U32(8 * at) & U32(0xFF)).astype(np.int64)
        byte = (both >> (np.asarray(which & 7, U64) * U64(8)) & U64(0xFF)).astype(U32)
        signs = np.asarray(np.where((which >= 8) & (which < 12), (which - 8) * 16 + 15, 0), U64)
        ones = np.where((both >> signs & U64(1)).astype(np.bool_), U32(0xFF), U32(0))
        byte = np.where(which >= 13, U32(0xFF), np.where(which == 12, U32(0), np.where(which >= 8, ones, byte)))
        out |= byte << U32(8 * at)
    return out


def _gaps(a: Array, b: Array, total: Array, masked: bool) -> Array:
    """The sum of the distances of bytes, and a word; `masked`: without those whose second byte is 0."""
    out = np.asarray(total, U32)
    for at in range(0, 32, 8):
        x, y = (np.asarray(v, U32) >> U32(at) & U32(255) for v in (a, b))
        gap = np.where(x > y, x - y, y - x)
        out = out + (np.where(y == 0, U32(0), gap) if masked else gap)
    return out


def _means(a: Array, b: Array, up: Array) -> Array:
    """The mean of each pair of bytes; the lowest bit of a third one says whether a half is rounded up."""
    parts = [(np.asarray(v, U32)[..., None] >> (U32(8) * np.arange(4, dtype=U32))) & U32(255) for v in (a, b, up)]
    mean = (parts[0] + parts[1] + (parts[2] & U32(1))) >> U32(1)
    return (mean << (U32(8) * np.arange(4, dtype=U32))).sum(-1, dtype=U32)


def _align(a: Array, b: Array, by: Array, unit: int) -> Array:
    both = _u64(a) << U64(32) | _u64(b)
    shift = (_u64(by) & U64(31 if unit == 1 else 3)) * U64(unit)
    return (both >> shift).astype(U32)


def _high(signed: bool) -> Function:
    wide = np.int64 if signed else U64
    return lambda a, b: (np.asarray(a, wide) * np.asarray(b, wide) >> wide(32)).astype(U32)


def _logic(bits: int) -> dict[str, Row]:
    kind = f"u{bits}"
    two, one = f"{kind} {kind}", DT[bits]
    top = one(bits - 1)
    shift = f"u32 {kind}" if bits == 64 else two
    signed = {16: np.int16, 32: np.int32, 64: np.int64}[bits]
    return {
        f"v_and_b{bits}": (kind, two, np.bitwise_and),
        f"v_or_b{bits}": (kind, two, np.bitwise_or),
        f"v_xor_b{bits}": (kind, two, np.bitwise_xor),
        f"v_not_b{bits}": (kind, kind, np.bitwise_not),
        f"v_lshlrev_b{bits}": (kind, shift, lambda n, x: np.asarray(x) << (np.asarray(n).astype(one) & top)),
        f"v_lshrrev_b{bits}": (kind, shift, lambda n, x: np.asarray(x) >> (np.asarray(n).astype(one) & top)),
        f"v_ashrrev_i{bits}": (
            kind,
            shift,
            lambda n, x: (np.asarray(x).view(signed) >> (np.asarray(n).astype(one) & top).view(signed)).view(one),
        ),
    }


DT = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def _extremes(kind: str) -> dict[str, Row]:
    two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
    return {
        f"v_min_{kind}": (kind, two, np.minimum),
        f"v_max_{kind}": (kind, two, np.maximum),
        f"v_min3_{kind}": (kind, three, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
        f"v_max3_{kind}": (kind, three, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
        f"v_med3_{kind}": (
            kind,
            three,
            lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)),
        ),
        f"v_minmax_{kind}": (kind, three, lambda a, b, c: np.maximum(np.minimum(a, b), c)),
        f"v_maxmin_{kind}": (kind, three, lambda a, b, c: np.minimum(np.maximum(a, b), c)),
    }


_31 = U32(31)
_ROWS: dict[str, Row] = {
    **_logic(32),
    **_logic(64),
    **_logic(16),
    **_extremes("i32"),
    **_extremes("u32"),
    **_extremes("i16"),
    **_extremes("u16"),
    "v_mov_b32": ("u32", "u32", lambda x: x),
    "v_mov_b64": ("u64", "u64", lambda x: x),
    "v_mov_b16": ("u16", "u16", lambda x: x),
    "v_accvgpr_read_b32": ("u32", "u32", lambda x: x),
    "v_accvgpr_write_b32": ("u32", "u32", lambda x: x),
    "v_accvgpr_mov_b32": ("u32", "u32", lambda x: x),
    "v_accvgpr_read": ("u32", "u32", lambda x: x),
    "v_accvgpr_write": ("u32", "u32", lambda x: x),
    "v_xnor_b32": ("u32", "u32 u32", lambda a, b: ~(a ^ b)),
    "v_add_u32": ("u32", "u32 u32", lambda a, b: a + b),
    "v_sub_u32": ("u32", "u32 u32", lambda a, b: a - b),
    "v_subrev_u32": ("u32", "u32 u32", lambda a, b: b - a),
    "v_add_i32": ("u32", "u32 u32", lambda a, b: a + b),
    "v_sub_i32": ("u32", "u32 u32", lambda a, b: a - b),
    "v_add_u16": ("u16", "u16 u16", lambda a, b: a + b),
    "v_sub_u16": ("u16", "u16 u16", lambda a, b: a - b),
    "v_subrev_u16": ("u16", "u16 u16", lambda a, b: b - a),
    "v_add_i16": ("u16", "u16 u16", lambda a, b: a + b),
    "v_sub_i16": ("u16", "u16 u16", lambda a, b: a - b),
    "v_mul_lo_u16": ("u16", "u16 u16", lambda a, b: a * b),
    "v_mad_u16": ("u16", "u16 u16 u16", lambda a, b, c: a * b + c),
    "v_mad_legacy_u16": ("u16", "u16 u16 u16", lambda a, b, c: a * b + c),
    "v_mul_lo_u32": ("u32", "u32 u32", lambda a, b: a * b),
    "v_mul_hi_u32": ("u32", "u32 u32", _high(False)),
    "v_mul_hi_i32": ("u32", "i32 i32", _high(True)),
    "v_mul_u32_u24": ("u32", "u32 u32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "v_mul_i32_i24": ("u32", "u32 u32", lambda a, b: (_sign24(a) * _sign24(b)).astype(U32)),
    "v_mul_hi_u32_u24": (
        "u32",
        "u32 u32",
        lambda a, b: (_u64(a & 0xFFFFFF) * _u64(b & 0xFFFFFF) >> U64(32)).astype(U32),
    ),
    "v_mul_hi_i32_i24": (
        "u32",
        "u32 u32",
        lambda a, b: (np.asarray(_sign24(a), np.int64) * np.asarray(_sign24(b), np.int64) >> 32).astype(U32),
    ),
    "v_mad_u32_u24": ("u32", "u32 u32 u32", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "v_mad_i32_i24": ("u32", "u32 u32 u32", lambda a, b, c: (_sign24(a) * _sign24(b)).astype(U32) + c),
    "v_mad_u32_u16": ("u32", "u16 u16 u32", lambda a, b, c: np.asarray(a, U32) * np.asarray(b, U32) + c),
    "v_mad_i32_i16": (
        "u32",
        "i16 i16 u32",
        lambda a, b, c: (np.asarray(a, np.int32) * np.asarray(b, np.int32)).view(U32) + c,
    ),
    "v_mad_u32": ("u32", "u32 u32 u32", lambda a, b, c: a * b + c),
    "v_add3_u32": ("u32", "u32 u32 u32", lambda a, b, c: a + b + c),
    "v_lshl_add_u32": ("u32", "u32 u32 u32", lambda a, n, c: (a << (n & _31)) + c),
    "v_add_lshl_u32": ("u32", "u32 u32 u32", lambda a, b, n: (a + b) << (n & _31)),
    "v_lshl_or_b32": ("u32", "u32 u32 u32", lambda a, n, c: (a << (n & _31)) | c),
    "v_and_or_b32": ("u32", "u32 u32 u32", lambda a, b, c: a & b | c),
    "v_or3_b32": ("u32", "u32 u32 u32", lambda a, b, c: a | b | c),
    "v_xor3_b32": ("u32", "u32 u32 u32", lambda a, b, c: a ^ b ^ c),
    "v_xad_u32": ("u32", "u32 u32 u32", lambda a, b, c: (a ^ b) + c),
    "v_lshl_add_u64": ("u64", "u64 u32 u64", lambda a, n, c: (_u64(a) << (_u64(n) & U64(7))) + c),
    **{
        f"v_{name}_{kind}64": (f"{kind}64", f"{kind}64 {kind}64", function)
        for name, function in (("min", np.minimum), ("max", np.maximum))
        for kind in "iu"
    },
    "v_mul_u64": ("u64", "u64 u64", lambda a, b: a * b),
    "v_add_nc_u64": ("u64", "u64 u64", lambda a, b: a + b),
    "v_sub_nc_u64": ("u64", "u64 u64", lambda a, b: a - b),
    "v_bfe_u32": ("u32", "u32 u32 u32", _bfe),
    "v_bfe_i32": ("i32", "i32 u32 u32", _bfe_signed),
    "v_bfi_b32": ("u32", "u32 u32 u32", lambda s, a, b: s & a | ~s & b),
    "v_bfm_b32": ("u32", "u32 u32", lambda a, b: ((U32(1) << (a & _31)) - U32(1)) << (b & _31)),
    "v_alignbit_b32": ("u32", "u32 u32 u32", lambda a, b, n: _align(a, b, n, 1)),
    "v_alignbyte_b32": ("u32", "u32 u32 u32", lambda a, b, n: _align(a, b, n, 8)),
    "v_perm_b32": ("u32", "u32 u32 u32", _perm),
    "v_bcnt_u32_b32": ("u32", "u32 u32", lambda a, b: _count(a) + b),
    "v_bfrev_b32": ("u32", "u32", _reverse),
    "v_ffbh_u32": ("u32", "u32", _leading),
    "v_clz_i32_u32": ("u32", "u32", _leading),
    "v_ffbh_i32": ("u32", "i32", _leading_signed),
    "v_cls_i32": ("u32", "i32", _leading_signed),
    "v_ffbl_b32": ("u32", "u32", _trailing),
    "v_ctz_i32_b32": ("u32", "u32", _trailing),
    "v_sat_pk_u8_i16": ("u16", "u32", lambda x: _saturated_bytes(x)),
    "v_cvt_i32_i16": ("i32", "i16", lambda x: np.asarray(x, np.int32)),
    "v_cvt_u32_u16": ("u32", "u16", lambda x: np.asarray(x, U32)),
    "v_sad_u8": ("u32", "u32 u32 u32", lambda a, b, c: _gaps(a, b, c, False)),
    "v_msad_u8": ("u32", "u32 u32 u32", lambda a, b, c: _gaps(a, b, c, True)),
    "v_lerp_u8": ("u32", "u32 u32 u32", _means),
    "v_cvt_off_f32_i4": ("f32", "u32", lambda x: (((np.asarray(x, np.int64) & 15) ^ 8) - 8).astype(np.float32) / 16),
    **{
        f"v_add_{word}_{kind}": (kind, f"{kind} {kind} {kind}", lambda a, b, c, take=take: take(a + b, c))
        for word, take in (("max", np.maximum), ("min", np.minimum))
        for kind in ("i32", "u32")
    },
    "v_sad_u32": ("u32", "u32 u32 u32", lambda a, b, c: np.where(a > b, a - b, b - a) + c),
}
for _new, _old in {
    **{"v_add_nc_u32": "v_add_u32", "v_sub_nc_u32": "v_sub_u32", "v_subrev_nc_u32": "v_subrev_u32"},
    **{
        "v_add_nc_u16": "v_add_u16",
        "v_sub_nc_u16": "v_sub_u16",
        "v_add_nc_i32": "v_add_i32",
        "v_sub_nc_i32": "v_sub_i32",
    },
    **{"v_add_nc_i16": "v_add_i16", "v_sub_nc_i16": "v_sub_i16"},
}.items():
    _ROWS[_new] = _ROWS[_old]


def _saturated_bytes(x: Array) -> Array:
    halves = [np.asarray(x, U32).view(np.int16)[at::2] for at in (0, 1)]
    low, high = (np.clip(half, 0, 255).astype(np.uint16) for half in halves)
    return low | high << np.uint16(8)


def _saturating(kind: str, subtracts: bool) -> Function:
    """A sum or difference that stops at the limits of its type (`clamp`)."""
    limits = np.iinfo(DTYPES[kind])

    def run(a: Array, b: Array) -> Array:
        x, y = np.asarray(a, np.int64), np.asarray(b, np.int64)
        return np.clip(x - y if subtracts else x + y, limits.min, limits.max).astype(DTYPES[kind])

    return run


@instruction(*_ROWS)
def arithmetic(inst: Instruction, ctx: Context) -> Step:
    kind, kinds, function = _ROWS[inst.mnemonic]
    sums = re.fullmatch(r"v_(add|sub)_(?:nc_)?([iu](?:16|32))", inst.mnemonic)
    if "clamp" in inst.modifiers and sums:
        plain = replace(inst, modifiers={name: value for name, value in inst.modifiers.items() if name != "clamp"})
        return vector(plain, ctx, sums[2], [sums[2]] * 2, _saturating(sums[2], sums[1] == "sub"))
    if inst.mnemonic.startswith(("v_lshlrev_b64", "v_lshrrev_b64", "v_ashrrev_i64")):
        return vector(inst, ctx, kind, ["u32", "u64"], function)
    return vector(inst, ctx, kind, types_of(kinds), function)


@instruction("v_bitop3_b32", "v_bitop3_b16")
def any_function_of_three(inst: Instruction, ctx: Context) -> Step:
    """A truth table of eight bits: bit 4a + 2b + c is the result."""
    table = inst.number("bitop3")
    kind = "u" + inst.mnemonic[-2:]

    def run(a: Array, b: Array, c: Array) -> Array:
        out = (a ^ a) & b & c
        for at in range(8):
            if table >> at & 1:
                out = out | (a if at & 4 else ~a) & (b if at & 2 else ~b) & (c if at & 1 else ~c)
        return out

    return vector(inst, ctx, kind, [kind] * 3, run)


@instruction("v_bitop2_b32")
def any_function_of_two(inst: Instruction, ctx: Context) -> Step:
    """The same where the third is 0."""
    table = inst.number("bitop3")

    def run(a: Array, b: Array) -> Array:
        out = (a ^ a) & b
        for at in range(0, 8, 2):
            if table >> at & 1:
                out = out | (a if at & 4 else ~a) & (b if at & 2 else ~b)
        return out

    return vector(inst, ctx, "u32", ["u32"] * 2, run)


@instruction("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32")
def lanes_below(inst: Instruction, ctx: Context) -> Step:
    at = np.arange(ctx.lanes, dtype=np.uint64)
    below = (np.uint64(1) << at) - np.uint64(1)
    half = below >> U64(32) if "_hi_" in inst.mnemonic else below & U64(0xFFFFFFFF)
    mask = half.astype(U32)
    return vector(inst, ctx, "u32", ["u32", "u32"], lambda a, b: _count(a & mask) + b)


@instruction("v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_u64_u32", "v_mad_co_i64_i32")
def wide_multiply_add(inst: Instruction, ctx: Context) -> Step:
    d, carry, a, b, c = ctx.operands(inst)
    signed = "i64" in inst.mnemonic
    reads = [reader(a, "i32" if signed else "u32"), reader(b, "i32" if signed else "u32"), reader(c, "u64")]
    write = writer(d, "u64")
    wide = np.int64 if signed else np.uint64

    def step(w: Wave) -> None:
        x, y, z = (np.broadcast_to(read(w), (w.lanes,)) for read in reads)
        product = (x.astype(wide) * y.astype(wide)).view(np.uint64)
        total = product + z
        write(w, total, w.mask)
        if carry.text != "null":
            flags = w.number_of((total < product) & w.mask)
            w.s[carry.index] = flags & 0xFFFFFFFF
            if w.lanes == 64:
                w.s[carry.index + 1] = flags >> 32

    return step


@instruction("v_mad_nc_u64_u32", "v_mad_nc_i64_i32")
def wide_multiply_add_plain(inst: Instruction, ctx: Context) -> Step:
    wide = np.int64 if "i64" in inst.mnemonic else np.uint64
    kind = "i32" if "i64" in inst.mnemonic else "u32"
    return vector(
        inst, ctx, "u64", [kind, kind, "u64"], lambda a, b, c: (np.asarray(a, wide) * np.asarray(b, wide)).view(U64) + c
    )
