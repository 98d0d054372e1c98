"""Values that are used outside the region that made them are refused at the line of the use."""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLRuntimeError

KEPT: list[Any] = []
TABLE: dict[str, Any] = {}
HOLDER = SimpleNamespace(value=0)


class Slot:
    value: Any = None

    def put(self, value: object) -> None:
        self.value = value


@pytest.fixture(autouse=True)
def nothing_kept():
    KEPT.clear()
    TABLE.clear()


def keep(where: list[Any], value: object) -> None:
    where[:] = [value]


def refused(kernel: Any, mark: str, words: str) -> None:
    """Compiling a kernel is refused, at the line of this file that ends with a comment."""

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=4)

    with pytest.raises(DSLRuntimeError, match=words) as caught:
        run(np.zeros(8, np.int32))
    lines = Path(__file__).read_text().split("\n")
    (line,) = [n for n, text in enumerate(lines, 1) if text.endswith(f"# {mark}")]
    note = "".join(caught.value.__notes__)
    assert f'test_escapes.py", line {line}\n' in note and "^" in note


def test_a_list_that_a_helper_changes():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        kept = [0]
        if x[1] > 2:
            keep(kept, x[1] + 1)
        x[0] = kept[0]  # helper

    refused(kernel, "helper", r"made inside the 'if' at line \d+ .*Give a variable its value")


def test_an_attribute_that_a_method_by_another_name_sets():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        slot = Slot()
        put = slot.put
        for i in range(x[1]):
            put(i + 1)
        x[0] = slot.value  # method

    refused(kernel, "method", "made inside the 'for'")


def test_setattr_in_a_while():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        n = x[0]
        slot = Slot()
        while n < 4:
            setattr(slot, "value", n * 3)  # noqa: B010
            n += 1
        x[0] = slot.value  # setattr

    refused(kernel, "setattr", "made inside the 'while'")


def test_a_closure():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        kept = []

        def put():
            kept.append(x[1] + 1)

        if x[1] > 2:
            put()
        x[0] = kept[0]  # closure

    refused(kernel, "closure", "made inside the 'if'")


def test_a_dict_that_is_no_variable_of_the_function():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        if x[1] > 2:
            TABLE["v"] = x[1] + 1
        else:
            TABLE["v"] = x[1]
        x[0] = TABLE["v"] * 2  # dict

    refused(kernel, "dict", "made inside the 'if'")


def test_the_first_use_is_named():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        if x[1] > 2:
            HOLDER.value = x[1] + 1
        x[2] = 5
        if x[2] > 1:
            x[0] = HOLDER.value * 2  # first
        x[1] = HOLDER.value

    refused(kernel, "first", "made inside the 'if'")


def test_a_value_of_the_host_in_a_kernel():
    @flyc.jit
    def run(x: fx.Tensor, n: fx.Int32):
        @flyc.kernel
        def kernel(x: fx.Tensor):
            x[0] = n

        kernel(x).launch(grid=1, block=4)

    with pytest.raises(DSLRuntimeError, match=r"a value of the function that launches.*pass it as an argument"):
        run(np.zeros(8, np.int32), 3)


def test_a_value_of_another_kernel():
    @flyc.kernel
    def first(x: fx.Tensor):
        KEPT.append(x[1] + 1)

    @flyc.kernel
    def second(x: fx.Tensor):
        x[0] = KEPT[0]

    @flyc.jit
    def run(x: fx.Tensor):
        first(x).launch(grid=1, block=4)
        second(x).launch(grid=1, block=4)

    with pytest.raises(DSLRuntimeError, match="a value of kernel 'first_0'"):
        run(np.zeros(8, np.int32))

    @flyc.kernel
    def third(x: fx.Tensor):
        x[0] = len(KEPT)

    @flyc.jit
    def again(x: fx.Tensor):
        third(x).launch(grid=1, block=4)

    # What is left of a trace in a global variable has no end to follow.
    x = np.zeros(8, np.int32)
    again(x)
    assert x[0] == 1


@functools.cache
def thread():
    return fx.thread_idx.x + 1


def test_a_value_that_was_remembered():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        x[thread()] = 1

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=4)

    run(np.zeros(8, np.int32))

    @flyc.kernel
    def another(x: fx.Tensor):
        x[thread()] = 2  # remembered

    refused(another, "remembered", "a value of (kernel 'kernel_0'|a function that was traced before)")


def test_what_stays_inside_is_nobodys_business():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        kept = [0]
        if x[1] > 2:
            keep(kept, x[1] + 1)
            for i in range(kept[0]):
                x[i] = kept[0] + i

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=1)

    x = np.full(8, 3, np.int32)
    run(x)
    assert list(x) == [4, 5, 6, 7, 3, 3, 3, 3]
