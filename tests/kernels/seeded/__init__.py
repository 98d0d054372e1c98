"""Kernels with one mistake each, and the same kernels mended: what checked mode must see and what it must not blame.

A kernel takes two arrays and `mended`; the line with the mistake is marked `# bug`. `bug(...)` says what the report
says and how the kernel is launched. A new one is listed nowhere else; `test_cpu_seeded.py` runs all of them.
"""

from __future__ import annotations

from . import atomics, blocks, buffers, clusters, counters, engines, lanes, loads, registers
from .case import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "atomics",
    "blocks",
    "buffers",
    "clusters",
    "counters",
    "engines",
    "lanes",
    "loads",
    "registers",
]
