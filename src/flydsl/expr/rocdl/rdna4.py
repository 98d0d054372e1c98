"""Waits of RDNA4 (gfx12), counter by counter."""

from __future__ import annotations

from .utils import s_waitcnt

__all__ = ["s_waitcnt"]
