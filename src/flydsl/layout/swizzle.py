"""The two bit permutations that may stand innermost in a composed layout, and the base of all frozen classes."""

from __future__ import annotations

from typing import NoReturn, final

from flydsl.errors import DSLTypeError, LayoutError
from flydsl.layout.leaf import Basis, IntTuple, Leaf, basis_to_tuple, leaf_coord_swizzle, leaf_swizzle

frozen_set = object.__setattr__


class Frozen:
    """Base of the immutable classes: attributes are set once, with `frozen_set`."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable, cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable, cannot delete {name!r}")


def _expect_bits(owner: str, **fields: int) -> None:
    for name, value in fields.items():
        if type(value) is not int:
            raise DSLTypeError(f"{owner}: {name} must be an int, got {value!r}")
        if value < 0:
            raise LayoutError(f"{owner}: {name} must be at least 0, got {value}; only non-negative shifts exist")


@final
class Swizzle(Frozen):
    """`x ^ ((x & (((1 << mask) - 1) << (base + shift))) >> shift)`; `mask=0` is the identity.

    >>> Swizzle(3, 0, 3), Swizzle(3, 0, 3)(19)
    (S<3,0,3>, 17)
    """

    __slots__ = ("base", "mask", "shift")

    mask: int
    base: int
    shift: int

    def __init__(self, mask: int, base: int, shift: int) -> None:
        _expect_bits("Swizzle", mask=mask, base=base, shift=shift)
        frozen_set(self, "mask", mask)
        frozen_set(self, "base", base)
        frozen_set(self, "shift", shift)

    def __call__(self, index: Leaf) -> Leaf:
        return leaf_swizzle(index, self)

    def crd2idx(self, coord: IntTuple) -> IntTuple:
        """The swizzled index; a one-element coordinate is unwrapped."""
        while isinstance(coord, tuple) and len(coord) == 1:
            coord = coord[0]
        if isinstance(coord, tuple):
            raise LayoutError(f"profile mismatch: {self} takes one integer, got a coordinate of rank {len(coord)}")
        return leaf_swizzle(coord, self)

    @property
    def is_static(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if type(other) is not Swizzle:
            return NotImplemented
        return self.mask == other.mask and self.base == other.base and self.shift == other.shift

    def __hash__(self) -> int:
        return hash((self.mask, self.base, self.shift))

    def __str__(self) -> str:
        return f"S<{self.mask},{self.base},{self.shift}>"

    __repr__ = __str__

    def __reduce__(self) -> tuple[object, ...]:
        return Swizzle, (self.mask, self.base, self.shift)


@final
class CoordSwizzle(Frozen):
    """On a coordinate tuple: XOR `mask` bits of the leaf at `mode_row`, from bit `base_row` on, into the leaf at
    `mode_col` at bit `base_col`.

    >>> CoordSwizzle(2, 1, (0,), 2, (1,))((6, 9))
    (6, 5)
    """

    __slots__ = ("base_col", "base_row", "mask", "mode_col", "mode_row")

    mask: int
    base_row: int
    mode_row: tuple[int, ...]
    base_col: int
    mode_col: tuple[int, ...]

    def __init__(
        self,
        mask: int,
        base_row: int,
        mode_row: tuple[int, ...] | list[int],
        base_col: int,
        mode_col: tuple[int, ...] | list[int],
    ) -> None:
        _expect_bits("CoordSwizzle", mask=mask, base_row=base_row, base_col=base_col)
        for mode in (*mode_row, *mode_col):
            _expect_bits("CoordSwizzle", mode=mode)
        frozen_set(self, "mask", mask)
        frozen_set(self, "base_row", base_row)
        frozen_set(self, "mode_row", tuple(mode_row))
        frozen_set(self, "base_col", base_col)
        frozen_set(self, "mode_col", tuple(mode_col))

    def __call__(self, coord: IntTuple) -> IntTuple:
        return self.crd2idx(coord)

    def crd2idx(self, coord: IntTuple) -> IntTuple:
        """The coordinate with its column leaf replaced."""
        if type(coord) is Basis:
            coord = basis_to_tuple(coord)
        if self.mask == 0:
            return coord
        row, col = self._leaf_at(coord, self.mode_row), self._leaf_at(coord, self.mode_col)
        return _replace_at(coord, self.mode_col, leaf_coord_swizzle(col, row, self))

    def _leaf_at(self, coord: IntTuple, path: tuple[int, ...]) -> Leaf:
        at = coord
        for mode in path:
            if isinstance(at, tuple) and mode < len(at):
                at = at[mode]
            elif isinstance(at, tuple) or mode != 0:
                raise LayoutError(
                    f"profile mismatch: {self} needs a leaf at path {list(path)} of the coordinate {coord}"
                )
        if isinstance(at, tuple):
            raise LayoutError(f"profile mismatch: {self} needs a leaf at path {list(path)} of the coordinate {coord}")
        return at

    @property
    def is_static(self) -> bool:
        return True

    def _key(self) -> tuple[int, int, tuple[int, ...], int, tuple[int, ...]]:
        return self.mask, self.base_row, self.mode_row, self.base_col, self.mode_col

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if type(other) is CoordSwizzle else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return f"CS<{self.mask},{self.base_row},{list(self.mode_row)},{self.base_col},{list(self.mode_col)}>"

    __repr__ = __str__

    def __reduce__(self) -> tuple[object, ...]:
        return CoordSwizzle, self._key()


def _replace_at(tree: IntTuple, path: tuple[int, ...], leaf: Leaf) -> IntTuple:
    if not path or not isinstance(tree, tuple):
        return leaf
    i = path[0]
    return (*tree[:i], _replace_at(tree[i], path[1:], leaf), *tree[i + 1 :])
