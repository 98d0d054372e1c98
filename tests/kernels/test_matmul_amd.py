"""Matrix products for AMD GPUs behind `matmul`: numbers on the cpu stack emulating each architecture, in checked mode,
and what their main loops consist of."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.kernels.matmul_checks import bound, matrix, poisoned

import flydsl.compiler as flyc
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import MxMatrix, PreshuffledWeight, dequantize_mx, matmul, preshuffle_weight, quantize_mx
from flydsl.kernels.matmul.amd.entry import amd_matmul
from flydsl.kernels.matmul.amd.kernel import Form, Tile
from flydsl.kernels.matmul.amd.mx import TILE, pack_scales
from flydsl.kernels.matmul.amd.plan import Given, best, cut, form_for, shared_bytes
from flydsl.target import GPUTarget

ROOT = Path(__file__).resolve().parents[2]
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
FNUZ, OCP = torch.float8_e4m3fnuz, torch.float8_e4m3fn


@pytest.fixture
def emulate(monkeypatch: pytest.MonkeyPatch):
    def set_arch(arch: str, checked: bool = True) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
        if checked:
            monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")

    return set_arch


@pytest.fixture
def no_slow_path(monkeypatch: pytest.MonkeyPatch):
    """Whatever would fall back to the product without matrix instructions fails."""

    def refuse(*_: object) -> None:
        pytest.fail("matmul took the product without matrix instructions")

    monkeypatch.setattr(sys.modules["flydsl.kernels.matmul.calls"], "anywhere", refuse)


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arch", "dtype"), [("gfx942", FNUZ), ("gfx950", F16), ("gfx1201", F16), ("gfx1250", BF16)])
def test_ragged_products(arch: str, dtype, emulate, no_slow_path, rng: np.random.Generator):
    """One to several tiles of K, ends of K, N and M inside tiles; nothing is written outside C."""
    emulate(arch)
    unit = 16 // dtype.itemsize
    shapes = (33, 68, 25 * unit), (3, 72, 41 * unit), (35, 36, 16 * unit), (1, 4, unit)
    for m, n, k in shapes if arch in ("gfx942", "gfx1250") else shapes[:2]:
        # Beyond 240 there is no number of eight bits.
        a = matrix(rng, (1, m, k), "k", F32, "cpu").clamp(-240, 240).to(dtype)[0]
        b = matrix(rng, (1, n, k), "k", F32, "cpu").clamp(-240, 240).to(dtype)[0].T
        out, whole = poisoned((1, m, n), F32, "cpu")
        matmul(a, b, out=out[0], out_dtype="float32")
        bound(out[0], a.float(), b.float())
        assert whole[..., n:].isnan().all()


def test_everything_at_once(emulate, no_slow_path, rng: np.random.Generator):
    """Operands along their rows, which are packed, a turned result, batches, scales, a bias and an activation."""
    emulate("gfx942")
    m, n, k = 19, 38, 71
    a = matrix(rng, (2, m, k), "mn", BF16, "cpu")
    b = matrix(rng, (2, n, k), "k", BF16, "cpu").mT
    scale_a, scale_b = torch.rand(m) + 0.5, torch.rand(n) + 0.5
    bias = torch.from_numpy(rng.standard_normal(n)).float()
    turned = torch.full((2, n, m), float("nan"))
    c = matmul(a, b, out=turned.mT, bias=bias, activation="relu", scale_a=scale_a, scale_b=scale_b, out_dtype="float32")
    factors = scale_a.double()[:, None] * scale_b.double()
    terms = (a.double().abs() @ b.double().abs()) * factors + bias.double().abs()
    wanted = ((a.double() @ b.double()) * factors + bias.double()).relu()
    assert ((c.double() - wanted).abs() <= (k + 16) * 2.0**-23 * terms).all()


def test_integers_are_exact(emulate, no_slow_path, rng: np.random.Generator):
    emulate("gfx942")
    a = torch.from_numpy(rng.integers(-128, 128, (37, 144), dtype=np.int8))
    b = torch.from_numpy(rng.integers(-128, 128, (40, 144), dtype=np.int8)).T
    assert (matmul(a, b).long() == a.long() @ b.long()).all()


@pytest.mark.parametrize(("arch", "dtype"), [("gfx942", F16), ("gfx950", OCP)])
def test_preshuffled_weights(arch: str, dtype, emulate, no_slow_path, rng: np.random.Generator):
    """N and K of any extent: they are filled up with zeros, also beside infinities."""
    emulate(arch)
    for m, n, k in ((33, 37, 200), (1, 21, 24)):
        a = matrix(rng, (1, m, k), "k", F32, "cpu").clamp(-240, 240).to(dtype)[0]
        b = matrix(rng, (1, n, k), "mn", F32, "cpu").clamp(-240, 240).to(dtype)[0].T
        c = matmul(a, preshuffle_weight(b), out_dtype="float32")
        bound(c, a.float(), b.float())


def test_preshuffled_weights_elsewhere(emulate, rng: np.random.Generator):
    """A stack without such instructions puts them back in order."""
    a, b = rng.standard_normal((5, 40)).astype("f4"), rng.standard_normal((40, 23)).astype("f4")
    np.testing.assert_allclose(matmul(a, preshuffle_weight(b)), matmul(a, b), rtol=1e-6, atol=1e-6)


def test_numbers_that_are_none(emulate, no_slow_path):
    """NaN and infinities reach their row and column, and no other: zeros fill up K on both sides."""
    emulate("gfx950")
    a, b = torch.ones(20, 40, dtype=F16), torch.ones(24, 40, dtype=F16).T
    a[3, 7], b[39, 5] = float("nan"), float("inf")
    c = matmul(a, b, out_dtype="float32")
    wanted = a.double() @ b.double()
    torch.testing.assert_close(c.double(), wanted, equal_nan=True)


def test_mx_blocks(emulate, rng: np.random.Generator):
    """Six bits become eight, which have scales for 32 elements; K is long enough to be cut."""
    kind = "float6_e2m3fn"
    emulate("gfx950", checked=False)
    m, n, k = 130, 20, 4096 + 96
    assert cut(Given(m, n, k, 1, 1, 4, 256, 163840), GPUTarget.parse("rocm:gfx950"), TILE)[1] > 1
    a, b = (rng.standard_normal((r, k)).astype("f4") * np.exp2(rng.integers(-9, 9, (r, 1))) for r in (m, n))
    x, y = (MxMatrix(*quantize_mx(v.astype("f4"), kind), kind) for v in (a, b))
    whole = np.full((m, n + 4), np.nan, "f4")
    matmul(x, y, out=whole[:, :n])
    left, right = (dequantize_mx(v.data, v.scales, kind).astype("f8") for v in (x, y))
    slack = (k + 8) * 2.0**-23 * (np.abs(left) @ np.abs(right).T)
    assert (np.abs(whole[:, :n] - left @ right.T) <= slack).all() and np.isnan(whole[:, n:]).all()


def test_scales_in_the_order_of_lanes(rng: np.random.Generator):
    """`pack_scales`: a lane's word has the scales of four instructions' rows; what is not there is one."""
    rows, blocks, highs, steps = 133, 6, 2, 2
    scales = rng.integers(0, 255, (rows, blocks), dtype=np.uint8)
    words = np.zeros(steps * highs * 128, "i4")
    pack_scales(scales, words, rows, blocks, highs, words.size)
    whole = np.full((highs * 128, steps * 4), 127, "u1")
    whole[:rows, :blocks] = scales
    found = words.view("u1").reshape(steps, highs, 2, 4, 16, 4)
    for step, high, part, group, lane, i in np.ndindex(*found.shape):
        row = high * 128 + 32 * i + 16 * part + lane
        assert found[step, high, part, group, lane, i] == whole[row, 4 * step + group]


def test_mx_blocks_elsewhere(rng: np.random.Generator):
    x, y = (MxMatrix(*quantize_mx(rng.standard_normal((r, 64)).astype("f4"), k), k)
            for r, k in ((3, "float4_e2m1fn"), (5, "float8_e5m2")))  # fmt: skip
    left, right = (dequantize_mx(v.data, v.scales, v.kind) for v in (x, y))
    bias = rng.standard_normal(5).astype("f4")
    np.testing.assert_allclose(matmul(x, y, bias=bias), left @ right.T + bias, rtol=1e-5, atol=1e-5)


def test_refusals(emulate):
    emulate("gfx950")
    data, scales = np.zeros((4, 32), "u1"), np.zeros((4, 2), "u1")
    whole = MxMatrix(data, scales, "float4_e2m1fn")
    with pytest.raises(DSLValueError, match="kind is float8_e4m3fn"):
        MxMatrix(data, scales, "float5")
    with pytest.raises(DSLTypeError, match="matrices of uint8"):
        MxMatrix(data.astype("i4"), scales, "float4_e2m1fn")
    with pytest.raises(DSLValueError, match="a scale for 32 elements"):
        MxMatrix(data, scales, "float8_e4m3fn")
    with pytest.raises(DSLTypeError, match="so must b be, got ndarray"):
        matmul(whole, np.zeros((64, 4), "f4"))
    with pytest.raises(DSLTypeError, match="so must a be, got ndarray"):
        matmul(np.zeros((4, 64), "f4"), whole)
    with pytest.raises(DSLValueError, match="rows of a have 64 elements and those of b 32"):
        matmul(whole, MxMatrix(data[:, :16], scales[:, :1], "float4_e2m1fn"))
    with pytest.raises(DSLValueError, match="scales of their own"):
        matmul(whole, whole, scale_a=np.ones(1, "f4"))
    with pytest.raises(DSLValueError, match="bias has a value for each of the 4"):
        matmul(whole, whole, bias=np.ones(3, "f4"))
    with pytest.raises(DSLValueError, match="w has 2 dimensions"):
        preshuffle_weight(np.zeros(4, "f4"))
    with pytest.raises(DSLTypeError, match="w is float16"):
        preshuffle_weight(np.zeros((4, 4), "i4"))
    with pytest.raises(DSLValueError, match="a has 5 columns and b has 4 rows"):
        matmul(np.zeros((2, 5), "f4"), preshuffle_weight(np.zeros((4, 4), "f4")))
    with pytest.raises(DSLValueError, match=r"data of PreshuffledWeight\(4 x 4, float32\) has the shape \(16, 32\)"):
        PreshuffledWeight(np.zeros((15, 32), "f4"), (4, 4))


# --- the choice of a tile -----------------------------------------------------------------------------------------

ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")


def given(target: GPUTarget, m: int, n: int, k: int) -> Given:
    return Given(m, n, k, 1, 2, 2, 256, target.caps.shared_mem_per_block or 0)


@pytest.mark.parametrize("arch", ARCHES)
def test_tiles_fit_and_follow_the_shape(arch: str, rng: np.random.Generator):
    target = GPUTarget.parse(f"rocm:{arch}")
    form = form_for(target, "float16")
    assert form is not None
    for _ in range(50):
        m, n, k = (int(2 ** rng.uniform(0, 14)) for _ in range(3))
        plan = best(given(target, m, n, k), target, form)
        assert shared_bytes(plan.tile, form) <= (target.caps.shared_mem_per_block or 0)
        assert 1 <= plan.group <= -(-m // plan.tile.m)
    few, many = (best(given(target, m, 8192, 8192), target, form).tile for m in (1, 8192))
    assert few.m == 32 and many.m * many.n >= 128 * 128
    # What must not depend on M has steps along K of one length.
    every = {best(given(target, m, 512, 512), target, form, True).tile.row_bytes for m in (1, 64, 500, 9000)}
    assert len(every) == 1


@pytest.mark.parametrize("arch", ARCHES)
def test_no_instruction_is_said_to_be_none(arch: str):
    target = GPUTarget.parse(f"rocm:{arch}")
    assert (form_for(target, "float8_e4m3fnuz") is not None) == (arch == "gfx942")
    assert (form_for(target, "float8_e4m3fn") is not None) == (arch in ("gfx950", "gfx1201", "gfx1250"))
    assert form_for(target, "int8") is not None and form_for(target, "int32") is None


# --- main loops ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench():
    """The benchmark that counts, which is also what the documentation's table comes from."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import main_loop  # pyright: ignore[reportMissingImports]

        yield main_loop
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


LOOPS = {
    "f16, 256 x 256": ("v_mfma_f32_16x16x16_f16", 128, 0.08),
    "fp8": ("v_mfma_f32_16x16x32_fp8_fp8", 64, 0.16),
    "f16, preshuffled": ("v_mfma_f32_16x16x16_f16", 128, 0.11),
    "f16 on gfx950": ("v_mfma_f32_16x16x32_f16", 64, 0.5),
    "f16 on gfx950, 256 x 256": ("v_mfma_f32_16x16x32_f16", 128, 0.25),
    "fp8 on gfx950, preshuffled": ("v_mfma_scale_f32_16x16x128_f8f6f4", 32, 0.69),
    "int8 on gfx950": ("v_mfma_i32_16x16x64_i8", 64, 0.5),
    "f16 on gfx1100": ("v_wmma_f32_16x16x16_f16", 32, 0.31),
    "f16 on gfx1201": ("v_wmma_f32_16x16x16_f16", 32, 0.31),
    "f16 on gfx1250": ("v_wmma_f32_16x16x32_f16", 32, 0.91),
}
"""Instruction, how often it stands in the loop, and the scalar instructions beside each that FlyDSL 0.4.1 needs."""


@pytest.mark.parametrize("name", LOOPS)
def test_main_loop(name: str, bench):
    """Of `amd_tiles` alone, in a function that FlyDSL compiles too."""
    mnemonic, count, scalars = LOOPS[name]
    asm = bench.ours(bench.cases()[name])
    loop = bench.read_loop(asm)
    names = Counter(line.split()[0] for line in bench.main_loop(asm))
    assert names[mnemonic] == loop.counts["matrix"] == count
    # No lane computes anything, nothing spills, and every wait leaves loads under way.
    assert loop.counts["vector"] == loop.counts["other memory"] == loop.spills == 0
    assert loop.per_product("scalar") <= scalars + 0.005
    assert loop.waits and min(loop.waits) > 0
    assert loop.registers <= 256  # two waves of 64 on a SIMD


@pytest.mark.parametrize(("name", "vector", "scalar"), [("gfx1201", 0.53, 0.25), ("gfx1250", 2.2, 0.81)])
def test_main_loop_of_blocks(name: str, vector: float, scalar: float, bench):
    """Sums of tiles shorter than a block are scaled once for a block, and far stages need no address for each place."""
    loop = bench.read_loop(bench.ours(bench.cases()[f"fp8 on {name}, blocks"]))
    assert loop.per_product("vector") <= vector + 0.005 and loop.per_product("scalar") <= scalar + 0.005
    assert loop.counts["other memory"] <= 1 and loop.spills == 0
    assert loop.registers <= 288


def test_mx_main_loop(bench):
    """Scales come as words of which an instruction picks a byte: nothing is computed for them."""
    form = Form("mfma", 64, part=16, direct="buffer", mx="Float4E2M1FN")
    a, c, words = torch.zeros(256, 512, dtype=torch.int8), torch.zeros(256, 256), torch.zeros(4096, dtype=torch.int32)
    numbers = (256, 256, 512, 1, 512, 512, 256, 0, 0, 0, 2, 512, Tile(128, 128, 128, 2, 2), form)
    artifact = flyc.compile(
        amd_matmul, a, a, c, None, None, None, None, *numbers, blocks_w=words, blocks_a=words, target="rocm:gfx950"
    ).artifact
    loop = bench.read_loop(artifact.asm)
    assert loop.counts["matrix"] == 64 and loop.counts["vector"] == loop.spills == 0
    assert loop.counts["load"] == 8 and loop.counts["to shared"] == 16 and min(loop.waits) > 0
