"""Reductions and scans that work on every target: shuffles inside a warp, shared memory between warps."""

from __future__ import annotations

from .block import BlockReduce, BlockReduceAlgorithm, BlockScan, BlockScanAlgorithm
from .warp import warp_exclusive_scan, warp_inclusive_scan, warp_reduce, warp_scan, warp_scan_with_aggregate

__all__ = [
    "BlockReduce",
    "BlockReduceAlgorithm",
    "BlockScan",
    "BlockScanAlgorithm",
    "warp_exclusive_scan",
    "warp_inclusive_scan",
    "warp_reduce",
    "warp_scan",
    "warp_scan_with_aggregate",
]
