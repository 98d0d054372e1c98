"""`examples/third_party_backend`: another distribution's backend and runtime, installed and used."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "examples" / "third_party_backend"

SCRIPT = """
import json, sys, warnings
import numpy as np
import flydsl.compiler as flyc, flydsl.expr as fx
from flydsl.compiler import backends
from flydsl.errors import ExperimentalBackendWarning

@flyc.kernel
def scale_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * 3 + fx.num_warp_threads()

@flyc.jit
def scale(x: fx.Tensor, n: fx.Int32):
    scale_kernel(x, n).launch(grid=fx.ceildiv(n, 64), block=64)

listed = backends.list_backends()
early = "flydsl_toy" in sys.modules
x = np.arange(1000, dtype=np.int32)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        scale(x, 1000)
from flydsl.runtime import Device, get_device_runtime
runtime = get_device_runtime()
y = np.arange(1000, dtype=np.int64)
for _ in range(3):
    y = y * 3 + backends.current_target().warp_size
print(json.dumps({
    "listed": listed, "early": early, "right": bool((x == y).all()), "kind": runtime.kind,
    "class": type(runtime).__name__, "loads": runtime.modules_loaded, "launches": runtime.kernel_entries,
    "warnings": [str(w.message) for w in caught if issubclass(w.category, ExperimentalBackendWarning)],
    "target": backends.current_target().key(), "device": Device.current().name,
    "info": [[i.name, i.origin, i.experimental, i.runtime_kind] for i in backends.backend_info()],
}))
"""


def install(site: Path) -> str:
    """Install the project into `site`; how it was done."""
    if importlib.util.find_spec("hatchling") is not None and importlib.util.find_spec("pip") is not None:
        source = site.parent / "source"
        shutil.copytree(PROJECT, source)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(site), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return "pip"
    # No build tool here: what an installer would leave behind, made from the same file.
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    shutil.copytree(PROJECT / "src" / "flydsl_toy", site / "flydsl_toy", ignore=shutil.ignore_patterns("__pycache__"))
    info = site / f"flydsl_toy-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{n} = {v}" for n, v in points.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return "by hand"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy") / "site"
    folder.mkdir()
    print(install(folder))
    return folder


def run(site: Path, command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), *(p for p in sys.path if p)])
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=site,
    )


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "toy_kernel.py"
    path.write_text(SCRIPT)
    return str(path)


def test_b22_one_variable_selects_backend_and_runtime(site: Path, script: str):
    done = run(site, [script], FLYDSL_COMPILE_BACKEND="toy")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert "toy" in found["listed"] and not found["early"], "listed, but imported only when used"
    assert found["right"] and (found["kind"], found["class"]) == ("toy", "ToyDeviceRuntime")
    assert found["loads"] == 1 and found["launches"] == 3
    assert found["warnings"] == ["the compile backend 'toy' is experimental"], "once per process"
    assert found["target"] == "toy:toy2:w32" and found["device"] == "toy device"
    assert ["toy", "entry-point:flydsl-toy", True, "toy"] in found["info"]


def test_an_explicit_arch_of_the_backend(site: Path, script: str):
    done = run(site, [script], FLYDSL_COMPILE_BACKEND="toy", FLYDSL_COMPILE_ARCH="toy1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["target"] == "toy:toy1:w16" and found["right"]
    done = run(site, [script], FLYDSL_COMPILE_BACKEND="toy", FLYDSL_COMPILE_ARCH="toy9")
    assert "unknown toy architecture 'toy9'; known: toy1, toy2" in done.stderr


def test_b15_installed_is_not_selected(site: Path):
    code = "from flydsl.compiler import backends as b; print(b.compile_backend_name(), b.list_backends())"
    for env, expected in (({}, "'toy'"), ({"FLYDSL_BACKENDS_IN_TREE": "1"}, "['cpu', 'cuda', 'rocm']")):
        done = run(site, ["-c", code], **env)
        assert done.returncode == 0, done.stderr
        assert not done.stdout.startswith("toy ") and expected in done.stdout


def test_b32_the_warning_can_be_silenced(site: Path, script: str):
    done = run(site, [script], FLYDSL_COMPILE_BACKEND="toy", FLYDSL_IGNORE_WARNINGS="ExperimentalBackendWarning")
    assert json.loads(done.stdout.splitlines()[-1])["warnings"] == []


@pytest.mark.parametrize(("backend", "kind"), [("toy", "cpu"), ("cpu", "toy")])
def test_r13_a_mismatch_names_both_ids_and_both_variables(site: Path, script: str, backend: str, kind: str):
    done = run(site, [script], FLYDSL_COMPILE_BACKEND=backend, FLYDSL_RUNTIME_KIND=kind)
    assert done.returncode != 0 and "StackMismatchError" in done.stderr
    text = done.stderr.splitlines()[-1]
    for part in (
        "requires device runtime kind", repr(backend), repr(kind), "FLYDSL_COMPILE_BACKEND", "FLYDSL_RUNTIME_KIND"
    ):  # fmt: skip
        assert part in text


def test_fly_doctor_lists_and_tries_it(site: Path):
    done = run(site, ["-m", "flydsl.tools.fly", "doctor"], FLYDSL_COMPILE_BACKEND="toy")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["toy"])
    assert "usable, active" in lines[at] and "entry-point:flydsl-toy" in lines[at]
    assert any("toy device, toy2" in line for line in lines[at:])
    assert any("smoke test: ok" in line for line in lines[at : at + 5])
