"""The registry and the runtime are left as they were found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flydsl.compiler import backends
from flydsl.runtime import device_runtime


@pytest.fixture(autouse=True)
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("FLYDSL_COMPILE_BACKEND", "FLYDSL_COMPILE_ARCH", "ARCH", "FLYDSL_GPU_ARCH", "FLYDSL_RUNTIME_KIND"):
        monkeypatch.delenv(name, raising=False)
    registry = backends._registry  # pyright: ignore[reportPrivateUsage]
    registry.__init__()
    device_runtime.reset_device_runtime()
    yield
    registry.__init__()
    device_runtime.reset_device_runtime()
