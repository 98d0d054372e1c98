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
        self.busy = False

    def choose(self, arch: str) -> None:
        """Another architecture, or none of ours."""
        self.busy = True
        self.stack.close()
        self.gpu = self.stack.enter_context(executing(arch)) if arch.startswith("gfx") else None
        self.busy = False

    def setenv(self, patch: pytest.MonkeyPatch, name: str, value: str, prepend: str | None = None) -> None:
        if self.busy:
            _plain(patch, name, value, prepend)
            return
        if name == _ARCH:
            self.choose(value)
        if self.gpu is None or not (name in (_ARCH, _CHECK) or (name == _BACKEND and value == "cpu")):
            _plain(patch, name, value, prepend)


@pytest.fixture(autouse=True)
def machine_code() -> Iterator[None]:
    switch = _Switch()

    def setenv(patch: pytest.MonkeyPatch, name: str, value: str, prepend: str | None = None) -> None:
        switch.setenv(patch, name, value, prepend)

    with pytest.MonkeyPatch.context() as outer:
        outer.setattr(pytest.MonkeyPatch, "setenv", setenv)
        with switch.stack:
            yield
            if switch.gpu is not None:
                print(f"executed {switch.gpu.hip.launches}, {switch.gpu.hip.instructions} instructions")
            switch.busy = True
