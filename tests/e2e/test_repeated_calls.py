"""The repeated call serves the arguments it was made for, notices all others, and is never wrong."""

import mmap
import pickle
import runpy
import warnings
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
    assert function.repeat is None  # what is called once needs none
    function(x, y, 3)
    made = function.repeat
    assert made is not None
    served = []

    def counting(*args, **kwargs):
        served.append(made(*args, **kwargs))
        return served[-1]

    function.repeat = counting
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
        made = function.repeat
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
    assert function.repeat(x, y, 5) is True
    assert y.tolist() == [1, 3, 5, 7, 9]
    assert function.repeat(torch.empty(5, dtype=torch.uint4), y, 5) is False
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

    repeated.repeat = repeat
    y = np.full(3, np.nan, np.float32)
    with pytest.raises(TypeError, match="after the launch"):
        repeated(np.ones(3, np.float32), y, 3)
    assert np.isnan(y).all()


# --- what the first call refuses or sees otherwise, later calls do too ----------------------------------------------


@flyc.kernel
def add_one_kernel(x: fx.Tensor, y: fx.Tensor, rows: fx.Int32, columns: fx.Int32):
    i = fx.thread_idx.x
    if i < rows:
        for j in range(columns):
            y[i, j] = x[i, j] + 1.0


def add_one(x: fx.Tensor, y: fx.Tensor, rows: fx.Int32, columns: fx.Int32):
    add_one_kernel(x, y, rows, columns).launch(grid=1, block=32)


def empty_arrays(library):
    """Arrays without elements, whose strides say nothing."""
    torch = pytest.importorskip("torch") if library == "torch" else None
    for shape, kept in (((5, 6), (5, 0)), ((5, 6), (0, 6)), ((4, 0), (4, 0)), ((0, 4), (0, 4))):
        whole = np.ones(shape, np.float32)
        part = (torch.from_numpy(whole) if torch else whole)[: kept[0], : kept[1]]
        yield part
        yield part.T


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_empty_array_does_not_decide_for_others(library):
    torch = pytest.importorskip("torch") if library == "torch" else None
    full = [np.ones((4, 5), np.float32), np.ones((5, 4), np.float32).T, np.ones((4, 1), np.float32)]
    for empty in empty_arrays(library):
        function = flyc.jit(add_one)
        for _ in range(3):
            function(empty, empty, *empty.shape)
        for x in full:
            for _ in range(3):
                y = np.full_like(x, np.nan)
                given = [torch.from_numpy(t) if torch else t for t in (x, y)]
                function(*given, *x.shape)
                np.testing.assert_array_equal(y, x + 1)


def misaligned(library, n):
    memory = np.zeros(4 * n + 4, np.uint8)
    at = 1 + -memory.ctypes.data % 4
    if library == "numpy":
        return memory[at : at + 4 * n].view(np.float32)
    return pytest.importorskip("torch").frombuffer(
        memory, dtype=pytest.importorskip("torch").float32, offset=at, count=n
    )


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_misaligned_array_is_refused_at_every_call(library, calls):
    function = flyc.jit(scale.__wrapped__)
    torch = pytest.importorskip("torch") if library == "torch" else None
    x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    given = [torch.from_numpy(t) if torch else t for t in (x, y)]
    for _ in range(calls):
        function(*given, 3)
    with pytest.raises(FlyDSLError, match="aligned to 4 bytes"):
        function(misaligned(library, 3), given[1], 3)
    with pytest.raises(FlyDSLError, match="aligned to 4 bytes"):
        flyc.compile(function, *given, 3)(misaligned(library, 3), given[1], 3)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_lazily_negated_tensor_is_refused_at_every_call(calls):
    torch = pytest.importorskip("torch")
    function = flyc.jit(add_one)
    negated = torch.view_as_complex(torch.ones(4, 2)).conj().imag[:, None]
    assert negated.is_neg() and negated.stride() == (2, 1)
    x, y = torch.ones(4, 2)[:, :1], torch.zeros(4, 1).as_strided((4, 1), (1, 1))
    for _ in range(calls):
        function(x, y, 4, 1)
    assert function.repeat is None or function.repeat(x, y, 4, 1) is True
    with pytest.raises(FlyDSLError, match="negated lazily"):
        function(negated, y, 4, 1)


# --- a call inside a call --------------------------------------------------------------------------------------------


def test_a_call_between_the_arguments_and_the_launch_of_another(repeated):
    """As a signal handler, or a finalizer, may make it in the same thread."""
    made = repeated.repeat.__closure__
    scope = next(c.cell_contents for c in made if hasattr(c.cell_contents, "__globals__")).__globals__
    native = scope["__fly_native"]
    inner = np.arange(50, dtype=np.float32)

    def interrupted(slots):
        scope["__fly_native"] = native
        check(repeated, inner, factor=7.0)
        return native(slots)

    scope["__fly_native"] = interrupted
    check(repeated, np.arange(20, dtype=np.float32), factor=3.0)
    assert repeated.served == [True, True]
    check(repeated, np.arange(9, dtype=np.float32))


def test_calls_of_many_kinds_are_all_served_warm(monkeypatch):
    function = flyc.jit(scale.__wrapped__)
    kinds = [lambda n, t=t, plus=plus: (np.arange(n, dtype=t), plus) for t in ("f4", "f8") for plus in (1, 2, 0, -1)]
    for n in (3, 8):
        for kind in kinds:
            x, plus = kind(n)
            check(function, x, plus=plus)
    with monkeypatch.context() as patch:
        patch.setattr(flyc.JitFunction, "bind", lambda *_: pytest.fail("not served warm"))
        for kind in [*kinds, *reversed(kinds)]:
            x, plus = kind(5)
            check(function, x, plus=plus)


class _Exported:
    """An array that is known by DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    ("n", "factor", "given", "stream"),
    [
        (np.int32(5), np.float32(3), np.asarray, None),
        (np.uint8(5), np.float64(3), np.asarray, None),
        (5, np.int64(3), np.asarray, None),
        (5, 3.0, _Exported, None),
        (5, 3.0, np.asarray, fx.Stream(0)),
        (5, 3.0, np.asarray, 0),
    ],
)
def test_numbers_of_numpy_foreign_arrays_and_named_streams_are_served_warm(monkeypatch, n, factor, given, stream):
    """Beside calls with plain arguments, which stay warm as well."""
    function = flyc.jit(scale.__wrapped__)
    x, y = np.arange(5, dtype="f4"), np.zeros(5, "f4")
    for _ in range(3):
        function(x, y, 5)
        function(given(x), given(y), n, factor, stream=stream)
    with monkeypatch.context() as patch:
        patch.setattr(flyc.JitFunction, "bind", lambda *_: pytest.fail("not served warm"))
        function(x, y, 5)
        assert (y == x * 2 + 1).all()
        function(given(x), given(y), n, factor, stream=stream)
    assert (y == x * 3 + 1).all()
    with pytest.raises(FlyDSLError, match="does not fit Int32"):
        function(given(x), given(y), np.int64(2**40), factor, stream=stream)


def test_a_dtype_that_is_equal_but_another_object_is_served_warm(monkeypatch):
    """As in arrays that came from another process."""
    function = flyc.jit(scale.__wrapped__)
    x = pickle.loads(pickle.dumps(np.arange(5, dtype=np.float32)))
    if x.dtype is np.dtype(np.float32):
        x = x.view(np.dtype(np.float32, metadata={"a": 1}))
    for _ in range(2):
        check(function, np.arange(3, dtype=np.float32))
    check(function, x)
    with monkeypatch.context() as patch:
        patch.setattr(flyc.JitFunction, "bind", lambda *_: pytest.fail("not served warm"))
        check(function, np.arange(3, dtype=np.float32))
        check(function, x)


def test_a_failed_launch_leaves_the_next_one_alone(repeated):
    with pytest.raises(FlyDSLError):
        repeated(np.ones(3, np.float32), np.ones(3, np.float32), -(2**31))
    check(repeated, np.arange(5, dtype=np.float32))


@pytest.mark.parametrize(
    "names", [("x", "_i_x"), ("x", "_p_x"), ("numpy_address", "_f_n"), ("__c", "__i"), ("x", "_k_x")]
)
def test_parameters_may_be_named_like_variables_of_ours(names, tmp_path):
    text = NAMED.replace("x: fx.Tensor, {name}: fx.Int32 = 5, /", "{0}: fx.Tensor, {1}: fx.Int32")
    text = text.replace("kernel(x, {name} + plus)", "kernel({0}, {1} + plus)")
    (tmp_path / "named.py").write_text(text.format(*names))
    function = runpy.run_path(str(tmp_path / "named.py"))["function"]
    for adapter in (lambda x: x, flyc.from_dlpack):
        x = np.zeros(4, np.int32)
        for n in (3, 11, 12, 13):
            function(adapter(x), n, 1)
            assert x.tolist() == [n + 1] * 4


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_an_adapter_beyond_32_bits_is_refused_at_every_call(calls):
    """A static stride is 32 bits of code: rows that are too far away cannot be addressed."""
    function = flyc.jit(add_one)
    step = 1 << 20
    memory = mmap.mmap(
        -1, step * 2100, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    )
    whole = np.frombuffer(memory, np.int8).reshape(2100, step)
    y = np.zeros((2, 1), np.float32)

    def adapted(rows):
        return flyc.from_dlpack(whole[:rows]).mark_shape_dynamic(0)

    for rows in (2, 3, 4)[:calls]:
        function(adapted(rows), y, 2, 1)
        assert y.tolist() == [[1], [1]]
    for _ in range(2):
        with pytest.raises(OverflowError, match="does not fit 32 bits"):
            function(adapted(2100), y, 2, 1)


def test_an_overflow_is_told_in_the_same_words_at_every_call():
    function = flyc.jit(unannotated)
    x = np.zeros(4, np.int32)
    for n in (1, 2, 3):
        with pytest.raises(OverflowError, match="parameter 'n': .* does not fit Int32; annotate"):
            function(x, 1 << 40)
        function(x, n)
        assert x.tolist() == [n] * 4


@flyc.kernel
def set_kernel(x: fx.Tensor, n: fx.Int32):
    x[fx.thread_idx.x] = n


def unannotated(x: fx.Tensor, n):
    set_kernel(x, n).launch(grid=1, block=4)


@pytest.mark.parametrize("calls", [0, 1, 2, 3])
def test_a_tensor_without_memory_is_refused_at_every_call(calls):
    torch = pytest.importorskip("torch")
    function = flyc.jit(scale.__wrapped__)
    x, y = torch.ones(3), torch.zeros(3)
    freed = torch.ones(3)
    freed.untyped_storage().resize_(0)
    for _ in range(calls):
        function(x, y, 3)
    for _ in range(2):
        with pytest.raises(DSLTypeError, match="parameter 'x': the array has no memory"):
            function(freed, y, 3)
    with pytest.raises(DSLTypeError, match="parameter 'y': the array has no memory"):
        flyc.compile(function, x, y, 3)(x, freed, 3)
    function(x, y, 3)
    assert y.tolist() == [3, 3, 3]


def test_a_tensor_without_elements_needs_no_memory():
    torch = pytest.importorskip("torch")
    function = flyc.jit(scale.__wrapped__)
    for _ in range(4):
        assert torch.ones(0).data_ptr() == 0
        function(torch.ones(0), torch.ones(0), 0)


def test_a_fake_tensor_is_refused():
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        x = pytest.importorskip("torch").ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about asking for the address
        with pytest.raises((DSLTypeError, RuntimeError), match="no memory|data pointer"):
            flyc.jit(scale.__wrapped__)(x, np.ones(3, np.float32), 3)
