"""Which instruction and which tile an attention takes on an AMD GPU: by features of the architecture and extents.

Tiles leave registers for two waves of 64 on a SIMD, of two blocks: one's softmax runs while another's products do.
"""

from __future__ import annotations

from functools import lru_cache

from flydsl.target import GPUTarget

from ...matmul.amd.kernel import DIES
from ...matmul.amd.plan import form_for
from .tile import Machine, Tile, problem, shared_bytes

FEW = 16
"""Queries for which a wave has all; the other waves of a block only bring keys."""

MOST = 128
"""Registers of a lane for queries and sums, where it has 256 in all: of 16 rows in a wave of 32 lanes."""


@lru_cache(256)
def machine_for(target: GPUTarget, dtype: str, size: int, d: int, heads: int = 1) -> Machine | None:
    """The instruction for a type; None where there is none whose results are operands as they are."""
    form = form_for(target, dtype)
    if form is None or form.doubled or form.instruction not in ("mfma", "mfma_scale", "wmma") or size > 2:
        return None
    turns = target.has("lds_read_transpose")
    if size == 1 and not turns:
        return None
    instruction, depth = form.instruction, form.atom_k
    if instruction == "mfma_scale" and d % depth:
        instruction, depth = "mfma", 32
    dies = DIES if target.has("xcc_id") and heads % DIES == 0 else 1
    return Machine(
        instruction,
        depth,
        size,
        form.lanes,
        form.direct == "buffer" and turns,
        form.wait,
        target.has("cvt_sr_bf16"),
        dies,
        target.has("permlane32_swap"),
    )


@lru_cache(1024)
def tile_for(machine: Machine, d: int, dv: int, queries: int, shared: int) -> Tile | None:
    """The tile for heads of `d` and `dv` elements; None if there is none for them."""
    wide = max(d, dv)
    if machine.lanes == 32:
        tile = Tile(d, dv, 64 if wide <= 64 else 32, 16, 4 if queries <= 4 * 16 else 8)
        # Registers of queries and sums. Where they are too many, two blocks have half of the values' columns each.
        if d // 4 + dv // 2 > MOST:
            tile = tile._replace(dv=dv // 2)
    else:
        rows = 32 if wide <= 192 and queries > FEW else 16
        n = 128 if wide <= 64 else 64 if wide <= 128 else 32
        tile = Tile(d, dv, max(n, 128) if machine.size == 1 else n, rows)
    return None if problem(tile, machine, shared) else tile


@lru_cache(256)
def latent_tile(machine: Machine, d: int, dv: int, shared: int) -> Tile | None:
    """The tile for rows of `d` elements whose first `dv` are the value: short steps, and as many blocks to share the
    values' columns as registers ask for. Waves of 32 lanes have too few of them for the queries."""
    if machine.lanes == 32 or d % machine.step:
        return None
    parts = next((p for p in range(1, dv // 16 + 1) if dv % (16 * p) == 0 and dv // p <= 256), None)
    if parts is None:
        return None
    tile = Tile(d, dv // parts, max(32, machine.span, 16 * machine.each // machine.run), 16)
    return tile if shared_bytes(tile, machine) <= shared else None


__all__ = ["latent_tile", "machine_for", "tile_for"]
