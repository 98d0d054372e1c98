"""Arrays that nobody has written yet, for checked mode: to read of them what no kernel has written is a mistake.

The table is one for the process: how many ranges there are, then first byte, byte behind the last and a byte per byte
that says whether it was written, of each. Checked code reads it (`cpu/code/races/global_memory.py`), and is told with
it where the table of words is that all checked kernels of the process share.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from ..errors import DSLTypeError, DSLValueError

if TYPE_CHECKING:
    from .runtime.native import Symbols

MOST = 64
"""Arrays that can be watched at a time."""
SYMBOL = "fly_watch"

_INSTALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class _Range(ctypes.Structure):
    _fields_ = [("low", ctypes.c_int64), ("high", ctypes.c_int64), ("written", ctypes.c_void_p)]  # noqa: RUF012


class _Table(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("ranges", _Range * MOST)]  # noqa: RUF012


class _Words(ctypes.Structure):
    _fields_ = [("table", ctypes.c_void_p), ("lock", ctypes.c_int64)]  # noqa: RUF012


_table, _words = _Table(), _Words()
_shadows: dict[int, ctypes.Array[ctypes.c_char]] = {}
"""Which bytes were written, by the first address."""


def install(library: Symbols) -> None:
    """Tell checked code where the tables are."""
    if SYMBOL in library.symbols:
        _INSTALL(library.address(SYMBOL))(ctypes.addressof(_table), ctypes.addressof(_words))


A = TypeVar("A")


def unwritten(array: A) -> A:
    """Tell checked mode that nobody has written an array, such as one made by `empty`; gives the array.

    A checked kernel that reads an element of it before a checked kernel has written that is reported. It is watched as
    long as it exists; what the host writes into it does not count.

    >>> from flydsl.cpu import unwritten
    >>> out = unwritten(np.empty(64, np.float32))
    """
    low, nbytes = _bytes_of(array)
    _forget(low)
    if _table.count == MOST:
        raise DSLValueError(f"unwritten watches {MOST} arrays at a time")
    shadow = _shadows[low] = ctypes.create_string_buffer(nbytes)
    _table.ranges[_table.count] = _Range(low, low + nbytes, ctypes.addressof(shadow))
    _table.count += 1
    weakref.finalize(array, _forget, low)
    return array


def _bytes_of(array: object) -> tuple[int, int]:
    """Where an array of numpy or a tensor of torch lies, and its bytes."""
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        if interface.get("strides") is not None:
            raise DSLValueError("unwritten needs an array whose elements lie in a row")
        return interface["data"][0], int(getattr(array, "nbytes", 0))
    if hasattr(array, "data_ptr") and hasattr(array, "nbytes"):
        tensor = cast("_Tensor", array)
        if not tensor.is_contiguous():
            raise DSLValueError("unwritten needs a tensor whose elements lie in a row")
        return tensor.data_ptr(), tensor.nbytes
    raise DSLTypeError(f"unwritten takes an array of numpy or a tensor of torch, got {type(array).__name__}")


class _Tensor(Protocol):
    @property
    def nbytes(self) -> int: ...
    def data_ptr(self) -> int: ...
    def is_contiguous(self) -> bool: ...


def _forget(low: int) -> None:
    for i in range(_table.count):
        if _table.ranges[i].low == low:
            last = _table.ranges[_table.count - 1]
            _table.ranges[i] = _Range(last.low, last.high, last.written)
            _table.count -= 1
            _shadows.pop(low, None)
            return
