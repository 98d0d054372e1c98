"""Tiles that were fastest on an H200, by shape; they come with the package (`flydsl.autotune.shipped`).

A shape takes the tile of the nearest one that was measured, if the product of their extents' ratios is below the file's
`reach`: further away the model (`plan.py`) chooses better, by cross-validation over the measured shapes. Made by
`benchmarks/h200_matmul.py --winners`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from .tile import Tile

if TYPE_CHECKING:
    from .plan import Problem

NAME = "matmul"


class Won(NamedTuple):
    """What was fastest."""

    tile: Tile
    here: bool
    """At this very shape."""


def winner(given: Problem, arch: str) -> Won | None:
    """What won at about this shape; None where none was measured, or for another kind of product."""
    if given.bits != 16 or given.out != 2 or given.batches != 1 or given.promote:
        return None
    from ...autotune.shipped import read

    found = read(NAME, arch)
    key = {"m": given.m, "n": given.n, "k": given.k, "a_major": given.a_major, "b_major": given.b_major}
    point = None if found is None else found.nearest(key)
    if point is None:
        return None
    return Won(Tile(**cast("dict[str, Any]", point.config)), dict(point.key) == key)


__all__ = ["Won", "winner"]
