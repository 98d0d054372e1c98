"""The collectives by means that every target has: shuffles inside a warp, shared memory between warps."""

from __future__ import annotations

from .block import BlockReduce, BlockReduceAlgorithm, BlockScan, BlockScanAlgorithm
from .warp import (
    WarpBitonicSort,
    WarpExchange,
    WarpExchangeAlgorithm,
    WarpLoad,
    WarpLoadAlgorithm,
    WarpMergeSort,
    WarpReduceBatched,
    WarpStore,
    WarpStoreAlgorithm,
    warp_bitonic_sort,
    warp_broadcast,
    warp_head_segmented_reduce,
    warp_merge_sort,
    warp_reduce_batched,
    warp_reduce_batched_to_blocked,
    warp_reduce_batched_to_striped,
    warp_tail_segmented_reduce,
)
from .warp.reduce import WarpReduce, warp_reduce
from .warp.scan import WarpScan, warp_exclusive_scan, warp_inclusive_scan, warp_scan, warp_scan_with_aggregate

__all__ = [
    "BlockReduce",
    "BlockReduceAlgorithm",
    "BlockScan",
    "BlockScanAlgorithm",
    "WarpBitonicSort",
    "WarpExchange",
    "WarpExchangeAlgorithm",
    "WarpLoad",
    "WarpLoadAlgorithm",
    "WarpMergeSort",
    "WarpReduce",
    "WarpReduceBatched",
    "WarpScan",
    "WarpStore",
    "WarpStoreAlgorithm",
    "warp_bitonic_sort",
    "warp_broadcast",
    "warp_exclusive_scan",
    "warp_head_segmented_reduce",
    "warp_inclusive_scan",
    "warp_merge_sort",
    "warp_reduce",
    "warp_reduce_batched",
    "warp_reduce_batched_to_blocked",
    "warp_reduce_batched_to_striped",
    "warp_scan",
    "warp_scan_with_aggregate",
    "warp_tail_segmented_reduce",
]
