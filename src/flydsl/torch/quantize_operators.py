"""`torch.ops.flydsl` of rows in 8 bits, also behind a norm. They have no gradients: torch refuses to differentiate."""

# No `from __future__ import annotations`: torch reads schemas from the annotations.
import torch
from torch import Tensor

from flydsl import kernels
from flydsl.kernels.rows.quantize import BLOCK

from .batches import Given
from .register import operator


@operator("quantize")
def quantize(x: Tensor, dtype: torch.dtype, way: str, known: Tensor | None) -> tuple[Tensor, Tensor]:
    """Codes, and scales: empty where one is known, as an operator gives no argument back."""
    codes, scales = kernels.quantize(x, dtype, scale=way if known is None else known)
    return codes, scales if known is None else x.new_empty(0, dtype=torch.float32)


def _codes(x: Tensor, dtype: torch.dtype, way: str, known: Tensor | None) -> tuple[Tensor, Tensor]:
    shape: tuple[Given, ...] = (0,)
    if known is None:
        rows = tuple(x.shape[:-1])
        shape = {"row": rows, "block": (*rows, x.shape[-1] // BLOCK), "tensor": (1,)}[way]
    return x.new_empty(x.shape, dtype=dtype), x.new_empty(shape, dtype=torch.float32)


@quantize.register_fake
def _(x: Tensor, dtype: torch.dtype, way: str, known: Tensor | None) -> tuple[Tensor, Tensor]:
    return _codes(x, dtype, way, known)


@operator("norm_quantized")
def norm_quantized(
    x: Tensor,
    norm: str,
    weight: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
    eps: float,
    residual: Tensor | None,
    way: str,
    known: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Codes, scales and the sum; the last two are empty where they are known, or where there is no residual."""
    function = kernels.layer_norm_quantized if norm == "layer" else kernels.rms_norm_quantized
    vectors = (weight, bias) if norm == "layer" else (weight,)
    made = function(x, *vectors, dtype=dtype, eps=eps, residual=residual, scale=way if known is None else known)
    scales = made[1] if known is None else x.new_empty(0, dtype=torch.float32)
    return made[0], scales, x.new_empty(0) if residual is None else made[2]


@norm_quantized.register_fake
def _(
    x: Tensor, norm: str, weight: Tensor | None, bias: Tensor | None, dtype: torch.dtype, eps: float,
    residual: Tensor | None, way: str, known: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return *_codes(x, dtype, way, known), x.new_empty(0) if residual is None else x.new_empty(x.shape)
