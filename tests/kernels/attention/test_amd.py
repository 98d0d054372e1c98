"""`attention` on AMD GPUs: every element against float64 in checked mode, places in shared memory, main loops."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from flydsl.kernels import attention
from flydsl.kernels.attention import calls, entry
from flydsl.kernels.attention.amd import calls as amd_calls
from flydsl.kernels.attention.amd import places
from flydsl.kernels.attention.amd.plan import machine_for, tile_for
from flydsl.kernels.attention.amd.tile import Machine, Tile, keys_cut, problem, shared_bytes, values_cut
from flydsl.target import GPUTarget

from .oracle import compare, kept_of, oracle, random

ROOT = Path(__file__).resolve().parents[3]
ARCHES = ("gfx942", "gfx950", "gfx1201")
F16, F32 = torch.float16, torch.float32


def small_tile(machine: Machine, d: int, dv: int, queries: int, shared: int) -> Tile:
    """As many cases, in less code."""
    n = 16 * machine.each // machine.run
    return Tile(d, dv, max(n, machine.span, 32), 16, 2)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, emulate):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setattr(amd_calls, "tile_for", small_tile)

    def refuse(*_: object) -> None:
        pytest.fail("attention took the general kernel")

    monkeypatch.setattr(calls, "anywhere", refuse)
    entry._decided.clear()
    yield emulate
    entry._decided.clear()


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHES)
def test_ragged_rows_and_keys(arch: str, rng: np.random.Generator, small):
    """Ends inside tiles, several steps, heads that share keys; a tile of few and of no keys."""
    small(arch)
    for b, s, sk in ((2, 37, 75), (1, 3, 5)):
        q, k, v = random(rng, b, s, 4, 64), random(rng, b, sk, 2, 64), random(rng, b, sk, 2, 32)
        compare(attention(q, k, v, causal=True, return_lse=True), q, k, v, causal=True)
    q, k, v = random(rng, 1, 40, 1, 64), random(rng, 1, 9, 1, 64), random(rng, 1, 9, 1, 32)
    out, lse = attention(q, k, v, causal=True, return_lse=True)
    compare((out, lse), q, k, v, causal=True)
    assert torch.isneginf(lse[0, 0, :31]).all() and not out[0, :31].any()
