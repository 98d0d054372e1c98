"""A program in C launches an exported jit function: no Python in its process."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, a: fx.Float32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        y[i] = a * x[i] + y[i]


@flyc.kernel
def reverse_kernel(y: fx.Tensor, n: fx.Int32):
    """Each block reverses its 64 elements through shared memory: threads meet."""
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()
    t = fx.Int32(fx.thread_idx.x)
    i = fx.block_idx.x * 64 + t
    shared[63 - t] = y[i]
    fx.gpu.barrier()
    y[i] = shared[t]


@flyc.jit
def step(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, a: fx.Float32, stream: fx.Stream = fx.Stream(None)):
    axpy_kernel(x, y, n, a).launch(grid=fx.ceildiv(n, 64), block=64, stream=stream)
    reverse_kernel(y, n).launch(grid=n // 64, block=64, stream=stream)


@flyc.jit
def transpose_add(x: fx.Tensor, y: fx.Tensor):
    add_kernel(x, y).launch(grid=1, block=1)


@flyc.kernel
def add_kernel(x: fx.Tensor, y: fx.Tensor):
    for i in range(3):
        for j in range(5):
            y[j, i] = y[j, i] + x[i, j]


SPECS = (flyc.TensorSpec((7,), "float32"), flyc.TensorSpec((7,), "float32"), flyc.ScalarSpec(fx.Int32), 2.0)

PROGRAM = """
#include "step.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc != 3) return 1;
  int32_t n = atoi(argv[1]);
  float a = strtof(argv[2], NULL);
  float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
  if (fread(x, sizeof *x, n, stdin) != (size_t)n || fread(y, sizeof *y, n, stdin) != (size_t)n) return 2;
  step_x from = {.data = x, .extent0 = n};
  step_y to = {.data = y, .extent0 = n};
  flydsl_failure failure = {0};
  flydsl_cpu_threads = 2;
  int32_t status = step(from, to, n, a, NULL, &failure);
  if (status) {
    fprintf(stderr, "status %d, kernel %lld\\n", status, (long long)failure.kernel);
    return 3;
  }
  fwrite(y, sizeof *y, n, stdout);
  return 0;
}
"""


def c_compiler() -> str:
    found = shutil.which("cc") or shutil.which("clang") or shutil.which("clang-22")
    if found is None:
        pytest.skip("there is no C compiler")
    return found


def build(folder: Path, source: str, *extra: str) -> Path:
    (folder / "main.c").write_text(source)
    out = folder / "program"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-variable"]
    command = [c_compiler(), *flags, str(folder / "main.c"), "-o", str(out), f"-I{folder}", *extra]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def test_c55_a_c_program_launches_an_exported_cpu_function(tmp_path: Path):
    files = flyc.export_raw(step, tmp_path, args=SPECS, target="cpu:native")
    assert {kind: path.name for kind, path in files.items()} == {
        "header": "step.h",
        "metadata": "step.json",
        "library": "libstep.a",
    }
    program = build(tmp_path, PROGRAM, f"-L{tmp_path}", "-lstep", "-lm", "-lpthread")
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True).stdout
    assert "python" not in linked and "llvm" not in linked.lower()
    n = 64 * 37
    x, y = np.random.default_rng().standard_normal((2, n)).astype(np.float32)
    done = subprocess.run([str(program), str(n), "2.5"], input=x.tobytes() + y.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr
    expected = (2.5 * x.astype(np.float64) + y).reshape(-1, 64)[:, ::-1].reshape(-1)
    np.testing.assert_allclose(np.frombuffer(done.stdout, np.float32), expected, rtol=1e-5, atol=1e-5)
    cxx = shutil.which("c++") or shutil.which("clang++")
    if cxx is not None:
        (tmp_path / "main.cpp").write_text('#include "step.h"\n#include "step.h"\n')
        subprocess.run([cxx, "-Wall", "-Werror", "-Wno-unused-variable", "-c", "main.cpp"], cwd=tmp_path, check=True)


def test_c55_failures_come_back_with_their_geometry(tmp_path: Path):
    flyc.export_raw(step, tmp_path, args=SPECS, target="cpu:native", name="axpy-step")
    source = """
#include "axpy_step.h"
#include <stdio.h>
int main(void) {
  float one = 1;
  axpy_step_x x = {.data = &one, .extent0 = 1};
  axpy_step_y y = {.data = &one, .extent0 = 1};
  flydsl_failure failure = {0};
  int32_t status = axpy_step(x, y, -640, 1, NULL, &failure);
  printf("%d %lld %lld %lld %s\\n", status, (long long)failure.kernel, (long long)failure.grid[0],
         (long long)failure.block[0], axpy_step_kernels[failure.kernel]);
  return axpy_step(x, y, -640, 1, NULL, NULL) == status ? 0 : 1;
}
"""
    (tmp_path / "axpy_step.json").unlink()
    program = build(tmp_path, source, f"-L{tmp_path}", "-laxpy_step", "-lm", "-lpthread")
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["-1", "0", "-10", "64", "axpy_kernel_0"]


def test_static_and_two_dimensional_tensors(tmp_path: Path):
    x = flyc.from_dlpack(np.zeros((3, 5), np.float32))
    y = np.zeros((5, 3), np.float32)
    flyc.export_raw(transpose_add, tmp_path, args=(x, y), target="cpu:native")
    source = """
#include "transpose_add.h"
#include <stdio.h>
int main(void) {
  float x[15], y[40] = {0};
  for (int i = 0; i < 15; i++) x[i] = i;
  transpose_add_x from = {.data = x};
  transpose_add_y to = {.data = y, .extent0 = 5, .extent1 = 3, .stride0 = 8};
  if (transpose_add(from, to, NULL, NULL)) return 1;
  for (int j = 0; j < 5; j++) for (int i = 0; i < 3; i++) if (y[8 * j + i] != x[5 * i + j]) return 2;
  return 0;
}
"""
    program = build(tmp_path, source, f"-L{tmp_path}", "-ltranspose_add", "-lm", "-lpthread")
    assert subprocess.run([str(program)]).returncode == 0


GPU_PROGRAM = """
#include "step.h"
#include <stdio.h>

static int calls;
static int32_t record(void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz,
                      uint32_t shared, void *stream, void **params, void **extra) {
  printf("{\\"function\\": \\"%s\\", \\"grid\\": [%u, %u, %u]", (const char *)function, gx, gy, gz);
  printf(", \\"block\\": [%u, %u, %u], \\"shared\\": %u, \\"stream\\": %d", bx, by, bz, shared, stream == (void *)7);
  if (calls++ == 0) printf(", \\"x\\": %d, \\"n\\": %d, \\"a\\": %g", *(void **)params[0] == (void *)4096,
                           *(int32_t *)params[NPARAM], *(float *)params[APARAM]);
  printf("}\\n");
  (void)extra;
  return calls == 3 ? 700 : 0;
}

int main(void) {
  void *handles[STEP_KERNELS];
  for (int i = 0; i < STEP_KERNELS; i++) handles[i] = (void *)step_kernels[i];
  step_x x = {.data = (void *)4096, .extent0 = 1000};
  step_y y = {.data = (void *)8192, .extent0 = 1000};
  flydsl_failure failure = {0};
  if (step(handles, record, x, y, 1000, 2.5f, (void *)7, &failure)) return 1;
  return step(handles, record, x, y, 1000, 2.5f, (void *)7, &failure) == 700 && failure.kernel == 0 ? 0 : 2;
}
"""


@pytest.mark.parametrize(("target", "ext"), [("rocm:gfx942", "hsaco"), ("cuda:sm_90a", "ptx")])
def test_c55_a_c_program_launches_an_exported_gpu_function(target: str, ext: str, tmp_path: Path):
    """The driver is a function of the test: what it is given is what a GPU would get."""
    files = flyc.export_raw(step, tmp_path, args=SPECS, target=target)
    assert files["device"].name == f"step.{ext}" and files["host"].name == "step.o"
    about: dict[str, Any] = json.loads(files["metadata"].read_text())
    first = about["kernels"][0]
    types = [p["type"] for p in first["parameters"]]
    defines = [f"-DNPARAM={types.index('i32')}", f"-DAPARAM={types.index('float')}"]
    program = build(tmp_path, GPU_PROGRAM, str(files["host"]), *defines)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert calls[0] == {
        "function": "axpy_kernel_0",
        "grid": [16, 1, 1],
        "block": [64, 1, 1],
        "shared": 0,
        "stream": 1,
        "x": 1,
        "n": 1000,
        "a": 2.5,
    }
    assert calls[1]["function"] == "reverse_kernel_0" and calls[1]["grid"] == [15, 1, 1]
    assert first["name"].encode() in files["device"].read_bytes()


def test_c55_metadata_says_where_every_byte_goes(tmp_path: Path):
    files = flyc.export_raw(step, tmp_path, args=SPECS, target="rocm:gfx942")
    about = json.loads(files["metadata"].read_text())
    assert [a["name"] for a in about["arguments"]] == ["x", "y", "n", "a", "stream"]
    x = about["arguments"][0]
    assert (x["kind"], x["dtype"], x["shape"], x["strides"]) == ("tensor", "Float32", [None], [1])
    assert x["storages"][1] == {
        "kind": "layout",
        "size": 4,
        "fields": [{"kind": "extent", "dimension": 0, "offset": 0, "size": 4}],
    }
    for kernel in about["kernels"]:
        end = max(p["offset"] + p["size"] for p in kernel["parameters"])
        # The code object says itself how much memory its arguments take.
        assert end <= kernel["kernarg_size"] < end + 8 + 256
        assert all(p["offset"] % p["align"] == 0 for p in kernel["parameters"])


def test_mistakes(tmp_path: Path):
    with pytest.raises(TypeError, match="expects a @flyc.jit function"):
        flyc.export_raw(print, tmp_path, args=())  # pyright: ignore[reportArgumentType]
