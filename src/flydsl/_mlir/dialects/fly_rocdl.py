"""The dialect `fly_rocdl`, with its types."""

from __future__ import annotations

from ...expr.rocdl import atom_types as _types
from ...expr.rocdl.atom_types import *  # noqa: F403
from .generated import module

__getattr__, __dir__ = module("fly_rocdl", globals())

__all__: list[str] = []
__all__ += _types.__all__
