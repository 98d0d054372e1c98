"""The arrays of a call: keeping what they hold, putting it back, clearing them, reading them.

numpy, torch and CuPy do it with their own functions, which know about strides and streams; memory of others is taken as
the bytes from its first element to its last.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from ..compiler.call.host_arrays import ArrayInfo, array_info, is_cupy_array, is_torch_tensor
from ..compiler.call.tensor_argument import TensorArgument
from ..errors import DSLTypeError
from ..runtime.objects import Buffer
from ..target import on_host

if TYPE_CHECKING:
    import numpy as np


class _TorchData(Protocol):
    @property
    def data(self) -> _TorchData: ...
    def clone(self) -> _TorchData: ...
    def copy_(self, other: object) -> object: ...
    def zero_(self) -> object: ...
    def detach(self) -> _TorchData: ...
    def cpu(self) -> _TorchData: ...
    def double(self) -> _TorchData: ...
    def numpy(self) -> object: ...


class _Filled(Protocol):
    def copy(self) -> object: ...
    def fill(self, value: int) -> object: ...
    def __setitem__(self, key: object, value: object) -> None: ...


@dataclass(frozen=True)
class CallArray:
    """One array among the arguments of a call."""

    name: str
    owner: object
    info: ArrayInfo

    @property
    def writable(self) -> bool:
        """Whether a kernel can have changed it."""
        flags = getattr(self.owner, "flags", None)
        return bool(getattr(flags, "writeable", True)) and not isinstance(self.owner, bytes)

    def span(self) -> tuple[int, int]:
        """Address and number of the bytes from its first element to its last."""
        if 0 in self.info.shape:
            return self.info.pointer, 0
        size = max((self.info.dtype.width + 7) // 8, 1)
        steps = [(n - 1) * s for n, s in zip(self.info.shape, self.info.strides, strict=True)]
        low = sum(s for s in steps if s < 0) * size
        high = sum(s for s in steps if s > 0) * size + size
        return self.info.pointer + low, high - low


def find_arrays(named: Mapping[str, object]) -> list[CallArray]:
    """The arrays among arguments, also in tuples, lists and adapters; one that is passed twice is found once."""
    found: list[CallArray] = []
    seen: set[int] = set()

    def look(name: str, value: object) -> None:
        if isinstance(value, tuple | list):
            for i, each in enumerate(cast("Iterable[object]", value)):
                look(f"{name}[{i}]", each)
            return
        if value is None or isinstance(value, bool | int | float | str | type) or id(value) in seen:
            return
        info = value.info if isinstance(value, TensorArgument) else array_info(value)
        if info is None:
            return
        seen.add(id(value))
        owner = value
        if isinstance(value, TensorArgument):
            owner = info.owner
            if id(owner) in seen:
                return
            seen.add(id(owner))
        found.append(CallArray(name, owner, info))

    for name, value in named.items():
        look(name, value)
    return found


def _is_numpy(x: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def sketch(value: object, shaped: bool) -> object:
    """What of an argument can decide a configuration, cheaply: None where it takes a closer look.

    Of an array its type, its strides as 0, 1 or other, and, if it is `shaped`, its shape; of other values the value, if
    it is `shaped`.
    """
    kind = type(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        array = cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", value)
        size = array.itemsize
        strides = tuple([0 if s == 0 else 1 if s == size else 2 for s in array.strides])
        return array.dtype, strides, array.shape if shaped else None
    if is_torch_tensor(value):
        strides = tuple([s if s in (0, 1) else 2 for s in value.stride()])
        return value.dtype, value.device, strides, tuple(value.shape) if shaped else None
    if value is None or isinstance(value, bool | int | float | str):
        return (kind, value) if shaped else kind
    if isinstance(value, tuple | list):
        parts = [sketch(each, shaped) for each in cast("Iterable[object]", value)]
        return None if None in parts else (kind, *parts)
    info = value.info if isinstance(value, TensorArgument) else array_info(value)
    if info is not None:
        strides = tuple([s if s in (0, 1) else 2 for s in info.strides])
        return info.dtype, info.device, info.ordinal, strides, info.shape if shaped else None
    if not shaped:
        return kind
    try:
        hash(value)
    except TypeError:
        return None
    return kind, value


Restore = Callable[[], None]


def keep(array: CallArray) -> Restore:
    """Keep what an array holds now; what is given puts it back."""
    owner = array.owner
    if is_torch_tensor(owner):
        tensor = cast(_TorchData, owner).data  # without autograd, which would count the write
        kept = tensor.clone()
        return lambda: (tensor.copy_(kept), None)[1]
    if _is_numpy(owner) or is_cupy_array(owner):
        filled = cast(_Filled, owner)
        copy = filled.copy()
        return lambda: filled.__setitem__(Ellipsis, copy)
    return _keep_bytes(array)


def _keep_bytes(array: CallArray) -> Restore:
    address, count = array.span()
    if on_host(array.info.device):
        held = ctypes.string_at(address, count)
        return lambda: (ctypes.memmove(address, held, count), None)[1]
    from ..runtime.device_runtime import get_device_runtime

    runtime = get_device_runtime()
    buffer = runtime.alloc(count)
    runtime.memcpy_d2d(buffer.ptr, address, count)
    return lambda: runtime.memcpy_d2d(address, buffer.ptr, count)


def clear(array: CallArray) -> None:
    """Set every element to zero."""
    owner = array.owner
    if is_torch_tensor(owner):
        cast(_TorchData, owner).data.zero_()
    elif _is_numpy(owner) or is_cupy_array(owner) or isinstance(owner, Buffer):
        cast(_Filled, owner).fill(0)
    else:
        address, count = array.span()
        elements = 1
        for extent in array.info.shape:
            elements *= extent
        if count != elements * max((array.info.dtype.width + 7) // 8, 1):
            raise DSLTypeError(
                f"'{array.name}' cannot be set to zero: its elements do not lie side by side, and "
                f"{type(owner).__name__} has no function for it; pass an array of numpy, torch or CuPy"
            )
        if on_host(array.info.device):
            ctypes.memset(address, 0, count)
        else:
            from ..runtime.device_runtime import get_device_runtime

            get_device_runtime().memset(address, 0, count)


def contents(array: CallArray) -> object:
    """A copy of the elements, where they are: a tensor of torch, an array of CuPy or numpy, else their bytes."""
    owner = array.owner
    if is_torch_tensor(owner):
        return cast(_TorchData, owner).data.clone()
    if _is_numpy(owner) or is_cupy_array(owner):
        return cast(_Filled, owner).copy()
    import numpy as np

    address, count = array.span()
    if on_host(array.info.device):
        return np.frombuffer(ctypes.string_at(address, count), np.uint8)
    from ..runtime.device_runtime import get_device_runtime

    held = np.empty(count, np.uint8)
    get_device_runtime().memcpy_d2h(held.ctypes.data, address, count)
    return held


# --- comparing ----------------------------------------------------------------------------------------------------


def tolerance(array: CallArray) -> float:
    """How far two right results may lie apart, as a share: another order of a sum, and roundings to the format."""
    if not array.info.dtype.is_float:
        return 0.0
    from ..testing import FORMATS

    name = str(getattr(array.owner, "dtype", "")).removeprefix("torch.")
    form = FORMATS.get(name)
    mantissa = form.mantissa if form is not None else {64: 52, 32: 23, 16: 7}.get(array.info.dtype.width, 2)
    return max(4.0 * 2.0**-mantissa, 2.0**-12 if mantissa <= 23 else 2.0**-26)


def _same(a: object, b: object) -> bool:
    """Whether two copies hold the same; told where they are, since most arrays of a call are inputs and stay."""
    if is_torch_tensor(a):
        torch = sys.modules["torch"]
        return bool(torch.equal(a, b))
    return bool(cast("np.ndarray[tuple[int, ...], np.dtype[np.bool_]]", a == b).all())


def _numbers(x: object) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    import numpy as np

    if is_torch_tensor(x):
        tensor = cast(_TorchData, x).cpu()
        return np.asarray(tensor.double().numpy() if "float" in str(x.dtype) else tensor.numpy())
    if is_cupy_array(x):
        x = cast("Callable[[], object]", getattr(x, "get"))()  # noqa: B009 (CuPy is optional: no type to name)
    return np.asarray(x)


def difference(array: CallArray, want: object, got: object) -> str | None:
    """Where two contents of an array differ by more than its tolerance, in words; None where they agree."""
    if _same(want, got):
        return None
    import numpy as np

    kept, found = _numbers(want), _numbers(got)
    wrong = kept != found
    a, b = kept.astype(np.float64), found.astype(np.float64)
    if array.info.dtype.is_float:
        finite = np.isfinite(a)
        scale = float(np.sqrt(np.mean(np.square(a[finite])))) if finite.any() else 0.0
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= tolerance(array) * (np.abs(a) + scale)
        wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    with np.errstate(invalid="ignore"):
        error = np.where(wrong, np.abs(a - b), -1.0)
    error[np.isnan(error)] = np.inf
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
    place = ", ".join(map(str, at))
    share = f"{count} of {a.size} elements of '{array.name}' differ"
    return f"{array.name}[{place}] is {b[at]:.6g}, expected {a[at]:.6g}; {share}"
