"""`grouped_matmul`: groups of rows, each times a matrix of its own, in one launch; only the device knows their ends."""

from __future__ import annotations

from typing import Any, NamedTuple

from .amd.calls import groups_on_amd
from .arrays import Array, HostArray, address, array_key, describe, empty, environment_key, in_line, packed
from .calls import in_fours, operand, packer
from .entry import target_of
from .grouped_request import along_k, arranged_scales, by_group, check_groups, kinds
from .groups import MOST, TABLE_BYTES
from .operands import Call, GroupsRun, Target, left, result_form, right
from .plan import Problem, best_in_groups, blocks_in_groups, raggedness
from .request import FNUZ, FP8, Request, check_apart, check_out
from .simt.calls import groups_on_simt
from .tile import Form, boxes_in_groups, has_room

_KEPT = 4096
_decided: dict[object, Decision] = {}


class Decision(NamedTuple):
    """A checked request, how it runs (None if there is nothing to do), and the bytes its arrays reach over."""

    request: Request
    run: GroupsRun | None
    reach: int
    reaches: tuple[int, ...]


_NAMES = ("a", "b", "offsets", "scale_a", "scale_b")


def grouped_matmul(
    a: HostArray,
    b: HostArray,
    offsets: HostArray,
    *,
    out: HostArray | None = None,
    activation: str | None = None,
    scale_a: HostArray | None = None,
    scale_b: HostArray | None = None,
    out_dtype: object = None,
    accumulate: str = "f32",
    stream: object = None,
) -> Any:
    """`activation((a[start:end] @ b[group]) * scale_a * scale_b)` for each group of rows, in `out` or in a fresh array.

    `a` is (M, K), its rows sorted by group, and `b` (groups, K, N), in any strides and of any one type of `matmul`, or
    both of fp8. `offsets` holds the end of every group (int32 or int64, where `a` is): group i has the rows from
    `offsets[i - 1]` to `offsets[i]`, and may have none. Nobody waits for it to be read; ends that fall or go beyond M
    are taken for the nearest ones that fit. Rows behind the last end are not written.

    Scales are float32. `scale_a` is one value, or (M,) for rows. `scale_b` is one value, (groups,), or (groups, N) for
    columns. Those of blocks come together, where K is a multiple of 128: `scale_a` (M, K / 128) for 128 elements of a
    row and `scale_b` (groups, K / 128, ceil(N / 128)) for 128 x 128. `accumulate` is as `matmul` has it.

    >>> a, b = np.ones((4, 3), "f4"), np.arange(6, dtype="f4").reshape(2, 3, 1)
    >>> grouped_matmul(a, b, np.array([1, 4], "i4")).ravel()
    array([ 3., 12., 12., 12.], dtype=float32)
    """
    arrays = a, b, offsets, scale_a, scale_b
    key = (*map(array_key, arrays), array_key(out), activation, out_dtype, accumulate, *environment_key())
    known = _decided.get(key)
    request = known.request if known else _check(*arrays, activation, out_dtype, accumulate)
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
        reaches = [0 if x is None else describe(name, x).reach for name, x in zip(_NAMES, arrays, strict=True)]
        known = _decided[key] = Decision(request, run, place.reach, tuple(reaches))
    if given:
        check_apart(address(out), known.reach, zip(_NAMES, arrays, known.reaches, strict=True), "grouped_matmul")
    if known.run is not None:
        known.run(Call(a, b, out, None, *arranged_scales(request, scale_a, scale_b), None, stream), packed(offsets))
    return out


def _check(
    a: HostArray,
    b: HostArray,
    offsets: HostArray,
    scale_a: HostArray | None,
    scale_b: HostArray | None,
    activation: str | None,
    out_dtype: object,
    accumulate: str,
) -> Request:
    scales = (None if x is None else describe(name, x) for name, x in (("scale_a", scale_a), ("scale_b", scale_b)))
    first, second, ends = describe("a", a), describe("b", b), describe("offsets", offsets)
    return check_groups(first, second, ends, next(scales), next(scales), activation, out_dtype, accumulate)


def _run(request: Request, out: Array, where: Target) -> GroupsRun:
    """The fastest kernel that can do it."""
    for choose in (groups_on_amd, _on_hopper, groups_on_simt):
        found = choose(request, out, where)
        if found is not None:
            return _arranged(request, out, found)
    return _arranged(request, out, _anywhere(request, out))


def _on_hopper(request: Request, out: Array, where: Target) -> GroupsRun | None:
    """`hopper`, for 16-bit and 8-bit types; operands that the copy engine does not take are packed first."""
    m, n, k, groups, size = request.m, request.n, request.k, request.batches, request.a.itemsize
    if not where.hopper or size > 2 or k == 0 or request.a.dtype in FNUZ:
        return None
    promote = request.a.dtype in FP8 and (request.blocked or request.accumulate == "f32")
    placed = result_form(request, out)
    if placed is None or placed[0] or (request.blocked and not promote):
        return None
    form_a, form_b = operand(left(request), k, 1, request.a), operand(right(request), k, groups, request.b)
    pack_a, pack_b = packer(form_a, request.a), packer(form_b, request.b)
    _, step_c, _, by_engine, pairs = placed
    ragged = raggedness(form_a.step * size), raggedness(form_b.step * size)
    given = Problem(
        -(-m // groups), n, k, groups, 8 * size, out.itemsize, form_a.major, form_b.major, not by_engine,
        where.processors, promote, request.blocked, ragged, integers=request.a.dtype == "int8",
    )  # fmt: skip
    plan = best_in_groups(given)
    tile = plan.tile._replace(factors=request.blocked)
    by_threads = "pairs" if pairs else "elements"
    form = Form(
        form_a.major, form_b.major, "engine" if by_engine else by_threads, request.activation, "", *kinds(request),
        promote, grouped=True, edge=by_threads, table=groups <= MOST and has_room(tile, TABLE_BYTES),
        l2_fetch=128 if any(ragged) else 256, boxes_y=boxes_in_groups(tile, n, form_b.major),
        quads=request.blocked and in_fours(request), by_group=by_group(request),
    )  # fmt: skip
    numbers = (
        m, n, k, groups, form_a.step, 0, form_b.step, form_b.batch, step_c, 0, blocks_in_groups(given, tile, m),
        plan.group, tile, form,
    )  # fmt: skip
    from .hopper import hopper

    def run(call: Call, offsets: HostArray) -> None:
        a, b, c, _, scale_a, scale_b, _, stream = call
        if request.blocked and scale_b is not None:
            scale_b = along_k(scale_b)
        a, b = pack_a(a, "a", stream), pack_b(b, "b", stream)
        hopper(a, b, c, None, scale_a, scale_b, None, None, *numbers, stream, offsets)

    return run


def _anywhere(request: Request, out: Array) -> GroupsRun:
    """`plain`, which takes everything."""
    from .plain import plain

    x, y = left(request), right(request)
    numbers = (
        request.m, request.n, request.k, request.batches, x.step, x.depth, 0, y.depth, y.step, y.batch,
        out.strides[0], out.strides[1], 0, request.activation,
    )  # fmt: skip
    single = tuple(kind == "one" for kind in kinds(request))
    blocked, own = request.blocked, by_group(request)

    def run(call: Call, offsets: HostArray) -> None:
        a, b, c, _, scale_a, scale_b, _, stream = call
        plain(a, b, c, None, scale_a, scale_b, *numbers, single, blocked, stream, offsets, None, own)

    return run


def _arranged(request: Request, out: Array, run: GroupsRun) -> GroupsRun:
    """A call whose arguments a jit function takes: arrays with a direction of stride 1."""
    lines = [1 not in x.strides for x in (request.a, request.b, out)]

    def run_arranged(call: Call, offsets: HostArray) -> None:
        a, b, c = (in_line(x) if line else x for x, line in zip(call[:3], lines, strict=True))
        run(call._replace(a=a, b=b, out=c), offsets)

    return run_arranged if any(lines) else run


__all__ = ["grouped_matmul"]
