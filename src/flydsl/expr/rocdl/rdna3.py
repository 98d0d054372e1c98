"""Waits of RDNA3 (gfx11), counter by counter."""

from __future__ import annotations

from .utils import s_waitcnt

__all__ = ["s_waitcnt"]
