"""FlyDSL in pure Python: GPU kernels with explicit layouts, for AMD, NVIDIA and the CPU."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .autotune import Config as Config
    from .autotune import autotune as autotune

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # The tuner is loaded when it is asked for. `flydsl.autotune` is its module, which can be called.
    if name not in ("Config", "autotune"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module("flydsl.autotune")
    return module if name == "autotune" else module.Config
