"""Dimensions in front of matrices: as numpy and torch have them, whatever the strides."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.errors import DSLValueError
from flydsl.kernels import matmul
from flydsl.kernels.matmul import entry
from flydsl.kernels.matmul.amd.weights import preshuffle_weight

from .matmul_checks import bound, decide_anew


def laid(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Random values whose dimensions lie in any order, with room between them, some of them one for all."""
    shared = [n > 1 and i < len(shape) - 2 and rng.random() < 0.15 for i, n in enumerate(shape)]
    own = [1 if s else n for s, n in zip(shared, shape, strict=True)]
    order = list(range(len(shape))) if rng.random() < 0.4 else [int(i) for i in rng.permutation(len(shape))]
    room = [own[i] + int(rng.integers(0, 2) * (rng.random() < 0.3)) for i in order]
    whole = torch.from_numpy(rng.standard_normal(room)).to(dtype)
    for at, i in enumerate(order):
        whole = whole.narrow(at, 0, own[i])
    return whole.permute([order.index(i) for i in range(len(shape))]).expand(shape)


def test_any_dimensions_in_front(rng: np.random.Generator, emulate):
    emulate("native")
    for _ in range(80):
        front = [int(n) for n in rng.choice([0, 1, 1, 2, 3, 4], int(rng.integers(0, 4)))]
        m, n, k = (int(x) for x in rng.choice([1, 2, 5, 8, 17], 3))
        ways = [[1 if rng.random() < 0.25 else x for x in front][int(rng.integers(0, 1 + len(front))) * side :]
                for side in rng.permutation(2)]  # fmt: skip
        dtype = (torch.float32, torch.float16, torch.bfloat16)[int(rng.integers(3))]
        a, b = laid(rng, (*ways[0], m, k), dtype), laid(rng, (*ways[1], k, n), dtype)
        expected = a.double() @ b.double()
        got = matmul(a, b)
        assert got.shape == expected.shape
        bound(got, a, b)
        out = laid(rng, expected.shape, dtype).clone(memory_format=torch.preserve_format).fill_(float("nan"))
        bias = torch.from_numpy(rng.standard_normal(n)).float()
        for _ in range(2):
            assert matmul(a, b, out=out, bias=bias) is out
            bound(out, a, b, lambda x, bias=bias: x + bias.double())


def test_rows_of_all_are_those_of_one_matrix(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """What a linear layer multiplies: no batch is left, whose matrices would be tiles of their own."""
    decide_anew(monkeypatch)
    emulate("sm_90a")
    b = torch.from_numpy(rng.standard_normal((64, 40))).bfloat16()
    for front in ((5, 1), (1, 7), (2, 3, 4), (1, 1)):
        a = torch.from_numpy(rng.standard_normal((*front, 64))).bfloat16()
        wide = torch.full((*front, 48), float("nan")).bfloat16()
        for out in (None, wide[..., :40]):
            bound(matmul(a, b, out=out), a, b)
            bound(matmul(a, b[None], out=out), a, b)
        assert wide[..., 40:].isnan().all()
    assert {known.request.batched for known in entry._decided.values()} == {False}  # pyright: ignore[reportPrivateUsage]


def test_scales_of_rows_with_dimensions_in_front(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    # Small integers: the tensor cores' sums of them are exact.
    a, b = (torch.from_numpy(rng.integers(-3, 4, s)).to(torch.float8_e4m3fn) for s in ((2, 3, 256), (256, 144)))
    rows, columns = torch.rand(2, 3, 1) + 0.5, torch.rand(144) + 0.5
    want = (a.double() * rows) @ (b.double() * columns)
    for scale in (rows, rows[..., 0]):
        got = matmul(a, b, scale_a=scale, scale_b=columns, out_dtype=torch.float32)
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)
    shared = matmul(a, b, scale_a=rows[0], out_dtype=torch.float32)
    torch.testing.assert_close(shared.double(), (a.double() * rows[0]) @ b.double(), rtol=1e-5, atol=1e-4)
    one = matmul(a[:1], b, scale_a=rows[0, :, 0], out_dtype=torch.float32)
    torch.testing.assert_close(one, shared[:1])
    lines, squares = torch.rand(2, 3, 2) + 0.5, torch.rand(2, 2) + 0.5
    wide = lines.repeat_interleave(128, -1), squares.repeat_interleave(128, 0).repeat_interleave(128, 1)[:, :144]
    got = matmul(a, b, scale_a=lines, scale_b=squares, out_dtype=torch.float32)
    want = (a.double() * wide[0]) @ (b.double() * wide[1])
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4)


def test_weights_laid_out_for_amd(rng: np.random.Generator, emulate):
    emulate("gfx942")
    a = torch.from_numpy(rng.standard_normal((2, 3, 64))).half()
    w = torch.from_numpy(rng.standard_normal((64, 32))).half()
    bound(matmul(a, preshuffle_weight(w)), a, w)


def test_numpy(rng: np.random.Generator, emulate):
    emulate("native")
    a, b = rng.standard_normal((2, 1, 4, 5)).astype("f4"), rng.standard_normal((3, 5, 6)).astype("f4")
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        matmul(a.transpose(1, 0, 2, 3), b[0]), a.transpose(1, 0, 2, 3) @ b[0], rtol=1e-5, atol=1e-5
    )


def test_what_does_not_fit_is_refused_and_nothing_is_written(emulate):
    emulate("native")
    a, b = torch.ones(2, 3, 4, 5), torch.ones(3, 5, 6)
    with pytest.raises(DSLValueError, match="a and b have different batches"):
        matmul(a, b[:2])
    with pytest.raises(DSLValueError, match=r"out has the shape \[2, 3, 4, 6\]"):
        matmul(a, b, out=torch.zeros(2, 3, 4, 5))
    with pytest.raises(DSLValueError, match="on top of each other"):
        matmul(a, b, out=torch.zeros(3, 4, 6).expand(2, 3, 4, 6))
    # Matrices of later launches are read, too.
    memory = torch.ones(400)
    late = memory[240:360].view(2, 3, 4, 5)
    out = memory[200:344].view(3, 2, 4, 6).transpose(0, 1)
    for _ in range(3):
        with pytest.raises(DSLValueError, match="out overlaps a"):
            matmul(late, b, out=out)
    assert (memory == 1).all()
