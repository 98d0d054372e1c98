"""Whether a launch can be made at all, as far as its extents are known while it is traced.

What is known at run time only is checked by the host function before it calls the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import DSLValueError
from ...target import BUILTIN_STACKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...target import GPUTarget

LARGEST = 2**31 - 1
"""Of any extent: drivers take 32 bits."""


def check_extent(what: str, number: int) -> None:
    """Refuse a constant extent that no driver takes."""
    if number < 0:
        raise DSLValueError(f"{what} extents cannot be negative, got {number}")
    if number > LARGEST:
        shown = str(number) if number.bit_length() <= 256 else f"a number of {number.bit_length()} bits"
        raise DSLValueError(f"{what} extents are at most {LARGEST}, got {shown}")


def check_geometry(kernel: str, target: GPUTarget, grid: Sequence[object], block: Sequence[object]) -> None:
    """Refuse a grid or a block that the target cannot launch; extents that are no ints are not known yet."""
    threads = [b for b in block if isinstance(b, int)]
    if 0 in threads:
        raise DSLValueError(f"launch of {kernel}: block {_shown(block)} has no threads")
    if target.backend not in BUILTIN_STACKS:
        return
    caps = target.caps
    count = 1
    for axis, extent, limit in zip("xyz", block, caps.max_block_dim, strict=True):
        if isinstance(extent, int) and extent > limit:
            raise DSLValueError(
                f"launch of {kernel}: block {_shown(block)} is too large for {target.arch}: "
                f"{axis} is at most {limit}, got {extent}; use more blocks"
            )
        count *= extent if isinstance(extent, int) else 1
    if count > caps.max_threads_per_block:
        raise DSLValueError(
            f"launch of {kernel}: block {_shown(block)} has {count} threads, "
            f"a block of {target.arch} has at most {caps.max_threads_per_block}; use more blocks"
        )
    for axis, blocks, extent, limit in zip("xyz", grid, block, caps.max_grid_dim, strict=True):
        if not isinstance(blocks, int) or target.on_host:
            continue
        if target.has("nvidia") and blocks > limit:
            raise DSLValueError(
                f"launch of {kernel}: grid {_shown(grid)} is too large for {target.arch}: "
                f"{axis} is at most {limit}, got {blocks}"
            )
        if target.has("amd") and isinstance(extent, int) and blocks * extent >= 2**32:
            raise DSLValueError(
                f"launch of {kernel}: grid {_shown(grid)} of blocks {_shown(block)} has {blocks * extent} threads "
                f"along {axis}, {target.arch} counts them in 32 bits"
            )


def _shown(extents: Sequence[object]) -> str:
    return "(" + ", ".join(str(e) if isinstance(e, int) else "?" for e in extents) + ")"
