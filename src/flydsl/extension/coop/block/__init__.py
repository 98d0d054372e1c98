"""Collectives of the threads of a block, one family per file; names are loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .adjacent_difference import BlockAdjacentDifference
    from .discontinuity import BlockDiscontinuity
    from .exchange import BlockExchange, BlockExchangeAlgorithm
    from .histogram import BlockHistogram, BlockHistogramAlgorithm
    from .load import BlockLoad, BlockLoadAlgorithm
    from .merge_sort import BlockMergeSort, BlockMergeSortAlgorithm
    from .radix_rank import BlockRadixRank, BlockRadixRankAlgorithm
    from .radix_sort import BlockRadixSort, BlockRadixSortAlgorithm
    from .reduce import BlockReduce, BlockReduceAlgorithm
    from .run_length_decode import BlockRunLengthDecode, BlockRunLengthDecodeAlgorithm
    from .scan import BlockScan, BlockScanAlgorithm
    from .shuffle import BlockShuffle, BlockShuffleAlgorithm
    from .store import BlockStore, BlockStoreAlgorithm
    from .topk import BlockTopK, BlockTopKAlgorithm

__all__ = [
    "BlockAdjacentDifference", "BlockDiscontinuity", "BlockExchange", "BlockExchangeAlgorithm", "BlockHistogram",
    "BlockHistogramAlgorithm", "BlockLoad", "BlockLoadAlgorithm", "BlockMergeSort", "BlockMergeSortAlgorithm",
    "BlockRadixRank", "BlockRadixRankAlgorithm", "BlockRadixSort", "BlockRadixSortAlgorithm", "BlockReduce",
    "BlockReduceAlgorithm", "BlockRunLengthDecode", "BlockRunLengthDecodeAlgorithm", "BlockScan", "BlockScanAlgorithm",
    "BlockShuffle", "BlockShuffleAlgorithm", "BlockStore", "BlockStoreAlgorithm", "BlockTopK", "BlockTopKAlgorithm",
]  # fmt: skip

_WHERE = {
    name: module
    for module, names in {
        "adjacent_difference": "BlockAdjacentDifference",
        "discontinuity": "BlockDiscontinuity",
        "exchange": "BlockExchange BlockExchangeAlgorithm",
        "histogram": "BlockHistogram BlockHistogramAlgorithm",
        "load": "BlockLoad BlockLoadAlgorithm",
        "merge_sort": "BlockMergeSort BlockMergeSortAlgorithm",
        "radix_rank": "BlockRadixRank BlockRadixRankAlgorithm",
        "radix_sort": "BlockRadixSort BlockRadixSortAlgorithm",
        "reduce": "BlockReduce BlockReduceAlgorithm",
        "run_length_decode": "BlockRunLengthDecode BlockRunLengthDecodeAlgorithm",
        "scan": "BlockScan BlockScanAlgorithm",
        "shuffle": "BlockShuffle BlockShuffleAlgorithm",
        "store": "BlockStore BlockStoreAlgorithm",
        "topk": "BlockTopK BlockTopKAlgorithm",
    }.items()
    for name in names.split()
}


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted(_WHERE)
