"""Mistakes a kernel author makes: each raises a specific error that shows file and line, and caches nothing."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLSyntaxError, FlyDSLError


@flyc.kernel
def scale_kernel(x: fx.Tensor, n: fx.Int32, factor: fx.Constexpr[float]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * factor


@flyc.jit
def scale(x: fx.Tensor, n: fx.Int32, factor: fx.Constexpr[float] = 2.0):
    scale_kernel(x, n, factor).launch(grid=fx.ceildiv(n, 64), block=64)


def shown(error: BaseException) -> str:
    """What a user sees: the message and its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


@pytest.fixture
def cache_files():
    """Files of the cache before and after."""
    root = Path(os.environ["FLYDSL_RUNTIME_CACHE_DIR"])

    def count() -> int:
        return len(list(root.rglob("*.fly")))

    return count


def x() -> np.ndarray:
    return np.arange(10, dtype=np.float32)


def test_kernel_outside_jit():
    with pytest.raises(RuntimeError, match="outside a jit function"):
        scale_kernel(x(), 10, 2.0)


def test_layout_value_outside_a_trace():
    with pytest.raises(RuntimeError, match="no active trace"):
        fx.thread_idx.x + 1


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((x(), "ten"), "parameter 'n' expects Int32, got 'ten'"),
        ((x(), 2**40), "does not fit Int32"),
        ((x(), 1.5), "takes an integer, got 1.5"),
        ((["a"], 1), r"parameter 'x' expects an array \(fx.Tensor\), got \['a'\] of type list"),
        ((None, 1), "cannot pass None"),
        ((x().astype(np.complex64), 1), "unsupported dtype complex64"),
        ((x().astype(">f4"), 1), "big-endian"),
        ((np.zeros((), np.float32), 1), "without dimensions"),
        ((np.float32(3.0), 1), "cannot pass|auto-mark"),
        ((x(), 10, 2), None),
        ((x(), 10, "2"), "expects Constexpr\\[float\\], got '2'"),
        ((x(),), "missing a required argument: 'n'"),
        ((x(), 1, 2.0, 3), "too many positional arguments"),
    ],
)
def test_arguments(args, match, cache_files):
    before = cache_files()
    if match is None:
        scale(*args)
        return
    with pytest.raises((TypeError, ValueError, OverflowError), match=match):
        scale(*args)
    assert cache_files() == before


def test_wrong_rank_shows_the_line(cache_files):
    @flyc.kernel
    def kernel(a: fx.Tensor):
        a[0, 0, 0] = 1.0

    @flyc.jit
    def run(a: fx.Tensor):
        kernel(a).launch(grid=1, block=1)

    before = cache_files()
    with pytest.raises(ValueError, match="profile mismatch") as caught:
        run(np.zeros((2, 2), np.float32))
    text = shown(caught.value)
    assert __file__ in text and "a[0, 0, 0] = 1.0" in text and "^" in text
    assert cache_files() == before


def test_wrong_dtype_in_a_store_shows_the_line():
    @flyc.kernel
    def kernel(a: fx.Tensor, b: fx.Tensor):
        b[0] = a[0]

    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor):
        kernel(a, b).launch(grid=1, block=1)

    with pytest.raises(TypeError, match="cannot store a Float32 into Int32 elements") as caught:
        run(np.zeros(2, np.float32), np.zeros(2, np.int32))
    assert "b[0] = a[0]" in shown(caught.value)


def test_static_shape_mismatch_in_copy():
    @flyc.kernel
    def kernel(a: fx.Tensor, b: fx.Tensor):
        fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), a, b)

    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor):
        kernel(a, b).launch(grid=1, block=1)

    a, b = np.zeros((4, 2), np.float32), np.zeros((4, 3), np.float32)
    with pytest.raises(ValueError, match="has 8 values, destination .* 12"):
        run(flyc.from_dlpack(a), flyc.from_dlpack(b))


def test_copy_of_the_wrong_width():
    @flyc.kernel
    def kernel(a: fx.Tensor, b: fx.Tensor):
        fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), a, b)

    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor):
        kernel(a, b).launch(grid=1, block=1)

    a, b = np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32)
    with pytest.raises(ValueError, match="moves 32 bits, but the innermost mode .* holds 4 values"):
        run(flyc.from_dlpack(a), flyc.from_dlpack(b))


def test_broken_divisibility_promise():
    with pytest.raises(ValueError, match="extent of dimension 1 was promised to be a multiple of 4, but it is 7"):
        flyc.from_dlpack(np.zeros((4, 7), np.float32)).mark_layout_dynamic(leading_dim=1, divisibility=4)
    with pytest.raises(ValueError, match="power of two"):
        flyc.from_dlpack(np.zeros((4, 8), np.float32)).mark_layout_dynamic(divisibility=3)
    with pytest.raises(ValueError, match="Leading dimension must have stride 1"):
        flyc.from_dlpack(np.zeros((4, 8), np.float32)).mark_layout_dynamic(leading_dim=0)
    with pytest.raises(ValueError, match="out of range"):
        flyc.from_dlpack(np.zeros(4, np.float32)).mark_shape_dynamic(1)
    with pytest.raises(ValueError, match="equal length"):
        flyc.from_dlpack(np.zeros((4, 4), np.float32)).mark_shape_dynamic([0, 1], [2])


def test_broken_alignment_promise():
    array = np.zeros(65, np.float32)
    odd = array[1:] if array.ctypes.data % 16 == 0 else array[:-1]
    while odd.ctypes.data % 16 == 0:
        odd = odd[1:]
    with pytest.raises(ValueError, match="promised to be aligned to 16 bytes"):
        flyc.from_dlpack(odd, assumed_align=16)


@pytest.mark.parametrize(
    ("target", "match"),
    [
        ("vulkan:x", "Unknown compile backend 'vulkan'"),
        ("rocm:gfx943", "gfx942"),
        ("cuda:sm_91", "sm_90"),
        ("", "cannot read target"),
    ],
)
def test_unknown_target(target: str, match: str):
    with pytest.raises(ValueError, match=match):
        flyc.compile(scale, x(), 10, target=target)


def test_unsupported_python_is_refused_at_decoration():
    with pytest.raises(DSLSyntaxError) as caught:

        @flyc.kernel
        def kernel(a: fx.Tensor, n: fx.Int32):
            for i in range(n):
                if i > 3:
                    break
                a[i] = 0.0

    text = shown(caught.value)
    assert "break" in text and Path(__file__).name in text


def test_python_number_as_kernel_argument():
    @flyc.kernel
    def kernel(a: fx.Tensor, n):
        a[0] = 1.0

    @flyc.jit
    def run(a: fx.Tensor):
        kernel(a, 3).launch(grid=1, block=1)

    with pytest.raises(TypeError, match=r"Cannot derive IR types of 3; annotate the parameter with fx.Int32 or"):
        run(x())


@pytest.mark.parametrize(
    ("launch", "match"),
    [
        ({"grid": (1, 1, 1, 1)}, "one to three extents"),
        ({"grid": "x"}, "takes integers"),
        ({"block": 0}, "has no threads"),
        ({"grid": -1}, "cannot be negative"),
        ({"stream": 5}, "stream must be"),
    ],
)
def test_launch_geometry(launch, match):
    @flyc.kernel
    def kernel(a: fx.Tensor):
        a[0] = 1.0

    @flyc.jit
    def run(a: fx.Tensor):
        kernel(a).launch(**{"grid": 1, "block": 1, **launch})

    with pytest.raises((TypeError, ValueError), match=match):
        run(x())


def test_negative_run_time_grid():
    @flyc.kernel
    def kernel(a: fx.Tensor):
        a[0] = 1.0

    @flyc.jit
    def run(a: fx.Tensor, n: fx.Int32):
        kernel(a).launch(grid=n, block=1)

    with pytest.raises(FlyDSLError, match="kernel 'kernel_0' with grid \\(-3, 1, 1\\)"):
        run(x(), -3)


def test_reserved_parameter_name():
    with pytest.raises(TypeError, match="reserved for the launch call"):

        @flyc.kernel
        def kernel(a: fx.Tensor, stream: fx.Int32):
            a[0] = 1.0


def test_process_is_usable_after_errors():
    for _ in range(3):
        with pytest.raises(TypeError):
            scale(None, 1)
    a = x()
    scale(a, 10)
    np.testing.assert_array_equal(a, x() * 2)


def test_compile_wants_a_jit_function():
    with pytest.raises(TypeError, match="expects a @flyc.jit function"):
        flyc.compile(len, 1)
    with pytest.raises(TypeError, match="takes a dict"):
        flyc.compile["x"]
