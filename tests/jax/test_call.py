"""`flydsl.jax.call` on the host: inside jit, grad and vmap, several results, mistakes as exceptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
pytest.importorskip("jax.ffi", reason="this jax has no foreign function interface")
from flydsl.jax import call  # noqa: E402  after it is known that jax is there

jnp: Any = jax.numpy


@pytest.fixture(autouse=True)
def on_the_cpu_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")


@flyc.kernel
def scaled_kernel(x: fx.Tensor, w: fx.Tensor, y: fx.Tensor, z: fx.Tensor | None, a: fx.Float64):
    i, j = fx.block_idx.x, fx.thread_idx.x
    y[i, j] = x[i, j] * x[i, j] * w[j] * x.dtype(a)
    if z is not None:
        z[i, j] = x[i, j] + w[j]


@flyc.jit
def scaled(
    x: fx.Tensor, w: fx.Tensor, y: fx.Tensor, z: fx.Tensor | None, a: fx.Float64, stream: fx.Stream = fx.Stream(None)
):
    m, n = x.shape.unpack()
    scaled_kernel(x, w, y, z, a).launch(grid=m, block=n, stream=stream)


@flyc.kernel
def scaled_back_kernel(dy: fx.Tensor, x: fx.Tensor, w: fx.Tensor, dx: fx.Tensor, a: fx.Float64):
    i, j = fx.block_idx.x, fx.thread_idx.x
    dx[i, j] = dy[i, j] * x[i, j] * w[j] * x.dtype(a) * 2.0


@flyc.jit
def scaled_back(
    dy: fx.Tensor, x: fx.Tensor, w: fx.Tensor, a: fx.Float64, dx: fx.Tensor, stream: fx.Stream = fx.Stream(None)
):
    m, n = x.shape.unpack()
    scaled_back_kernel(dy, x, w, dx, a).launch(grid=m, block=n, stream=stream)


def arrays(rng: np.random.Generator, dtype: str = "float64") -> tuple[Any, Any]:
    return jnp.asarray(rng.standard_normal((3, 5)), dtype), jnp.asarray(rng.standard_normal(5), dtype)


def test_alone_and_compiled():
    rng = np.random.default_rng()
    for dtype in ("float64", "float32", "bfloat16"):
        x, w = arrays(rng, dtype)
        want = np.float64(x) ** 2 * np.float64(w) * 1.5

        def run(x: Any, w: Any) -> Any:
            return call(scaled, x, w, None, 1.5, results={"y": "x"})

        for got in (run(x, w), jax.jit(run)(x, w), jax.jit(lambda x, w: run(x + 0, w) * 1)(x, w)):
            assert got.dtype == x.dtype
            np.testing.assert_allclose(np.float64(got), want, rtol=2e-2 if dtype == "bfloat16" else 1e-6)


def test_several_results_and_shapes():
    x, w = arrays(np.random.default_rng())
    likes = {"y": lambda x, **_: x, "z": jax.ShapeDtypeStruct((3, 5), x.dtype)}
    y, z = jax.jit(lambda x, w: call(scaled, x, w, a=2.0, results=likes))(x, w)
    np.testing.assert_allclose(y, 2 * x * x * w)
    np.testing.assert_allclose(z, x + w)
    # Another value of an argument is another plan, not the one that was compiled.
    for a in (1.0, 3.0):
        np.testing.assert_allclose(call(scaled, x, w, None, a, results={"y": "x"}), a * x * x * w)


def test_gradients():
    x, w = arrays(np.random.default_rng())

    def by_jit(x: Any) -> Any:
        return call(scaled, x, w, None, 3.0, results={"y": "x"}, backward=scaled_back)

    def by_python(x: Any) -> Any:
        def back(values: Any, grads: Any) -> Any:
            return {"x": grads["y"] * values["x"] * values["w"] * 2 * values["a"]}

        return call(scaled, x, w, None, 3.0, results={"y": "x"}, backward=back)

    want = jax.grad(lambda x: (jnp.sin(3.0 * x * x * w)).sum())(x)
    for run in (by_jit, by_python):
        for transform in (lambda f: f, jax.jit):
            got = transform(jax.grad(lambda x, run=run: jnp.sin(run(x)).sum()))(x)
            np.testing.assert_allclose(got, want, rtol=1e-12)
    # An array that backward says nothing of has a gradient of zero.
    assert not jax.grad(lambda w: call(scaled, x, w, None, 3.0, results={"y": "x"}, backward=scaled_back).sum())(
        w
    ).any()


def test_vmap():
    x, w = arrays(np.random.default_rng())
    many = jnp.stack([x, x + 1])
    got = jax.jit(jax.vmap(lambda x: call(scaled, x, w, None, 1.0, results={"y": "x"})))(many)
    np.testing.assert_allclose(got, many * many * w)


def test_an_error_inside_reaches_the_caller():
    @flyc.jit
    def wrong(x: fx.Tensor, y: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        raise DSLValueError("this one fails while it is traced")

    with pytest.raises(Exception, match="this one fails while it is traced"):
        jax.block_until_ready(call(wrong, jnp.ones(3), results={"y": "x"}))


def test_mistakes():
    x, w = arrays(np.random.default_rng())
    with pytest.raises(DSLValueError, match="no tensor parameter 'q'; there are x, w, y"):
        call(scaled, x, w, None, 1.0, results={"q": "x"})
    with pytest.raises(DSLValueError, match="like 'v', which is no array argument"):
        call(scaled, x, w, None, 1.0, results={"y": "v"})
    with pytest.raises(DSLTypeError, match="'a' is missing"):
        call(scaled, x, w, None, results={"y": "x"})
    with pytest.raises(DSLTypeError, match="'x' is given twice"):
        call(scaled, x, w, None, 1.0, x=x, results={"y": "x"})
    with pytest.raises(DSLTypeError, match="'a' must be a value that is known .* got .1.0. of type list"):
        call(scaled, x, w, None, [1.0], results={"y": "x"})
    with pytest.raises(DSLValueError, match="say which tensors are written"):
        call(scaled, x, w, None, 1.0, results={})
    with pytest.raises(DSLTypeError, match="a jit function, got 3"):
        call(3, x, results={"y": "x"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(DSLValueError, match="backward writes none of dx, dw"):
        call(scaled, x, w, None, 1.0, results={"y": "x"}, backward=scaled)
    with pytest.raises(DSLTypeError, match=r"results=\{name: what it is like\}, got \['y'\]"):
        call(scaled, x, w, None, 1.0, results=["y"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DSLTypeError, match=r"result 'y' is to be like .* got \(3,\)"):
        call(scaled, x, w, None, 1.0, results={"y": lambda **_: (3,)})  # pyright: ignore[reportArgumentType]
    with pytest.raises(DSLTypeError, match="'x' has elements of complex64, which cannot be handed over"):
        call(scaled, x.astype("complex64"), w, None, 1.0, results={"y": "w"})
    with pytest.raises(DSLTypeError, match="backward gives {argument: its gradient}, got None"):
        jax.grad(lambda x: call(scaled, x, w, None, 1.0, results={"y": "x"}, backward=lambda *_: None).sum())(x)  # pyright: ignore[reportArgumentType]


@flyc.kernel
def told_kernel(y: fx.Tensor, kind: fx.Constexpr, a: fx.Float64):
    y[0] = fx.Float64(1.0) / a
    y[1] = 1.0 if isinstance(kind, bool) else 2.0 if isinstance(kind, int) else 3.0


@flyc.jit
def told(x: fx.Tensor, y: fx.Tensor, kind: fx.Constexpr, a: fx.Float64):
    told_kernel(y, kind, a).launch(grid=1, block=1)


def test_values_that_python_takes_for_the_same_are_other_calls():
    for kind, a, want in ((1, 0.0, [np.inf, 2]), (True, -0.0, [-np.inf, 1]), (1.0, 0.0, [np.inf, 3])):
        assert call(told, jnp.zeros(2), kind, a, results={"y": "x"}).tolist() == want


def test_arrays_without_dimensions():
    @flyc.kernel
    def double_kernel(x: fx.Tensor, y: fx.Tensor):
        y[0] = x[0] + x[0]

    @flyc.jit
    def double(x: fx.Tensor, y: fx.Tensor):
        double_kernel(x, y).launch(grid=1, block=1)

    for dtype in ("float32", "bfloat16"):
        assert call(double, jnp.asarray(3, dtype), results={"y": "x"}) == 6


@flyc.kernel
def gated_kernel(x: fx.Tensor, w: fx.Tensor | None, y: fx.Tensor):
    i = fx.block_idx.x
    value = x[i]
    if w is not None:
        value = value * w[i]
    y[i] = value


@flyc.jit
def gated(x: fx.Tensor, w: fx.Tensor | None, y: fx.Tensor):
    gated_kernel(x, w, y).launch(grid=x.shape.unpack()[0], block=1)


@flyc.jit
def gated_back(dy: fx.Tensor, x: fx.Tensor, w: fx.Tensor | None, dx: fx.Tensor, dw: fx.Tensor | None):
    gated_kernel(dy, w, dx).launch(grid=x.shape.unpack()[0], block=1)
    if dw is not None:
        gated_kernel(dy, x, dw).launch(grid=x.shape.unpack()[0], block=1)


def product(x: Any, w: Any) -> Any:
    return call(gated, x, w, results={"y": "x"}, backward=gated_back)


def test_an_argument_left_out_has_no_gradient():
    x, w = jnp.arange(4.0), jnp.arange(4.0) + 2
    dx, dw = jax.grad(lambda x, w: product(x, w).sum(), (0, 1))(x, w)
    assert dx.tolist() == w.tolist() and dw.tolist() == x.tolist()
    assert jax.grad(lambda x: product(x, None).sum())(x).tolist() == [1] * 4


def test_shards():
    """Results of shards differ, and gradients of what all shards share are summed."""
    spec = jax.sharding.PartitionSpec
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    x, w = jnp.arange(4.0), jnp.arange(4.0) + 2

    def sharded(x: Any, w: Any, out: Any = "d") -> Any:
        return jax.shard_map(product, mesh=mesh, in_specs=(spec("d"), spec()), out_specs=spec(out))(x, w)

    dx, dw = jax.grad(lambda x, w: sharded(x, w).sum(), (0, 1))(x, w)
    assert dx.tolist() == w.tolist() and dw.tolist() == x.tolist()
    with pytest.raises(ValueError, match="out_specs"):
        sharded(x, w, None)


def test_a_call_of_another_process_and_an_error_with_a_zero_in_it():
    theirs = jax.ffi.ffi_call("flydsl_call", jax.ShapeDtypeStruct((3,), np.float32))
    product(jnp.ones(2), None)
    with pytest.raises(Exception, match="theirs was traced in another process"):
        jax.block_until_ready(theirs(jnp.ones(3), plan="theirs:0:0"))

    @flyc.jit
    def wrong(x: fx.Tensor, y: fx.Tensor):
        raise DSLValueError("before \0 after")

    with pytest.raises(Exception, match="before .* after"):
        jax.block_until_ready(call(wrong, jnp.ones(3), results={"y": "x"}))
