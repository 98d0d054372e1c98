"""Tokens to the rows of their experts, and the experts' results back to their tokens, weighted."""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError

from ..matmul.request import check_apart
from ..rows.arrays import Array, Given, HostArray, describe, matrix, packed, same_place, vacant
from ..rows.call import more_of
from ..scalars import whole

THREADS = 128


@flyc.kernel
def permute_kernel(
    x: fx.Pointer,
    order: fx.Pointer,
    out: fx.Pointer,
    k: fx.Int32,
    columns: fx.Int32,
    step: fx.Int64,
    each: fx.Constexpr[int],
):
    row = fx.block_idx.x
    choice = order[row]
    source, target = x + fx.Int64(fx.max(choice, 0) // k) * step, out + fx.Int64(row) * columns
    for at in range(fx.thread_idx.x * each, columns, THREADS * each):
        values = some_at(source + at, each)
        # A row that is left over has no token.
        put_some(target + at, cleared(values, choice < 0))


@flyc.kernel
def unpermute_kernel(
    y: fx.Pointer,
    places: fx.Pointer,
    weights: fx.Pointer | None,
    out: fx.Pointer,
    rows: fx.Int32,
    k: fx.Int32,
    columns: fx.Int32,
    step: fx.Int64,
    step_out: fx.Int64,
    each: fx.Constexpr[int],
):
    token = fx.block_idx.x
    target = out + fx.Int64(token) * step_out
    for at in range(fx.thread_idx.x * each, columns, THREADS * each):
        total = fx.make_rmem_tensor(fx.make_layout(each, 1), fx.Float32)
        total.fill(0.0)
        for j in range(k):
            place = places[token * k + j]
            if (place >= 0) & (place < rows):
                weight = fx.Float32(1.0)
                if fx.const_expr(weights is not None):
                    weight = cast("fx.Pointer", weights)[token * k + j]
                values = some_at(y + (fx.Int64(place) * step + at), each)
                for i in fx.range_constexpr(each):
                    total[i] = total[i] + element_of(values, i) * weight
        if fx.const_expr(each == 1):
            target[at] = out.dtype(total[0])
        else:
            put_some(target + at, total.load().to(out.dtype))


def some_at(place: fx.Pointer, each: int) -> fx.Vector | fx.Numeric:
    """Elements that lie together, as many as 16 bytes have."""
    if each == 1:
        return place[0]
    layout = fx.make_layout(each, 1)
    held = fx.make_rmem_tensor(layout, place.dtype)
    fx.copy_atom_call(fx.make_copy_atom(fx.UniversalCopy128b(), place.dtype), fx.make_view(place, layout), held)
    return held.load()


def element_of(values: fx.Vector | fx.Numeric, i: int) -> fx.Float32:
    return fx.Float32(values[i] if isinstance(values, fx.Vector) else values)


def put_some(place: fx.Pointer, values: fx.Vector | fx.Numeric) -> None:
    if not isinstance(values, fx.Vector):
        place[0] = values
        return
    layout = fx.make_layout(values.numel, 1)
    held = fx.make_rmem_tensor(layout, place.dtype)
    held.store(values)
    fx.copy_atom_call(fx.make_copy_atom(fx.UniversalCopy128b(), place.dtype), held, fx.make_view(place, layout))


def cleared(values: fx.Vector | fx.Numeric, when: fx.Boolean) -> fx.Vector | fx.Numeric:
    """Zeros, whatever the values are."""
    if not isinstance(values, fx.Vector):
        return cast("fx.Numeric", when.select(type(values)(0.0), values))
    bits = values.bitcast(fx.Int32)
    zero = fx.Vector.filled(bits.numel, 0, fx.Int32)
    return cast("fx.Vector", when.select(zero, bits)).bitcast(values.dtype)


@flyc.jit
def permute_rows(
    x: fx.Tensor,
    order: fx.Tensor,
    out: fx.Tensor,
    rows: fx.Int32,
    k: fx.Int32,
    columns: fx.Int32,
    step: fx.Int64,
    each: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """out[r] = x[order[r] // k], `each` elements at a time."""
    permute_kernel(fx.get_iter(x), fx.get_iter(order), fx.get_iter(out), k, columns, step, each).launch(
        grid=rows, block=THREADS, stream=stream
    )


@flyc.jit
def unpermute_rows(
    y: fx.Tensor,
    places: fx.Tensor,
    weights: fx.Tensor | None,
    out: fx.Tensor,
    tokens: fx.Int32,
    rows: fx.Int32,
    k: fx.Int32,
    columns: fx.Int32,
    step: fx.Int64,
    step_out: fx.Int64,
    each: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """out[t] = the sum of weights[t, j] y[places[t, j]] in the order of j, `each` elements at a time."""
    factors = None if weights is None else fx.get_iter(weights)
    unpermute_kernel(
        fx.get_iter(y), fx.get_iter(places), factors, fx.get_iter(out), rows, k, columns, step, step_out, each
    ).launch(grid=tokens, block=THREADS, stream=stream)


def together(*arrays: Array) -> int:
    """Elements that all rows can be moved in: what 16 bytes have, or one."""
    unit = 16 // arrays[0].itemsize
    fits = all(
        x.address % 16 == 0 and x.shape[1] % unit == 0 and (x.shape[0] < 2 or x.strides[0] % unit == 0) for x in arrays
    )
    return unit if fits else 1


def permute_tokens(x: HostArray, order: HostArray, k: int, *, stream: object = None) -> Given:
    """Rows of tokens as `sort_tokens` has ordered them: row r is that of token `order[r] // k`, or 0.

    >>> permute_tokens(np.array([[1.0], [2.0]], "f4"), np.array([1, 0, 3, 2], "i4"), 2).ravel()
    array([1., 1., 2., 2.], dtype=float32)
    """
    op = "permute_tokens"
    given, numbers = describe(op, "x", x), describe(op, "order", order, ("int32",))
    if len(given.shape) != 2 or len(numbers.shape) != 1:
        raise DSLValueError(f"{op}: x is (tokens, columns) and order (rows), got {given} and {numbers}")
    k = whole(op, "k", k)
    if k < 1 or numbers.shape[0] != given.shape[0] * k:
        raise DSLValueError(f"{op}: {given.shape[0]} tokens with k = {k} experts have so many rows, got {numbers}")
    same_place(op, {"x": given, "order": numbers})
    rows, columns = numbers.shape[0], given.shape[1]
    out: Given = vacant(x, (rows, columns), given.dtype)
    if rows and columns:
        source, target = matrix(x), describe(op, "out", out)
        lies = describe(op, "x", source)
        permute_rows(
            source, packed(order), out, rows, k, columns, lies.strides[0], together(lies, target), **more_of(stream)
        )
    return out


def unpermute_tokens(
    y: HostArray,
    places: HostArray,
    weights: HostArray | None = None,
    *,
    out: HostArray | None = None,
    stream: object = None,
) -> Given:
    """The rows of each token's experts, weighted and added up in f32: `sum(weights[t, j] * y[places[t, j]])`.

    `places` is (tokens, k) of int32, as `sort_tokens` gives them; what has none, -1, counts for nothing. `weights` is
    float32 of the same shape, or 1.

    >>> y, places = np.array([[1.0], [2.0], [4.0]], "f4"), np.array([[0, 2], [1, -1]], "i4")
    >>> unpermute_tokens(y, places, np.array([[1.0, 0.5], [3.0, 1.0]], "f4")).ravel()
    array([3., 6.], dtype=float32)
    """
    op = "unpermute_tokens"
    given, numbers = describe(op, "y", y), describe(op, "places", places, ("int32",))
    if len(given.shape) != 2 or len(numbers.shape) != 2:
        raise DSLValueError(f"{op}: y is (rows, columns) and places (tokens, k), got {given} and {numbers}")
    factors = None if weights is None else describe(op, "weights", weights, ("float32",))
    if factors is not None and factors.shape != numbers.shape:
        raise DSLValueError(f"{op}: weights has the shape of places, {list(numbers.shape)}, got {factors}")
    (rows, columns), (tokens, k) = given.shape, numbers.shape
    if out is None:
        out = vacant(y, (tokens, columns), given.dtype)
    made = describe(op, "out", out)
    if (made.shape, made.dtype) != ((tokens, columns), given.dtype):
        raise DSLValueError(f"{op}: out is {given.dtype}[{tokens}, {columns}], got {made}")
    if tokens and columns > 1 and made.strides[1] != 1:
        raise DSLValueError(f"{op}: rows of out lie in one piece, its strides are {made.strides}")
    if tokens > 1 and made.strides[0] < columns:
        raise DSLValueError(f"{op}: elements of out lie on top of each other, its strides are {made.strides}")
    same_place(op, {"y": given, "places": numbers, "weights": factors, "out": made})
    read = [("y", y, given.reach), ("places", places, numbers.reach)]
    if weights is not None and factors is not None:
        read.append(("weights", weights, factors.reach))
    check_apart(made.address, made.reach, read, op)
    if tokens and columns:
        source = matrix(y)
        lies = describe(op, "y", source)
        unpermute_rows(
            source, packed(places), None if weights is None else packed(weights), out, tokens, rows, k, columns,
            lies.strides[0] if rows else 0, made.strides[0], together(lies, made), **more_of(stream),
        )  # fmt: skip
    return out


__all__ = ["permute_tokens", "unpermute_tokens"]
