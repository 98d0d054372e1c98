"""Kernels written in the language, ready to call; `attention` and `matmul` pick one by their arguments."""

from __future__ import annotations

from .attention.entry import attention
from .matmul.entry import matmul
from .matmul.grouped import grouped_matmul

__all__ = ["attention", "grouped_matmul", "matmul"]
