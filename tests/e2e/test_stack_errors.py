"""Mistakes about stacks, devices and memory: a named error each, and the process goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import InvalidHandleError, RuntimeStateError, StackMismatchError, TargetError
from flydsl.runtime import (
    CpuDeviceRuntime,
    Device,
    dlpack,
    get_device_runtime,
    register_device_runtime,
    reset_device_runtime,
)


@flyc.kernel
def one_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    if i < n:
        x[i] = x[i] + x[i]


@flyc.jit
def twice(x: fx.Tensor, n: fx.Int32):
    one_kernel(x, n).launch(grid=1, block=64)


@pytest.fixture(autouse=True)
def still_usable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After every mistake here a correct call works, in the same process."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    reset_device_runtime()
    yield
    for name in ("FLYDSL_RUNTIME_KIND", "FLYDSL_COMPILE_ARCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    x = np.arange(32, dtype=np.int32)
    twice(x, 32)
    assert np.array_equal(x, 2 * np.arange(32))
    reset_device_runtime()


def x() -> np.ndarray:
    return np.ones(16, np.int32)


def test_unknown_backend(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "metal")
    with pytest.raises(ValueError, match=r"Unknown compile backend 'metal'.*cpu, cuda, rocm"):
        twice(x(), 16)


def test_unknown_arch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx943")
    with pytest.raises(TargetError, match=r"gfx943.*gfx942"):
        twice(x(), 16)


def test_r14_a_pair_that_does_not_fit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "rocm")
    with pytest.raises(
        StackMismatchError, match=r"'cpu' requires device runtime kind 'cpu'.*'rocm'.*FLYDSL_RUNTIME_KIND"
    ):
        twice(x(), 16)
    monkeypatch.setenv("FLYDSL_COMPILE_ONLY", "1")
    with pytest.raises(StackMismatchError), monkeypatch.context():
        twice(x(), 16)
    monkeypatch.delenv("FLYDSL_COMPILE_ONLY")


def test_unknown_runtime_kind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "metal")
    with pytest.raises(
        (ValueError, StackMismatchError), match="Unknown FLYDSL_RUNTIME_KIND|requires device runtime kind"
    ):
        twice(x(), 16)


def test_a_second_runtime_after_the_first_was_used():
    class Other(CpuDeviceRuntime):
        kind: ClassVar[str] = "cpu"

    twice(x(), 16)
    get_device_runtime().alloc(4)
    for force in (False, True):
        with pytest.raises(RuntimeStateError, match="exists already|cannot be replaced"):
            register_device_runtime(Other, force=force)


def test_a_freed_buffer():
    buffer = get_device_runtime().alloc(16)
    buffer.free()
    with pytest.raises(InvalidHandleError, match="closed"):
        twice(buffer, 16)
    argument = flyc.from_dlpack(kept := get_device_runtime().alloc(16))
    kept.free()
    with pytest.raises(InvalidHandleError, match="closed"):
        twice(argument, 16)


def on_amd() -> Any:
    """Something that lends memory of an AMD GPU by DLPack."""
    owner = bytearray(16)
    capsule = dlpack.bytes_capsule(64, 16, (dlpack.ROCM, 0), owner)
    return SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (dlpack.ROCM, 0))


def on_nvidia() -> Any:
    """Something with the interface of arrays on NVIDIA GPUs."""
    interface = dict(shape=(4,), typestr="<i4", data=(64, False), version=3)
    return SimpleNamespace(__cuda_array_interface__=interface)


@pytest.mark.parametrize(("make", "stack"), [(on_nvidia, "cuda"), (on_amd, "rocm")])
def test_r1_arrays_of_another_stack(make: Any, stack: str):
    array = make()
    with pytest.raises(StackMismatchError, match=f"parameter 'x': the array is in {stack} memory"):
        twice(array, 4)


def test_a_device_of_another_stack():
    with pytest.raises(StackMismatchError, match="cuda stack, but this process uses cpu"):
        Device.from_external(SimpleNamespace(__dlpack_device__=lambda: (2, 0)))


NO_DEVICE = """
import os, sys
import numpy as np
import flydsl.compiler as flyc
from flydsl.errors import FlyRuntimeError, TargetDetectionError
from flydsl.runtime import reset_device_runtime
from flydsl.tools.smoke import add_one
x = np.zeros(8, np.uint8)
os.environ["FLYDSL_COMPILE_BACKEND"], os.environ["FLYDSL_COMPILE_ARCH"] = sys.argv[1:]
try:
    add_one(x, 8)
except FlyRuntimeError as error:
    assert "cpu" in str(error) and "FLYDSL_COMPILE_BACKEND" in str(error), error
assert flyc.compile(add_one, x, 8).artifact.binary(), "compiling needs no device"
del os.environ["FLYDSL_COMPILE_ARCH"]
try:
    add_one(x, 8)
except TargetDetectionError as error:
    assert "FLYDSL_COMPILE_ARCH is not set" in str(error), error
reset_device_runtime()
os.environ["FLYDSL_COMPILE_BACKEND"] = "cpu"
add_one(x, 8)
assert (x == 1).all(), "once, by the last call"
"""


@pytest.mark.parametrize(("backend", "arch"), [("rocm", "gfx942"), ("cuda", "sm_90")])
def test_b27_no_device_names_the_stacks_that_work(backend: str, arch: str):
    # In a process of its own: it may load a driver library, and two of those must not be mixed.
    if any(Path(node).exists() for node in ("/dev/kfd", "/dev/nvidiactl")):
        pytest.skip("this machine has a GPU")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", NO_DEVICE, backend, arch]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_r15_compile_only_makes_no_runtime():
    code = (
        "import numpy as np; from flydsl.tools.smoke import add_one\n"
        "add_one(np.zeros(8, np.uint8), 8)\n"
        "from flydsl.runtime import device_runtime_state; assert device_runtime_state() == 'unset'\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FLYDSL_COMPILE_ONLY": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
