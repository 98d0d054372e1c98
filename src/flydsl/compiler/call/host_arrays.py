"""Arrays of any framework as pointer, shape, strides and element class. No framework is imported here.

Adapters are asked in a fixed order and the first that knows the object answers: our own buffers, torch, CuPy, numpy,
`__cuda_array_interface__`, DLPack, `__array_interface__`, the buffer protocol. Frameworks' own accessors come before
the portable protocols because they are ten times cheaper.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, cast

from ...errors import DSLTypeError, DSLValueError
from ...expr.numeric import CLASSES, Numeric
from ...runtime.objects import torch_stack
from ...target import on_host

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from ...runtime.dist.tensor import SymmetricTensor
    from ...runtime.objects import Buffer

    class ArrayLike(Protocol):
        """What the array interface asks of an object."""

        @property
        def __array_interface__(self) -> dict[str, Any]: ...

    class CudaArrayLike(Protocol):
        """The same for device memory."""

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]: ...

    class _Named(Protocol):
        @property
        def name(self) -> str: ...

    class NumpyArray(ArrayLike, Protocol):
        """What is asked of numpy arrays and scalars."""

        @property
        def strides(self) -> Sequence[int]: ...
        @property
        def dtype(self) -> _Named: ...

    class _Memory(Protocol):
        @property
        def ptr(self) -> int: ...

    class _Ordinal(Protocol):
        @property
        def id(self) -> int: ...

    class CupyArray(Protocol):
        """What is asked of CuPy arrays."""

        @property
        def shape(self) -> Sequence[int]: ...
        @property
        def strides(self) -> Sequence[int]: ...
        @property
        def itemsize(self) -> int: ...
        @property
        def data(self) -> _Memory: ...
        @property
        def device(self) -> _Ordinal: ...
        @property
        def dtype(self) -> _Named: ...


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
    "float8_e5m2fnuz": "Float8E5M2FNUZ",
    "float8_e4m3": "Float8E4M3",
    "float8_e4m3fn": "Float8E4M3FN",
    "float8_e4m3fnuz": "Float8E4M3FNUZ",
    "float8_e4m3b11fnuz": "Float8E4M3B11FNUZ",
    "float8_e8m0fnu": "Float8E8M0FNU",
}
_TYPESTR = {"b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16",
            "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64"}  # fmt: skip
_FORMATS = {"?": "bool", "b": "i", "B": "u", "c": "u", "h": "i", "H": "u", "i": "i", "I": "u", "l": "i", "L": "u",
            "q": "i", "Q": "u", "n": "i", "N": "u", "e": "f", "f": "f", "d": "f"}  # fmt: skip
"""Format letters of the buffer protocol; the size comes from the item size."""

UNKNOWN_ORDINAL = -1
"""The producer does not say on which device of its stack the memory is; the pointer does."""


class ArrayInfo(NamedTuple):
    """What compiled code needs to know of an array; strides count elements."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: type[Numeric]
    device: str
    """The stack the memory belongs to: `cpu` for host memory, `cuda`, `rocm`, ..."""
    ordinal: int
    owner: object
    """What keeps the memory alive."""
    stream: int | None = None
    """The stream on which the producer made the data, where it says so: a launch has to come after it."""
    writable: bool = True
    """Whether the owner lets others write the memory."""


def element_class(name: str) -> type[Numeric]:
    """Scalar class of a dtype given by name."""
    found = _NAMES.get(name)
    if found is None:
        raise DSLTypeError(f"unsupported dtype {name}; convert it to one of {', '.join(_NAMES)}")
    return CLASSES[found]


def array_info(x: object) -> ArrayInfo | None:
    """Description of an array, or None if `x` is not one."""
    for known, describe in _ADAPTERS:
        if known(x):
            found = describe(x)
            # No element is ever addressed, so any strides do; producers disagree on them.
            return found._replace(strides=_row_major(found.shape)) if 0 in found.shape else found
    return None


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    from ...runtime.dlpack import row_major

    return row_major(shape)


# --- our buffers --------------------------------------------------------------------------------------------------


def _is_buffer(x: object) -> bool:
    objects = sys.modules.get("flydsl.runtime.objects")
    return objects is not None and isinstance(x, objects.Buffer)


def _buffer(x: Buffer) -> ArrayInfo:
    """The bytes of a buffer; a freed one raises `InvalidHandleError`."""
    return ArrayInfo(x.ptr, (x.nbytes,), (1,), CLASSES["Uint8"], x.runtime.kind, x.device.ordinal, x)


def _is_symmetric(x: object) -> bool:
    tensor = sys.modules.get("flydsl.runtime.dist.tensor")
    return tensor is not None and isinstance(x, tensor.SymmetricTensor)


def _symmetric(x: SymmetricTensor) -> ArrayInfo:
    """The arrays of all ranks, which are the first dimension."""
    kind = x.mapping.runtime.kind
    return ArrayInfo(x.address(0), (x.world, *x.shape), x.strides, element_class(x.dtype), kind, x.device, x)


# --- frameworks ---------------------------------------------------------------------------------------------------


class TorchTensor(Protocol):
    """What is asked of torch tensors."""

    @property
    def device(self) -> TorchDevice: ...
    @property
    def dtype(self) -> object: ...
    @property
    def layout(self) -> object: ...
    @property
    def shape(self) -> Sequence[int]: ...
    def data_ptr(self) -> int: ...
    def get_device(self) -> int: ...
    def stride(self) -> tuple[int, ...]: ...


class TorchDevice(Protocol):
    """Where a tensor is."""

    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int | None: ...


def is_torch_tensor(x: object) -> TypeGuard[TorchTensor]:
    """Whether `x` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _torch(t: TorchTensor) -> ArrayInfo:
    device = t.device
    kind = torch_stack(device.type)
    dtype = element_class(str(t.dtype).removeprefix("torch."))
    if getattr(t, "is_neg", bool)():
        raise DSLTypeError("the tensor is negated lazily, its memory holds other values; pass t.resolve_neg()")
    strided = sys.modules["torch"].strided
    if getattr(t, "layout", strided) is not strided:
        raise DSLTypeError(f"a kernel takes strided tensors, got one of {t.layout}; pass t.to_dense()")
    return ArrayInfo(t.data_ptr(), tuple(t.shape), t.stride(), dtype, kind, device.index or 0, t)


def is_cupy_array(x: object) -> bool:
    """Whether `x` is a CuPy array, told by its class."""
    return any(c.__module__.partition(".")[0] == "cupy" and c.__name__ == "ndarray" for c in type(x).__mro__)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _cupy(x: CupyArray) -> ArrayInfo:
    runtime = getattr(getattr(sys.modules.get("cupy"), "cuda", None), "runtime", None)
    kind = "rocm" if getattr(runtime, "is_hip", False) else "cuda"
    strides = _in_elements(x.strides, x.itemsize)
    return ArrayInfo(x.data.ptr, tuple(x.shape), strides, element_class(x.dtype.name), kind, x.device.id, x)


def _is_numpy(x: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic))


def _numpy(x: NumpyArray) -> ArrayInfo:
    # Through its own attributes: DLPack has no numpy arrays that are not native floats, such as those of ml_dtypes.
    # The interface leaves the strides of dense arrays out, also where those of extent one are others.
    return _interface(x, {**x.__array_interface__, "strides": x.strides}, "cpu", x.dtype.name)


# --- protocols ----------------------------------------------------------------------------------------------------


def _cuda_interface(x: CudaArrayLike) -> ArrayInfo:
    interface = x.__cuda_array_interface__
    version = interface.get("version", 0)
    if version < 2:
        raise DSLTypeError(f"__cuda_array_interface__ version {version} is too old, at least 2 is needed")
    if interface.get("mask") is not None:
        raise DSLTypeError("masked arrays are not supported; pass the data and the mask as two arrays")
    stream = interface.get("stream")
    if stream == 0:
        raise DSLValueError("__cuda_array_interface__ must not name stream 0; 1 is the legacy default stream")
    found = _interface(x, interface, "cuda")
    return found._replace(device=_stack_of(found.pointer), ordinal=UNKNOWN_ORDINAL, stream=stream)


def _stack_of(pointer: int) -> str:
    """The protocol says "cuda" on AMD GPUs as well; where their runtime is in use, it knows its own memory."""
    from ...runtime.device_runtime import device_runtime_state, get_device_runtime

    if device_runtime_state() not in ("created", "active"):
        return "cuda"
    runtime = get_device_runtime()
    return runtime.kind if runtime.poses_as_cuda and runtime.pointer_device(pointer) is not None else "cuda"


def _is_dlpack(x: object) -> bool:
    return hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")


def _dlpack(x: object) -> ArrayInfo:
    from ...runtime import dlpack

    try:
        lent = dlpack.borrow(x)
    except BufferError as error:
        if hasattr(x, "__array_interface__"):
            return _interface(x, cast("ArrayLike", x).__array_interface__, "cpu")
        raise DSLTypeError(f"{type(x).__name__} does not lend its memory by DLPack: {error}") from error
    code, ordinal = lent.device
    kind = dlpack.STACK_OF_DEVICE.get(code, f"DLPack device {code}")
    dtype, writable = element_class(lent.dtype), not lent.read_only
    return ArrayInfo(lent.pointer, lent.shape, lent.strides, dtype, kind, ordinal, lent, writable=writable)


def _array_interface(x: ArrayLike) -> ArrayInfo:
    return _interface(x, x.__array_interface__, "cpu")


def _interface(x: object, interface: dict[str, Any], device: str, name: str | None = None) -> ArrayInfo:
    typestr = interface.get("typestr")
    if typestr == "|O":
        raise DSLTypeError("an array of Python objects has no numbers in memory; make it one with .astype('float32')")
    if isinstance(typestr, str) and typestr[1:2] in ("M", "m"):
        raise DSLTypeError(f"times are no numbers of the language, got {typestr}; convert with .astype('int64')")
    if not isinstance(typestr, str) or len(typestr) < 3 or not typestr[2:].isdecimal():
        raise DSLTypeError(f"the array interface of {type(x).__name__} is malformed: typestr {typestr!r}")
    if typestr[0] == ">":
        raise DSLTypeError(f"big-endian arrays are not supported, got {typestr}; convert with .astype('{typestr[1:]}')")
    foreign = name is None
    if name is None:
        name = _TYPESTR.get(typestr[1:])
        if name is None:
            raise DSLTypeError(f"unsupported array type {typestr}; convert it, as with .astype('float32')")
    dtype = element_class(name)
    shape, strides = _extents(x, "shape", interface.get("shape")), interface.get("strides")
    if strides is not None:
        strides = _extents(x, "strides", strides)
    if min(shape, default=0) < 0 or (strides is not None and len(strides) != len(shape)):
        raise DSLValueError(
            f"the array interface of {type(x).__name__} is malformed: shape {shape}, strides {strides} bytes"
        )
    elements = _row_major(shape) if strides is None else _in_elements(strides, int(typestr[2:]))
    data = interface.get("data")
    if data is None:
        # The protocol's other way to say where: the object's own buffer, which may be read-only.
        held = _buffer_protocol(x)
        reach = sum((n - 1) * s for n, s in zip(shape, elements, strict=True)) + 1
        if 0 not in shape and (
            min(elements, default=0) < 0 or reach * int(typestr[2:]) > memoryview(cast("ReadableBuffer", x)).nbytes
        ):
            raise DSLValueError(f"the array interface of {type(x).__name__} names more memory than its buffer holds")
        return held._replace(shape=shape, strides=elements, dtype=dtype)
    parts = cast("tuple[Any, ...]", data) if isinstance(data, tuple) else ()
    if len(parts) != 2 or type(parts[0]) is not int:
        raise DSLTypeError(f"the array interface of {type(x).__name__} is malformed: data {data!r}")
    found = ArrayInfo(parts[0], shape, elements, dtype, device, 0, x, writable=not parts[1])
    if foreign and on_host(device):
        _check_memory(found, int(typestr[2:]))
    return found


def _extents(x: object, what: str, given: object) -> tuple[int, ...]:
    """Integers of an array interface."""
    if not isinstance(given, (tuple, list)) or not all(type(n) is int for n in cast("Sequence[object]", given)):
        raise DSLTypeError(f"the array interface of {type(x).__name__} is malformed: {what} {given!r}")
    return tuple(cast("Sequence[int]", given))


def _check_memory(info: ArrayInfo, size: int) -> None:
    """Whoever names an address may be wrong about it: the first and the last element must be memory of the process."""
    from ...runtime.host_memory import is_mapped

    if 0 in info.shape or not info.pointer:
        return  # not an element, or an address that calls refuse
    steps = [(n - 1) * s * size for n, s in zip(info.shape, info.strides, strict=True)]
    first = info.pointer + sum(step for step in steps if step < 0)
    last = info.pointer + sum(step for step in steps if step > 0) + size - 1
    if not (is_mapped(first) and is_mapped(last)):
        raise DSLValueError(
            f"the array interface of {type(info.owner).__name__} names memory from {first:#x} to {last:#x}, which is "
            "not memory of this process"
        )


def _in_elements(strides: Sequence[int], size: int) -> tuple[int, ...]:
    if any(s % size for s in strides):
        raise DSLValueError(f"strides {tuple(strides)} bytes are not multiples of the {size}-byte element")
    return tuple(s // size for s in strides)


def _has_buffer(x: object) -> bool:
    try:
        memoryview(cast("ReadableBuffer", x)).release()
    except TypeError:
        return False
    except BufferError:
        pass
    return True


def _buffer_protocol(x: object) -> ArrayInfo:
    """Memory of bytes, bytearray, memoryview, array.array, ctypes arrays and the like, read-only or not."""
    from ...runtime.host_memory import buffer_address

    try:
        view = memoryview(cast("ReadableBuffer", x))
    except BufferError as error:
        raise DSLTypeError(f"{type(x).__name__} does not lend its memory: {error}") from error
    letter = (view.format or "B").lstrip("@=<")
    kind = _FORMATS.get(letter)
    if kind is None:
        raise DSLTypeError(f"unsupported buffer format {view.format!r} of {type(x).__name__}")
    name = "bool" if kind == "bool" else _TYPESTR[f"{kind}{view.itemsize}"]
    shape = tuple(view.shape or ())
    strides = _row_major(shape) if view.strides is None else _in_elements(view.strides, view.itemsize)  # pyright: ignore[reportUnnecessaryComparison]
    dtype, writable = element_class(name), not view.readonly
    return ArrayInfo(buffer_address(view), shape, strides, dtype, "cpu", 0, view, writable=writable)


def _has(attribute: str) -> Callable[[object], bool]:
    return lambda x: getattr(x, attribute, None) is not None


_ADAPTERS: tuple[tuple[Callable[[object], bool], Callable[[Any], ArrayInfo]], ...] = (
    (_is_buffer, _buffer),
    (is_torch_tensor, _torch),
    (is_cupy_array, _cupy),
    (_is_numpy, _numpy),
    (_has("__cuda_array_interface__"), _cuda_interface),
    (_is_dlpack, _dlpack),
    (_has("__array_interface__"), _array_interface),
    (_is_symmetric, _symmetric),
    (_has_buffer, _buffer_protocol),
)
"""What recognises an object and what describes it, in the order in which they are asked."""
