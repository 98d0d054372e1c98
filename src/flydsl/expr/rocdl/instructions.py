"""Raw instructions, the result type first as in FlyDSL: `readfirstlane(fx.T.i32, v)`, `rcp(fx.T.f32, x)`.

Types are IR types or scalar classes; results are DSL values. On the cpu stack each does what the hardware does, lanes
included; where a kernel runs on an architecture without the instruction, the line that asks for it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...errors import DSLValueError
from ...target import where
from .. import gpu
from ..aliases import also_called, placed
from ..assembly import note_raw_text
from ..numeric import Boolean, Float16, Float32, Int32, Numeric, as_dsl_value, as_numeric
from ..vector import Vector
from .target import amd_target, emitter, ir_type, need

if TYPE_CHECKING:
    from ..annotations import ElementLike, IntLike, MadeT, ResultType, ScalarLike, SSAValue, ValueLike
    from ..tensor import Tensor


def _value(x: ValueLike) -> SSAValue:
    """IR value of a DSL value, a number or an IR value."""
    return x.ir_value() if isinstance(x, Vector) else as_numeric(x).ir_value()


def _class(ty: ElementLike) -> type[Numeric]:
    """Scalar class of a result type."""
    return cast("type[Numeric]", ty) if isinstance(ty, type) else Numeric.from_ir_type(ty)


def intrinsic(name: str, ty: ElementLike | None, operands: Sequence[ValueLike]) -> Any:
    """`llvm.amdgcn.<name>` on any operands; the name carries its type suffix.

    Nothing checks that the architecture has it; where it has not, compiling fails in a worker process. The cpu stack
    does what the instruction does, or refuses it by its name.

    >>> @flyc.kernel
    ... def sine_kernel(x: fx.Tensor):
    ...     x[0] = fx.rocdl.intrinsic("sin.f32", fx.Float32, [x[0]])
    >>> @flyc.jit
    ... def sine(x: fx.Tensor):
    ...     sine_kernel(x).launch(grid=1, block=1)
    >>> "v_sin_f32" in flyc.compile(sine, np.zeros(1, "f4"), target="rocm:gfx942").artifact.asm
    True
    """
    amd_target(f"fx.rocdl.intrinsic({name!r})")
    result = None if ty is None else ir_type(ty)
    note_raw_text()
    made = emitter().intrinsic(f"llvm.amdgcn.{name}", result, [_value(x) for x in operands])
    return None if made is None else as_dsl_value(made)


def call(name: str, ty: ElementLike, *operands: SSAValue) -> Any:
    """`llvm.amdgcn.<name>`, which the targets of the caller are known to have."""
    amd_target(f"llvm.amdgcn.{name}")
    made = emitter().intrinsic(f"llvm.amdgcn.{name}", ir_type(ty), list(operands))
    return as_dsl_value(made, ty if isinstance(ty, type) else None)


def _const(value: int, width: int = 32) -> SSAValue:
    from xdsl.dialects.builtin import IntegerType

    return emitter().constant(value, IntegerType(width))


def _wave() -> int:
    return amd_target("fx.rocdl").warp_size


# --- lanes --------------------------------------------------------------------------------------------------------


def _suffix(ty: ElementLike) -> str:
    text = str(ir_type(ty))
    if text.startswith("!llvm.ptr"):
        return "p0"
    return text


@also_called(ty="res", value="src")
@placed
def readfirstlane(res: ResultType[MadeT], src: ValueLike) -> MadeT:
    """The value of the first active lane, in all lanes; it then lives in a scalar register.

    >>> flyc.evaluate(lambda: fx.rocdl.readfirstlane(fx.Int32, fx.lane_id() + 7), threads=4, target="cpu:gfx942")
    [7, 7, 7, 7]
    """
    return call(f"readfirstlane.{_suffix(res)}", res, _value(src))


@also_called(ty="res", value="src")
@placed
def readlane(res: ResultType[MadeT], src: ValueLike, lane: IntLike) -> MadeT:
    """The value of one lane, which must be the same number in all lanes.

    >>> flyc.evaluate(lambda: fx.rocdl.readlane(fx.Int32, fx.lane_id() * 10, 2), threads=4, target="cpu:gfx942")
    [20, 20, 20, 20]
    """
    return call(f"readlane.{_suffix(res)}", res, _value(src), Int32(as_numeric(lane)).ir_value())


@also_called(ty="res")
@placed
def ballot(res: ResultType[MadeT], pred: ScalarLike) -> MadeT:
    """One bit per lane: where the predicate holds. i64 everywhere, i32 on waves of 32 lanes.

    >>> flyc.evaluate(lambda: fx.rocdl.ballot(fx.Int64, fx.lane_id() != 1), threads=4, target="cpu:gfx942")
    [13, 13, 13, 13]
    """
    flag = Boolean(as_numeric(pred))
    width = _class(res).width
    if width == 32 and _wave() == 64:
        raise DSLValueError("ballot of a wave of 64 lanes needs a 64-bit result")
    return call(f"ballot.i{width}", res, flag.ir_value())


@also_called(ty="res", byte_index="index", value="src")
@placed
def ds_bpermute(res: ResultType[MadeT], index: IntLike, src: ScalarLike) -> MadeT:
    """The value of lane `index / 4`: each lane says where it reads; that of one that takes no part is 0.

    >>> def example():
    ...     return fx.rocdl.ds_bpermute(fx.Int32, (3 - fx.lane_id()) * 4, fx.lane_id() * 10)
    >>> flyc.evaluate(example, threads=4, target="cpu:gfx942")
    [30, 20, 10, 0]
    """
    word = _as_word(src)
    moved = call("ds.bpermute", Int32, Int32(as_numeric(index)).ir_value(), word.ir_value())
    return _from_word(moved, res)


def ds_permute(ty: ResultType[MadeT], byte_index: IntLike, value: ScalarLike) -> MadeT:
    """Each lane sends its value to lane `byte_index / 4`; the highest sender wins.

    >>> def example():
    ...     return fx.rocdl.ds_permute(fx.Int32, (3 - fx.lane_id()) * 4, fx.lane_id() * 10)
    >>> flyc.evaluate(example, threads=4, target="cpu:gfx942")
    [30, 20, 10, 0]
    """
    moved = call("ds.permute", Int32, Int32(as_numeric(byte_index)).ir_value(), _as_word(value).ir_value())
    return _from_word(moved, ty)


@also_called(ty="res", value="src")
def ds_swizzle(res: ResultType[MadeT], src: ScalarLike, offset: int) -> MadeT:
    """The value of a lane that a pattern names; that of a lane that takes no part is 0.

    Patterns below 0x8000 read lane `((i & and) | or) ^ xor` of every 32, the masks being the three 5-bit fields.
    From 0x8000 on a lane of four reads the one that its two bits of the low byte name, from 0xC000 on lanes rotate, and
    from 0xE000 on their numbers are reversed bit by bit, as an FFT needs it.

    >>> flyc.evaluate(lambda: fx.rocdl.ds_swizzle(fx.Int32, fx.lane_id(), 0x041F), threads=4, target="cpu:gfx942")
    [1, 0, 3, 2]
    >>> flyc.evaluate(lambda: fx.rocdl.ds_swizzle(fx.Int32, fx.lane_id(), 0x801B), threads=4, target="cpu:gfx942")
    [3, 2, 1, 0]
    """
    return _from_word(call("ds.swizzle", Int32, _as_word(src).ir_value(), _const(offset)), res)


def _as_word(value: ScalarLike) -> Int32:
    """A 32-bit value as an Int32."""
    number = as_dsl_value(value)
    if isinstance(number, Vector):
        return Int32(number.bitcast(Int32)[0])
    cls = cast("Numeric", number).dtype
    if cls.width != 32:
        raise DSLValueError(f"this instruction moves 32 bits, got a {cls}")
    return number.bitcast(Int32) if cls.is_float else Int32(number)


def _from_word(word: Int32, ty: ElementLike) -> Any:
    cls = _class(ty)
    if cls.width != 32:
        raise DSLValueError(f"this instruction gives 32 bits, not {cls}")
    return word.bitcast(cls) if cls.is_float else cls(word)


@also_called(ty="res")
def update_dpp(
    res: ResultType[MadeT],
    old: ScalarLike,
    src: ScalarLike,
    dpp_ctrl: int,
    row_mask: int = 0xF,
    bank_mask: int = 0xF,
    bound_ctrl: bool = False,
) -> MadeT:
    """Data-parallel move within rows of 16 lanes; where masks or bounds forbid, `old` (0 with `bound_ctrl`).

    >>> def example():
    ...     return fx.rocdl.update_dpp(fx.Int32, -1, fx.lane_id(), 0x1B, 0xF, 0xF, True)
    >>> flyc.evaluate(example, threads=4, target="cpu:gfx942")
    [3, 2, 1, 0]
    """
    _check_dpp(dpp_ctrl)
    operands = [_as_word(old).ir_value(), _as_word(src).ir_value(), _const(dpp_ctrl), _const(row_mask)]
    return _from_word(call("update.dpp.i32", Int32, *operands, _const(bank_mask), _const(int(bound_ctrl), 1)), res)


def mov_dpp(
    ty: ResultType[MadeT],
    src: ScalarLike,
    dpp_ctrl: int,
    row_mask: int = 0xF,
    bank_mask: int = 0xF,
    bound_ctrl: bool = True,
) -> MadeT:
    """`update_dpp` that keeps the lane's own value where nothing is moved.

    >>> def example():
    ...     return fx.rocdl.mov_dpp(fx.Int32, fx.lane_id(), 0x1B, 0xF, 0xF, True)
    >>> flyc.evaluate(example, threads=4, target="cpu:gfx942")
    [3, 2, 1, 0]
    """
    return update_dpp(ty, src, src, dpp_ctrl, row_mask, bank_mask, bound_ctrl)


def _check_dpp(ctrl: int) -> None:
    target = amd_target("fx.rocdl.update_dpp")
    wave_only = 0x130 <= ctrl <= 0x13C or ctrl in (0x142, 0x143)
    if wave_only and not target.has("dpp_wave"):
        raise DSLValueError(f"DPP control {ctrl:#x} exists on {where('dpp_wave')}, not on {target.arch}")
    if 0x160 <= ctrl <= 0x16F and target.has("amd") and not target.has("dpp_xmask"):
        raise DSLValueError(f"DPP row_xmask exists on {where('dpp_xmask')}, not on {target.arch}")


@also_called(ty="res", vdst="old", vsrc="src", bc="bound_control")
def permlane32_swap(
    res: ResultType[MadeT], old: ScalarLike, src: ScalarLike, fi: bool = False, bound_control: bool = False
) -> tuple[MadeT, MadeT]:
    """Exchange the upper half of `old` with the lower half of `src` (gfx950).

    >>> def example():
    ...     return fx.rocdl.permlane32_swap(fx.Int32, fx.lane_id(), fx.lane_id() + 100)
    >>> flyc.evaluate(example, threads=64, target="cpu:gfx950")[:2]
    [(0, 32), (1, 33)]
    """
    return _swap("permlane32_swap", 32, res, old, src, fi, bound_control)


@also_called(ty="res", vdst="old", vsrc="src", bc="bound_control")
def permlane16_swap(
    res: ResultType[MadeT], old: ScalarLike, src: ScalarLike, fi: bool = False, bound_control: bool = False
) -> tuple[MadeT, MadeT]:
    """Exchange the odd rows of 16 lanes of `old` with the even rows of `src` (gfx950, gfx1250).

    >>> def example():
    ...     return fx.rocdl.permlane16_swap(fx.Int32, fx.lane_id(), fx.lane_id() + 100)
    >>> flyc.evaluate(example, threads=64, target="cpu:gfx950")[15:17]
    [(15, 31), (100, 116)]
    """
    return _swap("permlane16_swap", 16, res, old, src, fi, bound_control)


def _swap(
    what: str, rows: int, ty: ElementLike, vdst: ScalarLike, vsrc: ScalarLike, fi: bool, bc: bool
) -> tuple[Any, Any]:
    need(what, what)
    return _emit_swap(rows, ty, vdst, vsrc, fi, bc)


def _emit_swap(rows: int, ty: ElementLike, vdst: ScalarLike, vsrc: ScalarLike, fi: bool, bc: bool) -> tuple[Any, Any]:
    from xdsl.dialects.builtin import i32

    from ...dialects.upstream import llvm
    from ...ir.builder import i64_list
    from ..emit.trace import current

    pair = llvm.StructType((False, (i32, i32)))
    operands = [_as_word(vdst).ir_value(), _as_word(vsrc).ir_value(), _const(int(fi), 1), _const(int(bc), 1)]
    made = emitter().intrinsic(f"llvm.amdgcn.permlane{rows}.swap", pair, operands)
    parts = [current().pure(llvm.ExtractValueOp, (made,), i32, {"position": i64_list((i,))}) for i in range(2)]
    return _from_word(Int32(parts[0]), ty), _from_word(Int32(parts[1]), ty)


def wave_id() -> Int32:
    """Index of the wave in its workgroup (gfx12 and later; elsewhere from the thread index).

    >>> flyc.evaluate(lambda: fx.rocdl.wave_id(), threads=128, target="cpu:gfx942")[62:66]
    [0, 0, 1, 1]
    """
    target = amd_target("fx.rocdl.wave_id")
    if target.has("wave_id") and not target.on_host:
        return call("wave.id", Int32)
    x, y, z = gpu.thread_idx
    dx, dy, _ = gpu.block_dim
    return (x + dx * (y + dy * z)) // _wave()


# --- arithmetic ---------------------------------------------------------------------------------------------------


def _unary(name: str, ty: ResultType[MadeT], value: ScalarLike) -> MadeT:
    number = as_dsl_value(value)
    same = _class(ty) if isinstance(number, Numeric) else None
    return call(f"{name}.{_suffix(ty)}", ty, _value(number if same is None else same(number)))


@also_called(ty="res", value="arg")
@placed
def rcp(res: ResultType[MadeT], arg: ScalarLike) -> MadeT:
    """`1 / value`, about one unit in the last place.

    >>> flyc.evaluate(lambda x: fx.rocdl.rcp(fx.Float32, x), 4.0, target="cpu:gfx942")
    0.25
    """
    return _unary("rcp", res, arg)


@also_called(ty="res", value="arg")
def rsq(res: ResultType[MadeT], arg: ScalarLike) -> MadeT:
    """`1 / sqrt(value)`, about one unit in the last place.

    >>> flyc.evaluate(lambda x: fx.rocdl.rsq(fx.Float32, x), 4.0, target="cpu:gfx942")
    0.5
    """
    return _unary("rsq", res, arg)


@also_called(ty="res", value="arg")
def exp2(res: ResultType[MadeT], arg: ScalarLike) -> MadeT:
    """`2 ** value` without the guard for denormals.

    >>> flyc.evaluate(lambda x: fx.rocdl.exp2(fx.Float32, x), 3.0, target="cpu:gfx942")
    8.0
    """
    return _unary("exp2", res, arg)


def log2(ty: ResultType[MadeT], value: ScalarLike) -> MadeT:
    """Base-2 logarithm without the guard for denormals.

    >>> flyc.evaluate(lambda x: fx.rocdl.log2(fx.Float32, x), 8.0, target="cpu:gfx942")
    3.0
    """
    return _unary("log", ty, value)


@also_called(ty="res", a="src0", b="src1", c="src2")
def fmed3(res: ResultType[MadeT], src0: ScalarLike, src1: ScalarLike, src2: ScalarLike) -> MadeT:
    """The middle one of three.

    >>> flyc.evaluate(lambda x: fx.rocdl.fmed3(fx.Float32, x, 0.0, 1.0), 4.0, target="cpu:gfx942")
    1.0
    """
    return call(f"fmed3.{_suffix(res)}", res, _value(src0), _value(src1), _value(src2))


@also_called(hi="src_hi", lo="src_lo")
@placed
def perm_b32(src_hi: ScalarLike, src_lo: ScalarLike, sel: ScalarLike) -> Int32:
    """Bytes of `{hi, lo}` by the four selectors of `sel`: 0-3 of lo, 4-7 of hi, 12 zero, 13 and up 0xFF.

    >>> def example(hi, lo):
    ...     return fx.rocdl.perm_b32(hi, lo, 0x07060100)
    >>> hex(flyc.evaluate(example, 0x11223344, 0x55667788, target="cpu:gfx942"))
    '0x11227788'
    """
    return call(
        "perm",
        Int32,
        _value(Int32(as_numeric(src_hi))),
        _value(Int32(as_numeric(src_lo))),
        _value(Int32(as_numeric(sel))),
    )


# --- conversions --------------------------------------------------------------------------------------------------


@also_called(ty="res", a="src_a", b="src_b")
def cvt_pkrtz(res: ElementLike, src_a: ScalarLike, src_b: ScalarLike) -> Vector:
    """Two Float32 to a pair of Float16, rounded toward zero.

    >>> flyc.evaluate(lambda x: fx.rocdl.cvt_pkrtz(fx.T.f16x2, x, 0.1), 1.5, target="cpu:gfx942")
    [1.5, 0.09997...]
    """
    from ...ir.types import vector_type

    return call("cvt.pkrtz", vector_type(Float16.ir_type, 2), _value(src_a), _value(src_b))


def _pack_fp8(
    name: str, bf8: bool, ty: ElementLike, a: ScalarLike, b: ScalarLike, old: ScalarLike, word_sel: bool
) -> Any:
    need(name, "cvt_fp8")
    high = bool(word_sel)
    operands = [_value(a), _value(b), Int32(as_numeric(old)).ir_value(), _const(int(high), 1)]
    return call(f"cvt.pk.{'bf8' if bf8 else 'fp8'}.f32", Int32, *operands)


@also_called(ty="res", a="src_a", b="src_b")
@placed
def cvt_pk_fp8_f32(
    res: ResultType[MadeT], src_a: ScalarLike, src_b: ScalarLike, old: ScalarLike = 0, word_sel: bool = False
) -> MadeT:
    """Two Float32 to two fp8 (e4m3) bytes in one half of an i32; the other half is that of `old`.

    >>> flyc.evaluate(lambda x: fx.rocdl.cvt_pk_fp8_f32(fx.Int32, x, 2.0), 1.0, target="cpu:gfx942")
    18496
    """
    return _pack_fp8("cvt_pk_fp8_f32", False, res, src_a, src_b, old, word_sel)


@also_called(ty="res", a="src_a", b="src_b")
def cvt_pk_bf8_f32(
    res: ResultType[MadeT], src_a: ScalarLike, src_b: ScalarLike, old: ScalarLike = 0, word_sel: bool = False
) -> MadeT:
    """Two Float32 to two bf8 (e5m2) bytes in one half of an i32.

    >>> flyc.evaluate(lambda x: fx.rocdl.cvt_pk_bf8_f32(fx.Int32, x, 2.0), 1.0, target="cpu:gfx942")
    17472
    """
    return _pack_fp8("cvt_pk_bf8_f32", True, res, src_a, src_b, old, word_sel)


def _pair_fp8(name: str, bf8: bool, value: ScalarLike, word_sel: bool) -> Any:
    need(name, "cvt_fp8")
    high = bool(word_sel)
    from ...ir.types import vector_type

    operands = [Int32(as_numeric(value)).ir_value(), _const(int(high), 1)]
    return call(f"cvt.pk.f32.{'bf8' if bf8 else 'fp8'}", vector_type(Float32.ir_type, 2), *operands)


@also_called(ty="res", value="src")
@placed
def cvt_pk_f32_fp8(res: ElementLike | None, src: ScalarLike, word_sel: bool = False) -> Vector:
    """Two fp8 bytes of one half of an i32 to a pair of Float32.

    >>> flyc.evaluate(lambda x: fx.rocdl.cvt_pk_f32_fp8(fx.T.f32x2, x), 0x4840, target="cpu:gfx942")
    [1.0, 2.0]
    """
    return _pair_fp8("cvt_pk_f32_fp8", False, src, word_sel)


@also_called(ty="res", value="src")
def cvt_pk_f32_bf8(res: ElementLike | None, src: ScalarLike, word_sel: bool = False) -> Vector:
    """Two bf8 bytes of one half of an i32 to a pair of Float32.

    >>> flyc.evaluate(lambda x: fx.rocdl.cvt_pk_f32_bf8(fx.T.f32x2, x), 0x4440, target="cpu:gfx942")
    [1.0, 2.0]
    """
    return _pair_fp8("cvt_pk_f32_bf8", True, src, word_sel)


def _one_fp8(name: str, bf8: bool, value: ScalarLike, byte: int) -> Any:
    need(name, "cvt_fp8")
    return call(f"cvt.f32.{'bf8' if bf8 else 'fp8'}", Float32, Int32(as_numeric(value)).ir_value(), _const(byte))


@also_called(ty="res", value="src_a")
def cvt_f32_fp8(res: ResultType[MadeT], src_a: ScalarLike, byte_sel: int = 0) -> MadeT:
    """One fp8 byte of an i32 as Float32.

    >>> flyc.evaluate(lambda x: fx.rocdl.cvt_f32_fp8(fx.Float32, x), 0x48, target="cpu:gfx942")
    2.0
    """
    return _one_fp8("cvt_f32_fp8", False, src_a, byte_sel)


@also_called(ty="res", value="src_a")
def cvt_f32_bf8(res: ResultType[MadeT], src_a: ScalarLike, byte_sel: int = 0) -> MadeT:
    """One bf8 byte of an i32 as Float32.

    >>> flyc.evaluate(lambda x: fx.rocdl.cvt_f32_bf8(fx.Float32, x), 0x44, target="cpu:gfx942")
    2.0
    """
    return _one_fp8("cvt_f32_bf8", True, src_a, byte_sel)


# --- matrix instructions by name ----------------------------------------------------------------------------------

_MFMA = re.compile(r"mfma_(f32|i32|f64)_(\d+)x(\d+)x(\d+)_?(\w+)")
_INPUTS = {
    "f32": "Float32",
    "xf32": "Float32",
    "f16": "Float16",
    "bf16": "BFloat16",
    "bf16_1k": "BFloat16",
    "i8": "Int8",
    "f64": "Float64",
    "fp8": "Float8E4M3FN",
    "bf8": "Float8E5M2",
}


def by_name(name: str) -> Callable[[ElementLike, Sequence[ValueLike]], Any]:
    """`mfma_f32_16x16x16f16(result_type, [a, b, c, cbsz, abid, blgp])` and its like."""
    match = _MFMA.fullmatch(name)
    if match is None:
        raise AttributeError(f"flydsl.expr.rocdl has no attribute {name!r}")
    acc, m, n, k, kind = match.groups()
    words = kind.split("_") if kind.startswith(("fp8_", "bf8_")) else [kind, kind]
    if any(word not in _INPUTS for word in words):
        raise AttributeError(f"flydsl.expr.rocdl has no attribute {name!r}")

    def call(result_type: ElementLike, operands: Sequence[ValueLike]) -> Any:
        return _mfma(acc, int(m), int(n), int(k), words, operands)

    call.__name__ = name
    call.__doc__ = f"The instruction v_{name} on values: [a, b, c, cbsz, abid, blgp], the last three zero."
    return call


def _mfma(acc: str, m: int, n: int, k: int, words: Sequence[str], operands: Sequence[ValueLike]) -> Vector:
    from .. import numeric
    from ..tensor import make_rmem_tensor
    from ..tensors.matrix_product import mma_atom_call
    from ..tensors.tiled import make_mma_atom
    from .atoms import MFMA

    if any(int(as_numeric(x)) for x in operands[3:]):
        raise DSLValueError("the modifiers cbsz, abid and blgp are not supported; give 0")
    fnuz = amd_target("mfma").has("fp8_fnuz")
    names = [_INPUTS[w] + ({"fp8": "UZ", "bf8": "FNUZ"}.get(w, "") if fnuz else "") for w in words]
    a, b = (getattr(numeric, x) for x in names)
    out: type[Numeric] = {"f32": Float32, "i32": Int32, "f64": numeric.Float64}[acc]
    atom = make_mma_atom(MFMA(m, n, k, (a, b), out))
    fragments: list[Tensor] = []
    for value, cls, count in zip(operands, (a, b, out), (m * k // 64, n * k // 64, m * n // 64), strict=False):
        fragment = make_rmem_tensor(count, cls)
        fragment.store(bits_as(value, cls, count))
        fragments.append(fragment)
    mma_atom_call(atom, fragments[2], fragments[0], fragments[1], fragments[2])
    return fragments[2].load()


def bits_as(value: ValueLike, cls: type[Numeric], count: int) -> Vector:
    """A value of any type as `count` elements of a class; what it holds beyond them is dropped."""
    v = value if isinstance(value, Vector) else as_dsl_value(value)
    if not isinstance(v, Vector):
        v = Vector.from_elements([v], v.dtype)
    v = v if v.dtype is cls else v.bitcast(cls)
    return v if v.numel == count else v.reshape(v.numel).shuffle(v, list(range(count)))
