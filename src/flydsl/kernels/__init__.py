"""Kernels written in the language, ready to call on numpy and torch arrays; names are loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from . import attention, matmul

if TYPE_CHECKING:
    from .attention.entry import attention
    from .attention.latent.entry import mla_decode
    from .axes.permute import cast, permute
    from .axes.reduce import reduce
    from .axes.scan import scan
    from .axes.sort import argsort, sort, sort_by_key
    from .experts.entry import moe
    from .experts.move import permute_tokens, unpermute_tokens
    from .experts.sort import sort_tokens
    from .matmul.amd.blocks import MxMatrix
    from .matmul.amd.weights import PreshuffledWeight, preshuffle_weight
    from .matmul.entry import matmul
    from .matmul.grouped import grouped_matmul
    from .matmul.weights import QuantizedWeight, dequantize_weight, quantize_weight
    from .mx.quantize import dequantize_mx, group_norm_mx, layer_norm_mx, quantize_mx, rms_norm_mx, softmax_mx
    from .rows.cross_entropy import cross_entropy, cross_entropy_backward, cross_entropy_forward
    from .rows.dequantize import dequantize
    from .rows.embedding import embedding, embedding_backward
    from .rows.gated import gated, gated_backward, gelu_mul, silu_mul
    from .rows.group_norm import group_norm, group_norm_backward, group_norm_forward
    from .rows.largest import argmax, gate, top_k
    from .rows.linear_cross_entropy import (
        linear_cross_entropy,
        linear_cross_entropy_backward,
        linear_cross_entropy_forward,
    )
    from .rows.norms import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
    from .rows.quantize import (
        group_norm_quantized,
        layer_norm_quantized,
        quantize,
        rms_norm_quantized,
        softmax_quantized,
    )
    from .rows.rope import rope
    from .rows.sample import sample
    from .rows.softmax_entry import log_softmax, log_softmax_backward, softmax, softmax_backward

_WHERE = {
    name: module
    for module, names in {
        "attention.entry": "attention",
        "attention.latent.entry": "mla_decode",
        "axes.permute": "cast permute",
        "axes.reduce": "reduce",
        "axes.scan": "scan",
        "axes.sort": "argsort sort sort_by_key",
        "experts.entry": "moe",
        "experts.move": "permute_tokens unpermute_tokens",
        "experts.sort": "sort_tokens",
        "matmul.entry": "matmul",
        "matmul.grouped": "grouped_matmul",
        "matmul.amd.blocks": "MxMatrix",
        "matmul.amd.weights": "PreshuffledWeight preshuffle_weight",
        "matmul.weights": "QuantizedWeight dequantize_weight quantize_weight",
        "mx.quantize": "dequantize_mx group_norm_mx layer_norm_mx quantize_mx rms_norm_mx softmax_mx",
        "rows.cross_entropy": "cross_entropy cross_entropy_backward cross_entropy_forward",
        "rows.dequantize": "dequantize",
        "rows.embedding": "embedding embedding_backward",
        "rows.gated": "gated gated_backward gelu_mul silu_mul",
        "rows.group_norm": "group_norm group_norm_backward group_norm_forward",
        "rows.largest": "argmax gate top_k",
        "rows.linear_cross_entropy": (
            "linear_cross_entropy linear_cross_entropy_backward linear_cross_entropy_forward"
        ),
        "rows.norms": "layer_norm layer_norm_backward rms_norm rms_norm_backward",
        "rows.quantize": ("group_norm_quantized layer_norm_quantized quantize rms_norm_quantized softmax_quantized"),
        "rows.rope": "rope",
        "rows.sample": "sample",
        "rows.softmax_entry": "log_softmax log_softmax_backward softmax softmax_backward",
    }.items()
    for name in names.split()
}

if not TYPE_CHECKING:
    # Python makes a package an attribute of the one above once, when it is imported first. From here on `attention` and
    # `matmul` are the functions, loaded on first use.
    del attention, matmul


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise AttributeError(f"flydsl.kernels has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted(_WHERE)


__all__ = [
    "MxMatrix", "PreshuffledWeight", "QuantizedWeight", "argmax", "argsort", "attention", "cast", "cross_entropy",
    "cross_entropy_backward", "cross_entropy_forward", "dequantize", "dequantize_mx", "dequantize_weight", "embedding",
    "embedding_backward", "gate", "gated", "gated_backward", "gelu_mul", "group_norm", "group_norm_backward",
    "group_norm_forward", "group_norm_mx", "group_norm_quantized", "grouped_matmul", "layer_norm",
    "layer_norm_backward", "layer_norm_mx", "layer_norm_quantized", "linear_cross_entropy",
    "linear_cross_entropy_backward", "linear_cross_entropy_forward", "log_softmax", "log_softmax_backward", "matmul",
    "mla_decode", "moe", "permute", "permute_tokens", "preshuffle_weight", "quantize", "quantize_mx", "quantize_weight",
    "reduce", "rms_norm", "rms_norm_backward", "rms_norm_mx", "rms_norm_quantized", "rope", "sample", "scan",
    "silu_mul", "softmax", "softmax_backward", "softmax_mx", "softmax_quantized", "sort", "sort_by_key", "sort_tokens",
    "top_k", "unpermute_tokens",
]  # fmt: skip
