"""When a compilation goes pass by pass down to the llvm dialect, and that what it makes stays the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends import get_backend
from flydsl.passes.pipeline import pass_names

TARGETS = {"rocm": "gfx942", "cuda": "sm_90"}


def make_function(**options):
    """A jit function nobody has compiled yet."""

    @flyc.kernel(name="staged")
    def kernel(a: fx.Tensor, n: fx.Int32):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        if i < n:
            a[i] = a[i] * 2.0

    @flyc.jit(**options)
    def run(a: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        kernel(a, n).launch(grid=fx.ceildiv(n, 64), block=64, stream=stream)

    return run


def compiled(stack: str, **options):
    function = make_function(**options)
    return flyc.compile(function, np.zeros(100, np.float32), 100, target=f"{stack}:{TARGETS[stack]}").artifact


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")


@pytest.mark.parametrize("stack", TARGETS)
def test_dumps_show_every_stage(stack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plain = compiled(stack)
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    dumped = compiled(stack)
    files = sorted(tmp_path.glob("*/*.mlir"))
    labels = [re.sub(r"^\d+_", "", f.stem) for f in files]
    backend = get_backend(stack, arch=TARGETS[stack])
    *fragments, _ = backend.pipeline_fragments(compile_hints={})
    names = [name.replace("-", "_") for fragment in fragments for name in pass_names(fragment)]
    assert labels == ["origin", *names]
    last = files[-1].read_text()
    assert "llvm.func @staged" in last and "arith." not in last and "scf." not in last
    assert "gpu.launch_func <%" in last
    # Times say what ran: the passes of the dump, one walk without it.
    assert "reconcile-unrealized-casts" in dumped.metadata["times"]["passes"]
    assert "reconcile-unrealized-casts" not in plain.metadata["times"]["passes"]
    assert _kernels(dumped) == _kernels(plain)


def _kernels(artifact):
    facts = ("name", "block", "parameters", "shared_static")
    return [{fact: kernel.get(fact) for fact in facts} for kernel in artifact.metadata["kernels"]]


def test_a_pass_hooked_to_the_lowering():
    """A pass of the user that stands behind `convert-gpu-to-rocdl` sees functions of llvm, and what it does counts."""

    @flyc.ir_pass(stage="fly:after:convert-gpu-to-rocdl", name="test-mark-kernels")
    def mark(module):
        from xdsl.dialects.builtin import ArrayAttr, StringAttr

        for op in module.walk():
            if op.name == "llvm.func" and "rocdl.kernel" in op.attributes:
                op.properties["passthrough"] = ArrayAttr([ArrayAttr([StringAttr("marked"), StringAttr("yes")])])

    artifact = compiled("rocm", ir_passes=[mark])
    assert '"marked"="yes"' in artifact.llvm_ir
    assert "gpu-to-llvm" in artifact.metadata["times"]["passes"]


def test_a_pass_hooked_before_it_does_not_start_it():
    @flyc.ir_pass(stage="fly:after:fly-canonicalize", name="test-look")
    def look(module):
        assert any(op.name == "gpu.func" for op in module.walk())

    artifact = compiled("rocm", ir_passes=[look])
    assert "gpu-to-llvm" not in artifact.metadata["times"]["passes"]


@pytest.mark.parametrize("stack", TARGETS)
def test_debug_info_pass_by_pass(stack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Line tables are there on both ways; pass by pass some ops that unpack arguments keep the line of the launch."""
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1")
    plain = compiled(stack)
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    dumped = compiled(stack)
    lines = [set(re.findall(r"!DILocation\(line: (\d+)", a.llvm_ir)) for a in (plain, dumped)]
    assert len(lines[0]) >= 4 and lines[0] <= lines[1]
    assert any("ensure_debug_info_scope" in p.name for p in tmp_path.glob("*/*.mlir"))


@pytest.mark.parametrize("times", [0, 1, 5])
def test_launches_in_a_loop_of_the_host_function(times: int):
    """Arguments of a launch lie on the stack of the host function, taken at its head also for a launch in a loop."""

    @flyc.kernel
    def add(a: fx.Tensor, by: fx.Int32):
        a[fx.thread_idx.x] = a[fx.thread_idx.x] + by.to(fx.Float32)

    @flyc.jit
    def run(a: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        for i in fx.range(n):
            add(a, i + 1).launch(grid=1, block=8, stream=stream)

    a = np.zeros(8, np.float32)
    run(a, times)
    np.testing.assert_array_equal(a, sum(range(1, times + 1)))
