"""Random kernels with results: the cpu stack gives what numpy gives, bit for bit, optimised or not, checked or not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.fuzz.results import WARPS, wrong

import flydsl.compiler as flyc
import flydsl.expr as fx

FIRST = int(os.environ.get("RANDOM_RESULTS_FROM", "0"))
COUNT = int(os.environ.get("RANDOM_RESULTS", "6"))
"""How many kernels for each architecture, and the first seed: a search takes thousands, the tests the same few."""
WAYS = ({}, {"FLYDSL_COMPILE_OPT_LEVEL": "0"}, {"FLYDSL_COMPILE_OPT_LEVEL": "0", "FLYDSL_CPU_CHECK": "1"})


@pytest.mark.parametrize("arch", WARPS)
def test_random(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "0")
    first = FIRST + list(WARPS).index(arch) * COUNT
    for seed in range(first, first + COUNT):
        with monkeypatch.context() as patch:
            for name, value in WAYS[seed % 3].items():
                patch.setenv(name, value)
            assert wrong(seed, arch, tmp_path / f"results_{seed}.py") is None


def test_zeros_of_both_signs():
    """A vector of them is no vector of one of them."""

    def zeros():
        v, w = (fx.Vector.from_elements(x, fx.Float32) for x in ([-0.0, 0.0], [0.0, -0.0]))
        return v[0], v[1], w[0], w[1]

    assert list(np.signbit(flyc.evaluate(zeros, target="cpu:native"))) == [True, False, False, True]
