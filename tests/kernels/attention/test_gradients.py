"""Gradients against float64's, and the operators of torch."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import attention
from flydsl.kernels.attention import (
    attention_backward,
    flash_attn_func,
    flash_attn_varlen_func,
    scaled_dot_product_attention,
)

from .oracle import compare, kept_of, oracle, random


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
        ("sm_90a", (1, 200, 150, 2, 1, 128, 128), {"causal": True}, torch.bfloat16),
        ("sm_90a", (1, 70, 140, 2, 2, 128, 128), {"window": (40, 20), "deterministic": True}, torch.float16),
        ("gfx942", (1, 18, 20, 2, 1, 16, 16), {"causal": True}, torch.float16),
    ],
)
def test_gradients(arch, shape, more, dtype, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate(arch)
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    b, s, sk, h, hk, d, dv = shape
    q, k, v = (random(rng, b, *x, dtype=dtype) for x in ((s, h, d), (sk, hk, d), (sk, hk, dv)))
    order = {"deterministic": more["deterministic"]} if "deterministic" in more else {}
    more = {name: x for name, x in more.items() if name not in order}
    want, heights, _ = oracle(q, k, v, **more)
    out, lse = want.nan_to_num().to(dtype), heights.float().contiguous()
    grad = random(rng, *out.shape, dtype=dtype)
    if "causal" in more:
        # Rows that are no units of 16 bytes.
        room = torch.empty(*out.shape[:-1], dv + 1, dtype=dtype)
        room[..., :dv] = out
        out = room[..., :dv]
    found = attention_backward(grad, q, k, v, out, lse, **order, **more)
    allowed = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for got, want in zip(found, gradients(q, k, v, grad, **more), strict=True):
        assert got.dtype == dtype
        assert (got.double() - want).abs().max() <= allowed * max(1.0, want.abs().max().item())


def behind(rng: np.random.Generator, batch: int, rows: int, heads: int, d: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows with others behind them that must not be read."""
    room = torch.full((batch, rows + 3, heads, d), float("nan"), dtype=dtype)
    room[:, :rows] = random(rng, batch, rows, heads, d, dtype=dtype)
    return room[:, :rows]


@pytest.mark.parametrize(
    ("shape", "more", "dtype", "form"),
    [
        ((1, 70, 140, 2, 1, 256, 256), {"causal": True}, torch.bfloat16, {"cluster": 2}),
        ((1, 140, 70, 1, 1, 256, 256), {"causal": True}, torch.float16, {"cluster": 1, "order_keys": "qasqanf"}),
        ((2, 70, 100, 1, 1, 192, 128), {"window": (40, 20)}, torch.float16, {"cluster": 2}),
        ((1, 70, 140, 1, 1, 160, 160), {"deterministic": True, "window": (40, None)}, torch.bfloat16, {}),
        ((1, 100, 70, 1, 1, 136, 152), {"window": (None, 5)}, torch.bfloat16, {"order_values": "sqafn"}),
        ((1, 70, 60, 2, 1, 64, 192), {"dropout": 0.3}, torch.float16, {"order_keys": "sqfna"}),
    ],
)
def test_gradients_of_long_rows(
    shape, more, dtype, form, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch
):
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    chosen = importlib.import_module("flydsl.kernels.attention.backward")
    form_for = chosen.wide_form_for
    monkeypatch.setattr(chosen, "wide_form_for", lambda *args: form_for(*args)._replace(**form))
    b, s, sk, h, hk, d, dv = shape
    q, k, v, grad = (behind(rng, b, *x, dtype) for x in ((s, h, d), (sk, hk, d), (sk, hk, dv), (s, h, dv)))
    known = {name: x for name, x in more.items() if name == "causal"}
    if "window" in more:
        known["window"] = tuple(-1 if x is None else x for x in more["window"])
    if "dropout" in more:
        more = {**more, "seed": int(rng.integers(-(2**63), 2**63))}
        known["kept"] = kept_of((b, h, s, sk), more["dropout"], more["seed"])
    want, heights, _ = oracle(q, k, v, **known)
    out, lse = want.nan_to_num().to(dtype), heights.float().contiguous()
    found = attention_backward(grad, q, k, v, out, lse, **more)
    allowed = {torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for got, want in zip(found, gradients(q, k, v, grad, **known), strict=True):
        assert got.dtype == dtype
        assert (got.double() - want).abs().max() <= allowed * max(1.0, want.abs().max().item())


@pytest.mark.covering
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
        results = []
        for function in (scaled_dot_product_attention, functional.scaled_dot_product_attention):
            leaves = [x.clone().requires_grad_() for x in (q, k, v)]
            (function(*leaves, attn_mask=given) * torch.arange(64).reshape(1, 2, 4, 8)).sum().backward()
            results.append([x.grad for x in leaves])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3)
    with pytest.raises(DSLValueError, match="no gradient of attn_mask"):
        scaled_dot_product_attention(q, k, v, attn_mask=random(rng, 4, 7, dtype=torch.float32).requires_grad_())


def test_operator_is_one_that_torch_knows(rng: np.random.Generator, emulate):
    emulate("native")
    q, k, v = (random(rng, 1, s, 2, 8, dtype=torch.float32).requires_grad_() for s in (3, 5, 5))
    importlib.import_module("flydsl.kernels.attention.operators")
    torch.library.opcheck(torch.ops.flydsl.attention.default, (q, k, v, None, None, True, -1, -1, 0.3, 0.0, 0.0))
    cu = (torch.tensor(x, dtype=torch.int32) for x in ([0, 1, 3], [0, 3, 5]))
    packed = [x[0].detach().requires_grad_() for x in (q, k, v)]
    torch.library.opcheck(
        torch.ops.flydsl.attention.default, (*packed, None, None, True, -1, -1, 0.3, 0.0, 0.0, None, *cu, True)
    )
    out = flash_attn_func(q, k, v, causal=True)
    torch.testing.assert_close(out.double(), oracle(q, k, v, causal=True)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("asked", "everywhere"), [(False, False), (True, False), (False, True)])
def test_order_is_asked_for(asked: bool, everywhere: bool, emulate, monkeypatch: pytest.MonkeyPatch):
    """By a call, or by torch for all operators."""
    emulate("native")
    operators, seen = importlib.import_module("flydsl.kernels.attention.operators"), []

    def gradient(*given: torch.Tensor, deterministic: bool, **_: object) -> tuple[torch.Tensor, ...]:
        seen.append(deterministic)
        return tuple(map(torch.zeros_like, given[1:4]))

    monkeypatch.setattr(operators, "attention_backward", gradient)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: everywhere)
    q = torch.zeros(1, 2, 1, 8, requires_grad=True)
    flash_attn_func(q, q, q, deterministic=asked).sum().backward()
    assert seen == [asked or everywhere]


@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (2, 0), (0, 0)])
def test_gradients_of_nothing(queries: int, keys: int, emulate):
    """Whatever strides torch has for arrays without elements."""
    emulate("native")
    q, k, v, grad = (torch.randn(2, n, 3, 8) for n in (queries, keys, keys, queries))
    out, lse = attention(q, k, v, return_lse=True)
    for made, like in zip(attention_backward(grad, q, k, v, out, lse), (q, k, v), strict=True):
        assert torch.equal(made, torch.zeros_like(like))


def test_refused(emulate):
    emulate("native")
    x = torch.zeros(1, 3, 2, 8)
    out, lse = attention(x, x, x, return_lse=True)
    with pytest.raises(DSLValueError, match="grad is float32"):
        attention_backward(x[:, :2], x, x, x, out, lse)
    with pytest.raises(DSLValueError, match="lse is float32"):
        attention_backward(x, x, x, x, out, lse[:, :1])
    with pytest.raises(DSLValueError, match="lse is contiguous"):
        attention_backward(x, x, x, x, out, lse.mT.contiguous().mT)
    with pytest.raises(DSLTypeError, match="no gradients of fp8"):
        y = x.to(torch.float8_e4m3fn)
        attention_backward(x, y, y, y, out, lse)
    for rate in (1.0, -0.1, float("nan"), True):
        with pytest.raises(DSLValueError, match="dropout is the share"):
            attention(x, x, x, dropout=rate, seed=1)
    with pytest.raises(DSLValueError, match="dropout needs a seed"):
        attention(x, x, x, dropout=0.5)
    for seed in (2**63, 1.0):
        with pytest.raises((DSLTypeError, DSLValueError), match="seed is"):
            attention(x, x, x, dropout=0.5, seed=seed)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DSLValueError, match="enable_gqa"):
        scaled_dot_product_attention(x, x[:, :2], x[:, :2])


@pytest.mark.covering
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("what", ["bias", "slopes", "sinks", "window and cap"])
def test_gradients_of_all_that_is_done_to_scores(what: str, dropped: bool, rng: np.random.Generator, emulate):
    emulate("native")
    b, s, sk, h, hk, d, dv = 2, 19, 21, 4, 2, 16, 8
    q, k, v = (random(rng, b, *x, dtype=torch.float32) for x in ((s, h, d), (sk, hk, d), (sk, hk, dv)))
    more: Any = {
        "bias": {"bias": random(rng, 1, h, s, sk, dtype=torch.float32)},
        "slopes": {"alibi": random(rng, b, h, dtype=torch.float32).abs(), "causal": True},
        "sinks": {"sinks": random(rng, h, dtype=torch.float32)},
        "window and cap": {"window": (9, 4), "softcap": 1.5},
    }[what]
    seed = int(rng.integers(-(2**63), 2**63))
    drop: Any = {"dropout": 0.3, "seed": seed} if dropped else {}
    known = {**more, "kept": kept_of((b, h, s, sk), 0.3, seed)} if dropped else more
    out, lse = attention(q, k, v, return_lse=True, **more, **drop)
    compare((out, lse), q, k, v, **known)
    grad = random(rng, *out.shape, dtype=torch.float32)
    found = attention_backward(grad, q, k, v, out, lse, **more, **drop)
    for got, want in zip(found, gradients(q, k, v, grad, **known), strict=True):
        torch.testing.assert_close(got.double(), want, rtol=2e-5, atol=2e-5)


def test_gradients_of_packed_sequences(rng: np.random.Generator, emulate):
    emulate("native")
    starts_q, starts_k = [0, 5, 5, 22], [0, 18, 21, 40]
    q, k, v = (random(rng, *x, dtype=torch.float32) for x in ((24, 4, 8), (43, 2, 8), (43, 2, 16)))
    starts = {"cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
    cu: Any = {name: torch.tensor(x, dtype=torch.int32) for name, x in starts.items()}
    out, lse = attention(q, k, v, causal=True, return_lse=True, **cu)
    out[22:], lse[:, 22:] = 0, 0  # rows of no sequence
    grad = random(rng, *out.shape, dtype=torch.float32)
    found = attention_backward(grad, q, k, v, out, lse, causal=True, **cu)
    wanted = [torch.zeros(x.shape, dtype=torch.float64) for x in (q, k, v)]
    for i in range(3):
        rows, cols = slice(*starts_q[i : i + 2]), slice(*starts_k[i : i + 2])
        parts = gradients(q[None, rows], k[None, cols], v[None, cols], grad[None, rows], causal=True)
        for whole, part, where in zip(wanted, parts, (rows, cols, cols), strict=True):
            whole[where] = part[0]
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("heads", "more"),
    [
        ((1, 1), {}),
        ((4, 2), {"causal": True}),
        ((2, 1), {"window_size": (2, 1)}),
        ((2, 2), {"softcap": 1.5, "causal": True}),
    ],
)
def test_gradcheck(heads: tuple[int, int], more: dict[str, Any], rng: np.random.Generator, emulate):
    """torch's own check: gradients are differences of the result, in steps that float32 shows."""
    emulate("native")
    leaves = tuple(
        random(rng, 1, s, h, 8, dtype=torch.float64).requires_grad_()
        for s, h in ((3, heads[0]), (5, heads[1]), (5, heads[1]))
    )

    def attend(*given: torch.Tensor) -> torch.Tensor:
        return flash_attn_func(*(x.float() for x in given), **more).double()

    assert torch.autograd.gradcheck(attend, leaves, eps=2e-3, atol=2e-3, rtol=2e-2)


def test_gradcheck_of_packed_sequences(rng: np.random.Generator, emulate):
    emulate("native")
    cu = [torch.tensor(x, dtype=torch.int32) for x in ([0, 2, 2, 5], [0, 3, 4, 7])]
    leaves = tuple(random(rng, n, 2, 8, dtype=torch.float64).requires_grad_() for n in (5, 7, 7))

    def attend(*given: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.float() for x in given)
        return flash_attn_varlen_func(q, k, v, cu[0], cu[1], 3, 3, causal=True).double()

    assert torch.autograd.gradcheck(attend, leaves, eps=2e-3, atol=2e-3, rtol=2e-2)


def test_packed_sequences_in_torch(rng: np.random.Generator, emulate):
    emulate("native")
    rows, slopes = ([0, 5, 5, 22], [0, 18, 21, 40]), random(rng, 4, dtype=torch.float32).abs()
    tensors = [random(rng, *x, dtype=torch.float32) for x in ((22, 4, 8), (40, 2, 8), (40, 2, 16))]
    cu = [torch.tensor(x, dtype=torch.int32) for x in rows]
    some: Any = {"softcap": 2.0, "causal": True}
    grad = random(rng, 22, 4, 16, dtype=torch.float32)
    leaves: list[Any] = [x.clone().requires_grad_() for x in tensors]
    out = flash_attn_varlen_func(
        leaves[0], leaves[1], leaves[2], cu[0], cu[1], 17, 19, softmax_scale=0.4, alibi_slopes=slopes,
        deterministic=True, **some,
    )  # fmt: skip
    (out * grad).sum().backward()
    q, k, v = tensors
    for i in range(3):
        a, b = slice(*rows[0][i : i + 2]), slice(*rows[1][i : i + 2])
        more = {**some, "scale": 0.4, "alibi": slopes}
        want = oracle(q[None, a], k[None, b], v[None, b], **more)[0][0]
        torch.testing.assert_close(out[a].double(), want, rtol=2e-5, atol=2e-5)
        parts = gradients(q[None, a], k[None, b], v[None, b], grad[None, a], **more)
        for leaf, part, where in zip(leaves, parts, (a, b, b), strict=True):
            torch.testing.assert_close(leaf.grad[where].double(), part[0], rtol=2e-5, atol=2e-5)
    for wrong, text in (
        ({"return_attn_probs": True}, "weights are not kept"),
        ({"block_table": torch.zeros(3, 1, dtype=torch.int32)}, "no gradients of pages"),
        ({"alibi_slopes": slopes.requires_grad_()}, "no gradient of alibi_slopes"),
        ({"max_seqlen_q": -1}, "max_seqlen_q is a number of rows"),
    ):
        with pytest.raises(DSLValueError, match=text):
            given: Any = {"max_seqlen_q": 17, "max_seqlen_k": 19, **wrong}
            flash_attn_varlen_func(q, k, v, cu[0], cu[1], **given)


def test_dropout_in_torch(rng: np.random.Generator, emulate):
    emulate("native")
    q, k = (random(rng, 1, s, 1, 8, dtype=torch.float32) for s in (3, 40))
    v = torch.ones(1, 40, 1, 8, requires_grad=True)
    torch.manual_seed(3)
    first = flash_attn_func(q, k, v, dropout_p=0.5)
    second = flash_attn_func(q, k, v, dropout_p=0.5)
    torch.manual_seed(3)
    assert torch.equal(first, flash_attn_func(q, k, v, dropout_p=0.5)) and not torch.equal(first, second)
    first.sum().backward()
    # Of ones the result is the sum of what is kept, and a value's gradient how much of it is.
    assert v.grad is not None
    torch.testing.assert_close(v.grad[..., 0].sum(), first[..., 0].sum())
    assert (v.grad[0, :, 0, 0] == 0).any()
