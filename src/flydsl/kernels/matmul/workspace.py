"""Memory in which slices of K meet: sums, and counters that are zero before and after every launch."""

from __future__ import annotations

import sys
from typing import Any

from .arrays import is_torch

_kept: dict[object, tuple[Any, Any]] = {}


def workspace(like: Any, floats: int, counts: int, stream: Any) -> tuple[Any, Any]:
    """Room for so many sums and counters, where `like` is.

    On a GPU it is kept for the next launch in the same stream, which cannot start before this one is done with it. A
    graph that is being captured gets memory of its own, since it may be replayed anywhere.
    """
    if not is_torch(like):
        import numpy as np

        return np.empty(floats, np.float32), np.zeros(counts, np.int32)
    torch = sys.modules["torch"]

    def fresh(floats: int, counts: int) -> tuple[Any, Any]:
        return (
            torch.empty(floats, dtype=torch.float32, device=like.device),
            torch.zeros(counts, dtype=torch.int32, device=like.device),
        )

    if like.device.type == "cpu" or torch.cuda.is_current_stream_capturing():
        return fresh(floats, counts)
    key = like.device, torch.cuda.current_stream(like.device).cuda_stream if stream is None else stream
    kept = _kept.get(key)
    if kept is None or kept[0].numel() < floats or kept[1].numel() < counts:
        # Never smaller than before: the old ones may still be in use, and are freed in the stream's order.
        held = (0, 0) if kept is None else (kept[0].numel(), kept[1].numel())
        kept = _kept[key] = fresh(max(floats, held[0]), max(counts, held[1]))
    return kept


__all__ = ["workspace"]
