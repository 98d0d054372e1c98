"""Small things around kernels, at FlyDSL's paths: `env`, `log`, `file`. Names resolve on first use."""

from __future__ import annotations

from importlib import import_module

_WHERE = {"log": ("flydsl.utils.logger", "log"), "env": ("flydsl.utils.env", None)}


def __getattr__(name: str) -> object:
    found = _WHERE.get(name)
    if found is None:
        raise AttributeError(f"flydsl.utils has no attribute {name!r}")
    module = import_module(found[0])
    return module if found[1] is None else getattr(module, found[1])


__all__ = ["env", "log"]  # pyright: ignore[reportUnsupportedDunderAll]
