"""`fx.coop`: what the threads of a warp and of a block do together.

`fx.coop.universal` is the same surface by means that every target has; here AMD's waves reduce and scan in registers.
"""

from __future__ import annotations

from . import universal
from .block import BlockReduce, BlockReduceAlgorithm, BlockScan, BlockScanAlgorithm
from .warp import (
    WarpBitonicSort,
    WarpExchange,
    WarpExchangeAlgorithm,
    WarpLoad,
    WarpLoadAlgorithm,
    WarpMergeSort,
    WarpReduce,
    WarpReduceBatched,
    WarpScan,
    WarpStore,
    WarpStoreAlgorithm,
    warp_bitonic_sort,
    warp_broadcast,
    warp_exclusive_scan,
    warp_head_segmented_reduce,
    warp_inclusive_scan,
    warp_merge_sort,
    warp_reduce,
    warp_reduce_batched,
    warp_reduce_batched_to_blocked,
    warp_reduce_batched_to_striped,
    warp_scan,
    warp_scan_with_aggregate,
    warp_tail_segmented_reduce,
)

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
    "universal",
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
