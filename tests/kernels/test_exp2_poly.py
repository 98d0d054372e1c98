"""`fx.exp2_poly`: powers of two by multiply-adds, against float64."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

ERRORS = {3: 1.1e-4, 4: 3e-6, 5: 1.7e-7, 6: 8e-8}
N = 4096


@flyc.kernel
def power_kernel(x: fx.Tensor, y: fx.Tensor, degree: fx.Constexpr[int], wide: fx.Constexpr[int]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if fx.const_expr(wide == 1):
        y[i] = fx.exp2_poly(x[i], degree=degree)
    else:
        row, out = (fx.zipped_divide(t, (wide,))[None, i] for t in (x, y))
        out.store(fx.exp2_poly(row.load(), degree=degree))


@flyc.jit
def power(x: fx.Tensor, y: fx.Tensor, degree: fx.Constexpr[int], wide: fx.Constexpr[int]):
    power_kernel(x, y, degree, wide).launch(grid=N // 64 // wide, block=64)


@pytest.mark.parametrize("arch", ["native", "sm_90a", "gfx942"])
@pytest.mark.parametrize(("degree", "wide"), [(3, 1), (4, 4), (5, 1), (6, 2)])
def test_powers(arch: str, degree: int, wide: int, rng: np.random.Generator, emulate):
    emulate(arch)
    x = np.concatenate([rng.uniform(-1, 1, N // 2), rng.uniform(-126, 128, N // 2)]).astype(np.float32)
    whole = np.arange(-126, 128, dtype=np.float32)
    x[: whole.size] = whole
    x[whole.size : whole.size + 6] = np.nan, np.inf, -np.inf, 128.0, 1e30, -1e30
    rng.shuffle(x)
    y = np.full_like(x, np.nan)
    power(x, y, degree, wide)
    with np.errstate(over="ignore"):
        want = np.exp2(x.astype(np.float64))
    normal = (x >= -126) & (x < 128)
    assert (np.abs(y[normal] / want[normal] - 1) <= ERRORS[degree]).all()
    integer = normal & (x == np.round(x))
    np.testing.assert_array_equal(y[integer], want[integer])
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    assert (y[x >= 128] == np.inf).all() and (y[x < -127] == 0).all()


@pytest.mark.parametrize(("target", "unit"), [("cuda:sm_90a", "ex2"), ("rocm:gfx942", "v_exp")])
def test_no_unit_for_powers(target: str, unit: str):
    x = np.zeros(N, np.float32)
    artifact = flyc.compile(power, x, x, 5, 1, target=target).artifact
    assert unit not in artifact.asm and "fma" in artifact.asm


def test_refusals():
    with pytest.raises(DSLValueError, match="degree is 3, 4, 5, 6, got 2"):
        flyc.evaluate(lambda x: fx.exp2_poly(x, degree=2), 1.0)
    with pytest.raises(DSLTypeError, match=r"requires Float32, got Float16; convert it"):
        flyc.evaluate(lambda x: fx.exp2_poly(x.to(fx.Float16)), 1.0)
    with pytest.raises(DSLTypeError, match="unexpected keyword argument 'degre'"):
        flyc.evaluate(lambda x: fx.exp2_poly(x, degre=3), 1.0)
