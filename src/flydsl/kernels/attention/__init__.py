"""Attention: `attention` picks the kernel and its tile from extents, types, layout and device."""

from __future__ import annotations

from .backward import attention_backward
from .entry import attention
from .torch_ops import flash_attn_func, scaled_dot_product_attention

__all__ = ["attention", "attention_backward", "flash_attn_func", "scaled_dot_product_attention"]
