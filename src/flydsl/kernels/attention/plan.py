"""Which tile a Hopper attention takes, and in which order tiles are walked."""

from __future__ import annotations

from .tile import Form, Tile

L2_BYTES = 32 << 20
"""What keys and values of heads that are walked together may take."""


def tile_for(d: int, dv: int, form: Form, queries: int) -> Tile:
    """The fastest by measurement on an H200, by what is multiplied and whether steps are masked."""
    wide = max(d, dv)
    masked = form.right or form.left
    few = 1 if queries <= 64 else 2
    if wide <= 64:
        return Tile(d, dv, 128, few if queries <= 128 else 3)
    if wide <= 96:
        return Tile(d, dv, 128, few)
    if wide <= 128:
        return Tile(d, dv, 128 if masked or form.softcap else 160, few)
    if wide <= 192:
        return Tile(d, dv, 96, few)
    return Tile(d, dv, 64 if masked or form.softcap else 80, few)


def heads_together(keys: int, d: int, dv: int, heads: int, kv_heads: int, batches: int, form: Form) -> int:
    """Heads whose keys and values fit into L2 together; tiles of the same length follow each other if they differ."""
    if not (form.right or form.left):
        return 1
    one = max(1, 2 * keys * (d + dv))
    return max(1, min(heads * batches, max(1, L2_BYTES // one) * (heads // kv_heads)))


__all__ = ["heads_together", "tile_for"]
