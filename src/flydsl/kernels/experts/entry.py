"""`moe`: a layer of experts for tokens, from its parts."""

from __future__ import annotations

from flydsl.errors import DSLTypeError, DSLValueError

from ..activations import ACTIVATIONS
from ..matmul.grouped import grouped_matmul
from ..rows.arrays import Given, HostArray, describe, same_place
from ..rows.gated import gated
from ..rows.largest import gate
from ..scalars import choice, flag, whole
from .move import permute_tokens, unpermute_tokens
from .sort import sort_tokens


def moe(
    x: HostArray,
    logits: HostArray,
    w1: HostArray,
    w2: HostArray,
    k: int,
    *,
    normed: bool = True,
    activation: str = "silu",
    out: HostArray | None = None,
    stream: object = None,
) -> Given:
    """What the `k` experts of each token make of it, weighted by their share of the softmax of its logits.

    `x` is (tokens, D) and `logits` (tokens, experts). An expert is `w1` (experts, D, 2 H) and `w2` (experts, H, D):
    `(activation(g) * u) @ w2`, where g and u are the halves of `x @ w1`. `normed` makes the k shares sum up to 1.
    Experts may have any number of tokens, and none. The parts are `gate`, `sort_tokens`, `permute_tokens`,
    `grouped_matmul`, `gated` and `unpermute_tokens`.

    >>> x, logits = np.ones((2, 1), "f4"), np.array([[9.0, 0.0], [0.0, 9.0]], "f4")
    >>> w1, w2 = np.ones((2, 1, 2), "f4"), np.array([[[1.0]], [[10.0]]], "f4")
    >>> moe(x, logits, w1, w2, 1, activation="relu").ravel()
    array([ 1., 10.], dtype=float32)
    """
    op = "moe"
    tokens, scores = describe(op, "x", x), describe(op, "logits", logits)
    first, second = describe(op, "w1", w1), describe(op, "w2", w2)
    if (len(tokens.shape), len(scores.shape), len(first.shape), len(second.shape)) != (2, 2, 3, 3):
        raise DSLValueError(
            f"{op}: x is (tokens, D), logits (tokens, experts), w1 (experts, D, 2 H) and w2 (experts, H, D), got "
            f"{tokens}, {scores}, {first} and {second}"
        )
    (count, depth), experts = tokens.shape, scores.shape[1]
    hidden = second.shape[1]
    expected = {
        "logits": (scores, (count, experts)),
        "w1": (first, (experts, depth, 2 * hidden)),
        "w2": (second, (experts, hidden, depth)),
    }
    for name, (found, shape) in expected.items():
        if found.shape != shape:
            raise DSLValueError(f"{op}: {name} has the shape {list(shape)}, as x, logits and w2 tell, got {found}")
    for name, found in (("w1", first), ("w2", second)):
        if found.dtype != tokens.dtype:
            raise DSLTypeError(f"{op}: {name} is {tokens.dtype} as x, got {found.dtype}")
    k, normed = whole(op, "k", k), flag(op, "normed", normed)
    if not 0 < k <= experts:
        raise DSLValueError(f"{op}: k is 1 to {experts} experts of a token, got {k}")
    choice(op, "activation", activation, ACTIVATIONS)
    same_place(op, {"x": tokens, "logits": scores, "w1": first, "w2": second})
    weights, chosen = gate(logits, k, normed=normed, stream=stream)
    order, places, ends = sort_tokens(chosen, experts, stream=stream)
    rows = permute_tokens(x, order, k, stream=stream)
    both = grouped_matmul(rows, w1, ends, stream=stream)
    inside = gated(both[:, :hidden], both[:, hidden:], activation=activation, stream=stream)
    return unpermute_tokens(grouped_matmul(inside, w2, ends, stream=stream), places, weights, out=out, stream=stream)


__all__ = ["moe"]
