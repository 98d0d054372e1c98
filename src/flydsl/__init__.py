"""FlyDSL in pure Python: GPU kernels with explicit layouts, for AMD, NVIDIA and the CPU."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .autotune import Config as Config
    from .autotune import autotune as autotune
else:
    # Python makes a package an attribute of the one above once, when it is imported first. From here on
    # `flydsl.autotune` is the decorator, loaded on first use; `from flydsl.autotune import Config` finds the package.
    from . import autotune

    del autotune

__version__ = "0.1.0"


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> object:
        # The tuner is loaded when it is asked for.
        if name not in ("Config", "autotune"):
            meant = f"; write flyc.{name}, with import flydsl.compiler as flyc" if name in ("jit", "kernel") else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}")
        from importlib import import_module

        return getattr(import_module("flydsl.autotune"), name)
