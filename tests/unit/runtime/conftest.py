"""Each test starts and ends without a device runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flydsl.runtime import device_runtime


@pytest.fixture(autouse=True)
def fresh_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("FLYDSL_COMPILE_BACKEND", "FLYDSL_RUNTIME_KIND", "FLYDSL_COMPILE_ARCH", "ARCH", "FLYDSL_GPU_ARCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    device_runtime.reset_device_runtime()
    yield
    device_runtime.reset_device_runtime()
