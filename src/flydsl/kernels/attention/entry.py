"""`attention`: one function for numpy and torch arrays, on every stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import EllipsisType
from typing import Any, NamedTuple, Protocol, cast

from ..matmul.arrays import (
    Array,
    HostArray,
    TorchArray,
    address,
    array_key,
    empty,
    environment_key,
    packed,
)
from ..matmul.entry import target_of
from ..matmul.request import check_apart
from ..repeats import again, forget_calls, fresh_as, remember_call, repeated
from ..scalars import flag
from .calls import Given, Run, decide
from .dropout import numbers_of
from .lengths import longest
from .request import Request, check, described, fail, number, window_of, wrong_type

_decided: dict[object, Decision] = {}
_MOST = 4096
_NAME = "attention"
_READ = (
    "q", "k", "v", "bias", "alibi", "sinks", "cu_seqlens_q", "cu_seqlens_k", "block_table", "seqlens_k",
    *("descale",) * 3,
)  # fmt: skip
"""What is read: `out` must be apart from it."""


def attention(
    q: HostArray,
    k: HostArray,
    v: HostArray,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    bias: HostArray | None = None,
    alibi: HostArray | None = None,
    cu_seqlens_q: HostArray | None = None,
    cu_seqlens_k: HostArray | None = None,
    block_table: HostArray | None = None,
    seqlens_k: HostArray | None = None,
    sinks: HostArray | None = None,
    descale: tuple[HostArray | None, HostArray | None, HostArray | None] | None = None,
    out: HostArray | None = None,
    return_lse: bool = False,
    dropout: float = 0.0,
    seed: int | None = None,
    stream: object = None,
) -> Any:
    """`softmax(q k^T * scale) v`, for each head, in `out` or in a fresh array.

    `q` is (batch, queries, heads, d), `k` (batch, keys, kv heads, d) and `v` (batch, keys, kv heads, dv), with any
    strides: an array that lies as (batch, heads, rows, d) is passed with its axes exchanged. The heads of `q` are a
    multiple of those of `k` and `v`. Types are float16, bfloat16, float32 and fp8, whose values `descale` multiplies.

    A query's place is counted from the last key: with `causal` the last query sees all keys, the one before it all but
    one. `window` is how many keys to its left and right a query sees, None or -1 for all. `softcap` bounds scores by
    tanh, `bias` is added to them, `alibi` has a slope for each head, `sinks` a score for each head that has no value.

    With `cu_seqlens_q` or `cu_seqlens_k` sequences lie one behind the other, (rows, heads, d), and start there. With
    `block_table` the keys of a sequence are in the pages of its row, `k` and `v` being (pages, keys, kv heads, d).
    `seqlens_k` is how many keys there are of each sequence.

    `dropout` is the share of weights that are dropped, by `seed`; the others grow in its place.

    With `return_lse` the logarithm of the sum of exponentials comes too, (batch, heads, queries) or (heads, rows). A
    query that sees nothing gives 0 and minus infinity, and so do rows behind the last packed sequence.

    >>> q = np.zeros((1, 2, 1, 8), "f4")
    >>> v = np.arange(16, dtype="f4").reshape(1, 2, 1, 8)
    >>> attention(q, v * 0, v, causal=True)[0, :, 0, 1]
    array([1., 5.], dtype=float32)
    """
    factors = _descale(descale)
    drop = numbers_of(dropout, seed)
    drops = drop[1] > 0
    left, right = window_of(window, causal)
    if type(return_lse) is not bool:
        return_lse = flag(_NAME, "return_lse", return_lse)
    scale = None if scale is None else number("scale", scale)
    softcap = None if softcap is None else number("softcap", softcap)
    arrays = q, k, v, bias, alibi, sinks, cu_seqlens_q, cu_seqlens_k, block_table, seqlens_k, *factors, out
    call_key = None
    if stream is None and not drops:
        constants = left, right, scale, softcap, return_lse
        made = again(_NAME, constants, *arrays)
        if made is not None:
            return made
        call_key, made = repeated(_NAME, constants, *arrays)
        if made is not None:
            return made
    key = *map(array_key, arrays), left, right, scale, softcap, drops, *environment_key()
    known = _decided.get(key)
    if known is None:
        request = check(
            _describe("q", q), _describe("k", k), _describe("v", v), causal, window, scale, softcap,
            _maybe("bias", bias), _maybe("alibi", alibi), _maybe("cu_seqlens_q", cu_seqlens_q),
            _maybe("cu_seqlens_k", cu_seqlens_k), _maybe("block_table", block_table), _maybe("seqlens_k", seqlens_k),
            _maybe("sinks", sinks), (_maybe("descale", factors[0]), _maybe("descale", factors[1]),
            _maybe("descale", factors[2])), drops,
        )  # fmt: skip
    else:
        request = known.request
    queries, keys, share, rows = longest(request, cu_seqlens_q, cu_seqlens_k, seqlens_k, block_table)
    given = out is not None
    if out is None:
        out = empty(q, request.shape, request.out_dtype, _NAME)
    if known is None:
        place = _describe("out", out)
        if given:
            _check_out(request, place)
        read = [_maybe(name, x) for name, x in zip(_READ, arrays[:-1], strict=True)]
        reaches = tuple(0 if x is None else x.reach for x in read)
        known = Decision(request, decide(request, place, target_of(request.q)), place.reach, reaches)
        if len(_decided) >= _MOST:
            _decided.clear()
        _decided[key] = known
    if given:
        check_apart(address(out), known.reach, zip(_READ, arrays[:-1], known.reaches, strict=True), _NAME)
    lse = empty(q, request.lse_shape, "float32", _NAME) if return_lse else None
    if 0 not in request.shape:
        if rows is not None:
            _clear(cast("Filled", out), cast("Filled | None", lse), rows)
        if 0 in request.k.shape:
            _fill(cast("Filled", out), cast("Filled | None", lse), sinks)
        else:
            small = [None if x is None else packed(x) for x in arrays[4:13]]
            slopes, ends, starts_q, starts_k, table, used, *by = small
            scales = by[0], by[1], by[2]
            known.run(
                Given(q, k, v, out, lse, bias, slopes, ends, starts_q, starts_k, used, table, scales, drop, share),
                queries, keys, stream,
            )  # fmt: skip
            if call_key is not None and all(x is y for x, y in zip(small, arrays[4:13], strict=True)):
                remember_call(call_key, _repeat(known, cast("TorchArray", q), return_lse))
    return (out, lse) if return_lse else out


def _repeat(known: Decision, q: TorchArray, return_lse: bool) -> Callable[..., Any]:
    """The same call of other tensors like these, of which nothing is asked any more but what may change: addresses
    that must be apart, and numbers in them."""
    request, run, reach, reaches = known
    torch = sys.modules["torch"]
    fresh = fresh_as(q, request.shape, getattr(torch, request.out_dtype))
    fresh_lse = fresh_as(q, request.lse_shape, torch.float32) if return_lse else None
    none, counted = numbers_of(0.0, None), request.packed_q or request.packed_k or request.used_k
    whole = longest(request, None, None, None, None)

    def call(
        q: Any, k: Any, v: Any, bias: Any, alibi: Any, sinks: Any, cu_q: Any, cu_k: Any, table: Any, used: Any,
        of_q: Any, of_k: Any, of_v: Any, out: Any,
    ) -> Any:  # fmt: skip
        queries, keys, share, rows = longest(request, cu_q, cu_k, used, table) if counted else whole
        if out is None:
            out = fresh()
        else:
            read = q, k, v, bias, alibi, sinks, cu_q, cu_k, table, used, of_q, of_k, of_v
            check_apart(out.data_ptr(), reach, zip(_READ, read, reaches, strict=True), _NAME)
        lse = None if fresh_lse is None else fresh_lse()
        if rows is not None:
            _clear(out, lse, rows)
        run(
            Given(q, k, v, out, lse, bias, alibi, sinks, cu_q, cu_k, used, table, (of_q, of_k, of_v), none, share),
            queries, keys, None,
        )  # fmt: skip
        return out if lse is None else (out, lse)

    return call


def forget() -> None:
    """Decide anew."""
    _decided.clear()
    forget_calls(_NAME)


class Decision(NamedTuple):
    """A checked request, how it runs, and the bytes its result and what it reads reach over."""

    request: Request
    run: Run
    reach: int
    reaches: tuple[int, ...]


class Filled(Protocol):
    """An array that is written as a whole."""

    def __setitem__(self, at: EllipsisType | slice | tuple[EllipsisType, slice], value: object, /) -> None: ...


def _clear(out: Filled, lse: Filled | None, rows: int) -> None:
    """Behind the last packed sequence there are rows of none, which attend to nothing."""
    out[rows:] = 0
    if lse is not None:
        lse[..., rows:] = float("-inf")


def _fill(out: Filled, lse: Filled | None, sinks: HostArray | None) -> None:
    """There are no keys at all."""
    out[...] = 0
    if lse is not None:
        lse[...] = float("-inf") if sinks is None else sinks.reshape(-1, 1)


def _describe(name: str, x: HostArray) -> Array:
    return described(name, x, _NAME)


def _maybe(name: str, x: HostArray | None) -> Array | None:
    return None if x is None else _describe(name, x)


def _descale(descale: object) -> tuple[HostArray | None, HostArray | None, HostArray | None]:
    if descale is None:
        return None, None, None
    if not isinstance(descale, (tuple, list)):
        raise wrong_type(f"descale is three factors (of q, of k, of v), got {type(descale).__name__}")
    if len(descale) != 3:  # pyright: ignore[reportUnknownArgumentType]
        raise fail(f"descale is three factors (of q, of k, of v), got {len(descale)}")  # pyright: ignore[reportUnknownArgumentType]
    return tuple(descale)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _check_out(request: Request, out: Array) -> None:
    if out.shape != request.shape:
        raise fail(f"out has the shape {list(request.shape)}, got {out}")
    if out.dtype != request.out_dtype:
        raise wrong_type(f"out is {request.out_dtype}, got {out.dtype}")
    if out.device != request.q.device:
        raise fail(f"q is on {request.q.device} and out on {out.device}")
    if 0 in out.shape:
        return
    reach = 1
    for stride, extent in sorted((s, e) for s, e in zip(out.strides, out.shape, strict=True) if e > 1):
        if stride < reach:
            raise fail(f"elements of out lie on top of each other, its strides are {out.strides}")
        reach += stride * (extent - 1)


__all__ = ["attention"]
