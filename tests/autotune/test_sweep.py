"""`flydsl.testing.bench` and `plot`, and pictures of reports."""

from __future__ import annotations

import json
import math
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.autotune.plot import bars, lines, ticks
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.testing import assert_close, bench, plot


def make(m: int, n: int) -> tuple[Any, Any]:
    return np.random.default_rng(0).random((m, n)), np.empty((m, n))


def fails(x: Any, out: Any) -> None:
    if x.shape[0] > 2:
        raise MemoryError("too large\nfor this")
    out[:] = 0


def check(args: Any, name: str) -> None:
    if name != "fails":
        assert_close(args[1], 2 * args[0])


def test_a_sweep_times_checks_and_goes_on():
    sweep = bench(
        {"twice": lambda x, out: np.multiply(x, 2, out=out),
         "slow": lambda x, out: (time.sleep(0.002), np.add(x, x, out=out)),
         "wrong": lambda x, out: out.fill(3), "fails": fails},
        [(2, 3), (4, 5)], make, metric=lambda size, ms: math.prod(size) / ms, unit="elements/ms", title="<twice>",  # pyright: ignore
        check=check, rep=3, warmup=1,
    )  # fmt: skip
    assert sweep.sizes == [(2, 3), (4, 5)] and sweep.names == ["twice", "slow", "wrong", "fails"]
    assert sweep.value((2, 3), "twice") > sweep.value((2, 3), "slow") > 0
    assert math.isnan(sweep.value((2, 3), "wrong")) and math.isnan(sweep.value((4, 5), "fails"))
    table = sweep.table()
    assert "fails at 4x5: MemoryError: too large" in table and "wrong at 2x3: AssertionError" in table
    picture = ET.fromstring(sweep.svg())
    assert len([e for e in picture.iter() if e.tag.endswith("polyline")]) == 4
    assert "<twice>" in "".join(picture.itertext())


def test_plot_writes_what_the_name_says(tmp_path: Path):
    sweep = bench({"sum": np.sum}, [10, 100, 1000], lambda n: (np.ones(n),), rep=2)
    assert plot(sweep, tmp_path / "a.svg").read_text().startswith("<svg")
    rows = json.loads(plot(sweep, tmp_path / "a.json").read_text())["rows"]
    assert [row["size"] for row in rows] == ["10", "100", "1000"] and all(row["ms"] > 0 for row in rows)
    with pytest.raises(DSLValueError, match=".svg or .json"):
        plot(sweep, tmp_path / "a.png")
    with pytest.raises(DSLValueError, match="no 'other'"):
        sweep.value(10, "other")


def test_bad_sweeps():
    for call, said in (
        (lambda: bench({}, [1], lambda n: ()), "nothing to compare"),
        (lambda: bench({"a": 3}, [1], lambda n: ()), "is a function"),  # pyright: ignore
        (lambda: bench({"a": lambda: 0}, [], lambda n: ()), "no size"),
    ):
        with pytest.raises((DSLValueError, DSLTypeError), match=said):
            call()


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_cover_the_range(low: float, span: float):
    found = ticks(low, low + span, False)
    slack = 1e-6 * (abs(low) + span)
    assert found[0] <= low + slack and found[-1] >= low + span - slack
    assert 2 <= len(found) <= 9 and found == sorted(found)


@given(
    st.lists(st.tuples(st.floats(allow_nan=True), st.floats(allow_nan=True)), max_size=8), st.booleans(), st.booleans()
)
def test_pictures_are_xml_whatever_is_drawn(points: list[tuple[float, float]], log_x: bool, log_y: bool):
    points = [(x, y) for x, y in points if not (1e100 < abs(x) < math.inf or 1e100 < abs(y) < math.inf)]
    points = [(x, y) for x, y in points if abs(x) > 1e-100 and abs(y) > 1e-100 or math.isnan(x)]
    ET.fromstring(lines({"a & b": points, "<c>": []}, title="t", log_x=log_x, log_y=log_y))
    ET.fromstring(bars([("x < y", abs(y)) for _, y in points if math.isfinite(y)], title="<&>", unit="ms"))
