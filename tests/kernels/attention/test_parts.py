"""`combine` against float64: parts of keys as few and as many as there may be, and how many a call takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.kernels import attention
from flydsl.kernels.attention import calls, lengths
from flydsl.kernels.attention.combine import combine
from flydsl.kernels.attention.plan import FEW, MOST, parts_for, splits_for, tile_for_few
from flydsl.kernels.matmul import workspace

from .oracle import oracle, random


@pytest.mark.parametrize(
    ("arch", "splits", "dv", "sink"),
    [
        ("sm_90a", 3, 64, False),
        ("sm_90a", FEW, 192, True),
        ("sm_90a", FEW + 1, 192, True),
        ("sm_90a", 132, 512, False),
        ("gfx942", 40, 64, False),
        ("gfx942", MOST, 64, False),
        ("sm_90a", MOST, 16, False),
        ("native", 2, 256, True),
        ("native", 131, 72, True),
    ],
)
def test_parts_become_one(arch: str, splits: int, dv: int, sink: bool, rng: np.random.Generator, emulate, monkeypatch):
    """Parts without a key, and a row without any."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    emulate(arch)
    batches, heads, queries = 2, 3, 2
    parts = torch.from_numpy(rng.standard_normal((splits, batches, heads, queries, dv))).float()
    heights = torch.from_numpy(rng.uniform(-40.0, 40.0, (splits, batches, heads, queries))).float()
    gone = torch.from_numpy(rng.random((splits, batches, heads, queries)) < 0.3)
    gone[:, 1, 2, 1] = True
    heights[gone], parts[gone] = float("-inf"), 0.0
    sinks = torch.from_numpy(rng.uniform(-5.0, 45.0, heads)).float() if sink else None
    out = torch.full((batches, queries, heads, dv), float("nan"), dtype=torch.float32)
    lse = torch.full((batches, heads, queries), float("nan"))
    steps = out.stride()
    combine(
        parts, heights, out, lse, sinks, splits, batches, queries, heads, steps[0], steps[1], steps[2], dv, splits > FEW
    )
    columns = heights.double()
    if sinks is not None:
        columns = torch.cat([columns, sinks.double().reshape(1, 1, heads, 1).expand(1, batches, heads, queries)])
    want_lse = columns.logsumexp(0)
    weights = (heights.double() - want_lse).exp().nan_to_num(0.0)
    want = (weights[..., None] * parts.double()).sum(0)
    torch.testing.assert_close(lse.double(), want_lse, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out.double().transpose(1, 2), want, rtol=1e-4, atol=1e-4)


def test_one_sequence_is_cut_for_all_multiprocessors():
    assert splits_for(1, 4096, 132) == 128
    assert splits_for(2, 4096, 132) == 64
    assert splits_for(1, 20, 132) <= 10
    assert splits_for(132, 4096, 132) == 1
    assert splits_for(1, 1 << 20, 300) <= MOST


def test_parts_of_a_consumer_fill_waves():
    """Shapes that were measured on an H200, of 132 multiprocessors."""
    wide, short = tile_for_few(128, 128, 0), tile_for_few(64, 64, 0)
    assert (wide.blocks, short.blocks, short.n) == (1, 2, 64)
    assert parts_for(264, 64, 1056, wide, 132, 1.0) == 1
    assert parts_for(66, 36, 264, wide, 132, 1.0) == 2
    assert parts_for(88, 88, 88, short, 132, 1.0) == 3
    assert parts_for(528, 60, 4224, short, 132, 1.0) == 1
    # Lengths may differ: more parts, so that none is left alone with a long one.
    assert parts_for(128, 288, 512, short, 132, 1.0) == 1
    assert 6 <= parts_for(128, 288, 512, short, 132, 0.5) <= 32
    assert 2 <= parts_for(512, 64, 2048, wide, 132, 0.5) <= 8
    # Half of the multiprocessors are as good as all; between them pairs wait for each other.
    widest = tile_for_few(256, 256, 0)
    assert parts_for(16, 320, 128, widest, 132, 1.0) == 4
    assert parts_for(46, 128, 368, widest, 132, 1.0) >= 6
    assert parts_for(30, 96, 240, wide, 132, 1.0) == 4
    assert parts_for(47, 122, 47, wide, 132, 1.0) >= 6
    assert parts_for(92, 66, 368, wide, 132, 1.0) >= 3
    assert parts_for(96, 84, 96, tile_for_few(96, 96, 0), 132, 1.0) >= 3
    for steps in (1, 2, 5, 1 << 14):
        for tile in (wide, short):
            assert 1 <= parts_for(1, steps, 1, tile, 300, 0.5) <= max(1, min(MOST, steps // 2))


@pytest.mark.parametrize("counts", [[150, 150, 150], [150, 20, 1], [0, 0, 0], [140, 150, 128]])
@pytest.mark.parametrize(("paged", "equal"), [(False, 2), (True, 2), (True, 1)])
def test_lengths_pick_the_parts_where_the_host_has_not_seen_them(
    counts: list[int], paged: bool, equal: int, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch
):
    """As in a graph: the device takes the one of two numbers that fits; parts of the other one are not touched, none
    are where that is one."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    parts = {1.0: equal, 0.5: 5}
    monkeypatch.setattr(calls, "parts_for", lambda *numbers: parts[numbers[-1]])
    # Other extents, since decisions are kept.
    pages = 10 if equal > 1 else 11
    rows = 16 * pages
    monkeypatch.setattr(lengths, "_read", lambda *_: lengths.Longest(1, rows, None))
    rooms: dict[str, torch.Tensor] = {}

    def room(like: torch.Tensor, what: str, size: int, dtype: str, stream: object, zero: bool = False) -> torch.Tensor:
        made = torch.full((size,), 0 if zero else float("nan"), dtype=getattr(torch, dtype))
        return rooms.setdefault(what, made)

    monkeypatch.setattr(workspace, "scratch", room)
    q, k, v = (random(rng, 3, n, h, 64, dtype=torch.bfloat16) for n, h in ((1, 4), (rows, 2), (rows, 2)))
    used, more = torch.tensor(counts, dtype=torch.int32), {}
    given_k, given_v = k, v
    if paged:
        order = torch.from_numpy(rng.permutation(3 * pages))
        given_k, given_v = (x.reshape(3 * pages, 16, 2, 64)[order].contiguous() for x in (k, v))
        more = {"block_table": order.argsort().to(torch.int32).reshape(3, pages)}
    out, lse = attention(q, given_k, given_v, seqlens_k=used, return_lse=True, **more)
    mixed = counts == [150, 20, 1]
    heights = rooms["attention heights"].reshape(5, 3, 2, 2)
    touched = 5 if mixed else 0 if equal == 1 else equal
    assert not heights[:touched].isnan().any() and heights[touched:].isnan().all()
    for i, count in enumerate(counts):
        if count == 0:
            assert not out[i].any() and (lse[i] == float("-inf")).all()
            continue
        want, tops, _ = oracle(q[i : i + 1], k[i : i + 1, :count], v[i : i + 1, :count])
        torch.testing.assert_close(out[i : i + 1].double(), want, rtol=0, atol=2e-2)
        torch.testing.assert_close(lse[i : i + 1].double(), tops, rtol=1e-3, atol=1e-3)


def test_lengths_that_are_all_the_same_take_the_parts_of_such(monkeypatch: pytest.MonkeyPatch):
    """Where the host reads them, it knows their mean as well; in sixteenths, so that few decisions are made."""
    counts = [np.array(x, dtype=np.int32) for x in ([7, 7, 7], [7, 1, 1], [0, 0, 0], [160, 160, 159])]
    assert [lengths._share(x.tolist()) for x in counts] == [1.0, 0.4375, 1.0, 0.9375]
    shares: list[float | None] = []
    monkeypatch.setattr(calls, "parts_for", lambda *numbers: shares.append(numbers[-1]) or 1)
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    q, k = torch.randn(3, 1, 2, 64).bfloat16(), torch.randn(3, 7, 2, 64).bfloat16()
    for used in (None, counts[0], counts[1]):
        attention(q, k, k, seqlens_k=None if used is None else torch.from_numpy(used))
    assert shares == [1.0, 1.0, 0.4375]
