"""Attention in float64, and a bound for every element of a result."""

from __future__ import annotations

import math

import numpy as np
import torch

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


def philox(seed: int, counters: np.ndarray, subsequence: int = 0, rounds: int = 7) -> np.ndarray:
    """Four words of 32 bits for each counter of 64, (..., 4): the generator in numpy."""
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    key = [np.uint64(seed % 2**32), np.uint64(seed >> 32 & 0xFFFFFFFF)]
    zero = np.zeros_like(counters)
    words = [counters & low, counters >> shift, zero + np.uint64(subsequence), zero]
    for _ in range(rounds):
        one, two = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(two >> shift) ^ words[1] ^ key[0], two & low, (one >> shift) ^ words[3] ^ key[1], one & low]
        key = [(k + np.uint64(w)) & low for k, w in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)]
    return np.stack(words, -1)


def kept_of(shape: tuple[int, int, int, int], rate: float, seed: int) -> torch.Tensor:
    """What dropout multiplies the weights of (batch, heads, queries, keys) by: 16 bits of the generator for each.

    A draw has two rows, 8 apart in 16, and four keys: two neighbours, and those 8 behind them."""
    batches, heads, queries, keys = shape
    found = np.zeros((batches * heads, queries, keys))
    row, key = np.arange(queries, dtype=np.uint64)[:, None], np.arange(keys, dtype=np.uint64)[None]
    of_row, of_key = row // 16 * 8 + row % 8, key // 16 * 4 + key // 2 % 4
    which = np.broadcast_to(key % 2 * 2 + key // 8 % 2, (queries, keys)).astype(int)
    for line in range(batches * heads):
        words = philox(seed % 2**64, of_row * np.uint64(2**32) + of_key, line)
        word = np.take_along_axis(words, which[..., None], -1)[..., 0]
        number = np.where(row // 8 % 2 == 1, word >> np.uint64(16), word & np.uint64(0xFFFF))
        found[line] = (number >= round(rate * 2**16)) / (1 - rate)
    return torch.from_numpy(found.reshape(shape))


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
