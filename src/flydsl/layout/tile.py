"""Compile-time tilers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast, final

from flydsl.errors import DSLTypeError, LayoutError
from flydsl.layout.int_tuple import as_int_tuple, leaves
from flydsl.layout.layout import ComposedLayout, Layout
from flydsl.layout.leaf import Basis, Dyn
from flydsl.layout.swizzle import Frozen, frozen_set


@final
class Tile(Frozen):
    """A compile-time tiler, one mode each: an int `n` (meaning `n:1`), `None` (leave the mode alone), a static Layout
    or a nested Tile. `Tile.leaf(x)` is the bare form that tiles a whole layout at once.

    >>> Tile((4, None, Layout((2, 4), (1, 8)), (8, 2))), Tile.leaf(4)
    (Tile([4|*|(2,4):(1,8)|[8|2]]), Tile(4))
    """

    __slots__ = ("_hash", "is_leaf", "modes")

    modes: tuple[TileMode, ...]
    is_leaf: bool
    _hash: int

    def __init__(self, modes: Sequence[object]) -> None:
        if not modes:
            raise LayoutError("a tile needs at least one mode, got none")
        frozen_set(self, "modes", tuple([_tile_mode(mode) for mode in modes]))
        frozen_set(self, "is_leaf", False)
        frozen_set(self, "_hash", hash((False, self.modes)))

    @staticmethod
    def leaf(mode: object) -> Tile:
        """The tile that is one bare mode."""
        value = _tile_mode(mode)
        if type(value) is Tile:
            raise LayoutError(f"a leaf tile is an int, None or a Layout, got {value}")
        tile = object.__new__(Tile)
        frozen_set(tile, "modes", (value,))
        frozen_set(tile, "is_leaf", True)
        frozen_set(tile, "_hash", hash((True, tile.modes)))
        return tile

    @property
    def rank(self) -> int:
        return len(self.modes)

    @property
    def is_static(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.modes)

    def __getitem__(self, i: int) -> TileMode:
        return self.modes[i]

    def unpack(self) -> TileMode | tuple[object, ...]:
        """Python form: ints, None, Layouts, nested tuples; a leaf tile gives its bare mode."""
        if self.is_leaf:
            return self.modes[0]
        return tuple([mode.unpack() if type(mode) is Tile else mode for mode in self.modes])

    def __eq__(self, other: object) -> bool:
        if type(other) is not Tile:
            return NotImplemented
        return self is other or (self.is_leaf == other.is_leaf and self.modes == other.modes)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        text = "|".join(["*" if mode is None else str(mode) for mode in self.modes])
        return text if self.is_leaf else f"[{text}]"

    def __repr__(self) -> str:
        return f"Tile({self})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Tile.leaf, (self.modes[0],)) if self.is_leaf else (Tile, (self.modes,))


TileMode: TypeAlias = int | None | Layout | Tile


def _tile_mode(mode: object) -> TileMode:
    if mode is None:
        return None
    if type(mode) is int:
        if mode < 1:
            raise LayoutError(f"a tile extent must be at least 1, got {mode}")
        return mode
    if type(mode) is Tile:
        return mode.modes[0] if mode.is_leaf else mode
    if isinstance(mode, (tuple, list)):
        return Tile(cast("Sequence[object]", mode))
    if type(mode) is Layout:
        if not mode.is_static:
            raise LayoutError(f"a tile must be static, got the run-time layout {mode}; tile sizes are compile-time")
        if any(type(leaf) is Basis for leaf in leaves((mode.shape, mode.stride))):
            raise LayoutError(f"a tile mode cannot have basis strides, got {mode}")
        return mode
    if isinstance(mode, Dyn):
        raise LayoutError(f"a tile must be static, got the run-time value {mode}; tile sizes are compile-time")
    number = as_int_tuple(mode)
    if type(number) is int:
        return _tile_mode(number)
    raise DSLTypeError(f"a tile mode is an int, None, a Layout or a tuple of those, got {mode!r}")


def make_tile(*modes: object) -> Tile:
    """A tile with one entry per argument: int, None, static Layout, or a nested tuple of those.

    >>> make_tile(4, None, (2, 8)), make_tile(4)
    (Tile([4|*|[2|8]]), Tile([4]))
    """
    return Tile(modes)


def as_tile(x: object) -> Tile | Layout:
    """The tiler meant by an argument of a divide: a Layout or Tile as is, a tuple by `make_tile`, an int as leaf.

    >>> as_tile((4, 8)), as_tile(4)
    (Tile([4|8]), Tile(4))
    """
    if type(x) is Layout or type(x) is Tile:
        return x
    if isinstance(x, (tuple, list)):
        return Tile(cast("Sequence[object]", x))
    if type(x) is ComposedLayout:
        raise DSLTypeError(f"expected a Layout, a Tile or a tuple as tiler, got the composed layout {x}")
    return Tile.leaf(x)
