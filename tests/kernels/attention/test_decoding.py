"""How few queries meet keys on Hopper: how L2 is asked for these."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels import attention

from .oracle import random


def launched(monkeypatch: pytest.MonkeyPatch, *args: Any, **options: Any) -> tuple[Any, tuple[Any, ...]]:
    """The kernel that a call of `attention` launches, and what with."""
    place = importlib.import_module("flydsl.kernels.attention.hopper")
    kernel, given = place.hopper_attention, []
    with monkeypatch.context() as patch:
        patch.setattr(place, "hopper_attention", lambda *args: given.append(args))
        attention(*args, **options)
    return kernel, given[0]


@pytest.mark.parametrize(("queries", "fetch"), [(33, 128), (130, 256)])
def test_keys_that_are_read_once_come_line_by_line(
    queries: int, fetch: int, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch
):
    """Asking L2 for two lines at a time takes 8 % of an H200's memory's speed."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    # Extents no other test has: what was compiled is kept.
    q, k = random(rng, 1, queries, 2, 48), random(rng, 1, 141, 2, 48)
    kernel, given = launched(monkeypatch, q, k, k)
    seen: list[int] = []
    make = fx.nvgpu.make_tma_atom

    def describe(*args: Any, l2_fetch: int = 256, **options: Any):
        seen.append(l2_fetch)
        return make(*args, l2_fetch=l2_fetch, **options)

    monkeypatch.setattr(fx.nvgpu, "make_tma_atom", describe)
    flyc.compile(kernel, *given, target="cuda:sm_90a")
    assert seen[1:3] == [fetch, fetch]
