"""C structures of other people's objects that the native reader looks into, and whether they are as they should be.

They are what compiled extensions rely on: CPython's object header, numpy's array fields, the table and the tensor of
DLPack. `FLYDSL_RUNTIME_READ_IN_PLACE=0` leaves them alone. A Python or a library that lays its objects out otherwise is
noticed: each is tried on a real object first (`native_reader.can_read`).
"""

from __future__ import annotations

import ctypes
from types import MethodDescriptorType
from typing import ClassVar


class PyObject(ctypes.Structure):
    """What every object of CPython starts with."""

    _fields_: ClassVar = [("references", ctypes.c_void_p), ("cls", ctypes.c_void_p)]


class NumpyArray(ctypes.Structure):
    """The public fields of a numpy array."""

    _fields_: ClassVar = [
        ("header", PyObject),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int32),
    ]


class ExchangeTable(ctypes.Structure):
    """The table behind `__dlpack_c_exchange_api__`."""

    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("take", ctypes.c_void_p),
        ("give", ctypes.c_void_p),
        ("describe", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


class MethodDef(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class MethodDescriptor(ctypes.Structure):
    """CPython's `PyMethodDescrObject`: a method that a class has in C."""

    _fields_: ClassVar = [
        ("header", PyObject),
        ("owner", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("qualified", ctypes.c_void_p),
        ("method", ctypes.POINTER(MethodDef)),
    ]


METH_NOARGS, METH_FASTCALL = 0x4, 0x80


def method_address(cls: type, name: str) -> int | None:
    """The C function `PyObject *(PyObject *self, PyObject *)` behind a method without arguments; None: another kind."""
    found = getattr(cls, name, None) if header_is_known() else None
    if type(found) is not MethodDescriptorType or type(found).__basicsize__ < ctypes.sizeof(MethodDescriptor):
        return None
    method = MethodDescriptor.from_address(id(found)).method
    if not method or method.contents.name != name.encode() or method.contents.flags != METH_NOARGS:
        return None
    return method.contents.function


def header_is_known() -> bool:
    """Whether objects start as written here: builds without the global lock, or with tracing, have other headers."""
    probe = object()
    size = ctypes.sizeof(PyObject)
    return object.__basicsize__ == size and PyObject.from_address(id(probe)).cls == id(object)
