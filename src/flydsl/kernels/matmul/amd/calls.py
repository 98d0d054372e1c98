"""How a request runs on an AMD GPU: operands in rows of 16-byte units, packed where they are not, and the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..arrays import Array, HostArray
from ..grouped_request import by_group, kinds
from ..operands import Call, GroupsRun, Matrix, Run, Target, left, result_form, right, scale_form
from ..pack import Packing
from ..request import Request
from ..workspace import scratch
from .kernel import BLOCK, EACH, UNIT_BYTES, Form, Tile
from .plan import Given, best, form_for

REACH = 1 << 31
"""Bytes that a descriptor reaches over; the rows of a tile must be within."""
TALLEST = 256


class Rows(NamedTuple):
    """An operand's rows: the step from one to the next and that of the batch, and how they are packed if they must."""

    step: int
    batch: int
    packing: Packing | None = None


def rows_of(x: Matrix, k: int, batches: int, array: Array) -> Rows:
    """As they are where they lie in 16-byte units along K; else packed into such, with zeros behind K."""
    unit = UNIT_BYTES // array.itemsize
    batch = 0 if batches == 1 else x.batch
    step = -(-k // unit) * unit if x.rows == 1 else x.step
    if (
        (x.depth == 1 or k == 1)
        and k % unit == step % unit == batch % unit == array.address % UNIT_BYTES == 0
        and step >= k
        and batch >= 0
    ):
        return Rows(step, batch)
    packing = Packing(x.rows, k, batches if batch else 1, x.step, x.depth, batch)
    pitch = packing.pitch(array.itemsize)
    return Rows(pitch, packing.lines * pitch if batch else 0, packing)


def packer(rows: Rows, array: Array) -> Callable[[HostArray, str, object], HostArray]:
    packing = rows.packing
    if packing is None:
        return lambda x, what, stream: x
    across = packing.step == 1 and packing.inner != 1
    from ..pack import pack

    def run(x: HostArray, what: str, stream: object) -> HostArray:
        target = scratch(x, what, packing.elements(array.itemsize), array.dtype, stream)
        numbers = (
            packing.lines, packing.length, packing.batches, packing.step, packing.inner, packing.batch, rows.step
        )  # fmt: skip
        more = () if stream is None else (stream,)
        pack(x, target, *numbers, across, "", *more)
        return target

    return run


def store_width(form: Form, columns: int, step: int, batch: int, out: Array) -> int:
    """Neighbouring elements of C that can be stored at once."""
    for width in (8, 4, 2):
        if width <= form.store and width * out.itemsize <= UNIT_BYTES:
            whole = columns % width == step % width == batch % width == 0
            if whole and out.address % (width * out.itemsize) == 0:
                return width
    return 1


def extra_names(request: Request, flip: bool) -> tuple[str, ...]:
    """What goes with a product, in the order the kernel takes it; operands are exchanged where C is turned."""
    scales = ("", "") if request.blocked else (scale_form(request.scale_a), scale_form(request.scale_b))
    names: list[str] = []
    if request.bias is not None:
        names.append("bias:rows" if flip else "bias")
    for name, kind in zip(("scale_a", "scale_b"), scales[::-1] if flip else scales, strict=True):
        if kind:
            names.append(f"{name}:one" if kind == "one" else name)
    if request.scale_out is not None:
        names.append("scale_out")
    return tuple(names)


def group_names(request: Request) -> tuple[str, ...]:
    """The same for groups."""
    if request.blocked:
        return ()
    of_a, of_b = kinds(request)
    names = [f"scale_a:{of_a}" if of_a == "one" else "scale_a"] if of_a else []
    if of_b:
        several = "groups" if of_b == "rows" else "group"
        names.append(f"scale_b:{several if by_group(request) else 'one'}")
    return tuple(names)


class Placed(NamedTuple):
    """What the kernel is called with besides arrays, and whether operands are exchanged for a turned result."""

    numbers: tuple[int, int, int, int, int, int, int, int, int, int, int, int]
    tile: Tile
    form: Form
    rows_a: Rows
    rows_b: Rows
    flip: bool
    sums: int
    """Elements that sums of slices of K take; none where K is in one piece."""


def placed(request: Request, out: Array, where: Target, form: Form) -> Placed | None:
    """How the kernel of a form does it; None where rows are too far apart, or not in one piece."""
    target = where.target
    found = result_form(request, out)
    if found is None:
        return None
    flip, step_c, batch_c, _, _ = found
    if flip and (form.shuffled or form.grouped or form.blocked):
        return None
    if form.blocked and max(x.reach for x in (request.scale_a, request.scale_b) if x is not None) >= REACH:
        return None
    k, batches, size = request.k, request.batches, request.a.itemsize
    rows_a = rows_of(left(request), k, 1 if form.grouped else batches, request.a)
    rows_b = Rows(right(request).step, 0) if form.shuffled else rows_of(right(request), k, batches, request.b)
    m, n, first, second = request.m, request.n, rows_a, rows_b
    if flip:
        m, n, first, second = n, m, rows_b, rows_a
    if max(first.step * size, second.step * size, step_c * out.itemsize) * TALLEST >= REACH:
        return None
    unit = UNIT_BYTES // size
    k = -(-k // unit) * unit
    shared = target.caps.shared_mem_per_block or 65536
    # Groups are of the average length to the model.
    high = -(-m // batches) if form.grouped else m
    given = Given(high, n, k, batches, size, out.itemsize, where.processors, shared, BLOCK if form.blocked else 1)
    plan = best(given, target, form, request.invariant)
    form = form._replace(
        store=store_width(form, n, step_c, batch_c, out),
        extras=group_names(request) if form.grouped else extra_names(request, flip),
        activation=request.activation,
        dies=plan.dies,
    )
    numbers = (
        m, n, k, batches, first.step, second.step, step_c, first.batch, second.batch, batch_c, plan.group, plan.length,
    )  # fmt: skip
    sums = batches * plan.slices * m * -(-n // EACH) * EACH if plan.slices > 1 else 0
    return Placed(numbers, plan.tile, form, rows_a, rows_b, flip, sums)


def on_amd(request: Request, out: Array, where: Target, shuffled: bool = False) -> Run | None:
    """The kernel of matrix instructions, for all types that there is one for; B may be laid out for it."""
    target = where.target
    if not target.has("amd") or request.k == 0 or request.a.dtype != request.b.dtype:
        return None
    form = form_for(target, request.a.dtype)
    if form is None:
        return None
    found = placed(request, out, where, form._replace(shuffled=shuffled, blocked=request.blocked))
    if found is None:
        return None
    numbers, tile, form, rows_a, rows_b, flip, sums = found
    pack_a, pack_b = packer(rows_a, request.a), packer(rows_b, request.b)
    kind = "int32" if request.a.dtype == "int8" and not request.blocked else "float32"
    from .entry import amd_matmul

    def run(call: Call) -> None:
        a, b, c, bias, scale_a, scale_b, scale_out, stream = call
        a, b = pack_a(a, "a", stream), pack_b(b, "b", stream)
        if flip:
            a, b, scale_a, scale_b = b, a, scale_b, scale_a
        more: dict[str, object] = {} if stream is None else {"stream": stream}
        if sums:
            more["parts"] = scratch(c, "sums", sums, kind, stream)
        if request.blocked:
            more.update(blocks_w=scale_b, blocks_a=scale_a)
            scale_a = scale_b = None
        amd_matmul(a, b, c, bias, scale_a, scale_b, scale_out, *numbers, tile, form, **more)

    return run


def groups_on_amd(request: Request, out: Array, where: Target) -> GroupsRun | None:
    """The same for groups of rows, each with a matrix of B; `request.batches` are the groups."""
    target = where.target
    if not target.has("amd") or request.k == 0 or request.a.dtype != request.b.dtype:
        return None
    form = form_for(target, request.a.dtype)
    if form is None:
        return None
    found = placed(request, out, where, form._replace(grouped=True, blocked=request.blocked))
    if found is None:
        return None
    numbers, tile, form, rows_a, rows_b, _, _ = found
    pack_a, pack_b = packer(rows_a, request.a), packer(rows_b, request.b)
    from .entry import amd_matmul

    def run(call: Call, offsets: HostArray) -> None:
        a, b, c, _, scale_a, scale_b, _, stream = call
        a, b = pack_a(a, "a", stream), pack_b(b, "b", stream)
        more: dict[str, object] = {} if stream is None else {"stream": stream}
        if request.blocked:
            more.update(blocks_w=scale_b, blocks_a=scale_a)
            scale_a = scale_b = None
        amd_matmul(a, b, c, None, scale_a, scale_b, None, *numbers, tile, form, **more, offsets=offsets)

    return run


__all__ = ["groups_on_amd", "on_amd"]
