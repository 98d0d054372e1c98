"""Dimensions in front of matrices: where one `b` serves all of `a` they are rows, where strides allow they are one
batch, and else the product goes launch by launch over those that cannot be one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from .amd.weights import PreshuffledWeight, as_matrix
from .arrays import Array, HostArray, address, describe, empty, strided
from .request import BLOCK, RESULTS, check_apart, check_factors, check_placed, result_type

Given: TypeAlias = "HostArray | None"
Right: TypeAlias = "HostArray | PreshuffledWeight[HostArray]"
Product: TypeAlias = "Callable[[Any, Any, Any, Any, Any, Any, Any], Any]"
"""Of a, b, out, bias, scale_a, scale_b and scale_out."""


def by_batches(
    matmul: Product, a: HostArray, b: Right, out: Given, more: Mapping[str, Given], out_dtype: object
) -> Product | None:
    """The product of arrays like these by `matmul` of two dimensions or one batch; None if that takes them as they
    are, or refuses them. `more` are the arrays behind `out`, by name."""
    first = describe("a", a)
    second = as_matrix(b) if isinstance(b, PreshuffledWeight) else describe("b", b)
    if min(len(first.shape), len(second.shape)) < 2:
        return None
    placed = None if out is None else describe("out", out)
    others = {name: None if x is None else describe(name, x) for name, x in more.items()}
    front = check_factors(first, second, others["bias"], RESULTS)
    rows = as_rows(first, second, placed, others["scale_a"])
    if rows is not None:
        return _rows_of(matmul, rows, first, second)
    own = [x.shape[:-2] or front for x in (first, second)]
    if isinstance(b, PreshuffledWeight) or (len(front) < 2 and own == [front, front]):
        return None
    shape = (*front, first.shape[-2], second.shape[-1])
    if placed is None:
        placed = Array(shape, _packed(shape), result_type(first.dtype, out_dtype), first.device, 0)
    check_placed(placed, shape, placed.dtype, first.device)
    reaches = {"a": first.reach, "b": second.reach, **{k: 0 if x is None else x.reach for k, x in others.items()}}
    return _batches_of(matmul, first, second, placed, front, reaches)


# --- rows -------------------------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """All rows of a, and of the result, as those of one matrix."""

    total: int
    step_a: int
    step_out: int | None
    """None: a fresh array."""
    shape: tuple[int, ...]
    """Of the result."""
    scales: int | None
    """Values of scale_a for a row, where each row has its own."""


def as_rows(a: Array, b: Array, out: Array | None, scale: Array | None) -> Rows | None:
    """Where one matrix b is multiplied by all: a's rows, whose steps are one, as the result's are."""
    front = a.shape[:-2]
    if not front or any(n != 1 for n in b.shape[:-2]) or len(b.shape) > len(a.shape):
        return None
    *extents, k = a.shape
    shape = (*extents, b.shape[-1])
    merged = _merged(tuple(extents), a.strides[:-1])
    placed = None if out is None else _merged(tuple(extents), out.strides[:-1]) if out.shape == shape else ()
    if len(merged) != 1 or (placed is not None and len(placed) != 1):
        return None
    scales = None
    if scale is not None and any(n != 1 for n in scale.shape):
        # Values for the rows of one matrix are those of each; values for all rows have the dimensions of a.
        whole = scale.shape[: len(extents)] == tuple(extents)
        if whole and scale.shape[len(extents) :] in ((), (1,), (k // BLOCK,)):
            scales = scale.shape[-1] if len(scale.shape) > len(extents) else 1
        elif all(n == 1 for n in front) and [n for n in scale.shape if n != 1] == [extents[-1]]:
            scales = 1
        else:
            return None
    count, step = merged[0]
    return Rows(count, step, None if placed is None else placed[0][1], shape, scales)


def _rows_of(matmul: Product, rows: Rows, a: Array, b: Array) -> Product:
    shape_a, strides_a = (rows.total, a.shape[-1]), (rows.step_a, a.strides[-1])
    width, several = b.shape[-1], len(b.shape) > 2

    def call(a: Any, b: Any, out: Any, bias: Any, scale_a: Any, scale_b: Any, scale_out: Any) -> Any:
        if several:
            b = b.reshape(b.shape[-2:])
        if rows.scales is not None:
            scale_a = scale_a.reshape(rows.total, rows.scales)
        place = None
        if out is not None:
            place = strided(out, (rows.total, width), (rows.step_out or 0, _strides(out)[-1]))
        made = matmul(strided(a, shape_a, strides_a), b, place, bias, scale_a, scale_b, scale_out)
        return made.reshape(rows.shape) if out is None else out

    return call


def _strides(x: HostArray) -> tuple[int, ...]:
    return describe("out", x).strides


# --- batches ----------------------------------------------------------------------------------------------------------


def _batches_of(
    matmul: Product, a: Array, b: Array, out: Array, front: tuple[int, ...], reaches: dict[str, int]
) -> Product:
    steps = tuple(_steps(x, front) for x in (a, b, out))
    extents, merged = _one(front, steps)
    # The longest is the batch of a launch.
    inner = max(range(len(extents)), key=extents.__getitem__) if extents else None
    outer = [i for i in range(len(extents)) if i != inner]
    order = outer if inner is None else [*outer, inner]
    views = [
        ((*(extents[i] for i in order), *x.shape[-2:]), (*(s[i] for i in order), *x.strides[-2:]))
        for x, s in zip((a, b, out), merged, strict=True)
    ]
    if inner is not None and extents[inner] and merged[1][inner] == 0:
        # One b for all of a launch: its rows may be those of one matrix.
        sizes, steps_b = views[1]
        views[1] = (*sizes[: len(outer)], *sizes[-2:]), (*steps_b[: len(outer)], *steps_b[-2:])
    places = list(product(*(range(extents[i]) for i in outer)))
    shape, dtype, reach = out.shape, out.dtype, out.reach

    def call(a: Any, b: Any, out: Any, bias: Any, scale_a: Any, scale_b: Any, scale_out: Any) -> Any:
        if out is None:
            out = empty(a, shape, dtype)
        else:
            # Of everything, before the first launch.
            read = (a, b, bias, scale_a, scale_b, scale_out)
            check_apart(address(out), reach, zip(reaches, read, reaches.values(), strict=True))
        arrays: list[Any] = [strided(x, *view) for x, view in zip((a, b, out), views, strict=True)]
        for place in places:
            x, y, c = (each[place] if place else each for each in arrays)
            matmul(x, y, c, bias, scale_a, scale_b, scale_out)
        return out

    return call


def _steps(x: Array, front: tuple[int, ...]) -> tuple[int, ...]:
    """Strides along the dimensions in front, 0 where an array has one matrix for all."""
    own = x.shape[:-2]
    lead = len(front) - len(own)
    return (0,) * lead + tuple(s if n != 1 else 0 for n, s in zip(own, x.strides[: len(own)], strict=True))


def _one(extents: tuple[int, ...], steps: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Dimensions with those made one that are one in all arrays."""
    if 0 in extents:
        return (0,), [(0,) for _ in steps]
    found: list[tuple[int, tuple[int, ...]]] = []
    for n, each in zip(extents, zip(*steps, strict=True), strict=True):
        if n == 1:
            continue
        if found and all(s == n * t for s, t in zip(found[-1][1], each, strict=True)):
            found[-1] = found[-1][0] * n, each
        else:
            found.append((n, each))
    return tuple(n for n, _ in found), [tuple(each[i] for _, each in found) for i in range(len(steps))]


def _merged(extents: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Extents and strides of one array with the dimensions made one that are; one with no elements has one."""
    if 0 in extents:
        return ((0, 0),)
    sizes, (steps,) = _one(extents, (strides,))
    return tuple(zip(sizes, steps, strict=True)) or ((1, strides[-1]),)


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array in one piece."""

    def steps() -> Iterator[int]:
        step = 1
        for n in reversed(shape):
            yield step
            step *= max(n, 1)

    return tuple(steps())[::-1]


__all__ = ["by_batches"]
