"""Examples as fixtures."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from flydsl.llvm import codegen

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


KEPT = 100
_made: dict[object, codegen.DeviceCode] = {}


@pytest.fixture(scope="module", autouse=True)
def quick_host_code() -> Iterator[None]:
    """Two thirds of the time of tests on the cpu stack go to LLVM: at O1 it takes a third less, and equal texts once.

    Other tests compile for the cpu stack at O2, as users do: examples, ports, torch's operators, bits, debugging.
    """
    compile_device, host = codegen.compile_device, codegen.DeviceTarget.host().triple

    def quick(text: str, target: codegen.DeviceTarget, level: int = 2, **more: Any) -> codegen.DeviceCode:
        if target.triple != host:
            return compile_device(text, target, level, **more)
        level = min(level, 1)
        key = hashlib.sha256(text.encode()).digest(), target, level, tuple(sorted(more.items()))
        if key not in _made:
            if len(_made) >= KEPT:
                del _made[next(iter(_made))]
            _made[key] = compile_device(text, target, level, **more)
        return _made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codegen, "compile_device", quick)
        yield


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
