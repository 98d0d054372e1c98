"""Examples as fixtures."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load_example(name: str) -> ModuleType:
    """An example file as a module."""
    full = f"flydsl_examples.{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, EXAMPLES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


VERIFIED = ("test_both_ways", "test_cross_compile", "test_library")
"""Modules that compile every operation and every kernel of the library: the others compile the same ones again."""


@pytest.fixture(autouse=True)
def verified_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The IR is verified after each pass in some modules only: it takes an eighth of the time."""
    if request.module.__name__.rpartition(".")[2] not in VERIFIED:
        monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "0")


@pytest.fixture
def example():
    return load_example


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where tensors live: on an NVIDIA GPU, or on the cpu stack emulating Hopper."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", request.param)
    if request.param == "cpu":
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh random data in every run; the seed is printed with a failure."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture
def emulate(monkeypatch: pytest.MonkeyPatch):
    """Choose what the cpu stack emulates: `emulate("gfx942")`."""

    def choose(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    return choose
