"""The process's one runtime: registration, pairing, states, reset."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from flydsl.errors import ForkedProcessError, InvalidHandleError, NotSupportedError, RuntimeStateError
from flydsl.runtime import (
    Buffer,
    CpuDeviceRuntime,
    DeviceRuntime,
    Stream,
    device_runtime_state,
    ensure_compile_runtime_compatible,
    ensure_compile_runtime_pairing_from_env,
    get_device_runtime,
    list_device_runtimes,
    register_compile_runtime_mapping,
    register_device_runtime,
    reset_device_runtime,
)
from flydsl.runtime import device_runtime as module


class Minimal(DeviceRuntime):
    """Only what is abstract; does not even call super().__init__()."""

    kind: ClassVar[str] = "cpu"

    def __init__(self) -> None:
        self.calls = 0

    def device_count(self) -> int:
        return 1

    def current_device_id(self) -> int:
        return 0

    def synchronize(self, device: int | None = None) -> None:
        self.calls += 1

    def alloc(
        self, nbytes: int, *, device: int | None = None, stream: int | None = None, alignment: int = 256
    ) -> Buffer:
        return Buffer(self, 0, nbytes, 0)


class Other(Minimal):
    kind: ClassVar[str] = "other"


def test_r16_minimal_runtime_works_and_the_rest_is_not_supported():
    runtime = Minimal()
    assert runtime.device_count() == 1
    with pytest.raises(NotSupportedError, match="the cpu runtime does not support module_load") as caught:
        runtime.module_load(b"")
    assert isinstance(caught.value, NotImplementedError)


def test_states_and_r6_registration():
    assert device_runtime_state() == "unset"
    register_device_runtime(Minimal)
    assert device_runtime_state() == "selected"
    with pytest.raises(ValueError, match="force=True"):
        register_device_runtime(Minimal)
    register_device_runtime(Minimal, force=True)
    runtime = get_device_runtime()
    assert isinstance(runtime, Minimal) and get_device_runtime() is runtime
    assert device_runtime_state() == "created"
    with pytest.raises(RuntimeError, match="exists already"):
        register_device_runtime(Minimal)
    register_device_runtime(Minimal, force=True)
    assert get_device_runtime() is not runtime and not runtime.alive


def test_r7_no_replacement_after_gpu_work():
    register_device_runtime(Minimal)
    runtime = get_device_runtime()
    runtime.device_count()
    assert device_runtime_state() == "created", "queries are no GPU work"
    runtime.alloc(1)
    assert device_runtime_state() == "active"
    with pytest.raises(RuntimeStateError, match="reset_device_runtime"):
        register_device_runtime(Minimal, force=True)
    reset_device_runtime()
    assert device_runtime_state() == "unset"
    register_device_runtime(Minimal)


def test_r7_reset_invalidates_handles():
    runtime = get_device_runtime()
    buffer, stream = runtime.alloc(8), Stream()
    reset_device_runtime()
    for use in (lambda: buffer.ptr, stream.synchronize, buffer.free):
        with pytest.raises(InvalidHandleError, match="was reset"):
            use()
    assert get_device_runtime() is not runtime


@pytest.mark.parametrize("bad", [object, "cpu", DeviceRuntime])
def test_only_complete_runtime_classes_register(bad: object):
    with pytest.raises(TypeError):
        register_device_runtime(bad)  # type: ignore[arg-type]


def test_r13_kind_is_derived_from_the_backend(monkeypatch: pytest.MonkeyPatch):
    for backend in ("rocm", "cuda", "cpu"):
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", backend)
        ensure_compile_runtime_pairing_from_env(backend)
        assert device_runtime_state() == "unset", "checking makes no runtime"
    assert isinstance(get_device_runtime(), CpuDeviceRuntime)


def test_r13_mismatch_names_both_ids_and_variables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "cuda")
    for check in (lambda: ensure_compile_runtime_pairing_from_env("cpu"), get_device_runtime):
        with pytest.raises(RuntimeError, match="requires device runtime kind 'cpu'.*'cuda'") as caught:
            check()
        assert "FLYDSL_COMPILE_BACKEND" in str(caught.value) and "FLYDSL_RUNTIME_KIND" in str(caught.value)
    assert device_runtime_state() == "unset"
    monkeypatch.delenv("FLYDSL_RUNTIME_KIND")
    ensure_compile_runtime_pairing_from_env("cpu")


def test_r10_unknown_kind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "vulkan")
    with pytest.raises(ValueError, match="Unknown FLYDSL_RUNTIME_KIND 'vulkan'.*cpu, cuda, rocm"):
        get_device_runtime()


def test_r12_mappings(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match="register_compile_runtime_mapping"):
        ensure_compile_runtime_pairing_from_env("strange")
    register_compile_runtime_mapping("Strange", "cpu")
    ensure_compile_runtime_pairing_from_env("strange")
    ensure_compile_runtime_compatible("strange")
    with pytest.raises(RuntimeError, match="requires device runtime kind 'rocm'"):
        ensure_compile_runtime_compatible("rocm", runtime=get_device_runtime())


def test_active_runtime_binds_the_process(monkeypatch: pytest.MonkeyPatch):
    get_device_runtime().alloc(1)
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    with pytest.raises(RuntimeError, match="requires device runtime kind 'cuda'"):
        ensure_compile_runtime_pairing_from_env("cuda")


def test_runtime_of_another_kind_needs_its_backend():
    register_device_runtime(Other, kind="other")
    assert "other" in list_device_runtimes()
    with pytest.raises(RuntimeError, match="requires device runtime kind"):
        get_device_runtime()
    del module._registry.kinds["other"]  # pyright: ignore[reportPrivateUsage]


ENTRY_POINT_SITE = {
    "thing-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
    "thing-1.0.dist-info/entry_points.txt": "[flydsl.runtimes]\nthing = thing:Runtime\nbroken = nowhere:Runtime\n",
    "thing.py": """
from flydsl.runtime import DeviceRuntime
class Runtime(DeviceRuntime):
    kind = "thing"
    def device_count(self): return 3
    def current_device_id(self): return 0
""",
}


def test_r11_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, text in ENTRY_POINT_SITE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    register_compile_runtime_mapping("thing_backend", "thing")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "thing_backend")
    assert {"thing", "broken"} <= set(list_device_runtimes()) and "thing" not in sys.modules
    assert get_device_runtime().device_count() == 3
    reset_device_runtime()
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND")
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "broken")
    with pytest.raises(ImportError, match="Device runtime 'broken' failed to import") as caught:
        get_device_runtime()
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    assert "broken" not in list_device_runtimes()
    reset_device_runtime()
    registry = module._registry  # pyright: ignore[reportPrivateUsage]
    registry.kinds.pop("thing", None)
    registry.import_errors.clear()


def test_r39_forked_child_of_an_initialised_driver():
    class Driver(Minimal):
        kind: ClassVar[str] = "cpu"

    runtime = Driver()
    runtime.alloc(1)
    runtime.after_fork_in_child()
    with pytest.raises(ForkedProcessError, match="spawn"):
        runtime.alloc(1)
    clean = Driver()
    clean.after_fork_in_child()
    clean.alloc(1)


def test_import_is_free_of_side_effects():
    code = (
        "import sys, threading; import flydsl.runtime, flydsl.runtime.device; "
        "bad = [m for m in ('torch', 'numpy', 'xdsl', 'llvmlite', 'subprocess') if m in sys.modules]; "
        "from flydsl.runtime import device_runtime_state; "
        "assert threading.active_count() == 1 and device_runtime_state() == 'unset'; "
        "maps = open('/proc/self/maps').read(); assert 'libcuda.' not in maps and 'libamdhip64' not in maps; "
        "assert not [b for b in bad if b != 'subprocess'], bad"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
