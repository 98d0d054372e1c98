"""Scalars at the host boundary: which C type carries a class, and how a Python number is written into one."""

from __future__ import annotations

import ctypes
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...errors import DSLOverflowError, DSLTypeError
from ...ir.fold import float_bits
from ..numeric import Boolean, Numeric, payload_of, scalar_or_none

CSlot = tuple[Any, Callable[[Any, Any], None]]
"""A C type, and the function that fills an instance of it from an argument."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a host number of a class is written."""

    letter: str
    """Of `struct`."""
    ctype: type[ctypes._SimpleCData[Any]]  # pyright: ignore[reportPrivateUsage]
    number: Callable[[object], int | float]
    """From a Python number or a compile-time scalar to what is written; says what does not fit."""
    plain: tuple[type, ...]
    """Classes of Python numbers that are written as they are."""
    values: tuple[int, ...] = ()
    """The only numbers there are, where they are few."""
    bits: Callable[[object], int] | None = None
    """For classes Python has no format of: the pattern of a number."""


def c_abi_slot(cls: type[Numeric]) -> CSlot:
    """How a host number of this class enters compiled code: a ctype, and the function that fills one.

    The filler takes a Python number or a compile-time scalar and checks that it fits.

    >>> from flydsl.expr.numeric import Int8
    >>> ctype, fill = c_abi_slot(Int8)
    >>> slot = ctype()
    >>> fill(-5, slot)
    >>> slot.value
    -5
    """
    found = cls.abi
    if found is None:
        made = encoding(cls)

        def fill(arg: object, storage: Any) -> None:
            storage.value = made.number(arg)

        found = cls.abi = (made.ctype, fill)
    return found


@cache
def encoding(cls: type[Numeric]) -> Encoding:
    """The same as data."""
    width = cls.width
    if width not in (1, 8, 16, 32, 64):
        raise DSLTypeError(f"{cls} cannot be a host argument: only scalars of 8 bits and more, and Boolean, can")
    if cls is Boolean:
        return Encoding("?", ctypes.c_bool, _bool, (bool, int), (False, True, 0, 1))
    letter = {8: "b", 16: "h", 32: "i", 64: "q"}[width]
    if cls.is_integer:
        kind = "int" if cls.signed else "uint"
        low = -(1 << (width - 1)) if cls.signed else 0
        number = _integer(cls, low, low + (1 << width) - 1)
        return Encoding(
            letter if cls.signed else letter.upper(), getattr(ctypes, f"c_{kind}{width}"), number, (int, bool)
        )
    if width >= 32:
        ctype, letter = (ctypes.c_float, "f") if width == 32 else (ctypes.c_double, "d")
        return Encoding(letter, ctype, _float, (float, int, bool))
    name = cls.ir_name

    def bits(arg: object) -> int:
        return float_bits(_float(arg), name)

    ctype = ctypes.c_uint8 if width == 8 else ctypes.c_uint16
    return Encoding(letter.upper(), ctype, bits, (float, int, bool), bits=bits)


def _host_number(arg: object) -> int | float:
    number = scalar_or_none(arg)
    if number is None:
        raise DSLTypeError(f"expected a number, got {arg!r} of type {type(arg).__name__}")
    return payload_of(number, "cannot be a host argument")


def _float(arg: object) -> float:
    return float(arg) if isinstance(arg, (int, float)) else float(_host_number(arg))


def _bool(arg: object) -> bool:
    value = arg if type(arg) is bool else _host_number(arg)
    if value not in (0, 1):
        raise DSLTypeError(f"a Boolean argument is True or False, got {arg!r}")
    return bool(value)


@cache
def wide_integer(cls: type[Numeric]) -> Callable[[object], int]:
    """The checked number of a 128-bit class."""
    low = -(1 << 127) if cls.signed else 0
    return _integer(cls, low, low + (1 << 128) - 1)


def _integer(cls: type[Numeric], low: int, high: int) -> Callable[[object], int]:
    def number(arg: object) -> int:
        value = arg if type(arg) is int else int(arg) if isinstance(arg, numbers.Integral) else _host_number(arg)
        if type(value) is float:
            raise DSLTypeError(f"an {cls} argument takes an integer, got {arg!r}")
        if not low <= value <= high:
            raise DSLOverflowError(f"{value} does not fit {cls} ({low} to {high}); declare a wider parameter")
        return int(value)

    return number
