# pyright: reportPossiblyUnboundVariable=false
"""Conditions that are known while tracing keep Python's meaning, whatever they are made of."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError

WIDTH = 32


def wide() -> bool:
    return WIDTH > 16


@flyc.kernel
def choose_kernel(out: fx.Tensor, width: fx.Constexpr[int], name: fx.Constexpr[str]):
    i = fx.thread_idx.x
    if width == 32:
        n = 1
    else:
        n = 2
    if WIDTH == 32:
        from_global = 10
    if wide():
        from_function, scale = 100, 1000
    elif width == 3:
        from_function = scale = 0
    if name == "double" and width > 8:

        def finish(value: fx.Int32) -> fx.Int32:
            return value * 2
    else:

        def finish(value: fx.Int32) -> fx.Int32:
            return value

    if width == 3:
        total = n
        if i > 4:
            total = total + 1
        n = total
    out[i] = finish(fx.Int32(n + from_global + from_function + scale))


@flyc.jit
def choose(out: fx.Tensor, width: fx.Constexpr[int], name: fx.Constexpr[str]):
    choose_kernel(out, width, name).launch(grid=1, block=8)


@pytest.mark.parametrize(
    ("width", "name", "expected"),
    [(32, "double", [2222] * 8), (32, "", [1111] * 8), (3, "double", [1112] * 5 + [1113] * 3)],
)
def test_names_bound_on_the_side_taken_live_on(width: int, name: str, expected: list[int]):
    out = np.zeros(8, np.int32)
    choose(out, width, name)
    assert out.tolist() == expected


@flyc.kernel
def steps_kernel(out: fx.Tensor, steps: fx.Constexpr[int]):
    i = fx.thread_idx.x
    for k in fx.range_constexpr(steps):
        if k == 0:
            total = i
        elif k % 2 == 0:
            total = total + k
        else:
            if k > 1:
                seen = total
                total = seen * 2
        if k == steps - 1:
            out[i] = total


@flyc.jit
def steps_of(out: fx.Tensor, steps: fx.Constexpr[int]):
    steps_kernel(out, steps).launch(grid=1, block=8)


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_an_unrolled_loop_carries_them_from_step_to_step(steps: int):
    out = np.zeros(8, np.int32)
    steps_of(out, steps)
    expected = np.arange(8)
    for k in range(1, steps):
        expected = expected + k if k % 2 == 0 else expected * 2 if k > 1 else expected
    assert out.tolist() == expected.tolist()


@flyc.kernel
def reuse_kernel(out: fx.Tensor, first: fx.Constexpr[bool]):
    i = fx.thread_idx.x
    if first:
        t = 1.5
        out[i] = t
    if i < 4:
        t = i + 1  # another thing under the same name, and nobody asks for the first one
        out[i] = fx.Float32(t)
    for k in range(2):
        t = (i, k)
        out[i] = out[i] + fx.Float32(t[1])


@flyc.jit
def reuse(out: fx.Tensor, first: fx.Constexpr[bool]):
    reuse_kernel(out, first).launch(grid=1, block=8)


@pytest.mark.parametrize("first", [True, False])
def test_a_name_may_become_something_else_in_a_region(first: bool):
    out = np.zeros(8, np.float32)
    reuse(out, first)
    assert out.tolist() == [2, 3, 4, 5] + [1.5 + 1 if first else 1] * 4


@flyc.kernel
def read_late_kernel(out: fx.Tensor):
    i = fx.thread_idx.x
    if wide():
        t = 1.5
    if i < 4:
        t = i
    out[i] = t


@flyc.jit
def read_late(out: fx.Tensor):
    read_late_kernel(out).launch(grid=1, block=8)


def test_but_then_it_cannot_be_read():
    with pytest.raises(UnboundLocalError, match=r"'t' .*it was Float32 \(f32\) and became Int32 \(i32\)"):
        read_late(np.zeros(8, np.float32))


@flyc.kernel
def looped_kernel(out: fx.Tensor):
    i = fx.thread_idx.x
    if wide():
        t = 1
    for _ in range(3):
        t = t + 0.5
    out[i] = 1.0


@flyc.jit
def looped(out: fx.Tensor):
    looped_kernel(out).launch(grid=1, block=8)


def test_a_loop_that_reads_it_says_what_changed():
    with pytest.raises(DSLTypeError, match=r"variable 't' .*it was Int32 \(i32\) and became Float32"):
        looped(np.zeros(8, np.float32))
