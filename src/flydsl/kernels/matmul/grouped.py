"""`grouped_matmul`: groups of rows, each times a matrix of its own, in one launch; only the device knows their ends."""

from __future__ import annotations

from typing import Any, NamedTuple

from flydsl.errors import DSLTypeError, DSLValueError

from ..activations import ACTIVATIONS
from .amd.calls import groups_on_amd
from .arrays import Array, HostArray, address, array_key, describe, empty, environment_key, in_line, packed
from .calls import engine_form
from .entry import target_of
from .groups import MOST, TABLE_BYTES
from .operands import Target, left, result_form, right
from .plan import Problem, best_in_groups, blocks_in_groups, raggedness
from .request import RESULTS, Request, check_apart, check_out, result_type
from .tile import Form, boxes_in_groups, has_room

TYPES = tuple(RESULTS)
_KEPT = 4096
_decided: dict[object, Decision] = {}


class Decision(NamedTuple):
    """A checked request, how it runs (None if there is nothing to do), and the bytes its arrays reach over."""

    request: Request
    run: Any
    reach: int
    reaches: tuple[int, int]


def grouped_matmul(
    a: HostArray,
    b: HostArray,
    offsets: HostArray,
    *,
    out: HostArray | None = None,
    activation: str | None = None,
    out_dtype: object = None,
    stream: object = None,
) -> Any:
    """`activation(a[start:end] @ b[group])` for each group of rows, in `out` or in a fresh array.

    `a` is (M, K), its rows sorted by group, and `b` (groups, K, N), in any strides and of any one type of `matmul`.
    `offsets` holds the end of every group (int32 or int64, where `a` is): group i has the rows from `offsets[i - 1]` to
    `offsets[i]`, and may have none. Nobody waits for it to be read; ends that fall or go beyond M are taken for the
    nearest ones that fit. Rows behind the last end are not written.

    >>> a, b = np.ones((4, 3), "f4"), np.arange(6, dtype="f4").reshape(2, 3, 1)
    >>> grouped_matmul(a, b, np.array([1, 4], "i4")).ravel()
    array([ 3., 12., 12., 12.], dtype=float32)
    """
    key = (
        array_key(a), array_key(b), array_key(offsets), array_key(out), activation, out_dtype, *environment_key()
    )  # fmt: skip
    known = _decided.get(key)
    request = known.request if known else _check(a, b, offsets, activation, out_dtype)
    given = out is not None
    if not given:
        out = empty(a, request.shape, request.out_dtype)
    if known is None:
        place = describe("out", out)
        if given:
            check_out(request, place)
        run = None if 0 in request.shape or not request.batches else _run(request, place, target_of(request.a))
        if len(_decided) >= _KEPT:
            _decided.clear()
        known = _decided[key] = Decision(request, run, place.reach, (request.a.reach, request.b.reach))
    if given:
        check_apart(address(out), known.reach, zip(("a", "b"), (a, b), known.reaches, strict=True))
    if known.run is not None:
        known.run(a, b, out, offsets, stream)
    return out


def _check(a: HostArray, b: HostArray, offsets: HostArray, activation: str | None, out_dtype: object) -> Request:
    first, second, ends = describe("a", a), describe("b", b), describe("offsets", offsets)
    if len(first.shape) != 2 or len(second.shape) != 3:
        raise DSLValueError(f"grouped_matmul: a is (rows, K) and b is (groups, K, N), got {first} and {second}")
    if first.shape[1] != second.shape[1]:
        raise DSLValueError(f"grouped_matmul: a has {first.shape[1]} columns and b has {second.shape[1]} rows a group")
    for name, x in (("a", first), ("b", second)):
        if x.dtype not in TYPES:
            raise DSLTypeError(f"grouped_matmul multiplies {', '.join(TYPES)}, got {name} of {x.dtype}")
    if first.dtype != second.dtype:
        raise DSLTypeError(f"grouped_matmul: a and b have one type, got {first.dtype} and {second.dtype}")
    if ends.shape != second.shape[:1] or ends.dtype not in ("int32", "int64"):
        raise DSLValueError(
            f"grouped_matmul: offsets has an int32 or int64 end for each of the {second.shape[0]} groups, got {ends}"
        )
    for name, x in (("b", second), ("offsets", ends)):
        if x.device != first.device:
            raise DSLValueError(f"grouped_matmul: a is on {first.device} and {name} on {x.device}")
    name = "none" if activation is None else activation
    if name not in ACTIVATIONS:
        raise DSLValueError(f"grouped_matmul: unknown activation {activation!r}; there are {', '.join(ACTIVATIONS)}")
    (m, k), (groups, _, n) = first.shape, second.shape
    result = result_type(first.dtype, out_dtype)
    if result == "int32" and name != "none":
        raise DSLTypeError("grouped_matmul: a result of int32 has no activation; give out_dtype")
    return Request(first, second, None, None, None, name, result, "f32", m, n, k, groups, False, False)


def _run(request: Request, out: Array, where: Target) -> Any:
    found = groups_on_amd(request, out, where)
    if found is not None:
        return _arranged(request, out, found)
    return _on_hopper(request, out, where) or _anywhere(request, out)


def _on_hopper(request: Request, out: Array, where: Target) -> Any:
    """`hopper`, where the copy engine takes the operands as they are."""
    m, n, k, groups = request.m, request.n, request.k, request.batches
    if not where.hopper or request.a.itemsize != 2 or k == 0:
        return None
    form_a = engine_form(left(request), k, 1, request.a)
    form_b = engine_form(right(request), k, groups, request.b)
    placed = result_form(request, out)
    if form_a is None or form_b is None or placed is None or placed[0]:
        return None
    _, step_c, _, by_engine, pairs = placed
    ragged = raggedness(form_a[1] * request.a.itemsize), raggedness(form_b[1] * request.a.itemsize)
    given = Problem(
        -(-m // groups), n, k, groups, 16, out.itemsize, form_a[0], form_b[0], not by_engine, where.processors,
        ragged=ragged,
    )  # fmt: skip
    plan = best_in_groups(given)
    tile = plan.tile
    by_threads = "pairs" if pairs else "elements"
    form = Form(
        form_a[0], form_b[0], "engine" if by_engine else by_threads, request.activation,
        grouped=True, edge=by_threads, table=groups <= MOST and has_room(tile, TABLE_BYTES),
        l2_fetch=128 if any(ragged) else 256, boxes_y=boxes_in_groups(tile, n, form_b[0]),
    )  # fmt: skip
    numbers = (
        m, n, k, groups, form_a[1], 0, form_b[1], form_b[2], step_c, 0, blocks_in_groups(given, plan.tile, m),
        plan.group, tile, form,
    )  # fmt: skip
    from .hopper import hopper

    def run(a: HostArray, b: HostArray, c: HostArray, offsets: HostArray, stream: object) -> None:
        hopper(a, b, c, None, None, None, None, None, *numbers, stream, offsets)

    return _arranged(request, out, run)


def _anywhere(request: Request, out: Array) -> Any:
    """`plain`, which takes everything."""
    from .plain import plain

    x, y = left(request), right(request)
    numbers = (
        request.m, request.n, request.k, request.batches, x.step, x.depth, 0, y.depth, y.step, y.batch,
        out.strides[0], out.strides[1], 0, request.activation,
    )  # fmt: skip

    def run(a: HostArray, b: HostArray, c: HostArray, offsets: HostArray, stream: object) -> None:
        plain(a, b, c, None, None, None, *numbers, (False, False), False, stream, offsets)

    return _arranged(request, out, run)


def _arranged(request: Request, out: Array, run: Any) -> Any:
    """A call whose arguments a jit function takes: arrays with a direction of stride 1."""
    lines = [1 not in x.strides for x in (request.a, request.b, out)]

    def run_arranged(a: HostArray, b: HostArray, c: HostArray, offsets: HostArray, stream: object) -> None:
        a, b, c = (in_line(x) if line else x for x, line in zip((a, b, c), lines, strict=True))
        run(a, b, c, packed(offsets), stream)

    return run_arranged


__all__ = ["grouped_matmul"]
