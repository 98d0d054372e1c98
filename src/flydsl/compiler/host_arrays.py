"""Arrays of any framework as pointer, shape, strides and element class. No framework is imported here."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from ..errors import DSLTypeError, DSLValueError
from ..expr.numeric import CLASSES, Numeric

_NAMES = {
    "bool": "Boolean",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "uint8": "Uint8",
    "uint16": "Uint16",
    "uint32": "Uint32",
    "uint64": "Uint64",
    "float16": "Float16",
    "bfloat16": "BFloat16",
    "float32": "Float32",
    "float64": "Float64",
    "float8_e5m2": "Float8E5M2",
    "float8_e4m3fn": "Float8E4M3FN",
    "float8_e4m3fnuz": "Float8E4M3FNUZ",
    "float8_e4m3b11fnuz": "Float8E4M3B11FNUZ",
    "float8_e8m0fnu": "Float8E8M0FNU",
}
_TYPESTR = {"b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16",
            "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64"}  # fmt: skip


class ArrayInfo(NamedTuple):
    """What compiled code needs to know of an array; strides count elements."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: type[Numeric]
    device: str
    """`cpu`, `cuda` or `rocm`."""
    ordinal: int
    owner: Any
    """What keeps the memory alive."""


def element_class(name: str) -> type[Numeric]:
    """Scalar class of a dtype given by name."""
    found = _NAMES.get(name)
    if found is None:
        raise DSLTypeError(f"unsupported dtype {name}; supported: {', '.join(_NAMES)}")
    return CLASSES[found]


def is_torch_tensor(x: Any) -> bool:
    """Whether `x` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def array_info(x: Any) -> ArrayInfo | None:
    """Description of an array, or None if `x` is not one."""
    if is_torch_tensor(x):
        return _torch(x)
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is not None:
        return _interface(x, interface, "cuda")
    interface = getattr(x, "__array_interface__", None)
    if interface is not None:
        return _numpy(x, interface)
    return None


def _torch(t: Any) -> ArrayInfo:
    device = t.device
    kind = device.type
    if kind == "cuda" and getattr(sys.modules["torch"].version, "hip", None):
        kind = "rocm"
    dtype = element_class(str(t.dtype).removeprefix("torch."))
    return ArrayInfo(t.data_ptr(), tuple(t.shape), t.stride(), dtype, kind, device.index or 0, t)


def _numpy(x: Any, interface: dict[str, Any]) -> ArrayInfo:
    name = getattr(x, "dtype", None)
    return _interface(x, interface, "cpu", None if name is None else name.name)


def _interface(x: Any, interface: dict[str, Any], device: str, name: str | None = None) -> ArrayInfo:
    typestr = interface["typestr"]
    if typestr[0] == ">":
        raise DSLTypeError(f"big-endian arrays are not supported, got {typestr}; convert with .astype('{typestr[1:]}')")
    if name is None:
        name = _TYPESTR.get(typestr[1:])
        if name is None:
            raise DSLTypeError(f"unsupported array type {typestr}")
    dtype = element_class(name)
    size = int(typestr[2:])
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    if strides is None:
        steps: list[int] = []
        step = 1
        for extent in reversed(shape):
            steps.append(step)
            step *= extent
        elements = tuple(reversed(steps))
    else:
        if any(s % size for s in strides):
            raise DSLValueError(f"strides {strides} bytes are not multiples of the {size}-byte element")
        elements = tuple(s // size for s in strides)
    return ArrayInfo(interface["data"][0], shape, elements, dtype, device, 0, x)
