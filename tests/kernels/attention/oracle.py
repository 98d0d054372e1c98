"""Attention in float64, and a bound for every element of a result."""

from __future__ import annotations

import math

import numpy as np
import torch

import flydsl.expr as fx

EPSILON = {torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def random(rng: np.random.Generator, *shape: int, dtype=torch.bfloat16) -> torch.Tensor:
    return torch.from_numpy(rng.standard_normal(shape)).to(dtype)


def oracle(
    q, k, v, *, causal=False, window=None, scale=None, softcap=None, bias=None, alibi=None, sinks=None, kept=None
):
    """Result and logarithm of sums, (batch, queries, heads, dv) and (batch, heads, queries), from float64.

    `kept` is what each weight is multiplied by once it is known.
    """
    heads, queries, keys = q.shape[2], q.shape[1], k.shape[1]
    x, y, z = (t.double().transpose(1, 2) for t in (q, k, v))
    y, z = (t.repeat_interleave(heads // max(k.shape[2], 1), 1) for t in (y, z))
    scores = x @ y.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    place = torch.arange(queries)[:, None] + keys - queries
    column = torch.arange(keys)[None]
    if alibi is not None:
        scores = scores - alibi.double().reshape(-1, heads, 1, 1) * (place - column).abs()
    if bias is not None:
        scores = scores + bias.double()
    left, right = (None, None) if window is None else window
    right = 0 if causal else right
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if right not in (None, -1):
        seen &= column <= place + right
    if left not in (None, -1):
        seen &= column >= place - left
    scores = scores.masked_fill(~seen, -math.inf)
    if sinks is not None:
        column_of_sinks = sinks.double().reshape(1, heads, 1, 1).expand(*scores.shape[:3], 1)
        lse = torch.cat([scores, column_of_sinks], -1).logsumexp(-1)
    else:
        lse = scores.logsumexp(-1) if keys else torch.full(scores.shape[:3], -math.inf, dtype=torch.float64)
    weights = (scores - lse.clamp_min(-1e300)[..., None]).exp()
    if kept is not None:
        weights = weights * kept
    return (weights @ z).transpose(1, 2), lse, (weights @ z.abs()).transpose(1, 2)


def kept_of(shape: tuple[int, int, int, int], rate: float, seed: int) -> torch.Tensor:
    """What dropout multiplies the weights of (batch, heads, queries, keys) by, from the counter-based generator."""
    batches, heads, queries, keys = shape
    found = torch.zeros(shape, dtype=torch.float64)
    limit = round((1 - rate) * 2**32)
    for line in range(batches * heads):
        own = (seed ^ (line * 0x9E3779B97F4A7C15)) % 2**64
        for row in range(queries):
            for group in range(-(-keys // 4)):
                place = fx.Int64((row << 32) | group)
                numbers = fx.random.randint4x(fx.Uint64(own), place)
                for i, x in enumerate(numbers[: keys - 4 * group]):
                    found[line // heads, line % heads, row, 4 * group + i] = (int(x) < limit) / (1 - rate)
    return found


def compare(found, q, k, v, **more) -> None:
    """Every element of a result, and of the logarithms, as near to float64 as the types allow."""
    out, lse = found
    want, want_lse, size = oracle(q, k, v, **more)
    assert not torch.isnan(out).any()
    # Weights are rounded to the type of the values, and so is the result.
    allowed = EPSILON[out.dtype] * (size + want.abs()) + 1e-5
    worst = ((out.double() - want).abs() / allowed).max().item() if out.numel() else 0.0
    assert worst <= 1, worst
    finite = torch.isfinite(want_lse)
    assert torch.equal(torch.isneginf(lse), ~finite)
    torch.testing.assert_close(lse[finite].double(), want_lse[finite], rtol=1e-5, atol=2e-5)
