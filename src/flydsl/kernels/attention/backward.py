"""`attention_backward`: the gradients of `attention`."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from ..grids import fit as fit_a_grid
from ..matmul.arrays import Array, HostArray, empty, in_line, is_torch, line
from ..matmul.arrays import packed as one_piece
from ..matmul.entry import target_of
from ..matmul.workspace import scratch
from .calls import Launch, batch_of_slopes, engine_strides, engine_takes, steps_of_bias, strides_of
from .dropout import numbers_of
from .entry import Filled
from .lengths import longest
from .request import FP8, HALF, Request, check, described, fail, wrong_type
from .tile import SHARED_BYTES

if TYPE_CHECKING:
    from .backward_steps import Sides
    from .wide.form import Wide


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
    bias: HostArray | None = None,
    alibi: HostArray | None = None,
    cu_seqlens_q: HostArray | None = None,
    cu_seqlens_k: HostArray | None = None,
    sinks: HostArray | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    deterministic: bool = False,
    stream: object = None,
) -> tuple[Any, Any, Any]:
    """Gradients with respect to `q`, `k` and `v`, from that of the result, the result and `return_lse`'s logarithms.

    All other arguments are those of `attention`, dropout's seed among them; those of a bias, of slopes and of sinks
    themselves are not computed. Gradients have the types of what they are of. Sums are made in the same order every
    time, but for those of `q` on Hopper, where blocks add theirs as they come unless `deterministic` is asked for.

    >>> from flydsl.kernels import attention
    >>> q = np.zeros((1, 1, 1, 8), "f4")
    >>> v = np.arange(16, dtype="f4").reshape(1, 2, 1, 8)
    >>> out, lse = attention(q, v, v, return_lse=True)
    >>> attention_backward(np.ones_like(out), q, v, v, out, lse)[2][0, :, 0, 0]
    array([0.5, 0.5], dtype=float32)
    """
    named = {"q": q, "k": k, "v": v, "grad": grad, "out": out, "lse": lse}
    known = {name: described(name, x, "attention_backward") for name, x in named.items()}
    drop = numbers_of(dropout, seed)
    request = check(
        known["q"], known["k"], known["v"], causal, window, scale, softcap, _maybe("bias", bias),
        _maybe("alibi", alibi), _maybe("cu_seqlens_q", cu_seqlens_q), _maybe("cu_seqlens_k", cu_seqlens_k),
        sinks=_maybe("sinks", sinks), dropout=drop[1] > 0,
    )  # fmt: skip
    _check(request, known)
    queries, keys, *_ = longest(request, cu_seqlens_q, cu_seqlens_k, None, None)
    dq, dk, dv = (empty(q, x.shape, x.dtype, "attention_backward") for x in (request.q, request.k, request.v))
    empties = 0 in request.shape or 0 in request.k.shape
    if empties or request.packed_q or request.packed_k:
        # Behind the last sequence there may be rows of none.
        for x in (dq, dk, dv):
            cast("Filled", x)[...] = 0
    if empties:
        return dq, dk, dv
    more = () if stream is None else (stream,)
    packed = dict.fromkeys(("q", "out", "grad"), request.packed_q) | dict.fromkeys(("k", "v"), request.packed_k)
    narrow = _on_hopper(request, known)
    on_hopper = target_of(request.q).hopper and fit_a_grid(request.batches, request.heads)
    if on_hopper and (narrow or _on_hopper_wide(request, known)):
        sides_of = request.right is not None, request.left is not None, deterministic, engine_takes(known["out"])
        packs_and_cap = request.packed_q, request.packed_k, request.softcap != 0
        if narrow:
            from .hopper_backward import hopper_backward as launch

            processors = target_of(request.q).processors
            many = -(-request.keys // 128) * request.kv_heads * request.batches > processors
            form = form_for(request.d, request.dv, *sides_of, request.dropout, *packs_and_cap, many)
            beside = (processors,)
        else:
            from .wide.hopper import hopper_backward_wide as launch

            beside = ()
            form = wide_form_for(request.d, request.dv, *sides_of, request.dropout, *packs_and_cap, keys > 64)
        packs = request.packed_q
        tiles = request.queries // form.m + request.batches if packs else -(-request.queries // form.m)
        long, rows_q, rows_k = tiles * form.m, request.queries, request.keys
        batches_q, batches_k = (1 if packed else request.batches for packed in (packs, request.packed_k))
        lines = batches_q * request.heads
        sums = line(q, lines * long * form.sums.room, "float32", "attention_backward")
        turns = _zeros(q, (lines * tiles * 2,)) if form.ordered else None
        sides = scratch(q, "attention sides", lines * 2 * long, "float32", stream)
        steps = [s for name in ("q", "k", "v", "out", "grad") for s in engine_strides(known[name], packed[name])]
        cast("Launch", launch)(
            q, k, v, out, grad, lse, sides, sums, turns, dq, dk, dv,
            *(None if x is None else one_piece(x) for x in (cu_seqlens_q, cu_seqlens_k)), rows_q, rows_k, batches_q,
            batches_k, request.batches, queries, keys, request.heads, request.kv_heads, *steps, request.right or 0,
            request.left or 0, request.scale, request.softcap, *drop, *beside, form, *more,
        )  # fmt: skip
        return dq, dk, dv
    from .plain_backward import Kind, plain_backward

    kind = Kind(
        request.d, request.dv, request.left is not None, request.right is not None, request.softcap != 0,
        request.dropout, False,
    )  # fmt: skip
    lines = request.heads * request.queries * (1 if request.packed_q else request.batches)
    delta = scratch(q, "attention delta", lines, "float32", stream)
    steps = [s for name in ("q", "k", "v", "out", "grad") for s in strides_of(known[name], packed[name])]
    cast("Launch", plain_backward)(
        *map(in_line, (q, k, v, out, grad, lse)), delta, dq, dk, dv, None if bias is None else in_line(bias),
        *(None if x is None else one_piece(x) for x in (alibi, cu_seqlens_q, cu_seqlens_k)), request.batches, queries,
        keys, request.queries, request.keys, request.heads, request.kv_heads, batch_of_slopes(request), *steps,
        *steps_of_bias(request), request.left or 0, request.right or 0, request.scale, request.softcap, *drop,
        _same(kind), *more,
    )  # fmt: skip
    return dq, dk, dv


_constants: dict[tuple[object, ...], tuple[object, ...]] = {}


def _same(x: tuple[object, ...]) -> tuple[object, ...]:
    """The first of equal constants: calls with the very same one are served warm."""
    return _constants.setdefault((x.__class__, *x), x)


@lru_cache(64)
def form_for(
    d: int,
    dv: int,
    right: bool,
    left: bool,
    ordered: bool,
    wide: bool,
    dropout: bool,
    packed_q: bool,
    packed_k: bool,
    softcap: bool,
    many: bool,
) -> Sides:
    """Queries of a step: as many as there are registers for, and of such a step three stages if there is room.

    Blocks stay where tiles are equal and `many`, more than there are multiprocessors, and no block waits for another:
    one that has not started may be waited for in vain. Steps of 128 queries have not gained by either.
    """
    from .backward_steps import Sides

    m = 128 if max(d, dv) <= 64 and not dropout and not softcap else 64
    once = Sides(
        d, right, left, m, ordered, wide, dropout, packed_q=packed_q, packed_k=packed_k, values=dv, softcap=softcap
    )  # fmt: skip
    if m == 128:
        return once
    if many and not (right or left or ordered or packed_q or packed_k):
        once = once._replace(stays=True)
    deeper = once._replace(stages=3)
    return deeper if deeper.smem <= SHARED_BYTES else once


@lru_cache(64)
def wide_form_for(
    d: int,
    dv: int,
    right: bool,
    left: bool,
    ordered: bool,
    wide: bool,
    dropout: bool,
    packed_q: bool,
    packed_k: bool,
    softcap: bool,
    several: bool,
) -> Wide:
    """Blocks that wait for each other's sums do not wait for each other's queries, too."""
    from .wide.form import CLUSTER, Wide

    cluster = CLUSTER if several and not ordered else 1
    return Wide(
        d, dv, right, left, ordered, wide, dropout, cluster, packed_q=packed_q, packed_k=packed_k, softcap=softcap
    ).in_order()  # fmt: skip


def _on_hopper_wide(request: Request, known: dict[str, Array]) -> bool:
    """Whether the tensor cores' kernel of long rows takes it: 16-bit types, up to 256 elements, more than 128 of keys
    or of values, rows of 16-byte units."""
    r = request
    if r.q.dtype not in HALF or r.d % 8 or r.dv % 8 or not 128 < max(r.d, r.dv) <= 256:
        return False
    if r.softcap and not 1e-8 <= r.softcap <= 1e8:
        return False
    if r.bias is not None or r.alibi is not None:
        return False
    takes = all(engine_takes(known[name]) for name in ("q", "k", "v", "grad"))
    return takes and known["out"].strides[-1] == 1 and 1e-8 <= r.scale <= 1e8


def _on_hopper(request: Request, known: dict[str, Array]) -> bool:
    """Whether the tensor cores' kernel takes it: 16-bit types, up to 128 elements, rows of 16-byte units."""
    sizes = request.d, request.dv
    if request.q.dtype not in HALF or max(sizes) > 128 or any(x % 16 for x in sizes):
        return False
    if request.softcap and not 1e-8 <= request.softcap <= 1e8:
        return False
    if request.bias is not None or request.alibi is not None:
        return False
    takes = all(engine_takes(known[name]) for name in ("q", "k", "v", "grad"))
    return takes and known["out"].strides[-1] == 1 and 1e-8 <= request.scale <= 1e8


def _maybe(name: str, x: HostArray | None) -> Array | None:
    return None if x is None else described(name, x, "attention_backward")


def _zeros(like: HostArray, shape: tuple[int, ...]) -> HostArray:
    if is_torch(like):
        torch = sys.modules["torch"]
        return cast("HostArray", torch.zeros(shape, dtype=torch.int32, device=like.device))
    import numpy as np

    return np.zeros(shape, np.int32)


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
    strides = (request.heads * request.queries, request.queries, 1)[-len(lse.shape) :]
    if 0 not in lse.shape and any(e > 1 and s != w for s, w, e in zip(lse.strides, strides, lse.shape, strict=True)):
        raise fail(f"lse is contiguous, got the strides {lse.strides}")
    for name, x in known.items():
        if x.device != request.q.device:
            raise fail(f"q is on {request.q.device} and {name} on {x.device}")


__all__ = ["attention_backward"]
