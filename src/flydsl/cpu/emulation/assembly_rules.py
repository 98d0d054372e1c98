"""The instructions known in inline assembly: what their operands are, and what they do.

Rows are `result <- operands`, in letters: `u` i32, `f` f32, `h` f16, `q` i64, `d` f64, `p` a pair of f16, `w` a pair of
i16, `g` a pair of f32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from xdsl.dialects import math
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1
from xdsl.ir import Attribute, SSAValue

from ...ir import arith
from ...ir.builder import i32, i64
from ...ir.types import bit_width, vector_type
from .instruction_rules import AMD
from .memory_rules import barrier, counter_wait
from .nvidia_rules import RULES as NVIDIA
from .rule_tools import Rule, bits_of, elements, i16, llvm_call, saturated, vector_of, widened

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions

Emit: TypeAlias = "Callable[[EmulatedInstructions, Sequence[SSAValue], Mapping[str, int]], Sequence[SSAValue]]"

_KINDS: dict[str, Attribute] = {
    "u": i32, "f": f32, "h": f16, "q": i64, "d": f64, "s": i16, "p": vector_type(f16, 2), "w": vector_type(i16, 2),
    "g": vector_type(f32, 2),
}  # fmt: skip


class Instruction(NamedTuple):
    """What is known of an instruction."""

    results: tuple[Attribute, ...]
    operands: tuple[Attribute, ...]
    emit: Emit
    words: tuple[str, ...] = ()
    """Words that may stand behind it."""
    nothing: bool = False
    """Whether it does nothing that can be seen; its operands do not matter."""
    copies: bool = False


def _none(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    return ()


def _row(text: str, emit: Emit, words: Sequence[str] = (), copies: bool = False) -> Instruction:
    results, _, operands = text.partition("<-")
    kinds = [tuple(_KINDS[c] for c in part.strip()) for part in (results, operands)]
    return Instruction(kinds[0], kinds[1], emit, tuple(words), copies=copies)


def _of(rule: Rule, *literals: int) -> Emit:
    """The rule of an intrinsic; literals are behind the operands."""

    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        made = rule(r, [*args, *literals], None)
        return () if made is None else (made,)

    return emit


def _typed(rule: Rule, type_: Attribute) -> Emit:
    return lambda r, args, options: (cast(SSAValue, rule(r, list(args), type_)),)


def _integers(*names: str) -> Emit:
    """Operations one behind the other: `f(g(a, b), c)`."""

    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        made = args[0]
        for name, other in zip(names, args[1:], strict=True):
            if name in ("shli", "shrui", "shrsi"):  # the low bits of a count matter
                mask = bit_width(made.type) - 1
                other = r.b.int_binary("andi", other, r.b.const(mask, other.type))
            made = r.b.int_binary(name, made, other)
        return (made,)

    return emit


def _reversed(name: str) -> Emit:
    """A shift that names its count first."""

    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        count, value = args
        if bit_width(value.type) == 64:
            count = r.b.cast("extui", count, i64)
        mask = r.b.const(bit_width(value.type) - 1, value.type)
        return (r.b.int_binary(name, value, r.b.int_binary("andi", count, mask)),)

    return emit


def _floats(*names: str) -> Emit:
    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        made = args[0]
        for name, other in zip(names, args[1:], strict=True):
            made = r.b.float_binary(name, made, other)
        return (made,)

    return emit


def _fma(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    return (r.expanded(math.FmaOp, args, [a.type for a in args], args[0].type),)


def _mad(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    return (r.b.float_binary("addf", r.b.float_binary("mulf", args[0], args[1]), args[2]),)


def _median(signed: bool) -> Emit:
    low, high = ("minsi", "maxsi") if signed else ("minui", "maxui")

    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        b, (x, y, z) = r.b, args
        return (b.int_binary(high, b.int_binary(low, x, y), b.int_binary(low, b.int_binary(high, x, y), z)),)

    return emit


def _copied(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    return (args[0],)


def _unary(cls: type[math.FloorOp]) -> Emit:
    return lambda r, args, options: (r.expanded(cls, (args[0],), (args[0].type,), args[0].type),)


def _cast(name: str, type_: Attribute) -> Emit:
    return lambda r, args, options: (r.b.cast(name, args[0], type_),)


def _to_integer(signed: bool, nearest: bool = False) -> Emit:
    """A float as an integer within its range, toward zero or to nearest."""

    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        x = args[0]
        if nearest:
            x = r.expanded(math.RoundEvenOp, (x,), (f32,), f32)
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.i32.{x.type}"
        return (llvm_call(r, name, (x,), i32),)

    return emit


def _byte_to_float(at: int) -> Emit:
    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        moved = r.b.int_binary("andi", r.b.int_binary("shrui", args[0], r.b.i32(8 * at)), r.b.i32(255))
        return (r.b.cast("uitofp", moved, f32),)

    return emit


def _high(signed: bool) -> Emit:
    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        b = r.b
        x, y = (widened(r, a, signed) for a in args)
        return (b.cast("trunci", b.int_binary("shrui", b.muli(x, y), b.const(32, i64)), i32),)

    return emit


def _insert_field(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    """`(mask & a) | (~mask & b)`."""
    b, (mask, x, y) = r.b, args
    rest = b.int_binary("andi", b.int_binary("xori", mask, b.i32(-1)), y)
    return (b.int_binary("ori", b.int_binary("andi", mask, x), rest),)


def _mask_field(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    """So many ones, so far up."""
    b = r.b
    count, at = (b.int_binary("andi", a, b.i32(31)) for a in args)
    ones = b.int_binary("subi", b.int_binary("shli", b.i32(1), count), b.i32(1))
    return (b.int_binary("shli", ones, at),)


def _counted(name: str, none: int | None) -> Emit:
    """Bits counted by an intrinsic; `none`: what a word of zeros gives."""

    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        b, x = r.b, args[0]
        if none is None:
            return (llvm_call(r, f"llvm.{name}.i32", (x,), i32),)
        made = llvm_call(r, f"llvm.{name}.i32", (x, b.const(0, i1)), i32)
        return (b.select(b.cmpi("eq", x, b.i32(0)), b.i32(none), made),)

    return emit


def _add_bits(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    return (r.b.addi(llvm_call(r, "llvm.ctpop.i32", (args[0],), i32), args[1]),)


def _by_parts(emit: Emit) -> Emit:
    """An instruction on each element of vectors."""

    def done(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        parts = [emit(r, group, options)[0] for group in zip(*(elements(r, a) for a in args), strict=True)]
        return (vector_of(r, parts),)

    return done


def _pack16(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    return (vector_of(r, args),)


def _swap(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    return (args[1], args[0])


def _lop3(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    return (cast(SSAValue, AMD["bitop3"](r, [*args[:3], r.number(args[3])], i32)),)


def _pair_of(elem: Attribute) -> Emit:
    """PTX names the upper half first."""

    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        parts = [bits_of(r, r.expanded(arith.TruncFOp, (a,), (f32,), elem), i16) for a in reversed(args)]
        return (vector_of(r, parts),)

    return emit


def _single(elem: Attribute) -> Emit:
    return lambda r, args, options: (bits_of(r, r.expanded(arith.TruncFOp, (args[0],), (f32,), elem), i16),)


def _wide(elem: Attribute) -> Emit:
    return lambda r, args, options: (r.expanded(arith.ExtFOp, (bits_of(r, args[0], elem),), (elem,), f32),)


def _random_bf16(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    """bf16 of a float, rounded by the low bits of a random word; infinities and NaN stay."""
    b = r.b
    bits, noise = bits_of(r, args[0], i32), b.int_binary("andi", args[1], b.i32(0xFFFF))
    special = b.cmpi("eq", b.int_binary("andi", bits, b.i32(0x7F800000)), b.i32(0x7F800000))
    moved = b.select(special, bits, b.addi(bits, noise))
    return (b.cast("trunci", b.int_binary("shrui", moved, b.i32(16)), i16),)


def _saturating(low: int, high: int, name: str) -> Emit:
    def emit(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
        signed = low < 0
        made = r.b.int_binary(name, *(widened(r, a, signed) for a in args))
        return (r.b.cast("trunci", saturated(r, made, low, high), args[0].type),)

    return emit


def _barrier(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    barrier(r, (), None)
    return ()


_NOTHING = """
    s_nop s_sleep s_setprio s_waitcnt_vscnt s_waitcnt_vmcnt s_waitcnt_lgkmcnt s_waitcnt_expcnt
    s_waitcnt_depctr s_delay_alu s_icache_inv s_dcache_inv s_dcache_wb buffer_wbl2 buffer_inv buffer_gl0_inv
    buffer_gl1_inv s_wait_loadcnt s_wait_storecnt s_wait_dscnt s_wait_kmcnt s_wait_alu
    s_wait_idle s_wait_expcnt s_wait_samplecnt s_wait_bvhcnt s_wait_xcnt s_wait_loadcnt_dscnt s_wait_storecnt_dscnt
    s_sched_barrier s_clause s_barrier_signal s_inst_prefetch s_set_inst_prefetch_distance global_inv global_wb
    global_wbinv v_nop s_ttracedata
    membar.cta membar.gl membar.sys fence.acq_rel.gpu fence.acq_rel.cta fence.acq_rel.sys fence.sc.gpu fence.sc.cta
    fence.proxy.async fence.proxy.async.shared::cta griddepcontrol.wait griddepcontrol.launch_dependents nanosleep.u32
""".split()
"""Waits, hints, and data moved between caches."""

_i = _integers
_f = _floats


def _amd() -> dict[str, Instruction]:
    rows: dict[str, tuple[str, Emit]] = {
        "v_add_u32": ("u <- uu", _i("addi")),
        "v_add_nc_u32": ("u <- uu", _i("addi")),
        "v_add_i32": ("u <- uu", _i("addi")),
        "s_add_u32": ("u <- uu", _i("addi")),
        "s_add_i32": ("u <- uu", _i("addi")),
        "v_sub_u32": ("u <- uu", _i("subi")),
        "v_sub_nc_u32": ("u <- uu", _i("subi")),
        "v_sub_i32": ("u <- uu", _i("subi")),
        "s_sub_u32": ("u <- uu", _i("subi")),
        "s_sub_i32": ("u <- uu", _i("subi")),
        "v_subrev_u32": ("u <- uu", lambda r, a, o: (r.b.int_binary("subi", a[1], a[0]),)),
        "v_mul_lo_u32": ("u <- uu", _i("muli")),
        "s_mul_i32": ("u <- uu", _i("muli")),
        "v_mul_hi_u32": ("u <- uu", _high(False)),
        "v_mul_hi_i32": ("u <- uu", _high(True)),
        "v_mul_u32_u24": ("u <- uu", _typed(AMD["mul.u24"], i32)),
        "v_mul_i32_i24": ("u <- uu", _typed(AMD["mul.i24"], i32)),
        "v_mad_u32_u24": ("u <- uuu", lambda r, a, o: (r.b.addi(cast(SSAValue, AMD["mul.u24"](r, a[:2], i32)), a[2]),)),
        "v_mad_i32_i24": ("u <- uuu", lambda r, a, o: (r.b.addi(cast(SSAValue, AMD["mul.i24"](r, a[:2], i32)), a[2]),)),
        "v_not_b32": ("u <- u", lambda r, a, o: (r.b.int_binary("xori", a[0], r.b.i32(-1)),)),
        "v_bfrev_b32": ("u <- u", _counted("bitreverse", None)),
        "v_ffbh_u32": ("u <- u", _counted("ctlz", -1)),
        "v_clz_i32_u32": ("u <- u", _counted("ctlz", -1)),
        "v_ffbl_b32": ("u <- u", _counted("cttz", -1)),
        "v_ctz_i32_b32": ("u <- u", _counted("cttz", -1)),
        "v_bcnt_u32_b32": ("u <- uu", _add_bits),
        "s_bcnt1_i32_b32": ("u <- u", _counted("ctpop", None)),
        "v_bfi_b32": ("u <- uuu", _insert_field),
        "v_bfm_b32": ("u <- uu", _mask_field),
        "v_bfe_u32": ("u <- uuu", _of(AMD["ubfe"])),
        "v_bfe_i32": ("u <- uuu", _of(AMD["sbfe"])),
        "v_alignbyte_b32": ("u <- uuu", _of(AMD["alignbyte"])),
        "v_perm_b32": ("u <- uuu", _of(AMD["perm"])),
        "v_sad_u8": ("u <- uuu", _of(AMD["sad.u8"])),
        "v_lerp_u8": ("u <- uuu", _of(AMD["lerp"])),
        "v_med3_i32": ("u <- uuu", _median(True)),
        "v_med3_u32": ("u <- uuu", _median(False)),
        "v_med3_f32": ("f <- fff", _of(AMD["fmed3"])),
        "v_med3_num_f32": ("f <- fff", _of(AMD["fmed3"])),
        "v_med3_f16": ("h <- hhh", _of(AMD["fmed3"])),
        "v_swap_b32": ("uu <- uu", _swap),
        "v_readfirstlane_b32": ("u <- u", _of(AMD["readfirstlane"])),
        "v_readlane_b32": ("u <- uu", _of(AMD["readlane"])),
        "v_mbcnt_lo_u32_b32": ("u <- uu", _of(AMD["mbcnt.lo"])),
        "v_mbcnt_hi_u32_b32": ("u <- uu", _of(AMD["mbcnt.hi"])),
        "ds_bpermute_b32": ("u <- uu", _of(AMD["ds.bpermute"])),
        "ds_permute_b32": ("u <- uu", _of(AMD["ds.permute"])),
        "v_exp_f32": ("f <- f", _of(AMD["exp2"])),
        "v_exp_f16": ("h <- h", _of(AMD["exp2"])),
        "v_log_f32": ("f <- f", _of(AMD["log"])),
        "v_rcp_f32": ("f <- f", _of(AMD["rcp"])),
        "v_rcp_iflag_f32": ("f <- f", _of(AMD["rcp"])),
        "v_rcp_f16": ("h <- h", _of(AMD["rcp"])),
        "v_rsq_f32": ("f <- f", _of(AMD["rsq"])),
        "v_sqrt_f32": ("f <- f", _of(AMD["sqrt"])),
        "v_sin_f32": ("f <- f", _of(AMD["sin"])),
        "v_cos_f32": ("f <- f", _of(AMD["cos"])),
        "v_tanh_f32": ("f <- f", _of(AMD["tanh"])),
        "v_fract_f32": ("f <- f", _of(AMD["fract"])),
        "v_floor_f32": ("f <- f", _unary(math.FloorOp)),
        "v_ceil_f32": ("f <- f", _unary(cast("type[math.FloorOp]", math.CeilOp))),
        "v_trunc_f32": ("f <- f", _unary(cast("type[math.FloorOp]", math.TruncOp))),
        "v_rndne_f32": ("f <- f", _unary(cast("type[math.FloorOp]", math.RoundEvenOp))),
        "v_fma_f64": ("d <- ddd", _fma),
        "v_add_f64": ("d <- dd", _f("addf")),
        "v_mul_f64": ("d <- dd", _f("mulf")),
        "v_mad_f32": ("f <- fff", _mad),
        "v_cvt_f32_i32": ("f <- u", _cast("sitofp", f32)),
        "v_cvt_f32_u32": ("f <- u", _cast("uitofp", f32)),
        "v_cvt_i32_f32": ("u <- f", _to_integer(True)),
        "v_cvt_u32_f32": ("u <- f", _to_integer(False)),
        "v_cvt_rpi_i32_f32": ("u <- f", _to_integer(True, nearest=True)),
        "v_cvt_nearest_i32_f32": ("u <- f", _to_integer(True, nearest=True)),
        "v_cvt_f16_f32": ("h <- f", _cast("truncf", f16)),
        "v_cvt_f32_f16": ("f <- h", _cast("extf", f32)),
        "v_cvt_f32_bf16": ("f <- s", _wide(bf16)),
        "v_cvt_off_f32_i4": ("f <- u", _of(AMD["cvt.off.f32.i4"])),
        "v_cvt_sr_bf16_f32": ("s <- fu", _random_bf16),
        "v_cvt_pk_bf16_f32": ("w <- ff", _typed(AMD["cvt.pk.bf16.f32"], _KINDS["w"])),
        "v_cvt_pkrtz_f16_f32": ("p <- ff", _of(AMD["cvt.pkrtz"])),
        "v_cvt_pk_rtz_f16_f32": ("p <- ff", _of(AMD["cvt.pkrtz"])),
        "v_cvt_pk_i16_i32": ("w <- uu", _of(AMD["cvt.pk.i16"])),
        "v_cvt_pk_u16_u32": ("w <- uu", _of(AMD["cvt.pk.u16"])),
        "v_cvt_pk_u8_f32": ("u <- fuu", _of(AMD["cvt.pk.u8.f32"])),
        "v_dot2_f32_f16": ("f <- ppf", _typed(AMD["fdot2"], f32)),
        "v_dot4_i32_i8": ("u <- uuu", _of(AMD["sdot4"], 0)),
        "v_dot4_u32_u8": ("u <- uuu", _of(AMD["udot4"], 0)),
        "v_dot8_i32_i4": ("u <- uuu", _of(AMD["sdot8"], 0)),
        "v_dot8_u32_u4": ("u <- uuu", _of(AMD["udot8"], 0)),
        "v_dot2_i32_i16": ("u <- uuu", _of(AMD["sdot2"], 0)),
        "v_dot2_u32_u16": ("u <- uuu", _of(AMD["udot2"], 0)),
        "v_pack_b32_f16": ("p <- hh", _pack16),
        "v_lshlrev_b32": ("u <- uu", _reversed("shli")),
        "v_lshrrev_b32": ("u <- uu", _reversed("shrui")),
        "v_ashrrev_i32": ("u <- uu", _reversed("shrsi")),
        "v_lshlrev_b64": ("q <- uq", _reversed("shli")),
        "v_lshrrev_b64": ("q <- uq", _reversed("shrui")),
        "v_ashrrev_i64": ("q <- uq", _reversed("shrsi")),
        "s_lshl_b32": ("u <- uu", _i("shli")),
        "s_lshr_b32": ("u <- uu", _i("shrui")),
        "s_ashr_i32": ("u <- uu", _i("shrsi")),
        "v_and_or_b32": ("u <- uuu", _i("andi", "ori")),
        "v_or3_b32": ("u <- uuu", _i("ori", "ori")),
        "v_xor3_b32": ("u <- uuu", _i("xori", "xori")),
        "v_add3_u32": ("u <- uuu", _i("addi", "addi")),
        "v_xad_u32": ("u <- uuu", _i("xori", "addi")),
        "v_lshl_add_u32": ("u <- uuu", _i("shli", "addi")),
        "v_add_lshl_u32": ("u <- uuu", _i("addi", "shli")),
        "v_lshl_or_b32": ("u <- uuu", _i("shli", "ori")),
        "s_wait_asynccnt": ("<- u", _of(counter_wait("lane"))),
        "s_wait_tensorcnt": ("<- u", _of(counter_wait("tensor"))),
        "s_barrier": ("<-", _barrier),
        "s_barrier_wait": ("<- u", _barrier),
    }
    for letter in "vs":
        for word, name in (("and", "andi"), ("or", "ori"), ("xor", "xori")):
            rows[f"{letter}_{word}_b32"] = ("u <- uu", _i(name))
        for word in ("min", "max"):
            rows[f"{letter}_{word}_i32"] = ("u <- uu", _i(f"{word}si"))
            rows[f"{letter}_{word}_u32"] = ("u <- uu", _i(f"{word}ui"))
    for word in ("min", "max"):
        other = "max" if word == "min" else "min"
        rows[f"v_{word}3_i32"] = ("u <- uuu", _i(f"{word}si", f"{word}si"))
        rows[f"v_{word}3_u32"] = ("u <- uuu", _i(f"{word}ui", f"{word}ui"))
        rows[f"v_{word}3_f32"] = rows[f"v_{word}3_num_f32"] = ("f <- fff", _f(f"{word}numf", f"{word}numf"))
        rows[f"v_{word}{other}_f32"] = ("f <- fff", _f(f"{word}numf", f"{other}numf"))
        rows[f"v_{word}_num_f32"] = ("f <- ff", _f(f"{word}numf"))
    for letter, bits, pair in (("f", "f32", "g"), ("h", "f16", "p")):
        for word, name in (("add", "addf"), ("sub", "subf"), ("mul", "mulf"), ("max", "maxnumf"), ("min", "minnumf")):
            rows[f"v_{word}_{bits}"] = (f"{letter} <- {letter * 2}", _f(name))
            rows[f"v_pk_{word}_{bits}"] = (f"{pair} <- {pair * 2}", _by_parts(_f(name)))
        rows[f"v_fma_{bits}"] = (f"{letter} <- {letter * 3}", _fma)
        rows[f"v_pk_fma_{bits}"] = (f"{pair} <- {pair * 3}", _by_parts(_fma))
    for word, name in (("add", "addi"), ("sub", "subi"), ("mul_lo", "muli")):
        rows[f"v_pk_{word}_u16"] = ("w <- ww", _by_parts(_i(name)))
    for i in range(4):
        rows[f"v_cvt_f32_ubyte{i}"] = ("f <- u", _byte_to_float(i))
    made = {name: _row(text, emit) for name, (text, emit) in rows.items()}
    for name in ("v_mov_b32", "s_mov_b32", "v_accvgpr_write_b32", "v_accvgpr_read_b32", "v_accvgpr_write",
                 "v_accvgpr_read"):  # fmt: skip
        made[name] = _row("u <- u", _copied, copies=True)
    made["s_mov_b64"] = made["v_mov_b64"] = _row("q <- q", _copied)
    return made


def _ptx() -> dict[str, Instruction]:
    rows: dict[str, tuple[str, Emit]] = {
        "lop3.b32": ("u <- uuuu", _lop3),
        "prmt.b32": ("u <- uuu", _of(NVIDIA["prmt"])),
        "mad.lo.s32": ("u <- uuu", _i("muli", "addi")),
        "mad.lo.u32": ("u <- uuu", _i("muli", "addi")),
        "mul.hi.u32": ("u <- uu", _high(False)),
        "mul.hi.s32": ("u <- uu", _high(True)),
        "not.b32": ("u <- u", lambda r, a, o: (r.b.int_binary("xori", a[0], r.b.i32(-1)),)),
        "popc.b32": ("u <- u", _counted("ctpop", None)),
        "clz.b32": ("u <- u", _counted("ctlz", 32)),
        "brev.b32": ("u <- u", _counted("bitreverse", None)),
        "bfe.u32": ("u <- uuu", _of(AMD["ubfe"])),
        "bfe.s32": ("u <- uuu", _of(AMD["sbfe"])),
        "cvt.rn.bf16x2.f32": ("w <- ff", _pair_of(bf16)),
        "cvt.rn.f16x2.f32": ("w <- ff", _pair_of(f16)),
        "cvt.rn.bf16.f32": ("s <- f", _single(bf16)),
        "cvt.rn.f16.f32": ("s <- f", _single(f16)),
        "cvt.f32.f16": ("f <- s", _wide(f16)),
        "cvt.f32.bf16": ("f <- s", _wide(bf16)),
        "cvt.rn.f32.s32": ("f <- u", _cast("sitofp", f32)),
        "cvt.rn.f32.u32": ("f <- u", _cast("uitofp", f32)),
        "cvt.rzi.s32.f32": ("u <- f", _to_integer(True)),
        "cvt.rni.s32.f32": ("u <- f", _to_integer(True, nearest=True)),
        "mov.b32": ("u <- u", _copied),
        "mov.u32": ("u <- u", _copied),
        "mov.f32": ("f <- f", _copied),
        "mov.b64": ("q <- q", _copied),
        "add.sat.s32": ("u <- uu", _saturating(-(2**31), 2**31 - 1, "addi")),
        "sub.sat.s32": ("u <- uu", _saturating(-(2**31), 2**31 - 1, "subi")),
        "bar.sync": ("<- u", _block_barrier),
        "barrier.sync": ("<- u", _block_barrier),
        "bar.warp.sync": ("<- u", _of(NVIDIA["bar.warp.sync"])),
    }
    for kind, sign in (("s32", "si"), ("u32", "ui")):
        for word, name in (("add", "addi"), ("sub", "subi"), ("mul.lo", "muli")):
            rows[f"{word}.{kind}"] = ("u <- uu", _i(name))
        for word in ("min", "max"):
            rows[f"{word}.{kind}"] = ("u <- uu", _i(word + sign))
    for word, name in (("and", "andi"), ("or", "ori"), ("xor", "xori"), ("shl", "shli"), ("shr", "shrui")):
        rows[f"{word}.b32"] = ("u <- uu", _i(name))
    rows["shr.u32"], rows["shr.s32"] = ("u <- uu", _i("shrui")), ("u <- uu", _i("shrsi"))
    for flush in ("", "ftz."):
        for word, name in (("ex2.approx", "ex2.approx.f"), ("lg2.approx", "lg2.approx.f"), ("rcp.approx", "rcp.approx"),
                           ("rsqrt.approx", "rsqrt.approx.f"), ("sqrt.approx", "sqrt.approx.f"),
                           ("sin.approx", "sin.approx.f"), ("cos.approx", "cos.approx.f")):  # fmt: skip
            rows[f"{word}.{flush}f32"] = ("f <- f", _of(NVIDIA[name]))
        for word, name in (("add", "addf"), ("sub", "subf"), ("mul", "mulf"), ("add.rn", "addf"), ("mul.rn", "mulf"),
                           ("max", "maxnumf"), ("min", "minnumf"), ("div.approx", "divf")):  # fmt: skip
            rows[f"{word}.{flush}f32"] = ("f <- ff", _f(name))
        rows[f"fma.rn.{flush}f32"] = ("f <- fff", _fma)
    rows["tanh.approx.f32"] = ("f <- f", _of(NVIDIA["tanh.approx"]))
    return {name: _row(text, emit) for name, (text, emit) in rows.items()}


def _block_barrier(r: EmulatedInstructions, args: Sequence[SSAValue], options: Mapping[str, int]) -> Sequence[SSAValue]:
    NVIDIA["barrier.sync"](r, args, None)
    return ()


@cache
def table() -> dict[str, Instruction]:
    """Every instruction by its name."""
    ignored = Instruction((), (), _none, nothing=True)
    return {**_amd(), **_ptx(), **dict.fromkeys(_NOTHING, ignored)}


def find(name: str) -> Instruction | None:
    """An instruction; the encoding at the end of an AMD name does not matter."""
    known = table()
    found = known.get(name)
    for end in ("_e32", "_e64", "_dpp"):
        if found is None and name.endswith(end):
            found = known.get(name.removesuffix(end))
    return found
