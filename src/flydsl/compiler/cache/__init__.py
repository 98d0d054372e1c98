"""The disk cache: one checked file per compiled artifact, shared by threads, processes and machines.

An entry appears by one rename and is read without a lock. Whatever goes wrong costs a compilation, never a failure: the
cache says so once per kind of trouble, with a `CacheWarning`, and goes on without.
"""

from __future__ import annotations

from flydsl.compiler.cache.admin import CacheInfo, Defect, EntryInfo, clear, entries, info, prune, verify
from flydsl.compiler.cache.disk_cache import DiskCache, Removed, default_cache
from flydsl.compiler.cache.settings import Settings, current_settings
from flydsl.compiler.cache.stats import CacheStats, totals
from flydsl.compiler.cache.store import Store

__all__ = [
    "CacheInfo", "CacheStats", "Defect", "DiskCache", "EntryInfo", "Removed", "Settings", "Store", "clear",
    "current_settings", "default_cache", "entries", "info", "prune", "totals", "verify",
]  # fmt: skip
