"""Tests that have the cpu stack emulate an AMD GPU run its machine code instead: `pytest -p tests.isa.plugin FILE`.

With `--isa gfx942` tests that name no AMD GPU run on that one, too.

They were written for the emulation of the IR; a test that is about the cpu stack itself (its checks, its reports) has
no meaning here and fails.
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

    def __init__(self, default: str) -> None:
        self.default = default
        self.stack = ExitStack()
        self.gpu: Gpu | None = None
        self.busy = False

    def choose(self, arch: str) -> None:
        """Another architecture; in place of one that is not AMD's, the one of `--isa`, or none."""
        arch = arch if arch.startswith("gfx") else self.default
        self.busy = True
        self.stack.close()
        self.gpu = self.stack.enter_context(executing(arch)) if arch else None
        self.busy = False

    def setenv(self, patch: pytest.MonkeyPatch, name: str, value: str, prepend: str | None = None) -> None:
        if self.busy:
            _plain(patch, name, value, prepend)
            return
        if name == _ARCH:
            self.choose(value)
        if self.gpu is None or not (name in (_ARCH, _CHECK) or (name == _BACKEND and value == "cpu")):
            _plain(patch, name, value, prepend)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--isa", default="", metavar="ARCH", help="the GPU of tests that name none, such as gfx942")


@pytest.fixture(autouse=True)
def machine_code(request: pytest.FixtureRequest) -> Iterator[None]:
    arch = str(request.config.getoption("--isa"))
    switch = _Switch(arch)

    def setenv(patch: pytest.MonkeyPatch, name: str, value: str, prepend: str | None = None) -> None:
        switch.setenv(patch, name, value, prepend)

    with pytest.MonkeyPatch.context() as outer:
        outer.setattr(pytest.MonkeyPatch, "setenv", setenv)
        with switch.stack:
            if arch:
                switch.choose(arch)
            yield
            if switch.gpu is not None:
                print(f"executed {switch.gpu.hip.launches}, {switch.gpu.hip.instructions} instructions")
            switch.busy = True
