"""`sample`: a class from each row's distribution, after temperature, top-k and top-p.

What is left of a row is what is not below a limit. Limits are found as sortable integers, two bits at a time: the
largest one that leaves `k` elements, then the largest one that leaves a share of `p`. Of what is left each element
draws an exponential number, by the library's Philox from its place in the array, and the smallest one relative to the
element's chance wins: the distribution asked for, without a sum over the row in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError

from ..scalars import number, whole
from .arrays import Given, HostArray, describe, is_torch, matrix, same_place, shaped, vacant, vector
from .call import arrays_only, described, dtype_of, more_of, recall
from .form import Form, form_of
from .largest.one import LOWEST, count_up
from .lines import ADD, MAX, MIN, Lines, Place, power
from .softmax_entry import describe_rows
from .softmax_kernels import blocks_for, row_of, top_and_sum

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

Word: TypeAlias = "fx.Uint32 | fx.Uint64"
STEP = 2
"""Bits of a limit that a pass over the row finds: more take more comparisons, fewer more passes."""
MOST_DRAWN = 64.0
"""Exponential numbers end here, as e^-64 is none of the uniform ones they are made of."""


def _elements(lines: Lines, at: Place) -> list[fx.Numeric]:
    values = lines.read("x", at)
    return [values[i] for i in range(at.size)] if isinstance(values, fx.Vector) else [values]


def _rank(value: fx.Numeric) -> fx.Numeric:
    """A number as a signed integer of its width that sorts as it does."""
    double = type(value) is fx.Float64
    bits = (value + 0.0).bitcast(fx.Int64 if double else fx.Int32)  # no zero is below another
    return (bits < 0).select(bits ^ (2**63 - 1 if double else 2**31 - 1), bits)


def _order(value: fx.Numeric) -> Word:
    """The same without a sign."""
    rank = _rank(value)
    return fx.Uint64(rank ^ LOWEST) if type(value) is fx.Float64 else fx.Uint32(rank ^ -(2**31))


def _limit(lines: Lines, weight: Callable[[fx.Numeric], fx.Numeric], goal: fx.Numeric) -> Word:
    """The largest limit such that elements that are not below it weigh at least `goal`; 0 if all of them weigh less."""
    choices, word = range(1, 1 << STEP), word_of(lines)

    def narrow(step: fx.Int32, carried: list[Value]) -> list[Value]:
        prefix = cast("Word", carried[0])
        shift = word(word.width - STEP) - word(step) * STEP
        limits = [prefix + (word(c) << shift) for c in choices]

        def terms(at: Place) -> list[Value]:
            found = [(_order(v), weight(v)) for v in _elements(lines, at)]
            sums: list[Value] = []
            for limit in limits:
                kept = [(key >= limit).select(w, lines.wide(0.0)) for key, w in found]
                sums.append(kept[0] if at.size == 1 else fx.Vector.from_elements(kept, lines.wide))
            return sums

        sums = lines.fold(terms, [ADD] * len(limits))
        for limit, total in zip(limits, sums, strict=True):
            prefix = (total >= goal).select(limit, prefix)
        if lines.form.team > fx.num_warp_threads():
            fx.barrier()  # before the next one uses the same shared memory
        return [prefix]

    return cast("Word", count_up(fx.Int32(word.width // STEP), [word(0)], narrow)[0])


def word_of(lines: Lines) -> type[Word]:
    """Integers as wide as what rows are summed in."""
    return fx.Uint64 if lines.wide is fx.Float64 else fx.Uint32


Scores: TypeAlias = "Callable[[Place], list[tuple[fx.Numeric, fx.Int32, fx.Boolean]]]"


def _best(lines: Lines, scores: Scores) -> fx.Int64:
    """The column with the highest score, of equal ones the first: both are one integer of 64 bits."""

    def look(at: Place, so_far: list[Value]) -> list[Value]:
        chosen = cast("fx.Int64", so_far[0])
        for score, column, counts in scores(at):
            rank = fx.Int64(_rank(score)) * 2**32 + (2**32 - 1 - fx.Int64(column))
            chosen = fx.max(chosen, counts.select(rank, fx.Int64(LOWEST)))
        return [chosen]

    (mine,) = lines.collect([fx.Int64(LOWEST)], look)
    (found,) = lines.meet([cast("fx.Int64", mine)], [MAX])
    return fx.Int64(2**32 - 1 - (found & (2**32 - 1)))


def _best_of_doubles(lines: Lines, scores: Scores) -> fx.Int64:
    """The same for scores of 64 bits: threads meet for the score, then for the column."""

    def look(at: Place, so_far: list[Value]) -> list[Value]:
        highest, chosen = (cast("fx.Int64", v) for v in so_far)
        for score, column, counts in scores(at):
            rank, number = _rank(score), fx.Int64(column)
            better = counts & ((rank > highest) | ((rank == highest) & (number < chosen)))
            highest, chosen = better.select(rank, highest), better.select(number, chosen)
        return [highest, chosen]

    highest, chosen = (cast("fx.Int64", v) for v in lines.collect([fx.Int64(LOWEST), fx.Int64(2**32)], look))
    (top,) = lines.meet([highest], [MAX])
    (found,) = lines.meet([(highest == top).select(chosen, fx.Int64(2**32))], [MIN])
    return cast("fx.Int64", found)


@flyc.kernel
def sample_kernel(
    x: fx.Tensor,
    out: fx.Tensor,
    temperatures: fx.Tensor | None,
    ks: fx.Tensor | None,
    ps: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    temperature: fx.Float32,
    k: fx.Int32,
    p: fx.Float32,
    seed: fx.Uint64,
    offset: fx.Uint64,
    filters: fx.Constexpr[tuple[bool, bool]],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, fx.SharedAllocator(), x=x)
    lines.fetch("x")
    wide, row = lines.wide, lines.row
    warmth = temperature if temperatures is None else fx.Float32(temperatures[row])
    greedy = ~(warmth > 0.0)
    slope = greedy.select(wide(1.0), 1.0 / wide(warmth))
    top, plain = top_and_sum(lines, "x")
    # NaN, an infinite logit or nothing but -inf: there is no distribution to draw from.
    drawn = (plain > 0.0) & (plain < float("inf"))

    def chance(value: fx.Numeric) -> fx.Numeric:
        return cast("fx.Numeric", power((value - top) * slope))

    limit = word_of(lines)(0)
    if fx.const_expr(filters[0]):
        count = k if ks is None else fx.Int32(ks[row])
        found = _limit(lines, lambda value: wide(1.0), wide(fx.max(count, fx.Int32(1))))
        limit = (count > 0).select(found, limit)
    if fx.const_expr(filters[1]):
        share = p if ps is None else fx.Float32(ps[row])
        least = limit

        def weight(value: fx.Numeric) -> fx.Numeric:
            return (_order(value) >= least).select(chance(value), wide(0.0))

        def parts(at: Place) -> list[Value]:
            kept = [weight(v) for v in _elements(lines, at)]
            return [kept[0] if at.size == 1 else fx.Vector.from_elements(kept, wide)]

        (total,) = lines.fold(parts, [ADD])
        found = _limit(lines, weight, total * wide(share))
        limit = ((share < 1.0) & ~greedy).select(fx.max(found, least), least)

    def scores(at: Place) -> list[tuple[fx.Numeric, fx.Int32, fx.Boolean]]:
        """The score of each element, its column, and whether it may be drawn."""
        made: list[tuple[fx.Numeric, fx.Int32, fx.Boolean]] = []
        for i, value in enumerate(_elements(lines, at)):
            column = at.at + i
            here = offset + fx.Uint64(row) * fx.Uint64(n) + fx.Uint64(column)
            uniform = (fx.Float32(fx.random.randint(seed, here)) + 0.5) * 2.0**-32
            time = fx.minnumf(-fx.log1p(-uniform), fx.Float32(MOST_DRAWN))
            score = (value - top) * slope - greedy.select(wide(0.0), wide(fx.log(time)))
            # A chance of nothing is never drawn, whatever the limit.
            counts = (_order(value) >= limit) & (value > float("-inf"))
            made.append((score, column, counts if at.here is True else counts & at.here))
        return made

    best = _best_of_doubles(lines, scores) if wide is fx.Float64 else _best(lines, scores)

    def leave() -> None:
        out[row] = drawn.select(best, fx.Int64(-1))

    lines.first(leave)


@flyc.jit
def sample_rows(
    x: fx.Tensor,
    out: fx.Tensor,
    temperatures: fx.Tensor | None,
    ks: fx.Tensor | None,
    ps: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    temperature: fx.Float32,
    k: fx.Int32,
    p: fx.Float32,
    seed: fx.Uint64,
    offset: fx.Uint64,
    filters: fx.Constexpr[tuple[bool, bool]],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """A class for each row; what is given by row counts instead of the number for all."""
    sample_kernel(
        x, out, temperatures, ks, ps, m, n, temperature, k, p, seed, offset, filters, form
    ).launch(grid=blocks_for(form, m), block=form.block, stream=stream)  # fmt: skip


def sample(
    logits: HostArray,
    *,
    seed: int,
    offset: int = 0,
    temperature: float | HostArray = 1.0,
    top_k: int | HostArray | None = None,
    top_p: float | HostArray | None = None,
    stream: object = None,
) -> Given:
    """The int64 number of a class of each row, drawn from the softmax of `logits / temperature`.

    `top_k` leaves the `k` largest (0: all of them; what equals the last one stays), then `top_p` the fewest largest
    that have this share of what is left. Each may be one number, or an array of one for each row: float32, and int32
    for `top_k`. A temperature of 0 takes the largest one. A row that has no distribution, as it has a NaN, an infinite
    logit or nothing but -inf, gives -1.

    The same seed and offset give the same classes on every device. A call uses as many numbers as there are logits:
    for independent draws add that to `offset`.

    >>> logits = np.array([[0.0, 8.0, 1.0]], "f4")
    >>> sample(logits, seed=1, temperature=0.0), sample(logits, seed=1, top_k=1)
    (array([1]), array([1]))
    """
    op = "sample"
    asked = check_sample(op, logits, seed, offset, temperature, top_k, top_p)
    (heat, heats), (k, ks), (p, ps) = asked.temperature, asked.k, asked.p
    seed, offset = asked.seed, asked.offset
    shape = tuple(logits.shape[:-1])
    out: Given = vacant(logits, shape, "int64")
    rows = matrix(logits)
    m, n = rows.shape
    if 0 not in shape:
        form = recall(op, {"x": rows}, None, lambda: _form(op, rows))
        filters = (ks is not None or 0 < k < n, ps is not None or p < 1.0)
        heats, ks, ps = (None if x is None else vector(x) for x in (heats, ks, ps))
        sample_rows(
            rows, vector(out), heats, ks, ps, m, n, heat, int(k), p, seed, offset, filters, form, **more_of(stream)
        )
    return out


def _form(op: str, rows: HostArray) -> Form:
    m, n = rows.shape
    found = described(op, {"x": rows})
    return form_of(m, n, found, 8 if dtype_of(rows) == "float64" else 4)


class Asked(NamedTuple):
    """Numbers for all rows, or arrays of one for each."""

    temperature: tuple[float, HostArray | None]
    k: tuple[float, HostArray | None]
    p: tuple[float, HostArray | None]
    seed: int
    offset: int


def check_sample(
    op: str,
    logits: HostArray,
    seed: int,
    offset: int,
    temperature: float | HostArray,
    top_k: int | HostArray | None,
    top_p: float | HostArray | None,
) -> Asked:
    """What is refused, by extents and types alone."""
    arrays_only(op, logits=logits)
    describe_rows(op, "logits", logits)
    heat = _by_row(op, "temperature", temperature, logits, "float32", 0.0)
    k = _by_row(op, "top_k", 0 if top_k is None else top_k, logits, "int32", 0)
    p = _by_row(op, "top_p", 1.0 if top_p is None else top_p, logits, "float32", 0.0)
    if p[1] is None and p[0] > 1.0:
        raise DSLValueError(f"{op}: top_p is a share, at most 1, got {top_p}")
    if not logits.shape[-1] and 0 not in logits.shape[:-1]:
        raise DSLValueError(f"{op}: rows of no logits have nothing to draw")
    return Asked(heat, k, p, _unsigned(op, "seed", seed), _unsigned(op, "offset", offset))


def _unsigned(op: str, name: str, value: object) -> int:
    found = whole(op, name, value, -(2**64), 2**64)
    if not 0 <= found < 2**64:
        raise DSLValueError(f"{op}: {name} is an integer of 64 bits without a sign, got {found}")
    return found


def _by_row(
    op: str, name: str, value: float | HostArray, logits: HostArray, dtype: str, least: float
) -> tuple[float, HostArray | None]:
    """A number for all rows, or one for each."""
    if isinstance(value, (int, float)) or (not is_torch(value) and not getattr(value, "shape", ())):
        return whole(op, name, value, 0) if dtype == "int32" else number(op, name, value, least), None
    arrays_only(op, **{name: value})
    found = describe(op, name, value, (dtype,))
    shaped(op, name, found, tuple(logits.shape[:-1]), "logits")
    same_place(op, {"logits": describe(op, "logits", logits), name: found})
    return least, value


__all__ = ["sample"]
