"""Collectives of the lanes of a warp, or of equal parts of it: logical warps."""

from __future__ import annotations

from .bitonic_sort import WarpBitonicSort, warp_bitonic_sort
from .exchange import WarpExchange, WarpExchangeAlgorithm
from .load import WarpLoad, WarpLoadAlgorithm
from .merge_sort import WarpMergeSort, warp_merge_sort
from .reduce import warp_head_segmented_reduce, warp_tail_segmented_reduce
from .reduce_batched import (
    WarpReduceBatched,
    warp_reduce_batched,
    warp_reduce_batched_to_blocked,
    warp_reduce_batched_to_striped,
)
from .rocdl import (
    WarpReduce,
    WarpScan,
    warp_exclusive_scan,
    warp_inclusive_scan,
    warp_reduce,
    warp_scan,
    warp_scan_with_aggregate,
)
from .scan import warp_broadcast
from .store import WarpStore, WarpStoreAlgorithm

__all__ = [
    "WarpBitonicSort", "WarpExchange", "WarpExchangeAlgorithm", "WarpLoad", "WarpLoadAlgorithm", "WarpMergeSort",
    "WarpReduce", "WarpReduceBatched", "WarpScan", "WarpStore", "WarpStoreAlgorithm", "warp_bitonic_sort",
    "warp_broadcast", "warp_exclusive_scan", "warp_head_segmented_reduce", "warp_inclusive_scan", "warp_merge_sort",
    "warp_reduce", "warp_reduce_batched", "warp_reduce_batched_to_blocked", "warp_reduce_batched_to_striped",
    "warp_scan", "warp_scan_with_aggregate", "warp_tail_segmented_reduce",
]  # fmt: skip
