"""`flydsl.testing`: one wrong element is found, right ones are not complained about, and the report says where."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.testing import FORMATS, assert_close, error_bound

TORCH = [name for name in FORMATS if hasattr(torch, name)]


@pytest.mark.parametrize("name", TORCH)
def test_formats_are_those_of_torch(name: str):
    dtype, form = getattr(torch, name), FORMATS[name]
    found = torch.finfo(dtype)
    assert found.max == form.largest and found.smallest_normal == 2.0**form.least_exponent
    # What torch calls eps of one of the 8-bit formats is not the distance of its numbers.
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    after_one = (torch.ones(1, dtype=dtype).view(integer) + 1).view(dtype)
    assert float(after_one.double()) == 1.0 + 2.0**-form.mantissa


@pytest.mark.parametrize("name", TORCH)
@given(data=st.data())
def test_rounding_once_is_right_and_two_steps_are_not(name: str, data: st.DataObject):
    form = FORMATS[name]
    value = data.draw(st.floats(-form.largest / 2, form.largest / 2))
    rounded = torch.tensor([value], dtype=torch.float64).to(getattr(torch, name))
    assert assert_close(rounded, [value]) <= 1.0
    bound = error_bound(np.array([value]), name)
    moved = (rounded.double() + 4 * float(bound[0])).to(getattr(torch, name))
    with pytest.raises(AssertionError, match="1 of 1 elements"):
        assert_close(moved, [value])


def test_one_element_of_a_large_matrix_decides():
    rng = np.random.default_rng()
    a, b = (torch.from_numpy(rng.standard_normal((x, 64))).bfloat16() for x in (300, 200))
    want = a.double() @ b.double().T
    limit = {"terms": 64, "magnitude": a.double().abs() @ b.double().abs().T}
    got = (a.float() @ b.float().T).bfloat16()
    assert assert_close(got, want, **limit) <= 1.0
    got[7, 9] += max(0.25, abs(float(want[7, 9])) / 16)
    assert ((got.double() - want).norm() / want.norm()).item() < 4e-3  # a norm does not see it
    with pytest.raises(AssertionError, match=r"1 of 60000 elements \(0.00167 %\).*\n  worst: \[7, 9\] is "):
        assert_close(got, want, **limit)


def test_the_report():
    got = np.ones((4, 5), np.float32)
    got[1, 2], got[3, 4] = 2.0, np.nan
    with pytest.raises(AssertionError) as caught:
        assert_close(got, np.ones((4, 5)), what="softmax")
    lines = str(caught.value).splitlines()
    assert lines[0] == "softmax: 2 of 20 elements (10 %) are wrong"
    assert lines[1].startswith("  worst: [3, 4] is nan, expected 1: off by nan, allowed 1.19e-07")
    assert lines[2] == "  first: [1, 2] is 2, expected 1: off by 1, allowed 1.19e-07"
    assert lines[3] == "  all of them lie in [1..3, 2..4] of (4, 5)"
    assert lines[4].startswith("  1 are NaN where a number belongs")


@pytest.mark.parametrize(
    ("got", "want", "dtype", "right"),
    [
        (np.nan, np.nan, "float32", True),
        (1.0, np.nan, "float32", False),
        (np.inf, np.inf, "float32", True),
        (-np.inf, np.inf, "float32", False),
        (65504.0, np.inf, "float16", False),
        (np.inf, 1e6, "float16", True),
        (-np.inf, 1e6, "float16", False),
        (448.0, 1e6, "float8_e4m3fn", True),
        (np.nan, -1e6, "float8_e4m3fn", True),
        (448.0, -1e6, "float8_e4m3fn", False),
        (3, 3, "int32", True),
        (3, 4, "int32", False),
        (True, False, "bool", False),
    ],
)
def test_special_values(got, want, dtype: str, right: bool):
    result = torch.tensor([got]).to(getattr(torch, dtype))
    if right:
        assert assert_close(result, [want]) == 0.0
        return
    with pytest.raises(AssertionError):
        assert_close(result, [want])


def test_tolerances_and_nothing_at_all():
    assert assert_close(np.float32([1.001]), [1.0], rtol=2e-3) < 1.0
    assert assert_close(np.float32([1.001, 3.0]), [1.0, 2.0], atol=np.array([2e-3, 1.0])) < 1.0
    with pytest.raises(AssertionError):
        assert_close(np.float32([1.001, 3.0]), [1.0, 2.0], atol=np.array([1.0, 2e-3]))
    assert assert_close(np.zeros((0, 3), np.float32), np.zeros((0, 3))) == 0.0


def test_what_cannot_be_compared():
    with pytest.raises(DSLValueError, match=r"softmax has the shape \(2,\), expected \(1, 2\)"):
        assert_close(np.zeros(2, np.float32), np.zeros((1, 2)), what="softmax")
    with pytest.raises(DSLTypeError, match="a bound exists for float64, .*got int8"):
        error_bound(np.zeros(2), "int8")


def test_importing_it_loads_neither_numpy_nor_torch():
    program = "import flydsl.testing, sys; assert not {'numpy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
