"""Softmax and group norm in 8 bits and in MX blocks, sums in front of MX norms, and codes back to numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from flydsl import kernels
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.testing import assert_close

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
EPS = 0.7
STEPS = {"int8": (127.0, 0.0, 0.5001), "float8_e4m3fn": (448.0, 2**-4, 2**-10), "float8_e5m2": (57344.0, 2**-3, 2**-17)}
"""The largest code, half a step relative to a number, and the least half step, in scales."""


def values(rng: np.random.Generator, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.from_numpy(rng.standard_normal(shape)) * 2).to(dtype)


def checked(
    made: tuple[torch.Tensor, ...], want: torch.Tensor, kind: str, run: int | None, error: float, given: object
) -> None:
    """Scales are those of the largest of `run` neighbours, and codes times scales the numbers, within half a step."""
    codes, scales = made[0].cpu(), made[1].cpu()
    assert codes.shape == want.shape and codes.dtype == getattr(torch, kind)
    largest, relative, least = STEPS[kind]
    if run is None:
        assert made[1] is given
        each = scales.double().expand(want.shape)
    else:
        tops = want.reshape(-1, run).abs().amax(-1)
        assert_close(scales.double().reshape(-1), tops / largest, rtol=error, atol=error / largest)
        each = scales.double().reshape(-1).repeat_interleave(run).reshape(want.shape)
    back = kernels.dequantize(made[0], made[1]).cpu()
    assert_close(back, codes.double() * each, rtol=2**-23, what="codes times scales")
    want = want.clamp(-largest * each, largest * each)
    bound = want.abs() * (relative + error) + each * least * 1.001 + error
    assert ((back.double() - want).abs() <= bound).all()


@pytest.mark.parametrize(("kind", "dtype", "shape"), [
    ("int8", F32, (3, 2, 256)), ("float8_e4m3fn", BF16, (5, 384)), ("float8_e5m2", F16, (2, 37)),
    ("int8", BF16, (128,)),
])  # fmt: skip
def test_softmax(kind: str, dtype: torch.dtype, shape: tuple[int, ...], device: str, rng: np.random.Generator):
    x = values(rng, dtype, *shape)
    want, n = torch.softmax(x.double(), -1), shape[-1]
    known = torch.full((1,), 0.003, device=device)
    for scale, run in ((None, n), ("row", n), ("block", 128), ("tensor", want.numel()), (known, None)):
        if scale == "block" and n % 128:
            continue
        made = kernels.softmax_quantized(x.to(device), kind, scale=scale)
        checked(made, want, kind, run, 4e-6, known)


def test_shares_of_long_rows_are_small(device: str):
    """Where the codes are made behind the softmax it has float32: in 16 bits these shares have no digits."""
    x = torch.linspace(0, -14, 70016).half().to(device)
    codes, scales = kernels.softmax_quantized(x, "float8_e4m3fn", scale="block")
    want, back = torch.softmax(x.cpu().double(), -1), kernels.dequantize(codes, scales).cpu().double()
    assert ((back - want).abs() <= want * 2**-4 * 1.01).all()


def test_rows_of_nothing_but_infinities(device: str):
    """The scale says what the softmax does: NaN."""
    x = torch.zeros(2, 5, device=device)
    x[0] = float("-inf")
    q, scales = kernels.softmax_quantized(x, "float8_e5m2")
    assert torch.softmax(x, -1)[0].isnan().all() and kernels.dequantize(q, scales)[0].isnan().all()
    assert_close(kernels.dequantize(q, scales)[1].cpu(), torch.full((5,), 0.2), rtol=1e-6)


@pytest.mark.parametrize(("kind", "dtype", "shape", "groups"), [
    ("int8", F32, (2, 6, 4, 128), 3), ("float8_e4m3fn", BF16, (3, 4, 5, 7), 2), ("int8", F16, (2, 8), 2),
])  # fmt: skip
def test_group_norm(
    kind: str, dtype: torch.dtype, shape: tuple[int, ...], groups: int, device: str, rng: np.random.Generator
):
    x, r = (values(rng, dtype, *shape) for _ in range(2))
    w, b = (values(rng, F32, shape[1]) for _ in range(2))
    summed = (x.double() + r.double()).to(dtype)
    normed = F.group_norm(summed.double(), groups, w.double(), b.double(), EPS)
    group, known = normed[0].numel() // groups, torch.full((1,), 0.05, device=device)
    rounded = 2.0 ** {F32: -22, F16: -9, BF16: -6}[dtype]
    ways = ((None, group), ("group", group), ("row", shape[-1]), ("block", 128), ("tensor", x.numel()), (known, None))
    for scale, run in ways:
        if scale == "block" and shape[-1] % 128:
            continue
        error = 1e-4 + (rounded * 4 if scale in ("tensor", "row") else 0.0)
        made = kernels.group_norm_quantized(
            x.to(device), groups, w.to(device), b.to(device), kind, eps=EPS, residual=r.to(device), scale=scale
        )
        assert torch.equal(made[2].cpu(), summed)
        checked(made, normed, kind, run, error, known)
        if scale is None:
            assert made[1].shape == (shape[0], groups)
    plain = kernels.group_norm_quantized(x.to(device), groups, dtype=kind, eps=EPS)
    checked(plain, F.group_norm(x.double(), groups, None, None, EPS), kind, group, 1e-4, None)
    assert len(plain) == 2


def test_mx(device: str, rng: np.random.Generator):
    """As near to the numbers in float64 as four bits allow, whatever the weights' places in memory; and the sums."""
    for dtype, n in ((F32, 64), (BF16, 1056)):
        x, r = (values(rng, dtype, 3, n).to(device) for _ in range(2))
        w, b = values(rng, dtype, n + 1).to(device)[1:], values(rng, F32, n).to(device)  # the former begins anywhere
        image, over = (values(rng, dtype, 2, 4, 3, 32).to(device) for _ in range(2))
        weight = values(rng, F32, 4).to(device)
        both, images = ((a + c).cpu().double() for a, c in ((x, r), (image, over)))
        w64, b64 = w.cpu().double(), b.cpu().double()
        calls: list[tuple[Callable[[], Any], torch.Tensor, torch.Tensor | None]] = [
            (lambda x=x, r=r, w=w: kernels.rms_norm_mx(x, w, eps=EPS, residual=r),
             F.rms_norm(both, (n,), w64, EPS), both),
            (lambda x=x, r=r, w=w, b=b: kernels.layer_norm_mx(x, w, b, eps=EPS, residual=r),
             F.layer_norm(both, (n,), w64, b64, EPS), both),
            (lambda x=x: kernels.softmax_mx(x), torch.softmax(x.cpu().double(), -1), None),
            (lambda i=image, o=over, w=weight: kernels.group_norm_mx(i, 2, w, eps=EPS, residual=o),
             F.group_norm(images, 2, weight.cpu().double(), None, EPS), images),
        ]  # fmt: skip
        for call, want, total in calls:
            codes, scales, *more = call()
            assert [t.cpu().double().tolist() for t in more] == ([] if total is None else [total.tolist()])
            got = kernels.dequantize_mx(codes, scales).cpu().double()
            step = torch.exp2(scales.cpu().double() - 127).repeat_interleave(32, -1)
            bound = torch.maximum(want.abs() * (2.0**-4 + 1e-5), step * 2.0**-10) * 1.001
            # The largest of a block may be cut from 480 to 448.
            bound = torch.where(want.abs() / step > 448, step * 64, bound)
            assert got.shape == want.shape and ((got - want).abs() <= bound + 1e-30).all()


def test_codes_come_back(device: str, rng: np.random.Generator):
    """From arrays with strides and of any extents, with scales of rows, groups, blocks of any length and for all."""
    codes = torch.from_numpy(rng.integers(-127, 128, (4, 6, 50))).to(torch.int8).to(device)
    wide = torch.zeros(4, 6, 101, dtype=torch.int8, device=device)
    wide[..., 1:51] = codes
    for given in (codes, wide[..., 1:51], codes.mT, codes[:0]):
        for shape in ((4, 6), (4, 3), (4, 6, 10), (2,), (1,), (), (4, 50), (4, 25)):
            lead = shape[-1] if shape else 1
            fits = len(shape) < 2 or given.shape[len(shape) - 1] % lead == 0
            shape = (0, *shape[1:]) if not len(given) and len(shape) > 1 else shape
            scales = torch.tensor(np.exp(rng.standard_normal(shape)), dtype=F32).to(device)
            if not fits or (shape == (2,) and not len(given)):
                continue
            dtype = (F32, BF16, F16, torch.float64)[int(rng.integers(4))]
            out = torch.full(given.shape, 99.0, dtype=dtype, device=device)
            assert kernels.dequantize(given, scales, dtype=dtype, out=out) is out
            each = scales.cpu().double().reshape(-1)
            if given.numel():
                each = each.repeat_interleave(given.numel() // each.numel()).reshape(given.shape)
                assert_close(out.cpu(), given.cpu().double() * each, rtol=2**-23)
    long = torch.from_numpy(rng.integers(-127, 128, 30011)).to(torch.int8).to(device)
    assert torch.equal(kernels.dequantize(long, torch.full((), 0.5, device=device)), long.float() * 0.5)
    made = kernels.dequantize(*kernels.quantize(np.array([[1.0, -4.0], [0.0, 0.5]], "f4"), "int8"))
    assert_close(made, np.array([[1.0, -4.0], [0.0, 0.5]]), atol=4 / 250)


def test_mistakes():
    codes, scales = np.zeros((4, 6), "i1"), np.ones(4, "f4")
    calls: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: kernels.dequantize(codes.astype("f4"), scales), DSLTypeError, "codes has elements of float8_e4m3fn"),
        (lambda: kernels.dequantize(codes, scales.astype("f8")), DSLTypeError, "scales has elements of float32"),
        (lambda: kernels.dequantize(codes, np.ones(3, "f4")), DSLValueError, r"directions of codes.*such as \[4\]"),
        (lambda: kernels.dequantize(codes, np.ones((4, 4), "f4")), DSLValueError, r"float32\[4, 4\] for int8\[4, 6\]"),
        (lambda: kernels.dequantize(codes, np.ones((4, 6, 1), "f4")), DSLValueError, "leading directions"),
        (lambda: kernels.dequantize(codes, scales, dtype="int8"), DSLTypeError, "dtype is one of float32, .*got int8"),
        (lambda: kernels.softmax_quantized(scales, scale="group"), DSLValueError, "one of row, block, tensor, got"),
        (lambda: kernels.softmax_quantized(scales, scale="block"), DSLValueError, "elements of a row, got rows of 4"),
        (lambda: kernels.softmax_quantized(scales, "int4"), DSLTypeError, "dtype is one of float8_e4m3fn"),
        (lambda: kernels.group_norm_quantized(scales, 1), DSLValueError, r"\(images, channels, ...\)"),
        (lambda: kernels.group_norm_quantized(scales[None], 3), DSLValueError, "4 channels are no 3 groups"),
        (lambda: kernels.group_norm(scales[None], 2, residual=scales), DSLValueError, r"residual has the shape"),
        (lambda: kernels.group_norm_mx(np.ones((1, 4, 40), "f4"), 2), DSLValueError, "blocks are 32 elements"),
        (lambda: kernels.softmax_mx(np.ones((1, 64))), DSLTypeError, "float32, float16, bfloat16, got float64"),
    ]  # fmt: skip
    for call, error, words in calls:
        with pytest.raises(error, match=words):
            call()
