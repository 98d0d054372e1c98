"""Attention in torch: the functions that stand in for others, compiled, exported, mapped and derived."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels.attention import flash_attn_func, flash_attn_varlen_func, scaled_dot_product_attention

from .oracle import oracle, random


@pytest.fixture(autouse=True)
def native(emulate):
    emulate("native")


def three(rng: np.random.Generator, *first: int, queries: int = 5, keys: int = 7) -> list[torch.Tensor]:
    return [random(rng, *first, n, 8, dtype=torch.float32) for n in (queries, keys, keys)]


def same(tensors: list[torch.Tensor], **more: Any) -> None:
    """Result and gradients are torch's."""
    results: list[list[torch.Tensor | None]] = []
    for function in (scaled_dot_product_attention, functional.scaled_dot_product_attention):
        leaves = [x.clone().requires_grad_() for x in tensors]
        out = function(*leaves, **more)
        (out * torch.linspace(-1, 1, out.numel()).reshape(out.shape)).sum().backward()
        results.append([out, *(x.grad for x in leaves)])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("first", "of_keys", "of_mask"),
    [
        ((), (), (5, 7)),
        ((3,), (3,), (3, 1, 7)),
        ((4,), (1,), (1, 5, 7)),
        ((2, 4), (2, 1), (4, 5, 7)),
        ((2, 3), (1, 3), (2, 1, 5, 7)),
        ((2, 1, 3), (2, 2, 3), (1, 2, 1, 5, 7)),
        ((2, 2, 2), (2, 1, 2), (2, 5, 7)),
        ((0, 2, 2), (0, 2, 2), None),
    ],
)
def test_directions_in_front_of_rows(first, of_keys, of_mask, rng: np.random.Generator):
    q, k, v = three(rng, *first)[:1] + three(rng, *of_keys)[1:]
    same([q, k, v], is_causal=True)
    if of_mask is not None:
        same([q, k, v], attn_mask=random(rng, *of_mask, dtype=torch.float32))


def test_directions_of_shared_heads(rng: np.random.Generator):
    for first, of_keys in (((4,), (2,)), ((2, 1, 4), (2, 3, 2))):
        q, k, v = three(rng, *first)[:1] + three(rng, *of_keys)[1:]
        same([q, k, v], enable_gqa=True, scale=0.7)


def test_directions_refused(rng: np.random.Generator):
    q, k, v = three(rng, 2, 4)
    for wrong, more in (
        ((q, k[:, :2], v[:, :2]), {}),
        ((q, torch.cat([k, k]), torch.cat([v, v])), {}),
        ((q[0, 0, 0], k, v), {}),
        ((q[0, 0], k[0, 0], v[0, 0]), {"enable_gqa": True}),
    ):
        with pytest.raises(DSLValueError, match=r"batch and heads broadcast; got \(.*8"):
            scaled_dot_product_attention(*wrong, **more)
    with pytest.raises(
        DSLTypeError, match="q has elements of float16, bfloat16, float32, float8_e4m3fn, float8_e5m2, got"
    ):
        scaled_dot_product_attention(*(x.double() for x in (q, k, v)))
    with pytest.raises(DSLTypeError, match="bias has elements of float16, bfloat16, float32, got float64"):
        scaled_dot_product_attention(q, k, v, attn_mask=torch.zeros(5, 7, dtype=torch.float64))


def test_autocast(rng: np.random.Generator):
    """As torch's function: factors that differ, and a mask of numbers, are taken in its type."""
    q, k, v = three(rng, 1, 2)
    mask = random(rng, 5, 7, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        for given in (None, mask, mask > 0):
            found = scaled_dot_product_attention(q, k.bfloat16(), v, attn_mask=given)
            want = functional.scaled_dot_product_attention(q, k.bfloat16(), v, attn_mask=given)
            assert found.dtype == want.dtype == torch.bfloat16
            # Both are rounded, and so are torch's weights.
            torch.testing.assert_close(found, want, rtol=2.0**-6, atol=2.0**-6 * v.abs().max().item())


def test_one_graph_for_all_lengths(rng: np.random.Generator):
    """Neither the registration nor lengths break the graph, and both orders of lengths are in one."""
    graphs: list[object] = []

    def count(graph: torch.fx.GraphModule, _: object) -> Any:
        graphs.append(graph)
        return graph

    def attend(*given: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(*given, is_causal=True)

    compiled = torch.compile(attend, fullgraph=True, dynamic=True, backend=count)
    for queries, keys in ((5, 7), (9, 4), (6, 6)):
        q, k, v = three(rng, 2, 2, queries=queries, keys=keys)
        want = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.testing.assert_close(compiled(q, k, v), want, rtol=1e-5, atol=1e-5)
    assert len(graphs) == 1
    with torch.no_grad():
        packed = torch.compile(flash_attn_varlen_func, fullgraph=True, backend="eager")
        q, k, v = (x[0, 0, :, None] for x in three(rng, 1, 1))
        cu = [torch.tensor(x, dtype=torch.int32) for x in ([0, 2, 5], [0, 3, 7])]
        assert torch.equal(packed(q, k, v, *cu, 3, 4), flash_attn_varlen_func(q, k, v, *cu, 3, 4))


def test_gradients_compiled(rng: np.random.Generator):
    compiled = torch.compile(scaled_dot_product_attention, fullgraph=True, backend="aot_eager")
    for queries, keys in ((5, 7), (7, 5)):
        results: list[list[torch.Tensor | None]] = []
        tensors = three(rng, 1, 2, queries=queries, keys=keys)
        for function in (compiled, functional.scaled_dot_product_attention):
            leaves = [x.clone().requires_grad_() for x in tensors]
            (function(*leaves, is_causal=True) * torch.arange(8.0)).sum().backward()
            results.append([x.grad for x in leaves])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_exported_with_lengths_that_are_symbols(rng: np.random.Generator):
    class Attend(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> torch.Tensor:
            return scaled_dot_product_attention(*given, is_causal=True)

    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(Attend(), tuple(three(rng, 1, 2)), dynamic_shapes=(({2: rows}, None, None),))
    for queries in (3, 11):
        given = three(rng, 1, 2, queries=queries)
        want = functional.scaled_dot_product_attention(*given, is_causal=True)
        torch.testing.assert_close(program.module()(*given), want, rtol=1e-5, atol=1e-5)


def test_mapped(rng: np.random.Generator):
    q, k, v = three(rng, 3, 1, 2)
    found = torch.vmap(scaled_dot_product_attention, in_dims=(0, None, 0))(q, k[0], v)
    want = torch.stack([functional.scaled_dot_product_attention(q[i], k[0], v[i]) for i in range(3)])
    torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_no_derivative_in_forward_mode(rng: np.random.Generator):
    q, k, v = three(rng, 1, 2)
    forward_ad: Any = torch.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(DSLTypeError, match="flydsl::attention has no derivative in forward mode"):
            scaled_dot_product_attention(dual, k, v)


def test_no_gradient_of_what_is_added(rng: np.random.Generator):
    """Whoever calls the operator itself is told, too."""
    q, k, v = (x.transpose(1, 2) for x in three(rng, 1, 2))
    flash_attn_func(q, k, v)
    bias, slopes = (random(rng, n, 1, dtype=torch.float32).squeeze(-1).requires_grad_() for n in (7, 2))
    with pytest.raises(DSLTypeError, match="flydsl::attention has no gradient of bias"):
        torch.ops.flydsl.attention(q, k, v, bias, None, False, -1, -1, 1.0, 0.0, 0.0)
    with pytest.raises(DSLTypeError, match="flydsl::attention has no gradient of alibi"):
        torch.ops.flydsl.attention(q, k, v, None, None, False, -1, -1, 1.0, 0.0, 0.0, slopes)
    with pytest.raises(DSLValueError, match="flash_attn_func: there is no gradient of alibi_slopes"):
        flash_attn_func(q, k, v, alibi_slopes=slopes)


def test_without_memory(rng: np.random.Generator):
    """Fake tensors have the result's type, and are not mixed with others."""
    q, k, v = (x.transpose(1, 2) for x in three(rng, 1, 2))
    for dtype, wanted in ((torch.float16, torch.float16), (torch.float8_e4m3fn, torch.bfloat16)):
        given = [x.to(dtype) for x in (q, k, v)]
        fake, real = flash_attn_func(*(x.to("meta") for x in given)), flash_attn_func(*given)
        assert fake.dtype == real.dtype == wanted
        assert (fake.shape, fake.stride()) == (real.shape, real.stride())
    with pytest.raises(DSLValueError, match="q is on cpu and v on meta"):
        flash_attn_func(q, k, v.to("meta"))
    starts = torch.tensor([0, 5], dtype=torch.int32)
    with pytest.raises(DSLValueError, match="q is on meta and cu_seqlens_k on cpu"):
        flash_attn_varlen_func(*(x[0].to("meta") for x in (q, k, v)), starts.to("meta"), starts, 5, 5)


def test_flash_attention_with_slopes(rng: np.random.Generator):
    q, k, v = (x.transpose(1, 2) for x in three(rng, 2, 4))
    slopes = random(rng, 2, 4, dtype=torch.float32).abs()
    found = flash_attn_func(q, k, v, causal=True, window_size=(4, 0), alibi_slopes=slopes, deterministic=True)
    want = oracle(q, k, v, window=(4, 0), alibi=slopes)[0]
    torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-5)
    with pytest.raises(DSLValueError, match="flash_attn_func: weights are not kept"):
        flash_attn_func(q, k, v, return_attn_probs=True)
