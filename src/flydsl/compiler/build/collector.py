"""Keeping the garbage collector out of the way of a compilation."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Generator[None]:
    """Keep the garbage collector out of a short, allocation-heavy stretch."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
