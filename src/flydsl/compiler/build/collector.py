"""Keeping the garbage collector out of the way of a compilation."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 20_000
"""Young objects: what the first compilation loads has five times as many."""


@contextmanager
def collector_off() -> Generator[None]:
    """Keep the garbage collector out of a short, allocation-heavy stretch."""
    was, known = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
            if len(sys.modules) > known:
                _settle()


def _settle() -> None:
    """Let modules that were loaded meanwhile be old.

    The collector would look at them at the next allocation, and again in some later compilation, with everything else
    where they are more than a quarter of it. The first look is made to be the last. It counts all old objects, which
    takes as long as a small compilation where a program has many: IR alone, which is soon gone, is not worth it.
    """
    young = gc.get_count()[0]
    if young > _MANY:
        gc.collect(2 if 4 * young > len(gc.get_objects(2)) else 1)
