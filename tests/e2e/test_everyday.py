"""Small things that people rely on: what is compiled for, functions in other processes, what launches use."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler import backends
from flydsl.errors import DSLTypeError

SEEN: list[tuple[object, object]] = []


@flyc.kernel
def tell_kernel(out: fx.Tensor):
    target = fx.target()
    SEEN.append((target, backends.current_target()))
    if target.has("mfma"):
        code = 64
    elif target.arch.startswith("sm_"):
        code = 32
    else:
        code = 1
    out[0] = fx.Int32(code * 1000 + target.warp_size)


@flyc.jit
def tell(out: fx.Tensor):
    SEEN.append((fx.target(), backends.current_target()))
    tell_kernel(out).launch(grid=1, block=1)


@pytest.mark.parametrize("target", ["rocm:gfx942", "rocm:gfx1201", "cuda:sm_90", "cpu:gfx950", None])
def test_a_trace_knows_its_target(target: str | None):
    SEEN.clear()
    compiled = flyc.compile(tell, flyc.TensorSpec((1,), "int32"), target=target)
    made = compiled.artifact.target
    assert SEEN and all(a == b == made for a, b in SEEN)
    assert backends.current_target() == fx.target() == backends.get_backend().target


@flyc.kernel
def fill_kernel(out: fx.Tensor, value: fx.Float32):
    out[fx.thread_idx.x] = value


@flyc.jit
def fill(out: fx.Tensor, value: fx.Float32):
    fill_kernel(out, value).launch(grid=1, block=8)


class Filler:
    def __init__(self, value: float):
        self.value = value

    @flyc.jit
    def run(self, out: fx.Tensor):
        fill_kernel(out, self.value).launch(grid=1, block=8)


def work(function: object, value: float) -> list[float]:
    out = np.zeros(8, np.float32)
    function(out, value)  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
    return out.tolist()


@pytest.mark.parametrize("function", [fill, fill_kernel], ids=["jit", "kernel"])
def test_functions_are_pickled_and_copied_by_reference(function: object):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(function, protocol)) is function
    assert copy.copy(function) is function and copy.deepcopy({"f": function})["f"] is function


def test_a_method_is_pickled_with_its_object():
    bound = pickle.loads(pickle.dumps(Filler(2.5).run))
    out = np.zeros(8, np.float32)
    bound(out)
    assert out.tolist() == [2.5] * 8


def test_code_is_pickled_whole():
    compiled = flyc.compile(fill, flyc.TensorSpec((8,), "float32"), 1.0, target="rocm:gfx942")
    artifact = pickle.loads(pickle.dumps(compiled.artifact))
    assert artifact.binary("hsaco") == compiled.artifact.binary("hsaco") and artifact.asm == compiled.artifact.asm
    with pytest.raises(DSLTypeError, match="send the jit function, which is pickled by reference"):
        pickle.dumps(compiled)


def test_another_process_imports_what_it_is_given():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(work, (fill, 3.0)) == [3.0] * 8


@flyc.kernel
def staged_kernel(x: fx.Tensor, elements: fx.Constexpr[int]):
    tile = fx.SharedAllocator(static=False).allocate(fx.Array[fx.Float32, elements]).peek()
    tile[fx.thread_idx.x] = x[fx.thread_idx.x]
    fx.barrier()
    x[fx.thread_idx.x] = tile[255 - fx.thread_idx.x]


@flyc.jit
def staged(x: fx.Tensor, elements: fx.Constexpr[int]):
    staged_kernel(x, elements).launch(grid=1, block=256)


def test_occupancy_counts_the_shared_memory_of_the_launch():
    found = {}
    for elements in (256, 8192):
        compiled = flyc.compile(staged, flyc.TensorSpec((256,), "float32"), elements, target="rocm:gfx942")
        (found[elements],) = compiled.artifact.resources.values()
    assert found[256]["dynamic_smem"] == 1024 and found[256]["occupancy_limit"] == "waves"
    assert found[8192]["dynamic_smem"] == 32768 and found[8192]["occupancy_limit"] == "shared"
    assert found[8192]["occupancy"] < found[256]["occupancy"]
