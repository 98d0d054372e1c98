"""Memory a product needs on its way: sums of slices and their counters, operands in another order."""

from __future__ import annotations

import sys

from ...target import on_host
from .arrays import HostArray, TorchArray, is_torch

_kept: dict[object, TorchArray] = {}


def scratch(like: HostArray, what: str, elements: int, dtype: str, stream: object, *, zero: bool = False) -> HostArray:
    """So many elements where `like` is, for a launch in `stream` (None: the current one).

    On a GPU they are kept for the next launch in the same stream, which cannot start before this one is done with
    them; `zero` ones must be left as they were found. A graph that is being captured gets memory of its own, since it
    may be replayed anywhere.
    """
    if not is_torch(like):
        import numpy as np

        return (np.zeros if zero else np.empty)(elements, dtype)
    torch = sys.modules["torch"]
    make = torch.zeros if zero else torch.empty
    kind = getattr(torch, dtype)
    if on_host(like.device.type) or torch.cuda.is_current_stream_capturing():
        return make(elements, dtype=kind, device=like.device)
    where = torch.cuda.current_stream(like.device).cuda_stream if stream is None else stream
    key = what, dtype, like.device, where
    kept = _kept.get(key)
    if kept is None or kept.numel() < elements:
        # What is dropped was allocated in the same stream's order, and is used again in that order only.
        kept = _kept[key] = make(elements, dtype=kind, device=like.device)
    return kept


__all__ = ["scratch"]
