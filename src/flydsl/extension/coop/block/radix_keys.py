"""Keys as unsigned numbers whose order is that of the keys, and the digits of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.numeric import Boolean, Int32, Numeric, Uint8, as_numeric
from ....expr.scalars.scalar_ops import CLASSES
from .elements import Item, is_scalar_class

if TYPE_CHECKING:
    from .spec import BlockMeta


def word_class(owner: str, dtype: type[Numeric]) -> type[Numeric]:
    """The unsigned class with the bits of a scalar class."""
    if dtype is Boolean:
        return Uint8
    found = CLASSES.get(f"Uint{dtype.width}")
    if found is None or dtype.width < 8:
        raise DSLTypeError(f"{owner}: keys of {dtype} have no digits; convert them first, as in key.to(fx.Int32)")
    return found


def raw_word(owner: str, key: Numeric) -> Numeric:
    """The bits of a key."""
    word = word_class(owner, type(key))
    return key.bitcast(word) if type(key).is_float else word(key)


def ordered_word(owner: str, key: Numeric) -> Numeric:
    """An unsigned number, larger where the key is: zeros of both signs are equal, NaNs go by their bits."""
    dtype, word = type(key), raw_word(owner, key)
    kind = type(word)
    top = kind(1 << (kind.width - 1))
    if not dtype.is_float:
        return word ^ top if dtype.signed and dtype is not Boolean else word
    word = word ^ ((word & top) == kind(0)).select(top, kind((1 << kind.width) - 1))
    if "UZ" in str(dtype):  # the formats without a negative zero use its bits for NaN
        return word
    # -0.0 has come right before 0.0.
    return (word == top - kind(1)).select(top, word)


class Decomposed:
    """The unsigned numbers of a key, most significant first: of the key itself, or of what a function makes of it."""

    def __init__(self, cls: BlockMeta, decomposer: Callable[..., object] | None):
        if decomposer is None and not is_scalar_class(cls.dtype):
            raise DSLTypeError(f"{cls.__name__}: keys of {cls.dtype} have no digits of their own; pass decomposer=")
        self.owner, self.decomposer = cls.__name__, decomposer

    def __call__(self, key: Item) -> list[Numeric]:
        """The unsigned numbers of one key."""
        if self.decomposer is None:
            return [ordered_word(self.owner, cast("Numeric", key))]
        made = self.decomposer(key)
        parts = cast("Sequence[object]", made) if isinstance(made, (list, tuple)) else [made]
        if not parts:
            raise DSLValueError(f"{self.owner}: the decomposer gave no fields")
        return [ordered_word(self.owner, as_numeric(field)) for field in parts]

    def widths(self, key: Item) -> list[int]:
        """Bits of the fields of a key, most significant first."""
        if self.decomposer is None:
            return [type(cast("Numeric", key)).width]
        made = self.decomposer(key)
        parts = cast("Sequence[object]", made) if isinstance(made, (list, tuple)) else [made]
        return [type(as_numeric(field)).width for field in parts]


def check_bits(owner: str, begin: object, end: object, width: int) -> tuple[int, int]:
    """A range of bits of a key."""
    last = width if end is None else end
    for what, bit in (("begin_bit", begin), ("end_bit", last)):
        if not isinstance(bit, int) or isinstance(bit, bool):
            raise DSLTypeError(f"{owner}: {what} must be a Python int, got {bit!r}")
    first, last = cast("int", begin), cast("int", last)
    if not 0 <= first <= last <= width:
        raise DSLValueError(f"{owner}: bits must be in 0 <= begin_bit <= end_bit <= {width}, got {first} and {last}")
    return first, last


def check_radix_bits(owner: str, bits: object, most: int) -> int:
    """Bits of a digit."""
    if not isinstance(bits, int) or isinstance(bits, bool) or not 1 <= bits <= most:
        raise DSLValueError(f"{owner}: radix_bits must be a Python int from 1 to {most}, got {bits!r}")
    return bits


def digit_at(word: Numeric, shift: Int32 | int, bits: int, left: Int32 | int) -> Int32:
    """The digit at a bit, of at most `bits` bits and not more than are `left`."""
    kind = type(word)
    moved = word >> kind(shift)
    if isinstance(left, int):
        return Int32(moved & kind((1 << min(bits, left)) - 1))
    narrow = (left < bits).select((Int32(1) << left) - 1, Int32((1 << bits) - 1))
    return Int32(moved & kind((1 << bits) - 1)) & narrow
