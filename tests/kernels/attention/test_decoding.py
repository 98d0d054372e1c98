"""How few queries meet keys on Hopper: how L2 is asked for these, and who takes which."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels import attention
from flydsl.kernels.attention import calls
from flydsl.kernels.attention.request import check
from flydsl.kernels.attention.tile import Tile
from flydsl.kernels.matmul.arrays import describe
from flydsl.kernels.matmul.calls import Target
from flydsl.target import GPUTarget

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


@pytest.mark.parametrize("page", [16, 4])
def test_few_blocks_take_many_tiles_of_pages(page: int, rng: np.random.Generator, emulate, monkeypatch):
    """By a counter where the copy engine is asked for pages, which is zero again afterwards; sequences without keys."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    emulate("sm_90a")
    lengths = [96, 0, 33, 1, 0, 64, 7]
    table = torch.from_numpy(rng.permutation(7 * 96 // page).reshape(7, -1).astype("i4"))
    k, v = (random(rng, 7 * 96 // page, page, 1, 64) for _ in range(2))
    q, used = random(rng, 7, 1, 2, 64), torch.tensor(lengths, dtype=torch.int32)
    out = torch.full_like(q, float("nan"))
    request = check(
        *(describe(name, x) for name, x in zip("qkv", (q, k, v), strict=True)), False, None, None, None,
        table=describe("block_table", table), used_k=describe("seqlens_k", used),
    )  # fmt: skip
    monkeypatch.setattr(calls, "tile_for_few", lambda d, dv, page, size: Tile(d, dv, 32, 1))
    monkeypatch.setattr(calls, "splits_for", lambda *_: 1)
    run = calls.on_hopper(request, describe("out", out), Target(GPUTarget.parse("cuda:sm_90a"), 2))
    assert run is not None
    none = (None, None, None)
    run(calls.Given(q, k, v, out, None, None, None, None, None, None, used, table, none, (0, 0, 1.0)), 1, 96, None)
    for b, n in enumerate(lengths):
        rows = [x[table[b].long()].reshape(1, 96, 1, 64)[:, :n] for x in (k, v)]
        want = torch.zeros(1, 2, 64).double()
        if n:
            scores = q[b, 0].double() @ rows[0][0, :, 0].double().T * 64**-0.5
            want = scores.softmax(-1) @ rows[1][0, :, 0].double()
        torch.testing.assert_close(out[b, 0].double(), want.reshape(2, 64), rtol=2e-2, atol=2e-2)
