"""Arguments that may be left out: None is part of the compiled code, and calls with and without take turns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Optional

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx

N = 32


@flyc.kernel
def scaled_kernel(x: fx.Tensor, by: fx.Tensor | None, add: fx.Float32, y: fx.Tensor):
    i = fx.thread_idx.x
    value = x[i] + add
    if by is not None:
        value = value * by[i]
    y[i] = value


@flyc.jit
def scaled(x: fx.Tensor, y: fx.Tensor, by: fx.Tensor | None = None, stream: fx.Stream = fx.Stream(None)):
    scaled_kernel(x, by, fx.Float32(0.0), y).launch(grid=1, block=N, stream=stream)


@flyc.jit
def in_the_middle(x: fx.Tensor, by: Optional[fx.Tensor], add: fx.Float32 | None, y: fx.Tensor):  # noqa: UP045
    if add is None:
        scaled_kernel(x, by, fx.Float32(100.0), y).launch(grid=1, block=N)
    else:
        scaled_kernel(x, by, add, y).launch(grid=1, block=N)


@flyc.jit
def by_default(x: fx.Tensor, y: fx.Tensor, by: fx.Tensor = None):  # pyright: ignore[reportArgumentType]
    scaled_kernel(x, by, fx.Float32(0.0), y).launch(grid=1, block=N)


def arrays(kind: str, rng: np.random.Generator):
    made = [rng.standard_normal(N).astype("f4") for _ in range(2)]
    out = np.full(N, np.nan, "f4")
    made.append(out)
    return [torch.from_numpy(a) for a in made] if kind == "torch" else made


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("function", [scaled, by_default])
def test_with_and_without_in_turn(function, kind: str):
    rng = np.random.default_rng()
    x, by, y = arrays(kind, rng)
    function(x, y), function(x, y, by)
    before = function.cache_info()
    for given in rng.integers(0, 3, 20):
        y[:] = float("nan")
        function(*((x, y, by) if given == 2 else (x, y, None) if given else (x, y)))
        np.testing.assert_array_equal(np.asarray(y), np.asarray(x * by if given == 2 else x))
    after = function.cache_info()
    assert after.misses == before.misses and after.hits == before.hits + 20, "some call was not a warm one"


def test_every_combination():
    rng = np.random.default_rng()
    x, by, y = arrays("numpy", rng)
    for turn in range(3):
        for factor in (None, by):
            for add in (None, 2.5, 0.0):
                y[:] = np.nan
                in_the_middle(x, factor, add, y)
                expected = (x + np.float32(100.0 if add is None else add)) * (1 if factor is None else by)
                np.testing.assert_array_equal(y, expected)
        if not turn:
            first = in_the_middle.cache_info()
    # A number left out and a number given are two signatures; its value is none.
    assert first.currsize == 4 and in_the_middle.cache_info().misses == first.misses


def test_a_stream_that_is_none_is_a_stream():
    x, by, y = arrays("numpy", np.random.default_rng())
    scaled(x, y, by, None)
    scaled(x, y, stream=None)
    np.testing.assert_array_equal(y, x)
    assert not scaled.signature.parameters["stream"].optional


def test_compiled_and_prepared():
    x, by, y = arrays("numpy", np.random.default_rng())
    without = flyc.compile(scaled, x, y)
    without(x, y, None)
    np.testing.assert_array_equal(y, x)
    with pytest.raises(TypeError, match="compiled for another signature"):
        without(x, y, by)
    prepared = without.prepare(x, y)
    y[:] = np.nan
    prepared.launch()
    np.testing.assert_array_equal(y, x)
    prepared.update(by=None)
    with pytest.raises(TypeError, match="'by' is compiled in as None"):
        prepared.update(by=by)
    with pytest.raises(TypeError, match="parameter 'by': cannot pass None"):
        flyc.compile(scaled, x, y, by).prepare(x, y, by).update(by=None)


@flyc.kernel
def strict_kernel(x: fx.Tensor, y: fx.Tensor):
    y[fx.thread_idx.x] = x[fx.thread_idx.x]


@flyc.jit
def passes_on(x: fx.Tensor | None, y: fx.Tensor):
    strict_kernel(x, y).launch(grid=1, block=N)


def test_where_none_is_refused():
    x, _, y = arrays("numpy", np.random.default_rng())
    with pytest.raises(TypeError, match=r"'y': cannot pass None to compiled code; .* annotate it so \(fx.Tensor"):
        scaled(x, None)
    with pytest.raises(TypeError, match="kernel 'strict_kernel', parameter 'x' got None; where it may be left out"):
        passes_on(None, y)


def test_torch_operator():
    from flydsl.extension.torch_op import torch_op

    op = torch_op("flydsl_tests::scaled_or_not", scaled, results={"y": "x"})
    x, by, _ = arrays("torch", np.random.default_rng())
    assert "Tensor? by=None" in str(op._schema if hasattr(op, "_schema") else op._opoverload._schema)
    model = torch.compile(lambda x, by: op(2 * x, by), fullgraph=True, backend="aot_eager")
    assert torch.equal(model(x, None), 2 * x) and torch.equal(model(x, by), 2 * x * by)


PROGRAM = """
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.cache import totals

@flyc.kernel
def kernel(x: fx.Tensor, by: fx.Tensor | None, y: fx.Tensor):
    i = fx.thread_idx.x
    y[i] = x[i] if by is None else x[i] * by[i]

@flyc.jit
def scaled(x: fx.Tensor, y: fx.Tensor, by: fx.Tensor | None = None):
    kernel(x, by, y).launch(grid=1, block=32)

x, by, y = np.arange(32, dtype="f4"), np.full(32, 3, "f4"), np.full(32, np.nan, "f4")
scaled(x, y)
assert (y == x).all()
scaled(x, y, by)
assert (y == 3 * x).all()
print(totals.as_dict()["compilations"])
"""


def test_on_disk(tmp_path: Path):
    """Another process finds both, each under its own key."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    env = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache"), "FLYDSL_COMPILE_BACKEND": "cpu"}
    for compiled in ("2", "0"):
        done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [compiled]
