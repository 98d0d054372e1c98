"""Calls as bytes, for another process of ours: which function, which arguments, and what their arrays hold.

The two ends are a parent and the child it started, so pickle is safe between them; nothing of this is ever stored.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

from ...compiler.call.host_arrays import is_cupy_array, is_torch_tensor
from ...compiler.call.specs import TensorSpec
from ...compiler.call.tensor_argument import TensorArgument
from ...errors import DSLTypeError
from ...expr.gpu import Stream
from ...runtime.objects import Buffer
from ...target import on_host
from ..arrays import CallArray, find_arrays


class Unsendable(Exception):
    """Why a call cannot be made in another process."""


# --- functions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FunctionPlace:
    """Where another process finds a function."""

    module: str
    qualname: str
    file: str
    """The script, where the module is the program itself."""

    def find(self) -> object:
        """The object of that name; imports its module."""
        return _look(self._module(), self.qualname)

    def _module(self) -> ModuleType:
        if self.module != "__main__":
            if self.module not in sys.modules and self.file:
                folder = str(Path(self.file).parent)
                if folder not in sys.path:
                    sys.path.append(folder)
            try:
                return importlib.import_module(self.module)
            except ModuleNotFoundError:
                if not self.file:
                    raise
                return _load(self.module, self.file)
        return _load("__mp_main__", self.file, main=True)


def _load(name: str, file: str, *, main: bool = False) -> ModuleType:
    known = sys.modules.get(name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if main:
        # What the parent pickled of its own program is found here, as multiprocessing does it.
        sys.modules["__main__"] = module
    spec.loader.exec_module(module)
    return module


def _look(module: object, qualname: str) -> object:
    found = module
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def place_of(owner: object) -> FunctionPlace:
    """Where another process finds this object; raises `Unsendable` where it does not."""
    module = str(getattr(owner, "__module__", "") or "")
    qualname = str(getattr(owner, "__qualname__", "") or "")
    if not module or not qualname or "<" in qualname:
        raise Unsendable(f"{qualname or owner!r} has no name in its module")
    loaded = sys.modules.get(module)
    try:
        found = _look(loaded, qualname)
    except AttributeError:
        raise Unsendable(f"{module} has no {qualname}") from None
    if found is not owner and getattr(found, "fn", None) is not owner:  # what tunes it will do
        raise Unsendable(f"{module}:{qualname} is another object")
    file = str(getattr(loaded, "__file__", "") or "")
    if module == "__main__" and not Path(file).is_file():
        raise Unsendable("the program is no file that another process could run")
    return FunctionPlace(module, qualname, file)


def code_place(owner: object) -> FunctionPlace:
    """Where another process finds what to compile: a tuned function, or the function it tunes."""
    try:
        return place_of(owner)
    except Unsendable:
        function = getattr(owner, "fn", None)
        if function is None:
            raise
        return place_of(function)


# --- arguments ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayImage:
    """An array without its bytes, which are blob number `blob`."""

    kind: str
    """`numpy`, `torch`, `cupy` or `buffer`."""
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    offset: int
    """Elements from the first byte of the blob to the first of the array."""
    device: str
    blob: int


class _TorchModule(Protocol):
    def frombuffer(self, data: bytearray, *, dtype: object) -> Any: ...


@dataclass(frozen=True)
class CallImage:
    """A call: what to pickle, and the memory behind its arrays."""

    payload: bytes
    blobs: list[bytes]


def _kind_of(owner: object) -> str | None:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(owner, numpy.ndarray):
        return "numpy"
    if is_torch_tensor(owner):
        return "torch"
    if is_cupy_array(owner):
        return "cupy"
    return "buffer" if isinstance(owner, Buffer) else None


class _Pickler(pickle.Pickler):
    """Arrays are replaced: by images for running, by specs for compiling."""

    def __init__(self, stream: io.BytesIO, stand_in: Callable[[object], object]):
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self._stand_in = stand_in

    def persistent_id(self, obj: object) -> object:
        return self._stand_in(obj)


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, make: Callable[[object], object]):
        super().__init__(stream)
        self._make = make

    def persistent_load(self, pid: object) -> object:
        return self._make(pid)


def read_bytes(array: CallArray) -> bytes:
    """The memory of an array, from its first element to its last."""
    import ctypes

    address, count = array.span()
    if on_host(array.info.device):
        return ctypes.string_at(address, count)
    from ...runtime.device_runtime import get_device_runtime

    held = bytearray(count)
    place = (ctypes.c_char * count).from_buffer(held) if count else None
    if place is not None:
        get_device_runtime().memcpy_d2h(ctypes.addressof(place), address, count)
    return bytes(held)


def image_of(what: object, named: Mapping[str, object], *, data: bool) -> CallImage:
    """A picklable call with the content of its arrays, or (`data=False`) with specs in their place."""
    arrays = {id(array.owner): array for array in find_arrays(named)}
    blobs: list[bytes] = []
    spans: list[tuple[int, int]] = []

    def stand_in(obj: object) -> object:
        if isinstance(obj, TensorArgument):
            raise Unsendable("an argument with layout promises of its own cannot be sent")
        if isinstance(obj, Stream):
            return ("stream",)
        array = arrays.get(id(obj))
        if array is None:
            return None
        kind = _kind_of(obj)
        if kind is None:
            raise Unsendable(f"'{array.name}' is a {type(obj).__name__}, which cannot be sent")
        dtype = str(getattr(obj, "dtype", "uint8")).removeprefix("torch.")
        if not data:
            return ("spec", array.info.shape, array.info.dtype.__name__, array.info.strides)
        address, count = array.span()
        for i, (start, size) in enumerate(spans):
            if (start, size) == (address, count):
                blob = i
                break
            if start < address + count and address < start + size:
                raise Unsendable(f"'{array.name}' overlaps with another argument")
        else:
            blob = len(blobs)
            blobs.append(read_bytes(array))
            spans.append((address, count))
        size = max((array.info.dtype.width + 7) // 8, 1)
        offset = (array.info.pointer - address) // size
        return ("array", ArrayImage(kind, dtype, array.info.shape, array.info.strides, offset, array.info.device, blob))

    stream = io.BytesIO()
    try:
        _Pickler(stream, stand_in).dump(what)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise Unsendable(f"its arguments cannot be sent: {error}") from None
    return CallImage(stream.getvalue(), blobs)


def rebuild(payload: bytes, blobs: Sequence[bytes]) -> Any:
    """What `image_of` was given, with arrays of this process."""
    held: dict[int, bytearray] = {}
    made: dict[ArrayImage, object] = {}

    def make(pid: object) -> object:
        what, *rest = cast("tuple[Any, ...]", pid)
        if what == "stream":
            return Stream(None)
        if what == "spec":
            shape, name, strides = rest
            from ...expr.numeric import CLASSES

            return TensorSpec(shape, CLASSES[name], strides)
        image = cast(ArrayImage, rest[0])
        if image not in made:
            if image.blob not in held:
                held[image.blob] = bytearray(blobs[image.blob])
            made[image] = _array(image, held[image.blob])
        return made[image]

    return _Unpickler(io.BytesIO(payload), make).load()


def _array(image: ArrayImage, data: bytearray) -> object:
    if image.kind == "torch":
        return _torch_array(image, data)
    if image.kind == "buffer":
        from ...runtime.device_runtime import get_device_runtime

        buffer = get_device_runtime().alloc(len(data))
        buffer.copy_from(data)
        return buffer
    import numpy as np

    try:
        dtype = np.dtype(image.dtype)
    except TypeError:
        dtype = np.dtype(getattr(importlib.import_module("ml_dtypes"), image.dtype))
    flat = np.frombuffer(data, np.uint8)[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)
    if image.kind == "cupy":
        cupy = importlib.import_module("cupy")
        flat = cast(Any, cupy).asarray(flat)
        strided = cast(Any, cupy).lib.stride_tricks.as_strided
    else:
        strided = np.lib.stride_tricks.as_strided
    strides = tuple(s * dtype.itemsize for s in image.strides)
    return strided(flat[image.offset :], image.shape, strides)


def _torch_array(image: ArrayImage, data: bytearray) -> object:
    torch = cast(_TorchModule, importlib.import_module("torch"))
    dtype = getattr(torch, image.dtype, None)
    if dtype is None:
        raise DSLTypeError(f"torch has no dtype {image.dtype}")
    flat = torch.frombuffer(data, dtype=dtype) if data else cast(Any, torch).empty(0, dtype=dtype)
    if not on_host(image.device):
        flat = flat.to("cuda")  # what torch calls AMD's devices, too
    return flat.as_strided(image.shape, image.strides, image.offset)
