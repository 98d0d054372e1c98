"""`fx.llvm`: memory access as LLVM knows it, with orderings and scopes; the same names are in `fx` itself."""

from .atomics import (
    AtomicOrdering,
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_fmax,
    atomic_fmin,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_sub,
    atomic_xchg,
    atomic_xor,
    generic_load,
    generic_store,
    memory_fence,
)
from .tensors.tiled import SyncScope

__all__ = [
    "AtomicOrdering",
    "SyncScope",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_fmax",
    "atomic_fmin",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xchg",
    "atomic_xor",
    "generic_load",
    "generic_store",
    "memory_fence",
]
