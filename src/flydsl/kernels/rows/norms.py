"""`rms_norm` and `layer_norm` of plain arrays, and their gradients."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from flydsl.errors import DSLTypeError

from ..matmul.workspace import repeated_scratch
from ..repeats import fresh_as, fresh_like, relaunch, remember_call, repeated
from ..scalars import choice, flag, number
from .arrays import FLOATS, Array, Given, HostArray, describe, matrix, same_place, shaped, vacant, vector, zeros
from .call import (
    Result,
    arrays_only,
    block_memory,
    check_apart,
    described,
    dtype_of,
    has_clusters,
    more_of,
    parks,
    part_of,
    recall,
    rows_in_place,
    rows_of,
)
from .form import (
    FEW_TURNS,
    MANY_TURNS,
    MOST_THREADS,
    PROCESSORS,
    SOME_TURNS,
    WARP,
    Form,
    form_of,
    gradients_in_a_ring,
    in_a_ring,
    known_form,
    slices_of,
    two_blocks,
)
from .softmax_entry import describe_rows

if TYPE_CHECKING:
    from flydsl.compiler.jit_function import JitFunction

PARKS = {True: {6: 1, 7: 1, 8: 4}, False: {6: 1, 7: 2, 8: 2}}
"""Of so many units of a thread, those that wait in shared memory, with and without a mean: found by trying."""
VECTORS_BYTES = 114688
"""Weight and bias together from which on they are about half of a multiprocessor's L1."""
PASSING_BYTES = 2**26
"""Rows that no cache holds until somebody else reads them: they leave it to weight and bias."""
TWICE = 512
"""Threads of a block that a multiprocessor is to have two of, where registers would do for one and a half."""
REGISTERS = 65536
"""Of a multiprocessor."""
RESIDENT = 512
"""Threads of a multiprocessor that find registers for sums of columns beside their rows."""
HELD = 16
"""Bytes that a thread has of an element of a row at least, beside the next row."""


class Norm(NamedTuple):
    """A norm of rows, and what its gradient needs."""

    out: Given
    summed: Given
    """x + residual in the type of x; x itself without a residual."""
    mean: Given
    """Of each row; None for RMS norm."""
    scale: Given
    """The reciprocal of each row's deviation, or root mean square."""


class Gradients(NamedTuple):
    """The gradients of a norm's arguments; None for those that were not asked for."""

    x: Given
    """Of x, and of the residual: they are the same."""
    weight: Given
    bias: Given


def rms_norm(
    x: HostArray,
    weight: HostArray | None = None,
    *,
    eps: float = 1e-6,
    residual: HostArray | None = None,
    out: HostArray | None = None,
    stream: object = None,
) -> Given:
    """`x` over its root mean square along the last direction, times `weight`; with a residual (result, x + residual).

    >>> rms_norm(np.array([[3.0, 4.0]], "f4"), eps=0.0)
    array([[0.84852815, 1.1313709 ]], dtype=float32)
    """
    made = norm("rms_norm", x, weight, None, eps, residual, out, False, False, stream)
    return made.out if residual is None else (made.out, made.summed)


def layer_norm(
    x: HostArray,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    *,
    eps: float = 1e-5,
    residual: HostArray | None = None,
    out: HostArray | None = None,
    stream: object = None,
) -> Given:
    """`x` less its mean, over its deviation along the last direction, times `weight` plus `bias`.

    With a residual the norm is that of x + residual, and the result (norm, x + residual). Weight and bias may have a
    type of their own; the result has that of `x`.
    """
    made = norm("layer_norm", x, weight, bias, eps, residual, out, True, False, stream)
    return made.out if residual is None else (made.out, made.summed)


def norm(
    op: str,
    x: HostArray,
    weight: HostArray | None,
    bias: HostArray | None,
    eps: float,
    residual: HostArray | None,
    out: HostArray | None,
    centred: bool,
    training: bool,
    stream: object,
) -> Norm:
    """The norm; with `training` also what the gradient needs."""
    key = None
    if type(eps) is not float:
        eps = number(op, "eps", eps, 0)
    if out is None and stream is None:
        key, known = repeated(op, (training, eps), x, weight, bias, residual)
        if known is not None:
            return known
    check_norm(op, x, weight, bias, residual, eps)
    arrays_only(op, out=out)
    dtype = dtype_of(x)
    result = Result(op, "out", x, dtype, out)
    check_apart(op, "out", out, x=x, residual=residual, weight=weight, bias=bias)
    summed = None if residual is None else Result(op, "summed", x, dtype, None)
    mx = matrix(x)
    m, n = mx.shape
    means = scales = None
    if training:
        statistics = "float64" if dtype == "float64" else "float32"
        scales, *centres = (vacant(x, (prod(x.shape[:-1]),), statistics) for _ in range(1 + centred))
        means = centres[0] if centred else None
    if m and n:
        rows = {
            "x": mx, "residual": None if residual is None else matrix(residual), "weight": _vector(weight),
            "bias": _vector(bias),
            "out": result.matrix, "summed": None if summed is None else summed.matrix,
        }  # fmt: skip
        form = recall(op, rows, training, lambda: _form(op, rows, training, centred))
        if form is None:
            vectors = [v for v in (rows["weight"], rows["bias"]) if v is not None]
            _in_shared_memory(centred)(mx, *vectors, rows["out"], eps, **more_of(stream))
        else:
            from .norm_kernels import norm_rows

            norm_rows(
                mx, rows["residual"], rows["weight"], rows["bias"], rows["out"], rows["summed"], means, scales, m, n,
                eps, centred, form, **more_of(stream),
            )  # fmt: skip
        if key is not None:
            _remember(key, m, n, form, x, weight, bias, residual, scales, centred, eps)
    return Norm(result.done(), x if summed is None else summed.done(), means, scales)


def check_norm(
    op: str,
    x: HostArray,
    weight: HostArray | None,
    bias: HostArray | None,
    residual: HostArray | None,
    eps: float,
) -> None:
    """What is refused of a norm, by extents and types alone."""
    number(op, "eps", eps, 0)
    arrays_only(op, x=x, weight=weight, bias=bias, residual=residual)
    dtype = dtype_of(describe_rows(op, "x", x))
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None:
            shaped(op, name, describe(op, name, v), x.shape[-1:], "x")
    if residual is not None:
        shaped(op, "residual", describe(op, "residual", residual), x.shape, "x")
        if dtype_of(residual) != dtype:
            raise DSLTypeError(f"{op}: residual is {dtype} as x, got {dtype_of(residual)}")


def check_norm_backward(
    op: str,
    dy: HostArray,
    x: HostArray,
    weight: HostArray | None,
    mean: HostArray | None,
    scale: HostArray,
    dsummed: HostArray | None,
    bias_type: str | None = None,
) -> None:
    """The same of its gradients."""
    if bias_type is not None:
        choice(op, "bias_type", bias_type, tuple(FLOATS))
    arrays_only(op, dy=dy, x=x, weight=weight, mean=mean, scale=scale, dsummed=dsummed)
    describe_rows(op, "x", x)
    m, n = prod(x.shape[:-1]), x.shape[-1]
    for name, v, shape in (
        ("dy", dy, x.shape), ("weight", weight, (n,)), ("mean", mean, (m,)), ("scale", scale, (m,)),
        ("dsummed", dsummed, x.shape),
    ):  # fmt: skip
        if v is not None:
            shaped(op, name, describe(op, name, v), shape, "x")


def _remember(
    key: object,
    m: int,
    n: int,
    form: Form | None,
    x: Given,
    weight: Given,
    bias: Given,
    residual: Given,
    scales: Given,
    centred: bool,
    eps: float,
) -> None:
    """The call as it is, for tensors like these."""
    rows = [v for v in (x, residual) if v is not None]
    if not all(map(rows_in_place, rows)) or any(_vector(v) is not v for v in (weight, bias)):
        return
    fresh, sums = fresh_like(x), residual is not None
    statistic = None if scales is None else fresh_as(x, (m,), scales.dtype)

    def arrange(
        x: Given, weight: Given, bias: Given, residual: Given, out: Given, summed: Given, mean: Given, scale: Given
    ) -> tuple[object, ...]:
        x, residual, out, summed = (rows_of(v, m, n) for v in (x, residual, out, summed))
        if form is not None:
            return x, residual, weight, bias, out, summed, mean, scale, m, n, eps, centred, form
        return (x, weight, bias, out, eps) if centred else (x, weight, out, eps)

    if form is None:
        function, sources = _in_shared_memory(centred), (0, 1, 2, 4) if centred else (0, 1, 4)
    else:
        from .norm_kernels import norm_rows as function

        sources = (0, 3, 1, 2, 4, 5, 6, 7)
    launch = relaunch(function, arrange, sources, fresh=4)

    def call(x: Given, weight: Given, bias: Given, residual: Given) -> Norm | None:
        out = fresh(x)
        summed = fresh(x) if sums else None
        scale = mean = None
        if statistic is not None:
            scale = statistic()
            mean = statistic() if centred else None
        if not launch.now(x, weight, bias, residual, out, summed, mean, scale):
            return None
        return Norm(out, summed if sums else x, mean, scale)

    remember_call(key, call)


def _vector(x: HostArray | None) -> HostArray | None:
    return None if x is None else vector(x)


def _form(op: str, rows: dict[str, HostArray | None], training: bool, centred: bool) -> Form | None:
    """None for long rows of whole units, which have a kernel with a row in shared memory."""
    found = described(op, rows)
    same_place(op, found)
    x, given = found["x"], [v for v in found.values() if v is not None]
    assert x is not None
    m, n = x.shape
    most = MANY_TURNS if centred else SOME_TURNS
    # Two arrays would have to wait with a residual.
    waiting = parks(PARKS[centred]) if found["residual"] is None else None
    form = form_of(m, n, found, max(x.itemsize, 4), clusters=has_clusters(), most=most, parks=waiting)
    if waiting is not None and centred:
        form = _with_vectors(form, n, x.itemsize)
    if waiting is not None:
        form = _streamed(form, m * n * x.itemsize, x.itemsize)
    if form.cluster > 1:
        # They have the registers they want: held to 64, a kernel was seen to read shared memory of other blocks.
        form = known_form(form._replace(constant=True))
    elif centred and form.block == TWICE and form.turns > SOME_TURNS:
        form = known_form(form._replace(resident=2))
    kind, one_size = "layer" if centred else "rms", all(v.itemsize == x.itemsize for v in given)
    if waiting is not None and one_size:
        form = _with_more_blocks(form, n, x.itemsize, centred)
    if waiting is not None and x.itemsize < 8:
        form = two_blocks(form, m, n, x.itemsize, kind, block_memory()) or form
    if found["residual"] is None and x.itemsize < 8 and one_size and has_clusters() and _beside(form, found):
        form = in_a_ring(form, m, n, x.itemsize, kind, block_memory()) or form
    plain = found["residual"] is None and found["weight"] is not None and (found["bias"] is not None) == centred
    whole = plain and form.unit > 1 and not form.edges and len(form.aligned) == len(given)
    one_type = len({v.dtype for v in given}) == 1 and x.dtype != "float64"
    return None if whole and one_type and not training and not form.turns else form


def _beside(form: Form, found: dict[str, Array | None]) -> bool:
    """Whether rows and vectors are all read in units."""
    return {name for name, v in found.items() if v is not None} <= {*form.aligned, *form.shifted}


def _with_vectors(form: Form, n: int, size: int) -> Form:
    """Layer norm of long rows, where weight and bias are read from L2 if rows pass through L1 as well."""
    crowded = size == 2 and form.turns > 5 and form.block == MOST_THREADS  # no registers to read ahead
    if not form.turns or form.cluster > 1 or form.edges or 2 * n * size <= VECTORS_BYTES or crowded:
        return form
    return known_form(form._replace(constant=True, streamed=size == 4 and form.block == MOST_THREADS))


def _with_more_blocks(form: Form, n: int, size: int, centred: bool) -> Form:
    """More rows of a multiprocessor at once, by registers that the compiler would not save of itself."""
    if form.unit == 1 or not form.turns or form.cluster > 1:
        return form
    if form.block == WARP and not centred:
        # A weight that may be written to by others would wait for the stores of the row before.
        return known_form(form._replace(constant=True))
    if size != 2:
        return form
    longest = form.block == TWICE and form.turns == SOME_TURNS
    if longest and not form.edges:
        return known_form(form._replace(narrow=True, resident=3))
    if longest:
        turns = -(-(n // form.unit - bool(form.shifted)) // (TWICE // 2))
        form = form._replace(team=TWICE // 2, turns=turns)
    if longest or (form.edges and centred and 2 * WARP <= form.block < TWICE):
        narrow = form.turns > SOME_TURNS
        each = form.turns * 4 + 28 if narrow else form.turns * 8 + 24  # registers
        form = form._replace(narrow=narrow, resident=REGISTERS // (each * form.block))
    return known_form(form)


def _streamed(form: Form, nbytes: int, size: int) -> Form:
    """Whole rows of 32-bit elements that fill the largest blocks leave the caches to the vectors."""
    whole = not form.edges and form.unit > 1 and form.cluster == 1
    filled = form.block == MOST_THREADS and form.turns > MANY_TURNS
    if whole and filled and size == 4 and nbytes > PASSING_BYTES:
        form = form._replace(constant=True, streamed=True)
    return known_form(form)


def _in_shared_memory(centred: bool) -> JitFunction:
    """The kernel of long rows of whole units, all with a weight, and with a bias where they are `centred`."""
    from . import annotated

    return annotated.layer_norm if centred else annotated.rms_norm


def rms_norm_backward(
    dy: HostArray,
    x: HostArray,
    weight: HostArray | None,
    scale: HostArray,
    *,
    dsummed: HostArray | None = None,
    inputs: bool = True,
    weights: bool = True,
    stream: object = None,
) -> Gradients:
    """The gradients of `rms_norm`, where `x` is what was normed and `scale` each row's 1 / root mean square.

    `dsummed` is the gradient of x + residual, where that was a result. Gradients that nobody wants are None: that of x
    without `inputs`, that of the weight without `weights`.
    """
    return backward("rms_norm_backward", dy, x, weight, None, scale, dsummed, inputs, weights, False, stream)


def layer_norm_backward(
    dy: HostArray,
    x: HostArray,
    weight: HostArray | None,
    mean: HostArray,
    scale: HostArray,
    *,
    dsummed: HostArray | None = None,
    inputs: bool = True,
    weights: bool = True,
    bias: bool = True,
    bias_type: str | None = None,
    stream: object = None,
) -> Gradients:
    """The gradients of `layer_norm`, where `x` is what was normed, and `mean` and `scale` its rows' statistics.

    Arguments as those of `rms_norm_backward`; without `bias` nobody wants the bias's gradient, which
    has the type of the weight, or `bias_type`.
    """
    op = "layer_norm_backward"
    return backward(op, dy, x, weight, mean, scale, dsummed, inputs, weights, bias, stream, bias_type)


class _Way(NamedTuple):
    form: Form
    blocks: int
    fused: bool
    """Whether the pass over the rows sums their columns, too."""
    slices: int
    """Rows of sums of each kind: of all teams, or of parts of the rows."""
    unit: int
    """Elements of a column's neighbours that are read at once where columns are summed in a pass of their own."""
    wide: str
    """The type of sums."""


def backward(
    op: str,
    dy: HostArray,
    x: HostArray,
    weight: HostArray | None,
    mean: HostArray | None,
    scale: HostArray,
    dsummed: HostArray | None,
    inputs: bool,
    weights: bool,
    bias: bool,
    stream: object,
    bias_type: str | None = None,
) -> Gradients:
    """Sums become the type of the weight; those of the bias `bias_type`, where it has one of its own."""
    key = None
    if not type(inputs) is type(weights) is type(bias) is bool:
        names = {"inputs": inputs, "weights": weights, "bias": bias}
        inputs, weights, bias = (flag(op, name, value) for name, value in names.items())
    if stream is None:
        key, found = repeated(op, (inputs, weights, bias, bias_type), dy, x, weight, mean, scale, dsummed)
        if found is not None:
            return found
    check_norm_backward(op, dy, x, weight, mean, scale, dsummed, bias_type)
    dtype = dtype_of(x)
    mx = matrix(x)
    m, n = mx.shape
    weights = weights and weight is not None
    if not (inputs or weights or bias):
        return Gradients(None, None, None)
    result = Result(op, "dx", x, dtype, None) if inputs else None
    kind = dtype if weight is None else dtype_of(weight)
    fresh = vacant if m and n else zeros
    made = [fresh(x, (n,), t) if wanted else None for wanted, t in ((weights, kind), (bias, bias_type or kind))]
    if m and n:
        rows = {
            "dy": matrix(dy), "x": mx, "weight": _vector(weight),
            "dsummed": None if dsummed is None else matrix(dsummed), "dx": None if result is None else result.matrix,
        }  # fmt: skip
        way = recall(op, rows, (weights, bias), lambda: _way(op, rows, weights + bias))
        vectors, kinds = (_vector(mean), vector(scale)), weights + bias
        sums = vacant(x, (kinds, way.slices, n), way.wide) if kinds else None
        for function, args in _launches(way, m, n, rows, vectors, sums, made):
            function(*args, **more_of(stream))
        if key is not None:
            _remember_backward(key, way, m, n, dy, x, weight, mean, scale, dsummed, inputs, made)
    return Gradients(None if result is None else result.done(), *made)


def _launches(
    way: _Way,
    m: int,
    n: int,
    rows: Mapping[str, HostArray | None],
    vectors: tuple[HostArray | None, HostArray],
    sums: Given,
    made: Sequence[HostArray | None],
) -> list[tuple[JitFunction, tuple[object, ...]]]:
    """What is launched: the pass over the rows, that over the columns, or one for both."""
    found: list[tuple[JitFunction, tuple[object, ...]]] = []
    # Sums of both kinds are one array.
    parts = (None if made[0] is None else sums[0], None if made[1] is None else sums[-1])
    if rows["dx"] is not None:
        from .norm_gradients import norm_back

        ends = (*parts, *made) if way.fused else (None,) * 4
        given = (rows["dy"], rows["x"], rows["weight"], *vectors, rows["dsummed"], rows["dx"])
        found.append((norm_back, (*given, *ends, m, n, way.blocks, way.form)))
    if sums is not None and not way.fused:
        from .columns import weight_sums

        found.append(
            (weight_sums, (rows["dy"], rows["x"], *vectors, *parts, *made, m, n, way.slices, way.unit))
        )  # fmt: skip
    return found


_SOURCES = ((0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9), (0, 1, 3, 4, 7, 7, 8, 9))
"""Of dy, x, weight, mean, scale, dsummed, dx, the sums, dweight and dbias, those that the passes over rows and over
columns take."""


def _remember_backward(
    key: object,
    way: _Way,
    m: int,
    n: int,
    dy: Given,
    x: Given,
    weight: Given,
    mean: Given,
    scale: Given,
    dsummed: Given,
    inputs: bool,
    made: list[Given],
) -> None:
    """The call as it is, for tensors like these."""
    rows = [v for v in (dy, x, dsummed) if v is not None]
    if not all(map(rows_in_place, rows)) or any(_vector(v) is not v for v in (weight, mean, scale)):
        return
    kinds, fresh = sum(v is not None for v in made), fresh_like(x)
    shape, wide = (kinds, way.slices, n), getattr(sys.modules["torch"], way.wide)
    parts = repeated_scratch(x, kinds * way.slices * n * wide.itemsize) if kinds else None
    of_weight, of_bias = (None if v is None else fresh_as(x, (n,), v.dtype) for v in made)

    def arranged(number: int, *tensors: Given) -> tuple[object, ...]:
        dy, x, weight, mean, scale, dsummed, dx, memory, *made = tensors
        sums = None if memory is None else part_of(memory, shape, wide)
        rows = {name: rows_of(v, m, n) for name, v in (("dy", dy), ("x", x), ("dsummed", dsummed), ("dx", dx))}
        return _launches(way, m, n, {**rows, "weight": weight}, (mean, scale), sums, made)[number][1]

    columns = bool(kinds) and not way.fused
    functions = [launch for launch, there in zip(_functions(), (inputs, columns), strict=True) if there]
    sources = [given for given, there in zip(_SOURCES, (inputs, columns), strict=True) if there]
    first, *more = (
        relaunch(function, partial(arranged, number), given, fresh=4)
        for number, (function, given) in enumerate(zip(functions, sources, strict=True))
    )
    second = more[0] if more else None

    def call(dy: Given, x: Given, weight: Given, mean: Given, scale: Given, dsummed: Given) -> Gradients | None:
        dx = fresh(x) if inputs else None
        sums = None if parts is None else parts()
        dweight = None if of_weight is None else of_weight()
        dbias = None if of_bias is None else of_bias()
        if not first.now(dy, x, weight, mean, scale, dsummed, dx, sums, dweight, dbias):
            return None
        if second is not None and not second.now(dy, x, weight, mean, scale, dsummed, dx, sums, dweight, dbias):
            return None
        return Gradients(dx, dweight, dbias)

    remember_call(key, call)


def _functions() -> tuple[JitFunction, JitFunction]:
    """The passes over rows and over columns."""
    from .columns import weight_sums
    from .norm_gradients import norm_back

    return norm_back, weight_sums


def _way(op: str, rows: dict[str, HostArray | None], kinds: int) -> _Way:
    found = described(op, rows)
    same_place(op, found)
    dy, x = found["dy"], found["x"]
    assert dy is not None and x is not None
    m, n = x.shape
    wide = "float64" if x.dtype == "float64" else "float32"
    sums = max(dy.itemsize, 4) * kinds
    held = sum(v.itemsize for v in (dy, x, found["weight"], found["dsummed"]) if v is not None) + sums
    if kinds and found["dx"] is not None:
        # Sums stay with a thread, so that all rows are shared in the same way; the next row takes registers, too.
        most = FEW_TURNS if x.itemsize == 4 and n % 4 == 0 else SOME_TURNS
        form = form_of(m, n, found, max(held, HELD), edges=False, few=False, most=most)
        # Sums are matrices in one piece, so that they have units where rows have.
        more = ("dweights", "dbiases") if form.unit > 1 else ()
        ring = _gradients_in_a_ring(form, m, n, found, kinds)
        if ring is not None:
            return _fused(known_form(ring._replace(aligned=(*ring.aligned, *more))), ring.stays, wide)
        if form.turns:
            resident = max(RESIDENT // form.block, 1)
            form = known_form(form._replace(aligned=(*form.aligned, *more), resident=resident))
            return _fused(form, min(PROCESSORS * resident, -(-m // form.rows)), wide)
        form = _pooled(m, n, found, kinds)
        if form is not None:
            return _fused(form, min(PROCESSORS, m), wide)
    # Few rows have multiprocessors to spare; many are faster in loops.
    form = form_of(m, n, found, held - sums, clusters=m < PROCESSORS and has_clusters())
    blocks = m * form.cluster if form.cluster > 1 else -(-m // form.rows)
    unit = form.unit if not form.edges and {"dy", "x"} <= set(form.aligned) else 1
    return _Way(form, blocks, False, slices_of(m), unit, wide)


def _fused(form: Form, blocks: int, wide: str) -> _Way:
    return _Way(form, blocks, True, blocks * form.rows, form.unit, wide)


def _gradients_in_a_ring(form: Form, m: int, n: int, found: dict[str, Array | None], kinds: int) -> Form | None:
    """Many rows of 16-bit elements, where blocks stay anyway; None where the next row comes into registers."""
    given = {name: v for name, v in found.items() if v is not None}
    matrices = [v for v in given.values() if len(v.shape) == 2]
    alike = len({v.dtype for v in matrices}) == 1 and all(v.itemsize == 2 for v in given.values())
    if not has_clusters() or not alike or form.unit == 1 or set(given) != set(form.aligned):
        return None
    # dx is written, all others are read.
    return gradients_in_a_ring(form, m, n // form.unit, len(matrices) - 1, "weight" in given, kinds, block_memory())


def _pooled(m: int, n: int, found: dict[str, Array | None], kinds: int) -> Form | None:
    """Rows of whole units for which registers have room, if the sums of columns wait in shared memory."""
    form = form_of(m, n, found, HELD, edges=False, few=False)
    units = n // form.unit
    team = TWICE if units <= SOME_TURNS * TWICE else MOST_THREADS
    turns, size = -(-units // team), kinds * n * 4
    if form.unit == 1 or turns > SOME_TURNS or size > block_memory() or form.unit % 4:
        return None
    if form.unit > 4 and team == MOST_THREADS:
        return None  # widened elements find no registers
    return known_form(form._replace(team=team, rows=1, turns=turns, pooled=True, narrow=form.unit > 4, resident=1))


__all__ = ["Gradients", "Norm", "layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward"]
