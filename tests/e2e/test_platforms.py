"""Other systems, as far as they can be played here: what Linux has and they lack is taken away before the import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MISSING = {
    "windows": {
        "modules": ["fcntl", "pwd", "grp", "resource", "termios"],
        "names": ["fork", "geteuid", "getuid", "getegid", "getgid", "register_at_fork", "RTLD_NOW", "RTLD_LOCAL",
                  "O_NOFOLLOW", "O_DIRECTORY", "O_PATH", "O_CLOEXEC", "O_NONBLOCK", "sched_getaffinity", "pread",
                  "killpg", "setsid", "fchmod", "uname"],
    },
    "macos": {"modules": [], "names": ["O_PATH", "sched_getaffinity"]},
}  # fmt: skip

PLAY = """
import os, sys
# The standard library decides what it has when it is imported: it comes first.
import concurrent.futures, ctypes, inspect, json, logging, multiprocessing, numpy, pathlib, subprocess, tempfile

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {modules}:
            raise ImportError(f"no module named {{name}}", name=name)

for name in {modules}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
for name in {names}:
    if hasattr(os, name):
        delattr(os, name)
if {windows}:
    os.supports_dir_fd = set()
    real = os.open

    def opened(path, flags, mode=0o777, *, dir_fd=None):
        assert dir_fd is None and not os.path.isdir(path)
        return real(path, flags, mode)

    os.open = opened
exec(compile(open({program!r}).read(), {program!r}, "exec"), {{"__name__": "__main__"}})
"""

PROGRAM = """
import numpy as np
import flydsl.autotune, flydsl.kernels, flydsl.runtime, flydsl.tools.fly
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def fill_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    if i < n:
        x[i] = 2.0

@flyc.jit
def fill(x: fx.Tensor, n: fx.Int32):
    fill_kernel(x, n).launch(grid=1, block=4)

x = np.zeros(4, np.float32)
fill(x, 3)
hsaco = flyc.compile(fill, x, 3, target="rocm:gfx942").artifact.binary("hsaco")
ptx = flyc.compile(fill, x, 3, target="cuda:sm_90").artifact.binary("ptx")
print(x.tolist(), hsaco[:4] == b"\\x7fELF", b".target sm_90" in ptx)
"""


@pytest.mark.parametrize("system", MISSING)
def test_compiling_and_the_cpu_stack(system: str, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    text = PLAY.format(**MISSING[system], windows=system == "windows", program=str(program))
    environment = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=120)
    assert done.stdout.split("\n")[0] == "[2.0, 2.0, 2.0, 0.0] True True", done.stderr
    assert (tmp_path / "cache").exists() == (system != "windows"), "a cache that nobody can vouch for is not used"
