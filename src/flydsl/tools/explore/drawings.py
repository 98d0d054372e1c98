"""Pictures of the layouts a kernel uses: those of its tiled copies and matrix products, shared memory and constants."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp

from flydsl.dialects.fly.drawings import pictures_of
from flydsl.ir.locations import frames_of

MAX_PICTURES = 32


class Drawing(NamedTuple):
    """A picture of a layout."""

    title: str
    svg: str
    source: tuple[str, int] | None
    """File and line."""


def drawings(module: ModuleOp) -> list[Drawing]:
    """Title, SVG, file and line of each different layout in a traced module, in order of appearance."""
    found: dict[str, Drawing] = {}
    for op in module.walk():
        frames = frames_of(op.location)
        for result in op.results:
            for title, picture in pictures_of(result.type):
                if title not in found and len(found) < MAX_PICTURES:
                    where = (frames[-1].filename.data, frames[-1].line.data) if frames else None
                    found[title] = Drawing(title, picture, where)
    return list(found.values())
