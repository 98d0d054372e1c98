"""Reading the arrays of a call natively: address, extents and steps of torch tensors and numpy arrays.

In Python each array costs half a microsecond to a whole one, for class, dtype, device, strides, extents and address.
torch hands out a C function that describes a tensor (the DLPack exchange API); numpy's arrays are a C structure whose
fields are part of its binary interface. One native function, made once per process, checks that each array is of the
kind a call was made for and writes what the call needs.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from .dlpack import DLTensor, capsule_pointer

_MANY_MODES = 64
"""Modes are counted in the bits of a word."""


@dataclass(frozen=True)
class ArrayPlan:
    """What a call expects of one array and where it wants it written."""

    example: Any
    """An array of the kind: class, element type, rank and device count."""
    leading: int
    """The first mode of stride one."""
    extents: Sequence[int]
    """Modes whose extents are written, each as 32 bits."""
    steps: Sequence[int]
    """Modes whose steps are written behind them, in elements."""
    step_bytes: int
    align: int
    """What addresses are multiples of, a power of two."""
    address_at: int
    """Where in the block the address goes, and the extents and steps."""
    values_at: int


class _Entry(ctypes.Structure):
    """`ArrayPlan` as the native function reads it."""

    _fields_: ClassVar = [
        ("cls", ctypes.c_void_p),
        ("describe", ctypes.c_void_p),  # of torch's interface; null for numpy
        ("dtype", ctypes.c_uint64),
        ("device", ctypes.c_uint64),
        ("shift", ctypes.c_uint64),  # from bytes to elements; numpy counts steps in bytes
        ("rank", ctypes.c_uint64),
        ("leading", ctypes.c_uint64),
        ("extents", ctypes.c_uint64),
        ("steps", ctypes.c_uint64),
        ("step_bytes", ctypes.c_uint64),
        ("below_align", ctypes.c_uint64),
        ("question", ctypes.c_void_p),  # the name of a method; null where it need not be asked
        ("answer", ctypes.c_void_p),
        ("address_at", ctypes.c_uint64),
        ("values_at", ctypes.c_uint64),
    ]


class _Numpy(ctypes.Structure):
    """The public fields of a numpy array; the header is `object`'s."""

    _fields_: ClassVar = [
        ("header", ctypes.c_void_p * 2),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int32),
    ]


class _Exchange(ctypes.Structure):
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


class _Method(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_METH_FASTCALL = 0x80
_HEADER_IS_KNOWN = object.__basicsize__ == 2 * ctypes.sizeof(ctypes.c_void_p)
"""Builds of Python without the global lock, or with reference tracing, have other headers."""


def can_read(array: Any) -> bool:
    """Whether the native function understands arrays like this one."""
    return _HEADER_IS_KNOWN and _kind(array) is not None


def make_reader(plans: Sequence[ArrayPlan]) -> tuple[Callable[..., bool], int, Any]:
    """The native function, the table to give it, and what must live as long as the table is used.

    `function(table, block, *arrays)` writes into the block and says whether all arrays are as planned.
    """
    table = (_Entry * len(plans))(*map(_entry, plans))
    return (
        _function(),
        ctypes.addressof(table),
        (table, [(plan.example.__class__, plan.example.dtype) for plan in plans]),
    )


def _bits(modes: Sequence[int]) -> int:
    return sum(1 << mode for mode in modes)


def _entry(plan: ArrayPlan) -> _Entry:
    array: Any = plan.example
    kind = _kind(array)
    assert kind is not None
    return _Entry(
        cls=id(type(array)),  # pyright: ignore[reportUnknownArgumentType]
        **kind,
        leading=plan.leading,
        extents=_bits(plan.extents),
        steps=_bits(plan.steps),
        step_bytes=plan.step_bytes,
        below_align=plan.align - 1,
        address_at=plan.address_at,
        values_at=plan.values_at,
    )


def _kind(array: Any) -> dict[str, int] | None:
    """The fields of an entry that say which arrays are like this one; None if it is of no known class."""
    cls: type[Any] = type(array)  # pyright: ignore[reportUnknownVariableType]
    name = (cls.__module__, cls.__qualname__)
    if name == ("numpy", "ndarray"):
        return _numpy_kind(array)
    if name in (("torch", "Tensor"), ("torch.nn.parameter", "Parameter")):
        return _torch_kind(array)
    return None


def _numpy_kind(array: Any) -> dict[str, int] | None:
    size, fields = array.itemsize, _Numpy.from_address(id(array))
    # A numpy that orders its fields in another way is read in Python.
    as_known = (
        array.__class__.__basicsize__ >= ctypes.sizeof(_Numpy)
        and fields.dtype == id(array.dtype)
        and fields.rank == array.ndim < _MANY_MODES
        and fields.data == array.__array_interface__["data"][0]
    )
    if not as_known or size & size - 1:
        return None
    return {"dtype": id(array.dtype), "shift": size.bit_length() - 1, "rank": array.ndim}


def _torch_kind(array: Any) -> dict[str, int] | None:
    capsule = getattr(array.__class__, "__dlpack_c_exchange_api__", None)  # since torch 2.10
    if capsule is None:
        return None
    table = _Exchange.from_address(capsule_pointer(capsule, b"dlpack_exchange_api"))
    if table.major != 1 or not table.describe:
        return None
    tensor = DLTensor()
    describe = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(table.describe)
    try:
        failed = describe(array, ctypes.addressof(tensor))
    except (RuntimeError, ValueError, TypeError, BufferError):  # sparse tensors, for one
        return None
    if failed or tensor.ndim >= _MANY_MODES or tensor.data != (array.data_ptr() or None):
        return None
    # Torch negates lazily where it takes the imaginary part of a conjugate. The strides of such a view are even, so a
    # mode of stride one has been added to it and its extent is one: only then the tensor has to be asked.
    doubtful = {"question": id(_IS_NEG), "answer": id(False)} if array.dtype.is_floating_point else {}
    return {
        **doubtful,
        "describe": table.describe,
        "dtype": tensor.code | tensor.bits << 8 | tensor.lanes << 16,
        "device": tensor.device_type | tensor.device_id << 32,
        "rank": tensor.ndim,
    }


_IS_NEG = sys.intern("is_neg")
_IMPORTS = ("PyLong_AsVoidPtr", "PyBool_FromLong", "PyErr_Clear", "PyObject_VectorcallMethod", "Py_DecRef")
_alive: list[Any] = []


@cache
def _function() -> Callable[..., bool]:
    from flydsl.llvm import host_jit

    imports = {name: _python_address(name) for name in _IMPORTS}
    # A few branches and loads: optimising them takes longer than they ever will.
    library = host_jit.load_ir(_READ_IR, opt_level=0, exports=["read_arrays"], imports=imports, name="array-reader")
    method = _Method(b"read_arrays", library.address("read_arrays"), _METH_FASTCALL, None)
    _alive.extend((library, method))  # Python keeps a pointer to the method for good
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    return new(ctypes.addressof(method), None, None)


def _python_address(name: str) -> int:
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address
    return address


def _field(name: str, type_: str, base: str, place: Any) -> str:
    """A load of a field of a C structure, or at a number of bytes."""
    at = place if isinstance(place, int) else place.offset
    return f"  %{name}.at = getelementptr i8, ptr %{base}, i64 {at}\n  %{name} = load {type_}, ptr %{name}.at, align 4"


# PyObject *read_arrays(PyObject *self, PyObject *const *args, Py_ssize_t count): table, block, arrays.
_READ_IR = f"""
declare i64 @llvm.cttz.i64(i64, i1)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyBool_FromLong(i64)
declare void @PyErr_Clear()
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare void @Py_DecRef(ptr)

define ptr @read_arrays(ptr %self, ptr %args, i64 %count) {{
start:
  %tensor = alloca [{ctypes.sizeof(DLTensor)} x i8], align 8
  %receiver = alloca ptr
  %table.object = load ptr, ptr %args
  %table = call ptr @PyLong_AsVoidPtr(ptr %table.object)
  %block.at = getelementptr ptr, ptr %args, i64 1
  %block.object = load ptr, ptr %block.at
  %block = call ptr @PyLong_AsVoidPtr(ptr %block.object)
  br label %array

array:
  %i = phi i64 [ 2, %start ], [ %i.next, %done ]
  %entry = phi ptr [ %table, %start ], [ %entry.next, %done ]
  %i.next = add i64 %i, 1
  %entry.next = getelementptr i8, ptr %entry, i64 {ctypes.sizeof(_Entry)}
  %more = icmp ult i64 %i, %count
  br i1 %more, label %class, label %yes

class:
  %object.at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object.at
{_field("class.is", "ptr", "object", ctypes.sizeof(ctypes.c_void_p))}
{_field("class.want", "ptr", "entry", _Entry.cls)}
  %class.same = icmp eq ptr %class.is, %class.want
  br i1 %class.same, label %library, label %no

library:
{_field("describe", "ptr", "entry", _Entry.describe)}
  %is.numpy = icmp eq ptr %describe, null
  br i1 %is.numpy, label %numpy, label %torch

torch:
  %failed = call i32 %describe(ptr %object, ptr %tensor)
  %is.described = icmp eq i32 %failed, 0
  br i1 %is.described, label %described, label %error

described:
{_field("torch.base", "i64", "tensor", DLTensor.data)}
{_field("torch.offset", "i64", "tensor", DLTensor.byte_offset)}
{_field("torch.device", "i64", "tensor", DLTensor.device_type)}
{_field("torch.rank32", "i32", "tensor", DLTensor.ndim)}
{_field("torch.dtype32", "i32", "tensor", DLTensor.code)}
{_field("torch.shape", "ptr", "tensor", DLTensor.shape)}
{_field("torch.strides", "ptr", "tensor", DLTensor.strides)}
  %torch.data = add i64 %torch.base, %torch.offset
  %torch.rank = zext i32 %torch.rank32 to i64
  %torch.dtype = zext i32 %torch.dtype32 to i64
  br label %known

numpy:
{_field("numpy.data", "i64", "object", _Numpy.data)}
{_field("numpy.rank32", "i32", "object", _Numpy.rank)}
{_field("numpy.dtype", "i64", "object", _Numpy.dtype)}
{_field("numpy.shape", "ptr", "object", _Numpy.shape)}
{_field("numpy.strides", "ptr", "object", _Numpy.strides)}
{_field("numpy.flags", "i32", "object", _Numpy.flags)}
  %numpy.rank = zext i32 %numpy.rank32 to i64
  ; On the device 0 are arrays in C order; others are not served.
  %numpy.order = and i32 %numpy.flags, 1
  %numpy.other = xor i32 %numpy.order, 1
  %numpy.device = zext i32 %numpy.other to i64
  br label %known

known:
  %data = phi i64 [ %torch.data, %described ], [ %numpy.data, %numpy ]
  %device = phi i64 [ %torch.device, %described ], [ %numpy.device, %numpy ]
  %rank = phi i64 [ %torch.rank, %described ], [ %numpy.rank, %numpy ]
  %dtype = phi i64 [ %torch.dtype, %described ], [ %numpy.dtype, %numpy ]
  %shape = phi ptr [ %torch.shape, %described ], [ %numpy.shape, %numpy ]
  %strides = phi ptr [ %torch.strides, %described ], [ %numpy.strides, %numpy ]
{_field("rank.want", "i64", "entry", _Entry.rank)}
{_field("dtype.want", "i64", "entry", _Entry.dtype)}
{_field("device.want", "i64", "entry", _Entry.device)}
  %rank.same = icmp eq i64 %rank, %rank.want
  %dtype.same = icmp eq i64 %dtype, %dtype.want
  %device.same = icmp eq i64 %device, %device.want
  %has.strides = icmp ne ptr %strides, null
  %same.0 = and i1 %rank.same, %dtype.same
{_field("below.align", "i64", "entry", _Entry.below_align)}
  %misplaced = and i64 %data, %below.align
  %is.aligned = icmp eq i64 %misplaced, 0
  ; Without elements, or freed: Python tells them apart.
  %has.data = icmp ne i64 %data, 0
  %is.placed = and i1 %is.aligned, %has.data
  %same.1 = and i1 %device.same, %has.strides
  %same.2 = and i1 %same.0, %same.1
  %same = and i1 %same.2, %is.placed
  br i1 %same, label %write, label %no

write:
{_field("address.offset", "i64", "entry", _Entry.address_at)}
{_field("values.offset", "i64", "entry", _Entry.values_at)}
{_field("shift", "i64", "entry", _Entry.shift)}
{_field("leading", "i64", "entry", _Entry.leading)}
{_field("extents", "i64", "entry", _Entry.extents)}
{_field("steps", "i64", "entry", _Entry.steps)}
{_field("step.bytes", "i64", "entry", _Entry.step_bytes)}
{_field("question", "ptr", "entry", _Entry.question)}
  %has.question = icmp ne ptr %question, null
  %address.at = getelementptr i8, ptr %block, i64 %address.offset
  store i64 %data, ptr %address.at
  %values = getelementptr i8, ptr %block, i64 %values.offset
  %unit = shl i64 1, %shift
  %is.narrow = icmp eq i64 %step.bytes, 4
  br label %mode

; The leading mode is the first of stride one. Extents come before steps.
mode:
  %m = phi i64 [ 0, %write ], [ %m.next, %mode.done ]
  %extent.to = phi ptr [ %values, %write ], [ %extent.next, %mode.done ]
  %m.next = add i64 %m, 1
  %has.mode = icmp ult i64 %m, %rank
  br i1 %has.mode, label %stride, label %steps.start

stride:
  %stride.at = getelementptr i64, ptr %strides, i64 %m
  %stride.is = load i64, ptr %stride.at
  %is.unit = icmp eq i64 %stride.is, %unit
  %is.before = icmp ult i64 %m, %leading
  %is.leading = icmp eq i64 %m, %leading
  %early = and i1 %is.unit, %is.before
  %not.unit = xor i1 %is.unit, true
  %missing = and i1 %not.unit, %is.leading
  %bad.stride = or i1 %early, %missing
  br i1 %bad.stride, label %no, label %length

length:
  %length.at = getelementptr i64, ptr %shape, i64 %m
  %length.is = load i64, ptr %length.at
  %is.short = icmp ult i64 %length.is, 2
  %is.short.leading = and i1 %is.short, %is.leading
  %is.doubtful = and i1 %is.short.leading, %has.question
  br i1 %is.doubtful, label %ask, label %extent

ask:
{_field("answer.want", "ptr", "entry", _Entry.answer)}
  store ptr %object, ptr %receiver
  %answer = call ptr @PyObject_VectorcallMethod(ptr %question, ptr %receiver, i64 1, ptr null)
  %is.answered = icmp ne ptr %answer, null
  br i1 %is.answered, label %answered, label %error

answered:
  call void @Py_DecRef(ptr %answer)
  %is.wanted = icmp eq ptr %answer, %answer.want
  br i1 %is.wanted, label %extent, label %no

extent:
  %extent.shifted = lshr i64 %extents, %m
  %extent.bit = and i64 %extent.shifted, 1
  %extent.wanted = icmp ne i64 %extent.bit, 0
  br i1 %extent.wanted, label %extent.read, label %mode.done

extent.read:
  %extent.large = icmp ugt i64 %length.is, 2147483647
  br i1 %extent.large, label %no, label %extent.write

extent.write:
  %extent.low = trunc i64 %length.is to i32
  store i32 %extent.low, ptr %extent.to, align 1
  %extent.after = getelementptr i8, ptr %extent.to, i64 4
  br label %mode.done

mode.done:
  %extent.next = phi ptr [ %extent.to, %extent ], [ %extent.after, %extent.write ]
  br label %mode

steps.start:
  %has.steps = icmp ne i64 %steps, 0
  br i1 %has.steps, label %step, label %done

step:
  %left = phi i64 [ %steps, %steps.start ], [ %left.next, %step.done ]
  %step.to = phi ptr [ %extent.to, %steps.start ], [ %step.next, %step.done ]
  %step.mode = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %left.less = sub i64 %left, 1
  %left.next = and i64 %left, %left.less
  %step.at = getelementptr i64, ptr %strides, i64 %step.mode
  %step.raw = load i64, ptr %step.at
  %step.is = ashr i64 %step.raw, %shift
  %step.next = getelementptr i8, ptr %step.to, i64 %step.bytes
  br i1 %is.narrow, label %step.narrow, label %step.wide

step.narrow:
  %step.low = trunc i64 %step.is to i32
  %step.back = sext i32 %step.low to i64
  %step.fits = icmp eq i64 %step.back, %step.is
  br i1 %step.fits, label %step.write, label %no

step.write:
  store i32 %step.low, ptr %step.to, align 1
  br label %step.done

step.wide:
  store i64 %step.is, ptr %step.to, align 1
  br label %step.done

step.done:
  %steps.end = icmp eq i64 %left.next, 0
  br i1 %steps.end, label %done, label %step

done:
  br label %array

yes:
  %true = call ptr @PyBool_FromLong(i64 1)
  ret ptr %true

error:
  call void @PyErr_Clear()
  br label %no

no:
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false
}}
"""
