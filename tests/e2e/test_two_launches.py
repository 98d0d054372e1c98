"""Launches of one kernel in one jit function: one device function where nothing it reads has changed, else another."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.meta import tracing_context, tracing_option

N = 1
COUNT = itertools.count(1)


class Held:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held)

    def __hash__(self) -> int:
        return 1


def helper() -> int:
    return 1


@flyc.kernel
def of_global(x: fx.Tensor, i: fx.Int32):
    x[i] = N


@flyc.kernel
def of_helper(x: fx.Tensor, i: fx.Int32):
    x[i] = helper()


@flyc.kernel
def of_count(x: fx.Tensor, i: fx.Int32):
    x[i] = next(COUNT)


@flyc.kernel
def of_variable(x: fx.Tensor, i: fx.Int32):
    x[i] = int(os.environ["TWO_LAUNCHES"])


@flyc.kernel
def of_option(x: fx.Tensor, i: fx.Int32):
    x[i] = tracing_option("number", 1)


@flyc.kernel
def of_object(x: fx.Tensor, i: fx.Int32, held: fx.Constexpr):
    x[i] = held.n


@flyc.kernel
def of_type(x: fx.Tensor, i: fx.Int32, number: fx.Constexpr):
    x[i] = len(type(number).__name__)


def change_global() -> None:
    global N
    N = 2


def change_helper() -> None:
    global helper
    helper = lambda: 2  # noqa: E731


def change_variable() -> None:
    os.environ["TWO_LAUNCHES"] = "2"


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        (of_global, change_global),
        (of_helper, change_helper),
        (of_variable, change_variable),
        (of_count, lambda: None),
    ],
)
def test_what_changes_between_two_launches_counts(kernel, change, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TWO_LAUNCHES", "1")
    monkeypatch.setenv("FLYDSL_COMPILE_GLOBALS", "recompile")

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x, 0).launch(grid=1, block=1)
        change()
        kernel(x, 1).launch(grid=1, block=1)

    x = np.zeros(2, np.int32)
    run(x)
    assert x.tolist() == [1, 2]


def test_constants_that_are_called_equal_are_told_apart():
    @flyc.jit
    def run(x: fx.Tensor):
        held, other = Held(1), Held(2)
        of_object(x, 0, held).launch(grid=1, block=1)
        of_object(x, 1, other).launch(grid=1, block=1)
        held.n = 3
        of_object(x, 2, held).launch(grid=1, block=1)
        for i, number in enumerate((1, True, 1.0)):
            of_type(x, 3 + i, number).launch(grid=1, block=1)

    x = np.zeros(6, np.int32)
    run(x)
    assert x.tolist() == [1, 2, 3, len("int"), len("bool"), len("float")]


def test_what_is_around_a_launch_counts():
    @flyc.kernel
    def sums(x: fx.Tensor, y: fx.Tensor, i: fx.Int32):
        y[i] = (x[0] + x[1]) - x[1]

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        sums(x, y, 0).launch(grid=1, block=1)
        of_option(z, 0).launch(grid=1, block=1)
        with tracing_context(number=2), fx.fastmath("fast"):
            sums(x, y, 1).launch(grid=1, block=1)
            of_option(z, 1).launch(grid=1, block=1)

    y, z = np.zeros(2, np.float32), np.zeros(2, np.int32)
    run(np.array([1.0, 2.0**30], np.float32), y, z)
    assert y.tolist() == [0.0, 1.0] and z.tolist() == [1, 2]


def test_a_variable_around_an_inner_kernel_counts():
    @flyc.jit
    def run(x: fx.Tensor):
        n = 1

        @flyc.kernel
        def inner(x: fx.Tensor, i: fx.Int32):
            x[i] = n

        inner(x, 0).launch(grid=1, block=1)
        n = 2
        inner(x, 1).launch(grid=1, block=1)

    x = np.zeros(2, np.int32)
    run(x)
    assert x.tolist() == [1, 2]


def test_equal_functions_are_emitted_once():
    """Also where each launch is traced, as those with an object of the user are."""

    @flyc.jit
    def run(x: fx.Tensor):
        for i in fx.range_constexpr(3):
            of_object(x, i, Held(1)).launch(grid=1, block=1)
            of_type(x, i, 5).launch(grid=1, block=1)

    text = flyc.compile(run, np.zeros(3, np.int32)).artifact.text("fly")
    assert text.count("gpu.func @") == 2 and text.count("gpu.launch_func") == 6
