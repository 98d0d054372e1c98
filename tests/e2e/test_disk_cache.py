"""The disk cache across processes: compiled once, launched without a compiler, never stale."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json, sys, time
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx

FACTOR = {factor}

def helper(x):
    return x * {helper}

@flyc.kernel
def scale_kernel(x: fx.Tensor, n: fx.Int32, add: fx.Constexpr[int]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = helper(x[i]) * FACTOR + add

@flyc.jit
def scale(x: fx.Tensor, n: fx.Int32, add: fx.Constexpr[int] = {add}):
    scale_kernel(x, n, add).launch(grid=fx.ceildiv(n, 64), block=64)

x = np.arange(100, dtype=np.{dtype})
expected = x * {helper} * FACTOR + {add}
start = time.perf_counter()
scale(x, 100)
seconds = time.perf_counter() - start
assert np.array_equal(x, expected.astype(x.dtype)), (x, expected)
from flydsl.compiler.cache import totals
heavy = sorted(m for m in sys.modules if m.split(".")[0] in ("xdsl", "torch"))
heavy += sorted(m for m in sys.modules if m.startswith(("flydsl.passes", "flydsl.compiler.build.driver")))
mine = sorted(m for m in sys.modules if m.split(".")[0] in ("flydsl", "llvmlite"))
print(json.dumps({{"heavy": heavy, "stats": totals.as_dict(), "modules": mine, "seconds": seconds}}))
"""

BASE = {"factor": 3, "helper": 2, "add": 1, "dtype": "int32"}


def start(place: Path, env: dict[str, str] | None = None, where: str = "a", check: bool = True, **values: Any) -> Any:
    """Run the script in a fresh process on the cache of a place; give what it printed."""
    folder = place / where
    folder.mkdir(exist_ok=True)
    path = folder / "kernels.py"
    path.write_text(SCRIPT.format(**{**BASE, **values}))
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(place / "cache"), **(env or {})},
        capture_output=True,
        text=True,
        cwd=folder,
    )
    if not check:
        return done
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def run(tmp_path: Path):
    """On an empty cache."""
    return partial(start, tmp_path)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A cache after the first process, and what that said."""
    place = tmp_path_factory.mktemp("filled")
    return place / "cache", start(place)


@pytest.fixture
def run_again(filled: tuple[Path, Any], tmp_path: Path):
    """On a copy of that cache."""
    shutil.copytree(filled[0], tmp_path / "cache")
    return partial(start, tmp_path)


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").rglob("*.fly"))


def test_second_process_launches_without_the_compiler(filled: tuple[Path, Any], run_again, tmp_path: Path):
    first = filled[1]
    assert any(m.startswith("xdsl") for m in first["heavy"]) and len(files(tmp_path)) == 1
    second = run_again(env={"PYTHONHASHSEED": "7"})
    for name, run_of in (("caches empty", first), ("from disk", second)):
        print(
            f"{name}: first call {run_of['seconds'] * 1000:.0f} ms, {len(run_of['modules'])} modules of ours and LLVM's"
        )
    print("modules of the second process:", *second["modules"])
    assert second["heavy"] == []
    assert second["stats"]["hits"] == 1 and len(files(tmp_path)) == 1
    # Neither the passes, nor the tracer and what it writes, nor the dialects as xDSL ops.
    compiler = (
        "flydsl.passes",
        "flydsl.compiler.build.driver",
        "flydsl.compiler.frontend.tracing",
        "flydsl.expr.emit.tracer",
        "flydsl.llvm.text.function_text",
    )
    assert [m for m in second["modules"] if m.startswith(compiler)] == []
    assert len(second["modules"]) < len(first["modules"]) - 40


def test_the_same_source_elsewhere_is_the_same_key(run_again, tmp_path: Path):
    assert run_again(where="b")["heavy"] == []
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize(
    "change",
    [{"factor": 4}, {"helper": 5}, {"add": 2}, {"dtype": "float32"}, {"env": {"FLYDSL_COMPILE_OPT_LEVEL": "1"}}],
    ids=["global", "helper", "constexpr default", "dtype", "environment"],
)
def test_a_change_compiles_again(run_again, tmp_path: Path, change):
    assert len(files(tmp_path)) == 1
    run_again(**change)
    assert len(files(tmp_path)) == 2


def test_a_broken_entry_is_compiled_again_and_replaced(run_again, tmp_path: Path):
    (entry,) = files(tmp_path)
    good = entry.read_bytes()
    for bad in (good[: len(good) // 2], b"", bytes([good[0] ^ 1]) + good[1:], good[:-40] + bytes(40)):
        entry.write_bytes(bad)
        assert any(m.startswith("xdsl") for m in run_again()["heavy"])
        assert run_again()["heavy"] == []


def test_cache_off(run, tmp_path: Path):
    run(env={"FLYDSL_RUNTIME_ENABLE_CACHE": "0"})
    assert files(tmp_path) == []


def test_run_only(run_again, tmp_path: Path):
    empty = tmp_path / "empty"
    empty.mkdir()
    failed = start(empty, env={"FLYDSL_RUNTIME_RUN_ONLY": "1"}, check=False)
    assert failed.returncode != 0 and "scale is not in the cache" in failed.stderr
    assert run_again(env={"FLYDSL_RUNTIME_RUN_ONLY": "1"})["heavy"] == []
    failed = run_again(env={"FLYDSL_RUNTIME_RUN_ONLY": "1"}, check=False, factor=9)
    assert failed.returncode != 0 and "FACTOR" in failed.stderr


def test_compile_only_writes_and_runs_nothing(run, tmp_path: Path):
    done = run(env={"COMPILE_ONLY": "1"}, check=False)
    assert "AssertionError" in done.stderr
    assert len(files(tmp_path)) == 1
    assert run()["heavy"] == []


def test_an_error_writes_nothing(run, tmp_path: Path):
    done = run(check=False, helper="undefined_name")
    assert done.returncode != 0 and "undefined_name" in done.stderr
    assert files(tmp_path) == []
