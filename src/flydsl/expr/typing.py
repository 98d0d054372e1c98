"""Types of the language, under the path other FlyDSL code imports them from: `from flydsl.expr.typing import T`.

Names resolve through `flydsl.expr`.
"""

from __future__ import annotations

from importlib import import_module


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_module("flydsl.expr"), name)
