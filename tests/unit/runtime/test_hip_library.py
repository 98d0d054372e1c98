"""A real HIP library without a device: Debian's, which is old and lacks newer entry points."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = ctypes.util.find_library("amdhip64")

SCRIPT = """
from flydsl.errors import FlyRuntimeError, NotSupportedError, TargetDetectionError
from flydsl.runtime import Device, Stream, get_device_runtime
runtime = get_device_runtime()
assert runtime.kind == "rocm" and runtime.device_count() == 0, runtime.device_count()
assert "libamdhip64" in runtime.library_path() and runtime.driver_version() > 0
assert Device.all() == []
for attempt in (Device.current, Stream, lambda: runtime.alloc(16), lambda: runtime.device(0)):
    try:
        attempt()
    except FlyRuntimeError as error:
        text = str(error)
        assert "there is no rocm device" in text and "cpu" in text and "FLYDSL_COMPILE_BACKEND" in text
    else:
        raise AssertionError("worked without a device")
table = runtime.table()
assert table.has("launch") and table.has("module_load")
for name in ("launch_ex", "stream_device"):
    if not table.has(name):
        try:
            table.get(name)
        except NotSupportedError as error:
            assert "the driver library has no hip" in str(error)
        print("lacks", name)
from flydsl.compiler import backends
assert backends.get_backend("rocm", arch="gfx942").target.key() == "rocm:gfx942:w64"
print("ok")
"""


@pytest.mark.skipif(LIBRARY is None, reason="no HIP library: apt-get install libamdhip64-5")
@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine may have an AMD GPU")
def test_loads_and_reports_no_device():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FLYDSL_COMPILE_BACKEND": "rocm"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stdout + done.stderr
