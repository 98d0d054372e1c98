"""Dumps, prints and reports of a compilation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


@pytest.fixture
def function():
    """A jit function nobody has compiled yet."""

    @flyc.kernel(name="dumped")
    def kernel(a: fx.Tensor):
        a[fx.thread_idx.x] = 1.0

    @flyc.jit
    def run(a: fx.Tensor):
        kernel(a).launch(grid=1, block=4)

    return run


def test_dump_ir(function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    a = np.zeros(4, np.float32)
    function(a)
    assert (a == 1).all()
    names = sorted(p.name for p in (tmp_path / "dumped").iterdir())
    assert names[0] == "00_origin.mlir" and names[1] == "01_fly_rewrite_func_signature.mlir"
    assert any(n.endswith("_llvm_ir.ll") for n in names) and any(n.endswith("_final_isa.s") for n in names)
    assert "gpu.func @dumped" in (tmp_path / "dumped" / "00_origin.mlir").read_text()
    assert json.loads((tmp_path / "dumped" / "times.json").read_text())["trace"] > 0
    assert "[flydsl.compile] dump origin -> " in capsys.readouterr().err


def test_dump_does_not_overwrite_another_signature(function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    function(np.zeros(4, np.float32))
    function(np.zeros(4, np.float64))
    assert len(list(tmp_path.iterdir())) == 2


def test_dump_and_run_only_contradict(function, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_RUNTIME_RUN_ONLY", "1")
    with pytest.raises(ValueError, match="contradict"):
        function(np.zeros(4, np.float32))


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("FLYDSL_DEBUG_PRINT_ORIGIN_IR", "1", "dumped: origin"),
        ("FLYDSL_DEBUG_PRINT_AFTER_ALL", "1", "dumped: after fly-layout-lowering"),
        ("FLYDSL_DEBUG_PRINT_AFTER", "layout", "dumped: after fly-layout-lowering"),
        ("FLYDSL_DEBUG_PRINT_CHANGED", "1", "changed by fly-rewrite-func-signature"),
        ("FLYDSL_DEBUG_TIMING", "1", "ms  trace"),
        ("FLYDSL_DEBUG_TIMING", "json", '"trace"'),
        ("FLYDSL_DEBUG_RESOURCES", "1", "dumped: "),
    ],
)
def test_prints(function, variable: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    monkeypatch.setenv(variable, value)
    function(np.zeros(4, np.float32))
    assert expected in capsys.readouterr().err


def test_texts_of_an_artifact_from_disk(function):
    """A cached artifact still shows its IR and assembly."""
    args = (np.zeros(4, np.float32),)
    first = flyc.compile(function, *args).artifact
    function.invalidate()
    second = flyc.compile(function, *args).artifact
    assert second is not first and second.binary() == first.binary()
    assert second.source_ir == first.source_ir
    assert "dumped" in second.asm
