"""What a compiled call expects of an argument and what it writes of it: checks and writes over the fields of `FIELDS`.

Each is stated once. `Check.holds` and `Check.demand` interpret it for cold calls; `warm.py` makes Python of it and
`native_reader.py` a table for native code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ...errors import DSLOverflowError, DSLTypeError, DSLValueError, FlyDSLError
from .fields import FIELDS

I32_MAX = 2**31 - 1
BEYOND_I32 = ~I32_MAX
"""The bits that a number of 32 bits, not negative, does not have."""
BEYOND_I64 = -(2**63)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold of a field.

    `same`: it is what it was for the arguments the plan was made from. `bits`: those of `mask` are `value`. `among`: it
    is one of `values`. `packs`: it fits a format `letter`, which whoever writes it notices.
    """

    field: str
    relation: Literal["same", "bits", "among", "packs"] = "same"
    value: int = 0
    mask: int = 0
    mode: int | None = None
    values: tuple[object, ...] = ()
    letter: str = ""
    says: str = ""
    """The complaint where no other compiled code would do; without it the arguments are of another signature."""
    error: type[FlyDSLError] = DSLValueError

    def read(self, given: object, argument: object) -> object:
        """The field of an argument, as given and adapted."""
        return FIELDS[self.field].read(given, argument, self.mode)

    def holds(self, given: object, argument: object, expected: object = None) -> bool:
        """Whether an argument is as it should be; `expected` is the field of the argument the plan was made from."""
        found = self.read(given, argument)
        if self.relation == "same":
            if self.field == "identity":
                return found is expected
            return type(found) is type(expected) and found == expected
        if self.relation == "among":
            return any(type(found) is type(each) and found == each for each in self.values)
        if self.relation == "packs":
            return _packs(self.letter, found)
        assert isinstance(found, int)
        return found & self.mask == self.value

    def demand(self, given: object, argument: object, who: str = "") -> None:
        """Complain where it does not hold."""
        if self.says and not self.holds(given, argument):
            raise self.error(who + self.says.format(self.read(given, argument), mode=self.mode))


def _packs(letter: str, value: object) -> bool:
    try:
        struct.pack("<" + letter, value)
    except (struct.error, OverflowError, TypeError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Write:
    """A field written as a format letter of `struct`."""

    letter: str
    field: str
    mode: int | None = None
    path: str = ""
    """Attributes on the way to it, with dots."""
    convert: Callable[[object], int] | None = None


Slot = Sequence[Write]
"""What the host function reads by one pointer: values without padding between them."""

ArrayCode = Sequence[int | None]
"""Extents or strides: a number is compiled in, None a run-time value."""


def aligned(align: int) -> Check:
    """The address is a multiple of `align`."""
    says = f"the data was promised to be aligned to {align} bytes, but its address is {{:#x}}"
    return Check("pointer", "bits", 0, align - 1, says=says)


PRESENT = Check(
    "missing",
    "bits",
    mask=1,
    says="the array has no memory, its address is 0: is it a fake tensor, or has its storage been freed?",
    error=DSLTypeError,
)
"""Asked of arrays that are there, not of what stands for one."""


WRITABLE = Check(
    "writable",
    "bits",
    1,
    1,
    says="the array is read-only, and the kernel stores to it; pass a copy, or an array whose memory may be written",
)
"""Asked of arrays that kernels store to."""


@cache
def forward(mode: int) -> Check:
    """A stride is not negative."""
    says = (
        "negative strides are not supported here, got {} in dimension {mode}; pass a contiguous copy, or an array of "
        "host memory as it is, without an adapter"
    )
    return Check("stride", "bits", 0, BEYOND_I64, mode, says=says)


def promises(shape: ArrayCode, strides: ArrayCode, shape_div: Sequence[int], stride_div: Sequence[int]) -> list[Check]:
    """What was promised of run-time extents and strides."""
    found: list[Check] = []
    for what, codes, divs in (("extent", shape, shape_div), ("stride", strides, stride_div)):
        for mode, (code, div) in enumerate(zip(codes, divs, strict=True)):
            if code is None and div > 1:
                says = f"the {what} of dimension {{mode}} was promised to be a multiple of {div}, but it is {{}}"
                found.append(Check(what, "bits", 0, div - 1, mode, says=says))
    return found


@cache
def array_limits(rank: int, align: int, stride_width: int, backward: bool = False) -> tuple[Check, ...]:
    """What compiled code needs of every array: where it is, and numbers that fit.

    Strides may be negative only where `backward` says so: they have to be run-time values, and buffers and tensor maps
    of GPUs start at the lowest address.
    """
    found = [aligned(align)]
    for mode in range(rank):
        fits = "extent {} does not fit 32 bits"
        found.append(Check("extent", "bits", 0, BEYOND_I32, mode, says=fits, error=DSLOverflowError))
    for mode in range(rank):
        if stride_width == 32:
            says = "a stride of {} does not fit 32 bits; drop use_32bit_stride"
            found.append(Check("stride", "bits", 0, BEYOND_I32, mode, says=says, error=DSLOverflowError))
        elif not backward:
            found.append(forward(mode))
    return tuple(found)


IDENTITY = tuple(Check(name) for name in ("class", "dtype", "device", "rank", "leading", "negated", "writable"))
"""What makes an array that is passed as it is one of the same signature; `leading` stands for the static stride."""

ADAPTED = (*(Check(name) for name in ("class", "signature", "owner", "device", "producer", "writable")), PRESENT)
"""The same for an array in an adapter, which has checked all else when it was made and marked."""


def array_slots(shape: ArrayCode, strides: ArrayCode, stride_width: int) -> list[Slot]:
    """An array in the argument memory: its address, then a record of what is run-time."""
    record = [Write("i", "extent", mode) for mode, code in enumerate(shape) if code is None]
    letter = "q" if stride_width == 64 else "i"
    record += [Write(letter, "stride", mode) for mode, code in enumerate(strides) if code is None]
    return [[Write("Q", "pointer")], record] if record else [[Write("Q", "pointer")]]
