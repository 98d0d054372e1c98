"""Checks of floats: what is made where, by which thread, from what; and the errors of lines against float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.debug.numerics import Report, checking
from flydsl.tools import fly


def line_of(comment: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


@flyc.kernel
def troubles_kernel(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    near = a[t] + 1.0  # near
    lost = near - 1.0  # lost
    root = fx.math.sqrt(b[t])  # root
    half = fx.Float16(b[t] * 70000.0)  # half
    big = b[t] * 3e38 * 4.0  # big
    moved = fx.shuffle_xor(root, 1)
    out[t] = lost + moved + fx.Float32(half) + big


@flyc.jit
def troubles(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
    troubles_kernel(a, b, out).launch(grid=1, block=32)


def run(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Report:
    compiled, interpreted = np.zeros(32, np.float32), np.zeros(32, np.float32)
    troubles(a, b, compiled)
    with checking() as report:
        troubles(a, b, interpreted)
    np.testing.assert_array_equal(compiled, interpreted)
    return report


def test_each_trouble_is_found_where_it_is_made(rng: np.random.Generator):
    a = np.zeros(32, np.float32)
    b = rng.uniform(0.1, 0.2, 32).astype(np.float32)
    a[9], b[5], b[11], b[20] = 3e-6, -0.125, 0.95, 0.3
    report = run(a, b)
    found = {(f.trouble, f.place.line): f for f in report.findings}
    assert set(found) == {
        ("cancellation", line_of("lost")), ("nan", line_of("root")), ("overflow in a conversion", line_of("half")),
        ("infinity", line_of("big")),
    }  # fmt: skip
    nan = report.first("nan")
    assert nan is not None and nan.thread == (5, 0, 0) and nan.operands == (-0.125,) and nan.count == 1
    cancelled = found["cancellation", line_of("lost")]
    assert cancelled.thread == (9, 0, 0) and cancelled.count == 1
    assert cancelled.exact == pytest.approx(3e-6, rel=1e-6) and cancelled.result != pytest.approx(3e-6, rel=1e-3)
    over = found["overflow in a conversion", line_of("half")]
    assert over.thread == (11, 0, 0) and over.operands[0] == float(np.float32(0.95) * np.float32(70000))
    large = found["infinity", line_of("big")]
    assert large.thread == (11, 0, 0) and large.count == 2, "threads 11 and 20"
    text = report.listing()
    assert f"test_numerics.py:{line_of('root')}: nan: sqrt of -0.125 gave nan in float; thread (5, 0, 0)" in text


def test_nothing_is_found_where_nothing_is_wrong(rng: np.random.Generator):
    report = run(rng.uniform(1, 2, 32).astype(np.float32), rng.uniform(0.1, 0.2, 32).astype(np.float32))
    assert not report.findings and "no NaN" in report.listing()


def test_errors_of_lines_are_those_against_float64(rng: np.random.Generator):
    a, b = rng.uniform(1, 2, (2, 32)).astype(np.float32)
    with checking() as report:
        troubles(a, b * np.float32(0.1), np.zeros(32, np.float32))
    exact = a.astype(np.float64) + 1.0
    rounded = (a + np.float32(1.0)).astype(np.float64)
    line = report.lines[__file__, line_of("near")]
    assert line.operations == 32
    assert line.relative == pytest.approx(np.max(np.abs(rounded - exact) / exact), rel=1e-9)
    assert line.ulps <= 0.5
    # The next line has the error of the first in a smaller number.
    assert report.lines[__file__, line_of("lost")].relative >= line.relative


@flyc.kernel
def sums_kernel(a: fx.Tensor, out: fx.Tensor):
    parts = fx.make_rmem_tensor(fx.make_layout(4, 1), fx.Float16)
    total = fx.Float16(0.0)
    t = fx.thread_idx.x
    for i in range(8):
        parts[i % 4] = fx.Float16(a[t, i])
        total = total + parts[i % 4]  # total
    out[t] = total


def test_shadows_go_through_loops_memory_and_vectors(rng: np.random.Generator):
    @flyc.jit
    def run(a: fx.Tensor, out: fx.Tensor):
        sums_kernel(a, out).launch(grid=1, block=8)

    a = rng.uniform(1, 2, (8, 8)).astype(np.float32)
    out = np.zeros(8, np.float16)
    with checking() as report:
        run(a, out)
    # The shadow keeps the numbers as they were before the conversion to half.
    off = np.abs(out.astype(np.float64) - a.astype(np.float64).sum(1)) / a.astype(np.float64).sum(1)
    assert report.lines[__file__, line_of("total")].relative >= off.max() * (1 - 1e-12) > 0


@flyc.kernel
def wide_kernel(a: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    row = a[t, None].load()
    out[t, None].store(row / (row - 1.0))  # wide


def test_vectors_name_the_element_that_went_wrong(rng: np.random.Generator):
    @flyc.jit
    def run(a: fx.Tensor, out: fx.Tensor):
        wide_kernel(a, out).launch(grid=1, block=4)

    a = rng.uniform(2, 3, (4, 8)).astype(np.float32)
    a[2, 5] = 1.0
    with checking() as report:
        run(flyc.from_dlpack(a), flyc.from_dlpack(np.zeros_like(a)))
    (found,) = report.findings
    assert found.trouble == "infinity" and found.thread == (2, 0, 0) and found.operands == (1.0, 0.0)


SCRIPT = """\
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def kernel(a: fx.Tensor):
    a[fx.thread_idx.x] = fx.math.log(a[fx.thread_idx.x])

@flyc.jit
def run(a: fx.Tensor):
    kernel(a).launch(grid=1, block=4)

run(np.array([1, 2, -1, 4], np.float32))
"""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], emulate: Callable[[str], None]):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    assert fly.main(["numerics", str(script)]) == 0
    said = capsys.readouterr().out
    assert f"{script}:7: nan: " in said and "thread (2, 0, 0)" in said and "a[fx.thread_idx.x] = fx.math.log" in said
    assert fly.main(["numerics", "--strict", str(script)]) == 1
    capsys.readouterr()
    assert fly.main(["numerics", str(tmp_path / "none.py")]) == 2
    script.write_text("print('nothing')\n", encoding="utf-8")
    assert fly.main(["numerics", str(script)]) == 1 and "ran no kernel" in capsys.readouterr().err
