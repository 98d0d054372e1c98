"""What people bring from Python, numpy and torch works on values of a kernel, or says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError

A = np.arange(12, dtype=np.float32).reshape(3, 4)


def evaluate(function: Callable[..., object], *arguments: object) -> Any:
    return flyc.evaluate(function, *arguments)


# --- integer tuples of one integer are numbers ---------------------------------------------------------------------

OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a // b, lambda a, b: a % b,
    lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a == b,
    lambda a, b: a != b, lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: a << b,
    lambda a, b: a >> b, lambda a, b: -a + b, lambda a, b: divmod(a, b)[1] + ~b, lambda a, b: abs(a - b),
]  # fmt: skip


@pytest.mark.parametrize("known", [False, True])
def test_extents_are_numbers(known: bool):
    def every(t: Any, n: Any) -> tuple[object, ...]:
        m = fx.size(fx.make_shape(3, 1)) if known else t.shape[0]
        return tuple(
            fx.Int32(x) for op in OPERATORS for x in (op(m, n), op(n, m), op(m, 2), op(2, m), op(m, t.shape[1]))
        )

    expected = [int(x) for op in OPERATORS for x in (op(3, 2), op(2, 3), op(3, 2), op(2, 3), op(3, 4))]
    assert list(evaluate(every, A, 2)) == expected


def test_one_element_tuples_go_wherever_numbers_go():
    def uses(t: Any, v: Any) -> tuple[object, ...]:
        n = v.shape[0]
        total = fx.Float32(n) + fx.size(t)
        for i in range(n):
            total = total + v[i]
        return total, fx.ceildiv(n, 2), fx.max(n, 2), n.to(fx.Float32), v.shape < 9, fx.size(t) // 5

    assert evaluate(uses, A, np.ones(5, np.float32)) == (5 + 12 + 5, 3, 5, 5.0, True, 2)


def test_several_integers_are_no_number():
    with pytest.raises(DSLTypeError, match=r"\+ takes a number, and IntTuple<\(3,4\)> is several; take one"):
        _ = fx.make_shape(3, 4) + 1
    assert fx.make_shape(3, 4) == (3, 4) and fx.make_shape(3, 4) != (4, 3)
    assert [10, 20, 30, 40][fx.size((3, 1))] == 40


@flyc.kernel
def numbers_kernel(out: fx.Tensor, n: fx.Int32, by: fx.Float32, sign: fx.Boolean, last: fx.Int64):
    i = fx.thread_idx.x
    if i < n and sign:
        out[i] = by
    if fx.Int64(i) == last:
        out[i] = -1.0


@flyc.jit
def numbers(out: fx.Tensor):
    numbers_kernel(out, 3, 2, True, np.int64(7)).launch(grid=1, block=out.shape[0])
    numbers_kernel(out, out.shape[0] // 4, 7.5, True, out.shape[0]).launch(grid=1, block=out.shape)


def test_kernels_take_python_numbers():
    out = np.zeros(8, np.float32)
    numbers(out)
    assert out.tolist() == [7.5, 7.5, 2, 0, 0, 0, 0, -1]


# --- tensors --------------------------------------------------------------------------------------------------------


def test_tensors_have_what_arrays_have():
    assert evaluate(lambda t: (t.ndim, fx.Int32(t.numel()), t.T[3, 2], t[1, :][2]), A) == (2, 12, 11.0, 6.0)
    out = np.zeros(4, np.float32)
    rows(flyc.from_dlpack(A), out)
    assert out.tolist() == [6.0, 22.0, 38.0, 3.0]


@flyc.kernel
def rows_kernel(t: fx.Tensor, out: fx.Tensor):
    for i, row in enumerate(t):
        out[i] = sum(row)
    out[3] = float(len(t))


@flyc.jit
def rows(t: fx.Tensor, out: fx.Tensor):
    rows_kernel(t, out).launch(grid=1, block=1)


@pytest.mark.parametrize(
    ("use", "message"), [(len, r"write x\.shape\[0\]"), (list, r"for i in range\(x\.shape\[0\]\)")]
)
def test_what_needs_extents_while_tracing_says_so(use: Callable[[Any], object], message: str):
    with pytest.raises(DSLTypeError, match=message):
        evaluate(use, A)


# --- functions ------------------------------------------------------------------------------------------------------

UFUNCS = ["sqrt", "exp", "log", "sin", "tanh", "floor", "rint", "absolute", "negative", "square", "arctan", "log1p"]


def test_functions_of_numpy():
    def every(x: Any, y: Any) -> tuple[object, ...]:
        ones = [getattr(np, name)(x) for name in UFUNCS]
        return *ones, np.maximum(x, y), np.minimum(x, 1), np.power(x, 2), np.float32(3) * x, np.add(1, x), 2 - x

    found = evaluate(every, 0.625, 2.5)
    expected = [*(float(getattr(np, name)(0.625)) for name in UFUNCS), 2.5, 0.625, 0.625**2, 1.875, 1.625, 1.375]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_array_of_numbers_times_a_value_is_an_array_of_values():
    found = evaluate(lambda x: list(np.array([1.0, 2.0, 4.0]) * x + np.float32(1)), 3.0)
    assert list(found) == [4.0, 7.0, 13.0]


def test_functions_of_numpy_that_do_not_exist_here():
    with pytest.raises(DSLTypeError, match=r"np\.spacing does not take values of a kernel"):
        evaluate(np.spacing, 1.5)


@flyc.kernel
def builtins_kernel(x: fx.Tensor, out: fx.Tensor):
    i = fx.thread_idx.x
    values = [x[k] for k in range(3)]
    out[0] = max(x[i], 2.0, x[1])
    out[1] = min(values)
    out[2] = sum(values) + abs(x[0] - 9.0)
    out[3] = 1.0 if any(v > 2.0 for v in values) and all([x[0] < 5.0, True]) else 0.0
    out[4] = max(3, 4) + min([5, 6]) + max((1, 2), default=3)


@flyc.jit
def builtins_of_python(x: fx.Tensor, out: fx.Tensor):
    builtins_kernel(x, out).launch(grid=1, block=1)


def test_functions_of_python():
    x, out = np.array([1.0, 4.0, 2.5], np.float32), np.zeros(5, np.float32)
    builtins_of_python(x, out)
    assert out.tolist() == [4.0, 1.0, 15.5, 1.0, 11.0]


def test_module_level_names_of_the_library():
    reduce = fx.coop.BlockReduce[fx.Int32, 64]

    def total() -> object:
        scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
        return reduce(fx.thread_idx.x, fx.ReductionOp.ADD, storage=scratch)

    assert set(flyc.evaluate(total, threads=64)) == {2016}
