"""The logger of the package."""

from __future__ import annotations

import logging


def log() -> logging.Logger:
    """The logger `flydsl`; handlers and levels are set as for any other.

    >>> log().name
    'flydsl'
    """
    return logging.getLogger("flydsl")


__all__ = ["log"]
