"""The repeated call serves the arguments it was made for, notices all others, and is never wrong."""

import runpy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, FlyDSLError
from flydsl.runtime import Stream

BLOCK = 64


@flyc.kernel
def scale_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, factor: fx.Float32, plus: fx.Constexpr[int]):
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    if i < n:
        y[i] = x[i] * factor + plus


@flyc.jit
def scale(
    x: fx.Tensor,
    y: fx.Tensor,
    n: fx.Int32,
    factor: fx.Float32 = 2.0,
    *,
    plus: fx.Constexpr[int] = 1,
    stream: fx.Stream = None,
):
    scale_kernel(x, y, n, factor, plus).launch(grid=fx.ceildiv(n, BLOCK), block=BLOCK, stream=stream)


@pytest.fixture
def repeated():
    """A jit function whose repeated call is in place; calls of it are counted."""
    function = flyc.jit(scale.__wrapped__)
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    function(x, y, 3)
    assert function._repeat is None  # what is called once needs none
    function(x, y, 3)
    made = function._repeat
    assert made is not None
    served = []

    def counting(*args, **kwargs):
        served.append(made(*args, **kwargs))
        return served[-1]

    function._repeat = counting
    function.served = served
    return function


def check(function, x, factor=2.0, plus=1, **kwargs):
    y = np.full(x.shape, np.nan, x.dtype)
    function(x, y, len(x), factor, plus=plus, **kwargs)
    np.testing.assert_allclose(y, x.astype(np.float64) * factor + plus, rtol=1e-5, atol=1e-5)


def test_new_arrays_of_the_same_kind_are_served(repeated):
    rng = np.random.default_rng()
    for n in rng.integers(1, 1000, 20):
        check(repeated, rng.standard_normal(n).astype(np.float32), float(rng.standard_normal()))
    assert repeated.served == [True] * 20


def test_a_whole_number_for_a_float_is_served(repeated):
    check(repeated, np.arange(5, dtype=np.float32), factor=3)
    assert repeated.served == [True]


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(np.arange(6, dtype=np.float64), id="dtype"),
        pytest.param(np.arange(12, dtype=np.float32).reshape(6, 2)[:, 0].copy(order="F"), id="same"),
        pytest.param(np.frombuffer(np.arange(6, dtype=np.float32).tobytes(), np.float32), id="read-only"),
    ],
)
def test_other_arrays_are_right(repeated, x):
    for _ in range(3):
        check(repeated, x)


def test_another_constant_compiles_again_and_is_right(repeated):
    x = np.arange(7, dtype=np.float32)
    for plus in (1, 5, 1, 5):
        check(repeated, x, plus=plus)


def test_adapters_are_served_and_their_marks_noticed():
    function = flyc.jit(scale.__wrapped__)
    served = []
    for n, dynamic in ((8, True), (8, True), (24, True), (8, False), (8, False), (8, False), (8, True)):
        x, y = np.arange(n, dtype=np.float32), np.full(n, np.nan, np.float32)
        adapted = [flyc.from_dlpack(t) for t in (x, y)]
        if dynamic:
            adapted = [a.mark_layout_dynamic(leading_dim=0, divisibility=8) for a in adapted]
        made = function._repeat
        served.append(made is not None and made(*adapted, n))
        function(*adapted, n)
        np.testing.assert_array_equal(y, x * 2 + 1)
    assert served == [False, False, True, False, False, True, False]


def test_small_integers_of_torch_are_not_taken_for_bytes():
    torch = pytest.importorskip("torch")
    function = flyc.jit(scale.__wrapped__)
    x, y = torch.arange(5, dtype=torch.uint8), torch.zeros(5, dtype=torch.float32)
    for _ in range(3):
        function(x, y, 5)
    assert function._repeat(x, y, 5) is True
    assert y.tolist() == [1, 3, 5, 7, 9]
    assert function._repeat(torch.empty(5, dtype=torch.uint4), y, 5) is False
    with pytest.raises(FlyDSLError):
        function(torch.empty(5, dtype=torch.uint4), y, 5)


def test_an_explicit_stream_goes_the_general_way(repeated):
    stream = Stream()
    x, y = np.arange(9, dtype=np.float32), np.full(9, np.nan, np.float32)
    repeated(x, y, 9, stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(y, x * 2 + 1)
    assert repeated.served == [False]


@pytest.mark.parametrize(
    "args", [(1,), (np.ones(3, np.float32), "y", 3), (np.ones(3, np.float32), np.ones(3, np.float32), 1 << 40)]
)
def test_mistakes_are_reported_by_the_general_way(repeated, args):
    with pytest.raises((DSLTypeError, FlyDSLError, TypeError, OverflowError)):
        repeated(*args)
    check(repeated, np.arange(3, dtype=np.float32))


def test_a_changed_variable_is_noticed(repeated, monkeypatch):
    x = np.arange(4, dtype=np.float32)
    check(repeated, x)
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "1")
    check(repeated, x)
    assert repeated.served == [True, False]


def test_an_unrelated_variable_is_not(repeated, monkeypatch):
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    check(repeated, np.arange(4, dtype=np.float32))
    assert repeated.served == [True]


def test_threads_do_not_share_arguments(repeated):
    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(200):
            check(repeated, rng.standard_normal(rng.integers(1, 300)).astype(np.float32), float(seed + 1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert all(repeated.served)


def test_a_compiled_function_repeats_as_well():
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    compiled = flyc.compile(scale, x, y, 5)
    for n in (5, 17, 1):
        x, y = np.arange(n, dtype=np.float32), np.full(n, np.nan, np.float32)
        compiled(x, y, n)
        np.testing.assert_array_equal(y, x * 2 + 1)
    assert compiled._repeat is not None
    with pytest.raises(DSLTypeError, match="another signature"):
        compiled(np.arange(5.0), np.zeros(5), 5)


NAMED = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def kernel(x: fx.Tensor, n: fx.Int32):
    x[fx.thread_idx.x] = n

@flyc.jit
def function(x: fx.Tensor, {name}: fx.Int32 = 5, /, plus: fx.Constexpr[int] = 0):
    kernel(x, {name} + plus).launch(grid=1, block=4)
"""


@pytest.mark.parametrize("name", ["stream", "own", "runtime", "block", "pack", "int", "_stream", "_native", "flags"])
def test_parameters_may_have_any_name(name, tmp_path):
    (tmp_path / "named.py").write_text(NAMED.format(name=name))
    function = runpy.run_path(str(tmp_path / "named.py"))["function"]
    x = np.zeros(4, np.int32)
    for n in (3, 11, 12):
        function(x, n, plus=1)
        assert x.tolist() == [n + 1] * 4
    function(x)
    assert x.tolist() == [5] * 4
    with pytest.raises(DSLTypeError, match="positional"):
        function(x, **{name: 3})


def test_a_type_error_from_inside_does_not_launch_twice(repeated):
    def failing(*args, **kwargs):
        raise TypeError("after the launch")

    def repeat(*args, **kwargs):
        failing()

    repeated._repeat = repeat
    y = np.full(3, np.nan, np.float32)
    with pytest.raises(TypeError, match="after the launch"):
        repeated(np.ones(3, np.float32), y, 3)
    assert np.isnan(y).all()
