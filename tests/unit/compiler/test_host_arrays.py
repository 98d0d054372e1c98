"""Arrays of all kinds as pointer, shape, strides, element class and place."""

from __future__ import annotations

import array
import ctypes
import gc
import sys
import weakref
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.call.host_arrays import UNKNOWN_ORDINAL, ArrayInfo, array_info
from flydsl.errors import InvalidHandleError
from flydsl.runtime import dlpack, get_device_runtime


def info_of(x: Any) -> ArrayInfo:
    found = array_info(x)
    assert found is not None
    return found


# --- numpy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64"]
)
def test_numpy(dtype: str):
    x = np.zeros((3, 4), dtype)[:, 1:]
    found = info_of(x)
    assert found.pointer == x.ctypes.data and found.shape == (3, 3) and found.strides == (4, 1)
    assert (found.device, found.ordinal, found.owner) == ("cpu", 0, x) or found.owner is x


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_numpy_with_ml_dtypes(dtype: Any):
    assert info_of(np.zeros(4, dtype)).dtype.width == np.dtype(dtype).itemsize * 8


def test_read_only_arrays_are_accepted():
    x = np.arange(4, dtype=np.float32)
    x.flags.writeable = False
    assert info_of(x).pointer == x.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 5)])
def test_no_elements(shape: tuple[int, ...]):
    found = info_of(np.zeros(shape, np.float32))
    assert found.shape == shape and 1 in found.strides


def test_no_dimensions():
    found = info_of(np.zeros((), np.float32))
    assert (found.shape, found.strides) == ((), ())
    assert flyc.from_dlpack(np.zeros((), np.float32)).layout().shape == ()


@pytest.mark.parametrize("x", [3, 2.5, "text", None, [1, 2], {"a": 1}, object(), fx.Float32, len])
def test_not_an_array(x: object):
    assert array_info(x) is None


# --- our own buffers -----------------------------------------------------------------------------------------------


def test_product_buffers_are_bytes():
    buffer = get_device_runtime().alloc(24)
    found = info_of(buffer)
    assert (found.pointer, found.shape, found.strides) == (buffer.ptr, (24,), (1,))
    assert found.dtype is fx.Uint8 and found.device == "cpu" and found.owner is buffer
    assert info_of(buffer.view(8, 4)).pointer == buffer.ptr + 8
    buffer.free()
    with pytest.raises(InvalidHandleError, match="closed"):
        array_info(buffer)


# --- torch -----------------------------------------------------------------------------------------------------------


def test_torch():
    torch = pytest.importorskip("torch")
    t = torch.zeros(5, 6, dtype=torch.bfloat16).t()
    found = info_of(t)
    assert (found.pointer, found.shape, found.strides) == (t.data_ptr(), (6, 5), (1, 6))
    assert found.dtype is fx.BFloat16 and found.device == "cpu"
    assert info_of(torch.nn.Parameter(torch.zeros(3))).shape == (3,)
    assert info_of(torch.zeros(0)).strides == (1,)
    with pytest.raises(TypeError, match="unsupported dtype complex64"):
        array_info(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(TypeError, match="negated lazily"):
        array_info(torch.zeros(2, dtype=torch.complex64).conj().imag)


# --- CuPy, by what its arrays look like ----------------------------------------------------------------------------


def fake_cupy(monkeypatch: pytest.MonkeyPatch, *, hip: bool = False) -> Any:
    module = ModuleType("cupy")
    module.cuda = SimpleNamespace(runtime=SimpleNamespace(is_hip=hip))  # type: ignore[attr-defined]

    class ndarray:
        __module__ = "cupy"
        data = SimpleNamespace(ptr=0x7000)
        shape, strides, itemsize = (2, 3), (24, 8), 8
        dtype = np.dtype("float64")
        device = SimpleNamespace(id=1)
        __cuda_array_interface__ = property(lambda self: pytest.fail("the native accessor is cheaper"))

    monkeypatch.setitem(sys.modules, "cupy", module)
    return ndarray()


@pytest.mark.parametrize("hip", [False, True])
def test_cupy(monkeypatch: pytest.MonkeyPatch, hip: bool):
    found = info_of(fake_cupy(monkeypatch, hip=hip))
    assert (found.pointer, found.shape, found.strides, found.dtype) == (0x7000, (2, 3), (3, 1), fx.Float64)
    assert (found.device, found.ordinal) == ("rocm" if hip else "cuda", 1)


# --- __cuda_array_interface__ ---------------------------------------------------------------------------------------


def cuda_array(**more: Any) -> Any:
    interface = {"shape": (4, 2), "typestr": "<f4", "data": (0x5000, True), "version": 3, **more}
    return SimpleNamespace(__cuda_array_interface__=interface)


def test_cuda_array_interface():
    found = info_of(cuda_array(stream=7))
    assert (found.pointer, found.shape, found.strides, found.dtype) == (0x5000, (4, 2), (2, 1), fx.Float32)
    assert (found.device, found.ordinal, found.stream) == ("cuda", UNKNOWN_ORDINAL, 7)
    assert info_of(cuda_array(strides=(4, 16))).strides == (1, 4)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"version": 1}, "version 1 is too old"),
        ({"mask": object()}, "masked arrays"),
        ({"stream": 0}, "must not name stream 0"),
        ({"typestr": ">f4"}, "big-endian"),
        ({"typestr": "<c8"}, "unsupported array type"),
        ({"strides": (3, 4)}, "not multiples of the 4-byte element"),
    ],
)
def test_bad_cuda_array_interface(more: dict[str, Any], match: str):
    with pytest.raises((TypeError, ValueError), match=match):
        array_info(cuda_array(**more))


# --- DLPack ----------------------------------------------------------------------------------------------------------


class Lender:
    """Lends a numpy array by DLPack and nothing else."""

    def __init__(self, x: np.ndarray, *, oldest: bool = False):
        self.x = x
        self.oldest = oldest
        self.requests: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        self.requests.append(options)
        if self.oldest and options:
            raise TypeError("no arguments, please")
        return self.x.__dlpack__(**options)


@pytest.mark.parametrize("oldest", [False, True])
def test_dlpack(oldest: bool):
    x = np.arange(12, dtype=np.int16).reshape(3, 4)[1:, 1:]
    lender = Lender(x, oldest=oldest)
    found = info_of(lender)
    assert (found.pointer, found.shape, found.strides) == (x.ctypes.data, (2, 3), (4, 1))
    assert found.dtype is fx.Int16 and (found.device, found.ordinal) == ("cpu", 0)
    assert "stream" not in lender.requests[0], "host memory has no streams"
    assert len(lender.requests) == (2 if oldest else 1)


def test_dlpack_of_a_read_only_array():
    x = np.zeros(3)
    x.flags.writeable = False
    assert dlpack.borrow(Lender(x)).read_only and info_of(Lender(x)).pointer == x.__array_interface__["data"][0]


def test_dlpack_keeps_the_memory_and_gives_it_back():
    x = np.zeros(8, np.float32)
    alive = weakref.ref(x)
    found = info_of(Lender(x))
    del x
    gc.collect()
    assert alive() is not None, "the capsule's deleter has not been called yet"
    del found
    gc.collect()
    assert alive() is None


def test_dlpack_of_our_own_buffers_goes_both_ways():
    buffer = get_device_runtime().alloc(16)
    lent = dlpack.borrow(buffer)
    assert (lent.pointer, lent.shape, lent.dtype, lent.device) == (buffer.ptr, (16,), "uint8", (1, 0))


def test_dlpack_without_dimensions_or_elements():
    assert info_of(Lender(np.zeros((), np.float64))).shape == ()
    assert info_of(Lender(np.zeros((0, 3)))).strides == (3, 1)


def capsule(code: int, bits: int, *, lanes: int = 1, device: tuple[int, int] = (2, 1), name: bytes = b"dltensor"):
    """A handmade DLPack object on a foreign device."""
    shape, strides = (ctypes.c_int64 * 2)(4, 8), (ctypes.c_int64 * 2)(8, 1)
    tensor = dlpack.DLTensor(0x4000, *device, 2, code, bits, lanes, shape, strides, 16)  # pyright: ignore[reportPrivateUsage]
    managed = dlpack._Managed(tensor, None, None)  # pyright: ignore[reportPrivateUsage]
    made = dlpack._new(ctypes.addressof(managed), name, None)  # pyright: ignore[reportPrivateUsage]
    keep = (shape, strides, managed, name)
    return SimpleNamespace(__dlpack__=lambda **_: made, __dlpack_device__=lambda: device, keep=keep)


@pytest.mark.parametrize(
    ("code", "bits", "dtype"),
    [
        (4, 16, fx.BFloat16),
        (2, 16, fx.Float16),
        (6, 8, fx.Boolean),
        (8, 8, fx.Float8E4M3),
        (9, 8, fx.Float8E4M3B11FNUZ),
        (10, 8, fx.Float8E4M3FN),
        (11, 8, fx.Float8E4M3FNUZ),
        (12, 8, fx.Float8E5M2),
        (13, 8, fx.Float8E5M2FNUZ),
        (14, 8, fx.Float8E8M0FNU),
    ],
)
def test_dlpack_type_codes(code: int, bits: int, dtype: Any):
    found = info_of(capsule(code, bits))
    assert found.dtype is dtype and found.pointer == 0x4010 and found.strides == (8, 1)


@pytest.mark.parametrize(
    ("device", "stack"),
    [((1, 0), "cpu"), ((2, 3), "cuda"), ((3, 0), "cuda"), ((10, 2), "rocm"), ((11, 0), "rocm"), ((13, 0), "cuda")],
)
def test_dlpack_device_codes(device: tuple[int, int], stack: str):
    found = info_of(capsule(2, 32, device=device))
    assert (found.device, found.ordinal) == (stack, device[1])


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (lambda: capsule(5, 64), "code 5 and 64 bits"),
        (lambda: capsule(2, 32, lanes=4), "4-lane vectors"),
        (lambda: capsule(2, 32, name=b"used_dltensor"), "not an unused DLPack capsule"),
    ],
)
def test_bad_dlpack(bad: Any, match: str):
    with pytest.raises(TypeError, match=match):
        array_info(bad())


def test_dlpack_asks_for_no_ordering_on_a_device():
    asked: list[dict[str, Any]] = []
    thing = capsule(2, 32)
    inner = thing.__dlpack__
    thing.__dlpack__ = lambda **options: (asked.append(options), inner())[1]
    array_info(thing)
    assert asked == [{"stream": -1, "max_version": (1, 1)}]


# --- __array_interface__ and the buffer protocol ------------------------------------------------------------------


def test_array_interface():
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    found = info_of(SimpleNamespace(__array_interface__=x.__array_interface__))
    assert (found.pointer, found.shape, found.strides, found.device) == (x.ctypes.data, (2, 3), (3, 1), "cpu")


@pytest.mark.parametrize(
    ("x", "dtype", "count"),
    [
        (b"abcd", fx.Uint8, 4),
        (bytearray(6), fx.Uint8, 6),
        (array.array("d", [1, 2]), fx.Float64, 2),
        (array.array("h", [1]), fx.Int16, 1),
        ((ctypes.c_int32 * 5)(), fx.Int32, 5),
        (memoryview(bytearray(8)).cast("Q"), fx.Uint64, 1),
    ],
)
def test_buffer_protocol(x: Any, dtype: Any, count: int):
    found = info_of(x)
    assert found.dtype is dtype and found.shape == (count,) and found.strides == (1,) and found.device == "cpu"
    assert ctypes.string_at(found.pointer, count * dtype.width // 8) == bytes(memoryview(x).cast("B"))


def test_buffer_protocol_of_unknown_format():
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]

    with pytest.raises(TypeError, match="unsupported buffer format"):
        array_info((Pair * 2)())


# --- through a kernel ------------------------------------------------------------------------------------------------


@flyc.kernel
def double_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    if i < n:
        y[i] = x[i] + x[i]


@flyc.jit
def double(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    double_kernel(x, y, n).launch(grid=fx.ceildiv(n, 32), block=32)


@pytest.mark.parametrize(
    "wrap", [lambda x: x, Lender, memoryview, lambda x: SimpleNamespace(__array_interface__=x.__array_interface__)]
)
def test_any_kind_of_host_array_runs(wrap: Any):
    x, y = np.arange(50, dtype=np.int32), np.zeros(50, np.int32)
    x.flags.writeable = False
    double(wrap(x), wrap(y), 50)
    assert np.array_equal(y, 2 * x)


def test_nothing_to_do_is_fine():
    empty = np.zeros(0, np.int32)
    double(empty, empty, 0)


# --- what has no elements in memory -----------------------------------------------------------------------------------


def test_python_objects_are_no_elements():
    with pytest.raises(TypeError, match="an array of Python objects has no numbers in memory; make it one"):
        array_info(np.array([1.0, 2.0], dtype=object))


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ms]"])
def test_times_are_no_elements(dtype: str):
    with pytest.raises(TypeError, match=r"times are no numbers of the language, got .*.astype\('int64'\)"):
        array_info(np.zeros(2, dtype))


def test_sparse_tensors_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"strided tensors, got one of torch.sparse_coo; pass t.to_dense\(\)"):
        array_info(torch.zeros(4).to_sparse())
