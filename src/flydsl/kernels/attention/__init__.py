"""Attention: `attention` picks the kernel and its tile from extents, types, layout and device."""

from __future__ import annotations

from .entry import attention

__all__ = ["attention"]
