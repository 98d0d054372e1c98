"""Small functions written in Python: control flow, variables and memory, run as native code."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from flydsl.cpu.code import bf16_atomics
from flydsl.cpu.code import tma as cpu_tma
from flydsl.cpu.runtime import native as cpu_native
from flydsl.llvm import binding, host_jit
from flydsl.llvm.text.routine import Routine


def load(*routines: Routine) -> host_jit.HostLibrary:
    triple = binding.host_triple()
    head = f'target datalayout = "{binding.data_layout(triple)}"\ntarget triple = "{triple}"\n'
    text = head + "".join(r.text().replace("define internal", "define") for r in routines)
    text += "\n".join({d for r in routines for d in r.declarations.values()})
    return host_jit.load_ir(text, exports=[routines[0].name])


def test_loops_and_conditions():
    """The largest even number of an array, or -1."""
    r = Routine("largest_even", "i64", "ptr from, i64 count")
    found = r.variable("i64", -1)
    with r.loop(r["count"]) as i:
        value = r.load("i64", r["from"], i * 8)
        with r.when((value & 1).is_(0)):
            better = r.assign("i1", f"icmp sgt i64 {value.name}, {found.get().name}")
            r.either(better, lambda: found.set(value), lambda: None)
    r.give(found.get())
    library = load(r)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(library.address("largest_even"))
    for values in ([], [1, 3], [2], [5, 8, 6, 9]):
        data = np.array(values, np.int64)
        assert call(data.ctypes.data, len(values)) == max([v for v in values if v % 2 == 0], default=-1)


def test_early_return_and_while():
    """Steps of Collatz's sequence down to 1, at most 1000."""
    r = Routine("steps", "i64", "i64 n")
    n, count = r.variable("i64", r["n"]), r.variable("i64", 0)
    with r.again(lambda: n.get().is_not(1)):
        with r.when(count.get() >= 1000):
            r.give(-1)
        odd = (n.get() & 1).is_not(0)
        n.set(r.choose(odd, n.get() * 3 + 1, n.get() >> 1))
        count.set(count.get() + 1)
    r.give(count.get())
    library = load(r)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("steps"))
    assert [call(x) for x in (1, 2, 3, 27)] == [0, 1, 7, 111]
    assert call(0) == -1


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor"])
def test_every_reduction_of_a_tensor_copy(op: str, rng: np.random.Generator):
    """Combine a box of int32 with part of it outside the tensor."""
    floats = [bf16_atomics.updating(f"f{op}")(False)] if op in ("add", "min", "max") else []
    library = load(cpu_tma.reducing(op)(False), *floats)
    encode_type = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, *(ctypes.c_void_p,) * 5,
        *(ctypes.c_uint32,) * 4,
    )  # fmt: skip
    encode = encode_type(cpu_native.launcher().tensor_map_address)
    whole = np.zeros(64 + 16, np.int32)
    tensor = whole[(-whole.ctypes.data // 4) % 4 :][:60].reshape(5, 12)
    tensor[:] = rng.integers(-1000, 1000, (5, 12))
    box = rng.integers(-1000, 1000, (4, 8)).astype(np.int32)
    description = np.zeros(16, np.int64)
    dims, strides = np.array([12, 5], np.int64), np.array([48], np.int64)
    extents, steps = np.array([8, 4], np.int32), np.array([1, 1], np.int32)
    arrays = [x.ctypes.data for x in (tensor, dims, strides, extents, steps)]
    assert encode(description.ctypes.data, 3, 2, *arrays, 0, 0, 0, 0) == 0
    expected = tensor.copy()
    combine = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[op]  # fmt: skip
    expected[3:5, 6:12] = combine(expected[3:5, 6:12], box[:2, :6])
    signature = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, *(ctypes.c_int32,) * 5)
    reduce = ctypes.CFUNCTYPE(None, *signature)(library.address(f"fly_tma_reduce_{op}"))
    reduce(None, 0, box.ctypes.data, description.ctypes.data, 6, 3, 0, 0, 0)
    np.testing.assert_array_equal(tensor, expected)
    assert encode(description.ctypes.data, 3, 2, arrays[0] + 4, *arrays[1:], 0, 0, 0, 0) == 1


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng()
