"""`fx.coop`: what the threads of a warp and of a block do together.

`fx.coop.universal` is the same surface by means that every target has; here AMD's waves reduce and scan in registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import block, universal, warp
from .warp import *  # noqa: F403

if TYPE_CHECKING:
    from .block import *  # noqa: F403

__all__ = ["universal"]
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
