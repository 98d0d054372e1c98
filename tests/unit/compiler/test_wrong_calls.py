"""Calls of decorated functions that do not fit: the parameter is named, and nothing is taken for something else."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLOverflowError, DSLRuntimeError, DSLTypeError, FlyDSLWarning


@flyc.kernel
def fill_kernel(x: fx.Tensor, value: float, on: bool):
    i = fx.thread_idx.x
    if on:
        x[i] = value


@flyc.jit
def fill(x: fx.Tensor, size: int, value: float, on: bool = True):
    fill_kernel(x, value, on).launch(grid=1, block=size)
    fill_kernel(x, 2, i_am_on()).launch(grid=1, block=1)


def i_am_on() -> bool:
    return True


X = np.zeros(4, np.float32)


def call(*args: Any, **kwargs: Any) -> Any:
    function: Any = fill
    return function(*args, **kwargs)


def test_classes_of_python_are_annotations():
    x = np.zeros(4, np.float32)
    call(x, 3, 7)  # a whole number for a float
    assert x.tolist() == [2, 7, 7, 0]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((3, 4, 1.0), {}, r"parameter 'x' expects an array \(fx.Tensor\), got 3 of type int$"),
        (([1.0], 4, 1.0), {}, r"parameter 'x' expects an array .* as with numpy.asarray\(...\)"),
        ((np.array([None]), 4, 1.0), {}, r"parameter 'x': an array of Python objects .*\.astype\('float32'\)"),
        ((X.astype(complex), 4, 1.0), {}, r"parameter 'x': unsupported dtype complex128; convert it to one of bool"),
        ((X, 2.5, 1.0), {}, "parameter 'size': an Int32 argument takes an integer, got 2.5"),
        ((X, 4, X), {}, "parameter 'value' expects Float32, got array"),
        ((X, 4), {}, r"^fill\(x: fx.Tensor, size: fx.Int32, .*\): missing a required argument: 'value'"),
        ((X,), {"sise": 4, "value": 1.0}, r"got an unexpected keyword argument 'sise'; did you mean size=\?"),
        ((X, 4, 1.0), {"zzz": 4}, "got an unexpected keyword argument 'zzz'$"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(args: Any, kwargs: Any, message: str):
    with pytest.raises(DSLTypeError, match=message):
        call(*args, **kwargs)


def test_a_number_that_does_not_fit_names_its_parameter():
    with pytest.raises(DSLOverflowError, match="parameter 'size': 2147483648 does not fit Int32"):
        call(X, 2**31, 1.0)


def test_a_module_is_no_annotation():
    module: Any = fx.tensor  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert isinstance(module, types.ModuleType)

    @flyc.jit
    def lower(x: module):  # pyright: ignore[reportInvalidTypeForm]
        fill_kernel(x, 1.0, True).launch(grid=1, block=1)

    with pytest.raises(DSLTypeError, match=r"annotated with the module flydsl.expr.tensor.* did you mean fx.Tensor\?"):
        lower(X)


@pytest.mark.parametrize("function", [fill, fill_kernel])
def test_square_brackets_are_explained(function: Any):
    with pytest.raises(DSLTypeError, match=r"takes no \[...\].*launch\(grid=..., block=...\)"):
        function[(1,)]


@flyc.kernel
def gives_kernel(x: fx.Tensor):
    return x[0]


@flyc.jit
def gives(x: fx.Tensor):
    gives_kernel(x).launch(grid=1, block=1)
    return x.shape[0] + 1


def test_results_that_nobody_gets_are_told():
    with pytest.warns(FlyDSLWarning, match="returns a value, which its caller does not get") as told:
        flyc.compile(gives, flyc.TensorSpec((4,), "float32"), target="rocm:gfx942")
    assert {w.filename for w in told} == {__file__}
    assert [str(w.message).split("'")[1] for w in told] == ["gives_kernel", "gives"]


@flyc.jit
def touches(x: fx.Tensor):
    x[0] = 5.0


def test_host_code_does_not_touch_the_memory_of_a_gpu():
    with pytest.raises(
        DSLRuntimeError, match="cannot read or write the memory of the GPU; move the line into a @flyc"
    ) as e:
        flyc.compile(touches, flyc.TensorSpec((4,), "float32"), target="cuda:sm_90a")
    assert any("x[0] = 5.0" in note for note in e.value.__notes__)
    x = np.zeros(4, np.float32)
    touches(x)  # the cpu stack has one memory
    assert x[0] == 5.0
