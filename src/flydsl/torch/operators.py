"""The operators `torch.ops.flydsl`: each with what it makes of fake tensors, and its gradient.

Results are contiguous, for fake tensors as for real ones. Gradients are operators themselves, so that a compiled graph
has them as nodes; they have no gradients in turn.
"""

# No `from __future__ import annotations`: torch reads schemas from the annotations.
from functools import cache

import torch
from torch import Tensor

from flydsl import kernels
from flydsl.kernels.matmul.arrays import type_name
from flydsl.kernels.repeats import again
from flydsl.kernels.rows.norms import backward, check_norm, check_norm_backward, norm
from flydsl.kernels.rows.softmax_entry import check_softmax, check_softmax_backward

from .batches import more_rows
from .eager import unseen
from .register import Context, Given, operator

named = cache(type_name)
"""A type as kernels call it."""


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _statistics(x: Tensor) -> Tensor:
    """One number per row."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    count = 1
    for extent in x.shape[:-1]:
        count = count * extent
    return x.new_empty((count,), dtype=dtype)


# --- softmax ----------------------------------------------------------------------------------------------------------


@operator("softmax")
def softmax(x: Tensor, log: bool) -> Tensor:
    return kernels.log_softmax(x) if log else kernels.softmax(x)


@softmax.register_fake
def _(x: Tensor, log: bool) -> Tensor:
    check_softmax("log_softmax" if log else "softmax", x)
    return _like(x)


@operator("softmax_backward")
def softmax_backward(y: Tensor, dy: Tensor, log: bool) -> Tensor:
    return kernels.log_softmax_backward(y, dy) if log else kernels.softmax_backward(y, dy)


@softmax_backward.register_fake
def _(y: Tensor, dy: Tensor, log: bool) -> Tensor:
    check_softmax_backward("log_softmax_backward" if log else "softmax_backward", y, dy)
    return _like(y)


def _softmax_context(ctx: Context, inputs: tuple[Tensor, bool], output: Tensor) -> None:
    ctx.save_for_backward(output)
    ctx.log = inputs[1]


def _softmax_gradient(ctx: Context, dy: Tensor) -> tuple[Tensor, None]:
    (y,) = ctx.saved_tensors
    if unseen():
        dx = again("log_softmax_backward" if ctx.log else "softmax_backward", None, y, dy)
        if dx is not None:
            return dx, None
    return softmax_backward(y, dy, ctx.log), None


softmax.register_autograd(_softmax_gradient, setup_context=_softmax_context)


softmax.register_vmap(more_rows("r.", "r"))
softmax_backward.register_vmap(more_rows("rr.", "r"))


# --- norms ------------------------------------------------------------------------------------------------------------


@operator("rms_norm")
def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    made = norm("rms_norm", x, weight, None, eps, None, None, False, True, None)
    return made.out, made.scale


@rms_norm.register_fake
def _(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    check_norm("rms_norm", x, weight, None, None, eps)
    return _like(x), _statistics(x)


@operator("add_rms_norm")
def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    made = norm("rms_norm", x, weight, None, eps, residual, None, False, True, None)
    return made.out, made.summed, made.scale


@add_rms_norm.register_fake
def _(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    check_norm("rms_norm", x, weight, None, residual, eps)
    return _like(x), _like(x), _statistics(x)


@operator("rms_norm_backward")
def rms_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, scale: Tensor, dsummed: Tensor | None, wanted: list[bool]
) -> tuple[Tensor, Tensor]:
    """The gradients of x and weight; an operator gives tensors, so one that is not `wanted` is empty."""
    made = backward("rms_norm_backward", dy, x, weight, None, scale, dsummed, wanted[0], wanted[1], False, None)
    return _or_nothing(made.x, x), _or_nothing(made.weight, x)


@rms_norm_backward.register_fake
def _(
    dy: Tensor, x: Tensor, weight: Tensor | None, scale: Tensor, dsummed: Tensor | None, wanted: list[bool]
) -> tuple[Tensor, Tensor]:
    check_norm_backward("rms_norm_backward", dy, x, weight, None, scale, dsummed)
    dweight = x.new_empty(0) if weight is None or not wanted[1] else _like(weight)
    return _like(x) if wanted[0] else x.new_empty(0), dweight


def _or_nothing(made: Tensor | None, x: Tensor) -> Tensor:
    return x.new_empty(0) if made is None else made


def _rms_context(ctx: Context, inputs: tuple[Given, ...], output: tuple[Tensor, ...]) -> None:
    """Of both operators: the last but one argument is the weight, the last result the statistics."""
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[-1])
    summed = inputs[0] if len(output) == 2 else output[1]
    ctx.save_for_backward(summed, inputs[-2], output[-1])


def _rms_gradients(
    ctx: Context, dy: Tensor | None, dsummed: Tensor | None, inputs: bool, weights: bool
) -> tuple[Tensor | None, Tensor | None]:
    x, weight, scale = ctx.saved_tensors
    if dy is None:
        return dsummed if inputs else None, None
    if unseen():
        made = again("rms_norm_backward", (inputs, weights, False, None), dy, x, weight, None, scale, dsummed)
        if made is not None:
            return made.x, made.weight
    dx, dweight = rms_norm_backward(dy, x, weight, scale, dsummed, [inputs, weights])
    return dx if inputs else None, dweight if weights else None


def _rms_gradient(ctx: Context, dy: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    inputs, weights = ctx.needs_input_grad[:2]
    dx, dweight = _rms_gradients(ctx, dy, None, inputs, weights)
    return dx, dweight, None


def _add_rms_gradient(
    ctx: Context, dy: Tensor | None, dsummed: Tensor | None, *_: Tensor | None
) -> tuple[Tensor | None, ...]:
    x, residual, weights = ctx.needs_input_grad[:3]
    dx, dweight = _rms_gradients(ctx, dy, dsummed, x or residual, weights)
    return dx if x else None, dx if residual else None, dweight, None


rms_norm.register_autograd(_rms_gradient, setup_context=_rms_context)
add_rms_norm.register_autograd(_add_rms_gradient, setup_context=_rms_context)
rms_norm.register_vmap(more_rows("r..", "rf"))
add_rms_norm.register_vmap(more_rows("rr..", "rrf"))
rms_norm_backward.register_vmap(
    more_rows("rr.fr.", "rr", alone=lambda *given: given[5][1])  # a weight's sum over all rows
)


@operator("layer_norm")
def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    made = norm("layer_norm", x, weight, bias, eps, None, None, True, True, None)
    return made.out, made.mean, made.scale


@layer_norm.register_fake
def _(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    check_norm("layer_norm", x, weight, bias, None, eps)
    return _like(x), _statistics(x), _statistics(x)


@operator("add_layer_norm")
def add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    made = norm("layer_norm", x, weight, bias, eps, residual, None, True, True, None)
    return made.out, made.summed, made.mean, made.scale


@add_layer_norm.register_fake
def _(
    x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    check_norm("layer_norm", x, weight, bias, residual, eps)
    return _like(x), _like(x), _statistics(x), _statistics(x)


@operator("layer_norm_backward")
def layer_norm_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    scale: Tensor,
    dsummed: Tensor | None,
    wanted: list[bool],
    bias: torch.dtype | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias, empty where one is not `wanted`; that of the bias in its type."""
    made = backward(
        "layer_norm_backward", dy, x, weight, mean, scale, dsummed, wanted[0], wanted[1], wanted[2], None,
        None if bias is None else named(bias),
    )  # fmt: skip
    return _or_nothing(made.x, x), _or_nothing(made.weight, x), _or_nothing(made.bias, x)


@layer_norm_backward.register_fake
def _(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    scale: Tensor,
    dsummed: Tensor | None,
    wanted: list[bool],
    bias: torch.dtype | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    bias_type = None if bias is None else named(bias)
    check_norm_backward("layer_norm_backward", dy, x, weight, mean, scale, dsummed, bias_type)
    dx = _like(x) if wanted[0] else x.new_empty(0)
    dweight = x.new_empty(0) if weight is None or not wanted[1] else _like(weight)
    dtype = bias or (x.dtype if weight is None else weight.dtype)
    return dx, dweight, x.new_empty((x.shape[-1],), dtype=dtype) if wanted[2] else x.new_empty(0)


def _layer_context(ctx: Context, inputs: tuple[Given, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[-2:])
    summed = inputs[0] if len(output) == 3 else output[1]
    ctx.save_for_backward(summed, inputs[-3], *output[-2:])
    bias = inputs[-2]
    ctx.bias = None if bias is None else bias.dtype


def _layer_gradients(
    ctx: Context, dy: Tensor | None, dsummed: Tensor | None, inputs: bool, weights: bool, biases: bool
) -> tuple[Tensor | None, ...]:
    x, weight, mean, scale = ctx.saved_tensors
    if dy is None:
        return dsummed if inputs else None, None, None
    made, bias = None, ctx.bias
    if unseen():
        known = (inputs, weights, biases, None if bias is None else named(bias))
        made = again("layer_norm_backward", known, dy, x, weight, mean, scale, dsummed)
    if made is None:
        wanted = [inputs, weights, biases]
        made = layer_norm_backward(dy, x, weight, mean, scale, dsummed, wanted, bias)
    dx, dweight, dbias = made
    return dx if inputs else None, dweight if weights else None, dbias if biases else None


def _layer_gradient(ctx: Context, dy: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    inputs, weights, biases = ctx.needs_input_grad[:3]
    return *_layer_gradients(ctx, dy, None, inputs, weights, biases), None


def _add_layer_gradient(
    ctx: Context, dy: Tensor | None, dsummed: Tensor | None, *_: Tensor | None
) -> tuple[Tensor | None, ...]:
    x, residual, weights, biases = ctx.needs_input_grad[:4]
    dx, dweight, dbias = _layer_gradients(ctx, dy, dsummed, x or residual, weights, biases)
    return dx if x else None, dx if residual else None, dweight, dbias, None


layer_norm.register_autograd(_layer_gradient, setup_context=_layer_context)
add_layer_norm.register_autograd(_add_layer_gradient, setup_context=_layer_context)
layer_norm.register_vmap(more_rows("r...", "rff"))
add_layer_norm.register_vmap(more_rows("rr...", "rrff"))
layer_norm_backward.register_vmap(more_rows("rr.ffr..", "rrr", alone=lambda *given: any(given[6][1:])))
