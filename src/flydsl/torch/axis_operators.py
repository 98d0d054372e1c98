"""`torch.ops.flydsl` along any axis: reductions, scans, sorts."""

# No `from __future__ import annotations`: torch reads schemas from the annotations.
from typing import cast

import torch
from torch import Tensor

from flydsl import kernels
from flydsl.kernels.axes.permute import check_permute
from flydsl.kernels.axes.reduce import check_reduce
from flydsl.kernels.axes.scan import check_scan
from flydsl.kernels.axes.sort import check_in_order, check_sort
from flydsl.kernels.axes.sort import in_order as kernels_in_order
from flydsl.kernels.axes.view import axes_of

from .batches import Batch, Call, along, behind, in_front
from .register import Context, Given, operator


@operator("reduce")
def reduce(x: Tensor, op: str, axes: list[int], keepdims: bool) -> Tensor:
    return kernels.reduce(x, op, axis=axes, keepdims=keepdims)


def _gone(x: Tensor, axes: list[int]) -> set[int]:
    """Directions, counted from the front; a compiler may hand over numbers that it only knows by name."""
    return set(axes_of("reduce", [int(a) for a in axes], x.shape))


@reduce.register_fake
def _(x: Tensor, op: str, axes: list[int], keepdims: bool) -> Tensor:
    return x.new_empty(check_reduce(x, op, [int(a) for a in axes], keepdims)[1])


def _reduce_context(ctx: Context, inputs: tuple[Tensor, str, list[int], bool], output: Tensor) -> None:
    x, ctx.activation, axes, keepdims = inputs
    ctx.shape = x.shape
    gone = _gone(x, axes)
    ctx.ways = tuple(i in gone for i in range(x.dim()))
    ctx.normed = keepdims
    linear, extreme = ctx.activation in ("sum", "mean"), ctx.activation in ("max", "min")
    ctx.save_for_backward(None if linear else x, output if extreme else None)


def _reduce_gradient(ctx: Context, dy: Tensor) -> tuple[Tensor, None, None, None]:
    x, y = ctx.saved_tensors
    axes = [i for i, gone in enumerate(ctx.ways) if gone]
    count = 1
    for i in axes:
        count *= ctx.shape[i]
        if not ctx.normed:
            dy = dy.unsqueeze(i)
            y = None if y is None else y.unsqueeze(i)
    if x is None:
        given = dy if ctx.activation == "sum" else dy / count
        return given.expand(ctx.shape), None, None, None
    if y is not None:
        # All that are the largest have a share, as in torch.
        hits = (x == y).to(dy.dtype)
        return dy * hits / (hits.sum(axes, keepdim=True) if axes else hits), None, None, None
    return _others(x, axes) * dy, None, None, None


def _others(x: Tensor, axes: list[int]) -> Tensor:
    """For each element the product of the others: no division, as there may be zeros."""
    if not axes:
        return torch.ones_like(x)
    order = [i for i in range(x.dim()) if i not in axes] + axes
    turned = x.permute(order)
    rows = turned.flatten(-len(axes))
    made = scan(rows, "prod", -1, True, False) * scan(rows, "prod", -1, True, True)
    return made.view(turned.shape).permute(sorted(range(x.dim()), key=order.__getitem__))


reduce.register_autograd(_reduce_gradient, setup_context=_reduce_context)
reduce.register_vmap(along(2))


@operator("scan")
def scan(x: Tensor, op: str, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    return kernels.scan(x, op, axis=axis, exclusive=exclusive, reverse=reverse).contiguous()


@scan.register_fake
def _(x: Tensor, op: str, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    check_scan(x, op, int(axis))
    return x.new_empty(x.shape)


def _scan_context(ctx: Context, inputs: tuple[Tensor, str, int, bool, bool], output: Tensor) -> None:
    x, ctx.activation, ctx.count, exclusive, reverse = inputs
    ctx.ways = (exclusive, reverse)
    ctx.dtype = x.dtype
    ctx.save_for_backward(None if ctx.activation == "sum" else x)


def _scan_gradient(ctx: Context, dy: Tensor) -> tuple[Tensor, None, None, None, None]:
    (x,), dim = ctx.saved_tensors, ctx.count
    exclusive, reverse = ctx.ways
    if x is None:
        return scan(dy, "sum", dim, exclusive, not reverse), None, None, None, None
    wide = torch.promote_types(x.dtype, torch.float32)
    x, dy = (t.flip(dim) if reverse else t for t in (x.to(wide), dy.to(wide)))
    if exclusive:
        # The first one is a constant, and each of the others is what an inclusive scan has one place earlier.
        dy = torch.where(_places(x, dim) < x.shape[dim] - 1, dy.roll(-1, dim), torch.zeros_like(dy))
    dx = _of_products(x, dy, dim) if ctx.activation == "prod" else _of_extremes(x, dy, ctx.activation, dim)
    return (dx.flip(dim) if reverse else dx).to(ctx.dtype), None, None, None, None


def _places(x: Tensor, dim: int) -> Tensor:
    """The number of each element along a direction."""
    return torch.arange(x.shape[dim], device=x.device).view([-1 if i == dim % x.dim() else 1 for i in range(x.dim())])


def _of_extremes(x: Tensor, dy: Tensor, op: str, dim: int) -> Tensor:
    """Each result's gradient is that of the last element that it is equal to; a NaN keeps all that come behind it."""
    here = (x == scan(x, op, dim, False, False)) | x.isnan()
    places = _places(x, dim)
    found = scan(torch.where(here, places, torch.zeros_like(places)), "max", dim, False, False)
    return torch.zeros_like(x).scatter_add(dim, found, dy)


def _of_products(x: Tensor, dy: Tensor, dim: int) -> Tensor:
    """Products up to the first zero are divided by each element; of the others the zero alone has a gradient."""
    zero = x == 0
    seen = scan(zero.long(), "sum", dim, False, False)
    ahead, first = seen == 0, zero & (seen == 1)
    others = torch.where(first, torch.ones_like(x), x)
    parts = dy * scan(others, "prod", dim, False, False)
    nothing = torch.zeros_like(x)
    before, behind = (
        scan(torch.where(ahead, a, b), "sum", dim, False, True) for a, b in ((parts, nothing), (nothing, parts))
    )
    return torch.where(ahead, before / others, torch.where(first, behind, nothing))


scan.register_autograd(_scan_gradient, setup_context=_scan_context)
scan.register_vmap(along(2))


@operator("sort")
def sort(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    values, order = kernels.sort(x, axis=axis, descending=descending)
    return values.contiguous(), order.contiguous()


@sort.register_fake
def _(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    check_sort("sort", x, int(axis))
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


@operator("in_order")
def in_order(x: Tensor, order: Tensor, axis: int) -> Tensor:
    """The elements along a direction by numbers that `sort` gave: what goes with its keys."""
    return kernels_in_order(x, order, axis=axis).contiguous()


@in_order.register_fake
def _(x: Tensor, order: Tensor, axis: int) -> Tensor:
    check_in_order("in_order", x, order, int(axis))
    return x.new_empty(x.shape)


def _in_order_context(ctx: Context, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
    ctx.count = inputs[2]
    ctx.save_for_backward(inputs[1])


def _in_order_gradient(ctx: Context, d: Tensor) -> tuple[Tensor, None, None]:
    (order,) = ctx.saved_tensors
    return torch.zeros_like(d).scatter(ctx.count, order, d), None, None


in_order.register_autograd(_in_order_gradient, setup_context=_in_order_context)


@in_order.register_vmap
def _(
    call: Call, info: Batch, in_dims: tuple[int | None, int | None, None], x: Tensor, order: Tensor, axis: int
) -> tuple[Tensor, int]:
    rank = x.dim() - (in_dims[0] is not None)
    x, order = (cast("Tensor", in_front(t, dim, info.batch_size)) for t, dim in zip((x, order), in_dims, strict=False))
    return call(x, order, behind(axis, rank)), 0


@operator("permute")
def permute(x: Tensor, axes: list[int]) -> Tensor:
    return kernels.permute(x, axes)


@permute.register_fake
def _(x: Tensor, axes: list[int]) -> Tensor:
    return x.new_empty([x.shape[a] for a in check_permute(x, [int(a) for a in axes])])


def _permute_context(ctx: Context, inputs: tuple[Tensor, list[int]], output: Tensor) -> None:
    x, axes = inputs
    order = [int(a) % x.dim() for a in axes]
    ctx.places = [order.index(i) for i in range(x.dim())]


def _permute_gradient(ctx: Context, d: Tensor) -> tuple[Tensor, None]:
    return permute(d, ctx.places), None


permute.register_autograd(_permute_gradient, setup_context=_permute_context)


@permute.register_vmap
def _(call: Call, info: Batch, in_dims: tuple[int, None], x: Tensor, axes: list[int]) -> tuple[Tensor, int]:
    rank = x.dim() - 1
    return call(x.movedim(in_dims[0], 0), [0, *(behind(a, rank) for a in axes)]), 0
