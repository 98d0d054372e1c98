"""`canonicalize`: fold constants, share equal pure ops, drop dead ones, in one rebuild."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from .base import Pass
from .rebuild import Rebuilder


@dataclass(frozen=True)
class CanonicalizePass(Pass):
    """Fold, share and remove in one walk."""

    name = "canonicalize"

    def run(self, module: ModuleOp) -> ModuleOp:
        return Rebuilder.rebuild(module)
