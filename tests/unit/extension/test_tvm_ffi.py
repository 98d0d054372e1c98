"""Jit functions as functions of tvm_ffi, and its functions for arrays of numpy and torch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import errors
from flydsl.errors import DSLCompileError, DSLTypeError, DSLValueError, LaunchError, MissingPackageError
from flydsl.extension.tvm_ffi import export_function, import_function

tvm_ffi: Any = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def on_the_cpu_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, a: fx.Float32):
    i = fx.block_idx.x
    out[i] = x[i] * a + y[i]


@flyc.jit
def axpy(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, a: fx.Float32, stream: fx.Stream = fx.Stream(None)):
    axpy_kernel(x, y, out, a).launch(grid=x.shape.unpack()[0], block=1, stream=stream)


def fresh() -> str:
    return f"flydsl_tests.f{next(_numbers)}"


def test_exported_functions_take_tensors_of_all_kinds():
    name = fresh()
    made = export_function(axpy, name)
    found = tvm_ffi.get_global_func(name)
    for function in (made, found):
        x, y, out = np.arange(5, dtype="f4"), np.ones(5, "f4"), np.full(5, np.nan, "f4")
        function(x, y, out, 2.0)
        np.testing.assert_array_equal(out, 2 * x + 1)
        u, v, w = torch.arange(7.0), torch.ones(7), torch.full((7,), float("nan"))
        function(u, v, w, 3)
        assert torch.equal(w, 3 * u + 1)
        t = tvm_ffi.from_dlpack(np.zeros(5, "f4"))
        function(x, y, t, 0.5)
        np.testing.assert_array_equal(np.from_dlpack(t), 0.5 * x + 1)


def test_a_compiled_function_for_one_signature():
    x, out = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    made = export_function(flyc.compile(axpy, x, x, out, 1.0))
    made(x, x, out, 1.0)
    np.testing.assert_array_equal(out, 2 * x)
    with pytest.raises(Exception, match="another signature"):
        made(x.astype("f8"), x, out, 1.0)


def test_imported_functions_give_arrays_of_the_caller():
    name = fresh()

    def double(x: Any) -> Any:
        return tvm_ffi.from_dlpack(np.multiply(np.from_dlpack(x), 2))

    tvm_ffi.register_global_func(name, double)
    run = import_function(name)
    assert np.array_equal(np.asarray(run(np.arange(3.0))), [0, 2, 4])
    got = run(torch.arange(3.0))
    assert isinstance(got, torch.Tensor) and got.tolist() == [0, 2, 4]
    assert import_function(tvm_ffi.convert(lambda x: x + 1))(3) == 4
    # There and back: an exported function imported again.
    out = np.zeros(3, "f4")
    import_function(export_function(axpy))(np.ones(3, "f4"), np.ones(3, "f4"), out, 4.0)
    assert out.tolist() == [5, 5, 5]


def test_mistakes():
    name = fresh()
    made = export_function(axpy, name)
    with pytest.raises(DSLValueError, match="there is a function .* already; override=True"):
        export_function(axpy, name)
    export_function(axpy, name, override=True)
    with pytest.raises(DSLTypeError, match="a jit function or a compiled one, got 3"):
        export_function(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DSLValueError, match="has no function 'flydsl_tests.none'"):
        import_function("flydsl_tests.none")
    with pytest.raises(DSLTypeError, match="a name or a function of tvm_ffi"):
        import_function(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(Exception, match="takes x, y, out, a, got 5 arguments"):
        made(1, 2, 3, 4, 5)
    with pytest.raises(DSLTypeError, match="the name to register is a string, got 5"):
        export_function(axpy, 5)  # pyright: ignore[reportArgumentType]


def test_our_exceptions_keep_their_class():
    made = export_function(axpy)
    with pytest.raises(DSLTypeError, match="missing a required argument: 'x'"):
        made()

    @flyc.jit
    def wrong(x: fx.Tensor, name: fx.Constexpr[str]):
        if name == "MissingPackageError":
            raise MissingPackageError("tvm_ffi", "some_package", "extra")
        raise getattr(errors, name)("this one fails")

    for error in (DSLValueError, DSLCompileError, LaunchError):
        with pytest.raises(error, match="^this one fails$"):
            export_function(wrong)(np.zeros(2, "f4"), error.__name__)
    # One that is not made of its text alone.
    with pytest.raises(RuntimeError, match="tvm_ffi need the package some_package"):
        export_function(wrong)(np.zeros(2, "f4"), "MissingPackageError")


def test_results_are_of_the_library_of_derived_arrays_too():
    class Named(np.ndarray):
        pass

    run = import_function(tvm_ffi.convert(lambda x: x))
    assert isinstance(run(np.arange(3.0).view(Named)), np.ndarray)
    jax: Any = pytest.importorskip("jax", reason="jax is not installed")
    got = run(jax.numpy.arange(3))
    assert isinstance(got, jax.Array) and got.tolist() == [0, 1, 2]
