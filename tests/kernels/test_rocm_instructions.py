"""Raw instructions and scheduling of `fx.rocdl`: the mnemonic on AMD, the same values on the cpu stack."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")


@flyc.kernel
def lanes_kernel(x: fx.Tensor, out: fx.Tensor, body: fx.Constexpr):
    lane = fx.thread_idx.x
    out[lane] = body(x[lane], lane)


@flyc.jit
def lanes(x: fx.Tensor, out: fx.Tensor, body: fx.Constexpr, wave: fx.Constexpr):
    lanes_kernel(x, out, body).launch(grid=1, block=wave)


def wave_of(arch: str) -> int:
    return 32 if arch.startswith("gfx1") else 64


def compiled(body, arch: str, x=None, out=None) -> str:
    n = wave_of(arch)
    x = np.zeros(n, np.int32) if x is None else x
    return flyc.compile(
        lanes, x, np.zeros(n, np.int32) if out is None else out, body, n, target=f"rocm:{arch}"
    ).artifact.asm


def run(body, arch: str, monkeypatch: pytest.MonkeyPatch, x: np.ndarray, dtype=np.int32) -> np.ndarray:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    out = np.zeros(wave_of(arch), dtype)
    lanes(x, out, body, wave_of(arch))
    return out


def _first(x, lane):
    return fx.rocdl.readfirstlane(fx.Int32, x)


def _lane5(x, lane):
    return fx.rocdl.readlane(fx.Int32, x, 5)


def _pull(x, lane):
    return fx.rocdl.ds_bpermute(fx.Int32, (lane ^ 3) * 4, x)


def _swizzle(x, lane):
    return fx.rocdl.ds_swizzle(fx.Int32, x, 0x041F)


def _quad(x, lane):
    return fx.rocdl.mov_dpp(fx.Int32, x, 0xB1)


def _shr(x, lane):
    return fx.rocdl.update_dpp(fx.Int32, fx.Int32(-7), x, 0x111)


def _mirror(x, lane):
    return fx.rocdl.mov_dpp(fx.Int32, x, 0x140)


def _perm(x, lane):
    return fx.rocdl.perm_b32(x, lane, 0x0C070D04)


def _odd(x, lane):
    return fx.Int32(fx.rocdl.ballot(fx.Int64, x % 2 == 1))


def expected(name: str, x: np.ndarray) -> np.ndarray:
    n = len(x)
    i = np.arange(n)
    match name:
        case "_first":
            return np.full(n, x[0])
        case "_lane5":
            return np.full(n, x[5])
        case "_pull":
            return x[i ^ 3]
        case "_swizzle" | "_quad":
            return x[i ^ 1]
        case "_shr":
            return np.where(i % 16 == 0, -7, x[np.maximum(i - 1, 0)])
        case "_mirror":
            return x[(i & ~15) | (15 - i % 16)]
        case "_perm":
            hi = x.view(np.uint32).astype(np.uint64)
            return ((hi & 255) | (0xFF << 8) | ((hi >> 24) << 16)).astype(np.uint32).view(np.int32)
        case _:
            bits = int(sum(1 << int(k) for k in i if x[k] % 2 == 1)) & 0xFFFFFFFF
            return np.full(n, np.array(bits, np.uint32).view(np.int32))


MNEMONICS = {
    _first: "v_readfirstlane_b32",
    _lane5: "v_readlane_b32",
    _pull: "ds_bpermute_b32",
    _swizzle: "ds_swizzle_b32",
    _quad: "quad_perm:[1,0,3,2]",
    _shr: "row_shr:1",
    _mirror: "row_mirror",
    _perm: "v_perm_b32",
    _odd: "v_cmp",
}


@pytest.mark.covering
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("body", MNEMONICS, ids=lambda f: f.__name__)
def test_lanes(body, arch: str, monkeypatch: pytest.MonkeyPatch):
    asm = compiled(body, arch)
    # LLVM writes some permutations as another instruction of the same effect.
    assert MNEMONICS[body] in asm or (body in (_swizzle, _first, _lane5) and "s_" in asm)
    x = np.random.default_rng().integers(1, 2**30, wave_of(arch)).astype(np.int32)
    np.testing.assert_array_equal(run(body, arch, monkeypatch, x), expected(body.__name__, x))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_fp8_conversions(arch: str, monkeypatch: pytest.MonkeyPatch):
    def body(x, lane):
        packed = fx.rocdl.cvt_pk_fp8_f32(fx.Int32, x, x * 2.0)
        pair = fx.rocdl.cvt_pk_f32_fp8(None, packed)
        return pair[0] + pair[1] + fx.rocdl.cvt_f32_fp8(fx.Float32, packed, 1)

    n = wave_of(arch)
    x = np.random.default_rng().uniform(-8, 8, n).astype(np.float32)
    asm = compiled(body, arch, x, np.zeros(n, np.float32))
    assert "v_cvt_pk_fp8_f32" in asm and "v_cvt_pk_f32_fp8" in asm
    kind = ml_dtypes.float8_e4m3fnuz if arch == "gfx942" else ml_dtypes.float8_e4m3fn
    a, b = x.astype(kind).astype(np.float32), (2 * x).astype(kind).astype(np.float32)
    np.testing.assert_allclose(run(body, arch, monkeypatch, x, np.float32), a + b + b, rtol=1e-6)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_bf8_conversions(arch: str, monkeypatch: pytest.MonkeyPatch):
    def body(x, lane):
        packed = fx.rocdl.cvt_pk_bf8_f32(fx.Int32, x, x * 3.0)
        pair = fx.rocdl.cvt_pk_f32_bf8(None, packed)
        return pair[0] + pair[1] + fx.rocdl.cvt_f32_bf8(fx.Float32, packed, 1)

    x = np.random.default_rng().uniform(-8, 8, 64).astype(np.float32)
    assert "v_cvt_pk_bf8_f32" in compiled(body, arch, x, np.zeros(64, np.float32))
    kind = ml_dtypes.float8_e5m2fnuz if arch == "gfx942" else ml_dtypes.float8_e5m2
    a, b = x.astype(kind).astype(np.float32), (3 * x).astype(kind).astype(np.float32)
    np.testing.assert_allclose(run(body, arch, monkeypatch, x, np.float32), a + b + b, rtol=1e-6)


def test_fast_math(monkeypatch: pytest.MonkeyPatch):
    def body(x, lane):
        f32 = fx.Float32
        y = fx.rocdl.rcp(f32, x) + fx.rocdl.rsq(f32, x) + fx.rocdl.exp2(f32, x) + fx.rocdl.log2(f32, x)
        return fx.rocdl.fmed3(f32, y, fx.Float32(0.0), fx.Float32(3.0))

    x = np.random.default_rng().uniform(0.1, 4, 64).astype(np.float32)
    asm = compiled(body, "gfx942", x, np.zeros(64, np.float32))
    for word in ("v_rcp_f32", "v_rsq_f32", "v_exp_f32", "v_log_f32", "v_med3_f32"):
        assert word in asm
    wanted = np.clip(1 / x + 1 / np.sqrt(x) + 2**x + np.log2(x), 0, 3)
    np.testing.assert_allclose(run(body, "gfx942", monkeypatch, x, np.float32), wanted, rtol=1e-4)


def test_swaps(monkeypatch: pytest.MonkeyPatch):
    def body(x, lane):
        a, b = fx.rocdl.permlane32_swap(fx.Int32, x, x + 1000)
        return a * 3 + b

    x = np.arange(64, dtype=np.int32)
    assert "v_permlane32_swap_b32" in compiled(body, "gfx950")
    i = np.arange(64)
    a = np.where(i < 32, x, x[i ^ 32] + 1000)
    b = np.where(i < 32, x[i ^ 32], x + 1000)
    np.testing.assert_array_equal(run(body, "gfx950", monkeypatch, x), a * 3 + b)
    with pytest.raises(ValueError, match="gfx950, not on gfx942"):
        compiled(body, "gfx942")


@pytest.mark.parametrize("arch", ARCHES)
def test_scheduling(arch: str, monkeypatch: pytest.MonkeyPatch):
    def body(x, lane):
        fx.rocdl.s_setprio(1)
        fx.rocdl.sched_mfma(1)
        fx.rocdl.sched_vmem(1)
        fx.rocdl.sched_dsrd(1)
        fx.rocdl.sched_dswr(1)
        fx.rocdl.sched_barrier(0)
        fx.rocdl.s_waitcnt(vmcnt=3)
        fx.rocdl.s_barrier()
        fx.rocdl.s_nop(1)
        return x + 1

    asm = compiled(body, arch)
    assert "s_setprio 1" in asm and "s_nop 1" in asm
    two_waves = np.zeros(128, np.int32)
    asm_of_two = flyc.compile(lanes, two_waves, two_waves, body, 128, target=f"rocm:{arch}").artifact.asm
    assert "s_barrier" in asm_of_two  # a barrier of one wave is nothing
    if arch.startswith("gfx12"):
        assert "s_wait_loadcnt" in asm
    else:
        assert "vmcnt(3)" in asm
    x = np.arange(wave_of(arch), dtype=np.int32)
    np.testing.assert_array_equal(run(body, arch, monkeypatch, x), x + 1)


def _mfma_f16(x, lane):
    a = fx.Vector.from_elements([x, x], fx.Int32).bitcast(fx.Float16)
    zeros = fx.Vector.filled(4, fx.Float32(0), fx.Float32)
    return fx.Int32(fx.rocdl.mfma_f32_16x16x16f16(None, [a, a, zeros, 0, 0, 0])[0])


def _mfma_bf16(x, lane):
    a = fx.Vector.from_elements([x, x], fx.Int32).bitcast(fx.Int16)
    zeros = fx.Vector.filled(16, fx.Float32(0), fx.Float32)
    return fx.Int32(fx.rocdl.mfma_f32_32x32x8bf16_1k(None, [a, a, zeros, 0, 0, 0])[0])


def _mfma_i8(x, lane):
    a = fx.Vector.from_elements([x, x], fx.Int32).bitcast(fx.Int64)[0]
    zeros = fx.Vector.filled(4, fx.Int32(0), fx.Int32)
    return fx.rocdl.mfma_i32_16x16x32_i8(None, [a, a, zeros, 0, 0, 0])[0]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (_mfma_f16, "v_mfma_f32_16x16x16_f16"),
        (_mfma_bf16, "v_mfma_f32_32x32x8_bf16"),
        (_mfma_i8, "v_mfma_i32_16x16x32_i8"),
    ],
)
def test_matrix_instructions_by_name(body, says: str):
    assert says in compiled(body, "gfx942")
