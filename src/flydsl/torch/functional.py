"""Functions on tensors, by the names and defaults of `torch.nn.functional`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from flydsl.errors import DSLValueError
from flydsl.kernels.axes.sort import check_values
from flydsl.kernels.axes.view import axis_of
from flydsl.kernels.rows.embedding import padding_row
from flydsl.kernels.rows.gated import gelu_named
from flydsl.kernels.rows.rope import cache_of
from flydsl.kernels.scalars import flag, number, whole, wholes

from . import axis_operators, loss_operators, more_operators, operators, product_operators, quantize_operators


def matmul(a: Tensor, b: Tensor, *, precision: str = "ieee") -> Tensor:
    """`torch.matmul(a, b)`: vectors, matrices, and any dimensions in front of these.

    Under autocast both are taken in its type, as torch's is. `precision` is that of `flydsl.kernels.matmul`.
    """
    if 0 in (a.dim(), b.dim()):
        raise DSLValueError(f"matmul: a and b have a dimension at least, got {list(a.shape)} and {list(b.shape)}")
    a, b, _ = _autocast(a, b, None)
    left, right = a[None] if a.dim() == 1 else a, b[:, None] if b.dim() == 1 else b
    made = product_operators.matmul(left, right, None, precision)
    if b.dim() == 1:
        made = made.squeeze(-1)
    return made.squeeze(-1 if b.dim() == 1 else -2) if a.dim() == 1 else made


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, precision: str = "ieee") -> Tensor:
    """`x @ weight.T + bias`; `weight` is (out, in), and `x` has any dimensions in front of the last one.

    Under autocast all are taken in its type, as `torch.nn.functional.linear` does.
    """
    if x.dim() < 1 or weight.dim() != 2 or x.shape[-1] != weight.shape[-1]:
        raise DSLValueError(
            f"linear: x is (..., in) and weight (out, in), got {list(x.shape)} and {list(weight.shape)}"
        )
    x, weight, bias = _autocast(x, weight, bias)
    made = product_operators.matmul(x[None] if x.dim() == 1 else x, weight.mT, bias, precision)
    return made.squeeze(0) if x.dim() == 1 else made


def _autocast(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Factors of a product in the type that autocast has for them."""
    kind = x.device.type
    # Tensors without memory have no autocast, and torch refuses to be asked for it.
    if not x.is_meta and torch.is_autocast_enabled(kind) and x.is_floating_point() and x.dtype != torch.float64:
        dtype = torch.get_autocast_dtype(kind)
        return x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    return x, weight, bias


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Softmax along `dim`, in the type of `x`."""
    return _along(x, dim, False)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """The logarithm of the softmax along `dim`."""
    return _along(x, dim, True)


def _along(x: Tensor, dim: int, log: bool) -> Tensor:
    op = "log_softmax" if log else "softmax"
    if whole(op, "dim", dim) == -1 or axis_of(op, dim, x.shape, "dim") == x.dim() - 1:
        return operators.softmax(x, log)
    return operators.softmax(x.movedim(dim, -1), log).movedim(-1, dim)


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Each row over its root mean square, times `weight`."""
    return operators.rms_norm(x, weight, eps)[0]


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    """`rms_norm(x + residual)`, and the sum."""
    return operators.add_rms_norm(x, residual, weight, eps)[:2]


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """Each row less its mean, over its deviation, times `weight` plus `bias`."""
    return operators.layer_norm(x, weight, bias, eps)[0]


def add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """`layer_norm(x + residual)`, and the sum."""
    return operators.add_layer_norm(x, residual, weight, bias, eps)[:2]


def group_norm(
    x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(images, channels, ...) less the mean and over the deviation of each group of channels."""
    return more_operators.group_norm(x, groups, weight, bias, eps)[0]


def add_group_norm(
    x: Tensor,
    residual: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """`group_norm(x + residual)`, and the sum."""
    return more_operators.add_group_norm(x, residual, groups, weight, bias, eps)[:2]


def cross_entropy(
    logits: Tensor, target: Tensor, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """The cross entropy of rows of logits with the numbers of their classes; the loss is float32 for 16-bit types.

    Classes are the last direction of `logits`, also if there are more than two.
    """
    _check_reduction("cross_entropy", reduction)
    ignore_index = whole("cross_entropy", "ignore_index", ignore_index)
    losses = more_operators.cross_entropy(logits, target, ignore_index, label_smoothing)[0]
    return _reduced(losses, target, ignore_index, reduction)


def linear_cross_entropy(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """`cross_entropy(linear(x, weight, bias), target)`, whose logits are computed in pieces, forward and backward.

    Under autocast `x`, `weight` and `bias` are taken in its type, as `torch.nn.functional.linear` does.
    """
    _check_reduction("linear_cross_entropy", reduction)
    ignore_index = whole("linear_cross_entropy", "ignore_index", ignore_index)
    x, weight, bias = _autocast(x, weight, bias)
    losses = loss_operators.linear_cross_entropy(x, weight, target, bias, ignore_index, label_smoothing)[0]
    return _reduced(losses, target, ignore_index, reduction)


def _check_reduction(op: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise DSLValueError(f"{op}: reduction is mean, sum or none, got {reduction!r}")


def _reduced(losses: Tensor, target: Tensor, ignored: int, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / (target != ignored).sum()


def gated(x: Tensor, y: Tensor, activation: str = "silu") -> Tensor:
    """`activation(x) * y`."""
    return more_operators.gated(x, y, activation)


def silu_mul(x: Tensor, y: Tensor) -> Tensor:
    """`silu(x) * y`."""
    return gated(x, y, "silu")


def gelu_mul(x: Tensor, y: Tensor, approximate: str = "tanh") -> Tensor:
    """`gelu(x) * y`, with the approximation of GELU by tanh, or ("none") GELU itself."""
    return gated(x, y, gelu_named("gelu_mul", approximate))


@overload
def rope(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *, positions: Tensor | None = None, interleaved: bool = False
) -> tuple[Tensor, Tensor]: ...
@overload
def rope(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    positions: Tensor | None = None,
    interleaved: bool = False,
    v: Tensor,
    cache: tuple[Tensor, Tensor],
    slots: Tensor,
) -> Tensor: ...
def rope(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    positions: Tensor | None = None,
    interleaved: bool = False,
    v: Tensor | None = None,
    cache: tuple[Tensor, Tensor] | None = None,
    slots: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """q and k, (..., sequence, heads, dim), with rotary positions; the tables are (positions, dim / 2).

    With `cache`, keys and values, and `slots`, an integer for each token, k goes to that row of the keys and `v` to
    that of the values, which are changed in place, and q alone is the result. Nothing of this has a gradient.
    """
    if cache is not None or v is not None or slots is not None:
        k, v, keys, values, slots = cache_of("rope", k, v, cache, slots)
        if torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v, keys, values, cos, sin)):
            raise DSLValueError(
                "rope: what goes into a cache has no gradient, got a tensor that requires one; call it under "
                "torch.no_grad(), or pass detached tensors"
            )
        return more_operators.rope_into_cache(q, k, v, keys, values, slots, cos, sin, positions, interleaved)
    return more_operators.rope(q, k, cos, sin, positions, interleaved, False)


def embedding(ids: Tensor, table: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of `table`; the row `padding_idx` gets no gradient."""
    row = -1 if padding_idx is None else padding_row("embedding", padding_idx, table.shape[0])
    return more_operators.embedding(ids, table, row)


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` largest elements of each row, and their numbers."""
    return more_operators.top_k(x, k)


def argmax(x: Tensor) -> Tensor:
    """The number of each row's largest element, the first of equal ones; that of a NaN, where there is one."""
    return more_operators.argmax(x)


def sample(
    logits: Tensor,
    *,
    seed: int,
    offset: int = 0,
    temperature: float | Tensor = 1.0,
    top_k: int | Tensor = 0,
    top_p: float | Tensor = 1.0,
) -> Tensor:
    """A class of each row, drawn from the softmax of `logits / temperature`; see `flydsl.kernels.sample`."""
    op = "sample"
    heat, heats = (
        (1.0, temperature) if isinstance(temperature, Tensor) else (number(op, "temperature", temperature), None)
    )
    k, ks = (0, top_k) if isinstance(top_k, Tensor) else (whole(op, "top_k", top_k), None)
    p, ps = (1.0, top_p) if isinstance(top_p, Tensor) else (number(op, "top_p", top_p), None)
    return more_operators.sample(logits, seed, offset, heat, k, p, heats, ks, ps)


def gate(x: Tensor, k: int, *, normed: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements of each row's softmax, `normed` to a sum of 1, and their numbers."""
    return more_operators.gate(x, k, normed)


def quantize(
    x: Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, scale: str | Tensor = "row"
) -> tuple[Tensor, Tensor]:
    """`x` in 8 bits, and its float32 scales: of each "row", "block" of 128 elements, the "tensor", or a known one."""
    if isinstance(scale, Tensor):
        return quantize_operators.quantize(x, dtype, "row", scale)[0], scale
    return quantize_operators.quantize(x, dtype, scale, None)


def rms_norm_quantized(
    x: Tensor,
    weight: Tensor | None = None,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    eps: float = 1e-6,
    residual: Tensor | None = None,
    scale: str | Tensor | None = None,
) -> tuple[Tensor, ...]:
    """`rms_norm(x, weight)` in 8 bits, and its scales; with a residual the norm of x + residual, and the sum."""
    return _quantized("rms", x, weight, None, dtype, eps, residual, scale)


def layer_norm_quantized(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    eps: float = 1e-5,
    residual: Tensor | None = None,
    scale: str | Tensor | None = None,
) -> tuple[Tensor, ...]:
    """`layer_norm(x, weight, bias)` in 8 bits, otherwise as `rms_norm_quantized`."""
    return _quantized("layer", x, weight, bias, dtype, eps, residual, scale)


def group_norm_quantized(
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    eps: float = 1e-5,
    residual: Tensor | None = None,
    scale: str | Tensor | None = None,
) -> tuple[Tensor, ...]:
    """`group_norm(x, groups, weight, bias)` in 8 bits, with a scale for each "group"; else as `rms_norm_quantized`."""
    groups = whole("group_norm_quantized", "groups", groups)
    return _quantized("group", x, weight, bias, dtype, eps, residual, "group" if scale is None else scale, groups)


def softmax_quantized(
    x: Tensor, dtype: torch.dtype = torch.float8_e4m3fn, *, scale: str | Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The softmax of rows in 8 bits, and its scales, one for each "row" where nothing is said."""
    codes, scales = _quantized("softmax", x, None, None, dtype, 0.0, None, scale)
    return codes, scales


def dequantize(codes: Tensor, scales: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """What codes of 8 bits stand for: each times its scale, as `quantize` and its like give them."""
    return quantize_operators.dequantize(codes, scales, dtype)


def _quantized(
    norm: str,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
    eps: float,
    residual: Tensor | None,
    scale: str | Tensor | None,
    groups: int = 0,
) -> tuple[Tensor, ...]:
    known, way = (scale, "row") if isinstance(scale, Tensor) else (None, "row" if scale is None else scale)
    codes, scales, summed = quantize_operators.norm_quantized(
        x, norm, groups, weight, bias, dtype, eps, residual, way, known
    )  # fmt: skip
    made = codes, scales if known is None else known
    return made if residual is None else (*made, summed)


def reduce(x: Tensor, op: str = "sum", dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """All elements along one or several directions combined: "sum", "prod", "max", "min" or "mean"."""
    several = isinstance(dim, (tuple, list, range))
    dims = range(x.dim()) if dim is None else dim if several else (whole("reduce", "dim", dim),)
    return axis_operators.reduce(x, op, wholes("reduce", "dim", dims), flag("reduce", "keepdim", keepdim))


def scan(x: Tensor, op: str = "sum", dim: int = -1, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """All elements up to each one along `dim` combined: "sum", "prod", "max" or "min"."""
    return axis_operators.scan(x, op, whole("scan", "dim", dim), exclusive, reverse)


def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The elements along `dim` in order, equal ones in theirs, and their numbers."""
    return axis_operators.sort(x, whole("sort", "dim", dim), descending)


def sort_by_key(keys: Tensor, *values: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, ...]:
    """`keys` in order along `dim`, and other tensors of their shape in the same order."""
    for i, v in enumerate(values):
        check_values(i, v.shape, keys.shape)
    made, order = axis_operators.sort(keys, whole("sort_by_key", "dim", dim), descending)
    return made, *(axis_operators.in_order(v, order, dim) for v in values)


def permute(x: Tensor, dims: Sequence[int]) -> Tensor:
    """A contiguous copy whose direction `i` is direction `dims[i]` of `x`."""
    return axis_operators.permute(x, wholes("permute", "dims", dims))


__all__ = [
    "add_group_norm", "add_layer_norm", "add_rms_norm", "argmax", "cross_entropy", "dequantize", "embedding", "gate",
    "gated", "gelu_mul", "group_norm", "group_norm_quantized", "layer_norm", "layer_norm_quantized",
    "linear_cross_entropy", "log_softmax", "permute", "quantize", "reduce", "rms_norm", "rms_norm_quantized", "rope",
    "sample", "scan", "silu_mul", "softmax", "softmax_quantized", "sort", "sort_by_key", "top_k",
]  # fmt: skip
