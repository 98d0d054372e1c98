"""What the product must know of its arguments: numpy and torch arrays in the same words."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeAlias

from flydsl.config import environment_version
from flydsl.errors import DSLTypeError, DSLValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import TypeIs

TYPES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "int8": 1, "int32": 4, "int64": 8,
}  # fmt: skip
"""Element types of products by name, with their bytes."""
SIZES = {**TYPES, "float64": 8, "uint8": 1}
"""The same of all operations."""
LONGEST = 2**31 - 2**16
"""Elements of a line, some less than an extent can be: whole blocks of any kind."""
_CLASSES = {
    "Float16": "float16", "BFloat16": "bfloat16", "Float32": "float32", "Float8E4M3FN": "float8_e4m3fn",
    "Float8E5M2": "float8_e5m2", "Float8E4M3FNUZ": "float8_e4m3fnuz", "Float8E5M2FNUZ": "float8_e5m2fnuz",
    "Int8": "int8", "Int32": "int32", "half": "float16", "float": "float32",
}  # fmt: skip


class TorchArray(Protocol):
    """What is asked of torch tensors."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> TorchType: ...
    @property
    def device(self) -> TorchDevice: ...
    @property
    def layout(self) -> object: ...
    @property
    def T(self) -> Self: ...
    def stride(self) -> tuple[int, ...]: ...
    def data_ptr(self) -> int: ...
    def get_device(self) -> int: ...
    def numel(self) -> int: ...
    def element_size(self) -> int: ...
    def reshape(self, *shape: int) -> Self: ...
    def as_strided(self, size: Sequence[int], stride: Sequence[int], storage_offset: int = 0, /) -> Self: ...
    def permute(self, dims: tuple[int, ...], /) -> Self: ...
    def contiguous(self) -> Self: ...


class TorchType(Protocol):
    """An element type of torch."""

    @property
    def itemsize(self) -> int: ...


class TorchDevice(Protocol):
    """Where a tensor is."""

    @property
    def type(self) -> str: ...


HostArray: TypeAlias = "NDArray[np.generic] | TorchArray"
"""What the host has for a tensor."""


class Array(NamedTuple):
    """An array; strides are in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str
    address: int

    @property
    def itemsize(self) -> int:
        return SIZES[self.dtype]

    @property
    def reach(self) -> int:
        """Bytes from the first element to the end of the last one."""
        if 0 in self.shape:
            return 0
        return (1 + sum((e - 1) * s for e, s in zip(self.shape, self.strides, strict=True))) * self.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def is_torch(x: object) -> TypeIs[TorchArray]:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_strided(x: TorchArray) -> bool:
    """Whether a tensor has an address and strides: those of other layouts are made of several tensors."""
    return x.layout is sys.modules["torch"].strided


def address(x: HostArray) -> int:
    """Where an array's first element is."""
    return x.data_ptr() if is_torch(x) else x.__array_interface__["data"][0]


def memory_of(x: TorchArray) -> int:
    """Where a tensor's first element is; 0 of what stands for one while torch compiles, which has extents alone."""
    stands = sys.modules.get("torch._subclasses.fake_tensor")
    return 0 if stands is not None and isinstance(x, stands.FakeTensor) else x.data_ptr()


def type_name(x: object) -> str:
    """An element type by its name: from a torch, numpy or `fx` type, or a string."""
    text = x if isinstance(x, str) else getattr(x, "__name__", None) or getattr(x, "name", None) or str(x)
    text = str(text).removeprefix("torch.")
    return _CLASSES.get(text, text)


def environment_key() -> tuple[object, ...]:
    """What of the environment a decision depends on: any of several variables may name the target."""
    return (environment_version(),)


def array_key(x: HostArray | None) -> object:
    """What a decision depends on."""
    if x is None:
        return None
    if is_torch(x):
        if not is_strided(x):
            return x.layout
        return x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16
    if hasattr(x, "__array_interface__"):
        # Not by the type's text: several types of 8 bits have the same.
        return x.shape, x.strides, x.dtype, address(x) % 16
    # No array: refused when it is described.
    return x.__class__.__qualname__


def describe(name: str, x: HostArray, what: str = "matmul", types: Collection[str] = TYPES) -> Array:
    """An argument of `what`; anything but an array of a known type is refused, with those that it takes."""
    if is_torch(x):
        if not is_strided(x):
            raise DSLTypeError(f"{what}: {name} has strides, got a tensor in the layout {x.layout}")
        found = Array(tuple(x.shape), tuple(x.stride()), type_name(x.dtype), str(x.device), memory_of(x))
    elif hasattr(x, "__array_interface__"):
        size = x.dtype.itemsize
        bad = [s for s in x.strides if s % size]
        if bad:
            raise DSLTypeError(f"{what}: {name} has a stride of {bad[0]} bytes, which is no multiple of its elements'")
        found = Array(
            tuple(x.shape), tuple(s // size for s in x.strides), type_name(x.dtype), "cpu",
            address(x),
        )  # fmt: skip
    else:
        raise DSLTypeError(f"{what}: {name} is a numpy array or a torch tensor, got {type(x).__name__}")
    if not is_torch(x) and min(found.strides, default=0) < 0:
        raise DSLValueError(f"{what}: {name} has a negative stride, {found.strides}; pass a contiguous copy")
    if found.dtype not in TYPES:
        raise DSLTypeError(f"{what}: {name} has elements of {', '.join(types)}, got {found.dtype}")
    return found


def in_line(x: HostArray) -> HostArray:
    """All memory from an array's first to its last element, in one line: the kernel has its strides.

    An extent has 32 bits. A longer line is several that overlap, and end where it does.
    """
    if 0 in x.shape:
        return x.reshape(-1)
    size = 1 if is_torch(x) else x.itemsize
    strides = x.stride() if is_torch(x) else x.strides
    reach = 1 + sum((e - 1) * s for e, s in zip(x.shape, strides, strict=True)) // size
    if reach <= LONGEST:
        return strided(x, (reach,), (1,))
    more = -(-reach // LONGEST) - 1
    step = (reach - LONGEST) // more
    return strided(x, (more + 1, reach - more * step), (step, 1))


def line(like: HostArray, elements: int, dtype: str, what: str) -> HostArray:
    """Fresh memory for so many elements, as `in_line` hands it over."""
    made = empty(like, (elements,), dtype, what)
    return made if elements <= LONGEST else in_line(made)


def strided(x: HostArray, shape: tuple[int, ...], strides: tuple[int, ...]) -> HostArray:
    """Memory from an array's first element on as another array, strides in elements."""
    if is_torch(x):
        return x.as_strided(shape, strides)
    import numpy as np

    return np.lib.stride_tricks.as_strided(x, shape, [x.itemsize * s for s in strides])


def packed(x: HostArray) -> HostArray:
    """A small array in one piece; a single number has a direction, too."""
    if is_torch(x):
        return x.contiguous() if x.ndim else x.reshape(1)
    import numpy as np

    return np.ascontiguousarray(x)


def empty(like: HostArray, shape: Sequence[int], dtype: str, what: str = "matmul") -> HostArray:
    """A fresh array where `like` is."""
    if is_torch(like):
        torch = sys.modules["torch"]
        return torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=like.device)
    import numpy as np

    if dtype == "bfloat16" or dtype.startswith("float8"):
        raise DSLTypeError(f"{what}: numpy has no {dtype}; give out_dtype='float32', or torch tensors")
    return np.empty(tuple(shape), dtype)


__all__ = [
    "TYPES", "Array", "HostArray", "TorchArray", "address", "array_key", "describe", "empty", "environment_key",
    "in_line", "is_strided", "is_torch", "line", "packed", "strided", "type_name",
]  # fmt: skip
