"""Several ranks on one machine: `spawn` starts them, a `World` is what one of them sees, `symmetric` is their memory.

A rank is a thread or a process with a device of its own. Symmetric memory exists once for each rank, and every rank has
all of them mapped in a row: kernels read and write that of others at the same offsets as their own.
"""

from __future__ import annotations

from flydsl.runtime.dist.spawn import spawn
from flydsl.runtime.dist.tensor import SymmetricTensor
from flydsl.runtime.dist.world import World, connect

__all__ = ["SymmetricTensor", "World", "connect", "spawn"]
