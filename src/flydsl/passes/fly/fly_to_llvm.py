"""`fly-to-llvm`: what several passes do one after the other, in one walk without the IR in between.

The walk is a class made of those that the passes bring, in their order: what a pass emits, it gives to the methods of
the next. What comes out is what the passes leave one after the other; a test compares both ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ...lowering.rebuild import Handler, Rebuilder
from .. import __name__ as PASSES_PACKAGE
from ..base import Pass
from ..fuse import group_end, part_of
from ..order import CONVERSIONS, FLY
from ..pipeline import PassSpec
from .walk.folding import Folding, watched


@cache
def walk_of(passes: str) -> type[Folding]:
    """The walk that passes share, by their names with `+` between them."""
    specs = [PassSpec(name) for name in passes.split("+")]
    parts = [part for part in map(part_of, specs) if part is not None]
    start = next(iter(parts[0].forms)) if parts else None
    if group_end(specs, 0, start) != len(specs) - 1:
        raise ValueError(f"option 'passes' of pass 'fly-to-llvm' names passes that do not make one walk: '{passes}'")
    brought = [_load(where) for where in dict.fromkeys(part.walk for part in parts) if where]
    bases = [cls for cls in brought if not any(other is not cls and issubclass(other, cls) for other in brought)]
    walk = cast("type[Folding]", type("FlyToLlvm", tuple(bases), {}))
    handlers: dict[type[Operation], Handler] = {}
    for cls in reversed(walk.__mro__):
        handlers.update(cls.__dict__.get("handlers", {}))
    walk.handlers = handlers
    # Under its own name, which `table` looks for first.
    setattr(walk, "_table", watched(walk.table()))  # noqa: B010
    return walk


def _load(where: str) -> type[Rebuilder]:
    module, name = where.split(":")
    return getattr(import_module(f"{PASSES_PACKAGE}.{module}"), name)


@dataclass(frozen=True)
class FlyToLlvmPass(Pass):
    """Passes from `fly` to the conversion and its `canonicalize` in one walk."""

    name = "fly-to-llvm"
    needs = "what the first of its passes needs"
    passes: str = "+".join((*FLY, CONVERSIONS[0], "canonicalize"))
    """The names of the passes, in their order, with `+` between them."""

    def run(self, module: ModuleOp) -> ModuleOp:
        walk = walk_of(self.passes)()
        made = walk.run(module)
        if walk.is_whole:
            return made
        # What the end shows to be for nothing has been lowered by then, and not all of that goes again.
        for name in self.passes.split("+"):
            module = PassSpec(name).make().run(module)
        return module
