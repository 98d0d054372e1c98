"""Collectives of the lanes of a warp, or of equal segments of it."""

from __future__ import annotations

from .reduce import warp_reduce
from .scan import warp_exclusive_scan, warp_inclusive_scan, warp_scan, warp_scan_with_aggregate

__all__ = ["warp_exclusive_scan", "warp_inclusive_scan", "warp_reduce", "warp_scan", "warp_scan_with_aggregate"]
