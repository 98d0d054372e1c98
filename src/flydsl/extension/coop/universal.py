"""The collectives by means that every target has: shuffles inside a warp, shared memory between warps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import block, warp
from .warp import *  # noqa: F403
from .warp.reduce import WarpReduce as WarpReduce
from .warp.reduce import warp_reduce as warp_reduce
from .warp.scan import WarpScan as WarpScan
from .warp.scan import warp_exclusive_scan as warp_exclusive_scan
from .warp.scan import warp_inclusive_scan as warp_inclusive_scan
from .warp.scan import warp_scan as warp_scan
from .warp.scan import warp_scan_with_aggregate as warp_scan_with_aggregate

if TYPE_CHECKING:
    from .block import *  # noqa: F403

__all__: list[str] = []
__all__ += block.__all__
__all__ += warp.__all__


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> object:
        # The collectives of blocks are many files, of which a kernel uses few.
        if name not in block.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(block, name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
