"""Symmetric tensors: one array for each rank, all of them mapped in a row."""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from typing import TYPE_CHECKING, Any

from flydsl.errors import DSLTypeError, DSLValueError, InvalidHandleError

if TYPE_CHECKING:
    import numpy as np

    from flydsl.runtime.base import DeviceRuntime

BYTES = {
    **{"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2},
    **{"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1},
}
"""Types of elements and their bytes."""


def dtype_name(dtype: object) -> str:
    """The name of a type of elements: given by it, or by a class of numpy, torch or the language."""
    named = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))
    name = str(named).rpartition(".")[2].lower()
    if name not in BYTES:
        raise DSLTypeError(f"a symmetric tensor holds one of {', '.join(BYTES)}, got {dtype!r}")
    return name


class Holders:
    """How many threads have a mapping in common."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._lock = threading.RLock()  # a collection may run a finaliser anywhere

    def add(self, base: int) -> None:
        with self._lock:
            self._counts[base] = self._counts.get(base, 0) + 1

    def remove(self, base: int) -> bool:
        """Whether it was the last one."""
        with self._lock:
            self._counts[base] -= 1
            return not self._counts[base]


class Mapping:
    """The memories of all ranks as one of them sees them; with `holders`, as all threads of the process do."""

    def __init__(self, runtime: DeviceRuntime, base: int, slot: int, size: int, holders: Holders | None):
        self.runtime = runtime
        self.base = base
        self.slot = slot
        """Bytes from one rank's memory to the next one's."""
        self.size = size
        self._holders = holders
        if holders is not None:
            holders.add(base)
        self._finalizer = weakref.finalize(self, _forget, runtime, base, holders)
        self._finalizer.atexit = False

    @property
    def alive(self) -> bool:
        return self._finalizer.alive

    def close(self) -> None:
        """Unmap it here; others have mappings of their own."""
        if self._finalizer.detach() and (self._holders is None or self._holders.remove(self.base)):
            self.runtime.shared_unmap(self.base)


def _forget(runtime: DeviceRuntime, base: int, holders: Holders | None) -> None:
    """A finaliser calls no driver: it queues."""
    if (holders is None or holders.remove(base)) and runtime.alive:
        runtime.defer_release("mapping", base, 0)


class SymmetricTensor:
    """An array of every rank. As an argument of a kernel it has the ranks as its first dimension.

    `local` is this rank's array: a numpy array on the cpu stack, else an object with `__cuda_array_interface__`.
    `copy_from` and `numpy` work on every stack.
    """

    def __init__(self, mapping: Mapping, rank: int, device: int, shape: tuple[int, ...], dtype: str):
        self.mapping = mapping
        self.rank = rank
        self.device = device
        self.shape = shape
        """Of each rank's array."""
        self.dtype = dtype
        self._local: object | None = None

    @property
    def world(self) -> int:
        """How many ranks there are."""
        return self.mapping.size

    @property
    def itemsize(self) -> int:
        return BYTES[self.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes of each rank's array."""
        return math.prod(self.shape) * self.itemsize

    def address(self, rank: int | None = None) -> int:
        """Where a rank's array is mapped in this process; this rank's by default."""
        if not self.mapping.alive:
            raise InvalidHandleError("this symmetric tensor was freed")
        at = self.rank if rank is None else rank
        if not 0 <= at < self.world:
            raise DSLValueError(f"ranks are 0 to {self.world - 1}, got {at}")
        return self.mapping.base + at * self.mapping.slot

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the tensor that a kernel sees, in elements: from rank to rank, then row by row."""
        inner = [1]
        for extent in reversed(self.shape[1:]):
            inner.append(inner[-1] * max(extent, 1))
        return (self.mapping.slot // self.itemsize, *reversed(inner[: len(self.shape)]))

    @property
    def local(self) -> Any:
        """This rank's array."""
        if self._local is None:
            on_host = self.mapping.runtime.pageable_host
            self._local = self._view(self.address()) if on_host else DeviceArray(self)
        return self._local

    def _view(self, address: int) -> np.ndarray[Any, Any]:
        import numpy as np

        buffer = (ctypes.c_char * max(self.nbytes, 1)).from_address(address)
        buffer._owner = self.mapping  # pyright: ignore[reportAttributeAccessIssue] - views of it keep it mapped
        return np.ndarray(self.shape, _numpy_type(self.dtype), memoryview(buffer))

    def copy_from(self, array: object) -> None:
        """Fill this rank's array from one in host memory."""
        import numpy as np

        source = np.ascontiguousarray(np.asarray(array).astype(_numpy_type(self.dtype), copy=False))
        if source.shape != self.shape:
            raise DSLValueError(f"this tensor has the shape {self.shape} in each rank, got {source.shape}")
        self.mapping.runtime.memcpy_h2d(self.address(), source.ctypes.data, self.nbytes)

    def numpy(self, rank: int | None = None) -> np.ndarray[Any, Any]:
        """A copy of a rank's array in host memory; this rank's by default. It waits for the device's work."""
        import numpy as np

        made = np.empty(self.shape, _numpy_type(self.dtype))
        self.mapping.runtime.synchronize(self.device)
        self.mapping.runtime.memcpy_d2h(made.ctypes.data, self.address(rank), self.nbytes)
        return made

    def free(self) -> None:
        """Unmap it in this rank. Others may go on; the memory is free once all have."""
        self._local = None
        self.mapping.close()

    def __repr__(self) -> str:
        return f"SymmetricTensor({self.shape}, {self.dtype}, rank {self.rank} of {self.world})"


_TYPESTR = {"float": "f", "int": "i", "uint": "u"}


class DeviceArray:
    """A rank's array in device memory, for frameworks."""

    def __init__(self, tensor: SymmetricTensor):
        self._tensor = tensor

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        tensor = self._tensor
        if tensor.dtype == "bfloat16":
            raise AttributeError("__cuda_array_interface__ knows no bfloat16; use copy_from and numpy")
        kind = tensor.dtype.rstrip("0123456789")
        typestr = f"<{_TYPESTR[kind]}{tensor.itemsize}"
        return {"shape": tensor.shape, "typestr": typestr, "data": (tensor.address(), False), "version": 3}


def _numpy_type(name: str) -> Any:
    if name != "bfloat16":
        return name
    try:
        import ml_dtypes
    except ImportError as error:
        raise DSLTypeError("numpy has no bfloat16 of its own: install ml_dtypes") from error
    return ml_dtypes.bfloat16
