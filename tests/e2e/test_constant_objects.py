"""Compile-time values of classes of the user's: served by the generated call while they are what they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


class Pair(NamedTuple):
    by: float
    plus: int
    more: tuple[int, ...] = ()

    def total(self) -> int:
        return self.plus + sum(self.more)


@dataclass(frozen=True)
class Frozen:
    by: float
    plus: int

    def total(self) -> int:
        return self.plus


class Loose:
    def __init__(self, by: float, plus: int):
        self.by, self.plus = by, plus

    def total(self) -> int:
        return self.plus


@flyc.kernel
def line_kernel(x: fx.Tensor, line: fx.Constexpr):
    i = fx.thread_idx.x
    x[i] = x[i] * line.by + line.total()


@flyc.jit
def along(x: fx.Tensor, line: fx.Constexpr):
    line_kernel(x, line).launch(grid=1, block=8)


def check(line: Any, by: float, plus: int) -> None:
    x = np.random.default_rng().standard_normal(8).astype(np.float32)
    y = x.copy()
    along(y, line)
    np.testing.assert_allclose(y, x.astype(np.float64) * by + plus, rtol=1e-5, atol=1e-5)


def warm(line: Any, by: float, plus: int) -> None:
    for _ in range(3):
        check(line, by, plus)


def no_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flyc.JitFunction, "bind", lambda *_: pytest.fail("not served by the generated call"))


@pytest.mark.parametrize("kind", [Pair, Frozen, Loose])
def test_the_same_object_is_served(kind: Any, monkeypatch: pytest.MonkeyPatch):
    line = kind(2.0, 3)
    warm(line, 2.0, 3)
    with monkeypatch.context() as patch:
        no_bind(patch)
        warm(line, 2.0, 3)
    check(kind(-1.0, 3), -1.0, 3)


def test_equal_named_tuples_are_served(monkeypatch: pytest.MonkeyPatch):
    warm(Pair(2.0, 4, (1, 2)), 2.0, 7)
    with monkeypatch.context() as patch:
        no_bind(patch)
        check(Pair(2.0, 4, (1, 2)), 2.0, 7)
        for other in (Pair(2.0, 5, (1, 2)), Pair(-0.0, 4, (1, 2)), Pair(2.0, 4, (1, True)), Pair(2.0, 4, ())):
            with pytest.raises(pytest.fail.Exception, match="not served"):
                along(np.zeros(8, np.float32), other)
    check(Pair(0.0, 4, (1, 2)), 0.0, 7)
    check(Pair(2.0, 4, (2, 2)), 2.0, 8)


def test_named_tuples_with_more_than_their_items_are_known_by_identity():
    class Noted(Pair):
        """Instances have attributes of their own."""

        def total(self) -> int:
            return self.plus + getattr(self, "note", 0)

    line, other = Noted(2.0, 3), Noted(2.0, 3)
    vars(other)["note"] = 10
    warm(line, 2.0, 3)
    warm(other, 2.0, 13)
    check(line, 2.0, 3)


@pytest.mark.parametrize("kind", [Pair, Frozen, Loose])
def test_a_class_that_changes_is_noticed(kind: Any, monkeypatch: pytest.MonkeyPatch):
    line = kind(3.0, 2)
    warm(line, 3.0, 2)
    monkeypatch.setattr(kind, "total", lambda self: self.plus * 100)
    warm(line, 3.0, 200)
    monkeypatch.undo()
    warm(line, 3.0, 2)


def test_an_object_that_changes_is_noticed():
    line, frozen = Loose(3.0, 2), Frozen(3.0, 2)
    for each in (line, frozen):
        warm(each, 3.0, 2)
        object.__setattr__(each, "plus", 5)
        warm(each, 3.0, 5)
        each.__dict__["by"] = 7.0
        warm(each, 7.0, 5)


def test_equal_tuples_are_served(monkeypatch: pytest.MonkeyPatch):
    @flyc.kernel
    def kernel(x: fx.Tensor, line: fx.Constexpr):
        x[fx.thread_idx.x] = x[fx.thread_idx.x] * line[0] + line[1]

    @flyc.jit
    def run(x: fx.Tensor, line: fx.Constexpr):
        kernel(x, line).launch(grid=1, block=8)

    x = np.ones(8, np.float32)
    for _ in range(3):
        run(x, tuple([1.0, 2]))
    with monkeypatch.context() as patch:
        no_bind(patch)
        run(x, tuple([1.0, 2]))
    run(x, tuple([2.0, 0]))
    np.testing.assert_array_equal(x, np.full(8, 18.0))
