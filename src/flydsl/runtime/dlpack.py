"""DLPack both ways: capsules over runtime buffers, and what a capsule of somebody else describes.

A capsule that was taken belongs to a `Borrowed` object, which calls the producer's deleter when it is collected.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from dataclasses import dataclass
from typing import Any, ClassVar, cast

CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 10, 11, 13
"""Device codes of the DLPack standard."""

STACK_OF_DEVICE = {CPU: "cpu", CUDA: "cuda", CUDA_HOST: "cuda", ROCM: "rocm", ROCM_HOST: "rocm", CUDA_MANAGED: "cuda"}
DEVICE_OF_STACK = {"cpu": CPU, "cuda": CUDA, "rocm": ROCM}

DTYPE_NAMES: dict[tuple[int, int], str] = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}
"""Name of an element type by DLPack's type code and its bits."""

_NAME = b"dltensor"
_VERSIONED_NAME = b"dltensor_versioned"
_MAX_VERSION = (1, 1)
_READ_ONLY = 1


class DLTensor(ctypes.Structure):
    """An array as the standard describes it."""

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
    _fields_: ClassVar = [("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


_alive: dict[int, tuple[object, ...]] = {}
_tickets = itertools.count(1)


# Prototypes of our own: `ctypes.pythonapi.X` is one object per process, whose argtypes others may set differently.
def _python_function(name: str, result: Any, *args: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *args)((name, ctypes.pythonapi))


_raw_is_valid = _python_function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_raw_pointer = _python_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_is_valid = _python_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
capsule_pointer = _python_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_set_name = _python_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_new = _python_function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


@ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
def _delete(managed: Any) -> None:
    _alive.pop(managed.contents.manager or 0, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _drop_capsule(capsule: int) -> None:
    # Runs when the capsule dies; a consumer has renamed it, and then owns the tensor.
    if _raw_is_valid(capsule, _NAME):
        managed = ctypes.cast(cast(int, _raw_pointer(capsule, _NAME)), ctypes.POINTER(_Managed))
        _alive.pop(managed.contents.manager or 0, None)


def bytes_capsule(address: int, nbytes: int, device: tuple[int, int], owner: object) -> object:
    """A `dltensor` capsule over `nbytes` bytes at `address`; `owner` lives until the consumer is done."""
    ticket = next(_tickets)
    shape = (ctypes.c_int64 * 1)(nbytes)
    tensor = DLTensor(address or None, device[0], device[1], 1, 1, 8, 1, shape, None, 0)
    managed = _Managed(tensor, ticket, ctypes.cast(_delete, ctypes.c_void_p))
    _alive[ticket] = (managed, shape, owner)
    return _new(ctypes.addressof(managed), _NAME, ctypes.cast(_drop_capsule, ctypes.c_void_p))


# --- taking a capsule ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Borrowed:
    """A tensor another library lent: its memory stays valid as long as this object lives."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    dtype: str
    """Name of the element type, as in `DTYPE_NAMES`."""
    device: tuple[int, int]
    """DLPack's device code, and the ordinal."""
    read_only: bool


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _give_back(deleter: int, managed: int) -> None:
    # The standard lets a deleter be called from any thread, and ctypes lets go of the interpreter lock meanwhile.
    _DELETER(deleter)(managed)


def _request(producer: Any, on_host: bool) -> object:
    """A capsule from `producer`; older producers know fewer arguments, and on the host none takes a stream."""
    stream: dict[str, object] = {} if on_host else {"stream": -1}
    for arguments in ({**stream, "max_version": _MAX_VERSION}, stream, {}):
        try:
            return producer.__dlpack__(**arguments)
        except TypeError:
            if not arguments:
                raise
    raise AssertionError("the last request has no arguments")


def borrow(producer: Any) -> Borrowed:
    """Take the tensor an object with `__dlpack__` and `__dlpack_device__` describes.

    No ordering is asked for (`stream=-1`): launches order themselves. `BufferError` if the producer cannot lend it.
    """
    code, _ = cast("tuple[int, int]", tuple(producer.__dlpack_device__()))
    capsule = _request(producer, int(code) == CPU)
    managed: Any
    if _is_valid(capsule, _VERSIONED_NAME):
        address = cast(int, capsule_pointer(capsule, _VERSIONED_NAME))
        managed = ctypes.cast(address, ctypes.POINTER(_ManagedVersioned)).contents
        if managed.major != _MAX_VERSION[0]:
            raise BufferError(f"DLPack {managed.major}.{managed.minor} is not understood, only {_MAX_VERSION[0]}.x")
        used, read_only = _USED_VERSIONED, bool(managed.flags & _READ_ONLY)
    elif _is_valid(capsule, _NAME):
        address = cast(int, capsule_pointer(capsule, _NAME))
        managed = ctypes.cast(address, ctypes.POINTER(_Managed)).contents
        used, read_only = _USED, False
    else:
        raise BufferError(f"{type(producer).__name__}.__dlpack__() gave {capsule!r}, not an unused DLPack capsule")
    made = _describe(managed.tensor, read_only)
    # From here on the tensor is ours; before, the capsule would have released it.
    _set_name(capsule, used)
    if managed.deleter:
        weakref.finalize(made, _give_back, managed.deleter, address).atexit = False
    return made


_USED, _USED_VERSIONED = b"used_dltensor", b"used_dltensor_versioned"


def _describe(tensor: Any, read_only: bool) -> Borrowed:
    if tensor.lanes != 1:
        raise BufferError(f"DLPack tensors of {tensor.lanes}-lane vectors are not supported")
    dtype = DTYPE_NAMES.get((tensor.code, tensor.bits))
    if dtype is None:
        raise BufferError(f"DLPack element type with code {tensor.code} and {tensor.bits} bits is not supported")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[i] for i in range(tensor.ndim))
    else:
        strides = row_major(shape)
    pointer = (tensor.data or 0) + tensor.byte_offset if tensor.data else 0
    return Borrowed(pointer, shape, strides, dtype, (tensor.device_type, tensor.device_id), read_only)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a dense array whose last dimension is contiguous; empty dimensions count as 1."""
    steps: list[int] = []
    step = 1
    for extent in reversed(shape):
        steps.append(step)
        step *= max(extent, 1)
    return tuple(reversed(steps))
