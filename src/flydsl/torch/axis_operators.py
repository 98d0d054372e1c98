"""`torch.ops.flydsl` along any axis: reductions, scans, sorts."""

# No `from __future__ import annotations`: torch reads schemas from the annotations.
import torch
from torch import Tensor

from flydsl import kernels
from flydsl.errors import DSLTypeError

from .batches import along
from .register import Context, Given, operator


@operator("reduce")
def reduce(x: Tensor, op: str, axes: list[int], keepdims: bool) -> Tensor:
    return kernels.reduce(x, op, axis=axes, keepdims=keepdims)


def _gone(x: Tensor, axes: list[int]) -> set[int]:
    """Directions, counted from the front; a compiler may hand over numbers that it only knows by name."""
    return {int(a) % x.dim() for a in axes}


@reduce.register_fake
def _(x: Tensor, op: str, axes: list[int], keepdims: bool) -> Tensor:
    gone = _gone(x, axes)
    return x.new_empty([1 if i in gone else e for i, e in enumerate(x.shape) if keepdims or i not in gone])


def _reduce_context(ctx: Context, inputs: tuple[Tensor, str, list[int], bool], output: Tensor) -> None:
    x, ctx.activation, axes, keepdims = inputs
    ctx.shape = x.shape
    gone = _gone(x, axes)
    ctx.ways = tuple(i in gone for i in range(x.dim()))
    ctx.normed = keepdims


def _reduce_gradient(ctx: Context, dy: Tensor) -> tuple[Tensor, None, None, None]:
    if ctx.activation not in ("sum", "mean"):
        raise DSLTypeError(f"reduce: gradients are of sum and mean, got {ctx.activation}")
    count = 1
    for i, gone in enumerate(ctx.ways):
        if gone:
            count *= ctx.shape[i]
            dy = dy if ctx.normed else dy.unsqueeze(i)
    given = dy if ctx.activation == "sum" else dy / count
    return given.expand(ctx.shape), None, None, None


reduce.register_autograd(_reduce_gradient, setup_context=_reduce_context)
reduce.register_vmap(along(2))


@operator("scan")
def scan(x: Tensor, op: str, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    return kernels.scan(x, op, axis=axis, exclusive=exclusive, reverse=reverse).contiguous()


@scan.register_fake
def _(x: Tensor, op: str, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    return x.new_empty(x.shape)


def _scan_context(ctx: Context, inputs: tuple[Tensor, str, int, bool, bool], output: Tensor) -> None:
    _, ctx.activation, ctx.count, exclusive, reverse = inputs
    ctx.ways = (exclusive, reverse)


def _scan_gradient(ctx: Context, dy: Tensor) -> tuple[Tensor, None, None, None, None]:
    if ctx.activation != "sum":
        raise DSLTypeError(f"scan: gradients are of sum, got {ctx.activation}")
    return scan(dy, "sum", ctx.count, ctx.ways[0], not ctx.ways[1]), None, None, None, None


scan.register_autograd(_scan_gradient, setup_context=_scan_context)
scan.register_vmap(along(2))


@operator("sort")
def sort(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    values, order = kernels.sort(x, axis=axis, descending=descending)
    return values.contiguous(), order.contiguous()


@sort.register_fake
def _(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.int64)


def _sort_context(ctx: Context, inputs: tuple[Given, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.count = inputs[1]
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _sort_gradient(ctx: Context, dvalues: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
    (order,) = ctx.saved_tensors
    return torch.zeros_like(dvalues).scatter(ctx.count, order, dvalues), None, None


sort.register_autograd(_sort_gradient, setup_context=_sort_context)
sort.register_vmap(along(1, 2))
