"""Keeping the garbage collector out of the way of a compilation."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager


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
    """Let modules that were loaded meanwhile be old, without a look at them.

    The collector would look at each of their hundred thousand objects at the next allocation, and again in some later
    compilation; none of them is garbage. What is frozen is in no generation, and thaws into the oldest. Where a program
    has frozen objects itself, to be shared by processes that it forks, these must not thaw.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
