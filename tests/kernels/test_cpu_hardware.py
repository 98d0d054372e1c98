"""Instructions whose bits the hardware's documents define: the cpu stack gives the same, and GPUs get them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


def swizzled(i: int, offset: int) -> int:
    """The lane that lane `i` reads by `ds_swizzle`, as the document of the instruction has it."""
    if offset < 0x8000:
        j = ((i & 31 & offset) | (offset >> 5 & 31)) ^ (offset >> 10 & 31)
    elif offset < 0xC000:
        j = (i & ~3 & 31) | (offset >> 2 * (i & 3) & 3)
    elif offset < 0xE000:
        by = (offset >> 5 & 31) * (-1 if offset & 0x400 else 1)
        j = (i & offset & 31) | ((i + by) & ~offset & 31)
    else:
        mask = offset & 31
        j = int(f"{i & 31:05b}"[::-1], 2) >> mask.bit_count() | (i & mask)
    return j | i & 32


PATTERNS = (0x801B, 0x80B1, 0x8000, 0x041F, 0x401F, 0x03E0, 0xC020, 0xC460, 0xC0E3, 0xE000, 0xE007)


@flyc.kernel
def swizzle_kernel(y: fx.Tensor):
    lane = fx.thread_idx.x
    for row, pattern in enumerate(PATTERNS):
        y[row, lane] = fx.rocdl.ds_swizzle(fx.Int32, lane + 100, pattern)


@flyc.jit
def swizzle(y: fx.Tensor):
    swizzle_kernel(y).launch(grid=1, block=fx.get_scalar(y.shape[1]))


@pytest.mark.parametrize("lanes", [64, 40])
def test_swizzles(lanes: int, emulate):
    """A lane that takes no part gives 0."""
    emulate("gfx942")
    y = np.full((len(PATTERNS), lanes), -1, np.int32)
    swizzle(y)
    for row, pattern in enumerate(PATTERNS):
        sources = [swizzled(i, pattern) for i in range(lanes)]
        assert y[row].tolist() == [s + 100 if s < lanes else 0 for s in sources], hex(pattern)


@flyc.kernel
def flush_kernel(x: fx.Tensor, y: fx.Tensor):
    i = fx.thread_idx.x
    y[0, i] = fx.rocdl.exp2(fx.Float32, x[0, i])
    y[1, i] = fx.rocdl.log2(fx.Float32, x[1, i])


@flyc.jit
def flush(x: fx.Tensor, y: fx.Tensor):
    flush_kernel(x, y).launch(grid=1, block=fx.get_scalar(x.shape[1]))


def test_exponent_and_logarithm_flush_denormals(emulate):
    emulate("gfx942")
    x = np.array(
        [[-126.0, -126.5, -140.0, -149.0, 3.0, -np.inf], [2.0**-126, 2.0**-127, -1e-40, 1e-45, 8.0, np.inf]], np.float32
    )
    y = np.full_like(x, -7)
    flush(x, y)
    assert y[0].tolist() == [2.0**-126, 0, 0, 0, 8, 0]
    assert y[1].tolist() == [-126, -np.inf, -np.inf, -np.inf, 3, np.inf]


@flyc.kernel
def product_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, mma: fx.TiledMma):
    mine = mma.get_slice(fx.thread_idx.x)
    ra, rb, rc = mine.make_fragment_A(a), mine.make_fragment_B(b), mine.make_fragment_C(c)
    ra.store(mine.partition_A(a).load())
    rb.store(mine.partition_B(b).load())
    part = mine.partition_C(c)
    rc.store(part.load())
    fx.gemm(mma, rc, ra, rb, rc)
    part.store(rc.load())


@flyc.jit
def product(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, k: fx.Constexpr[int], kind: fx.Constexpr):
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(fx.rocdl.MFMA(16, 16, k, (kind, kind), kind)), fx.make_layout((1, 1, 1), (0, 0, 0))
    )
    product_kernel(a, b, c, mma).launch(grid=1, block=64)


def to_xf32(x: np.ndarray) -> np.ndarray:
    """Ten bits of fraction, to the nearest, ties to even."""
    word = x.view(np.uint32)
    return ((word + 0xFFF + (word >> 13 & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


def test_xf32_rounds_its_inputs(emulate, rng: np.random.Generator):
    emulate("gfx942")
    a, b = (rng.standard_normal((16, 8)).astype(np.float32) for _ in range(2))
    a[0, :4] = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 + 2.0**-20, -(1 + 2.0**-12)]
    c = np.zeros((16, 16), np.float32)
    product(flyc.from_dlpack(a), flyc.from_dlpack(b), flyc.from_dlpack(c), 8, fx.Float32)
    want = (to_xf32(a).astype(np.float64) @ to_xf32(b).astype(np.float64).T).astype(np.float32)
    np.testing.assert_array_equal(c, want)
    assert not np.array_equal(c, (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32))


def test_f64_products_are_a_chain_of_fused_additions(emulate, rng: np.random.Generator):
    emulate("gfx942")
    a, b = (rng.standard_normal((16, 4)) * 10.0 ** rng.integers(-4, 4, (16, 4)) for _ in range(2))
    c = rng.standard_normal((16, 16))
    want = c.copy()
    for i in range(16):
        for j in range(16):
            for k in range(4):
                want[i, j] = fused(a[i, k], b[j, k], want[i, j])
    product(flyc.from_dlpack(a), flyc.from_dlpack(b), flyc.from_dlpack(c), 4, fx.Float64)
    np.testing.assert_array_equal(c, want)


def fused(x: float, y: float, z: float) -> float:
    """x y + z, rounded once."""
    from fractions import Fraction

    return float(Fraction(x) * Fraction(y) + Fraction(z))


@flyc.kernel
def update_kernel(x: fx.Tensor, y: fx.Tensor, scope: fx.Constexpr[str]):
    t = fx.thread_idx.x
    fx.atomic_max(fx.get_iter(x) + t, t, syncscope=scope or None)
    fx.atomic_add(fx.get_iter(y) + t, 1.0, syncscope=scope or None)


@flyc.jit
def update(x: fx.Tensor, y: fx.Tensor, scope: fx.Constexpr[str]):
    update_kernel(x, y, scope).launch(grid=1, block=64)


@pytest.mark.parametrize(
    ("arch", "dtype", "found"),
    [
        ("gfx90a", "f8", {"global_atomic_smax", "global_atomic_add_f64"}),
        ("gfx942", "f4", {"global_atomic_smax", "global_atomic_add_f32"}),
        ("gfx1100", "f4", {"global_atomic_max_i32", "global_atomic_add_f32"}),
    ],
)
def test_atomics_of_the_device_are_instructions(arch: str, dtype: str, found: set[str]):
    """Those of the system are loops: memory shared with the host has no such atomics."""
    x, y = np.zeros(64, np.int32), np.zeros(64, dtype)
    for scope in ("agent", "workgroup"):
        asm = flyc.compile(update, x, y, scope, target=f"rocm:{arch}").artifact.asm
        assert set(re.findall(r"global_atomic\w+", asm)) == found
    assert "cmpswap" in flyc.compile(update, x, y, "", target=f"rocm:{arch}").artifact.asm
