"""Kernels that reach into `flydsl._mlir`: on the cpu stack, emulating AMD's instructions, and compiled for AMD GPUs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import arith, fly, gpu, llvm, math, rocdl, scf, vector
from flydsl._mlir.extras import types as T
from flydsl.errors import DSLCompileError, DSLTypeError

LANE = np.arange(64)
DYNAMIC = -(2**31)
Body = Callable[[Any, Any], None]


@pytest.fixture(autouse=True)
def emulate(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Choose what the cpu stack emulates."""

    def choose(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    choose("gfx942")
    return choose


def launcher(body: Body) -> Any:
    @flyc.kernel
    def kernel(a: fx.Tensor, out: fx.Tensor):
        body(a, out)

    @flyc.jit
    def launch(a: fx.Tensor, out: fx.Tensor):
        kernel(a, out).launch(grid=(1, 1, 1), block=(64, 1, 1))

    return launch


def run(body: Body, a: np.ndarray, count: int, dtype: Any = np.int32) -> np.ndarray:
    """The rows of 64 values that a body writes; all of them are poisoned before."""
    out = np.full(64 * count, -77, dtype)
    launcher(body)(a, out)
    return out.reshape(count, 64)


def assembly(body: Body, target: str) -> str:
    a = np.zeros(64, np.int32)
    return flyc.compile(launcher(body), a, a, target=target).artifact.asm


def const(value: float, type_: Any = None) -> Any:
    return arith.constant(type_ or T.i32(), value)


def thread() -> fx.Int32:
    return fx.Int32(arith.index_cast(T.i32(), gpu.thread_id(gpu.Dimension.x)))


def address(tensor: Any, i: Any, elem: Any) -> Any:
    base = fly.extract_aligned_pointer_as_index(llvm.PointerType.get(1), tensor)
    return llvm.GEPOp(llvm.PointerType.get(1), base, [i], [DYNAMIC], elem, llvm.GEPNoWrapFlags.none)


def mixed(a: Any, out: Any) -> None:
    i = thread()
    x = llvm.load(T.f32(), address(a, i, T.f32()), alignment=4)
    positive = arith.cmpf(arith.CmpFPredicate.OGT, x, arith.constant(T.f32(), 0.0))
    branch = scf.IfOp(positive, [T.f32()], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([math.sqrt(x)])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([x * 2.0])
    loop = scf.ForOp(0, 4, 1, [branch.results[0]])
    with ir.InsertionPoint(loop.body):
        scf.YieldOp([loop.inner_iter_args[0] + fx.Float32(arith.index_cast(T.i32(), loop.induction_variable))])
    v = vector.from_elements(ir.VectorType.get([4], T.f32()), [loop.results[0], x, x, x])
    bits = vector.bitcast(T.vector(4, T.i32()), v + v)
    total = vector.reduction(T.f32(), vector.CombiningKind.ADD, vector.bitcast(T.vector(4, T.f32()), bits))
    guarded = scf.IfOp(i < 60)
    with ir.InsertionPoint(guarded.then_block):
        llvm.StoreOp(arith.addf(total, vector.extract(v, [], [0])), address(out, i, T.f32()), alignment=4)
        scf.YieldOp([])


def test_raw_ops_and_the_language_mix() -> None:
    a = np.random.default_rng().standard_normal(64).astype(np.float32)
    (out,) = run(mixed, a, 1, np.float32)
    wide = a.astype(np.float64)
    y = np.where(wide > 0, np.sqrt(np.abs(wide)), 2 * wide) + 6
    wanted = np.where(LANE < 60, 2 * y + 6 * wide + y, -77)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)
    asm = assembly(mixed, "rocm:gfx942")
    assert "v_sqrt_f32" in asm and "global_load_dword" in asm and "global_store_dword" in asm


def lanes(a: Any, out: Any) -> None:
    i = fx.Int32(rocdl.workitem_id_x(T.i32()))
    v = a[i]
    low = rocdl.mbcnt_lo(T.i32(), const(-1), const(0))
    found = [
        llvm.call_intrinsic(T.i32(), "llvm.amdgcn.readfirstlane.i32", [v], [], []),
        rocdl.readlane(T.i32(), v, const(5)),
        rocdl.ds_bpermute(T.i32(), (63 - i) * 4, v),
        rocdl.ds_swizzle(T.i32(), v, const(0x041F)),
        rocdl.ds_swizzle(T.i32(), v, const(0x8000 | 0b00011011)),
        rocdl.update_dpp(T.i32(), const(-1), v, 0x111, 0xF, 0xF, False),
        rocdl.update_dpp(T.i32(), const(-1), v, 0x142, 0xA, 0xF, False),
        rocdl.update_dpp(T.i32(), const(-1), v, 0x140, 0xF, 0x3, True),
        rocdl.mbcnt_hi(T.i32(), const(-1), low),
        llvm.call_intrinsic(T.i32(), "llvm.amdgcn.perm", [v, i, const(0x07060100)], [], []),
        rocdl.sdot4_(T.i32(), v, const(0x01FF0203), i),
    ]
    rocdl.sched_barrier(0)
    rocdl.s_waitcnt(0)
    rocdl.s_barrier()
    llvm.inline_asm(None, [], "s_waitcnt vmcnt(0) lgkmcnt(0)", "", has_side_effects=True)
    for j, value in enumerate(found):
        out[j * 64 + i] = fx.Int32(value)


def test_instructions_of_lanes() -> None:
    a = np.random.default_rng().integers(-(2**31), 2**31, 64, dtype=np.int64).astype(np.int32)
    got = run(lanes, a, 11)
    row = LANE % 16
    shifted = np.where(row == 0, -1, a[np.maximum(LANE - 1, 0)])
    behind = np.where((LANE // 16) % 2 == 1, a[np.maximum(LANE // 16 * 16 - 1, 0)], -1)
    mirrored = np.where(row < 8, a[LANE // 16 * 16 + 15 - row], -1)
    permuted = (a & -65536) | (LANE & 0xFFFF)
    signed = a.view(np.int8).reshape(64, 4).astype(np.int64)
    dot = (signed @ np.array([3, 2, -1, 1]) + LANE).astype(np.int32)
    wanted = [np.full(64, a[0]), np.full(64, a[5]), a[::-1], a[LANE ^ 1], a[LANE // 4 * 4 + 3 - LANE % 4], shifted,
              behind, mirrored, LANE, permuted, dot]  # fmt: skip
    for j, row_wanted in enumerate(wanted):
        np.testing.assert_array_equal(got[j], row_wanted, err_msg=str(j))
    asm = assembly(lanes, "rocm:gfx942")
    for word in ("v_readfirstlane_b32", "ds_bpermute_b32", "row_shr:1", "v_perm_b32"):
        assert word in asm


def buffers(a: Any, out: Any) -> None:
    i = thread()
    base = fly.extract_aligned_pointer_as_index(llvm.PointerType.get(1), a)
    rsrc = rocdl.make_buffer_rsrc(
        llvm.PointerType.get(8), base, const(0, T.i16()), const(4 * 40, T.i64()), const(0x27000)
    )
    loop = scf.ForOp(0, 2, 1, [rsrc, const(0)])
    with ir.InsertionPoint(loop.body):
        carried, total = loop.inner_iter_args
        value = fx.Int32(rocdl.raw_ptr_buffer_load(T.i32(), carried, i * 4, const(0), aux=0))
        scf.YieldOp([carried, total + value])
    out[i] = fx.Int32(loop.results[1])
    rocdl.raw_ptr_buffer_store(i, rsrc, i * 4, const(0), aux=0)
    added = llvm.call_intrinsic(
        T.i32(), "llvm.amdgcn.raw.ptr.buffer.atomic.add.i32", [const(1), rsrc, i * 4, const(0), const(0)], [], []
    )
    out[64 + i] = fx.Int32(added)


def test_buffers_are_bounded_as_the_hardware_does() -> None:
    a = np.random.default_rng().integers(1, 1000, 64).astype(np.int32)
    before = a.copy()
    got = run(buffers, a, 2)
    np.testing.assert_array_equal(got[0], np.where(LANE < 40, 2 * before, 0))
    np.testing.assert_array_equal(got[1], np.where(LANE < 40, LANE, 0))
    np.testing.assert_array_equal(a, np.where(LANE < 40, LANE + 1, before))


def numbers(a: Any, out: Any) -> None:
    i = thread()
    x = a[i]
    packed = rocdl.cvt_pk_fp8_f32(T.i32(), x, x, const(0), True)
    pair = rocdl.cvt_pk_f32_fp8(T.vector(2, T.f32()), packed, True)
    one = arith.constant(T.f32(), 1.0)
    found = [
        rocdl.exp2(T.f32(), x),
        rocdl.rcp(T.f32(), x),
        rocdl.rsq(T.f32(), x),
        rocdl.log(T.f32(), x),
        llvm.call_intrinsic(T.f32(), "llvm.amdgcn.sin.f32", [x], [], []),
        rocdl.fmed3(T.f32(), x, one, arith.constant(T.f32(), 2.0)),
        pair[1],
        llvm.inline_asm(T.f32(), [x, one], "v_fma_f32 $0, $1, $1, $2", "=v,v,v"),
    ]
    for j, value in enumerate(found):
        out[j * 64 + i] = fx.Float32(value)


def test_arithmetic_and_conversions() -> None:
    a = np.random.default_rng().uniform(0.5, 3, 64).astype(np.float32)
    got = run(numbers, a, 8, np.float32)
    x = a.astype(np.float64)
    wanted = [2**x, 1 / x, 1 / np.sqrt(x), np.log2(x), np.sin(2 * np.pi * x), np.clip(x, 1, 2), None, x * x + 1]
    for j, row in enumerate(wanted):
        if row is not None:
            np.testing.assert_allclose(got[j], row, rtol=2e-6, atol=2e-6, err_msg=str(j))
    assert np.all(np.abs(got[6] - x) <= x / 16)  # three bits of mantissa


def product(a: Any, out: Any) -> None:
    i = thread()
    m, q = i % 16, i // 16
    left = vector.from_elements(T.vector(4, T.f16()), [a[m * 16 + q * 4 + j] for j in range(4)])
    right = vector.from_elements(T.vector(4, T.f16()), [a[256 + m * 16 + q * 4 + j] for j in range(4)])
    zero = arith.constant(T.vector(4, T.f32()), [0.0] * 4)
    d = rocdl.mfma_f32_16x16x16f16_(T.vector(4, T.f32()), left, right, zero, 0, 0, 0)
    for j in range(4):
        out[(q * 4 + j) * 16 + m] = d[j]


def test_a_matrix_instruction_by_its_op() -> None:
    data = np.random.default_rng().standard_normal((2, 16, 16)).astype(np.float16)
    got = run(product, data.reshape(-1), 4, np.float32).reshape(16, 16)
    x, y = data.astype(np.float64)
    np.testing.assert_allclose(got, x @ y.T, rtol=1e-5, atol=1e-5)


def test_what_no_rule_describes_is_refused_by_name() -> None:
    def unknown(a: Any, out: Any) -> None:
        out[0] = fx.Int32(llvm.call_intrinsic(T.i32(), "llvm.amdgcn.groupstaticsize", [], [], []))

    def text(a: Any, out: Any) -> None:
        out[0] = fx.Int32(llvm.inline_asm(T.i32(), [a[0]], "v_cubeid_f32 $0, $1, $1, $1", "=v,v"))

    def op(a: Any, out: Any) -> None:
        rocdl.s_wakeup_barrier(llvm.inttoptr(llvm.PointerType.get(3), const(0)))

    for body, name in (
        (unknown, "llvm.amdgcn.groupstaticsize"),
        (text, "v_cubeid_f32"),
        (op, "s.wakeup.barrier"),
    ):
        with pytest.raises(DSLCompileError, match=f"cpu stack does not emulate.*{name}"):
            run(body, np.zeros(64, np.int32), 1)


def newer(a: Any, out: Any) -> None:
    i = thread()
    zero = arith.constant(T.vector(8, T.f32()), [0.0] * 8)
    half = arith.constant(T.vector(16, T.f16()), [1.0] * 16)
    words = vector.broadcast(T.vector(8, T.i32()), a[i])
    d = rocdl.wmma_f32_16x16x32_f16_(T.vector(8, T.f32()), half, half, zero)
    d = rocdl.wmma_f32_16x16x64_fp8_fp8_(T.vector(8, T.f32()), words, words, d)
    e = rocdl.wmma_i32_16x16x64_iu8_(T.vector(8, T.i32()), words, words, words, signA=True)
    out[i] = fx.Int32(d[0]) + e[0] + fx.Int32(llvm.intr_sadd_sat(a[i], a[i]))


def test_ops_the_dialects_lack_are_calls_of_their_intrinsics() -> None:
    asm = assembly(newer, "rocm:gfx1250")
    for word in ("v_wmma_f32_16x16x32_f16", "v_wmma_f32_16x16x64_fp8_fp8", "v_wmma_i32_16x16x64_iu8", "neg_lo:[1,0,0]"):
        assert word in asm


def test_mistakes_show_the_users_line() -> None:
    def wrong(a: Any, out: Any) -> None:
        arith.addi(a[0], arith.constant(T.i64(), 1))

    with pytest.raises(DSLTypeError, match="'arith.addi'"):
        run(wrong, np.zeros(64, np.int32), 1)
