"""Rotary positions: pairs of elements of each head turned by an angle that grows with the position."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from ..repeats import fresh_like, relaunch, remember_call, repeated
from ..scalars import flag
from .arrays import (
    INDICES,
    Array,
    Given,
    HostArray,
    address,
    describe,
    is_torch,
    is_view,
    matrix,
    packed,
    same_place,
    shaped,
    vacant,
    vector,
)
from .call import arrays_only, check_apart, dtype_of, more_of
from .form import UNIT_BYTES
from .lines import pick, when, wide_of

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

THREADS = 128
TEAMS = (128, 64, 32, 16, 8)
"""Threads of a token, of which some may be idle in the last turn."""


T = TypeVar("T")


@flyc.jit
def _turns(first: fx.Int32, count: fx.Int32, step: int, work: object):
    for number in range(first, count, step):
        work(number)  # pyright: ignore[reportCallIssue, reportUnknownVariableType]


def _part(t: fx.Tensor, at: fx.Int32, unit: int) -> Value:
    """`unit` elements of a head from `at` on."""
    if unit == 1:
        return t[at]
    return _view(t, at, unit).load()


def _view(t: fx.Tensor, at: fx.Int32, unit: int) -> fx.Tensor:
    size = t.dtype.width // 8
    type_ = fx.PointerType.get(t.dtype.ir_type, fx.AddressSpace.Global, min(UNIT_BYTES, size * unit))
    start = fx.inttoptr(type_, fx.ptrtoint(fx.get_iter(t)) + fx.Int64(at) * size)
    return fx.make_view(start, fx.make_layout(unit, 1))


def _leave(t: fx.Tensor, at: fx.Int32, unit: int, value: Value) -> None:
    if unit == 1:
        t[at] = t.dtype(value)
    else:
        _view(t, at, unit).store(cast("fx.Vector", value).to(t.dtype))


def _pick(v: Value, first: int) -> Value:
    """Every other element of a vector."""
    made = cast("fx.Vector", v)
    return fx.Vector.from_elements([made[i] for i in range(first, made.numel, 2)], made.dtype)


def _mixed(a: Value, b: Value) -> Value:
    x, y = cast("fx.Vector", a), cast("fx.Vector", b)
    return fx.Vector.from_elements([v for i in range(x.numel) for v in (x[i], y[i])], x.dtype)


@flyc.kernel
def rope_kernel(
    q: fx.Tensor,
    k: fx.Tensor | None,
    cos: fx.Tensor,
    sin: fx.Tensor,
    positions: fx.Tensor | None,
    out_q: fx.Tensor,
    out_k: fx.Tensor | None,
    v: fx.Tensor | None,
    out_v: fx.Tensor | None,
    slots: fx.Tensor | None,
    tokens: fx.Int32,
    period: fx.Int32,
    places: fx.Int32,
    heads: fx.Int32,
    heads_k: fx.Int32,
    half: fx.Int32,
    sign: fx.Float32,
    pairs: fx.Constexpr[bool],
    unit: fx.Constexpr[int],
    team: fx.Constexpr[int],
):
    """A team of threads has a token: all heads of its q and k. `unit` pairs are turned at once."""
    wide = wide_of(q.dtype)
    row = fx.block_idx.x * (THREADS // team) + fx.thread_idx.x // team
    token = fx.min(row, tokens - 1)
    asked = fx.Int64(token % period if positions is None else positions[token])
    known = (asked >= 0) & (asked < fx.Int64(places))
    position = fx.Int32(known.select(asked, fx.Int64(0)))
    each = half // unit
    turn = wide(sign)

    def head_of(x: fx.Tensor, out: fx.Tensor, to: fx.Int32, head: fx.Int32, at: fx.Int32) -> None:
        source, into = x[token, head, None], out[to, head, None]
        c, s = (_part(t[position, None], at, unit).to(wide) for t in (cos, sin))
        # A position that has no angle gives no numbers.
        c, s = pick(known, c, float("nan")), s * turn
        if pairs:
            if unit == 1:
                a, b = wide(source[2 * at]), wide(source[2 * at + 1])
                into[2 * at], into[2 * at + 1] = out.dtype(a * c - b * s), out.dtype(b * c + a * s)
            else:
                both = _part(source, 2 * at, 2 * unit).to(wide)
                a, b = _pick(both, 0), _pick(both, 1)
                _leave(into, 2 * at, 2 * unit, _mixed(a * c - b * s, b * c + a * s))
        else:
            a, b = (_part(source, at + i * half, unit).to(wide) for i in range(2))
            _leave(into, at, unit, a * c - b * s)
            _leave(into, at + half, unit, b * c + a * s)

    def copied(head: fx.Int32, to: fx.Int32, at: fx.Int32) -> None:
        """The same elements of a value's head."""
        if v is not None and out_v is not None:
            for first in (2 * at, 2 * at + unit) if pairs else (at, at + half):
                part = _part(v[token, head, None], first, unit)
                _leave(out_v[to, head, None], first, unit, part)

    def kept(head: fx.Int32, at: fx.Int32) -> None:
        """A head of k where it belongs: at its token, or in the cache, if it has a place there."""
        if k is None or out_k is None:
            return
        if slots is None:
            head_of(k, out_k, token, head, at)
            return
        slot = fx.Int64(slots[token])

        def store() -> None:
            to = fx.Int32(slot)
            head_of(k, out_k, to, head, at)
            copied(head, to, at)

        when((slot >= 0) & (slot < fx.Int64(out_k.shape.unpack()[0])), store)

    def work(number: fx.Int32) -> None:
        head, at = number // each, number % each * unit
        when(head < heads, lambda: head_of(q, out_q, token, head, at))
        if k is not None:
            when(head >= heads, lambda: kept(head - heads, at))

    _turns(fx.thread_idx.x % team, (row < tokens).select((heads + heads_k) * each, fx.Int32(0)), team, work)


@flyc.jit
def rope_rows(
    q: fx.Tensor,
    k: fx.Tensor | None,
    cos: fx.Tensor,
    sin: fx.Tensor,
    positions: fx.Tensor | None,
    out_q: fx.Tensor,
    out_k: fx.Tensor | None,
    v: fx.Tensor | None,
    out_v: fx.Tensor | None,
    slots: fx.Tensor | None,
    tokens: fx.Int32,
    period: fx.Int32,
    places: fx.Int32,
    heads: fx.Int32,
    heads_k: fx.Int32,
    half: fx.Int32,
    sign: fx.Float32,
    pairs: fx.Constexpr[bool],
    unit: fx.Constexpr[int],
    team: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """q and k, each (tokens, heads, dim), turned by the angles of their positions, or of token % period.

    With `slots` those of k are left in `out_k` at these places, and v in `out_v`.
    """
    rope_kernel(
        q, k, cos, sin, positions, out_q, out_k, v, out_v, slots, tokens, period, places, heads, heads_k, half, sign,
        pairs, unit, team,
    ).launch(grid=fx.ceildiv(tokens, THREADS // team), block=THREADS, stream=stream)  # fmt: skip


def rope(
    q: HostArray,
    k: HostArray | None,
    cos: HostArray,
    sin: HostArray,
    *,
    positions: HostArray | None = None,
    interleaved: bool = False,
    inverse: bool = False,
    v: HostArray | None = None,
    cache: tuple[HostArray, HostArray] | None = None,
    slots: HostArray | None = None,
    stream: object = None,
) -> Given:
    """q and k with rotary positions: a pair of fresh arrays, or one if `k` is None.

    They are (..., sequence, heads, dim); `cos` and `sin` are (positions, dim / 2). `positions` has an integer for each
    token, and is the place in the sequence without it; a position beyond the tables gives NaN. Element i is paired with
    i + dim / 2, or (`interleaved`) 2 i with 2 i + 1. `inverse` turns back: the gradient of q is
    `rope(dq, ..., inverse=True)`.

    With `cache`, keys and values of (..., heads, dim) such as pages of rows, and `slots`, an integer for each token, k
    goes to that row of the keys and `v`, which has its shape, to that of the values, in the same launch; q alone is the
    result then. A slot that there is not, such as -1, is that of a token that is not kept.
    """
    op, key, given = "rope", None, (q, k, cos, sin, positions)
    if not type(interleaved) is type(inverse) is bool:
        interleaved, inverse = flag(op, "interleaved", interleaved), flag(op, "inverse", inverse)
    if stream is None and cache is None:
        key, known = repeated(op, (interleaved, inverse), *given)
        if known is not None:
            return known
    check_rope(op, q, k, cos, sin, positions, v, cache, slots)
    kept = _kept(op, q, k, v, cache, slots)
    outs = [None if x is None else vacant(x, tuple(x.shape), dtype_of(x)) for x in (q, k if kept is None else None)]
    if 0 not in q.shape:
        cos, sin = matrix(cos), matrix(sin)
        inputs = [None if x is None else _heads(x) for x in (q, k)]
        results = [None if x is None else _tokens(x) for x in outs]
        into = (results[1], None, None, None)
        if kept is not None:
            into = (kept.keys, _heads(kept.v), kept.values, vector(kept.slots))
        q3 = inputs[0]
        assert q3 is not None
        half = q.shape[-1] // 2
        unit = _unit(op, half, interleaved, [x for x in (*inputs, results[0], *into[:3], cos, sin) if x is not None])
        heads = q.shape[-2] + (0 if k is None else k.shape[-2])
        read = (q3, inputs[1], cos, sin, None if positions is None else vector(positions))
        rest = (
            q3.shape[0], q.shape[-3], cos.shape[0], q.shape[-2], 0 if k is None else k.shape[-2], half,
            -1.0 if inverse else 1.0, interleaved, unit, _team(heads * half // unit),
        )  # fmt: skip
        rope_rows(*read, results[0], *into, *rest, **more_of(stream))
        if key is not None and all(
            is_view(a, b) for a, b in zip(read, given, strict=True) if a is not None and b is not None
        ):
            _remember(key, given, read, rest)
    return outs[0] if outs[1] is None else tuple(outs)


class _Kept(NamedTuple):
    """Where keys and values go."""

    keys: HostArray
    values: HostArray
    v: HostArray
    slots: HostArray


def _kept(
    op: str,
    q: HostArray,
    k: HostArray | None,
    v: HostArray | None,
    cache: tuple[HostArray, HostArray] | None,
    slots: HostArray | None,
) -> _Kept | None:
    """The cache as rows of heads; None without one."""
    if cache is None or v is None or slots is None:
        return None
    rows: list[HostArray] = []
    for name, x in (("keys", cache[0]), ("values", cache[1])):
        flat = _tokens(x)
        if not (is_view(flat, x) and is_view(_heads(flat), flat)):
            each = describe(op, name, x)
            raise DSLValueError(f"{op}: {name} is written in place: rows follow each other in steps, got {each}")
        check_apart(op, name, x, q=q, k=k, v=v, slots=slots)
        rows.append(flat)
    # They may be halves of the same pages.
    if address(cache[0]) == address(cache[1]) and 0 not in cache[0].shape:
        raise DSLValueError(f"{op}: keys overlaps values; give it memory of its own")
    return _Kept(rows[0], rows[1], v, slots)


def check_rope(
    op: str,
    q: HostArray,
    k: HostArray | None,
    cos: HostArray,
    sin: HostArray,
    positions: HostArray | None,
    v: HostArray | None = None,
    cache: tuple[HostArray, HostArray] | None = None,
    slots: HostArray | None = None,
) -> None:
    """What is refused, by extents and types alone."""
    arrays_only(op, q=q, k=k, cos=cos, sin=sin, positions=positions)
    first = describe(op, "q", q)
    found = {"q": first, "k": None if k is None else describe(op, "k", k)}
    tables = {name: describe(op, name, t) for name, t in (("cos", cos), ("sin", sin))}
    _check(op, first, found["k"], tables["cos"], tables["sin"])
    places = None if positions is None else describe(op, "positions", positions, INDICES)
    same_place(op, {**found, **tables, "positions": places})
    if places is not None and places.shape != tuple(q.shape[:-2]):
        raise DSLValueError(f"{op}: positions has one for each token, {list(q.shape[:-2])}, got {places}")
    if places is None and q.shape[-3] > cos.shape[0]:
        raise DSLValueError(f"{op}: cos has a row for each of {q.shape[-3]} positions, got {tables['cos']}")
    _check_cache(op, q, k, v, cache, slots, {**found, **tables, "positions": places})


def cache_of(op: str, k: T | None, v: T | None, cache: tuple[T, T] | None, slots: T | None) -> tuple[T, T, T, T, T]:
    """k, v, the keys and values they go to, and slots: they come together."""
    if cache is None or v is None or slots is None or k is None:
        raise DSLValueError(
            f"{op}: k, v, cache and slots come together: cache=(keys, values), and a slot for each token"
        )
    if not isinstance(cache, (tuple, list)) or len(cache) != 2:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
        raise DSLTypeError(f"{op}: cache is the keys and the values, got {cache!r:.80}")
    return k, v, cache[0], cache[1], slots


def _check_cache(
    op: str,
    q: HostArray,
    k: HostArray | None,
    v: HostArray | None,
    cache: tuple[HostArray, HostArray] | None,
    slots: HostArray | None,
    others: Mapping[str, Array | None],
) -> None:
    """The same of where keys and values go."""
    if cache is None and v is None and slots is None:
        return
    k, v, keys, values, slots = cache_of(op, k, v, cache, slots)
    names = {"v": v, "slots": slots, "keys": keys, "values": values}
    arrays_only(op, **names)
    kind = dtype_of(k)
    found = {name: describe(op, name, x, INDICES if name == "slots" else (kind,)) for name, x in names.items()}
    same_place(op, {**others, **found})
    shaped(op, "v", found["v"], k.shape, "k")
    shaped(op, "slots", found["slots"], q.shape[:-2], "q")
    for name in ("keys", "values"):
        each = found[name]
        if len(each.shape) < 3 or each.shape[-2:] != tuple(k.shape[-2:]):
            raise DSLValueError(f"{op}: {name} is (..., rows, {k.shape[-2]}, {k.shape[-1]}) as k is, got {each}")


def _remember(key: object, given: tuple[Given, ...], read: tuple[Given, ...], rest: tuple[object, ...]) -> None:
    """The call as it is, for tensors like these."""
    q, k = given[:2]
    fresh_q, shape_q = fresh_like(q), read[0].shape
    fresh_k, shape_k = (None, None) if k is None else (fresh_like(k), read[1].shape)

    def arrange(
        q: Given, k: Given, cos: Given, sin: Given, positions: Given, out_q: Given, out_k: Given
    ) -> tuple[object, ...]:
        to_k = (None, None) if k is None else (k.view(shape_k), out_k.view(shape_k))
        places = None if positions is None else positions.view(-1)
        return (q.view(shape_q), to_k[0], cos, sin, places, out_q.view(shape_q), to_k[1], None, None, None, *rest)

    rows = relaunch(rope_rows, arrange, range(7), fresh=2)

    def call(q: Given, k: Given, cos: Given, sin: Given, positions: Given) -> Given:
        out_q, out_k = fresh_q(q), None if fresh_k is None else fresh_k(k)
        if not rows.now(q, k, cos, sin, positions, out_q, out_k):
            return None
        return out_q if fresh_k is None else (out_q, out_k)

    remember_call(key, call)


def _team(count: int) -> int:
    """The threads that so many turns of a token keep busiest; of equal ones the most."""
    return max(TEAMS, key=lambda team: (count / (-(-count // team) * team), team))


def _tokens(x: Given) -> Given:
    """As (tokens, heads, dim), where there may be none of each."""
    return x.reshape(prod(x.shape[:-2]), *x.shape[-2:])


def _heads(x: HostArray) -> HostArray:
    """As (tokens, heads, dim), with heads in one piece."""
    x = _tokens(x)
    last = x.stride()[-1] if is_torch(x) else x.strides[-1] // x.itemsize
    return x if last == 1 else packed(x)


def _check(op: str, q: Array, k: Array | None, cos: Array, sin: Array) -> None:
    for name, x in (("q", q), ("k", k)):
        if x is not None and (len(x.shape) < 3 or x.shape[-1] % 2):
            raise DSLValueError(f"{op}: {name} is (..., sequence, heads, dim) with an even dim, got {x}")
    if k is not None and (k.shape[:-2] != q.shape[:-2] or k.shape[-1] != q.shape[-1]):
        raise DSLValueError(f"{op}: q and k differ in their heads only, got {q} and {k}")
    for name, x in (("cos", cos), ("sin", sin)):
        if len(x.shape) != 2 or x.shape[1] != q.shape[-1] // 2 or x.shape != cos.shape:
            raise DSLValueError(f"{op}: {name} is (positions, {q.shape[-1] // 2}), got {x}")


def _unit(op: str, half: int, pairs: bool, arrays: list[HostArray]) -> int:
    """Pairs turned at once: as many as every array has in aligned units."""
    from .call import ALL

    found = [describe(op, "x", x, ALL) for x in arrays]
    unit = UNIT_BYTES // found[0].itemsize // (2 if pairs else 1)
    while unit > 1 and (half % unit or not all(_in_units(x, unit, pairs) for x in found)):
        unit //= 2
    return unit


def _in_units(x: Array, unit: int, pairs: bool) -> bool:
    """Whether accesses to an array of heads, or to a table, are aligned."""
    elements = unit * (2 if pairs and len(x.shape) == 3 else 1)
    size = min(UNIT_BYTES, elements * x.itemsize)
    steps = [s for s, e in zip(x.strides[:-1], x.shape[:-1], strict=True) if e > 1]
    return x.strides[-1] == 1 and x.address % size == 0 and all(s * x.itemsize % size == 0 for s in steps)


__all__ = ["cache_of", "check_rope", "rope"]
