"""Every attention kernel for Hopper on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from .device import CALLS, replayed


@pytest.mark.cuda
@pytest.mark.parametrize("what", CALLS)
def test_numbers_on_a_gpu(what: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    CALLS[what](rng, "cuda")


@pytest.mark.cuda
@pytest.mark.parametrize(("b", "s"), [(16, 2048), (3, 1024)])
def test_lengths_of_a_graph_change(b: int, s: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Equal lengths of many sequences are one part of the keys, which needs no combining; others are several."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    replayed(b, s, 64, 8, 128)(rng, "cuda")


@pytest.mark.parametrize("what", ["backward 64, packed"])
def test_calls_are_right(what: str, rng: np.random.Generator, emulate):
    """The references and how calls are made, where there is no GPU."""
    emulate("sm_90a")
    CALLS[what](rng, "cpu")
