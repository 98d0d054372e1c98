"""`fly aot build`: a manifest compiled in parallel processes into a folder that serves programs without a compiler."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flydsl.compiler.ship import aot_build
from flydsl.compiler.ship.manifest import Build, read_manifest
from flydsl.errors import ManifestError
from flydsl.tools import fly
from flydsl.tools.progress import Progress, table

KERNELS = """
import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, a: fx.Float32, width: fx.Constexpr[int]):
    i = fx.block_idx.x * width + fx.thread_idx.x
    if i < n:
        y[i] = a * x[i] + y[i]


@flyc.jit
def axpy(
    x: fx.Tensor,
    y: fx.Tensor,
    n: fx.Int32,
    a: fx.Float32,
    width: fx.Constexpr[int] = 64,
    stream: fx.Stream = fx.Stream(None),
):
    axpy_kernel(x, y, n, a, width).launch(grid=fx.ceildiv(n, width), block=width, stream=stream)


@flyc.jit
def broken(x: fx.Tensor):
    undefined_name(x)


@flyc.kernel
def aborting_kernel(x: fx.Tensor):
    x[0] = fx.llvm_intrinsic(fx.Int32, "llvm.aarch64.crc32b", [fx.Int32(1), fx.Int32(2)])


@flyc.jit
def aborting(x: fx.Tensor):
    aborting_kernel(x).launch(grid=1, block=1)


@flyc.kernel
def shift_kernel(x: fx.Tensor, by: fx.Tensor | None):
    i = fx.block_idx.x
    if fx.const_expr(by is not None):
        x[i] = x[i] + by[i]
    else:
        x[i] = x[i] + 1.0


@flyc.jit
def shift(x: fx.Tensor, by: fx.Tensor | None = None):
    shift_kernel(x, by).launch(grid=x.shape.unpack()[0], block=1)


def plain():
    pass
"""

VECTOR = {"tensor": [7], "dtype": "float32"}
AXPY = {
    "function": "kernels.py:axpy",
    "arguments": {"x": VECTOR, "y": VECTOR, "n": {"scalar": "Int32"}, "a": 2.0},
}
PROGRAM = """
import sys, numpy as np, kernels
x, y = np.random.default_rng().standard_normal((2, 1001)).astype(np.float32)
expected = 3.0 * x.astype(np.float64) + y
kernels.axpy(x, y, 1001, 3.0, 128)
np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
assert not any(m.split(".")[0] == "xdsl" for m in sys.modules)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


def write(project: Path, *kernels: dict[str, Any], **top: Any) -> str:
    path = project / "manifest.json"
    path.write_text(json.dumps({"version": 1, "kernels": list(kernels), **top}))
    return str(path)


def run(project: Path, manifest: str, *options: str) -> int:
    return fly.main(["aot", "build", manifest, "--out", str(project / "out"), *options])


OPTIONAL = """
import numpy as np, kernels
x, by = np.zeros(7, np.float32), np.full(7, 5, np.float32)
kernels.shift(x)
assert (x == 1).all()
kernels.shift(x, by)
assert (x == 6).all()
"""


def test_an_optional_tensor_is_null(project: Path, capsys: pytest.CaptureFixture[str]):
    """Left out or given, each is a build of its own, and a program that must not compile finds both."""
    shift = {"function": "kernels.py:shift", "targets": ["cpu:native"]}
    manifest = write(
        project,
        {**shift, "arguments": {"x": VECTOR, "by": None}},
        {**shift, "arguments": {"x": VECTOR, "by": VECTOR}},
    )
    assert run(project, manifest, "--jobs", "1") == 0
    assert "2 of 2 builds, 2 entries" in capsys.readouterr().out
    env = {
        **os.environ,
        "FLYDSL_RUNTIME_RUN_ONLY": "1",
        "FLYDSL_RUNTIME_CACHE_DIR": str(project / "empty"),
        "FLYDSL_RUNTIME_CACHE_PATH": str(project / "out"),
        "FLYDSL_COMPILE_BACKEND": "cpu",
    }
    subprocess.run([sys.executable, "-c", OPTIONAL], env=env, cwd=project, check=True)


def test_c54_build_serve_and_check(project: Path, capsys: pytest.CaptureFixture[str]):
    manifest = write(
        project, {**AXPY, "sweep": {"width": [64, 128]}}, targets=["rocm:gfx942", "cuda:sm_90a", "cpu:native"]
    )
    assert run(project, manifest, "--check") == 1
    assert "there is no folder" in capsys.readouterr().err
    assert run(project, manifest, "--jobs", "2") == 0
    shown = capsys.readouterr()
    assert "6 of 6 builds, 6 entries" in shown.out and shown.out.count("compiled") == 6
    assert "axpy[width=128]" in shown.out and "[6/6]" in shown.err
    index = json.loads((project / "out/index.json").read_text())
    assert len(index["entries"]) == 6
    assert {b["target"] for e in index["entries"] for b in e["builds"]} == {
        "rocm:gfx942:w64",
        "cuda:sm_90a:w32",
        "cpu:native:w32",
    }
    assert str(project) not in json.dumps(index)
    # A program that must not compile finds them, whichever way it says its stack.
    env = {
        **os.environ,
        "FLYDSL_RUNTIME_RUN_ONLY": "1",
        "FLYDSL_RUNTIME_CACHE_DIR": str(project / "empty"),
        "FLYDSL_RUNTIME_CACHE_PATH": str(project / "out"),
        "FLYDSL_COMPILE_BACKEND": "cpu",
    }
    subprocess.run([sys.executable, "-c", PROGRAM], env=env, cwd=project, check=True)
    assert run(project, manifest, "--check") == 0
    assert capsys.readouterr().out.count("there") == 6
    # Built again, all of it is there; what is damaged is missed by the check and made again by a build.
    entry = next((project / "out").rglob("*.fly"))
    entry.write_bytes(entry.read_bytes()[:-1])
    assert run(project, manifest, "--check") == 1
    assert "missing" in capsys.readouterr().out
    assert run(project, manifest) == 0
    assert capsys.readouterr().out.count("was there") == 5


def test_a_folder_that_others_may_write_to(project: Path, capsys: pytest.CaptureFixture[str]):
    """Nobody would use its entries, so nothing is compiled."""
    manifest = write(project, AXPY, targets=["cpu:native"])
    (project / "out").mkdir()
    (project / "out").chmod(0o777)
    assert run(project, manifest) == 2
    assert "out cannot hold compiled code: everyone may write to it; run `chmod go-w" in capsys.readouterr().err
    assert not list((project / "out").iterdir())
    (project / "out").rmdir()
    before = os.umask(0o002)
    try:
        assert run(project, manifest) == 0
    finally:
        os.umask(before)
    assert all(not p.lstat().st_mode & 0o022 for p in (project / "out", *(project / "out/v1").rglob("*")))


def test_c54_failures_are_collected(project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """A mistake, a name that is missing, and an abort of LLVM in the process that compiles: the rest is built."""
    monkeypatch.setenv("FLYDSL_COMPILE_ISOLATE", "never")
    vector = {"x": {"tensor": [7], "dtype": "int32"}}
    manifest = write(
        project,
        {"function": "kernels.py:broken", "arguments": vector},
        {"function": "kernels.py:aborting", "arguments": vector},
        {"function": "kernels.py:nothing", "arguments": vector},
        {"function": "kernels.py:plain"},
        {**AXPY, "arguments": {**AXPY["arguments"], "z": 1}},
        {**AXPY, "constexprs": {"n": 4}, "arguments": {"x": VECTOR, "y": VECTOR, "a": 1.0}},
        AXPY,
        targets=["cpu:native"],
    )
    assert run(project, manifest, "--jobs", "1") == 1
    shown = capsys.readouterr()
    assert "1 of 7 builds" in shown.out and shown.out.count("FAILED") == 6
    for text in (
        "kernels[0]: broken for cpu:native:w32: NameError: name 'undefined_name' is not defined",
        "undefined_name(x)",
        "the process that compiled it was ended by SIGABRT",
        "Cannot select: intrinsic %llvm.aarch64.crc32b",
        "'nothing' is not there; kernels has axpy, broken, aborting",
        "'plain' is no @flyc.jit function",
        "has no parameter 'z'; it has x, y, n, a, width, stream",
        "parameter 'n' belongs under arguments, not constexprs",
    ):
        assert text in shown.err, shown.err
    assert len(json.loads((project / "out/index.json").read_text())["entries"]) == 1


def test_c54_equal_builds_are_one(project: Path, capsys: pytest.CaptureFixture[str]):
    """The same build twice is done once; two ways to one key share an entry."""
    same = {**AXPY, "constexprs": {"width": 64}}
    manifest = write(project, AXPY, AXPY, same, {**same, "targets": ["cuda:90"]}, targets=["cuda:sm_90"])
    assert len(read_manifest(manifest)) == 2
    assert run(project, manifest, "--jobs", "1") == 0
    assert "2 of 2 builds, 1 entries" in capsys.readouterr().out


def test_c54_workers_are_spawned_and_recycled(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(aot_build, "RECYCLE", 2)
    started: list[int] = []
    worker = aot_build.WorkerProcess

    def start(*args: Any) -> Any:
        made = worker(*args)
        started.append(made.pid)
        return made

    monkeypatch.setattr(aot_build, "WorkerProcess", start)
    manifest = write(project, {**AXPY, "sweep": {"width": [32, 64, 96, 128, 160]}}, targets=["cuda:sm_90"])
    results = aot_build.run_builds(read_manifest(manifest), project / "out", jobs=1)
    assert [r.error for r in results] == [""] * 5 and len(started) == 3
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_interrupted_builds_leave_good_entries(project: Path):
    widths = list(range(32, 32 + 32 * 30, 32))
    manifest = write(project, {**AXPY, "sweep": {"width": widths}}, targets=["cuda:sm_90"])
    command = [sys.executable, "-m", "flydsl.tools.fly", "aot", "build", manifest, "--out", str(project / "out")]
    process = subprocess.Popen([*command, "--jobs", "1"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "[1/30]" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in error
    env = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(project / "out")}
    done = subprocess.run([sys.executable, "-m", "flydsl.tools.fly", "cache", "verify"], env=env, capture_output=True)
    assert done.returncode == 0 and done.stdout.decode().startswith("0 defective")
    files = [p for p in (project / "out/v1").rglob("*") if p.is_file() and p.name != "eviction"]
    assert files and all(p.suffix == ".fly" for p in files)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON: Expecting property name"),
        ("[]", r"the manifest must be an object, got \[\]"),
        ('{"kernel": []}', "unknown key 'kernel'; known: version, targets, kernels"),
        ('{"version": 2, "kernels": [{}]}', "version must be 1, got 2"),
        ('{"kernels": []}', "kernels must be a list that is not empty"),
        ('{"kernels": [{}]}', r"kernels\[0\] names no function"),
        ('{"kernels": [{"function": "axpy"}]}', r"kernels\[0\].function must be 'package.module:name'"),
        ('{"kernels": [{"function": "no.py:axpy"}]}', "there is no file .*no.py"),
        ('{"kernels": [{"function": "m:f"}]}', "has no targets"),
        ('{"kernels": [{"function": "m:f", "targets": ["gfx0"]}]}', r"kernels\[0\].targets\[0\]: .*gfx0"),
        ('{"kernels": [{"function": "m:f", "targets": [3]}]}', "must be a target such as 'rocm:gfx942', got 3"),
        ('{"kernels": [{"function": "m:f", "arguments": {"x": "y"}}]}', r"arguments.x must be an object, got \"y\""),
        ('{"kernels": [{"function": "m:f", "arguments": {"x": {"tensor": 3}}}]}', "tensor must be a list of sizes"),
        ('{"kernels": [{"function": "m:f", "arguments": {"x": {"tensor": [3]}}}]}', "dtype must be the name of a type"),
        ('{"kernels": [{"function": "m:f", "arguments": {"x": {"tensor": [3], "shape": 1}}}]}', "unknown key 'shape'"),
        ('{"kernels": [{"function": "m:f", "arguments": {"x": {"size": 3}}}]}', "must be a number, {'tensor'"),
        ('{"kernels": [{"function": "m:f", "sweep": {"w": 3}}]}', "sweep.w must be a list that is not empty"),
    ],
)
def test_manifest_mistakes(content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with pytest.raises(ManifestError, match=message):
        read_manifest(path)
    assert fly.main(["aot", "build", str(path), "--out", str(tmp_path / "out")]) == 2
    assert str(path) in capsys.readouterr().err and not (tmp_path / "out").exists()
    with pytest.raises(ManifestError, match="cannot be read: No such file"):
        read_manifest(tmp_path / "absent.json")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_one_line_that_goes_away():
    screen = Terminal()
    progress = Progress(4, screen)
    progress.start()
    progress.advance("first")
    progress.advance("second", failed=True)
    assert screen.getvalue().count("\n") == 0 and "1/4" in screen.getvalue()
    line = progress.line("a label that is far too long for the terminal it is shown on", 60)
    assert len(line) == 59 and "2/4, 1 failed" in line and "#" in line and "." in line
    progress.finish()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_tables_align():
    assert table([("a", "bb"), ("ccc", "d")]) == "a    bb\n---  --\nccc  d"


def test_builds_are_named_by_their_constants():
    assert Build("m:f", {}, {"w": 64, "t": [1, 2]}, {}, "cuda:sm_90").name == "f[w=64, t=[1, 2]]"


STORING = """
import flydsl.compiler as flyc
import flydsl.expr as fx
from helper import NUMBER

@flyc.kernel
def {kernel}(x: fx.Tensor):
    x[fx.thread_idx.x] = NUMBER

@flyc.jit
def store(x: fx.Tensor):
    {kernel}(x).launch(grid=1, block=4)
"""


def test_files_of_one_name_in_different_folders(project: Path, capsys: pytest.CaptureFixture[str]):
    """Each build gets the function of its own file, with the helpers beside it, in whatever order they come."""
    for name, number in (("one", 1.0), ("two", 2.0)):
        (project / name).mkdir()
        (project / name / "same.py").write_text(STORING.format(kernel=f"{name}_kernel"))
        (project / name / "helper.py").write_text(f"NUMBER = {number}\n")
    entries = [
        {"function": f"{name}/same.py:store", "arguments": {"x": {**VECTOR, "dynamic": dynamic}}}
        for name, dynamic in (("one", True), ("two", True), ("one", False))
    ]
    assert run(project, write(project, *entries, targets=["cuda:sm_90"]), "--jobs", "1") == 0
    index = json.loads((project / "out/index.json").read_text())
    assert [e["kernels"] for e in index["entries"]] == [["one_kernel_0"], ["two_kernel_0"], ["one_kernel_0"]]
    capsys.readouterr()
    # A file that is called like a module Python has already cannot be imported by its name.
    taken: list[dict[str, Any]] = []
    for name in ("json", "sys"):
        (project / f"{name}.py").write_text(STORING.format(kernel="any_kernel"))
        taken.append({"function": f"{name}.py:store", "arguments": {"x": VECTOR}})
    assert run(project, write(project, *taken, targets=["cuda:sm_90"]), "--jobs", "1") == 1
    shown = capsys.readouterr().err
    assert "has the name 'json' already" in shown and "has the name 'sys' already" in shown
