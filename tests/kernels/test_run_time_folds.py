"""What is folded while tracing is what the machine computes: every operator and pair of classes, value and type."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

INTEGERS = [fx.Int8, fx.Int16, fx.Int32, fx.Int64, fx.Uint8, fx.Uint16, fx.Uint32, fx.Uint64]
FLOATS = [fx.Float16, fx.BFloat16, fx.Float32, fx.Float64]
CLASSES = [fx.Boolean, *INTEGERS, *FLOATS]
ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "le", "gt", "ge", "eq", "ne"]
BITWISE = ["and_", "or_", "xor"]


def operators(a, b) -> list[str]:
    return [*ARITHMETIC, *BITWISE] if a.is_integer and b.is_integer else ARITHMETIC


def draw(cls, rng: np.random.Generator):
    """A value of a class: small ones, extreme ones; divisors are not zero."""
    if cls is fx.Boolean:
        return True
    if cls is fx.BFloat16:
        return float(rng.integers(1, 64)) / 8
    if cls.is_float:
        return float(cls.numpy_dtype.type(rng.standard_normal() * 8))
    low = -(1 << (cls.width - 1)) if cls.signed else 0
    high = (1 << (cls.width - 1 if cls.signed else cls.width)) - 1
    anything = int(rng.integers(low, high, dtype=np.int64 if low else np.uint64))
    return [int(rng.integers(1, 100)), low + 1, high, anything][rng.integers(4)] or 3


def plain(number):
    """A compile-time number as Python's, as `evaluate` gives run-time ones."""
    if isinstance(number, fx.Boolean):
        return bool(number)
    return number.to(float) if number.is_float else int(number)


@pytest.mark.parametrize("a", CLASSES, ids=str)
def test_operators(a, rng):
    for b in CLASSES:
        pairs = [(draw(a, rng), draw(b, rng)) for _ in range(1)]
        for x, y in pairs:
            static: dict[str, object] = {}
            for name in operators(a, b):
                try:
                    static[name] = getattr(operator, name)(a(x), b(y))
                except (ZeroDivisionError, OverflowError):  # told at compile time, undefined at run time
                    continue
            classes: list[object] = []

            def results(u, v, names=tuple(static), classes=classes):
                found = [getattr(operator, name)(u, v) for name in names]
                classes[:] = [type(f) for f in found]
                return found

            got = flyc.evaluate(lambda u, v, results=results: results(u, v), a(x), b(y))
            for (name, wanted), value, cls in zip(static.items(), got, classes, strict=True):
                say = f"{a}({x}) {name} {b}({y})"
                assert cls is type(wanted), say
                expected = plain(wanted)
                if isinstance(expected, float) and math.isnan(expected):
                    assert math.isnan(value), say
                else:
                    assert value == expected, say


@pytest.mark.parametrize("source", CLASSES, ids=str)
def test_casts(source, rng):
    for target in CLASSES:
        x = draw(source, rng)
        if source.is_float and target.is_integer:
            x = abs(x) % 100 if not target.signed else math.fmod(x, 100)
        static = source(x).to(target)
        got = flyc.evaluate(lambda v, target=target: v.to(target), source(x))
        expected = plain(static)
        if target.is_float and target.numpy_dtype is not None:
            with np.errstate(over="ignore"):
                expected = float(target.numpy_dtype.type(expected))
        if target is fx.BFloat16:
            assert got == pytest.approx(expected, rel=2.0**-8)
        else:
            assert got == expected, f"{source}({x}) to {target}"


@pytest.mark.parametrize("cls", INTEGERS, ids=str)
def test_shifts_and_unary(cls, rng):
    x = draw(cls, rng)
    shifts = range(cls.width)
    left = flyc.evaluate(lambda v: [v << cls(s) for s in shifts], cls(x))
    right = flyc.evaluate(lambda v: [v >> cls(s) for s in shifts], cls(x))
    assert left == [int(cls(x) << cls(s)) for s in shifts]
    assert right == [int(cls(x) >> cls(s)) for s in shifts]
    assert flyc.evaluate(lambda v: (-v, ~v, abs(v)), cls(x)) == (int(-cls(x)), int(~cls(x)), int(abs(cls(x))))


def test_every_pair_of_classes_is_here():
    assert len(list(itertools.product(CLASSES, CLASSES))) == 169
