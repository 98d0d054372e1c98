"""How a request runs on an AMD GPU: whether the kernel takes it, in what tile, in how many parts of the keys."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from ...grids import fit as fit_a_grid
from ...matmul.arrays import Array, in_line
from ...matmul.operands import Target
from ...matmul.workspace import scratch
from .. import calls
from ..plain import Kind
from ..plan import FEW, splits_for
from ..request import FP8, HALF, Request, factors_of
from ..softmax import LOG2E
from .plan import machine_for, tile_for
from .tile import UNIT_BYTES, Tile

REACH = 1 << 31
"""Bytes that a descriptor reaches over."""
TALLEST = 256
"""Rows of a tile, or of a step, at most."""


def steps_of(x: Array, packed: bool) -> tuple[int, int, int]:
    """Strides of the batch, of rows and of heads; where there is one of a kind its stride says nothing."""
    strides = calls.strides_of(x, packed)[:3]
    shape = ((1, *x.shape) if packed else x.shape)[:3]
    return tuple(s if e > 1 else one for s, e, one in zip(strides, shape, (0, x.shape[-1], x.shape[-1]), strict=True))  # pyright: ignore[reportReturnType]


def takes(x: Array, packed: bool, width: int = UNIT_BYTES) -> bool:
    """Whether rows are units of so many bytes that do not overlap, those of a tile within a descriptor's reach."""
    batch, row, head = steps = steps_of(x, packed)
    if x.address % width or x.strides[-1] != 1 or any(s * x.itemsize % width for s in steps):
        return False
    return batch >= 0 and head >= 0 and row >= x.shape[-1] and row * x.itemsize * TALLEST < REACH


@lru_cache(256)
def of_pages(tile: Tile, page: int) -> Tile:
    """One constant for equal ones: calls with the very same one are served warm."""
    return tile._replace(page=page)


def on_amd(request: Request, out: Array, where: Target) -> calls.Run | None:
    """`amd_attention`, for types of 16 bits and, where there is an instruction for them, of 8."""
    r = request
    size, target = r.q.itemsize, where.target
    if not target.has("amd") or r.q.dtype not in (*HALF, *FP8) or r.k.dtype != r.q.dtype or 0 in (r.keys, r.queries):
        return None
    machine = machine_for(target, r.q.dtype, size, r.d, r.heads)
    shared = target.caps.shared_mem_per_block or 0
    first = None if machine is None else tile_for(machine, r.d, r.dv, r.queries, shared)
    if machine is None or first is None:
        return None
    if not fit_a_grid(r.batches * (r.dv // first.dv), 0 if r.packed_q else -(-r.queries // first.m)):
        return None
    arrays = ((r.q, r.packed_q), (r.k, r.packed_k), (r.v, r.packed_k))
    stored = min(machine.run * out.itemsize, UNIT_BYTES)
    if not all(takes(*x) for x in arrays) or not takes(out, r.packed_q, stored):
        return None
    if r.page and max(r.k.reach, r.v.reach) >= REACH:
        # Pages are anywhere in one descriptor's reach.
        return None
    factor = r.scale * LOG2E
    changes = r.softcap != 0 or r.bias is not None or r.alibi is not None
    if not changes and not 1e-8 <= factor <= 1e8:
        # What is masked must stay so.
        return None
    kind = Kind(r.d, r.dv, r.left is not None, r.right is not None, r.softcap != 0, r.page > 0, r.dropout)
    of_q, of_k, of_v, of_out = (steps_of(*x) for x in (*arrays, (out, r.packed_q)))
    heads, queries, right = r.heads, r.queries, r.right
    packs = r.queries == 1 and not r.packed_q and r.left is None and not changes and not r.dropout
    packs = packs and r.sinks is None and factors_of(r.descale[0]) in (1, r.kv_heads)
    if packs:
        # The heads that share keys are rows of one tile; a single query sees all keys in any case.
        heads, queries, right = r.kv_heads, r.group, None
        of_q, of_out = ((x[0], x[2], r.group * x[2]) for x in (of_q, of_out))
        kind = kind._replace(right=False)
        machine = machine_for(target, r.q.dtype, size, r.d, heads)
        assert machine is not None
    bias, alibi_batch, by = calls.steps_of_bias(r), calls.batch_of_slopes(r), calls.steps_of_factors(r, heads)
    lse_strides = (queries, 0 if r.packed_q else heads * queries)
    paged = (r.k.reach, r.v.reach) if r.page else (0, 0)
    from ..combine import combine
    from .entry import amd_attention

    launch, gather = cast("calls.Launch", amd_attention), cast("calls.Launch", combine)

    def run(given: calls.Given, longest_q: int, longest_k: int, stream: object) -> None:
        if packs:
            longest_q = queries
        tile = tile_for(machine, r.d, r.dv, longest_q, shared)
        assert tile is not None
        if r.page & (r.page - 1) == 0:
            tile = of_pages(tile, r.page)
        more = () if stream is None else (stream,)
        units = -(-longest_q // tile.m) * heads * r.batches
        splits = 1 if r.packed_q or r.dropout else splits_for(units, -(-longest_k // tile.n), 2 * where.processors)
        result, lse, sinks, steps_out, apart = in_line(given.out), given.lse, given.sinks, of_out, (0, 0)
        if splits > 1:
            lines = r.batches * heads * longest_q
            result = scratch(given.out, "attention parts", splits * lines * r.dv, "float32", stream)
            lse = scratch(given.out, "attention heights", splits * lines, "float32", stream)
            steps_out, apart, sinks = (heads * longest_q * r.dv, r.dv, longest_q * r.dv), (lines * r.dv, lines), None
        table_row = 0 if given.table is None else given.table.shape[1]
        launch(
            *map(in_line, (given.q, given.k, given.v)), result, lse, *given.descale,
            None if given.bias is None else in_line(given.bias), given.alibi, sinks, given.cu_q, given.cu_k,
            given.used_k, given.table, r.batches, longest_q, longest_k, heads, r.kv_heads, splits, r.page, table_row,
            alibi_batch, *by, *of_q, *of_k, *of_v, *steps_out, *bias, *lse_strides, *apart, *paged,
            r.left or 0, right or 0, r.scale, r.softcap, factor, *given.drop, tile, machine, kind, *more,
        )  # fmt: skip
        if splits > 1:
            gather(
                result, lse, in_line(given.out), given.lse, given.sinks, splits, r.batches, longest_q, heads,
                of_out[0], of_out[1], of_out[2], r.dv, splits > FEW, *more,
            )  # fmt: skip

    return run


__all__ = ["on_amd"]
