"""Reductions, scans and sorts along any axis, against numpy in float64 and exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl import kernels
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels.axes import scan as scan_module
from flydsl.kernels.axes.reduce import reduce_columns, reduce_rows
from flydsl.kernels.axes.scan import Way, scan_columns, scan_rows
from flydsl.kernels.axes.sort_kernels import gather_rows, merge_runs, sort_tiles
from flydsl.kernels.rows.arrays import describe
from flydsl.kernels.rows.form import form_of
from flydsl.testing import assert_close

SCANS = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate, "min": np.minimum.accumulate}


@pytest.fixture(params=["plain", "checked"])
def checked(request: pytest.FixtureRequest, device: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "checked":
        if device != "cpu":
            pytest.skip("the cpu stack checks accesses")
        monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    return request.param == "checked"


def test_reductions(checked: bool, device: str, rng: np.random.Generator):
    """Axes in front, in the middle, at the end, several ones, apart from each other; strided arrays."""
    cases = [(op, axis) for op in ("sum", "max") for axis in (0, (0, 2))]
    if not checked:
        cases += [("mean", None), ("prod", 2), ("min", 1), ("sum", (0, 1)), ("sum", ()), ("max", -1)]
    x = torch.from_numpy(rng.standard_normal((3, 5, 40))).float().to(device)
    for op, axis in cases:
        for given in (x, x.permute(2, 0, 1)) if op == "sum" else (x,):
            have = given.cpu().double().numpy()
            axes = tuple(range(3)) if axis is None else axis
            want = getattr(np, op)(have, axis=axes)
            got = kernels.reduce(given, op, axis=axis)
            size = np.abs(have).sum(axis=axes) if op in ("sum", "mean") else np.abs(want)
            assert got.shape == want.shape
            assert_close(got.cpu(), torch.from_numpy(np.asarray(want)), atol=torch.from_numpy(np.asarray(size)) * 1e-5)
    assert kernels.reduce(x, axis=1, keepdims=True).shape == (3, 1, 40)


def test_types_and_numbers_that_are_none(device: str, rng: np.random.Generator):
    whole = torch.from_numpy(rng.integers(-9, 9, (4, 70)))
    for dtype in (torch.int32, torch.int64):
        x = whole.to(dtype).to(device)
        assert torch.equal(kernels.reduce(x, axis=0).cpu(), whole.sum(0).to(dtype))
        assert torch.equal(kernels.scan(x, "max").cpu(), whole.cummax(1).values.to(dtype))
    half = torch.from_numpy(rng.standard_normal((5, 257))).bfloat16().to(device)
    assert_close(kernels.reduce(half, axis=1).cpu(), half.cpu().double().sum(1), atol=1e-4, what="bf16")
    nan = torch.tensor([[1.0, float("nan"), 3.0], [float("inf"), -1.0, float("-inf")]], device=device)
    assert kernels.reduce(nan, "max", axis=1).cpu().isnan().tolist() == [True, False]
    assert kernels.reduce(nan, "sum", axis=1).cpu().isnan().all()
    assert kernels.scan(nan, "min").cpu().isnan().tolist() == [[False, True, True], [False] * 3]
    assert kernels.scan(nan[1], "sum")[:2].tolist() == [float("inf")] * 2
    # Nothing at all.
    assert kernels.reduce(nan[:, :0], axis=1).tolist() == [0, 0] and kernels.reduce(nan[:0], axis=1).shape == (0,)
    assert kernels.reduce(nan[:, :0], "prod").tolist() == 1 and kernels.scan(nan[:0]).shape == (0, 3)
    with pytest.raises(DSLValueError, match="no max of no elements"):
        kernels.reduce(nan[:, :0], "max", axis=1)


def test_scans(checked: bool, device: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Whole numbers, so that sums are exact: rows of one turn, of several, and of several blocks; columns."""
    monkeypatch.setattr(scan_module, "PIECE", 2048)
    shapes = [((2, 5000), 1, True, True)]
    if not checked:
        shapes += [
            ((3, 7), 1, False, False),
            ((2, 1500), 1, True, False),
            ((2, 9, 33), 1, True, True),
            ((6, 4), 0, False, True),
        ]
    for shape, axis, exclusive, reverse in shapes:
        for op in ("sum",) if checked else ("sum", "min"):
            x = rng.integers(-4, 5, shape)
            have = np.flip(x, axis) if reverse else x
            want = SCANS[op](have, axis=axis)
            if exclusive:
                first = 0 if op == "sum" else np.inf
                want = np.concatenate(
                    [np.full_like(want, 0, float).take([0], axis) + first, want.take(range(shape[axis] - 1), axis)],
                    axis,
                )
            want = np.flip(want, axis) if reverse else want
            given = torch.from_numpy(x).float().to(device)
            got = kernels.scan(given, op, axis=axis, exclusive=exclusive, reverse=reverse)
            assert np.array_equal(got.cpu().numpy(), want), (shape, op)
    x = rng.uniform(0.5, 1.5, (2, 300)).astype("f4")
    got = kernels.scan(torch.from_numpy(x).to(device), "prod").cpu()
    assert_close(got, torch.from_numpy(np.cumprod(x.astype("f8"), 1)), rtol=1e-4)


def test_sorts(checked: bool, device: str, rng: np.random.Generator):
    """Many equal elements, so that the order of equal ones is seen; rows of one tile and of several."""
    for dtype, shape, axis in [(torch.float32, (2, 2500), 1)] + [
        (torch.int64, (3, 5, 7), 1), (torch.float16, (2, 1), 1), (torch.int8, (33, 2), 0), (torch.float64, (1, 70), -1)
    ] * (not checked):  # fmt: skip
        x = torch.from_numpy(rng.integers(-20, 20, shape)).to(dtype).to(device)
        for descending in (False, True):
            values, order = kernels.sort(x, axis=axis, descending=descending)
            want = torch.sort(x.cpu(), dim=axis, descending=descending, stable=True)
            assert torch.equal(values.cpu(), want.values) and torch.equal(order.cpu(), want.indices), (dtype, shape)
    if checked:
        return
    keys, more = torch.tensor([2, 0, 1], device=device), torch.tensor([5.0, 6.0, 7.0], device=device).bfloat16()
    ordered, moved = kernels.sort_by_key(keys, more)
    assert ordered.tolist() == [0, 1, 2] and moved.tolist() == [6, 7, 5]


def test_sorting_what_is_no_number(device: str):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([nan, -0.0, inf, 0.0, -inf, -nan, 1.0], device=device)
    for dtype in (torch.float32, torch.float64):
        up, down = (kernels.argsort(x.to(dtype), descending=way).tolist() for way in (False, True))
        assert up == [4, 1, 3, 6, 2, 0, 5] and down == [0, 5, 2, 6, 1, 3, 4]
    ends = torch.tensor([2**63 - 1, -(2**63), 0], device=device)
    assert kernels.argsort(ends).tolist() == [1, 2, 0] and kernels.argsort(ends, descending=True).tolist() == [0, 2, 1]
    assert kernels.argsort(x[:0]).shape == (0,) and kernels.sort(x.reshape(7, 1)[:, :0], axis=0)[0].shape == (7, 0)


def test_mistakes():
    x = np.zeros((2, 3), "f4")
    with pytest.raises(DSLValueError, match="axis is one of 2, from -2 to 1, got 2"):
        kernels.reduce(x, axis=2)
    with pytest.raises(DSLValueError, match="op is one of sum, prod, max, min, mean, got 'most'"):
        kernels.reduce(x, "most")
    with pytest.raises(DSLValueError, match="op is one of sum, prod, max, min, got 'mean'"):
        kernels.scan(x, "mean")
    with pytest.raises(DSLTypeError, match="means are of floats, got int32"):
        kernels.reduce(x.astype("i4"), "mean")
    with pytest.raises(DSLValueError, match=r"each axis is named once, got \(0, -2\)"):
        kernels.reduce(x, axis=(0, -2))
    with pytest.raises(DSLValueError, match=r"values\[0\] has the shape of keys, \[2, 3\], got \[3\]"):
        kernels.sort_by_key(x, x[0])
    with pytest.raises(DSLTypeError, match="x has elements of"):
        kernels.sort(x.astype("c8"))


X, Y, N = torch.zeros(2, 4096), torch.zeros(2, 64, 64), torch.zeros(2, 4096).long()
FORM = form_of(2, 4096, {"x": describe("test", "x", X)}, 4)
CALLS = {
    "reduce rows": (reduce_rows, (X, X[0, :2], 2, 4096, "mean", FORM)),
    "reduce columns": (reduce_columns, (Y, Y[:, 0], 2, 64, 64, "max")),
    "scan rows": (scan_rows, (X, X, X, 2, 4096, 1024, 4, Way("sum", True, False, 256, False))),
    "scan columns": (scan_columns, (Y, Y, 2, 64, 64, Way("prod", False, True, 64, False))),
    "sort tiles": (sort_tiles, (X, N, N.int(), 2, 4096, 4, 1024, True)),
    "merge runs": (merge_runs, (N, N.int(), None, N, 2, 4096, 1024)),
    "gather rows": (gather_rows, (X, N, X, 2, 4096)),
}


@pytest.mark.parametrize("what", CALLS)
def test_builds(what: str):
    function, arguments = CALLS[what]
    for target in ("cuda:sm_90a", "rocm:gfx942"):
        artifact = flyc.compile(function, *arguments, target=target).artifact
        for used in (artifact.resources or {}).values():
            assert used.get("spills", 0) == 0, target
