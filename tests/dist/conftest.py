"""Ranks of the cpu stack, and fresh random data."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from flydsl.runtime import device_runtime

sys.path.insert(0, str(Path(__file__).parent))  # processes import what they run by its name


@pytest.fixture(autouse=True)
def cpu_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    device_runtime.reset_device_runtime()


@pytest.fixture
def seed() -> int:
    """A fresh one in every run; printed with a failure."""
    found = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {found}")
    return found
