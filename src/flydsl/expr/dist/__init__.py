"""`fx.dist`: several ranks in a kernel. A symmetric tensor has the ranks as its first dimension.

The host makes such tensors (`flydsl.dist.World.symmetric`); a kernel gets them and the number of its rank, so one
compiled kernel serves all ranks. Flags are words of a symmetric tensor of Int32: who has written data says so by
`signal`, who needs it waits for that by `wait`, and everything written before the one is seen after the other.
"""

from __future__ import annotations

from .flags import barrier, signal, wait
from .parts import get, peer, put, world

__all__ = ["barrier", "get", "peer", "put", "signal", "wait", "world"]
