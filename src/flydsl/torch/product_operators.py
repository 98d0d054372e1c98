"""Matrix products of `torch.ops.flydsl`."""

# No `from __future__ import annotations`: torch reads schemas from the annotations.
import torch
from torch import Tensor

from flydsl import kernels
from flydsl.kernels.matmul.arrays import TYPES, type_name
from flydsl.kernels.matmul.request import RESULTS, check_factors, check_precision, result_type
from flydsl.kernels.rows.arrays import FLOATS, describe

from .batches import Batch, Call
from .register import Context, operator


@operator("matmul")
def matmul(a: Tensor, b: Tensor, bias: Tensor | None, precision: str) -> Tensor:
    if a.dtype == b.dtype == torch.float64:
        # For gradcheck; no kernel has these.
        check_product(a, b, bias, precision)
        return torch.matmul(a, b) if bias is None else torch.matmul(a, b).add_(bias)
    return kernels.matmul(a, b, bias=bias, precision=precision)


@matmul.register_fake
def _(a: Tensor, b: Tensor, bias: Tensor | None, precision: str) -> Tensor:
    front = check_product(a, b, bias, precision)
    dtype = a.dtype if a.dtype == torch.float64 else getattr(torch, result_type(type_name(a.dtype), None))
    return a.new_empty((*front, a.shape[-2], b.shape[-1]), dtype=dtype)


def check_product(a: Tensor, b: Tensor, bias: Tensor | None, precision: str) -> tuple[int, ...]:
    """What is refused of a product, by extents and types alone; the dimensions in front of the result."""
    double = a.dtype == b.dtype == torch.float64
    types = ("float64",) if double else RESULTS
    known = tuple(FLOATS) if double else tuple(TYPES)
    first, second, shift = (
        None if x is None else describe("matmul", name, x, known) for name, x in (("a", a), ("b", b), ("bias", bias))
    )
    assert first is not None and second is not None
    front = check_factors(first, second, shift, types)
    check_precision(first.dtype, precision)
    return front


def _context(ctx: Context, inputs: tuple[Tensor, Tensor, Tensor | None, str], output: Tensor) -> None:
    a, b, bias, ctx.precision = inputs
    ctx.bias = None if bias is None else bias.dtype
    # Each factor's gradient needs the other one.
    of_a, of_b = ctx.needs_input_grad[:2]
    ctx.shapes = a.shape, b.shape
    ctx.save_for_backward(a if of_b else None, b if of_a else None)


def _gradient(ctx: Context, d: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
    a, b = ctx.saved_tensors
    shape_a, shape_b = ctx.shapes
    da = db = dbias = None
    if ctx.needs_input_grad[0]:
        da = matmul(d, b.mT, None, ctx.precision).sum_to_size(shape_a)
    if ctx.needs_input_grad[1]:
        if len(shape_b) == 2:
            # One b for all rows of a: its gradient is one sum over them.
            db = matmul(a.flatten(0, -2).mT, d.flatten(0, -2), None, ctx.precision)
        else:
            db = matmul(a.mT, d, None, ctx.precision).sum_to_size(shape_b)
    if ctx.needs_input_grad[2] and ctx.bias is not None:
        # In float32, whatever the type of the rows.
        wide = torch.float64 if d.dtype == torch.float64 else torch.float32
        dbias = d.sum(tuple(range(d.dim() - 1)), dtype=wide).to(ctx.bias)
    return da, db, dbias, None


matmul.register_autograd(_gradient, setup_context=_context)


@matmul.register_vmap
def _(
    call: Call,
    info: Batch,
    in_dims: tuple[int | None, int | None, int | None, None],
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    precision: str,
) -> tuple[Tensor, int]:
    of_a, of_b, of_bias, _ = in_dims
    rank = max(x.dim() - (dim is not None) for x, dim in ((a, of_a), (b, of_b)))

    def leading(x: Tensor, dim: int | None) -> Tensor:
        """The batch in front of all other dimensions, of which both matrices have as many."""
        if dim is None:
            return x
        x = x.movedim(dim, 0)
        return x.reshape(x.shape[0], *(1 for _ in range(rank - x.dim() + 1)), *x.shape[1:])

    a, b = leading(a, of_a), leading(b, of_b)
    if bias is None or of_bias is None:
        made = call(a, b, bias, precision)
        # One product for all where only the bias has a batch, which is added below.
        return made, 0
    made = call(a, b, None, precision)
    if of_a is None and of_b is None:
        made = made.expand(info.batch_size, *made.shape)
    shift = bias.movedim(of_bias, 0)
    return made + shift.reshape(shift.shape[0], *(1 for _ in range(made.dim() - 2)), shift.shape[-1]).to(made.dtype), 0
