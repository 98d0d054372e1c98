"""`flydsl.autotune`: finding the best configuration of a kernel, once.

`flydsl.autotune(...)` and `from flydsl.autotune import autotune` are one decorator; `flydsl/__init__.py` says how.
Names are resolved when they are first used; importing this loads nothing of the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .bench import Timing, do_bench
    from .candidate import Config
    from .decorate import autotune
    from .listeners import TuneEvent, tune_listener
    from .report import Report, Trial
    from .space import Space
    from .tuner import Autotuner

_PLACES = {
    "Autotuner": "tuner",
    "Config": "candidate",
    "Report": "report",
    "Space": "space",
    "Timing": "bench",
    "Trial": "report",
    "TuneEvent": "listeners",
    "autotune": "decorate",
    "do_bench": "bench",
    "tune_listener": "listeners",
}

__all__ = [
    "Autotuner", "Config", "Report", "Space", "Timing", "Trial", "TuneEvent", "autotune", "do_bench", "tune_listener",
]  # fmt: skip


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> object:
        place = _PLACES.get(name)
        if place is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{__name__}.{place}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
