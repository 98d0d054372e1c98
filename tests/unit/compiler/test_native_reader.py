"""The native reader writes what Python reads of an array, and refuses every array it was not planned for."""

import ctypes
import gc
import mmap
import struct
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.compiler.call.fields import library_of
from flydsl.compiler.call.host_arrays import _NAMES
from flydsl.compiler.call.native_reader import NativeArray, can_read, make_reader, reads_natively
from flydsl.compiler.call.plan import IDENTITY, PRESENT, Write, array_limits
from flydsl.runtime.dlpack import row_major

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not can_read(np.ones(1)), reason="this Python's or numpy's objects are laid out otherwise"
)

SIZE = 256
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
NUMPY = ["float32", "float64", "float16", "int8", "int32", "uint64", "bool"]
SUPPORTED = [getattr(torch, name) for name in _NAMES if hasattr(torch, name)]
TORCH = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int64", "bool"]


def plan_of(array, wide=False, extents=None, steps=None, address_at=0, values_at=16):
    strides = list(array.stride()) if isinstance(array, torch.Tensor) else [s // array.itemsize for s in array.strides]
    modes = range(len(strides))
    extents = list(modes) if extents is None else extents
    steps = [m for m in modes if m != strides.index(1)] if steps is None else steps
    checks = [*IDENTITY, *array_limits(len(strides), array.itemsize, 64 if wide else 32), PRESENT]
    checks = [c for c in checks if reads_natively(library_of(array), c.field, array)]
    writes = [(Write("Q", "pointer"), address_at)]
    size = 8 if wide else 4
    writes += [(Write("i", "extent", mode), values_at + 4 * i) for i, mode in enumerate(extents)]
    at = values_at + 4 * len(extents)
    writes += [(Write("q" if wide else "i", "stride", mode), at + size * i) for i, mode in enumerate(steps)]
    return NativeArray(array, checks, writes)


class Reader:
    """A reader with a poisoned block of its own."""

    def __init__(self, *plans):
        self.function, self.table, self.kept = make_reader(plans)
        self.block = ctypes.create_string_buffer(b"\xa5" * SIZE, SIZE)

    def __call__(self, *arrays):
        return self.function(self.table, ctypes.addressof(self.block), *arrays)

    def values(self, format, at):
        return struct.unpack_from("<" + format, self.block, at)


def address(array):
    return array.data_ptr() if isinstance(array, torch.Tensor) else array.__array_interface__["data"][0]


def made(library, dtype, shape):
    if library == "numpy":
        return np.zeros(shape, dtype)
    return torch.zeros(shape, dtype=getattr(torch, dtype))


shapes = st.lists(st.integers(2, 9), min_size=1, max_size=5)
kinds = st.one_of(
    st.tuples(st.just("numpy"), st.sampled_from(NUMPY)), st.tuples(st.just("torch"), st.sampled_from(TORCH))
)


@given(kinds, shapes, shapes, st.booleans(), st.data())
def test_it_writes_what_python_reads(kind, first, second, wide, data):
    second = (second * 5)[: len(first)]
    array, other = made(*kind, first), made(*kind, second)
    modes = st.lists(st.integers(0, len(first) - 1), unique=True).map(sorted)
    extents, steps = data.draw(modes), data.draw(modes)
    reader = Reader(plan_of(array, wide, extents, steps))
    for given_array in (array, other):
        assert reader(given_array) is True
        assert reader.values("Q", 0) == (address(given_array),)
        strides = np.zeros(tuple(given_array.shape), np.int8).strides
        expected = [given_array.shape[m] for m in extents] + [strides[m] for m in steps]
        format = "i" * len(extents) + ("q" if wide else "i") * len(steps)
        assert list(reader.values(format, 16)) == expected
        assert set(reader.block.raw[16 + struct.calcsize("<" + format) :]) == {0xA5}
        reader.block.raw = b"\xa5" * SIZE


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_others_are_refused(library):
    array = made(library, "float32", (4, 6))
    reader = Reader(plan_of(array))
    tensor, parameter = torch.zeros(4, 6), torch.nn.Parameter(torch.zeros(4, 6))
    refused = [
        made(library, "float64", (4, 6)),
        made(library, "int32", (4, 6)),
        made(library, "float32", (4,)),
        made(library, "float32", (4, 6, 2)),
        made(library, "float32", (6, 4)).T,
        made(library, "float32", (4, 12))[:, ::2],
        parameter,
        3,
        None,
        "text",
        [array],
        np.zeros((4, 6), ">f4"),
        np.ma.zeros((4, 6), "float32"),
        torch.zeros(4, 6, device="meta"),
        tensor.to_sparse(),
        np.zeros((4, 6), "float32") if library == "torch" else tensor,
    ]
    assert reader(array) is True
    for other in refused:
        assert reader(other) is False, other
    assert reader(array) is True


@pytest.mark.parametrize("wide", [False, True])
def test_views_of_numpy_are_read_if_their_steps_are_whole_elements_forward(wide):
    reader = Reader(plan_of(np.zeros((4, 6), np.float32), wide))
    view = np.zeros((8, 12), np.float32)[2:6, :6]
    assert reader(view) is True
    assert reader.values("Qxxxxxxxxii" + ("q" if wide else "i"), 0) == (address(view), 4, 6, 12)
    assert reader(view[::-1]) is False
    assert reader(view[:, ::-1]) is False
    ragged = np.zeros((4, 6), np.dtype({"names": ["a"], "formats": ["f4"], "itemsize": 6}))["a"]
    assert ragged.strides[1] == 6 and reader(ragged) is False


@given(kinds, st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(lambda shape: 0 in shape))
def test_arrays_without_elements_are_read_as_dense_ones(kind, shape):
    whole = made(*kind, [n + 2 for n in shape])
    for empty in (made(*kind, shape), whole[tuple(slice(n) for n in shape)]):
        reader = Reader(plan_of(empty, steps=range(len(shape))))
        assert reader(empty) is True
        assert list(reader.values("i" * 2 * len(shape), 16)) == [*shape, *row_major(tuple(shape))]


def test_steps_of_torch_views_are_read():
    reader = Reader(plan_of(torch.zeros(4, 6)))
    view = torch.zeros(9, 20)[1:8, 3:14]
    assert reader(view) is True
    assert reader.values("Qxxxxxxxxiii", 0) == (view.data_ptr(), 7, 11, 20)


def test_the_leading_mode_is_the_first_of_stride_one():
    reader = Reader(plan_of(torch.zeros(4, 6)))
    assert reader(torch.zeros(4, 1)) is False  # strides (1, 1)
    assert reader(torch.zeros(1, 6)) is True


def test_extents_that_do_not_fit_are_refused():
    one = torch.zeros(1, 1)
    reader = Reader(plan_of(one.expand(3, 1), steps=[]))
    assert reader(one.expand(2**31 - 1, 1)) is True
    assert reader.values("ii", 16) == (2**31 - 1, 1)
    assert reader(one.expand(2**31, 1)) is False


def test_steps_that_do_not_fit_are_refused():
    memory = mmap.mmap(-1, 2**31 + 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    flat = torch.frombuffer(memory, dtype=torch.int8)
    example, fits, far = (flat.as_strided((2, 2), (step, 1)) for step in (7, 2**31 - 1, 2**31))
    assert Reader(plan_of(example))(fits) is True
    assert Reader(plan_of(example))(far) is False
    wide = Reader(plan_of(example, wide=True))
    assert wide(far) is True
    assert wide.values("iiq", 16) == (2, 2, 2**31)


def test_several_arrays_at_once():
    arrays = [np.zeros((3, 5), np.float32), torch.zeros(7, dtype=torch.int64), np.zeros(11, np.int8)]
    plans = [plan_of(a, address_at=64 * i, values_at=64 * i + 16) for i, a in enumerate(arrays)]
    reader = Reader(*plans)
    assert reader(*arrays) is True
    assert [reader.values("Q", 64 * i)[0] for i in range(3)] == [address(a) for a in arrays]
    assert reader.values("iii", 16) == (3, 5, 5)
    assert reader.values("i", 64 + 16) == (7,)
    assert reader.values("i", 128 + 16) == (11,)
    assert reader(arrays[1], arrays[0], arrays[2]) is False


def test_element_types_of_torch_are_told_apart():
    found = {}
    for name in dir(torch):
        dtype = getattr(torch, name)
        if isinstance(dtype, torch.dtype):
            try:
                tensor = torch.empty(2, 3, dtype=dtype)
            except (RuntimeError, TypeError, NotImplementedError, UserWarning):  # some exist in name only
                continue
            if dtype in SUPPORTED and can_read(tensor):
                found[dtype] = tensor
    assert len(found) > 12
    for dtype, tensor in found.items():
        reader = Reader(plan_of(tensor))
        taken = [d for d, t in found.items() if reader(t)]
        # Integers of fewer bits look like those of eight, so what types of one byte are is left to Python.
        assert taken == [dtype] or (dtype.itemsize == 1 and not reads_natively("torch", "dtype", tensor))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_nothing_is_kept(library):
    array = made(library, "float32", (4, 6))
    wrong = made(library, "float64", (4, 6))
    sparse = torch.zeros(2, 3).to_sparse()
    reader = Reader(plan_of(array))
    gc.collect()
    before = [sys.getrefcount(x) for x in (array, wrong, sparse, True, False, None)]
    for _ in range(5000):
        reader(array), reader(wrong), reader(sparse)
    after = [sys.getrefcount(x) for x in (array, wrong, sparse, True, False, None)]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))
