"""Decoding with latent keys on AMD GPUs: `amd_attention`, with heads as rows and the keys' first columns as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...grids import fit as fit_a_grid
from ...matmul.arrays import Array, in_line
from ...matmul.calls import Target
from ...matmul.workspace import scratch
from ..amd.calls import REACH, of_pages, takes
from ..amd.plan import latent_tile, machine_for
from ..amd.tile import UNIT_BYTES
from ..calls import Launch
from ..plain import Kind
from ..plan import FEW, splits_for
from ..request import HALF, Request
from ..softmax import LOG2E

if TYPE_CHECKING:
    from .entry import Given, Run


def on_amd(
    request: Request, out: Array, rows_q: tuple[int, int], rows_out: tuple[int, int], where: Target
) -> Run | None:
    """For queries that see the same keys. Of `q` and of `out`, strides of rows and of sequences are given."""
    r, target = request, where.target
    if r.q.dtype not in HALF or r.k.dtype != r.q.dtype or (r.right is not None and r.queries > 1):
        return None
    machine = machine_for(target, r.q.dtype, r.q.itemsize, r.d)
    shared = target.caps.shared_mem_per_block or 0
    tile = None if machine is None else latent_tile(machine, r.d, r.dv, shared)
    if machine is None or tile is None:
        return None
    stored = min(machine.run * out.itemsize, UNIT_BYTES)
    if not takes(r.q, False) or not takes(r.k, False) or not takes(out, False, stored):
        return None
    if not fit_a_grid(r.batches * (r.dv // tile.dv), -(-r.queries * r.heads // tile.m)):
        return None
    if r.page and r.k.reach >= REACH:
        # Pages are anywhere in one descriptor's reach.
        return None
    factor = r.scale * LOG2E
    if not 1e-8 <= factor <= 1e8:
        # What is masked must stay so.
        return None
    if r.page & (r.page - 1) == 0:
        tile = of_pages(tile, r.page)
    kind = Kind(r.d, r.dv, False, False, False, r.page > 0, False)
    rows = r.queries * r.heads
    of_q, of_out = ((batch, row, row) for row, batch in (rows_q, rows_out))
    row_k = r.k.strides[1] if r.k.shape[1] > 1 else r.d
    of_k = (r.k.strides[0], row_k, row_k)
    paged = (r.k.reach, r.k.reach) if r.page else (0, 0)
    from ..amd.entry import amd_attention
    from ..combine import combine

    launch, gather = cast("Launch", amd_attention), cast("Launch", combine)
    no_factors = (0, 0, 1, 0, 0, 0, 0)

    def run(given: Given, keys: int, stream: object) -> None:
        more = () if stream is None else (stream,)
        units = -(-rows // tile.m) * r.batches * (r.dv // tile.dv)
        splits = splits_for(units, -(-keys // tile.n), where.processors)
        result, lse, steps_out, apart = in_line(given.out), given.lse, of_out, (0, 0)
        if splits > 1:
            lines = r.batches * rows
            result = scratch(given.out, "latent parts", splits * lines * r.dv, "float32", stream)
            lse = scratch(given.out, "latent heights", splits * lines, "float32", stream)
            steps_out, apart = (rows * r.dv, r.dv, r.dv), (lines * r.dv, lines)
        table_row = 0 if given.table is None else given.table.shape[1]
        kv = in_line(given.kv)
        launch(
            in_line(given.q), kv, kv, result, lse, *[None] * 8, given.used_k, given.table, r.batches, rows, keys, 1, 1,
            splits, r.page, table_row, 0, *no_factors, *of_q, *of_k, *of_k, *steps_out, 0, 0, 0, 0, rows, rows, *apart,
            *paged, 0, 0, r.scale, 0.0, factor, 0, 0, 1.0, tile, machine, kind, *more,
        )  # fmt: skip
        if splits > 1:
            row_out, batch_out = rows_out
            gather(
                result, lse, in_line(given.out), given.lse, None, splits, r.batches, rows, 1, batch_out, row_out, 0,
                r.dv, splits > FEW, *more,
            )  # fmt: skip

    return run


__all__ = ["on_amd"]
