"""DLPack capsules for runtime buffers: one-dimensional uint8 tensors that keep their owner alive."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, ClassVar, cast

CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 10, 11, 13
"""Device codes of the DLPack standard."""

STACK_OF_DEVICE = {CPU: "cpu", CUDA: "cuda", CUDA_HOST: "cuda", ROCM: "rocm", ROCM_HOST: "rocm", CUDA_MANAGED: "cuda"}
DEVICE_OF_STACK = {"cpu": CPU, "cuda": CUDA, "rocm": ROCM}

_NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_: ClassVar = [("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_alive: dict[int, tuple[Any, ...]] = {}
_tickets = itertools.count(1)


@ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
def _delete(managed: Any) -> None:
    _alive.pop(managed.contents.manager or 0, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _drop_capsule(capsule: int) -> None:
    # Runs when the capsule dies; a consumer has renamed it, and then owns the tensor.
    api = ctypes.pythonapi
    valid, pointer = api.PyCapsule_IsValid, api.PyCapsule_GetPointer
    valid.argtypes = pointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    valid.restype, pointer.restype = ctypes.c_int, ctypes.c_void_p
    if valid(capsule, _NAME):
        managed = ctypes.cast(cast(int, pointer(capsule, _NAME)), ctypes.POINTER(_Managed))
        _alive.pop(managed.contents.manager or 0, None)


def bytes_capsule(address: int, nbytes: int, device: tuple[int, int], owner: object) -> object:
    """A `dltensor` capsule over `nbytes` bytes at `address`; `owner` lives until the consumer is done."""
    ticket = next(_tickets)
    shape = (ctypes.c_int64 * 1)(nbytes)
    tensor = _Tensor(address or None, device[0], device[1], 1, 1, 8, 1, shape, None, 0)
    managed = _Managed(tensor, ticket, ctypes.cast(_delete, ctypes.c_void_p))
    _alive[ticket] = (managed, shape, owner)
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    new.restype = ctypes.py_object
    return new(ctypes.addressof(managed), _NAME, ctypes.cast(_drop_capsule, ctypes.c_void_p))
