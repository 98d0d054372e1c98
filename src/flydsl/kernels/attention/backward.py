"""`attention_backward`: the gradients of `attention`."""

from __future__ import annotations

from typing import Any

from ..matmul.arrays import Array, HostArray, describe, empty, in_line
from ..matmul.workspace import scratch
from .calls import strides_of
from .request import FP8, Request, check, fail, wrong_type


def attention_backward(
    grad: HostArray,
    q: HostArray,
    k: HostArray,
    v: HostArray,
    out: HostArray,
    lse: HostArray,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    stream: object = None,
) -> tuple[Any, Any, Any]:
    """Gradients with respect to `q`, `k` and `v`, from that of the result, the result and `return_lse`'s logarithms.

    Sequences have one length; sums are always made in the same order. Gradients have the types of what they are of.

    >>> q = np.zeros((1, 1, 1, 8), "f4")
    >>> v = np.arange(16, dtype="f4").reshape(1, 2, 1, 8)
    >>> out, lse = attention(q, v, v, return_lse=True)
    >>> attention_backward(np.ones_like(out), q, v, v, out, lse)[2][0, :, 0, 0]
    array([0.5, 0.5], dtype=float32)
    """
    named = {"q": q, "k": k, "v": v, "grad": grad, "out": out, "lse": lse}
    known = {name: describe(name, x, "attention_backward") for name, x in named.items()}
    request = check(
        known["q"], known["k"], known["v"], causal, window, scale, softcap, *(None,) * 7, (None, None, None)
    )  # fmt: skip
    _check(request, known)
    dq, dk, dv = (empty(q, x.shape, x.dtype, "attention_backward") for x in (request.q, request.k, request.v))
    if 0 in request.shape or 0 in request.k.shape:
        for x in (dq, dk, dv):
            x[...] = 0  # pyright: ignore[reportIndexIssue]
        return dq, dk, dv
    from .plain_backward import Kind, plain_backward

    kind = Kind(
        request.d, request.dv, request.left is not None, request.right is not None, request.softcap != 0, False
    )  # fmt: skip
    delta = scratch(q, "attention delta", request.batches * request.heads * request.queries, "float32", stream)
    steps = [s for name in ("q", "k", "v", "out", "grad") for s in strides_of(known[name], False)]
    more = () if stream is None else (stream,)
    plain_backward(
        *map(in_line, (q, k, v, out, grad, lse)), delta, dq, dk, dv, request.batches, request.queries, request.keys,
        request.heads, request.kv_heads, *steps, request.left or 0, request.right or 0, request.scale, request.softcap,
        kind, *more,
    )  # fmt: skip
    return dq, dk, dv


def _check(request: Request, known: dict[str, Array]) -> None:
    if request.q.dtype in FP8 or request.k.dtype in FP8:
        raise wrong_type(f"there are no gradients of fp8, got {request.q.dtype} and {request.k.dtype}")
    for name in ("grad", "out"):
        x = known[name]
        if x.shape != request.shape or x.dtype != request.q.dtype:
            raise fail(f"{name} is {request.q.dtype}{list(request.shape)}, as the result is, got {x}")
    lse = known["lse"]
    if lse.shape != request.lse_shape or lse.dtype != "float32":
        raise fail(f"lse is float32{list(request.lse_shape)}, got {lse}")
    strides = (request.heads * request.queries, request.queries, 1)
    if any(e > 1 and s != w for s, w, e in zip(lse.strides, strides, lse.shape, strict=True)):
        raise fail(f"lse is contiguous, got the strides {lse.strides}")
    for name, x in known.items():
        if x.device != request.q.device:
            raise fail(f"q is on {request.q.device} and {name} on {x.device}")


__all__ = ["attention_backward"]
