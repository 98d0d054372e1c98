"""What is computed at compile time is what machines compute: integers of few bits all of them, floats against numpy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.unit.passes.arithmetic import BINARY, PREDICATES, binary, compare, wrap

from flydsl.ir.fold import (
    FLOAT_FOLDS,
    FORMATS,
    check_range,
    float_bits,
    float_from_bits,
    fold_cmpf,
    fold_cmpi,
    fold_float,
    fold_int,
    fold_ipow,
    round_float,
    signed,
)

BITS = (1, 2, 4)
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -3.0,
    0.5,
    309.0,
    1e300,
    -1e300,
    1e-310,
    math.inf,
    -math.inf,
    math.nan,
    7.25,
    -10.0,
)
ORACLE: dict[str, Callable[..., Any]] = {
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "remf": np.fmod, "powf": np.power,
    "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_integers(name: str):
    for bits in BITS:
        for a, b in itertools.product(range(-(1 << bits - 1), 1 << bits - 1), repeat=2):
            # The builder keeps a flag as 0 or 1, all others as signed numbers.
            made = fold_int(name, signed(a, bits), signed(b, bits), bits)
            expected = binary(name, a, b, bits)
            if expected is not None:
                assert made is not None and wrap(made, bits) == expected, (name, a, b, bits)
            elif "sh" in name or b == 0:
                assert made is None


@pytest.mark.parametrize("predicate", PREDICATES)
def test_comparisons(predicate: str):
    for bits in BITS:
        for a, b in itertools.product(range(-(1 << bits - 1), 1 << bits - 1), repeat=2):
            made = fold_cmpi(predicate, signed(a, bits), signed(b, bits), bits)
            assert made == bool(compare(predicate, a, b, bits)), (a, b, bits)


def test_powers_of_integers():
    for base, exponent in itertools.product(range(-4, 5), range(9)):
        made = fold_ipow(base, exponent, 32)
        assert made is not None and wrap(made, 32) == base**exponent


@pytest.mark.parametrize("fmt", ["f64", "f32", "f16"])
@pytest.mark.parametrize("name", FLOAT_FOLDS)
def test_floats(name: str, fmt: str):
    kind = {"f64": np.float64, "f32": np.float32, "f16": np.float16}[fmt]
    oracle = ORACLE[name]
    with np.errstate(all="ignore"):
        for a, b in itertools.product(SPECIAL, repeat=2):
            x, y = kind(a), kind(b)
            made, expected = kind(fold_float(name, a, b, fmt)), kind(oracle(x, y))
            if name == "powf" and b == 0.5:
                continue  # numpy takes a square root, which differs for -inf
            if np.isnan(expected):
                assert np.isnan(made), (a, b)
            elif name == "powf" and np.isfinite(expected):
                assert np.isclose(float(made), float(expected), rtol=1e-2 if fmt == "f16" else 1e-6), (a, b)
            elif x == y == 0 and name.startswith(("max", "min")):
                # IEEE's maximum tells zeros apart, its maxNum need not.
                signs = {bool(np.signbit(x)), bool(np.signbit(y))}
                allowed = {name.startswith("max") and False not in signs or name.startswith("min") and True in signs}
                assert made == 0 and np.signbit(made) in (signs if "num" in name else allowed), (a, b)
            else:
                assert made == expected and np.signbit(made) == np.signbit(expected), (a, b)


SMALL = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn, "f6E3M2FN": ml_dtypes.float6_e3m2fn, "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu, "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_bits_of_every_value(name: str):
    """Every pattern of a small format means what it means elsewhere, and comes back; so does what lies between two."""
    fmt, kind = FORMATS[name], np.dtype(SMALL[name])
    patterns = np.arange(1 << fmt.width, dtype=f"u{kind.itemsize}")[:: 1 if fmt.width < 16 else 37]
    with np.errstate(all="ignore"):
        numbers = patterns.view(kind).astype(np.float64)
    for bits, number in zip(patterns.tolist(), numbers.tolist(), strict=True):
        made = float_from_bits(bits, name)
        if number == number:
            assert made == number and math.copysign(1, made) == math.copysign(1, number)
            assert float_bits(number, name) == bits
        else:
            assert made != made
    if not fmt.signed:
        return
    some = np.sort(numbers[np.isfinite(numbers)])
    between = [x for x in (*(some[:-1] * 0.5 + some[1:] * 0.5), *(some * 1.01)) if abs(x) <= some[-1]]
    rounded = np.array(between).astype(kind).view(patterns.dtype)
    assert [float_bits(float(x), name) for x in between] == rounded.tolist()


@pytest.mark.parametrize("name", SMALL)
def test_what_is_too_large(name: str):
    with np.errstate(all="ignore"):
        largest = float(ml_dtypes.finfo(SMALL[name]).max)
    assert FORMATS[name].max == largest
    check_range(largest, name)
    for factor in (2.5, 100.0) if FORMATS[name].overflow == "max" else (1.9, 2.5, 100.0):
        with pytest.raises(OverflowError, match=f"does not fit {name}, whose largest number is"):
            check_range(largest * factor, name)
        with np.errstate(all="ignore"):
            expected = float(np.array([largest * factor]).astype(SMALL[name]).astype(np.float64)[0])
        made = round_float(largest * factor, name)
        assert made == expected or (made != made and expected != expected)
    bits = float_bits(math.nan, name)
    assert 0 <= bits < 1 << FORMATS[name].width
    assert math.isnan(float_from_bits(bits, name)) != (FORMATS[name].overflow == "max")


@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_of_floats(predicate: str):
    for a, b in itertools.product(SPECIAL, repeat=2):
        found = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[predicate]
        unordered = a != a or b != b
        assert fold_cmpf("o" + predicate, a, b) == (found and not unordered)
        assert fold_cmpf("u" + predicate, a, b) == (found or unordered)
        assert fold_cmpf("ord", a, b) != fold_cmpf("uno", a, b) == unordered
        assert fold_cmpf("true", a, b) and not fold_cmpf("false", a, b)
