"""`combine` against float64: parts of keys as few and as many as there may be, and how many a call takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.kernels.attention.combine import combine
from flydsl.kernels.attention.plan import FEW, MOST, splits_for


@pytest.mark.parametrize(
    ("arch", "splits", "dv", "sink"),
    [
        ("sm_90a", 3, 64, False),
        ("sm_90a", FEW, 192, True),
        ("sm_90a", FEW + 1, 192, True),
        ("sm_90a", 132, 512, False),
        ("gfx942", 40, 64, False),
        ("gfx942", MOST, 64, False),
        ("sm_90a", MOST, 16, False),
        ("native", 2, 256, True),
        ("native", 131, 72, True),
    ],
)
def test_parts_become_one(arch: str, splits: int, dv: int, sink: bool, rng: np.random.Generator, emulate, monkeypatch):
    """Parts without a key, and a row without any."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    emulate(arch)
    batches, heads, queries = 2, 3, 2
    parts = torch.from_numpy(rng.standard_normal((splits, batches, heads, queries, dv))).float()
    heights = torch.from_numpy(rng.uniform(-40.0, 40.0, (splits, batches, heads, queries))).float()
    gone = torch.from_numpy(rng.random((splits, batches, heads, queries)) < 0.3)
    gone[:, 1, 2, 1] = True
    heights[gone], parts[gone] = float("-inf"), 0.0
    sinks = torch.from_numpy(rng.uniform(-5.0, 45.0, heads)).float() if sink else None
    out = torch.full((batches, queries, heads, dv), float("nan"), dtype=torch.float32)
    lse = torch.full((batches, heads, queries), float("nan"))
    steps = out.stride()
    combine(
        parts, heights, out, lse, sinks, splits, batches, queries, heads, steps[0], steps[1], steps[2], dv, splits > FEW
    )
    columns = heights.double()
    if sinks is not None:
        columns = torch.cat([columns, sinks.double().reshape(1, 1, heads, 1).expand(1, batches, heads, queries)])
    want_lse = columns.logsumexp(0)
    weights = (heights.double() - want_lse).exp().nan_to_num(0.0)
    want = (weights[..., None] * parts.double()).sum(0)
    torch.testing.assert_close(lse.double(), want_lse, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out.double().transpose(1, 2), want, rtol=1e-4, atol=1e-4)


def test_one_sequence_is_cut_for_all_multiprocessors():
    assert splits_for(1, 4096, 132) == 128
    assert splits_for(2, 4096, 132) == 64
    assert splits_for(1, 20, 132) <= 10
    assert splits_for(132, 4096, 132) == 1
    assert splits_for(1, 1 << 20, 300) <= MOST
