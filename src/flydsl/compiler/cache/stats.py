"""What the disk cache counts and warns of, and the lock for its short sections."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from flydsl import config
from flydsl.compiler.guard import Guard
from flydsl.errors import CacheWarning

guard = Guard()
"""Held for short sections alone."""


@dataclass
class CacheStats:
    """What happened since the process started."""

    hits: int = 0
    misses: int = 0
    corrupt: int = 0
    writes: int = 0
    write_errors: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    evictions: int = 0
    lock_waits: int = 0
    lock_failures: int = 0
    store_hits: int = 0
    compilations: int = 0
    compile_seconds: float = 0.0

    def as_dict(self) -> dict[str, int | float]:
        return asdict(self)


totals = CacheStats()
"""Sums over all caches of this process."""
warned: set[str] = set()


def warn_once(kind: str, message: str) -> None:
    """Warn of one kind of trouble, the first time it is met."""
    with guard:
        if kind in warned:
            return
        warned.add(kind)
    config.warn(message, CacheWarning, stacklevel=4)


def why(error: OSError) -> str:
    """What the system says went wrong."""
    return error.strerror or str(error)
