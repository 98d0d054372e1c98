"""Kernels of `flydsl.kernels` that are called by themselves, with small calls, their numbers and all their targets.

A new one brings cases in a file of this folder, under the name `CASES`; it is listed nowhere else, and a test tells
when it has none. `calls` has a call for each kernel of the library, also for those behind functions.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import flydsl.kernels
from flydsl.compiler.jit_function import JitFunction

from .case import Case


def public_kernels() -> dict[str, Any]:
    """`module.name` -> jit function: those that a module offers in `__all__` and that take a stream, as calls do."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(flydsl.kernels.__path__, "flydsl.kernels."):
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            function = getattr(loaded, name)
            if isinstance(function, JitFunction) and "stream" in inspect.signature(function).parameters:
                found.setdefault(f"{function.__module__}.{name}", function)
    return found


def _cases() -> tuple[Case, ...]:
    return tuple(
        case
        for module in pkgutil.iter_modules(__path__)
        if not module.ispkg
        for case in getattr(importlib.import_module(f"{__name__}.{module.name}"), "CASES", ())
    )


CASES = _cases()

__all__ = ["CASES", "Case", "public_kernels"]
