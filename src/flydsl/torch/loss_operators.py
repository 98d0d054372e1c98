"""`torch.ops.flydsl.linear_cross_entropy`: the loss of a linear layer's logits, which are never all there."""

# No `from __future__ import annotations`: torch reads schemas from the annotations.
import torch
from torch import Tensor

from flydsl import kernels
from flydsl.kernels.rows.cross_entropy import check_losses, counting
from flydsl.kernels.rows.linear_cross_entropy import check_linear_cross_entropy

from .batches import more_rows
from .register import Context, Given, operator


@operator("linear_cross_entropy")
def linear_cross_entropy(
    x: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, ignored: int, smoothing: float
) -> tuple[Tensor, Tensor]:
    made = kernels.linear_cross_entropy_forward(
        x, weight, target, bias, ignore_index=ignored, label_smoothing=smoothing
    )
    return made.losses, made.sums


@linear_cross_entropy.register_fake
def _(
    x: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, ignored: int, smoothing: float
) -> tuple[Tensor, Tensor]:
    op = "linear_cross_entropy"
    counting(op, ignored, smoothing)
    check_linear_cross_entropy(op, x, weight, target, bias)
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.new_empty(target.shape, dtype=dtype), x.new_empty(target.shape, dtype=dtype)


@operator("linear_cross_entropy_backward")
def linear_cross_entropy_backward(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    sums: Tensor,
    dlosses: Tensor,
    bias: Tensor | None,
    ignored: int,
    smoothing: float,
    wanted: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    need = wanted[0], wanted[1], wanted[2]
    made = kernels.linear_cross_entropy_backward(
        x, weight, target, sums, dlosses, bias, ignore_index=ignored, label_smoothing=smoothing, wanted=need
    )
    # An operator gives tensors: one that nobody asked for is empty.
    found = [x.new_empty((0,)) if t is None else t for t in made]
    return found[0], found[1], found[2]


@linear_cross_entropy_backward.register_fake
def _(
    x: Tensor, weight: Tensor, target: Tensor, sums: Tensor, dlosses: Tensor, bias: Tensor | None, ignored: int,
    smoothing: float, wanted: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    op = "linear_cross_entropy_backward"
    counting(op, ignored, smoothing)
    check_linear_cross_entropy(op, x, weight, target, bias)
    check_losses(op, target, sums, dlosses)
    nothing = x.new_empty((0,))
    found = [
        t.new_empty(t.shape) if need and t is not None else torch.empty_like(nothing)
        for t, need in zip((x, weight, bias), wanted, strict=True)
    ]
    return found[0], found[1], found[2]


def _context(ctx: Context, inputs: tuple[Given, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, target, bias, ctx.ignored, ctx.smoothing = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(x, weight, target, bias, output[1])


def _gradient(ctx: Context, dlosses: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if dlosses is None:
        return None, None, None, None, None, None
    x, weight, target, bias, sums = ctx.saved_tensors
    need = ctx.needs_input_grad
    wanted = [need[0], need[1], need[3]]
    dx, dweight, dbias = linear_cross_entropy_backward(
        x, weight, target, sums, dlosses, bias, ctx.ignored, ctx.smoothing, wanted
    )
    given = [t if w else None for t, w in zip((dx, dweight, dbias), wanted, strict=True)]
    return given[0], given[1], None, given[2], None, None


linear_cross_entropy.register_autograd(_gradient, setup_context=_context)
linear_cross_entropy.register_vmap(more_rows("r.r...", "rr"))
linear_cross_entropy_backward.register_vmap(more_rows("r.rrr....", "rrr", alone=lambda *given: any(given[8][1:])))
