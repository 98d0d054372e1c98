"""A process that finds its kernel on disk launches it without LLVM, xDSL or numpy: on a recording CUDA driver."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or platform.machine() != "x86_64" or not sys.platform.startswith("linux"),
    reason="needs a C compiler for the driver, and the loader of plain objects",
)

PROGRAM = """
import json, sys

class Array:
    def __init__(self, at):
        self.__cuda_array_interface__ = {
            "shape": (64, 512), "typestr": "<f4", "data": (at, False), "version": 3, "strides": None, "stream": None,
        }

from flydsl.kernels.rows.form import Form
from flydsl.kernels.rows.softmax_kernels import softmax_rows
x, y = Array(0x7F0000000000), Array(0x7F1000000000)
for _ in range(4):
    softmax_rows(x, y, 64, 512, False, Form(4, 64, 1, 2, False, ("x", "out")))
libraries = {line.split()[-1] for line in open("/proc/self/maps")}
print(json.dumps({
    "modules": sorted(sys.modules), "llvm": any("libllvmlite" in name for name in libraries),
    "hits": softmax_rows.cache_stats()["hits"],
}))
"""
MOST_MODULES = 200
"""Of this package; each costs a process a third of a millisecond."""


def driver(folder: Path) -> Path:
    source = ROOT / "tests/unit/runtime/fake_driver.py"
    spec = importlib.util.spec_from_file_location("fake_driver", source)
    assert spec is not None and spec.loader is not None
    made: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made.build(folder, "cuda").path


def test_a_launch_from_disk_loads_little(tmp_path: Path):
    env = {
        **os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache"), "FLYDSL_COMPILE_BACKEND": "cuda",
        "FLYDSL_COMPILE_ARCH": "sm_90", "FLYDSL_CUDA_LIBRARY": str(driver(tmp_path)),
    }  # fmt: skip

    def run() -> dict[str, Any]:
        found = subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True, capture_output=True, text=True)
        return json.loads(found.stdout)

    first, second = run(), run()
    assert first["llvm"] and first["hits"] == 0 and second["hits"] == 1
    heavy = {name.split(".")[0] for name in second["modules"]} & {"xdsl", "numpy", "torch"}
    assert not second["llvm"] and not heavy and "llvmlite.binding" not in second["modules"]
    own = [name for name in second["modules"] if name.split(".")[0] == "flydsl"]
    assert len(own) <= MOST_MODULES, len(own)
