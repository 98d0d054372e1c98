"""The collectives by means that every target has: shuffles inside a warp, shared memory between warps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import block
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

if TYPE_CHECKING:
    from .block import (
        BlockAdjacentDifference,
        BlockDiscontinuity,
        BlockExchange,
        BlockExchangeAlgorithm,
        BlockHistogram,
        BlockHistogramAlgorithm,
        BlockLoad,
        BlockLoadAlgorithm,
        BlockMergeSort,
        BlockMergeSortAlgorithm,
        BlockRadixRank,
        BlockRadixRankAlgorithm,
        BlockRadixSort,
        BlockRadixSortAlgorithm,
        BlockReduce,
        BlockReduceAlgorithm,
        BlockRunLengthDecode,
        BlockRunLengthDecodeAlgorithm,
        BlockScan,
        BlockScanAlgorithm,
        BlockShuffle,
        BlockShuffleAlgorithm,
        BlockStore,
        BlockStoreAlgorithm,
        BlockTopK,
        BlockTopKAlgorithm,
    )

__all__ = [
    "BlockAdjacentDifference",
    "BlockDiscontinuity",
    "BlockExchange",
    "BlockExchangeAlgorithm",
    "BlockHistogram",
    "BlockHistogramAlgorithm",
    "BlockLoad",
    "BlockLoadAlgorithm",
    "BlockMergeSort",
    "BlockMergeSortAlgorithm",
    "BlockRadixRank",
    "BlockRadixRankAlgorithm",
    "BlockRadixSort",
    "BlockRadixSortAlgorithm",
    "BlockReduce",
    "BlockReduceAlgorithm",
    "BlockRunLengthDecode",
    "BlockRunLengthDecodeAlgorithm",
    "BlockScan",
    "BlockScanAlgorithm",
    "BlockShuffle",
    "BlockShuffleAlgorithm",
    "BlockStore",
    "BlockStoreAlgorithm",
    "BlockTopK",
    "BlockTopKAlgorithm",
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


def __getattr__(name: str) -> object:
    # The collectives of blocks are many files, of which a kernel uses few.
    if name not in block.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(block, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
