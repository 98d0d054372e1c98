"""In which order a `gemm` visits its atoms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ... import layout as L
from ...errors import LayoutError
from ...ir.enums import GemmTraversalOrder

Extents = tuple[int, int, int]
"""How often the atom repeats in M, N and K."""


def steps(extents: Extents, order: int | None = None, layout: L.Layout | None = None) -> Iterator[tuple[int, int, int]]:
    """(m, n, k) in the order of a `GemmTraversalOrder` (default NMK), or of a traversal layout.

    >>> list(steps((2, 2, 1), GemmTraversalOrder.MNK_Serpentine))
    [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
    >>> list(steps((2, 2, 1), layout=L.Layout((2, 2), (2, 1))))
    [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    """
    if layout is None:
        return _loops(extents, GemmTraversalOrder.NMK if order is None else order)
    total = extents[0] * extents[1] * extents[2]
    if L.size(layout) != total or L.cosize(layout) != total:
        raise LayoutError(f"gemm: the traversal layout {layout} must have size and cosize {total}")
    return (_coordinate(layout, i, extents) for i in range(total))


def _loops(extents: Extents, order: int) -> Iterator[tuple[int, int, int]]:
    """The order's first letter is the innermost loop; serpentine ones turn back at its ends."""
    name, _, snake = GemmTraversalOrder(order).name.partition("_")
    inner, middle, outer = ("MNK".index(c) for c in name)
    for o in range(extents[outer]):
        for m in range(extents[middle]):
            at_m = extents[middle] - 1 - m if snake and o % 2 else m
            for i in range(extents[inner]):
                odd = (o * extents[middle] + m) % 2
                at_i = extents[inner] - 1 - i if snake and odd else i
                index = [0, 0, 0]
                index[outer], index[middle], index[inner] = o, at_m, at_i
                yield index[0], index[1], index[2]


def _coordinate(layout: L.Layout, i: int, extents: Extents) -> Extents:
    return cast(Extents, L.colex2crd(cast(int, L.crd2idx(i, layout)), extents))
