"""Pictures of what a type says about places: tiled copies and matrix products, memory, layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.ir import Attribute

from ... import layout as L
from ...ir.enums import MmaOperand
from ...layout.draw import draw_tv, picture_of
from .atoms import TiledCopyType, TiledMmaType
from .types import ComposedLayoutType, LayoutType, MemRefType

MAX_CELLS = 2048
"""Larger pictures are not drawn: nobody can read them, and a page would grow."""


def pictures_of(type_: Attribute) -> Iterator[tuple[str, str]]:
    """Title and SVG of each picture that a type has."""
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


def _tv(title: str, tv: L.Layout, tile: L.Tile | tuple[int, int]) -> Iterator[tuple[str, str]]:
    sizes = cast("tuple[int, ...]", L.tile_sizes(tile) if isinstance(tile, L.Tile) else tile)
    if len(sizes) == 2 and tv.is_static and sizes[0] * sizes[1] <= MAX_CELLS:
        yield f"{title}: {tv} over {sizes[0]} x {sizes[1]}", draw_tv(tv, (sizes[0], sizes[1]))


def _plain(title: str, layout: L.AnyLayout) -> Iterator[tuple[str, str]]:
    picture = picture_of(layout, MAX_CELLS)
    if picture is not None:
        yield f"{title}: {layout}", picture
