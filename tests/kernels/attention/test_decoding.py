"""How few queries meet keys on Hopper: who brings these, and how L2 is asked for them."""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels import attention
from flydsl.kernels.attention import calls
from flydsl.kernels.attention.calls import Wanted
from flydsl.kernels.attention.plan import threads_fetch, tile_for_few
from flydsl.kernels.attention.request import check
from flydsl.kernels.attention.tile import Tile
from flydsl.kernels.matmul.arrays import describe
from flydsl.kernels.matmul.calls import Target
from flydsl.target import GPUTarget

from .oracle import compare, random


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
    monkeypatch.setattr(calls, "parts_for", lambda *_: 1)
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


def test_who_brings_pages():
    for wide in (64, 96, 256):
        for page in (1, 2, 4, 8, 5, 24, 48, 96, 160):
            assert threads_fetch(page, 2, wide)
        for page in (0, 32, 64, 128, 256, 1024):
            assert not threads_fetch(page, 2, wide)
            assert not page or tile_for_few(128, 128, page).n % min(page, 128) == 0
        assert not threads_fetch(1, 1, wide)
        # Two blocks share a multiprocessor up to 64 elements.
        assert threads_fetch(16, 2, wide) == (tile_for_few(wide, wide, 16).blocks == 1)


def test_no_fence_holds_up_copies_of_threads(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """A fence is behind the wait of who reads; in front of the arrival, copies are still on their way."""
    emulate("sm_90a")
    table = torch.zeros(1, 139, dtype=torch.int32)
    used = torch.full((1,), 139, dtype=torch.int32)
    q, k = random(rng, 1, 1, 2, 64), random(rng, 3, 1, 2, 64)
    kernel, given = launched(monkeypatch, q, k, k, block_table=table, seqlens_k=used)
    text = flyc.compile(kernel, *given, target="cuda:sm_90a").artifact.binary("ptx").decode()
    arrivals = re.findall(r"(\S+)[^;\n]*;\s*cp\.async\.mbarrier\.arrive\.noinc", text)
    assert arrivals == ["cp.async.cg.shared.global"] * 2
    waits = text.split("mbarrier.try_wait")[1:]
    assert sum("fence.proxy.async" in x.split("wgmma")[0] for x in waits if "wgmma.mma_async" in x) >= 3


@pytest.mark.parametrize("d", [64, 96, 128, pytest.param(256, marks=pytest.mark.slow)])
def test_small_pages_as_they_are(d: int, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Sequences of no key, one, and more than a step; values that are not finite behind the last key."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    emulate("sm_90a")
    lengths, page = [0, 1, 150], 3
    table = torch.from_numpy(rng.permutation(150).reshape(3, 50).astype("i4"))
    k, v = (torch.full((150, page, 2, d), float("nan"), dtype=torch.bfloat16) for _ in range(2))
    q = random(rng, 3, 1, 8, d)
    dense = [[random(rng, 1, n, 2, d) for _ in range(2)] for n in lengths]
    for b, n in enumerate(lengths):
        for i in range(n):
            k[table[b, i // page], i % page], v[table[b, i // page], i % page] = dense[b][0][0, i], dense[b][1][0, i]
    used = torch.tensor(lengths, dtype=torch.int32)
    out, lse = attention(q, k, v, block_table=table, seqlens_k=used, return_lse=True)
    assert not out[0].any() and torch.isneginf(lse[0]).all()
    for b in (1, 2):
        compare((out[b : b + 1], lse[b : b + 1]), q[b : b + 1], *dense[b])


ENGINE, THREADS = Wanted(by_threads=False), Wanted(by_threads=True)


@pytest.mark.parametrize(
    ("page", "d", "dv", "wanted"),
    [
        (1, 64, 64, THREADS),
        (3, 64, 64, THREADS._replace(splits=3)),
        (8, 128, 128, THREADS._replace(splits=2)),
        (16, 64, 64, ENGINE._replace(splits=2)),
        (16, 64, 64, THREADS),
        (32, 96, 64, THREADS._replace(dynamic=False)),
        (32, 64, 64, ENGINE._replace(splits=3)),
        (64, 48, 80, THREADS),
        (96, 64, 128, THREADS),
        (128, 64, 64, ENGINE),
        (256, 64, 64, ENGINE._replace(dynamic=False)),
        (0, 64, 64, THREADS._replace(splits=2)),
        (0, 64, 64, Wanted(Tile(64, 64, 64, 1, 3, blocks=2))),
    ],
)
def test_every_way_to_bring_keys(
    page: int, d: int, dv: int, wanted: Wanted, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch
):
    """Pages in any order, lengths that end anywhere in them and in steps, and what lies behind is not finite."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    emulate("sm_90a")
    lengths, room, each = [0, 1, 129, 300, 256], 300, page or 300
    width = -(-room // each)
    where = rng.permutation(len(lengths) * width) if page else np.arange(len(lengths))
    table = torch.from_numpy(where.reshape(len(lengths), width).astype("i4"))
    k, v = (torch.full((len(where), each, 2, e), float("nan"), dtype=torch.bfloat16) for e in (d, dv))
    dense = [(random(rng, 1, n, 2, d), random(rng, 1, n, 2, dv)) for n in lengths]
    for b, n in enumerate(lengths):
        for start in range(0, n, each):
            count = min(each, n - start)
            for pool, rows in zip((k, v), dense[b], strict=True):
                pool[table[b, start // each], :count] = rows[0, start : start + count]
    q, used = random(rng, len(lengths), 1, 8, d), torch.tensor(lengths, dtype=torch.int32)
    out, lse = torch.full((len(lengths), 1, 8, dv), float("nan"), dtype=q.dtype), torch.empty(len(lengths), 8, 1)
    given = table if page else None
    request = check(
        *(describe(name, x) for name, x in zip("qkv", (q, k, v), strict=True)), False, None, None, None,
        table=None if given is None else describe("block_table", given), used_k=describe("seqlens_k", used),
    )  # fmt: skip
    run = calls.on_hopper(request, describe("out", out), Target(GPUTarget.parse("cuda:sm_90a"), 3), wanted)
    assert run is not None
    none = (None, None, None)
    run(calls.Given(q, k, v, out, lse, None, None, None, None, None, used, given, none, (0, 0, 1.0)), 1, room, None)
    assert not out[0].any() and torch.isneginf(lse[0]).all()
    for b in range(1, len(lengths)):
        compare((out[b : b + 1], lse[b : b + 1]), q[b : b + 1], *dense[b])
