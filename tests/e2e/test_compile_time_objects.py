"""Objects and classes that shape code are part of its key: another one, or a changed one, means other code."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def store_kernel(x: fx.Tensor, n: fx.Constexpr[int]):
    x[fx.thread_idx.x] = n


class Settings:
    def __init__(self, n: int):
        self.n = n


@dataclass(slots=True)
class Slots:
    n: int


class Holder:
    def __init__(self, held: Any):
        self.held = held
        self.me = self
        self.unused: list[int] = []

    @flyc.jit
    def store(self, x: fx.Tensor):
        store_kernel(x, value_of(self.me.held)).launch(grid=1, block=4)


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any):
        self.held = held

    @flyc.jit
    def store(self, x: fx.Tensor):
        store_kernel(x, value_of(self.held)).launch(grid=1, block=4)


def value_of(held: Any) -> int:
    return held[0] if isinstance(held, (tuple, list)) else held["n"] if isinstance(held, dict) else held.n


def stored(function: Any, *args: Any) -> int:
    x = np.zeros(4, np.int32)
    function(x, *args)
    assert (x == x[0]).all()
    return int(x[0])


def named(n: int) -> type:
    return type("Named", (), {"n": n, "__module__": __name__})


@pytest.mark.parametrize("owner", [Holder, Slotted])
@pytest.mark.parametrize("make", [lambda n: (n,), lambda n: [n], lambda n: {"n": n}, Settings, Slots, named])
def test_what_the_object_of_a_method_holds(owner: Any, make: Any):
    assert [stored(owner(make(n)).store) for n in (1, 2, 1)] == [1, 2, 1]
    held = make(3)
    one = owner(held)
    assert stored(one.store) == 3
    one.held = make(4)
    assert stored(one.store) == 4


def test_what_a_method_does_not_read_compiles_nothing_again():
    one = Holder((5,))
    assert stored(one.store) == 5
    before = one.store.cache_info().misses
    one.unused.append(1)
    assert stored(one.store) == 5 and one.store.cache_info().misses == before


@flyc.jit
def store_of_class(x: fx.Tensor, cls: type):
    store_kernel(x, cls.n).launch(grid=1, block=4)


@flyc.jit
def store_of_constant(x: fx.Tensor, what: fx.Constexpr):
    store_kernel(x, (what[0] if isinstance(what, tuple) else what).n).launch(grid=1, block=4)


@pytest.mark.parametrize("function", [store_of_class, store_of_constant])
def test_classes_of_one_name(function: Any):
    assert [stored(function, named(n)) for n in (1, 2, 2, 1)] == [1, 2, 2, 1]
    changing: Any = named(6)
    assert [stored(function, changing), stored(function, changing)] == [6, 6]
    changing.n = 7
    assert stored(function, changing) == 7


def test_classes_inside_a_constant():
    assert [stored(store_of_constant, (named(n),)) for n in (8, 9)] == [8, 9]


def test_hints_given_to_a_function_count_from_then_on():
    scale = flyc.jit(halve.__wrapped__)
    x = np.ones(4, np.float32)
    scale(x)
    scale(x)
    assert flyc.compile[{"fast_fp_math": True}](scale) is scale
    before = scale.cache_info().misses
    scale(x)
    assert scale.cache_info().misses == before + 1


@flyc.kernel
def halve_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = x[fx.thread_idx.x] / 2.0


@flyc.jit
def halve(x: fx.Tensor):
    halve_kernel(x).launch(grid=1, block=4)


SCRIPT = """
from dataclasses import dataclass
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx

@dataclass
class Sum:
    value: object

    def add(self, x):
        self.value = self.value + x

@flyc.kernel
def sum_kernel(x: fx.Tensor):
    total = Sum(fx.Int32(0))
    for i in fx.range_constexpr(4):
        total.add(x[i])
    x[0] = total.value

@flyc.jit
def sum_up(x: fx.Tensor):
    sum_kernel(x).launch(grid=1, block=1)

x = np.arange(1, 5, dtype=np.int32)
sum_up(x)
print(x[0])
"""


def test_a_dataclass_of_a_script(tmp_path):
    """Methods of dataclasses come from the standard library, but name the script as their module."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr


def test_objects_that_answer_to_any_name():
    """Protocols are looked for on classes: an object with `__getattr__`, or with a method of that name, has none."""

    class Anything:
        def __getattr__(self, name: str) -> int:
            return 7

    class Builder:
        def construct(self) -> int:
            return 8

    @flyc.kernel
    def kernel(x: fx.Tensor, a: fx.Constexpr, b: fx.Constexpr):
        x[0] = a.tile
        x[1] = b.construct()

    @flyc.jit
    def run(x: fx.Tensor, a: fx.Constexpr, b: fx.Constexpr):
        kernel(x, a, b).launch(grid=1, block=1)

    x = np.zeros(2, "i4")
    run(x, Anything(), Builder())
    assert x.tolist() == [7, 8]


class Named(NamedTuple):
    n: int = 7

    def more(self) -> int:
        return self.n + 1


class Pair(tuple[int, int]):
    n = 7


def test_repeated_calls_look_at_classes_of_tuples(monkeypatch: pytest.MonkeyPatch):
    @flyc.kernel
    def kernel(x: fx.Tensor, a: fx.Constexpr, b: fx.Constexpr):
        x[0] = a.more()
        x[1] = b.n

    @flyc.jit
    def run(x: fx.Tensor, a: fx.Constexpr, b: fx.Constexpr):
        kernel(x, a, b).launch(grid=1, block=1)

    named, pair, x = Named(), Pair((1, 2)), np.zeros(2, "i4")

    def found() -> list[int]:
        for _ in range(3):
            run(x, named, pair)
        return x.tolist()

    monkeypatch.setenv("FLYDSL_COMPILE_GLOBALS", "recompile")
    assert found() == [8, 7]
    monkeypatch.setattr(Named, "more", lambda self: 91)
    assert found() == [91, 7]
    monkeypatch.setattr(Pair, "n", 33)
    assert found() == [91, 33]
