"""What is too large is refused or told early: register tensors, vectors, unrolled loops, deep nesting, long numbers."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import warnings
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends import get_backend
from flydsl.compiler.build import isolation
from flydsl.errors import DSLSyntaxError, DSLValueError, UnrollWarning


@pytest.mark.parametrize(
    "make",
    [
        lambda: fx.make_rmem_tensor(2**23, fx.Int8),
        lambda: fx.make_rmem_tensor((1024, 1024), fx.Int32),
        lambda: fx.make_rmem_tensor(2**60, fx.Float64),
        lambda: fx.make_rmem_tensor(fx.make_layout(2, 2**30), fx.Int8),
        lambda: fx.make_fragment_like(fx.make_layout((2**12, 2**12), (1, 2**12)), fx.Float32),
        lambda: fx.full(2**22, 1, fx.Int32),
        lambda: fx.Vector.filled((2**8, 2**8), 0.0, fx.Float32),
        lambda: fx.make_rmem_tensor(2**16, fx.Int8).load(),
    ],
)
def test_more_than_a_thread_holds_is_refused(make: Any):
    with pytest.raises(DSLValueError, match="every thread|too long"):
        flyc.evaluate(lambda: make() and None)


def test_what_a_thread_holds_is_taken():
    def body(n: fx.Int32):
        t = fx.make_rmem_tensor(2**14, fx.Int8)
        t[n] = fx.Int8(7)
        return t[n]

    assert flyc.evaluate(body, 5) == 7


def _module(tmp_path: Path, body: str) -> Any:
    path = tmp_path / "deep.py"
    path.write_text(
        "import flydsl.compiler as flyc\nimport flydsl.expr as fx\n\n"
        f"@flyc.kernel\ndef kernel(x: fx.Tensor, n: fx.Int32):\n{body}\n\n"
        "@flyc.jit\ndef run(x: fx.Tensor, n: fx.Int32):\n    kernel(x, n).launch(grid=1, block=1)\n"
    )
    spec = importlib.util.spec_from_file_location("deep", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "body",
    [
        "    x[0] = " + " + ".join(["n"] * 900),
        "    x[0] = " + "-" * 900 + "n",
        "    x[0] = n" + ".bitcast(fx.Int32)" * 900,
        "    if n > 900:\n        x[0] = 0\n"
        + "\n".join(f"    elif n == {i}:\n        x[0] = {i}" for i in range(900)),
    ],
    ids=["sum", "minus", "methods", "elif"],
)
def test_deep_nesting_is_our_error(body: str, tmp_path: Path):
    with pytest.raises(DSLSyntaxError, match="nested too deeply") as caught:
        _module(tmp_path, body)
    assert caught.value.__context__ is None  # without the thousand frames that led there


def test_what_python_could_import_is_found_from_any_depth(tmp_path: Path):
    path = tmp_path / "deep.py"
    path.write_text(
        "import flydsl.expr as fx\n\ndef other(n):\n    return n" + ".real" * 700 + "\n\n"
        "def kernel(x: fx.Tensor):\n    x[0] = 1\n"
    )
    spec = importlib.util.spec_from_file_location("deep", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def at_depth(depth: int) -> Any:
        return at_depth(depth - 1) if depth else flyc.kernel(module.kernel)

    assert at_depth(sys.getrecursionlimit() * 3 // 4).__name__ == "kernel"


def test_nesting_that_python_takes_works(tmp_path: Path):
    depth = 60
    body = "".join("    " + " " * i + f"if n > {i}:\n" for i in range(depth)) + "    " + " " * depth + "x[0] = 1"
    x = np.zeros(1, "i4")
    module = _module(tmp_path, body)
    module.run(x, depth - 1)
    assert x[0] == 0
    module.run(x, depth)
    assert x[0] == 1


@pytest.mark.parametrize("number", ["9" * 4300, "10**5000", "-(2**70)"], ids=["digits", "power", "negative"])
def test_long_numbers_are_our_errors(number: str, tmp_path: Path):
    with pytest.raises(OverflowError, match="does not fit") as caught:
        _module(tmp_path, f"    x[0] = n + {number}").run(np.zeros(1, "i4"), 1)
    assert len(str(caught.value)) < 400


def test_unrolling_many_steps_is_told_before_it_happens():
    seen: list[int] = []

    def body(n: fx.Int32):
        for i in fx.range_constexpr(10_000):  # here
            seen.append(i)
            raise KeyError("the first step is the last")

    with warnings.catch_warnings(record=True) as told, pytest.raises(KeyError):
        warnings.simplefilter("always")
        flyc.evaluate(body, 1)
    (warning,) = [w for w in told if w.category is UnrollWarning]
    assert seen == [0] and "10000 steps" in str(warning.message) and "about 25 s" in str(warning.message)
    line = int(str(warning.message).split(":")[1])
    assert "# here" in linecache.getline(__file__, line)
    assert len(list(fx.range_constexpr(5000))) == 5000  # outside a trace nothing is unrolled


def test_after_many_compilations_llvm_goes_to_workers(monkeypatch: pytest.MonkeyPatch):
    """What its pipeline leaves behind in a process goes with the worker."""
    backend, module = get_backend("cpu", arch="native"), ModuleOp([])
    monkeypatch.setattr(isolation, "_compilations", count())
    assert isolation.where_to_generate(backend, module) == {}
    monkeypatch.setattr(isolation, "_compilations", count(isolation.IN_PROCESS))
    assert "compiler" in isolation.where_to_generate(backend, module)
    monkeypatch.setenv("FLYDSL_COMPILE_ISOLATE", "never")
    assert isolation.where_to_generate(backend, module) == {}
