"""Attention as operators of torch, with gradients: `scaled_dot_product_attention`, and flash attention's functions.

`torch.compile` and `torch.export` see one operator, `flydsl::attention`, and its gradient. torch is imported when a
function is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from flydsl.errors import DSLValueError

from .backward import attention_backward
from .entry import attention

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ALL = -1
"""A side of a window without an end."""


class _Ops(NamedTuple):
    forward: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    backward: Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


class Context(Protocol):
    """What torch keeps from the forward to the backward pass."""

    numbers: tuple[object, ...]

    @property
    def saved_tensors(self) -> tuple[torch.Tensor | None, ...]: ...
    def save_for_backward(self, *tensors: torch.Tensor | None) -> None: ...
    def mark_non_differentiable(self, *tensors: torch.Tensor) -> None: ...


@lru_cache(1)
def operators() -> _Ops:
    """Register the operators and give them."""
    import torch

    def forward(
        q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seed: Tensor | None, causal: bool, left: int, right: int,
        scale: float, softcap: float, dropout: float, alibi: Tensor | None = None, cu_q: Tensor | None = None,
        cu_k: Tensor | None = None, deterministic: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        return attention(
            q, k, v, causal=causal, window=(left, right), scale=scale, softcap=softcap or None, bias=bias, alibi=alibi,
            cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, dropout=dropout, seed=None if seed is None else int(seed),
            return_lse=True,
        )  # fmt: skip

    def forward_fake(q: Tensor, k: Tensor, v: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
        *batch, s, h, _ = q.shape
        return q.new_empty((*batch, s, h, v.shape[-1])), q.new_empty((*batch, h, s), dtype=torch.float32)

    def backward(
        grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, bias: Tensor | None,
        seed: Tensor | None, causal: bool, left: int, right: int, scale: float, softcap: float, dropout: float,
        alibi: Tensor | None = None, cu_q: Tensor | None = None, cu_k: Tensor | None = None,
        deterministic: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        return attention_backward(
            grad, q, k, v, out, lse, causal=causal, window=(left, right), scale=scale, softcap=softcap or None,
            bias=bias, alibi=alibi, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, dropout=dropout,
            seed=None if seed is None else int(seed),
            deterministic=deterministic or torch.are_deterministic_algorithms_enabled(),
        )  # fmt: skip

    def backward_fake(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: object) -> tuple[Tensor, Tensor, Tensor]:
        return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)

    numbers = (
        "Tensor? bias, Tensor? seed, bool causal, int left, int right, float scale, float softcap, float dropout, "
        "Tensor? alibi=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, bool deterministic=False"
    )
    made: Any = torch.library.custom_op(
        "flydsl::attention", forward, mutates_args=(),
        schema=f"(Tensor q, Tensor k, Tensor v, {numbers}) -> (Tensor, Tensor)",
    )  # fmt: skip
    made.register_fake(forward_fake)
    gradient: Any = torch.library.custom_op(
        "flydsl::attention_backward", backward, mutates_args=(),
        schema=f"(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {numbers}) "
        "-> (Tensor, Tensor, Tensor)",
    )  # fmt: skip
    gradient.register_fake(backward_fake)

    def setup(ctx: Context, inputs: tuple[object, ...], output: tuple[Tensor, Tensor]) -> None:
        q, k, v = cast("tuple[Tensor, Tensor, Tensor]", inputs[:3])
        bias, seed = cast("tuple[Tensor | None, Tensor | None]", inputs[3:5])
        others = cast("tuple[Tensor | None, ...]", inputs[11:14])
        ctx.save_for_backward(q, k, v, *output, bias, seed, *others)
        ctx.mark_non_differentiable(output[1])
        ctx.numbers = (*inputs[5:11], inputs[14])

    def derive(ctx: Context, grad: Tensor, _: object) -> tuple[object, ...]:
        *tensors, alibi, cu_q, cu_k = ctx.saved_tensors
        *numbers, order = ctx.numbers
        return *gradient(grad.contiguous(), *tensors, *numbers, alibi, cu_q, cu_k, order), *(None,) * 12

    made.register_autograd(derive, setup_context=setup)
    return _Ops(made, gradient)


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """In the place of torch's function: (batch, heads, rows, d), and a causal mask that starts with the first key.

    Gradients are those of `query`, `key` and `value`, not of `attn_mask`. Dropout draws from torch's generator.
    """
    import torch

    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise DSLValueError(
            f"scaled_dot_product_attention: tensors are (batch, heads, rows, d), got {tuple(query.shape)}, "
            f"{tuple(key.shape)} and {tuple(value.shape)}"
        )
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise DSLValueError(
            f"scaled_dot_product_attention: {query.shape[1]} heads of query and {key.shape[1]} of key need "
            "enable_gqa=True"
        )
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else float(scale)
    if attn_mask is not None:
        if is_causal:
            raise DSLValueError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
        if torch.is_grad_enabled() and attn_mask.requires_grad:
            raise DSLValueError(
                "scaled_dot_product_attention: there is no gradient of attn_mask; detach it, or call it under "
                "torch.no_grad()"
            )
        bias = attn_mask
        if attn_mask.dtype == torch.bool:
            bias = torch.zeros(attn_mask.shape, device=attn_mask.device).masked_fill_(~attn_mask, float("-inf"))
        seed = _seed(dropout_p)
        out, _ = operators().forward(q, k, v, bias, seed, False, ALL, ALL, factor, 0.0, dropout_p)
        return out.transpose(1, 2)
    queries, keys = q.shape[1], k.shape[1]
    right = ALL
    if is_causal:
        # Counted from the first key, not from the last.
        if keys > queries:
            k, v = k[:, :queries], v[:, :queries]
        right = max(queries - keys, 0)
    out, _ = operators().forward(q, k, v, None, _seed(dropout_p), False, ALL, right, factor, 0.0, dropout_p)
    return out.transpose(1, 2)


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (ALL, ALL),
    softcap: float = 0.0,
) -> torch.Tensor:
    """In the place of flash attention's function: (batch, rows, heads, d)."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    seed = _seed(dropout_p)
    out, _ = operators().forward(
        q, k, v, None, seed, causal, window_size[0], window_size[1], scale, softcap, dropout_p
    )  # fmt: skip
    return out


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (ALL, ALL),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
) -> torch.Tensor:
    """In the place of flash attention's function for packed sequences: (all rows, heads, d).

    Lengths are those of `cu_seqlens_q` and `cu_seqlens_k`; the most of them, which flash attention wants to be told,
    may be more than there are in a sequence. There are no gradients of slopes, and neither weights nor pages.
    """
    import torch

    if return_attn_probs:
        raise DSLValueError(
            "flash_attn_varlen_func: weights are not kept (return_attn_probs); attention(..., return_lse=True) gives "
            "the logarithms of their sums"
        )
    if block_table is not None:
        raise DSLValueError(
            "flash_attn_varlen_func: there are no gradients of pages (block_table); call attention(..., "
            "block_table=..., seqlens_k=...)"
        )
    for name, most in (("max_seqlen_q", max_seqlen_q), ("max_seqlen_k", max_seqlen_k)):
        if most < 0:
            raise DSLValueError(f"flash_attn_varlen_func: {name} is a number of rows, got {most}")
    if alibi_slopes is not None and torch.is_grad_enabled() and alibi_slopes.requires_grad:
        raise DSLValueError("flash_attn_varlen_func: there is no gradient of alibi_slopes; detach them")
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    out, _ = operators().forward(
        q, k, v, None, _seed(dropout_p), causal, window_size[0], window_size[1], scale, softcap, dropout_p,
        alibi_slopes, cu_seqlens_q, cu_seqlens_k, deterministic,
    )  # fmt: skip
    return out


def _seed(p: float) -> torch.Tensor | None:
    """A fresh seed, as a tensor: a compiled graph draws another one each time."""
    import torch

    return torch.randint(1 << 62, (1,)) if p else None


__all__ = ["flash_attn_func", "flash_attn_varlen_func", "operators", "scaled_dot_product_attention"]
