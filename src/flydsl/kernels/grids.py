"""Grids of any extent: the second and third direction have at most 65535 blocks, on NVIDIA's GPUs as on AMD's.

What may be more of them, as sequences or matrices, is spread over both; few blocks are too many then, and have nothing
to do. The first direction has room for all that memory has room for.
"""

from __future__ import annotations

import flydsl.expr as fx

MOST = 65535
"""Blocks of a grid's second and third direction."""


def fit(*extents: int) -> bool:
    """Whether a grid's second or third direction has so many blocks; for kernels that leave more to others."""
    return max(extents) <= MOST


def spread(count: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
    """The second and third extent of a grid for so many; `number` is which of them a block has."""
    slices = fx.max(fx.ceildiv(count, MOST), 1)
    return fx.ceildiv(count, slices), slices


def number() -> fx.Int32:
    """Which one a block has; there is none of the last numbers."""
    return fx.block_idx.z * fx.grid_dim.y + fx.block_idx.y


__all__ = ["MOST", "fit", "number", "spread"]
