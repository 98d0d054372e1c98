"""Several GPUs of one machine, or several ranks on a machine without any: `flydsl.dist.spawn(function, world=8)`."""

from __future__ import annotations

from flydsl.runtime.dist import SymmetricTensor, World, connect, spawn

__all__ = ["SymmetricTensor", "World", "connect", "spawn"]
