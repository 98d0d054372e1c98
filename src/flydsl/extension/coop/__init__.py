"""`fx.coop`: reductions and scans over the threads of a warp and of a block.

`fx.coop.universal` is the same surface, without what a target overrides. No target overrides anything yet.
"""

from __future__ import annotations

from . import universal
from .universal import (
    BlockReduce,
    BlockReduceAlgorithm,
    BlockScan,
    BlockScanAlgorithm,
    warp_exclusive_scan,
    warp_inclusive_scan,
    warp_reduce,
    warp_scan,
    warp_scan_with_aggregate,
)

__all__ = [
    "BlockReduce",
    "BlockReduceAlgorithm",
    "BlockScan",
    "BlockScanAlgorithm",
    "universal",
    "warp_exclusive_scan",
    "warp_inclusive_scan",
    "warp_reduce",
    "warp_scan",
    "warp_scan_with_aggregate",
]
