"""Memory a product needs on its way: sums of slices and their counters, operands in another order."""

from __future__ import annotations

import sys

from ...target import on_host
from .arrays import HostArray, TorchArray, is_torch

_kept: dict[object, TorchArray] = {}
_zeros: dict[object, tuple[TorchArray, int]] = {}
"""For each device, zeros for graphs and how many of them are given away."""
ZEROS = 1 << 20


def scratch(like: HostArray, what: str, elements: int, dtype: str, stream: object, *, zero: bool = False) -> HostArray:
    """So many elements where `like` is, for a launch in `stream` (None: the current one).

    On a GPU they are kept for the next launch in the same stream, which cannot start before this one is done with
    them; `zero` ones must be left as they were found. A graph that is being captured gets memory of its own, since it
    may be replayed anywhere; zeros come from a store, so that no replay has to clear them.
    """
    if not is_torch(like):
        import numpy as np

        return (np.zeros if zero else np.empty)(elements, dtype)
    torch = sys.modules["torch"]
    make = torch.zeros if zero else torch.empty
    kind = getattr(torch, dtype)
    if on_host(like.device.type):
        return make(elements, dtype=kind, device=like.device)
    if torch.cuda.is_current_stream_capturing():
        store, used = _zeros.get(like.device, (None, ZEROS)) if zero and dtype == "int32" else (None, ZEROS)
        if store is None or used + elements > ZEROS:
            return make(elements, dtype=kind, device=like.device)
        _zeros[like.device] = store, used + elements
        return store.as_strided((elements,), (1,), used)
    if zero and like.device not in _zeros:
        _zeros[like.device] = torch.zeros(ZEROS, dtype=torch.int32, device=like.device), 0
        # Graphs that use them may run in any stream.
        torch.cuda.current_stream(like.device).synchronize()
    where = torch.cuda.current_stream(like.device).cuda_stream if stream is None else stream
    key = what, dtype, like.device, where
    kept = _kept.get(key)
    if kept is None or kept.numel() < elements:
        # What is dropped was allocated in the same stream's order, and is used again in that order only.
        kept = _kept[key] = make(elements, dtype=kind, device=like.device)
    return kept


__all__ = ["scratch"]
