"""Gradients against float64's, and the operators of torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import attention
from flydsl.kernels.attention import attention_backward, flash_attn_func, scaled_dot_product_attention

from .oracle import oracle, random


def gradients(q, k, v, grad, **more):
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    (oracle(*leaves, **more)[0].nan_to_num() * grad.double()).sum().backward()
    return [x.grad.nan_to_num() for x in leaves]


@pytest.mark.parametrize(
    ("arch", "shape", "more", "dtype"),
    [
        ("native", (1, 20, 37, 4, 2, 16, 8), {"causal": True}, torch.float32),
        ("native", (2, 33, 20, 2, 1, 16, 16), {"causal": True}, torch.float32),
        ("native", (1, 33, 20, 2, 2, 16, 16), {"window": (7, 3), "softcap": 2.0, "scale": 0.4}, torch.float32),
        ("sm_90a", (1, 70, 140, 2, 1, 64, 64), {"causal": True}, torch.bfloat16),
        ("sm_90a", (1, 18, 20, 2, 1, 16, 16), {}, torch.bfloat16),
        ("gfx942", (1, 18, 20, 2, 1, 16, 16), {"causal": True}, torch.float16),
    ],
)
def test_gradients(arch, shape, more, dtype, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate(arch)
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    b, s, sk, h, hk, d, dv = shape
    q, k, v = (random(rng, b, *x, dtype=dtype) for x in ((s, h, d), (sk, hk, d), (sk, hk, dv)))
    want, heights, _ = oracle(q, k, v, **more)
    out, lse = want.nan_to_num().to(dtype), heights.float().contiguous()
    grad = random(rng, *out.shape, dtype=dtype)
    found = attention_backward(grad, q, k, v, out, lse, **more)
    allowed = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for got, want in zip(found, gradients(q, k, v, grad, **more), strict=True):
        assert got.dtype == dtype
        assert (got.double() - want).abs().max() <= allowed * max(1.0, want.abs().max().item())


@pytest.mark.parametrize(("queries", "keys"), [(9, 9), (5, 9), (9, 5)])
@pytest.mark.parametrize("causal", [False, True])
def test_as_torch_does(queries: int, keys: int, causal: bool, rng: np.random.Generator, emulate):
    emulate("native")
    tensors = [random(rng, 2, h, s, 8, dtype=torch.float32) for h, s in ((4, queries), (2, keys), (2, keys))]
    results = []
    for function in (scaled_dot_product_attention, functional.scaled_dot_product_attention):
        leaves = [x.clone().requires_grad_() for x in tensors]
        q, k, v = leaves
        out = function(q, k, v, is_causal=causal, enable_gqa=True)
        (out * torch.arange(out.numel()).reshape(out.shape)).sum().backward()
        results.append([out, *(x.grad for x in leaves)])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3)


def test_masks(rng: np.random.Generator, emulate):
    emulate("native")
    q, k, v = (random(rng, 1, 2, s, 8, dtype=torch.float32) for s in (4, 7, 7))
    mask = torch.from_numpy(rng.integers(0, 2, (1, 1, 4, 7)).astype(bool))
    mask[..., 0] = True
    for given in (mask, random(rng, 2, 4, 7, dtype=torch.float32)):
        got = scaled_dot_product_attention(q, k, v, attn_mask=given)
        torch.testing.assert_close(got, functional.scaled_dot_product_attention(q, k, v, attn_mask=given))
    with pytest.raises(DSLValueError, match="no gradients with an attn_mask"):
        scaled_dot_product_attention(q.requires_grad_(), k, v, attn_mask=mask)


def test_operator_is_one_that_torch_knows(rng: np.random.Generator, emulate):
    emulate("native")
    q, k, v = (random(rng, 1, s, 2, 8, dtype=torch.float32).requires_grad_() for s in (3, 5, 5))
    from flydsl.kernels.attention.torch_ops import operators

    operators()
    torch.library.opcheck(torch.ops.flydsl.attention.default, (q, k, v, True, -1, -1, 0.3, 0.0))
    out = flash_attn_func(q, k, v, causal=True)
    torch.testing.assert_close(out.double(), oracle(q, k, v, causal=True)[0], rtol=1e-5, atol=1e-5)


def test_refused(emulate):
    emulate("native")
    x = torch.zeros(1, 3, 2, 8)
    out, lse = attention(x, x, x, return_lse=True)
    with pytest.raises(DSLValueError, match="grad is float32"):
        attention_backward(x[:, :2], x, x, x, out, lse)
    with pytest.raises(DSLValueError, match="lse is float32"):
        attention_backward(x, x, x, x, out, lse[:, :1])
    with pytest.raises(DSLTypeError, match="no gradients of fp8"):
        y = x.to(torch.float8_e4m3fn)
        attention_backward(x, y, y, y, out, lse)
    with pytest.raises(DSLValueError, match="no dropout"):
        flash_attn_func(x, x, x, dropout_p=0.1)
    with pytest.raises(DSLValueError, match="enable_gqa"):
        scaled_dot_product_attention(x, x[:, :1], x[:, :1])
