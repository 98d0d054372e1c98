"""What importing the package costs: no heavy dependency, no vendor library, no process."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

HEAVY = ("torch", "xdsl", "llvmlite", "numpy")
"""Top-level modules that none of the entry points may load."""

VENDOR_LIBRARIES = (
    "libamd_comgr",
    "libamdhip64",
    "libcuda.",
    "libcudart",
    "libhsa-runtime64",
    "libhsakmt",
    "libllvmlite",
    "libLLVM",
    "libnvidia",
    "libnvrtc",
    "libnvptxcompiler",
    "libtorch",
)

PROCESS_EVENTS = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
    "subprocess.Popen",
)
"""Audit events of the interpreter that mean another process."""

PROBE = """
import json, sys
events = []
def watch(event, args):
    if event in {process_events!r}:
        events.append(event)
sys.addaudithook(watch)
before = set(sys.modules)
{statements}
loaded = sorted({{name.split(".")[0] for name in set(sys.modules) - before}})
maps = open("/proc/self/maps").read().splitlines()
libraries = sorted({{line.split()[5] for line in maps if len(line.split()) > 5}})
print(json.dumps({{"loaded": loaded, "events": events, "libraries": libraries}}))
"""

ENTRY_POINTS = ["flydsl", "flydsl.compiler", "flydsl.expr"]


def probe(statements: str, folder: Path) -> dict[str, Any]:
    """Runs the statements in a fresh interpreter and says what they loaded and started."""
    script = folder / "probe.py"
    script.write_text(PROBE.format(process_events=PROCESS_EVENTS, statements=statements), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def heavy(report: dict[str, Any]) -> list[str]:
    return [name for name in HEAVY if name in report["loaded"]]


@pytest.mark.parametrize("module", ENTRY_POINTS)
def test_import_loads_no_heavy_dependency(module: str, tmp_path: Path):
    assert heavy(probe(f"import {module}", tmp_path)) == []


@pytest.mark.parametrize("module", ENTRY_POINTS)
def test_import_loads_no_vendor_library(module: str, tmp_path: Path):
    libraries = probe(f"import {module}", tmp_path)["libraries"]
    assert libraries, "/proc/self/maps names no library at all"
    assert [path for path in libraries if Path(path).name.startswith(VENDOR_LIBRARIES)] == []


@pytest.mark.parametrize("module", ENTRY_POINTS)
def test_import_starts_no_process(module: str, tmp_path: Path):
    assert probe(f"import {module}", tmp_path)["events"] == []


def test_probe_sees_processes_and_libraries(tmp_path: Path):
    """The checks above are only worth something if they can fail."""
    report = probe("import subprocess; subprocess.run(['true']); import numpy", tmp_path)
    assert "subprocess.Popen" in report["events"]
    assert heavy(report) == ["numpy"]


def test_declaring_a_kernel_loads_no_heavy_dependency(tmp_path: Path):
    """Annotations, structs and decorators are free; the first trace pays."""
    statements = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@fx.struct
class Affine:
    scale: fx.Float32
    bias: fx.Float32

@flyc.kernel
def kernel(x: fx.Tensor, y: fx.Pointer, n: fx.Int32, p: Affine, unroll: fx.Constexpr[int]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = p.scale * x[i] + p.bias

@flyc.jit
def launch(x: fx.Tensor, y: fx.Pointer, n: fx.Int32, p: Affine, stream: fx.Stream = fx.Stream(None)):
    kernel(x, y, n, p, 4).launch(grid=fx.ceildiv(n, 64), block=64, stream=stream)
"""
    report = probe(statements, tmp_path)
    assert heavy(report) == []
    assert report["events"] == []


def test_a_kernel_of_the_library_loads_no_other(tmp_path: Path):
    """Names of the library stay functions whatever was imported, and load what they are made of alone."""
    statements = """
import flydsl.kernels.matmul.arrays
import flydsl.kernels.attention.lengths
from flydsl import kernels
from flydsl.kernels import softmax
for name in ("matmul.calls", "attention.calls", "attention.entry", "rows.norms"):
    assert f"flydsl.kernels.{name}" not in sys.modules, name
from flydsl.kernels import attention
import flydsl.kernels.matmul.plan
for function in (kernels.matmul, attention, kernels.attention, softmax):
    assert type(function).__name__ == "function", function
assert kernels.matmul is sys.modules["flydsl.kernels.matmul"].matmul
"""
    assert heavy(probe(statements, tmp_path)) == []


def test_version_is_that_of_the_project():
    import flydsl

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert flydsl.__version__ == project["version"]
