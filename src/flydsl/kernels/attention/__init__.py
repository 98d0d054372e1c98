"""Attention: `attention` picks the kernel and its tile from extents, types, layout and device."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backward import attention_backward
    from .entry import attention
    from .latent.entry import mla_decode
    from .torch_ops import flash_attn_func, flash_attn_varlen_func, scaled_dot_product_attention

_WHERE = {
    "attention": ".entry", "attention_backward": ".backward", "flash_attn_func": ".torch_ops",
    "flash_attn_varlen_func": ".torch_ops", "mla_decode": ".latent.entry", "scaled_dot_product_attention": ".torch_ops",
}  # fmt: skip


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise AttributeError(f"flydsl.kernels.attention has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_WHERE[name], __name__), name)
        return value


__all__ = [
    "attention", "attention_backward", "flash_attn_func", "flash_attn_varlen_func", "mla_decode",
    "scaled_dot_product_attention",
]  # fmt: skip
