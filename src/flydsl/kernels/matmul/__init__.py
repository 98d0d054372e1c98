"""Matrix products: `matmul` picks the kernel and its tile from extents, types, layout and device."""

from __future__ import annotations

from .entry import matmul
from .grouped import grouped_matmul

__all__ = ["grouped_matmul", "matmul"]
