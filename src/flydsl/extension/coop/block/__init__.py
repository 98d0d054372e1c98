"""Collectives of the threads of a block, one family per file."""

from __future__ import annotations

from .reduce import BlockReduce, BlockReduceAlgorithm
from .scan import BlockScan, BlockScanAlgorithm

__all__ = ["BlockReduce", "BlockReduceAlgorithm", "BlockScan", "BlockScanAlgorithm"]
