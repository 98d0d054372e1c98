"""Operators for torch, with gradients: `import flydsl.torch`.

Functions take and give tensors as those of `torch.nn.functional` do; modules have the parameters of `torch.nn`'s, so
that state dictionaries fit. All are torch operators (`torch.ops.flydsl`), which `torch.compile` and `torch.export` keep
as nodes of their graphs. `op` makes such an operator of a jit function.

Importing this package imports torch; importing `flydsl` does not.
"""

from __future__ import annotations

from .functional import (
    add_group_norm,
    add_layer_norm,
    add_rms_norm,
    argmax,
    cross_entropy,
    dequantize,
    embedding,
    gate,
    gated,
    gelu_mul,
    group_norm,
    group_norm_quantized,
    layer_norm,
    layer_norm_quantized,
    linear,
    linear_cross_entropy,
    log_softmax,
    matmul,
    permute,
    quantize,
    reduce,
    rms_norm,
    rms_norm_quantized,
    rope,
    sample,
    scan,
    silu_mul,
    softmax,
    softmax_quantized,
    sort,
    sort_by_key,
    top_k,
)
from .modules import CrossEntropyLoss, Embedding, GeGLU, GroupNorm, LayerNorm, Linear, RMSNorm, Softmax, SwiGLU
from .op import op

__all__ = [
    "CrossEntropyLoss", "Embedding", "GeGLU", "GroupNorm", "LayerNorm", "Linear", "RMSNorm", "Softmax", "SwiGLU",
    "add_group_norm", "add_layer_norm", "add_rms_norm", "argmax", "cross_entropy", "dequantize", "embedding", "gate",
    "gated", "gelu_mul", "group_norm", "group_norm_quantized", "layer_norm", "layer_norm_quantized", "linear",
    "linear_cross_entropy", "log_softmax", "matmul", "op", "permute", "quantize", "reduce", "rms_norm",
    "rms_norm_quantized", "rope", "sample", "scan", "silu_mul", "softmax", "softmax_quantized", "sort", "sort_by_key",
    "top_k",
]  # fmt: skip
