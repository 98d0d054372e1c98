"""Scalar arithmetic, comparisons and control."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..decode import Context, Step, instruction
from ..errors import IsaError
from ..operands import read_scalar, write_scalar
from ..text import Instruction
from ..wave import Wave

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def _signed(x: int, bits: int = 32) -> int:
    return x - (1 << bits) if x >> bits - 1 & 1 else x


def _width(name: str) -> int:
    return 64 if re.search(r"[biu]64$", name) else 32


# --- two sources ----------------------------------------------------------------------------------------------------

Two = Callable[[int, int, int], tuple[int, int | None]]
"""Sources and the condition code -> result and the new condition code, if it changes."""


def _logic(function: Callable[[int, int], int]) -> Two:
    def run(a: int, b: int, bits: int) -> tuple[int, int | None]:
        value = function(a, b) & (1 << bits) - 1
        return value, int(value != 0)

    return run


def _bfe(a: int, b: int, bits: int, signed: bool) -> tuple[int, int | None]:
    offset, width = b & bits - 1, b >> 16 & 0x7F
    if not width:
        return 0, 0
    value = (_signed(a, bits) if signed else a) >> offset & (1 << width) - 1
    if signed and width < bits:
        value = _signed(value, width) & (1 << bits) - 1
    return value & (1 << bits) - 1, int(value != 0)


def _signed_overflow(value: int) -> int:
    return int(not -(1 << 31) <= value < 1 << 31)


_LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "and_not1": lambda a, b: a & ~b,
    "or_not1": lambda a, b: a | ~b,
}
_TWO: dict[str, Two] = {
    "s_add_u32": lambda a, b, n: (a + b, a + b >> 32),
    "s_sub_u32": lambda a, b, n: (a - b, int(b > a)),
    "s_add_i32": lambda a, b, n: (a + b, _signed_overflow(_signed(a) + _signed(b))),
    "s_sub_i32": lambda a, b, n: (a - b, _signed_overflow(_signed(a) - _signed(b))),
    "s_mul_i32": lambda a, b, n: (a * b, None),
    "s_mul_hi_u32": lambda a, b, n: (a * b >> 32, None),
    "s_mul_hi_i32": lambda a, b, n: (_signed(a) * _signed(b) >> 32, None),
    "s_mul_u64": lambda a, b, n: (a * b, None),
    "s_add_u64": lambda a, b, n: (a + b, None),
    "s_sub_u64": lambda a, b, n: (a - b, None),
    "s_min_i32": lambda a, b, n: (min(_signed(a), _signed(b)), int(_signed(a) < _signed(b))),
    "s_max_i32": lambda a, b, n: (max(_signed(a), _signed(b)), int(_signed(a) > _signed(b))),
    "s_min_u32": lambda a, b, n: (min(a, b), int(a < b)),
    "s_max_u32": lambda a, b, n: (max(a, b), int(a > b)),
    "s_bfm_b32": lambda a, b, n: (((1 << (a & 31)) - 1) << (b & 31), None),
    "s_bfm_b64": lambda a, b, n: (((1 << (a & 63)) - 1) << (b & 63), None),
    "s_bfe_u32": lambda a, b, n: _bfe(a, b, 32, False),
    "s_bfe_i32": lambda a, b, n: _bfe(a, b, 32, True),
    "s_absdiff_i32": lambda a, b, n: (abs(_signed(a) - _signed(b)), int(a != b)),
    "s_pack_ll_b32_b16": lambda a, b, n: (a & 0xFFFF | b << 16, None),
    "s_pack_lh_b32_b16": lambda a, b, n: (a & 0xFFFF | b & 0xFFFF0000, None),
    "s_pack_hl_b32_b16": lambda a, b, n: (a >> 16 | b << 16, None),
    "s_pack_hh_b32_b16": lambda a, b, n: (a >> 16 | b & 0xFFFF0000, None),
    **{f"s_{name}_b{n}": _logic(function) for name, function in _LOGIC.items() for n in (32, 64)},
}


def _shift(a: int, b: int, bits: int, name: str) -> tuple[int, int | None]:
    by = b & bits - 1
    value = a << by if "lshl" in name else _signed(a, bits) >> by if "ashr" in name else a >> by
    value &= (1 << bits) - 1
    return value, int(value != 0)


for _name in ("lshl", "lshr"):
    for _bits in (32, 64):
        _TWO[f"s_{_name}_b{_bits}"] = lambda a, b, n, _name=_name: _shift(a, b, n, _name)
for _bits in (32, 64):
    _TWO[f"s_ashr_i{_bits}"] = lambda a, b, n: _shift(a, b, n, "ashr")
for _by in (1, 2, 3, 4):

    def _shift_add(a: int, b: int, n: int, by: int = _by) -> tuple[int, int | None]:
        value = (a << by) + b
        return value, int(value > M32)

    _TWO[f"s_lshl{_by}_add_u32"] = _shift_add

_ALIASES = {"s_add_co_u32": "s_add_u32", "s_sub_co_u32": "s_sub_u32", "s_add_co_i32": "s_add_i32"}
_ALIASES |= {"s_sub_co_i32": "s_sub_i32", "s_add_nc_u64": "s_add_u64", "s_sub_nc_u64": "s_sub_u64"}
for _new, _old in _ALIASES.items():
    _TWO[_new] = _TWO[_old]


@instruction(*_TWO)
def two_sources(inst: Instruction, ctx: Context) -> Step:
    function, bits = _TWO[inst.mnemonic], _width(inst.mnemonic)
    d, a, b = ctx.operands(inst)
    narrow = inst.mnemonic.startswith(("s_lshl_", "s_lshr_", "s_ashr_", "s_bfm", "s_bfe"))
    sources = 32 if inst.mnemonic.startswith("s_bfm") else bits
    write, left = write_scalar(d, bits), read_scalar(a, sources, signed=inst.mnemonic.endswith("i64"))
    right = read_scalar(b, 32 if narrow else bits)
    limit = (1 << bits) - 1

    def step(w: Wave) -> None:
        value, scc = function(left(w), right(w), bits)
        write(w, value & limit)
        if scc is not None:
            w.scc = scc

    return step


@instruction("s_bfe_u64", "s_bfe_i64")
def wide_field(inst: Instruction, ctx: Context) -> Step:
    d, a, b = ctx.operands(inst)
    write, left, right = write_scalar(d, 64), read_scalar(a, 64), read_scalar(b, 32)
    signed = inst.mnemonic.endswith("i64")

    def step(w: Wave) -> None:
        value, scc = _bfe(left(w), right(w), 64, signed)
        write(w, value)
        w.scc = scc or 0

    return step


@instruction("s_addc_u32", "s_subb_u32", "s_add_co_ci_u32", "s_sub_co_ci_u32")
def with_carry(inst: Instruction, ctx: Context) -> Step:
    d, a, b = ctx.operands(inst)
    write, left, right = write_scalar(d), read_scalar(a), read_scalar(b)
    add = inst.mnemonic.startswith("s_add")

    def step(w: Wave) -> None:
        value = left(w) + right(w) + w.scc if add else left(w) - right(w) - w.scc
        write(w, value & M32)
        w.scc = int(value > M32) if add else int(value < 0)

    return step


@instruction("s_cselect_b32", "s_cselect_b64")
def select(inst: Instruction, ctx: Context) -> Step:
    bits = _width(inst.mnemonic)
    d, a, b = ctx.operands(inst)
    write, left, right = write_scalar(d, bits), read_scalar(a, bits), read_scalar(b, bits)
    return lambda w: write(w, left(w) if w.scc else right(w))


# --- one source -----------------------------------------------------------------------------------------------------


def _flip(x: int, bits: int) -> int:
    return int(f"{x:0{bits}b}"[::-1], 2)


def _first(x: int) -> int:
    return (x & -x).bit_length() - 1 if x else M32


def _leading(x: int, bits: int) -> int:
    return bits - x.bit_length() if x else M32


_ONE: dict[str, tuple[Callable[[int], int], bool]] = {
    # function, and whether the condition code tells that the result is not zero
    **{f"s_not_b{n}": ((lambda x, n=n: ~x & (1 << n) - 1), True) for n in (32, 64)},
    **{f"s_bcnt1_i32_b{n}": (int.bit_count, True) for n in (32, 64)},
    **{f"s_bcnt0_i32_b{n}": ((lambda x, n=n: n - x.bit_count()), True) for n in (32, 64)},
    **{f"s_ff1_i32_b{n}": (_first, False) for n in (32, 64)},
    **{f"s_ctz_i32_b{n}": (_first, False) for n in (32, 64)},
    **{f"s_flbit_i32_b{n}": ((lambda x, n=n: _leading(x, n)), False) for n in (32, 64)},
    **{f"s_clz_i32_u{n}": ((lambda x, n=n: _leading(x, n)), False) for n in (32, 64)},
    **dict.fromkeys(("s_flbit_i32", "s_cls_i32"), ((lambda x: _leading(x ^ -(x >> 31) & M32, 32)), False)),
    **{f"s_brev_b{n}": ((lambda x, n=n: _flip(x, n)), False) for n in (32, 64)},
    "s_sext_i32_i8": (lambda x: _signed(x & 0xFF, 8) & M32, False),
    "s_sext_i32_i16": (lambda x: _signed(x & 0xFFFF, 16) & M32, False),
    "s_abs_i32": (lambda x: abs(_signed(x)) & M32, True),
    "s_wqm_b64": (lambda x: _quads(x, 64), True),
    "s_wqm_b32": (lambda x: _quads(x, 32), True),
    **{f"s_mov_b{n}": ((lambda x: x), False) for n in (32, 64)},
}


def _quads(x: int, bits: int) -> int:
    return sum(15 << at for at in range(0, bits, 4) if x >> at & 15)


@instruction(*_ONE)
def one_source(inst: Instruction, ctx: Context) -> Step:
    function, sets = _ONE[inst.mnemonic]
    d, a = ctx.operands(inst)
    bits = 64 if inst.mnemonic.endswith("64") else 32
    counts = "_i32_" in inst.mnemonic
    write, read = write_scalar(d, 32 if counts else bits), read_scalar(a, bits)

    def step(w: Wave) -> None:
        value = function(read(w))
        write(w, value)
        if sets:
            w.scc = int(value != 0)

    return step


@instruction("s_cmov_b32", "s_cmov_b64")
def conditional_move(inst: Instruction, ctx: Context) -> Step:
    bits = _width(inst.mnemonic)
    d, a = ctx.operands(inst)
    write, read = write_scalar(d, bits), read_scalar(a, bits)

    def step(w: Wave) -> None:
        if w.scc:
            write(w, read(w))

    return step


@instruction("s_bitset0_b32", "s_bitset1_b32", "s_bitset0_b64", "s_bitset1_b64")
def set_bit(inst: Instruction, ctx: Context) -> Step:
    bits = _width(inst.mnemonic)
    d, a = ctx.operands(inst)
    write, old, read = write_scalar(d, bits), read_scalar(d, bits), read_scalar(a)
    on = "set1" in inst.mnemonic

    def step(w: Wave) -> None:
        bit = 1 << (read(w) & bits - 1)
        write(w, old(w) | bit if on else old(w) & ~bit)

    return step


@instruction("s_movk_i32", "s_addk_i32", "s_mulk_i32", "s_cmovk_i32", "s_addk_co_i32")
def short_constant(inst: Instruction, ctx: Context) -> Step:
    d = ctx.operand(inst.operands[0])
    write, read = write_scalar(d), read_scalar(d)
    number = _signed(int(inst.operands[1], 0) & 0xFFFF, 16)

    def step(w: Wave) -> None:
        old = _signed(read(w))
        if inst.mnemonic == "s_movk_i32":
            write(w, number & M32)
        elif inst.mnemonic == "s_cmovk_i32":
            if w.scc:
                write(w, number & M32)
        elif inst.mnemonic == "s_mulk_i32":
            write(w, old * number & M32)
        else:
            write(w, old + number & M32)
            w.scc = _signed_overflow(old + number)

    return step


_SAVE: dict[str, Callable[[int, int], int]] = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "andn1": lambda s, e: ~s & e,
    "andn2": lambda s, e: s & ~e,
    "orn1": lambda s, e: ~s | e,
    "orn2": lambda s, e: s | ~e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
    "and_not0": lambda s, e: ~s & e,
    "and_not1": lambda s, e: s & ~e,
    "or_not0": lambda s, e: ~s | e,
    "or_not1": lambda s, e: s | ~e,
}


@instruction(*(f"s_{name}_saveexec_b{n}" for name in _SAVE for n in (32, 64)))
def save_exec(inst: Instruction, ctx: Context) -> Step:
    name = inst.mnemonic.removeprefix("s_").partition("_saveexec")[0]
    function, bits = _SAVE[name], _width(inst.mnemonic)
    if bits != ctx.lanes:
        raise IsaError(f"a mask of {bits} lanes in a wave of {ctx.lanes}")
    d, a = ctx.operands(inst)
    write, read = write_scalar(d, bits), read_scalar(a, bits)

    def step(w: Wave) -> None:
        old, source = w.exec(), read(w)
        write(w, old)
        w.set_exec(function(source, old) & (1 << bits) - 1)
        w.scc = int(w.exec() != 0)

    return step


# --- comparing ------------------------------------------------------------------------------------------------------

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


@instruction(
    *(f"s_cmp_{name}_{kind}32" for name in _COMPARE for kind in "iu"),
    *("s_cmp_eq_u64", "s_cmp_lg_u64"),
    *(f"s_cmpk_{name}_{kind}32" for name in _COMPARE for kind in "iu"),
)
def compare(inst: Instruction, ctx: Context) -> Step:
    name, kind = inst.mnemonic.split("_")[-2:]
    function, bits = _COMPARE[name], int(kind[1:])
    a, b = ctx.operands(inst)
    left, right = read_scalar(a, bits), read_scalar(b, bits)
    if inst.mnemonic.startswith("s_cmpk"):
        number = int(inst.operands[1], 0) & 0xFFFF
        number = _signed(number, 16) & M32 if kind[0] == "i" else number
        right = lambda w: number  # noqa: E731
    signed = kind[0] == "i"

    def step(w: Wave) -> None:
        x, y = left(w), right(w)
        w.scc = int(function(_signed(x), _signed(y)) if signed else function(x, y))

    return step


@instruction("s_bitcmp0_b32", "s_bitcmp1_b32", "s_bitcmp0_b64", "s_bitcmp1_b64")
def compare_bit(inst: Instruction, ctx: Context) -> Step:
    bits = _width(inst.mnemonic)
    a, b = ctx.operands(inst)
    left, right = read_scalar(a, bits), read_scalar(b)
    wanted = int("cmp1" in inst.mnemonic)

    def step(w: Wave) -> None:
        w.scc = int(left(w) >> (right(w) & bits - 1) & 1 == wanted)

    return step
