"""Functions built on the primitives, under the path other FlyDSL code imports them from.

Names resolve through `flydsl.expr`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_module("flydsl.expr"), name)
