"""What tests of matrix products share: operands in any layout, poisoned results, and a bound for every element."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.kernels import repeats
from flydsl.kernels.matmul import entry

EPSILON = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def decide_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided before this test does not count in it, nor behind it what is decided in it."""
    for module, name in ((entry, "_decided"), (repeats, "_calls"), (repeats, "latest")):
        monkeypatch.setattr(module, name, {})


def matrix(rng: np.random.Generator, shape, major: str, dtype, device: str) -> torch.Tensor:
    """Random values of a large range, (batch, rows, k), contiguous along k or along the rows, with longer steps."""
    batches, rows, k = shape
    scale = np.exp2(rng.integers(-6, 7, (batches, rows, 1)))
    values = torch.from_numpy(rng.standard_normal(shape) * scale).to(dtype)
    unit = 16 // values.element_size()
    if major == "k":
        whole = torch.full((batches, rows, -(-k // unit) * unit + unit), float("nan"), dtype=dtype)
        whole[..., :k] = values
        return whole.to(device)[..., :k]
    whole = torch.full((batches, k, -(-rows // unit) * unit + unit), float("nan"), dtype=dtype)
    whole[..., :rows] = values.transpose(1, 2)
    return whole.to(device)[..., :rows].transpose(1, 2)


def poisoned(shape, dtype, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A result full of NaN, and the longer rows it lies in."""
    batches, m, n = shape
    unit = 16 // torch.empty((), dtype=dtype).element_size()
    whole = torch.full((batches, m, -(-n // unit) * unit + unit), float("nan"), dtype=dtype, device=device)
    return whole[..., :n], whole


def bound(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, after=lambda x: x, *, sums: float = 0.0) -> None:
    """Every element of C = after(A B) is as near to float64 as rounding and f32 sums of K products allow.

    `sums` is what the hardware's own sums lose, of the sum of all terms' sizes.
    """
    a, b, got = a.double(), b.double(), c.double()
    expected = after(a @ b)
    terms = a.abs() @ b.abs()
    # Numbers below the smallest normal one are that far apart at least.
    finest = torch.finfo(c.dtype).smallest_normal * EPSILON[c.dtype] * 2 if c.dtype.is_floating_point else 0.0
    allowed = (
        EPSILON[c.dtype] * expected.abs() * 1.01
        + (a.shape[-1] + 8) * 2.0**-23 * terms * 2
        + sums * terms
        + finest
        + 1e-30
    )
    assert not torch.isnan(got).any()
    if c.dtype.is_floating_point:
        # From half a step beyond the largest number on, rounding gives an infinity of the same sign.
        beyond = torch.finfo(c.dtype).max * (1 + EPSILON[c.dtype] / 2)
        over = (expected.abs() + allowed >= beyond) & (got == expected.sign() * torch.inf)
        got = torch.where(over, expected, got)
    worst = ((got - expected).abs() / allowed).max().item() if got.numel() else 0.0
    assert worst <= 1, worst
