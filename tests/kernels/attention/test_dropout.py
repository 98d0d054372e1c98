"""Dropout: all kernels drop the same weights, those of the oracle; shares, gradients, and the operators of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from flydsl.kernels import attention
from flydsl.kernels.attention import attention_backward, flash_attn_func
from flydsl.kernels.attention.dropout import numbers_of
from flydsl.kernels.attention.tile import Tile, registers

from .oracle import compare, kept_of, oracle, random
from .test_gradients import gradients

HOPPER = "sm_90a"


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


@pytest.mark.parametrize("arch", ["sm_80", "gfx942", "gfx1201", HOPPER])
def test_matrix_instructions_drop_the_same_weights(arch: str, rng: np.random.Generator, emulate):
    """Lanes that have a row, or two of them, or share draws; on Hopper a single consumer."""
    emulate(arch)
    d = 32 if arch.startswith("gfx") else 16
    q, k, v = (random(rng, 1, *x, dtype=torch.float16) for x in ((21, 2, d), (35, 1, d), (35, 1, 16)))
    seed = int(rng.integers(-(2**63), 2**63))
    found = attention(q, k, v, return_lse=True, causal=True, dropout=0.5, seed=seed)
    compare(found, q, k, v, causal=True, kept=kept_of((1, 2, 21, 35), 0.5, seed))


@pytest.mark.parametrize(
    ("d", "dtype", "more"),
    [
        (64, torch.bfloat16, {"causal": True}),
        pytest.param(128, torch.float16, {"window": (40, 20)}, marks=pytest.mark.slow),
        pytest.param(64, torch.float16, {"deterministic": True}, marks=pytest.mark.slow),
    ],
)
def test_hopper(d: int, dtype: torch.dtype, more: dict[str, Any], rng: np.random.Generator, emulate):
    """Forward and gradients; lengths that end inside tiles, heads that share keys."""
    emulate(HOPPER)
    shape, rate, seed = (1, 70, 140, 2, 1), 0.3, int(rng.integers(-(2**63), 2**63))
    b, s, sk, h, hk = shape
    q, k, v = (random(rng, b, *x, dtype=dtype) for x in ((s, h, d), (sk, hk, d), (sk, hk, d)))
    order = {"deterministic": True} if more.pop("deterministic", False) else {}
    kept = kept_of((b, h, s, sk), rate, seed)
    out, lse = attention(q, k, v, return_lse=True, dropout=rate, seed=seed, **more)
    compare((out, lse), q, k, v, kept=kept, **more)
    grad = random(rng, *out.shape, dtype=dtype)
    found = attention_backward(grad, q, k, v, out, lse, dropout=rate, seed=seed, **order, **more)
    allowed = {torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for got, want in zip(found, gradients(q, k, v, grad, kept=kept, **more), strict=True):
        assert (got.double() - want).abs().max() <= allowed * max(1.0, want.abs().max().item())


def test_packed_sequences_on_hopper(rng: np.random.Generator, emulate):
    """Rows and keys are counted from the start of a sequence, heads through all of them."""
    emulate(HOPPER)
    starts_q, starts_k = [0, 40, 43], [0, 50, 120]
    q, k, v = random(rng, 43, 2, 16), random(rng, 120, 1, 16), random(rng, 120, 1, 16)
    cu: Any = {f"cu_seqlens_{x}": torch.tensor(y, dtype=torch.int32) for x, y in (("q", starts_q), ("k", starts_k))}
    out, lse = attention(q, k, v, return_lse=True, dropout=0.25, seed=5, **cu)
    whole = kept_of((2, 2, 40, 70), 0.25, 5)
    for b in range(2):
        of_q, of_k = slice(*starts_q[b : b + 2]), slice(*starts_k[b : b + 2])
        given = q[None, of_q], k[None, of_k], v[None, of_k]
        kept = whole[b : b + 1, :, : given[0].shape[1], : given[1].shape[1]]
        compare((out[None, of_q], lse[None, :, of_q]), *given, kept=kept)


@pytest.mark.slow
def test_fp8_in_parts_on_hopper(rng: np.random.Generator, emulate):
    """One query: parts of the keys have places of the whole, and heads keep rows of their own."""
    emulate(HOPPER)
    q, k, v = (random(rng, 1, *x).to(torch.float8_e4m3fn) for x in ((1, 4, 32), (600, 2, 32), (600, 2, 32)))
    out, lse = attention(q, k, v, return_lse=True, dropout=0.4, seed=9)
    want, heights, size = oracle(q, k, v, kept=kept_of((1, 4, 1, 600), 0.4, 9))
    assert ((out.double() - want).abs() <= 2.0**-4 * size + 1e-3).all()
    torch.testing.assert_close(lse.double(), heights, rtol=1e-5, atol=2e-5)


def test_share_of_what_is_dropped():
    """As many as the rate says, in every half of a draw; heads and seeds have nothing in common."""
    shape = (1, 2, 256, 256)
    for rate in (0.1, 0.5, 0.9):
        gone = kept_of(shape, rate, 77) == 0
        count = gone[0, 0].numel()
        sigma = (rate * (1 - rate) / (count / 8)) ** 0.5
        for row in (0, 8):
            for key in (0, 1, 8, 9):
                part = gone[:, :, :, :].reshape(2, 16, 16, 16, 16)[:, :, row : row + 8, :, key : key + 7 : 2]
                assert abs(part.double().mean().item() - rate) < 5 * sigma
        both = (gone[0, 0] & gone[0, 1]).double().mean().item()
        assert abs(both - rate * rate) < 5 * (rate * rate / count) ** 0.5
    assert not torch.equal(kept_of(shape, 0.5, 1), kept_of(shape, 0.5, 2))
    assert torch.equal(kept_of(shape, 0.5, 1)[:, :, :100, :30], kept_of((1, 2, 100, 30), 0.5, 1))


@pytest.mark.parametrize("d", [64, 128, 256])
def test_registers_of_a_block_are_enough(d: int):
    """A block starts with 168 for each thread: who asks for more than others gave back waits forever."""
    for dropout in (False, True):
        few, many = registers(Tile(d, d, 64), dropout)
        assert few + 2 * many <= 3 * 168


def test_numbers_of_rates():
    assert numbers_of(0.5, 3) == (3, 1 << 31, 2.0)
    assert numbers_of(1e-9, 3)[1] == 0
    assert numbers_of(1 - 1e-9, 3)[1] == 0xFFFF0000


def test_gradcheck_with_a_fixed_seed(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Differences of the result are gradients times steps: the same weights are dropped both ways."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "0")
    emulate("native")
    leaves = tuple(random(rng, 1, s, 1, 8, dtype=torch.float64).requires_grad_() for s in (3, 5, 5))

    def seeded(*given: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(11)
        q, k, v = (x.float() for x in given)
        return flash_attn_func(q, k, v, dropout_p=0.4, causal=True).double()

    assert torch.autograd.gradcheck(seeded, leaves, eps=2e-3, atol=2e-3, rtol=2e-2)
