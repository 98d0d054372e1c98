"""Layers of experts and their parts against float64: any number of tokens and experts, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import moe, permute_tokens, sort_tokens, unpermute_tokens


@pytest.fixture(params=["native", "gfx942"])
def arch(request: pytest.FixtureRequest, emulate) -> str:
    emulate(request.param)
    return request.param


@pytest.mark.parametrize("tokens, k, experts", [(300, 3, 7), (1, 1, 1), (70, 2, 600), (0, 2, 4), (5, 2, 0)])
def test_tokens_are_sorted(tokens: int, k: int, experts: int, rng: np.random.Generator, arch: str):
    """As a stable sort has them; numbers that no expert has get no row."""
    chosen = rng.integers(-2, experts + 2, (tokens, k)).astype(rng.choice(["i4", "i8"]))
    order, places, ends = sort_tokens(chosen, experts)
    flat = chosen.ravel()
    known = (flat >= 0) & (flat < experts)
    sorted_ = np.argsort(np.where(known, flat, experts), kind="stable")[: known.sum()]
    assert np.array_equal(order[: known.sum()], sorted_) and (order[known.sum() :] == -1).all()
    assert np.array_equal(ends, np.cumsum(np.bincount(flat[known], minlength=experts)))
    wanted = np.full(flat.shape, -1)
    wanted[sorted_] = np.arange(known.sum())
    assert np.array_equal(places.ravel(), wanted) and places.shape == chosen.shape


@pytest.mark.parametrize("columns, dtype", [(64, torch.bfloat16), (37, torch.float32)])
def test_there_and_back(columns: int, dtype, rng: np.random.Generator, arch: str):
    """Rows are those of their tokens, in units of 16 bytes and by elements; sums are in f32, in order."""
    tokens, k, experts = 21, 3, 5
    x = torch.from_numpy(rng.standard_normal((tokens, 2 * columns))).to(dtype)[:, ::2] if columns == 37 else (
        torch.from_numpy(rng.standard_normal((tokens, columns))).to(dtype))  # fmt: skip
    chosen = torch.from_numpy(rng.integers(-1, experts, (tokens, k)))
    order, places, _ = sort_tokens(chosen, experts)
    rows = permute_tokens(x, order, k)
    for r, choice in enumerate(order.tolist()):
        assert torch.equal(rows[r], torch.zeros_like(rows[r]) if choice < 0 else x[choice // k])
    weights = torch.from_numpy(rng.standard_normal((tokens, k)).astype("f4"))
    whole = torch.full((tokens, columns + 8), float("nan"), dtype=dtype)
    out = whole[:, :columns]
    assert unpermute_tokens(rows, places, weights, out=out) is out
    given = (chosen >= 0).double() * weights.double()
    wanted = given.sum(1, keepdim=True) * x.double()
    terms = given.abs().sum(1, keepdim=True) * x.double().abs()
    step = {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-22}[dtype]
    assert ((out.double() - wanted).abs() <= step * wanted.abs() + 2.0**-21 * terms).all()
    assert torch.isnan(whole[:, columns:]).all()
    plain = unpermute_tokens(rows, places)
    assert torch.equal(plain.isfinite(), torch.ones_like(plain, dtype=torch.bool))


def expected(x, logits, w1, w2, k: int, normed: bool) -> np.ndarray:
    """Token by token, in float64."""
    x, logits, w1, w2 = (np.asarray(t, "f8") for t in (x, logits, w1, w2))
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    out = np.zeros(x.shape)
    for t, share in enumerate(shares):
        best = np.argsort(-logits[t], kind="stable")[:k]
        weights = share[best] / (share[best].sum() if normed else 1.0)
        for weight, e in zip(weights, best, strict=True):
            g, u = np.split(x[t] @ w1[e], 2)
            out[t] += weight * ((g / (1 + np.exp(-g)) * u) @ w2[e])
    return out


def roundings(x, logits, w1, w2, k: int) -> np.ndarray:
    """The sizes of all that is rounded to 16 bits on the way, as far as it gets into the result."""
    shares = np.exp(logits - logits.max(1, keepdims=True))
    out = np.zeros(x.shape)
    for t, share in enumerate(shares):
        best = np.argsort(-logits[t], kind="stable")[:k]
        for e in best:
            g, u = np.split(x[t] @ w1[e], 2)
            made = g / (1 + np.exp(-g)) * u
            # Neither factor of what is made grows by more than 1.1 times the step of its own.
            each = (1.1 * np.abs(g * u) + 2 * np.abs(made)) @ np.abs(w2[e]) + np.abs(made @ w2[e])
            out[t] += share[e] / share[best].sum() * each
    return out


@pytest.mark.parametrize("tokens, experts, k, normed", [(37, 5, 2, True), (3, 9, 4, False), (0, 3, 1, True)])
def test_layer(tokens: int, experts: int, k: int, normed: bool, rng: np.random.Generator, emulate):
    """Experts without tokens among them."""
    emulate("native")
    depth, hidden = 24, 20
    shapes = (tokens, depth), (tokens, experts), (experts, depth, 2 * hidden), (experts, hidden, depth)
    x, logits, w1, w2 = (rng.standard_normal(s).astype("f4") for s in shapes)
    logits[:, experts // 2] -= 50
    wanted = expected(x, logits, w1, w2, k, normed)
    np.testing.assert_allclose(moe(x, logits, w1, w2, k, normed=normed), wanted, rtol=1e-4, atol=2e-4)


def test_layer_of_torch(rng: np.random.Generator, device: str):
    """On Hopper's tensor cores, 16 bits between the products."""
    tokens, depth, hidden, experts, k = 20, 64, 32, 4, 2
    shapes = (tokens, depth), (tokens, experts), (experts, depth, 2 * hidden), (experts, hidden, depth)
    x, logits, w1, w2 = (torch.from_numpy(rng.standard_normal(s)).bfloat16() for s in shapes)
    out = torch.full((tokens, depth), float("nan"), dtype=torch.bfloat16, device=device)
    got = moe(x.to(device), logits.to(device), w1.to(device), w2.to(device), k, out=out)
    assert got is out
    given = [t.double().numpy() for t in (x, logits, w1, w2)]
    wanted = expected(*given, k, True)
    error = np.abs(out.cpu().double().numpy() - wanted)
    assert (error <= 2.0**-9 * (np.abs(wanted) + roundings(*given, k))).all(), error.max()


def test_what_is_refused(emulate):
    emulate("native")
    x, logits = np.ones((2, 4), "f4"), np.ones((2, 3), "f4")
    w1, w2 = np.ones((3, 4, 10), "f4"), np.ones((3, 5, 4), "f4")
    order, places = np.zeros(4, "i4"), np.zeros((2, 2), "i4")
    values = [
        (lambda: moe(x[0], logits, w1, w2, 1), "x is .tokens, D."),
        (lambda: moe(x, logits[:1], w1, w2, 1), r"logits has the shape \[2, 3\]"),
        (lambda: moe(x, logits, w1[:, :, :9], w2, 1), r"w1 has the shape \[3, 4, 10\]"),
        (lambda: moe(x, logits, w1, w2[:2], 1), r"w2 has the shape \[3, 5, 4\]"),
        (lambda: moe(x, logits, w1, w2, 4), "k is 1 to 3 experts of a token, got 4"),
        (
            lambda: moe(x, logits, w1, w2, 1, activation="swish"),
            "activation is one of none, relu",
        ),
        (lambda: sort_tokens(order, 3), "chosen has 2 dimensions"),
        (lambda: sort_tokens(places, 20000), "0 to 12000 experts"),
        (lambda: permute_tokens(x, order, 3), "so many rows"),
        (lambda: unpermute_tokens(x, places, np.ones((2, 3), "f4")), "weights has the shape of places"),
        (lambda: unpermute_tokens(x, places, out=np.ones((2, 3), "f4")), "out is float32"),
    ]
    for call, words in values:
        with pytest.raises(DSLValueError, match=words):
            call()
    with pytest.raises(DSLTypeError, match="w2 is float32 as x, got float16"):
        moe(x, logits, w1, w2.astype("f2"), 1)
    with pytest.raises(DSLTypeError, match="chosen has elements of int"):
        sort_tokens(x, 3)
