"""`top_k`, `argmax`, and the gates of a mixture of experts.

A few of a row that registers hold are found by `few.py`. Of a longer row `one.py` finds one or two; more are found by
`many.py`, and very many by sorting.
"""

from __future__ import annotations

from flydsl.errors import DSLValueError

from ...axes.sort import sort
from ...axes.sort_kernels import gather_rows
from ...scalars import flag, whole
from ..arrays import Given, HostArray, matrix, vacant
from ..call import arrays_only, described, dtype_of, more_of, recall
from ..form import UNIT_BYTES, Form, form_of, known_form
from ..softmax_entry import describe_rows, softmax
from .few import FEW, SHORT_ROW, few_largest_rows
from .many import AHEAD, MOST_CANDIDATES, MOST_THREADS, many_largest_rows, parts_of, threads_for
from .one import largest_rows

SORTED = 32
"""Elements that a thread sorts."""
ONE_BY_ONE = 2
"""What is found by as many passes over rows that are too long for registers."""


def top_k(x: HostArray, k: int, *, stream: object = None) -> tuple[Given, Given]:
    """The `k` largest elements of each row, largest first, and their int64 numbers.

    Equal ones come in their order, and a NaN before all numbers.

    >>> top_k(np.array([[1.0, 3.0, 2.0, 3.0]], "f4"), 3)
    (array([[3., 3., 2.]], dtype=float32), array([[1, 3, 2]]))
    """
    return _largest("top_k", x, k, "values", None, stream)


def gate(x: HostArray, k: int, *, normed: bool = True, stream: object = None) -> tuple[Given, Given]:
    """The `k` largest elements of each row's softmax, and their int64 numbers; `normed` to a sum of 1.

    They are float32, and float64 of float64.

    >>> weights, experts = gate(np.array([[0.0, 1.0, 1.0]], "f4"), 2)
    >>> weights, experts
    (array([[0.5, 0.5]], dtype=float32), array([[1, 2]]))
    """
    normed = flag("gate", "normed", normed)
    return _largest("gate", x, k, "normed gates" if normed else "gates", "float32", stream)


def argmax(x: HostArray, *, stream: object = None) -> Given:
    """The int64 number of each row's largest element, the first of equal ones; that of a NaN, where there is one.

    >>> argmax(np.array([[1.0, 3.0, 2.0, 3.0]], "f4"))
    array([1])
    """
    numbers = _largest("argmax", x, 1, "values", "", stream)[1]
    return numbers.reshape(numbers.shape[:-1])


def check_largest(op: str, x: HostArray, k: int) -> int:
    """What is refused, by extents and types alone."""
    k = whole(op, "k", k)
    arrays_only(op, x=x)
    describe_rows(op, "x", x)
    if not 0 <= k <= x.shape[-1]:
        raise DSLValueError(f"{op}: a row of {x.shape[-1]} elements has no {k} largest ones")
    return k


def _largest(op: str, x: HostArray, k: int, what: str, dtype: str | None, stream: object) -> tuple[Given, Given]:
    k = check_largest(op, x, k)
    wide = dtype_of(x) == "float64"
    rows = matrix(x)
    m, n = rows.shape
    shape = (*x.shape[:-1], k)
    values = None if dtype == "" else vacant(x, shape, dtype_of(x) if wide else dtype or dtype_of(x))
    numbers = vacant(x, shape, "int64")
    if m and what == "values" and (wide or k > MOST_THREADS or 8 * k > n > MOST_CANDIDATES):
        # Many of them, or so large a part of the row that threads have no bound to give; or of double precision.
        return _sorted(x, values, numbers, k, stream)
    if m and k and wide:
        return _shares(rows, *_sorted(x, values, numbers, k, stream), what == "normed gates", stream)
    if m and k:
        form = recall(op, {"x": rows}, k <= FEW, lambda: _form(op, rows, k <= FEW))
        flat = None if values is None else values.reshape(-1, k)
        if form.turns and k <= FEW:
            short = n <= SHORT_ROW and dtype_of(x) != "float32"
            few_largest_rows(
                rows, flat, numbers.reshape(-1, k), m, n, k, what, 1 << (k - 1).bit_length(), short, form,
                **more_of(stream),
            )  # fmt: skip
            return values, numbers
        if what == "values" and k > ONE_BY_ONE:
            _many(rows, flat, numbers.reshape(-1, k), k, form, stream)
            return values, numbers
        largest_rows(rows, flat, numbers.reshape(-1, k), m, n, k, what, form, **more_of(stream))
    return values, numbers


def _many(x: HostArray, values: HostArray | None, numbers: HostArray, k: int, form: Form, stream: object) -> None:
    """The largest of each row, or of each part of it, and then of those."""
    m, n = x.shape
    (parts, length), more = parts_of(m, n, k, form.unit), more_of(stream)

    def looking_at(n: int, form: Form) -> Form:
        return known_form(form._replace(team=threads_for(n // form.unit, k), rows=1, turns=0, ahead=AHEAD))

    if parts == 1:
        many_largest_rows(x, None, values, numbers, m, n, n, k, 1, looking_at(n, form), **more)
        return
    some, names = vacant(x, (m, parts * k), dtype_of(x)), vacant(x, (m, parts * k), "int32")
    many_largest_rows(x, None, some, names, m, length, n, k, parts, looking_at(length, form), **more)
    n = parts * k
    few = form._replace(unit=1, edges=False, aligned=())  # each of few elements has a thread
    many_largest_rows(some, names, values, numbers, m, n, n, k, 1, looking_at(n, few), **more)


def _form(op: str, rows: HostArray, few: bool) -> Form:
    """A few are sorted by threads that have many elements each: putting lists together is what takes time."""
    found = described(op, {"x": rows})
    x = found["x"]
    assert x is not None
    m, n = x.shape
    if not few:
        return form_of(m, n, found, 4)
    each = SORTED * x.itemsize // UNIT_BYTES
    return form_of(m, n, found, 4, each=each, most=each)


def _sorted(x: HostArray, values: Given, numbers: Given, k: int, stream: object) -> tuple[Given, Given]:
    ordered, order = sort(x, descending=True, stream=stream)
    numbers[...] = order[..., :k]
    if values is not None:
        values[...] = ordered[..., :k]
    return values, numbers


def _shares(rows: HostArray, values: Given, numbers: Given, normed: bool, stream: object) -> tuple[Given, Given]:
    """What the largest elements of rows have of their softmax, or of that of their own, in their place."""
    flat = values.reshape(-1, values.shape[-1])
    if normed:
        softmax(flat, out=flat, stream=stream)
    else:
        gather_rows(softmax(rows, stream=stream), numbers.reshape(flat.shape), flat, *flat.shape, **more_of(stream))
    return values, numbers


__all__ = ["argmax", "gate", "top_k"]
