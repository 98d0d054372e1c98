"""`softmax` and `log_softmax` of plain arrays, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.errors import DSLValueError

from ..repeats import fresh_like, relaunch, remember_call, repeated
from .arrays import FLOATS, Given, HostArray, describe, matrix, same_place, shaped
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
    recall,
    rows_in_place,
    rows_of,
)
from .form import PROCESSORS, SOME_TURNS, Form, form_of, in_a_ring, two_blocks

if TYPE_CHECKING:
    from flydsl.compiler.jit_function import JitFunction

LONG_BYTES = 65536
"""Rows of 16-bit elements from which on shared memory is the better place; see `annotated.py`."""
LONGER_BYTES = 114688
"""Rows of which a multiprocessor has no room for two."""
TURNS = 7
"""Units of a thread that are better than a larger team: a row is looked at in three passes."""
PARKS = {7: 2, 8: 4}
"""Of so many units of a thread, those that wait in shared memory: found by trying (`benchmarks/row_forms.py`)."""


def softmax(x: HostArray, *, out: HostArray | None = None, stream: object = None) -> Given:
    """e^x over its sum, along the last direction, in `out` or in a fresh array of the type of `x`.

    `x` is float32, float16, bfloat16 or float64, of any shape and strides. `out` may be `x`.

    >>> softmax(np.array([[0.0, 0.0], [1.0, -np.inf]], "f4"))
    array([[0.5, 0.5],
           [1. , 0. ]], dtype=float32)
    """
    return _forward("softmax", x, out, False, stream)


def log_softmax(x: HostArray, *, out: HostArray | None = None, stream: object = None) -> Given:
    """The logarithm of the softmax along the last direction; arguments as those of `softmax`."""
    return _forward("log_softmax", x, out, True, stream)


def softmax_backward(y: HostArray, dy: HostArray, *, out: HostArray | None = None, stream: object = None) -> Given:
    """The gradient of `x`, where `y` is `softmax(x)` and `dy` its gradient."""
    return _backward("softmax_backward", y, dy, out, False, stream)


def log_softmax_backward(y: HostArray, dy: HostArray, *, out: HostArray | None = None, stream: object = None) -> Given:
    """The gradient of `x`, where `y` is `log_softmax(x)` and `dy` its gradient."""
    return _backward("log_softmax_backward", y, dy, out, True, stream)


def _forward(op: str, x: HostArray, out: HostArray | None, log: bool, stream: object) -> Given:
    key = None
    if out is None and stream is None:
        key, made = repeated(op, None, x)
        if made is not None:
            return made
    check_softmax(op, x)
    arrays_only(op, out=out)
    result = Result(op, "out", x, dtype_of(x), out)
    check_apart(op, "out", out, x=x)
    rows = {"x": matrix(x), "out": result.matrix}
    m, n = rows["x"].shape
    if m and n:
        function, rest = _launcher(recall(op, rows, None, lambda: _form(op, rows, log)), m, n, log)
        function(rows["x"], rows["out"], *rest, **more_of(stream))
        if key is not None:
            _remember(key, m, n, function, rest, x)
    return result.done()


def _launcher(form: Form | None, m: int, n: int, log: bool) -> tuple[JitFunction, tuple[object, ...]]:
    """What is launched, and its arguments behind the rows."""
    if form is None:
        from .annotated import softmax as softmax_in_shared_memory

        return softmax_in_shared_memory, ()
    from .softmax_kernels import softmax_rows

    return softmax_rows, (m, n, log, form)


def _remember(
    key: object, m: int, n: int, function: JitFunction, rest: tuple[object, ...], *given: Given
) -> None:  # fmt: skip
    """Calls with one result, which is like the first argument."""
    if not all(map(rows_in_place, given)):
        return
    fresh, count = fresh_like(given[0]), len(given)
    rows = relaunch(
        function, lambda *tensors: (*(rows_of(x, m, n) for x in tensors), *rest), range(count + 1), fresh=1
    )  # fmt: skip

    def call(*given: Given) -> Given:
        made = fresh(given[0])
        return made if rows.now(*given, made) else None

    remember_call(key, call)


def _form(op: str, rows: dict[str, HostArray], log: bool) -> Form | None:
    """None for long rows of whole units, which have a kernel with a row in shared memory."""
    found = described(op, rows)
    same_place(op, found)
    x = found["x"]
    assert x is not None
    m, n = x.shape
    waiting = parks(PARKS)
    most = SOME_TURNS if waiting is None else TURNS
    form = form_of(m, n, found, max(x.itemsize, 4), clusters=has_clusters(), most=most, parks=waiting, longest=12)
    better = None
    if x.itemsize < 8 and waiting is not None and len(form.aligned) == 2:
        better = two_blocks(form, m, n, x.itemsize, "softmax", block_memory())
        if better is None and has_clusters():
            better = in_a_ring(form, m, n, x.itemsize, "softmax", block_memory())
    if better is not None:
        return better
    whole = form.unit > 1 and not form.edges and len(form.aligned) == 2
    shared = not form.turns or (x.itemsize == 2 and LONG_BYTES < n * x.itemsize <= LONGER_BYTES)
    return None if whole and not log and shared and x.dtype != "float64" else form


def check_softmax(op: str, x: HostArray) -> None:
    """What is refused of a softmax, by extents and types alone."""
    arrays_only(op, x=x)
    describe_rows(op, "x", x)


def check_softmax_backward(op: str, y: HostArray, dy: HostArray) -> None:
    """The same of its gradient."""
    arrays_only(op, y=y, dy=dy)
    describe_rows(op, "y", y)
    shaped(op, "dy", describe(op, "dy", dy, tuple(FLOATS)), y.shape, "y")


def describe_rows(op: str, name: str, x: HostArray) -> HostArray:
    """The array itself, if it has rows of floats."""
    if not describe(op, name, x).shape:
        raise DSLValueError(f"{op}: {name} has rows along its last direction, got a single number")
    return x


def _backward(op: str, y: HostArray, dy: HostArray, out: HostArray | None, log: bool, stream: object) -> Given:
    key = None
    if out is None and stream is None:
        key, made = repeated(op, None, y, dy)
        if made is not None:
            return made
    check_softmax_backward(op, y, dy)
    arrays_only(op, out=out)
    result = Result(op, "out", y, dtype_of(y), out)
    check_apart(op, "out", out, y=y, dy=dy)
    rows = {"y": matrix(y), "dy": matrix(dy), "dx": result.matrix}
    m, n = rows["y"].shape
    if m and n:

        def decide() -> Form:
            found = described(op, rows)
            same_place(op, found)
            held = sum(x.itemsize for x in (found["y"], found["dy"]) if x is not None)
            # Few rows have multiprocessors to spare; many are faster in loops.
            return form_of(m, n, found, held, clusters=m < PROCESSORS and has_clusters())

        from .softmax_kernels import softmax_back

        rest = (m, n, log, recall(op, rows, None, decide))
        softmax_back(rows["y"], rows["dy"], rows["dx"], *rest, **more_of(stream))
        if key is not None:
            _remember(key, m, n, softmax_back, rest, y, dy)
    return result.done()


__all__ = ["log_softmax", "log_softmax_backward", "softmax", "softmax_backward"]
