"""Few rows of 8-bit types, as words from memory: every element against float64, or exactly."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest
import torch

from flydsl.kernels import matmul
from flydsl.kernels.matmul.few.thin import HIGH, LONG, Scales, Thin, choose, depth_of, pays
from flydsl.kernels.matmul.few.thin_kernel import thin_matmul
from flydsl.kernels.matmul.plan import Problem, candidates

E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2
CUTS = [
    (1, 33, 144, Thin(1, 8, 2, 2), E4, E4),
    (5, 40, 528, Thin(2, 8, 2, 1), E5, E4),
    (16, 50, 656, Thin(1, 16, 2, 1, 2), E4, E5),
]
"""Columns that end anywhere, K with a rest, and two blocks that share it."""


def floats(rng: np.random.Generator, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    """Of a large range, row by row."""
    scale = np.exp2(rng.integers(-4, 5, (shape[0], 1)))
    return torch.from_numpy(rng.standard_normal(shape) * scale).to(dtype)


@pytest.mark.parametrize(("m", "n", "k", "thin", "of_a", "of_w"), CUTS, ids=str)
def test_sums_of_fp8_keep_f32(m, n, k, thin, of_a, of_w, rng: np.random.Generator, emulate, monkeypatch):
    """With scales of rows and columns and a bias, in checked mode; nothing but the result is rounded."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    a, w = floats(rng, (m, k), of_a), floats(rng, (n, k), of_w)
    rows, columns, bias = (torch.from_numpy(rng.random(x) + 0.5).float() for x in (m, n, n))
    whole = torch.full((m, n + 8), float("nan"))
    thin_matmul(
        a, w, whole[:, :n], bias, m, n, k, k, k, n + 8, thin, "relu", n % 4 == 0,
        scale_a=rows, scale_b=columns, scales=Scales("rows", "rows"),
    )  # fmt: skip
    left, right = a.double() * rows[:, None], (w.double() * columns[:, None]).T
    want, most = (left @ right + bias).relu(), left.abs() @ right.abs() + bias
    assert ((whole[:, :n].double() - want).abs() <= most * 2**-20).all()
    assert torch.isnan(whole[:, n:]).all()


def test_sums_of_int8_are_exact(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    for m, n, k, thin, *_ in CUTS[1:]:
        a, w = (torch.from_numpy(rng.integers(-128, 128, (x, k))).to(torch.int8) for x in (m, n))
        whole = torch.full((m, n + 8), -7, dtype=torch.int32)
        thin_matmul(a, w, whole[:, :n], None, m, n, k, k, k, n + 8, thin, "none", n % 4 == 0)
        assert torch.equal(whole[:, :n].long(), a.long() @ w.long().T)
        assert (whole[:, n:] == -7).all()


def test_types_of_numpy_are_told_apart(rng: np.random.Generator, emulate):
    """Several of 8 bits have the same `dtype.str`: what was decided for one is not for another."""
    emulate("sm_90a")
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        dtype = getattr(ml_dtypes, name)
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((24, 32), (32, 16)))
        want = a.astype("f8") @ b.astype("f8")
        assert np.allclose(matmul(a, b, out_dtype="float32"), want, atol=2**-8), name


def test_shares_of_few_rows(rng: np.random.Generator):
    """Where there are fewer columns than keep all multiprocessors as busy, and sums are worth dividing."""
    for n, k in zip(2 ** rng.uniform(5, 15, 200), 2 ** rng.uniform(6, 15, 200), strict=True):
        n, k = int(n), 8 * int(k / 8)
        for m in (1, 8, 9, 16):
            made = choose(m, n, k, 132)
            steps = -(-n // made.rows) * -(-k // (depth_of(16) * made.units * made.warps))
            assert made.blocks <= steps and made.tokens >= m and made.slices == 1, (m, n, k)
            assert made.blocks == 0 or made.blocks >= min(132, steps), (m, n, k)
            if made.blocks and n > 132 * HIGH:
                assert k >= LONG and steps >= 0.96 * 132 * -(-steps // 132), "some would have less to do"
            elif made.blocks:
                assert k >= LONG and pays(n, k), (m, n, k)
    # A few long columns are dealt, columns for nearly all multiprocessors are not, and neither are short ones.
    assert choose(4, 512, 16384, 132).blocks and choose(4, 3072, 8192, 132).blocks == 132
    assert not any(choose(m, n, k, 132).blocks for m in (4, 16) for n, k in ((1536, 7168), (2048, 2048), (512, 1024)))


def few(rng: np.random.Generator, device: str, shapes: tuple[tuple[int, int, int], ...]) -> None:
    """The entry point, whatever kernel it takes: results of 8 bits, bf16 and int32, scales of one or many."""
    for m, n, k in shapes:
        a, w = floats(rng, (m, k), E4).to(device), floats(rng, (n, k), E4).to(device)
        one, columns = (torch.from_numpy(rng.random(x) + 0.5).float().to(device) for x in (1, n))
        left, right = a.double() * one.double(), (w.double() * columns.double()[:, None]).T
        want, most = left @ right, left.abs() @ right.abs()
        for out, digits in ((torch.bfloat16, 2.0**-8), (E5, 2.0**-3)):
            found = matmul(a, w.T, scale_a=one, scale_b=columns, out_dtype=out).double()
            limit = want.clamp(-57344, 57344) if out is E5 else want
            assert ((found - limit).abs() <= want.abs() * digits * 1.01 + most * 2.0**-11 + 2.0**-16).all()
        x, y = (torch.from_numpy(rng.integers(-128, 128, (q, k))).to(torch.int8).to(device) for q in (m, n))
        assert torch.equal(matmul(x, y.T).double(), x.double() @ y.double().T)


def test_rows_inside_of_cache_lines(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Every other row of 192 bytes starts with a line: four of the seven parts that rows anywhere have. A shape of such
    rows takes a tile of one block, which was a fifth faster than a cluster's."""
    emulate("sm_90a")
    calls = sys.modules["flydsl.kernels.matmul.calls"]
    found, choose = [], calls.best
    monkeypatch.setattr(calls, "best", lambda given, *more: found.append(given.ragged) or choose(given, *more))
    a, w = floats(rng, (70, 192), E4), floats(rng, (24, 192), E4)
    want, most = a.double() @ w.double().T, a.double().abs() @ w.double().abs().T
    assert ((matmul(a, w.T).double() - want).abs() <= want.abs() * 2.0**-8 + most * 2.0**-11).all()
    assert found[-1] == (4 / 7, 4 / 7)
    given = Problem(832, 1472, 1088, 1, 8, 2, "k", "k", False, 132, True, ragged=(4 / 7, 4 / 7))
    assert candidates(given)[0].tile.blocks == 1


def test_the_entry_point(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    few(rng, "cpu", ((3, 72, 2320),))


@pytest.mark.cuda
def test_the_entry_point_on_a_gpu(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    few(rng, "cuda", ((1, 1000, 4096), (7, 4096, 528), (16, 8192, 8192), (40, 2048, 2048)))
