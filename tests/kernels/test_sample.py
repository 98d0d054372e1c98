"""Sampling: draw by draw against Philox and float64 in numpy, and as distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from flydsl import kernels
from flydsl.errors import DSLTypeError, DSLValueError

Array = NDArray[np.float64]


def philox(seed: int, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The first word of Philox 4x32-10 of each offset."""
    low = np.uint64(0xFFFFFFFF)
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    c0, c1 = offsets & low, offsets >> np.uint64(32)
    c2 = c3 = np.zeros_like(c0)
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (b >> np.uint64(32)) ^ c1 ^ k0, b & low, (a >> np.uint64(32)) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return c0


def left(x: Array, temperature: float, k: int, p: float) -> Array:
    """The chances of a row, 0 for what is filtered."""
    chances = np.exp((x - x.max()) / temperature)
    if 0 < k < len(x):
        chances[x < np.sort(x)[-k]] = 0
    chances /= chances.sum()
    ordered = np.sort(chances)[::-1]
    last = ordered[np.searchsorted(np.cumsum(ordered), p)] if p < 1 else 0.0
    chances[chances < last] = 0
    return chances / chances.sum()


def scores(x: Array, chances: Array, seed: int, offset: int) -> Array:
    """What each element scores: the highest one is drawn."""
    uniform = (philox(seed, np.arange(len(x), dtype=np.uint64) + np.uint64(offset)) + 0.5) * 2.0**-32
    with np.errstate(divide="ignore"):
        return np.log(chances) - np.log(-np.log1p(-uniform))


@pytest.mark.parametrize("way", ["plain", "checked"])
def test_each_draw(way: str, device: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    shapes = [(torch.bfloat16, 3, 257), (torch.float32, 5, 40), (torch.float32, 1, 33333), (torch.float64, 4, 57)]
    if way == "checked":
        if device != "cpu":
            pytest.skip("the cpu stack checks accesses")
        monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
        shapes = shapes[:1]
    seed, offset = int(rng.integers(0, 2**64, dtype=np.uint64)), int(rng.integers(0, 2**40))
    for dtype, m, n in shapes:
        logits = torch.from_numpy(rng.standard_normal((m, n)) * 3).to(dtype)
        heats = torch.from_numpy(rng.uniform(0.3, 2, m)).float()
        ks = torch.from_numpy(rng.integers(0, n // 2, m)).int()
        ps = torch.from_numpy(rng.uniform(0.2, 1.2, m)).float()
        got = kernels.sample(
            logits.to(device), seed=seed, offset=offset, temperature=heats.to(device), top_k=ks.to(device),
            top_p=ps.to(device),
        ).cpu()  # fmt: skip
        assert got.shape == (m,) and got.dtype == torch.int64
        for row in range(m):
            x = logits[row].double().numpy()
            chances = left(x, float(heats[row]), int(ks[row]), float(ps[row]))
            found = scores(x, chances, seed, offset + row * n)
            # A limit that falls on a sum within rounding may keep one more or less.
            assert found[got[row]] >= found.max() - 1e-3 or chances[got[row]] < chances[chances > 0].min() * 1.001, row


def chi_square(counts: NDArray[np.int64], chances: Array) -> float:
    wanted = chances * counts.sum()
    return float((((counts - wanted) ** 2)[chances > 0] / wanted[chances > 0]).sum())


def test_distributions(device: str, rng: np.random.Generator):
    """Ten classes, 6000 draws: chi square is above 60 once in 10^9 times; the draws of two calls are independent."""
    x = rng.standard_normal(10).astype("f4")
    logits = torch.from_numpy(np.tile(x, (6000, 1))).to(device)
    seed = int(rng.integers(0, 2**63))
    for temperature, k, p in ((1.0, 0, 1.0), (2.0, 4, 1.0), (0.7, 0, 0.8), (1.0, 6, 0.7)):
        got = kernels.sample(logits, seed=seed, temperature=temperature, top_k=k, top_p=p).cpu().numpy()
        chances = left(x.astype("f8"), temperature, k, p)
        counts = np.bincount(got, minlength=10)
        assert not counts[chances == 0].any()
        assert chi_square(counts, chances) < 60, (counts, chances)
    first = kernels.sample(logits, seed=seed).cpu().numpy()
    assert np.array_equal(first, kernels.sample(logits, seed=seed).cpu().numpy())
    second = kernels.sample(logits, seed=seed, offset=logits.numel()).cpu().numpy()
    other = kernels.sample(logits, seed=seed + 1).cpu().numpy()
    chances = left(x.astype("f8"), 1.0, 0, 1.0)
    both = np.outer(chances, chances).reshape(-1)
    enough = both * 6000 > 5
    for draws in (second, other):
        counts = np.bincount(first * 10 + draws, minlength=100)
        assert chi_square(counts[enough], both[enough] / both[enough].sum()) < 250


def test_limits_tell_neighbouring_numbers_apart(device: str):
    """The largest of two logits that differ in their last bit, of all signs and sizes: a limit has all 32 bits."""
    low = torch.tensor([1.0, -1.0, 3e-39, -3e-39, 1e30, -2.5, 0.0, -1e-45], device=device)
    high = torch.nextafter(low, torch.full_like(low, float("inf")))
    high = torch.where(low == -1e-45, torch.ones_like(high), high)
    logits = torch.stack((high, low), -1).repeat(16, 1)
    for largest, given in ((0, logits), (1, logits.flip(-1))):
        drawn = kernels.sample(given, seed=11, top_k=1)
        assert (drawn == largest).all(), drawn


def test_rows_without_a_distribution_and_the_largest(device: str):
    inf, nan = float("inf"), float("nan")
    logits = torch.tensor(
        [[0, nan, 1], [inf, 0, 0], [-inf, -inf, -inf], [-inf, 2, -inf], [1, 3, 3], [-0.0, 0.0, -1]], device=device
    )
    assert kernels.sample(logits, seed=3, temperature=0.0).tolist() == [-1, -1, -1, 1, 1, 0]
    assert kernels.sample(logits[2:4], seed=3, top_k=3, top_p=0.5).tolist() == [-1, 1]
    assert kernels.sample(logits[:0], seed=0).shape == (0,)
    assert kernels.sample(logits[3], seed=0).shape == ()
    close = torch.tensor([[1.0, 1.0 + 1e-14, 1.0, -1e300]], dtype=torch.float64, device=device)
    for seed in range(9):
        assert kernels.sample(close, seed=seed, temperature=0.0).tolist() == [1]
        assert kernels.sample(close, seed=seed, top_k=1).tolist() == [1]
        assert kernels.sample(close, seed=seed).item() < 3
    huge = torch.full((1, 5), -3e38, device=device)
    huge[0, 4] = 3e38
    assert kernels.sample(huge, seed=1, temperature=1e-3).tolist() == [4]


def test_mistakes():
    x = np.zeros((2, 3), "f4")
    with pytest.raises(DSLTypeError, match="logits has elements of float16, bfloat16, float32, float64, got int32"):
        kernels.sample(x.astype("i4"), seed=0)
    with pytest.raises(DSLValueError, match="a share, at most 1, got 2"):
        kernels.sample(x, seed=0, top_p=2.0)
    with pytest.raises(DSLValueError, match="temperature is at least 0.0, got -1"):
        kernels.sample(x, seed=0, temperature=-1.0)
    with pytest.raises(DSLValueError, match="seed is an integer of 64 bits"):
        kernels.sample(x, seed=-1)
    with pytest.raises(DSLValueError, match=r"top_p has the shape \[2\]"):
        kernels.sample(x, seed=0, top_p=np.ones(3, "f4"))
    with pytest.raises(DSLTypeError, match="top_k has elements of int32, got int64"):
        kernels.sample(x, seed=0, top_k=np.ones(2, "i8"))
    with pytest.raises(DSLValueError, match="nothing to draw"):
        kernels.sample(x[:, :0], seed=0)
