"""Kernels with mistakes that only some schedules show, each right for bug 0; `test_cpu_schedules.py` explores them."""

from __future__ import annotations

from . import amd, clusters, copies, drawn, engines, flags, movers, named, pipelines
from .case import TEMPLATES, Template

__all__ = [
    "TEMPLATES", "Template", "amd", "clusters", "copies", "drawn", "engines", "flags", "movers", "named", "pipelines",
]  # fmt: skip
