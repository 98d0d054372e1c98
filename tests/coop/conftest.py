"""Fixtures of the tests of collectives."""

from .blocks import draw

__all__ = ["draw"]
