"""The loss of a linear layer in pieces, and its gradients, against float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from flydsl import kernels
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.testing import assert_close

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16


def arrays(rng: np.random.Generator, dtype: torch.dtype, m: int, d: int, v: int) -> list[torch.Tensor]:
    x, w, b = (torch.from_numpy(rng.standard_normal(s)) for s in ((m, d), (v, d), (v,)))
    return [x.to(dtype), (w * 0.5).to(dtype), b.to(dtype)]


@pytest.mark.parametrize("checked", [False, True])
def test_losses_and_gradients(checked: bool, device: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Several pieces of rows and of classes, of odd sizes, and all at once; products of float64 are the host's."""
    if checked:
        if device != "cpu":
            pytest.skip("the cpu stack checks accesses")
        monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    ways = [(F64, 11, 67, (4, 32), 0.2), (BF16, 8, 64, (4, 32), 0.0), (F64, 11, 67, None, 0.0)]
    d = 24
    for dtype, m, v, piece, smoothing in ways[:1] if checked else ways:
        given = arrays(rng, dtype, m, d, v)
        x, w, b = (t.to(device) for t in given)
        target = torch.from_numpy(rng.integers(0, v, m))
        target[3], target[0] = -100, v - 1
        start = [t.double().requires_grad_() for t in given]
        logits = start[0] @ start[1].T + start[2]
        want = F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)
        goal = target.to(device)
        made = kernels.linear_cross_entropy_forward(x, w, goal, b, label_smoothing=smoothing, piece=piece)
        assert_close(made.losses.cpu(), want.detach(), atol=3e-6, rtol=2e-6, what="losses")
        mean = kernels.linear_cross_entropy(x, w, goal, b, label_smoothing=smoothing, piece=piece)
        assert abs(float(mean) - float(want.detach().sum()) / (m - 1)) < 1e-5
        d_losses = torch.from_numpy(rng.standard_normal(m)).float()
        wanted = torch.autograd.grad(want, start, d_losses.double())
        got = kernels.linear_cross_entropy_backward(
            x, w, goal, made.sums, d_losses.to(device), b, label_smoothing=smoothing, piece=piece
        )
        # What each sum is made of: gradients of logits are rounded to the type of x.
        p = torch.autograd.grad(
            F.cross_entropy(logits := logits.detach().requires_grad_(), target, reduction="none"), logits,
            d_losses.double(),
        )[0].abs() + 0.2 / v  # fmt: skip
        sizes = (p @ start[1].abs(), p.T @ start[0].abs(), p.sum(0))
        eps = 2.0**-8 if dtype == BF16 else 2.0**-21
        for name, have, need, size in zip(("x", "weight", "bias"), got, wanted, sizes, strict=True):
            assert have.dtype == dtype and have.shape == need.shape
            assert_close(have.cpu(), need, atol=size.detach() * eps, rtol=eps, what=f"d{name} {dtype} {piece}")


def test_what_is_not_there_and_what_is_no_number(device: str, rng: np.random.Generator):
    x, w, _ = (t.to(device) for t in arrays(rng, F32, 4, 8, 9))
    target = torch.tensor([9, -1, 8, 0], device=device)
    x[2, 0] = float("inf")
    losses = kernels.linear_cross_entropy(x, w, target, reduction="none", piece=(3, 4)).cpu()
    want = F.cross_entropy((x.cpu().double() @ w.cpu().double().T)[3:], target.cpu()[3:])
    # No such class; a row with a logit of inf has none either; the last row is as always.
    assert losses[:3].isnan().all() and abs(float(losses[3]) - float(want)) < 1e-6
    sums = kernels.linear_cross_entropy_forward(x, w, target).sums
    got = kernels.linear_cross_entropy_backward(x, w, target, sums, torch.ones_like(sums), wanted=(True, False, True))
    assert got.weight is None and got.bias is None
    assert got.x[:3].isnan().all(-1).all() and not got.x[3].isnan().any()
    # No rows, no columns.
    none = kernels.linear_cross_entropy(x[:0], w, target[:0], reduction="none")
    assert none.shape == (0,)
    flat = kernels.linear_cross_entropy(x[:, :0], w[:, :0], target % 9, reduction="none").cpu()
    assert_close(flat, torch.full((4,), np.log(9)), atol=1e-6)
    back = kernels.linear_cross_entropy_backward(x[:0], w, target[:0], sums[:0], sums[:0])
    assert not back.weight.any() and back.x.shape == (0, 8)


def test_strides_batches_and_numpy(device: str, rng: np.random.Generator):
    if device != "cpu":
        pytest.skip("numpy arrays are on the host")
    x, w = rng.standard_normal((5, 2, 6)).astype("f4"), rng.standard_normal((6, 9)).astype("f4")
    target = rng.integers(0, 9, (5, 2)).astype("i4")
    got = kernels.linear_cross_entropy(x, w.T, target, reduction="none", piece=(7, 5))
    logits = torch.from_numpy(x.reshape(10, 6)).double() @ torch.from_numpy(w).double()
    want = F.cross_entropy(logits, torch.from_numpy(target.reshape(-1)).long(), reduction="none")
    assert_close(torch.from_numpy(got).reshape(-1), want, atol=2e-6)


def test_mistakes():
    x, w, t = np.zeros((3, 4), "f4"), np.zeros((5, 4), "f4"), np.zeros(3, "i8")
    call = kernels.linear_cross_entropy
    with pytest.raises(DSLValueError, match=r"weight \(classes, columns\), got float32\[3, 4\] and float32\[5, 3\]"):
        call(x, w[:, :3], t)
    with pytest.raises(DSLTypeError, match="weight has the type of x, float32, got float64"):
        call(x, w.astype("f8"), t)
    with pytest.raises(DSLValueError, match=r"target has the shape \[3\], as x tells"):
        call(x, w, t[:2])
    with pytest.raises(DSLValueError, match="between 0 and 1, got 2"):
        call(x, w, t, label_smoothing=2.0)
    with pytest.raises(DSLValueError, match="mean, sum, none"):
        call(x, w, t, reduction="most")
    with pytest.raises(DSLValueError, match=r"at least one row and one class, got \(0, 4\)"):
        call(x, w, t, piece=(0, 4))
    with pytest.raises(DSLValueError, match="no classes to choose from"):
        call(x, w[:0], t)
