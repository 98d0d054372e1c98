"""Kernels written in the language, ready to call; `matmul` picks one by its arguments."""

from __future__ import annotations

from .matmul.entry import matmul
from .matmul.grouped import grouped_matmul

__all__ = ["grouped_matmul", "matmul"]
