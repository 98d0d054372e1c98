"""`fx.random`: random numbers without state, from a seed and an offset. The same on every target: `universal`."""

from __future__ import annotations

from .universal import rand, rand4x, randint, randint4x, randn, randn4x

__all__ = ["rand", "rand4x", "randint", "randint4x", "randn", "randn4x"]
