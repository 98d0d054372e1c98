"""Compiling without arrays, exporting to a file, loading it in a process without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.build.artifact import ArtifactFormatError
from flydsl.errors import ArtifactMismatchError, FlyRuntimeError
from flydsl.runtime import get_device_runtime, reset_device_runtime


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, a: fx.Float32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        y[i] = a * x[i] + y[i]


@flyc.jit
def axpy(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, a: fx.Float32, stream: fx.Stream = fx.Stream(None)):
    axpy_kernel(x, y, n, a).launch(grid=fx.ceildiv(n, 64), block=64, stream=stream)


@flyc.kernel
def clear_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = fx.Uint8(0)


@flyc.jit
def clear(x: fx.Tensor):
    clear_kernel(x).launch(grid=1, block=64)


SPECS = (flyc.TensorSpec((7,), "float32"), flyc.TensorSpec((7,), fx.Float32), flyc.ScalarSpec(fx.Int32), 2.0)


def arrays(n: int = 1001):
    x, y = np.random.default_rng().standard_normal((2, n)).astype(np.float32)
    return x, y, n, 3.0


def test_specs_and_arrays_have_equal_keys():
    x, y, n, a = arrays()
    assert axpy.bind(SPECS, {}).key == axpy.bind((x, y, n, a), {}).key
    fixed = axpy.bind((flyc.TensorSpec((5,), "float32", dynamic=False), *SPECS[1:]), {}).key
    assert fixed == axpy.bind((flyc.from_dlpack(x[:5]), *SPECS[1:]), {}).key


@pytest.mark.parametrize("target", ["cpu:native", "rocm:gfx942", "cuda:sm_90a"])
def test_compile_from_specs(target: str):
    artifact = flyc.compile(axpy, *SPECS, target=target).artifact
    assert len(artifact.binary()) > 100


def test_spec_errors():
    with pytest.raises(ValueError, match="differ in length"):
        flyc.TensorSpec((2, 3), "float32", (1,))
    with pytest.raises(TypeError, match="unsupported dtype"):
        flyc.TensorSpec((2,), "complex64")


def test_export_and_load(tmp_path: Path):
    path = tmp_path / "axpy.flyaot"
    flyc.export(axpy, path, args=SPECS, targets=["cpu:native", "rocm:gfx942", "cuda:sm_90a"])
    loaded = flyc.load(path)
    assert len(loaded.targets) == 3
    assert loaded.artifact("rocm:gfx942").binary("hsaco")[:4] == b"\x7fELF"
    assert b".entry axpy_kernel_0" in loaded.artifact("cuda:sm_90a").binary("ptx")
    x, y, n, a = arrays()
    expected = a * x.astype(np.float64) + y
    loaded(x, y, n, a)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


def test_a_loaded_function_goes_where_its_arrays_are(tmp_path: Path):
    """Memory that is gone is refused, and a new runtime gets the code anew."""
    path = tmp_path / "axpy.flyaot"
    flyc.export(axpy, path, args=SPECS)
    loaded = flyc.load(path)
    x, y = np.ones((2, 100), np.float32)
    loaded(x, y, 100, 2.0)
    reset_device_runtime()
    loaded(x, y, 100, 2.0)
    assert (y == 5).all()
    flyc.export(clear, path, args=(flyc.TensorSpec((64,), "uint8"),))
    loaded, room = flyc.load(path), get_device_runtime().alloc(64)
    inside = flyc.from_dlpack(room).mark_layout_dynamic()
    room.fill(7)
    loaded(inside)
    assert bytes(room.memoryview()) == bytes(64)
    room.free()
    with pytest.raises(FlyRuntimeError, match="closed"):
        loaded(inside)


class Scaled:
    def __init__(self, factor: float):
        self.factors = [factor]

    @flyc.jit
    def axpy(self, x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
        axpy_kernel(x, y, n, fx.Float32(self.factors[0])).launch(grid=fx.ceildiv(n, 64), block=64)


def test_methods_are_exported_with_what_their_object_holds(tmp_path: Path):
    for factor in (2.0, 3.0):
        path = tmp_path / f"{factor}.flyaot"
        flyc.export(Scaled(factor).axpy, path, args=SPECS[:3])
        x, y = np.ones((2, 100), np.float32)
        flyc.load(path)(x, y, 100)
        assert (y == 1 + factor).all()


def test_a_loading_process_needs_no_compiler(tmp_path: Path):
    path = tmp_path / "axpy.flyaot"
    flyc.export(axpy, path, args=SPECS)
    script = (
        "import sys, numpy as np, flydsl.compiler as flyc\n"
        f"f = flyc.load({str(path)!r})\n"
        "x = np.ones(100, np.float32); y = np.ones(100, np.float32)\n"
        "f(x, y, 100, 2.0)\n"
        "assert (y == 3).all()\n"
        "assert not any(m.split('.')[0] == 'xdsl' for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ})


def test_mismatches(tmp_path: Path):
    path = tmp_path / "axpy.flyaot"
    flyc.export(axpy, path, args=SPECS, targets=["rocm:gfx942"])
    x, y, n, a = arrays()
    with pytest.raises(ArtifactMismatchError, match="backend is 'rocm', expected 'cpu'"):
        flyc.load(path)(x, y, n, a)
    flyc.export(axpy, path, args=SPECS)
    with pytest.raises(ArtifactMismatchError, match="argument 'x'"):
        flyc.load(path)(x.astype(np.float64), y, n, a)
    with pytest.raises(TypeError, match="takes 4 to 5 run-time arguments"):
        flyc.load(path)(x, y)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactFormatError):
        flyc.load(path)
