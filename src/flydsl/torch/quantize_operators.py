"""`torch.ops.flydsl` of rows in 8 bits, also behind a norm. They have no gradients: torch refuses to differentiate."""

# No `from __future__ import annotations`: torch reads schemas from the annotations.
import torch
from torch import Tensor

from flydsl import kernels
from flydsl.kernels.rows.dequantize import check_dequantize
from flydsl.kernels.rows.quantize import Asked, Source, check_behind, check_quantize, quantized_behind

from .batches import more_rows
from .register import operator


@operator("quantize")
def quantize(x: Tensor, dtype: torch.dtype, way: str, known: Tensor | None) -> tuple[Tensor, Tensor]:
    """Codes, and scales: empty where one is known, as an operator gives no argument back."""
    codes, scales = kernels.quantize(x, dtype, scale=way if known is None else known)
    return codes, scales if known is None else x.new_empty(0, dtype=torch.float32)


def _codes(x: Tensor, dtype: torch.dtype, asked: Asked) -> tuple[Tensor, Tensor]:
    shape = asked.shape if asked.known is None else (0,)
    return x.new_empty(x.shape, dtype=dtype), x.new_empty(shape, dtype=torch.float32)


@quantize.register_fake
def _(x: Tensor, dtype: torch.dtype, way: str, known: Tensor | None) -> tuple[Tensor, Tensor]:
    return _codes(x, dtype, check_quantize("quantize", x, dtype, way if known is None else known))


# One scale for all is that of an element of the batch.
quantize.register_vmap(more_rows("r...", "rr", alone=lambda *given: given[2] == "tensor" and given[3] is None))


@operator("dequantize")
def dequantize(codes: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    return kernels.dequantize(codes, scales, dtype=dtype)


@dequantize.register_fake
def _(codes: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    check_dequantize("dequantize", codes, scales, dtype)
    return codes.new_empty(codes.shape, dtype=dtype)


dequantize.register_vmap(more_rows("rr.", "r"))


@operator("norm_quantized")
def norm_quantized(
    x: Tensor,
    norm: str,
    groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
    eps: float,
    residual: Tensor | None,
    way: str,
    known: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Codes, scales and the sum; the last two are empty where they are known, or where there is no residual.

    `norm` is rms, layer, group or softmax.
    """
    source = Source(x, norm, residual, weight, bias, eps, groups)
    made = quantized_behind(_name(norm), source, dtype, way if known is None else known, None)
    scales = made[1] if known is None else x.new_empty(0, dtype=torch.float32)
    return made[0], scales, x.new_empty(0) if residual is None else made[2]


def _name(norm: str) -> str:
    return "softmax_quantized" if norm == "softmax" else f"{norm}_norm_quantized"


@norm_quantized.register_fake
def _(
    x: Tensor, norm: str, groups: int, weight: Tensor | None, bias: Tensor | None, dtype: torch.dtype, eps: float,
    residual: Tensor | None, way: str, known: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    source = Source(x, norm, residual, weight, bias, eps, groups)
    asked = check_behind(_name(norm), source, dtype, way if known is None else known)
    return *_codes(x, dtype, asked), x.new_empty(0) if residual is None else x.new_empty(x.shape)


norm_quantized.register_vmap(
    more_rows(
        "r......r..", "rrr",
        alone=lambda *given: given[1] == "group" or (given[8] == "tensor" and given[9] is None),
    )
)  # fmt: skip
