"""How an attention runs: which kernel, with what numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

from ..grids import fit as fit_a_grid
from ..matmul.arrays import Array, HostArray, in_line
from ..matmul.calls import Target
from ..matmul.workspace import Room, rooms
from .plan import EQUAL, FEW, MIXED, heads_together, parts_for, splits_for, threads_fetch, tile_for, tile_for_few
from .request import FP8, HALF, Request, factor_steps, factors_of
from .softmax import LOG2E
from .tile import Form, Tile, Turned, span

UNIT = 16
"""Bytes the copy engine counts in."""
_MOST = 256
"""Lengths whose plans are kept for calls of one kind."""


class Given(NamedTuple):
    """The arrays of a call."""

    q: HostArray
    k: HostArray
    v: HostArray
    out: HostArray
    lse: HostArray | None
    bias: HostArray | None
    alibi: HostArray | None
    sinks: HostArray | None
    cu_q: HostArray | None
    cu_k: HostArray | None
    used_k: HostArray | None
    table: HostArray | None
    descale: tuple[HostArray | None, HostArray | None, HostArray | None]
    drop: tuple[int, int, float]
    """Seed, cut and factor."""
    share: float | None = 1.0
    """The mean of the sequences' keys, of the longest one's; None where that is not known."""


Launch: TypeAlias = "Callable[..., None]"
"""A jit function, called with more numbers than a reader wants to see."""
Run: TypeAlias = "Callable[[Given, int, int, object], None]"
"""A call with the arrays, the longest sequences of queries and of keys, and the stream."""


class Plan(NamedTuple):
    """What calls of one kind launch for sequences of some length."""

    cut: Tile
    kind: Form
    rooms: tuple[Room | None, ...]
    """For parts' results and their heights, for counters, and for values that are turned."""
    numbers: tuple[int | float, ...]
    """Of the launch, from the steps of factors to the number of blocks."""
    turning: tuple[int | Turned, ...]
    """Those of the pass that turns values, if there is one."""
    split: bool
    many: bool
    """Parts are many."""


class Wanted(NamedTuple):
    """What a caller chooses in the plan's place, as benchmarks do; None is left to the plan."""

    tile: Tile | None = None
    by_threads: bool | None = None
    dynamic: bool | None = None
    splits: int | None = None


def strides_of(x: Array, packed: bool) -> tuple[int, int, int, int]:
    """Of the batch, of rows, of heads and of elements."""
    return (0, *x.strides) if packed else x.strides  # pyright: ignore[reportReturnType]


def decide(request: Request, out: Array, where: Target) -> Run:
    """The fastest kernel that can do it."""
    if where.hopper:
        found = on_hopper(request, out, where)
    elif where.target.has("amd"):
        from .amd.calls import on_amd

        found = on_amd(request, out, where)
    else:
        found = None
    return anywhere(request, out, where) if found is None else found


def engine_takes(x: Array) -> bool:
    """Whether the copy engine can read it: rows of 16-byte units."""
    unit = UNIT // x.itemsize
    steps = [s for s, e in zip(x.strides[:-1], x.shape[:-1], strict=True) if e > 1]
    return x.address % UNIT == 0 and x.strides[-1] == 1 and all(s % unit == 0 and s > 0 for s in steps)


def engine_strides(x: Array, packed: bool) -> tuple[int, int, int]:
    """Of rows, of heads and of the batch; where there is one of a kind its stride says nothing."""
    batch, row, head, _ = strides_of(x, packed)
    shape = (1, *x.shape) if packed else x.shape
    some = x.shape[-1]
    return tuple(some if e == 1 else s for s, e in zip((row, head, batch), (shape[1], shape[2], shape[0]), strict=True))  # pyright: ignore[reportReturnType]


def on_hopper(request: Request, out: Array, where: Target, wanted: Wanted | None = None) -> Run | None:
    """`hopper_attention`, for types of 8 and 16 bits whose rows are 16-byte units."""
    r, w = request, wanted or Wanted()
    size = r.q.itemsize
    if r.q.dtype not in (*HALF, *FP8) or r.k.dtype != r.q.dtype or r.d % (32 // size) or r.dv % 16:
        return None
    if r.bias is not None or r.alibi is not None or 0 in (r.keys, r.queries):
        return None
    if r.q.dtype in FP8 and not fit_a_grid(r.batches, r.kv_heads):
        return None
    factor = (r.softcap or r.scale) * LOG2E
    if not 1e-8 <= factor <= 1e8 or abs(r.scale) > 1e8 or (r.softcap and r.scale <= 0):
        # The mask's number must stay one.
        return None
    if not all(map(engine_takes, (r.q, r.k, r.v))):
        return None
    if out.strides[-1] != 1 or out.address % 4 or any(s % 2 for s in out.strides[:-1]):
        return None
    by_threads = threads_fetch(r.page, size, max(r.d, r.dv)) if w.by_threads is None else w.by_threads
    few = tile_for_few(r.d, r.dv, 0 if by_threads else r.page, size)
    if r.page and not by_threads and few.n % r.page and r.page % few.n:
        return None
    batch_out, row_out, head_out, _ = strides_of(out, r.packed_q)
    row_q, head_q, batch_q = engine_strides(r.q, r.packed_q)
    heads, queries, right = r.heads, r.queries, r.right
    packs = r.queries == 1 and not r.packed_q and r.left is None and r.sinks is None and not r.dropout
    packs = packs and factors_of(r.descale[0]) in (1, r.kv_heads)
    if packs:
        # The heads that share keys are rows of one tile; a single query sees all keys in any case.
        heads, queries, right = r.kv_heads, r.group, None
        row_q, head_q = head_q, r.group * head_q
        row_out, head_out = head_out, r.group * head_out
    unequal = right is not None or r.left is not None or r.packed_q or r.packed_k or r.used_k
    # A single query's tiles are read as memory gives them: whoever has been given more has time for another.
    dynamic = unequal or packs if w.dynamic is None else w.dynamic
    fixed = r.page if by_threads and r.page & (r.page - 1) == 0 else 0
    form = Form(
        right is not None, r.left is not None, r.softcap != 0, dynamic, r.packed_q, r.packed_k, r.used_k,
        min(r.page, 1 if by_threads else few.n), dropout=r.dropout, by_threads=by_threads, page_keys=fixed,
    )  # fmt: skip
    steps = (row_q, head_q, batch_q, *engine_strides(r.k, r.packed_k), *engine_strides(r.v, r.packed_k))
    lse_strides = (queries, 0 if r.packed_q else heads * queries)
    inner = r.scale / r.softcap if r.softcap else 0.0
    pages = (r.page, r.k.shape[0]) if r.page else (r.keys, 1 if r.packed_k else r.batches)
    rows = (queries, pages[0], 1 if r.packed_q else r.batches, pages[1])
    form_of_parts, form_of_engine = form._replace(split=True), form._replace(engine=True)
    form_that_picks = form_of_parts._replace(picks=True)
    # Where there is one of a kind its stride says nothing.
    out_strides = tuple(
        r.dv if e == 1 else s for s, e in zip((row_out, head_out, batch_out), (queries, heads, r.batches), strict=True)
    )
    by_engine = not r.packed_q and out.address % UNIT == 0 and all(s % 8 == 0 and s > 0 for s in out_strides)
    factor_strides = steps_of_factors(r, heads)
    table_row = r.keys // r.page if r.page else 0
    from .hopper import hopper_attention
    from .values import turn_values

    launch, turn = cast("Launch", hopper_attention), cast("Launch", turn_values)
    plans: dict[tuple[int, int, float | None, bool], Plan] = {}

    def plan(longest_q: int, longest_k: int, share: float | None, exact: bool) -> Plan:
        """`exact`: logarithms are given, too."""
        if packs:
            longest_q = queries
        cut = few if longest_q <= 64 or r.page else tile_for(r.d, r.dv, form, longest_q, size)
        cut = cut if w.tile is None else w.tile
        units = -(-longest_q // cut.m) * heads * r.batches
        blocks, steps_k = where.processors * cut.blocks, -(-longest_k // cut.n)
        lines = r.batches * heads * longest_q
        picks = False
        if r.packed_q:
            splits = told = 1
        elif w.splits:
            splits = told = w.splits
        elif cut.consumers == 1:
            shares = (share,) if share is not None else (1.0, MIXED)
            found = [parts_for(units, steps_k, lines, cut, where.processors, share) for share in shares]
            splits = told = max(found)
            if min(found) < splits:
                told, picks = found[0] * EQUAL + found[1], True
        else:
            splits = told = splits_for(units, steps_k, blocks)
        split_strides = (0, 0)
        kind = form_of_engine if by_engine and cut.has_room else form
        parts = heights = turned = None
        if splits > 1:
            parts = Room("attention parts", splits * lines * r.dv, "float32")
            heights = Room("attention heights", splits * lines, "float32")
            split_strides = (lines * r.dv, lines)
            kind = form_that_picks if picks else form_of_parts
        if exact or splits > 1:
            # Logarithms are to be what exact weights give.
            cut = cut.without_ones
        together = heads_together(longest_k, r.d, r.dv, heads, r.kv_heads, r.batches, form) if splits == 1 else 1
        counters = Room("attention", 2, "int32", True) if form.dynamic else None
        turning: tuple[int | Turned, ...] = ()
        if cut.fp8:
            count = r.keys // cut.n + r.batches if r.packed_k else -(-longest_k // cut.n) * r.batches
            turned = Room("attention values", r.kv_heads * count * cut.n * r.dv, r.v.dtype)
            turning = (
                longest_k, rows[1], r.batches, r.kv_heads, r.page, table_row, *steps[6:], _turned(r.dv, cut.n)
            )  # fmt: skip
        numbers = (
            *factor_strides, *rows, longest_q, longest_k, heads, r.kv_heads, r.batches, *steps, *out_strides,
            *lse_strides, told, *split_strides, r.page, table_row, together, right or 0, r.left or 0, factor, inner,
            min(units * splits, blocks),
        )  # fmt: skip
        return Plan(cut, kind, (parts, heights, counters, turned), numbers, turning, splits > 1, splits > FEW)

    def run(given: Given, longest_q: int, longest_k: int, stream: object) -> None:
        key = longest_q, longest_k, given.share, given.lse is not None
        known = plans.get(key)
        if known is None:
            if len(plans) >= _MOST:
                plans.clear()
            known = plans[key] = plan(*key)
        cut, kind, wanted, numbers, turning, split, many = known
        parts, heights, counters, turned = rooms(given.out, wanted, stream)
        more = {} if stream is None else {"stream": stream}
        if turning:
            turn(given.v, turned, given.cu_k, given.used_k, given.table, *turning, **more)
        result, lse, sinks, whole = given.out, given.lse, given.sinks, ()
        if split:
            result, lse, sinks, whole = parts, heights, None, (given.out, given.lse, given.sinks, many)
        launch(
            given.q, given.k, given.v, result, lse, sinks, given.cu_q, given.cu_k, given.used_k, given.table, counters,
            turned, *given.descale, *numbers, *given.drop, cut, kind, *whole, **more,
        )  # fmt: skip

    return run


@lru_cache(64)
def _turned(dv: int, n: int) -> Turned:
    """One constant for equal ones: calls with the very same one are served warm."""
    return Turned(dv, n, span(n, 1))


def anywhere(request: Request, out: Array, where: Target) -> Run:
    """`matrix_attention` for 16-bit types, where there are instructions for them; `plain_attention` for the rest."""
    from .matrix import matrix_attention, takes
    from .plain import Kind, plain_attention

    r = request
    kind = Kind(r.d, r.dv, r.left is not None, r.right is not None, r.softcap != 0, r.page > 0, r.dropout)
    steps = (
        *strides_of(r.q, r.packed_q), *strides_of(r.k, r.packed_k), *strides_of(r.v, r.packed_k),
        *strides_of(out, r.packed_q),
    )  # fmt: skip
    bias, alibi_batch, by = steps_of_bias(r), batch_of_slopes(r), steps_of_factors(r, r.heads)
    lse_strides = (r.queries, 0 if r.packed_q else r.heads * r.queries)

    halves = r.q.dtype in HALF and r.k.dtype == r.q.dtype and takes(kind, where.target)
    launch = cast("Launch", matrix_attention if halves else plain_attention)
    last = (kind, where.target.key()) if halves else (kind,)

    def run(given: Given, queries: int, keys: int, stream: object) -> None:
        more = () if stream is None else (stream,)
        table_row = 0 if given.table is None else given.table.shape[1]
        arrays = (lined(x) for x in (given.q, given.k, given.v, given.out))
        factors, places = ((), ()) if halves else (given.descale, by)
        launch(
            *arrays, given.lse, *factors, None if given.bias is None else lined(given.bias), given.alibi,
            given.sinks, given.cu_q, given.cu_k, given.used_k, given.table, r.batches, queries, keys, r.heads,
            max(r.kv_heads, 1), r.page, table_row, alibi_batch, *places, *steps, *bias, *lse_strides, r.left or 0,
            r.right or 0, r.scale, r.softcap, *given.drop, *last, *more,
        )  # fmt: skip

    return run


def steps_of_factors(r: Request, heads: int) -> tuple[int, ...]:
    """Of queries' factors from sequence to sequence and head to head, with the heads that share one; keys', values'."""
    (batch, head), *others = map(factor_steps, r.descale)
    return batch, head, max(1, heads // factors_of(r.descale[0])), *others[0], *others[1]


def steps_of_bias(r: Request) -> tuple[int, int, int, int]:
    """Of the batch, of rows, of heads and of elements."""
    if r.bias is None:
        return 0, 0, 0, 0
    missing = 4 - len(r.bias.shape)
    strides = [0] * missing + [s if e > 1 else 0 for s, e in zip(r.bias.strides, r.bias.shape, strict=True)]
    return strides[0], strides[2], strides[1], strides[3]


def batch_of_slopes(r: Request) -> int:
    """Slopes from one sequence to the next."""
    return r.heads if r.alibi is not None and len(r.alibi.shape) == 2 else 0


def lined(x: HostArray) -> HostArray:
    """An array that a jit function takes, whatever its strides: the kernel has them."""
    return in_line(x)


__all__ = [
    "Given",
    "Launch",
    "Run",
    "Wanted",
    "batch_of_slopes",
    "decide",
    "engine_takes",
    "on_hopper",
    "steps_of_bias",
]
