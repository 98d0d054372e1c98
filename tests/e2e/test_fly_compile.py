"""`fly compile` in a process of its own, on a machine without ROCm, lld or any LLVM tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flydsl.llvm.objects.code_object import ElfFile, read_code_object

SOURCE = """
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def scale_kernel(x: fx.Tensor, n: fx.Int32):
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 256, 16]).peek().view(fx.make_layout(256, 1))
    t = fx.thread_idx.x
    lds[t] = x[t]
    fx.barrier()
    if t < n:
        x[t] = lds[255 - t] * 2.0


@flyc.jit
def scale(x: fx.Tensor, n: fx.Int32):
    scale_kernel(x, n).launch(grid=1, block=256)


x = np.ones(256, np.float32)
scale(x, 100)
"""


def fly(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("FLYDSL_", "ROCM", "HIP"))}
    nothing = cwd / "no-tools"
    nothing.mkdir(exist_ok=True)
    # Tools may also be found in well-known folders: whoever starts one here fails.
    code = (
        "import subprocess, sys\n"
        "def refuse(self, *args, **options): raise AssertionError(f'started {args}')\n"
        "subprocess.Popen.__init__ = refuse\n"
        "from flydsl.tools.fly import main\n"
        "sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**bare, "PATH": str(nothing), "FLYDSL_RUNTIME_CACHE_DIR": str(cwd / "cache"), **environment},
    )


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_code_object_without_any_tool(arch: str, tmp_path: Path):
    (tmp_path / "kernel.py").write_text(SOURCE)
    done = fly("compile", "kernel.py", "--target", f"rocm:{arch}", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = (tmp_path / "out" / f"scale.rocm-{arch}.hsaco").read_bytes()
    found = read_code_object(data)
    assert found.linked and found.target_id == f"amdgcn-amd-amdhsa--{arch}" and found.version == (1, 2)
    (kernel,) = found.kernels
    assert kernel.lds == 1024 and kernel.max_flat_workgroup_size == 256
    elf = ElfFile(data)
    names = {symbol.name for symbol in elf.symbols(11)}  # the dynamic symbols, which the loader looks up
    assert kernel.symbol in names and kernel.symbol.removesuffix(".kd") in names
    assert elf.section(".hash") is not None or elf.section(".gnu.hash") is not None


def test_bad_target(tmp_path: Path):
    (tmp_path / "kernel.py").write_text(SOURCE)
    done = fly("compile", "kernel.py", "--target", "rocm:gfx943", cwd=tmp_path)
    assert done.returncode != 0 and "gfx942" in done.stderr
