"""More of `torch.ops.flydsl`: losses, gated activations, rotary positions, embeddings, the largest of rows."""

# No `from __future__ import annotations`: torch reads schemas from the annotations.
import torch
from torch import Tensor

from flydsl import kernels
from flydsl.errors import DSLValueError
from flydsl.kernels.repeats import again
from flydsl.kernels.rows.cross_entropy import check_cross_entropy, check_cross_entropy_backward
from flydsl.kernels.rows.embedding import check_embedding, check_embedding_backward
from flydsl.kernels.rows.gated import check_gated, check_gated_backward
from flydsl.kernels.rows.group_norm import check_group_norm, check_group_norm_backward
from flydsl.kernels.rows.largest.entry import check_largest
from flydsl.kernels.rows.rope import check_rope
from flydsl.kernels.rows.sample import check_sample

from .batches import more_rows
from .eager import unseen
from .operators import named, softmax, softmax_backward
from .register import Context, Given, operator

# --- sampling ---------------------------------------------------------------------------------------------------------


@operator("sample")
def sample(
    logits: Tensor,
    seed: int,
    offset: int,
    temperature: float,
    top_k: int,
    top_p: float,
    temperatures: Tensor | None,
    ks: Tensor | None,
    ps: Tensor | None,
) -> Tensor:
    return kernels.sample(
        logits,
        seed=seed,
        offset=offset,
        temperature=temperature if temperatures is None else temperatures,
        top_k=top_k if ks is None else ks,
        top_p=top_p if ps is None else ps,
    )


@sample.register_fake
def _(
    logits: Tensor, seed: int, offset: int, temperature: float, top_k: int, top_p: float, temperatures: Tensor | None,
    ks: Tensor | None, ps: Tensor | None,
) -> Tensor:  # fmt: skip
    check_sample(
        "sample", logits, seed, offset, temperature if temperatures is None else temperatures,
        top_k if ks is None else ks, top_p if ps is None else ps,
    )  # fmt: skip
    return logits.new_empty(logits.shape[:-1], dtype=torch.int64)


@operator("argmax")
def argmax(x: Tensor) -> Tensor:
    return kernels.argmax(x)


@argmax.register_fake
def _(x: Tensor) -> Tensor:
    check_largest("argmax", x, 1)
    return x.new_empty(x.shape[:-1], dtype=torch.int64)


argmax.register_vmap(more_rows("r", "r"))


# --- cross entropy ----------------------------------------------------------------------------------------------------


@operator("cross_entropy")
def cross_entropy(logits: Tensor, target: Tensor, ignored: int, smoothing: float) -> tuple[Tensor, Tensor]:
    made = kernels.cross_entropy_forward(logits, target, ignore_index=ignored, label_smoothing=smoothing)
    return made.losses, made.sums


@cross_entropy.register_fake
def _(logits: Tensor, target: Tensor, ignored: int, smoothing: float) -> tuple[Tensor, Tensor]:
    check_cross_entropy("cross_entropy", logits, target, ignored, smoothing)
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return logits.new_empty(target.shape, dtype=dtype), logits.new_empty(target.shape, dtype=dtype)


@operator("cross_entropy_backward")
def cross_entropy_backward(
    logits: Tensor, target: Tensor, sums: Tensor, dlosses: Tensor, ignored: int, smoothing: float
) -> Tensor:
    return kernels.cross_entropy_backward(
        logits, target, sums, dlosses, ignore_index=ignored, label_smoothing=smoothing
    )  # fmt: skip


@cross_entropy_backward.register_fake
def _(logits: Tensor, target: Tensor, sums: Tensor, dlosses: Tensor, ignored: int, smoothing: float) -> Tensor:
    check_cross_entropy_backward("cross_entropy_backward", logits, target, sums, dlosses, ignored, smoothing)
    return logits.new_empty(logits.shape)


def _entropy_context(ctx: Context, inputs: tuple[Given, ...], output: tuple[Tensor, Tensor]) -> None:
    logits, target, ctx.ignored, ctx.smoothing = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(logits, target, output[1])


def _entropy_gradient(ctx: Context, dlosses: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if dlosses is None:
        return None, None, None, None
    logits, target, sums = ctx.saved_tensors
    if unseen():
        made = again(
            "cross_entropy_backward", (ctx.ignored, ctx.smoothing), logits, target, sums, dlosses
        )  # fmt: skip
        if made is not None:
            return made, None, None, None
    return cross_entropy_backward(logits, target, sums, dlosses, ctx.ignored, ctx.smoothing), None, None, None


cross_entropy.register_autograd(_entropy_gradient, setup_context=_entropy_context)
cross_entropy.register_vmap(more_rows("rr..", "rr"))
cross_entropy_backward.register_vmap(more_rows("rrrr..", "r"))


# --- gated activations ------------------------------------------------------------------------------------------------


@operator("gated")
def gated(x: Tensor, y: Tensor, activation: str) -> Tensor:
    return kernels.gated(x, y, activation=activation)


@gated.register_fake
def _(x: Tensor, y: Tensor, activation: str) -> Tensor:
    check_gated("gated", x, y, activation)
    return x.new_empty(x.shape)


@operator("gated_backward")
def gated_backward(d: Tensor, x: Tensor, y: Tensor, activation: str, wanted: list[bool]) -> tuple[Tensor, Tensor]:
    """The gradients of x and y, empty where one is not `wanted`: an operator gives tensors."""
    dx, dy = kernels.gated_backward(d, x, y, activation=activation, wanted=(wanted[0], wanted[1]))
    return x.new_empty(0) if dx is None else dx, x.new_empty(0) if dy is None else dy


@gated_backward.register_fake
def _(d: Tensor, x: Tensor, y: Tensor, activation: str, wanted: list[bool]) -> tuple[Tensor, Tensor]:
    check_gated_backward("gated_backward", d, x, y, activation)
    dx, dy = (t.new_empty(t.shape if want else (0,)) for t, want in zip((x, y), wanted, strict=True))
    return dx, dy


def _gated_context(ctx: Context, inputs: tuple[Tensor, Tensor, str], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.activation = inputs[2]


def _gated_gradient(ctx: Context, d: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    x, y = ctx.saved_tensors
    of_x, of_y = ctx.needs_input_grad[:2]
    if unseen():
        made = again("gated_backward", (ctx.activation, of_x, of_y), x, y, d)
        if made is not None:
            return made[0], made[1], None
    dx, dy = gated_backward(d, x, y, ctx.activation, [of_x, of_y])
    return dx if of_x else None, dy if of_y else None, None


gated.register_autograd(_gated_gradient, setup_context=_gated_context)


gated.register_vmap(more_rows("rr.", "r"))
gated_backward.register_vmap(more_rows("rrr..", "rr"))


# --- group norm -------------------------------------------------------------------------------------------------------


@operator("group_norm")
def group_norm(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    made = kernels.group_norm_forward(x, groups, weight, bias, eps=eps)
    return made.out, made.mean, made.scale


@group_norm.register_fake
def _(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    check_group_norm("group_norm", x, groups, weight, bias, None, eps)
    return x.new_empty(x.shape), *_group_statistics(x, groups)


def _group_statistics(x: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    mean, scale = (x.new_empty((x.shape[0] * groups,), dtype=dtype) for _ in range(2))
    return mean, scale


@operator("add_group_norm")
def add_group_norm(
    x: Tensor, residual: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    made = kernels.group_norm_forward(x, groups, weight, bias, eps=eps, residual=residual)
    return made.out, made.summed, made.mean, made.scale


@add_group_norm.register_fake
def _(
    x: Tensor, residual: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    check_group_norm("group_norm", x, groups, weight, bias, residual, eps)
    return x.new_empty(x.shape), x.new_empty(x.shape), *_group_statistics(x, groups)


@operator("group_norm_backward")
def group_norm_backward(
    dy: Tensor,
    x: Tensor,
    groups: int,
    weight: Tensor | None,
    mean: Tensor,
    scale: Tensor,
    dsummed: Tensor | None,
    wanted: list[bool],
    bias: torch.dtype | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias, empty where one is not `wanted`; that of the bias in its type."""
    made = kernels.group_norm_backward(
        dy, x, groups, weight, mean, scale, dsummed=dsummed, wanted=(wanted[0], wanted[1], wanted[2]),
        bias_type=None if bias is None else named(bias),
    )  # fmt: skip
    found = [x.new_empty(0) if t is None else t for t in made]
    return found[0], found[1], found[2]


@group_norm_backward.register_fake
def _(
    dy: Tensor, x: Tensor, groups: int, weight: Tensor | None, mean: Tensor, scale: Tensor, dsummed: Tensor | None,
    wanted: list[bool], bias: torch.dtype | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    bias_type = None if bias is None else named(bias)
    check_group_norm_backward("group_norm_backward", dy, x, groups, weight, mean, scale, dsummed, bias_type)
    kind = x.dtype if weight is None else weight.dtype
    types = zip(wanted[1:], (kind, bias or kind), strict=True)
    dweight, dbias = (x.new_empty((x.shape[1],), dtype=t) if want else x.new_empty(0) for want, t in types)
    return x.new_empty(x.shape) if wanted[0] else x.new_empty(0), dweight, dbias


def _group_context(ctx: Context, inputs: tuple[Given, ...], output: tuple[Tensor, ...]) -> None:
    """Of both operators: the last three arguments are weight, bias and eps, the last two results the statistics."""
    ctx.count, weight, bias, _ = inputs[-4:]
    ctx.bias = None if bias is None else bias.dtype
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[-2:])
    ctx.save_for_backward(inputs[0] if len(output) == 3 else output[1], weight, *output[-2:])


def _group_gradients(
    ctx: Context, dy: Tensor | None, dsummed: Tensor | None, inputs: bool, weights: bool, biases: bool
) -> tuple[Tensor | None, ...]:
    if dy is None:
        return dsummed if inputs else None, None, None
    x, weight, mean, scale = ctx.saved_tensors
    made = None
    if unseen():
        known = (ctx.count, inputs, weights, biases, None if ctx.bias is None else named(ctx.bias))
        made = again("group_norm_backward", known, dy, x, weight, mean, scale, dsummed)
    if made is None:
        wanted = [inputs, weights, biases]
        made = group_norm_backward(dy, x, ctx.count, weight, mean, scale, dsummed, wanted, ctx.bias)
    dx, dweight, dbias = made
    return dx if inputs else None, dweight if weights else None, dbias if biases else None


def _group_gradient(ctx: Context, dy: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    inputs, _groups, weights, biases = ctx.needs_input_grad[:4]
    dx, dweight, dbias = _group_gradients(ctx, dy, None, inputs, weights, biases)
    return dx, None, dweight, dbias, None


def _add_group_gradient(
    ctx: Context, dy: Tensor | None, dsummed: Tensor | None, *_: Tensor | None
) -> tuple[Tensor | None, ...]:
    x, residual, _groups, weights, biases = ctx.needs_input_grad[:5]
    dx, dweight, dbias = _group_gradients(ctx, dy, dsummed, x or residual, weights, biases)
    return dx if x else None, dx if residual else None, None, dweight, dbias, None


group_norm.register_autograd(_group_gradient, setup_context=_group_context)
add_group_norm.register_autograd(_add_group_gradient, setup_context=_group_context)
group_norm.register_vmap(more_rows("f....", "fff"))
add_group_norm.register_vmap(more_rows("ff....", "ffff"))
group_norm_backward.register_vmap(
    more_rows("ff..fff..", "frr", alone=lambda *given: not given[7][0] or any(given[7][1:]))
)


# --- rotary positions -------------------------------------------------------------------------------------------------


@operator("rope")
def rope(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool, inverse: bool
) -> tuple[Tensor, Tensor]:
    return kernels.rope(q, k, cos, sin, positions=positions, interleaved=interleaved, inverse=inverse)


@rope.register_fake
def _(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool, inverse: bool
) -> tuple[Tensor, Tensor]:
    check_rope("rope", q, k, cos, sin, positions)
    return q.new_empty(q.shape), k.new_empty(k.shape)


def _rope_context(ctx: Context, inputs: tuple[Given, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[2:5])
    ctx.ways = inputs[5:]


def _rope_gradient(ctx: Context, dq: Tensor | None, dk: Tensor | None) -> tuple[Tensor | None, ...]:
    """Turned back. The tables are constants: they have no gradient."""
    of_q, of_k, *tables = ctx.needs_input_grad
    _refuse_tables(*tables[:2])
    made = _turned_back(ctx, dq if of_q else None, dk if of_k else None)
    return *made, None, None, None, None, None


def _refuse_tables(cos: bool, sin: bool) -> None:
    if cos or sin:
        raise DSLValueError("rope: cos and sin have no gradient; pass them detached")


def _turned_back(ctx: Context, dq: Tensor | None, dk: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of q and k; one that is not there, or that nobody wants, is None."""
    interleaved, inverse = ctx.ways
    cos, sin, positions = ctx.saved_tensors
    if dq is not None and dk is not None:
        made = again("rope", (interleaved, not inverse), dq, dk, cos, sin, positions) if unseen() else None
        return rope(dq, dk, cos, sin, positions, interleaved, not inverse) if made is None else made
    d = dk if dq is None else dq
    if d is None:
        return None, None
    alone = again("rope", (interleaved, not inverse), d, None, cos, sin, positions) if unseen() else None
    if alone is None:
        alone = rope_alone(d, cos, sin, positions, interleaved, not inverse)
    return (None, alone) if dq is None else (alone, None)


rope.register_autograd(_rope_gradient, setup_context=_rope_context)
rope.register_vmap(more_rows("rr..r..", "rr"))


@operator("rope_alone")
def rope_alone(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool, inverse: bool
) -> Tensor:
    """q or k by itself: where only one of them has a gradient."""
    return kernels.rope(x, None, cos, sin, positions=positions, interleaved=interleaved, inverse=inverse)


@rope_alone.register_fake
def _(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, interleaved: bool, inverse: bool
) -> Tensor:  # fmt: skip
    check_rope("rope", x, None, cos, sin, positions)
    return x.new_empty(x.shape)


def _alone_context(ctx: Context, inputs: tuple[Given, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:4])
    ctx.ways = inputs[4:]


def _alone_gradient(ctx: Context, d: Tensor) -> tuple[Tensor | None, ...]:
    _refuse_tables(*ctx.needs_input_grad[1:3])
    return _turned_back(ctx, d, None)[0], None, None, None, None, None


rope_alone.register_autograd(_alone_gradient, setup_context=_alone_context)
rope_alone.register_vmap(more_rows("r..r..", "r"))


@operator("rope_into_cache", mutates=("keys", "values"))
def rope_into_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    slots: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    interleaved: bool,
) -> Tensor:
    return kernels.rope(
        q, k, cos, sin, positions=positions, interleaved=interleaved, v=v, cache=(keys, values), slots=slots
    )


@rope_into_cache.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, slots: Tensor, cos: Tensor, sin: Tensor,
    positions: Tensor | None, interleaved: bool,
) -> Tensor:  # fmt: skip
    check_rope("rope", q, k, cos, sin, positions, v, (keys, values), slots)
    return q.new_empty(q.shape)


# --- embeddings -------------------------------------------------------------------------------------------------------


@operator("embedding")
def embedding(ids: Tensor, table: Tensor, padding: int) -> Tensor:
    return kernels.embedding(ids, table)


@embedding.register_fake
def _(ids: Tensor, table: Tensor, padding: int) -> Tensor:
    check_embedding("embedding", ids, table)
    return table.new_empty((*ids.shape, table.shape[1]))


@operator("embedding_backward")
def embedding_backward(dy: Tensor, ids: Tensor, count: int, padding: int) -> Tensor:
    return kernels.embedding_backward(dy, ids, count, padding_idx=None if padding < 0 else padding)


@embedding_backward.register_fake
def _(dy: Tensor, ids: Tensor, count: int, padding: int) -> Tensor:
    check_embedding_backward("embedding_backward", dy, ids, count, None if padding < 0 else padding)
    return dy.new_empty((count, dy.shape[-1]))


def _embedding_context(ctx: Context, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
    ids, table, ctx.padding = inputs
    ctx.save_for_backward(ids)
    ctx.count = table.shape[0]


def _embedding_gradient(ctx: Context, dy: Tensor) -> tuple[None, Tensor, None]:
    return None, embedding_backward(dy, ctx.saved_tensors[0], ctx.count, ctx.padding), None


embedding.register_autograd(_embedding_gradient, setup_context=_embedding_context)
embedding.register_vmap(more_rows("r..", "r"))


# --- the largest ------------------------------------------------------------------------------------------------------


@operator("top_k")
def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return kernels.top_k(x, k)


@top_k.register_fake
def _(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    check_largest("top_k", x, k)
    shape = (*x.shape[:-1], k)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


def _top_context(ctx: Context, inputs: tuple[Tensor, int], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])
    ctx.shape = inputs[0].shape


def _top_gradient(ctx: Context, d: Tensor, _: Tensor) -> tuple[Tensor, None]:
    (numbers,) = ctx.saved_tensors
    return d.new_zeros(ctx.shape).scatter(-1, numbers, d), None


top_k.register_autograd(_top_gradient, setup_context=_top_context)
top_k.register_vmap(more_rows("r.", "rr"))


@operator("gate")
def gate(x: Tensor, k: int, normed: bool) -> tuple[Tensor, Tensor]:
    return kernels.gate(x, k, normed=normed)


@gate.register_fake
def _(x: Tensor, k: int, normed: bool) -> tuple[Tensor, Tensor]:
    check_largest("gate", x, k)
    shape = (*x.shape[:-1], k)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.new_empty(shape, dtype=wide), x.new_empty(shape, dtype=torch.int64)


def _gate_context(ctx: Context, inputs: tuple[Tensor, int, bool], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(inputs[0], *output)
    ctx.normed = inputs[2]


def _gate_gradient(ctx: Context, d: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
    x, weights, numbers = ctx.saved_tensors
    zeros = torch.zeros(x.shape, dtype=weights.dtype, device=x.device)
    if ctx.normed:
        # A softmax of the chosen ones alone.
        inner = weights * (d - (d * weights).sum(-1, keepdim=True))
        return zeros.scatter(-1, numbers, inner).to(x.dtype), None, None
    everything = softmax(x.to(weights.dtype), False)
    return softmax_backward(everything, zeros.scatter(-1, numbers, d), False).to(x.dtype), None, None


gate.register_autograd(_gate_gradient, setup_context=_gate_context)
gate.register_vmap(more_rows("r..", "rr"))
