"""Collectives of the threads of a block, one family per file."""

from __future__ import annotations

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
]
