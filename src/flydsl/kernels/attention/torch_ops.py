"""Attention in torch, with gradients: `scaled_dot_product_attention`, and flash attention's functions.

`torch.compile` and `torch.export` see one operator, `flydsl::attention`, and its gradient: see `operators.py`. torch is
imported when a function is called.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, cast

from flydsl.errors import DSLValueError

if TYPE_CHECKING:
    import torch

ALL = -1
"""A side of a window without an end."""


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
    """In the place of torch's function: (batch, heads, rows, d), or any directions in front of rows that broadcast, and
    a causal mask that starts with the first key. Under autocast all are taken in its type, as by torch's.

    Gradients are those of `query`, `key` and `value`, not of `attn_mask`. Dropout draws from torch's generator.
    """
    import torch

    from .operators import attend

    if attn_mask is not None:
        if is_causal:
            raise DSLValueError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
        if torch.is_grad_enabled() and attn_mask.requires_grad:
            raise DSLValueError(
                "scaled_dot_product_attention: there is no gradient of attn_mask; detach it, or call it under "
                "torch.no_grad()"
            )
    kind = query.device.type
    # Tensors without memory have no autocast, and torch refuses to be asked for it.
    if not query.is_meta and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        query, key, value = (_in_type(x, dtype) for x in (query, key, value))
        attn_mask = None if attn_mask is None else _in_type(attn_mask, dtype)
    bias = attn_mask
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        bias = torch.zeros(attn_mask.shape, device=attn_mask.device).masked_fill_(~attn_mask, float("-inf"))
    first = _leading(query, key, value, enable_gqa)
    q, k, v, bias = _of_four(query, key, value, bias, enable_gqa, first)
    factor = query.shape[-1] ** -0.5 if scale is None else float(scale)
    out = attend(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), bias, _seed(dropout_p), False, ALL, ALL, factor, 0.0,
        dropout_p, None, None, None, False, bool(is_causal),
    ).transpose(1, 2)  # fmt: skip
    return out if len(first) == 2 else out.reshape(*first, *out.shape[-2:])


def _in_type(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """As autocast has it: numbers with a fraction, of less than double precision."""
    return x.to(dtype) if x.is_floating_point() and x.element_size() < 8 else x


def _leading(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, gqa: bool) -> tuple[int, ...]:
    """The result's directions in front of rows, the last of which are heads."""
    import torch

    ends = 3 if gqa else 2
    tensors = query, key, value
    try:
        if min(x.dim() for x in tensors) >= ends:
            broadcast = cast("Callable[..., tuple[int, ...]]", torch.broadcast_shapes)  # pyright: ignore[reportUnknownMemberType]
            first = tuple(broadcast(*(x.shape[:-ends] for x in tensors)))
            return (*first, query.shape[-3]) if gqa else first
    except RuntimeError:
        pass
    heads = "" if gqa else "; heads of key and value that several of query share need enable_gqa=True"
    raise DSLValueError(
        "scaled_dot_product_attention: tensors are (batch, heads, rows, d), batch and heads broadcast; got "
        + ", ".join(str(tuple(x.shape)) for x in tensors) + heads
    )  # fmt: skip


def _of_four(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    gqa: bool,
    first: tuple[int, ...],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """All as (batch, heads, rows, d). Heads that the kernel shares by itself stay as few as they are."""
    batch, heads = first[:-1], first[-1] if first else 1
    shared = min(key.dim(), value.dim()) > 2 and (gqa or key.shape[-3] == value.shape[-3])

    def whole(x: torch.Tensor, heads: int) -> torch.Tensor:
        if x.dim() == 4 and len(batch) == 1 and x.shape[0] == batch[0] and x.shape[1] == heads:
            return x
        rows = x.shape[-2:]
        return x.expand(*batch, heads, *rows).reshape(prod(batch), heads, *rows)

    if bias is not None and bias.dim() > 3 and len(batch) > 1:
        bias = whole(bias, bias.shape[-3])
    k, v = (whole(x, x.shape[-3] if shared else heads) for x in (key, value))
    return whole(query, heads), k, v, bias


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (ALL, ALL),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> torch.Tensor:
    """In the place of flash attention's function: (batch, rows, heads, d). There are no gradients of slopes, and no
    weights."""
    from .operators import attend

    _check("flash_attn_func", alibi_slopes, return_attn_probs)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    return attend(
        q, k, v, None, _seed(dropout_p), causal, *window_size, scale, softcap, dropout_p, alibi_slopes, None, None,
        deterministic,
    )  # fmt: skip


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
    from .operators import attend

    _check("flash_attn_varlen_func", alibi_slopes, return_attn_probs)
    if block_table is not None:
        raise DSLValueError(
            "flash_attn_varlen_func: there are no gradients of pages (block_table); call attention(..., "
            "block_table=..., seqlens_k=...)"
        )
    for name, most in (("max_seqlen_q", max_seqlen_q), ("max_seqlen_k", max_seqlen_k)):
        if most < 0:
            raise DSLValueError(f"flash_attn_varlen_func: {name} is a number of rows, got {most}")
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    return attend(
        q, k, v, None, _seed(dropout_p), causal, *window_size, scale, softcap, dropout_p, alibi_slopes, cu_seqlens_q,
        cu_seqlens_k, deterministic,
    )  # fmt: skip


def _check(name: str, slopes: torch.Tensor | None, weights: bool) -> None:
    import torch

    if weights:
        raise DSLValueError(
            f"{name}: weights are not kept (return_attn_probs); attention(..., return_lse=True) gives the logarithms "
            "of their sums"
        )
    if slopes is not None and torch.is_grad_enabled() and slopes.requires_grad:
        raise DSLValueError(f"{name}: there is no gradient of alibi_slopes; detach them")


def _seed(p: float) -> torch.Tensor | None:
    """A fresh seed, as a tensor: a compiled graph draws another one each time."""
    import torch

    return torch.randint(1 << 62, (1,)) if p else None


__all__ = ["flash_attn_func", "flash_attn_varlen_func", "scaled_dot_product_attention"]
