"""`fx.llvm`: memory access as LLVM knows it, with orderings and scopes; the same names are in `fx` itself."""

from . import atomics as _atomics
from .atomics import *  # noqa: F403
from .tensors.tiled import SyncScope as SyncScope

__all__ = ["SyncScope"]
__all__ += _atomics.__all__
