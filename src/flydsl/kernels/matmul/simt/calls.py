"""How a product of float32 runs by FMA on an NVIDIA GPU: how operands come, which is which, and the tile."""

from __future__ import annotations

from typing import NamedTuple

from flydsl.target import architecture

from ..arrays import Array, HostArray
from ..grouped_request import by_group, kinds
from ..groups import MOST
from ..operands import UNIT, Call, GroupsRun, Matrix, Run, Target, left, right, scale_form
from ..request import Request
from ..workspace import scratch
from .plan import Plan, Problem, best
from .tile import ACROSS, ALONG, DEEP, SINGLE, Form

NARROW = 16
"""Columns of a result that is turned: lanes lie 4 x 8, and tiles of few rows are there, of few columns are not."""
SHARED = 99 << 10
"""Bytes of shared memory a block may have where nothing more is known."""


def form_of(x: Matrix, k: int, batches: int, array: Array) -> str:
    """How an operand comes: in units along k, or along its rows, where all of them are aligned; else by elements, along
    what lies in one piece."""
    batch = 0 if batches == 1 else x.batch
    aligned = array.address % UNIT == 0 and batch % 4 == 0
    if x.depth == 1 or k == 1:
        return DEEP if aligned and (x.step % 4 == 0 or x.rows == 1) else ACROSS
    if x.step == 1 or x.rows == 1:
        return ALONG if aligned and x.depth % 4 == 0 else SINGLE
    return ACROSS if x.depth < x.step else SINGLE


class Turned(NamedTuple):
    """A request as the kernel takes it, D = X Y^T: `turned` if the rows of D are columns of the result."""

    turned: bool
    x: Matrix
    y: Matrix
    row: int
    column: int
    batch: int


def turned(request: Request, out: Array) -> Turned:
    """Y is what has columns of the result that lie in one piece, unless there are few of them."""
    x, y = left(request), right(request)
    row, column = out.strides[-2:]
    batch = out.strides[0] if len(out.shape) == 3 and request.batches > 1 else 0
    by_columns = column != 1 and request.n > 1 and row == 1
    if by_columns or (request.n <= NARROW < request.m):
        return Turned(True, y, x, column, row, batch)
    return Turned(False, x, y, row, column, batch)


def shared_of(where: Target) -> int:
    """Bytes of shared memory that a block may have."""
    entry = architecture(where.target.arch)
    return (entry and entry.shared_mem_optin) or SHARED


def problem_of(request: Request, out: Array, where: Target) -> Problem:
    how = turned(request, out)
    a, b = (request.b, request.a) if how.turned else (request.a, request.b)
    shared = shared_of(where)
    k, batches = request.k, request.batches
    x, y = form_of(how.x, k, batches, a), form_of(how.y, k, batches, b)
    return Problem(how.x.rows, how.y.rows, k, batches, x, y, out.itemsize, where.processors, shared)


def on_simt(request: Request, out: Array, where: Target) -> Run | None:
    """`simt`, for float32 that is multiplied as it is."""
    if not where.target.has("cp_async") or request.a.dtype != "float32" or request.blocked:
        return None
    given = problem_of(request, out, where)
    return run_plan(request, out, where, given, best(given, request.invariant))


def in_quads(given: Problem, rows: int, row: int, column: int, batch: int, out: Array) -> bool:
    """Whether C takes four elements of a row at once, with so many rows and these strides."""
    return (
        given.y != DEEP
        and (column == 1 or given.n == 1)
        and given.n % 4 == 0
        and (row % 4 == 0 or rows == 1)
        and batch % 4 == 0
        and out.address % (4 * out.itemsize) == 0
    )


def groups_on_simt(request: Request, out: Array, where: Target) -> GroupsRun | None:
    """The same for groups of rows, each with a matrix of B; K is summed in one piece. To the model all groups have the
    average length."""
    if not where.target.has("cp_async") or request.a.dtype != "float32" or request.blocked:
        return None
    m, n, k, groups = request.m, request.n, request.k, request.batches
    x, y = left(request), right(request)
    forms = form_of(x, k, 1, request.a), form_of(y, k, groups, request.b)
    given = Problem(-(-m // groups), n, k, groups, *forms, out.itemsize, where.processors, shared_of(where))
    plan = best(given, True)
    row, column = out.strides
    form = Form(
        *forms, in_quads(given, m, row, column, 0, out), request.activation, "", *kinds(request),
        overlap=where.target.has("dependent_launch"), grouped=True, table=groups <= MOST, by_group=by_group(request),
    )  # fmt: skip
    numbers = (
        m, n, k, groups, x.step, x.depth, 0, y.step, y.depth, y.batch, row, column, 0, plan.group, 1, plan.tile, form
    )  # fmt: skip
    from .kernel import simt

    def run(call: Call, offsets: HostArray) -> None:
        a, b, c, _, scale_a, scale_b, _, stream = call
        more = {} if stream is None else {"stream": stream}
        simt(a, b, c, None, scale_a, scale_b, None, None, *numbers, **more, offsets=offsets)

    return run


def run_plan(request: Request, out: Array, where: Target, given: Problem, plan: Plan) -> Run:
    """The kernel with a plan's numbers."""
    flip, x, y, row, column, batch = turned(request, out)
    quads = in_quads(given, given.m, row, column, batch, out)
    scale_x, scale_y = scale_form(request.scale_a), scale_form(request.scale_b)
    if flip:
        scale_x, scale_y = scale_y, scale_x
    form = Form(
        given.x, given.y, quads, request.activation, "" if request.bias is None else "rows" if flip else "columns",
        scale_x, scale_y, plan.slices > 1, plan.sharers, flip,
        where.target.has("dependent_launch"),
    )  # fmt: skip
    batches = [0 if given.batches == 1 else side.batch for side in (x, y)]
    numbers = (
        given.m, given.n, given.k, given.batches, x.step, x.depth, batches[0], y.step, y.depth, batches[1], row, column,
        batch, plan.group, plan.slices, plan.tile, form,
    )  # fmt: skip
    floats, counts = plan.sums(given)
    from .kernel import simt

    def run(call: Call) -> None:
        a, b, c, bias, scale_a, scale_b, scale_out, stream = call
        if flip:
            a, b, scale_a, scale_b = b, a, scale_b, scale_a
        work = counters = None
        if counts:
            work = scratch(c, "sums", floats, "float32", stream)
            counters = scratch(c, "counters", counts, "int32", stream, zero=True)
        more = {} if stream is None else {"stream": stream}
        if scale_out is not None:
            more["scale_out"] = scale_out
        simt(a, b, c, bias, scale_a, scale_b, work, counters, *numbers, **more)

    return run


__all__ = ["groups_on_simt", "on_simt", "problem_of", "run_plan"]
