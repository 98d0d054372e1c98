"""Tests that have the cpu stack emulate an AMD GPU run its machine code instead: `pytest -p tests.isa.plugin FILE`.

They were written for the emulation of the IR; a test that is about the cpu stack itself (its checks, its reports) has no
meaning here and fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from .gpu import Gpu, executing

_ARCH, _BACKEND, _CHECK = "FLYDSL_COMPILE_ARCH", "FLYDSL_COMPILE_BACKEND", "FLYDSL_CPU_CHECK"
_plain = pytest.MonkeyPatch.setenv


class _Switch:
    """The GPU of a test, from the moment it names an architecture."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.gpu: Gpu | None = None

    def setenv(self, patch: pytest.MonkeyPatch, name: str, value: str, prepend: str | None = None) -> None:
        if name == _ARCH and value.startswith("gfx"):
            self.stack.close()
            self.gpu = self.stack.enter_context(executing(value))
            return
        if self.gpu is not None and (name == _CHECK or (name == _BACKEND and value == "cpu")):
            return
        _plain(patch, name, value, prepend)


@pytest.fixture(autouse=True)
def machine_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    switch = _Switch()

    def setenv(patch: pytest.MonkeyPatch, name: str, value: str, prepend: str | None = None) -> None:
        if patch is monkeypatch:
            switch.setenv(patch, name, value, prepend)
        else:
            _plain(patch, name, value, prepend)

    with pytest.MonkeyPatch.context() as outer:
        outer.setattr(pytest.MonkeyPatch, "setenv", setenv)
        with switch.stack:
            yield
            if switch.gpu is not None:
                print(f"executed {switch.gpu.hip.launches}, {switch.gpu.hip.instructions} instructions")
