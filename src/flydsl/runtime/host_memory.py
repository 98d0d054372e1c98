"""Addresses of host memory: the buffer protocol read through the C API, so that read-only objects work too."""

from __future__ import annotations

import ctypes
import errno
import mmap
from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple


class HostSpan(NamedTuple):
    """A contiguous piece of host memory, valid while the object it came from is exported."""

    address: int
    nbytes: int


class _PyBuffer(ctypes.Structure):
    """CPython's `Py_buffer`."""

    _fields_: ClassVar = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]
    buf: int | None
    len: int


_SIMPLE = 0
_WRITABLE = 1
_STRIDED = 0x18
_get = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_release = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_PyBuffer))(("PyBuffer_Release", ctypes.pythonapi))


def is_mapped(address: int) -> bool:
    """Whether an address is memory of this process; where the system cannot tell, it is taken to be."""
    if not 0 < address < 1 << 63:
        return False
    try:
        mincore = ctypes.CDLL(None, use_errno=True).mincore
    except (OSError, AttributeError):
        return True
    page = mmap.PAGESIZE
    mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    status = mincore(address - address % page, 1, ctypes.byref(ctypes.c_ubyte()))
    return status == 0 or ctypes.get_errno() != errno.ENOMEM


@contextmanager
def exported(obj: object, *, writable: bool) -> Generator[HostSpan]:
    """The memory of an object with the buffer protocol, C-contiguous and held for the duration."""
    view = _PyBuffer()
    try:
        _get(ctypes.py_object(obj), ctypes.byref(view), _WRITABLE if writable else _SIMPLE)
    except (TypeError, BufferError, ValueError) as error:
        need = "writable contiguous" if writable else "contiguous"
        got = type(obj).__name__
        raise TypeError(f"expected {need} host memory (the buffer protocol), got {got}: {error}") from None
    try:
        yield HostSpan(view.buf or 0, view.len)
    finally:
        _release(ctypes.byref(view))


def buffer_address(view: memoryview) -> int:
    """Address of the first element of a memoryview, read-only or not; valid as long as the view is not released."""
    record = _PyBuffer()
    _get(view, ctypes.byref(record), _STRIDED)
    try:
        return record.buf or 0
    finally:
        _release(ctypes.byref(record))
