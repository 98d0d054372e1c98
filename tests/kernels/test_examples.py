"""The example kernels against float64 numpy: random odd shapes, fresh data, poisoned outputs, numpy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx

CASES = 20


def _sizes(name: str, rng: np.random.Generator) -> tuple[int, ...]:
    match name:
        case "vector_add":
            return (int(rng.integers(1, 5000)) | 1,)
        case "predicated_add":
            return int(rng.integers(1, 150)) | 1, int(rng.integers(1, 300)) | 1
        case "tiled_copy":
            return 32 * (int(rng.integers(0, 4)) * 2 + 1), 64 * (int(rng.integers(0, 3)) * 2 + 1)
        case _:
            return 32 * int(rng.integers(1, 4)), 32 * int(rng.integers(1, 4)), 8 * int(rng.integers(1, 9))


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["vector_add", "predicated_add", "tiled_copy", "tiled_mma"])
def test_example(name: str, framework: str, example, rng: np.random.Generator):
    module = example(name)
    function = getattr(module, name)
    for _ in range(CASES):
        sizes = _sizes(name, rng)
        args, out, expected = module.make_args(*sizes, rng)
        if framework == "torch":
            args = tuple(torch.from_numpy(a) if isinstance(a, np.ndarray) else _through_torch(a) for a in args)
        function(*args)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4, err_msg=f"sizes {sizes}")


def _through_torch(arg):
    """The same adapter over a torch tensor that shares the memory."""
    if not hasattr(arg, "info"):
        return arg
    made = flyc.from_torch_tensor(torch.from_numpy(arg.info.owner))
    made.shape, made.strides = arg.shape, arg.strides
    made.shape_div, made.stride_div = arg.shape_div, arg.stride_div
    return made


def test_vector_add_leaves_the_rest_alone(example, rng: np.random.Generator):
    """Elements past `n` stay untouched."""
    module = example("vector_add")
    args, out, expected = module.make_args(1000, rng)
    module.vector_add(*args[:3], 777)
    np.testing.assert_allclose(out[:777], expected[:777], rtol=1e-6, atol=1e-6)
    assert np.isnan(out[777:]).all()


def test_empty_grid(example, rng: np.random.Generator):
    """A grid of no blocks launches nothing."""
    module = example("vector_add")
    args, out, _ = module.make_args(16, rng)
    module.vector_add(*args[:3], 0)
    assert np.isnan(out).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16", "uint8"])
def test_vector_add_dtypes(dtype: str, example, rng: np.random.Generator):
    module = example("vector_add")
    a, b = (rng.integers(0, 100, 501).astype(dtype) for _ in range(2))
    c = np.full(501, 77, dtype)
    module.vector_add(a, b, c, 501)
    np.testing.assert_array_equal(c, a + b)


def test_stream_argument(example, rng: np.random.Generator):
    """A launch on an explicit stream is asynchronous and ordered."""
    from flydsl.runtime import Stream

    module = example("vector_add")
    stream = Stream()
    try:
        args, out, expected = module.make_args(4097, rng)
        for _ in range(3):
            module.vector_add(*args, stream)
        module.vector_add(*args, fx.Stream(stream))
        stream.synchronize()
        np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)
    finally:
        stream.close()


def test_static_layouts_compile_apart(example, rng: np.random.Generator):
    """A static shape is part of the signature, a dynamic one is not."""
    module = example("predicated_add")
    function = module.predicated_add
    before = function.cache_info()[2]
    for m, n in ((5, 9), (7, 11), (5, 9)):
        args, out, expected = module.make_args(m, n, rng)
        function(*(flyc.from_dlpack(a) for a in args))
        np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)
    assert function.cache_info()[2] - before == 2


def test_many_threads_give_the_same(example, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """A grid large enough to be split over workers."""
    module = example("vector_add")
    args, out, expected = module.make_args(300_001, rng)
    module.vector_add(*args)
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)


def test_booleans_as_a_vector_through_memory(rng: np.random.Generator):
    """A Boolean takes a byte in memory: a run-time index sends a register tensor there and back."""

    @flyc.kernel
    def kernel(out: fx.Tensor, n: fx.Int32):
        flags = fx.make_rmem_tensor(4, fx.Boolean)
        for i in fx.range_constexpr(4):
            flags[i] = fx.Int32(i) < n
        flags[n] = n < 100
        loaded = flags.load()
        for i in fx.range_constexpr(4):
            out[i] = fx.Int32(loaded[i])

    @flyc.jit
    def run(out: fx.Tensor, n: fx.Int32):
        kernel(out, n).launch(grid=1, block=1)

    for n in range(4):
        out = np.full(4, 9, np.int32)
        run(out, n)
        np.testing.assert_array_equal(out, [int(i <= n) for i in range(4)])


def test_functions_as_constants_count_with_what_they_capture():
    """Two closures of the same code are different kernels."""

    @flyc.kernel
    def kernel(x: fx.Tensor, f: fx.Constexpr):
        x[fx.thread_idx.x] = f(x[fx.thread_idx.x])

    @flyc.jit
    def run(x: fx.Tensor, f: fx.Constexpr):
        kernel(x, f).launch(grid=1, block=4)

    def adder(n: int):
        return lambda v: v + n

    for n in (1, 2, 3):
        x = np.zeros(4, np.int32)
        run(x, adder(n))
        assert (x == n).all()
