"""The path `flydsl.expr.printf`: what stands here is the function `fx.printf`, which a module would hide."""

import sys

from .printing import printf

__all__ = ["printf"]
vars(printf)["printf"] = printf
sys.modules[__name__] = printf  # pyright: ignore[reportArgumentType]
