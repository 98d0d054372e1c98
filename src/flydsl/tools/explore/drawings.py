"""Pictures of the layouts a kernel uses: those of its tiled copies and matrix products, shared memory and constants."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from flydsl import layout as L
from flydsl.dialects.fly.atoms import TiledCopyType, TiledMmaType
from flydsl.dialects.fly.types import ComposedLayoutType, LayoutType, MemRefType
from flydsl.ir.enums import MmaOperand
from flydsl.ir.locations import frames_of
from flydsl.layout.draw import draw_layout, draw_tv

MAX_CELLS = 2048
"""Larger pictures are not drawn: nobody can read them, and the page would grow."""
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
            for title, picture in _of_type(result.type):
                if title not in found and len(found) < MAX_PICTURES:
                    where = (frames[-1].filename.data, frames[-1].line.data) if frames else None
                    found[title] = Drawing(title, picture, where)
    return list(found.values())


def _of_type(type_: Attribute) -> Generator[tuple[str, str]]:
    if isinstance(type_, TiledCopyType):
        data = type_.data
        for side in ("src", "dst"):
            tv = L.tiled_copy_tv(data.layout, data.tile, data.atom.tv("ref"), data.atom.tv(side))
            yield from _tv(f"tiled copy, {'source' if side == 'src' else 'destination'}", tv, data.tile)
    elif isinstance(type_, TiledMmaType):
        data = type_.data
        op = data.atom.op
        sizes = L.tile_size_mnk(op.shape_mnk, data.layout, data.tile)
        for operand, (i, j) in ((MmaOperand.A, (0, 2)), (MmaOperand.B, (1, 2)), (MmaOperand.C, (0, 1))):
            tv = L.mma_tiled_tv(operand, op.shape_mnk, op.tv_layout(operand), data.layout, data.tile, op.thr_layout)
            yield from _tv(f"tiled mma, {operand.name}", tv, (sizes[i], sizes[j]))
    elif isinstance(type_, MemRefType):
        if str(getattr(type_.data.space, "name", type_.data.space)).lower() in ("shared", "register"):
            yield from _plain(f"{str(type_.data.space).rpartition('.')[2].lower()} memory", type_.data.layout)
    elif isinstance(type_, (LayoutType, ComposedLayoutType)):
        yield from _plain("layout", type_.data)


def _tv(title: str, tv: L.Layout, tile: Any) -> Generator[tuple[str, str]]:
    sizes = L.tile_sizes(tile) if isinstance(tile, L.Tile) else tile
    if len(sizes) == 2 and tv.is_static and sizes[0] * sizes[1] <= MAX_CELLS:
        yield f"{title}: {tv} over {sizes[0]} x {sizes[1]}", draw_tv(tv, sizes)


def _plain(title: str, layout: Any) -> Generator[tuple[str, str]]:
    if layout.is_static_shape and layout.rank <= 2 and 1 < cast(int, L.size(layout)) <= MAX_CELLS:
        yield f"{title}: {layout}", draw_layout(layout)
