"""What the tests of bits share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests verify the IR of all that is used here."""
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "0")


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh random data in every run; the seed is printed with a failure."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture
def emulate(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Choose what the cpu stack emulates: `emulate("sm_90a")`."""

    def choose(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    return choose
