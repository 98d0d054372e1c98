"""Scalars at the host boundary: which C type carries a class, and how a Python number is written into one."""

from __future__ import annotations

import ctypes
import numbers
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import DSLOverflowError, DSLTypeError
from ...ir.fold import float_bits
from ..numeric import Boolean, Numeric, payload_of, scalar_or_none
from .scalar_ops import STATIC

if TYPE_CHECKING:
    from ..annotations import Filler, Number, Slot


class Cell(Protocol):
    """An instance of a C type."""

    value: Any


def c_abi_slot(cls: type[Numeric]) -> Slot:
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
        found = cls.abi = _make_slot(cls)
    return found


def _make_slot(cls: type[Numeric]) -> Slot:
    width = cls.width
    if width not in (1, 8, 16, 32, 64):
        raise DSLTypeError(f"{cls} cannot be a host argument: only 8- to 64-bit scalars and Boolean cross the boundary")
    if cls is Boolean:
        return ctypes.c_bool, _fill_bool
    if cls.is_integer:
        kind = "int" if cls.signed else "uint"
        low = -(1 << (width - 1)) if cls.signed else 0
        return getattr(ctypes, f"c_{kind}{width}"), _int_filler(cls, low, low + (1 << width) - 1)
    if width >= 32:
        return ctypes.c_float if width == 32 else ctypes.c_double, _fill_float
    name = cls.ir_name

    def fill_bits(arg: Any, storage: Cell) -> None:
        storage.value = float_bits(_host_float(arg), name)

    return ctypes.c_uint8 if width == 8 else ctypes.c_uint16, fill_bits


def _host_number(arg: object) -> Number:
    number = scalar_or_none(arg)
    if number is None:
        raise DSLTypeError(f"expected a number, got {arg!r} of type {type(arg).__name__}")
    return payload_of(number, "cannot be a host argument")


def _host_float(arg: Any) -> float:
    return float(arg) if type(arg) in STATIC else float(_host_number(arg))


def _fill_float(arg: Any, storage: Cell) -> None:
    storage.value = arg if type(arg) is float else _host_float(arg)


def _fill_bool(arg: Any, storage: Cell) -> None:
    value = arg if type(arg) is bool else _host_number(arg)
    if value not in (0, 1):
        raise DSLTypeError(f"a Boolean argument is True or False, got {arg!r}")
    storage.value = bool(value)


def _int_filler(cls: type[Numeric], low: int, high: int) -> Filler:
    def fill(arg: Any, storage: Cell) -> None:
        value = arg if type(arg) is int else int(arg) if isinstance(arg, numbers.Integral) else _host_number(arg)
        if type(value) is float:
            raise DSLTypeError(f"an {cls} argument takes an integer, got {arg!r}")
        if not low <= value <= high:
            raise DSLOverflowError(f"{value} does not fit {cls} ({low} to {high}); declare a wider parameter")
        storage.value = value

    return fill
