"""Calls like one before: nothing is decided again, and nothing that may have changed is taken for what it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import attention, repeats
from flydsl.kernels.attention import entry, lengths
from flydsl.kernels.matmul import workspace

from .oracle import compare, random

OFTEN = repeats.OFTEN + 2
"""Calls after which the native look has been made and was used."""
PAGE = 4


@pytest.fixture(autouse=True)
def anew(emulate: Callable[[str], None]):
    emulate("native")
    entry.forget()
    yield
    entry.forget()


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Lengths are read as if that was to wait for a GPU; what is read is told."""
    read: list[object] = []
    really = lengths._read

    def reading(*given: Any) -> lengths.Longest:
        read.append(given)
        return really(*given)

    monkeypatch.setattr(lengths, "on_host", lambda kind: False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(lengths, "_read", reading)
    lengths._found.clear()
    return read


def decided(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a call gives that is like earlier ones: it asks nothing of its arrays."""
    with monkeypatch.context() as patch:
        patch.setattr(entry, "array_key", lambda x: pytest.fail("it was decided again"))
        return make()


def dense(rng: np.random.Generator, keys: int = 11, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [random(rng, 2, n, h, 16, dtype=dtype) for n, h in ((1, 4), (keys, 2), (keys, 2))]


def test_tensors_change(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Others of the same extents are served as well; other strides, extents and types are decided for anew."""
    q, k, v = dense(rng)
    for _ in range(OFTEN):
        attention(q, k, v, return_lse=True)
    for _ in range(3):
        q, k, v = dense(rng)
        compare(decided(partial(attention, q, k, v, return_lse=True), monkeypatch), q, k, v)
    turned = k.transpose(1, 2).contiguous().transpose(1, 2)
    compare(attention(q, turned, v, return_lse=True), q, k, v)
    longer = dense(rng, 13)
    compare(attention(*longer, return_lse=True), *longer)
    compare(attention(q[:1], k[:1], v[:1], return_lse=True), q[:1], k[:1], v[:1])
    halves = dense(rng, dtype=torch.float16)
    compare(attention(*halves, return_lse=True), *halves)
    compare(decided(partial(attention, q, k, v, return_lse=True), monkeypatch), q, k, v)


def test_constants_change(rng: np.random.Generator):
    q, k, v = (random(rng, 1, 6, 2, 16, dtype=torch.float32) for _ in range(3))
    given: list[dict[str, Any]] = [{}, {"causal": True}, {"window": (2, 1)}, {"scale": 1}, {"softcap": 2.0}]
    for _ in range(OFTEN):
        for more in given:
            compare(attention(q, k, v, return_lse=True, **more), q, k, v, **more)
    assert torch.is_tensor(attention(q, k, v, scale=1))


@pytest.mark.parametrize(
    ("before", "change", "text"),
    [
        ({"scale": 1}, {"scale": True}, "scale is a finite number"),
        ({"softcap": 1.0}, {"softcap": True}, "softcap is a finite number"),
        ({"window": (1, 1)}, {"window": (True, 1)}, "a side of window"),
        ({"dropout": 0.0}, {"dropout": False}, "dropout is the share"),
        ({"scale": 1}, {"scale": [1]}, "scale is a finite number"),
        ({"window": (1, 1)}, {"window": ([1], 1)}, "a side of window"),
    ],
)
def test_what_is_equal_and_not_the_same_is_refused(before: dict[str, Any], change: dict[str, Any], text: str):
    """True is 1, and a list has no hash."""
    x = torch.zeros(1, 3, 2, 16)
    for _ in range(OFTEN):
        attention(x, x, x, **before)
    with pytest.raises((DSLTypeError, DSLValueError), match=text):
        attention(x, x, x, **change)


def pages(rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, pages of keys and of values, and for two sequences of up to 12 keys their pages and lengths."""
    q = random(rng, 2, 1, 4, 16, dtype=torch.float32)
    k, v = (random(rng, 9, PAGE, 2, 16, dtype=torch.float32) for _ in range(2))
    return q, k, v, torch.tensor([[0, 3, 5], [7, 1, 8]], dtype=torch.int32), torch.tensor([9, 12], dtype=torch.int32)


def check_pages(found: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, used: torch.Tensor):
    out, lse = found
    for i, count in enumerate(used.tolist()):
        rows = [x[table[i].long()].reshape(1, -1, 2, 16)[:, :count] for x in (k, v)]
        compare((out[i : i + 1], lse[i : i + 1]), q[i : i + 1], *rows)


@pytest.mark.parametrize("gpu", [False, True])
def test_numbers_change_in_place(gpu: bool, rng: np.random.Generator, monkeypatch, request: pytest.FixtureRequest):
    """Lengths and pages: what was written is seen by the next call, and refused where it points outside."""
    read = request.getfixturevalue("on_gpu") if gpu else []
    q, k, v, table, used = pages(rng)

    def now() -> Any:
        return attention(q, k, v, block_table=table, seqlens_k=used, return_lse=True)

    for _ in range(OFTEN):
        check_pages(now(), q, k, v, table, used)
    assert len(read) == int(gpu)
    used[0] = 2
    check_pages(decided(now, monkeypatch), q, k, v, table, used)
    table[1, 0] = 2
    check_pages(decided(now, monkeypatch), q, k, v, table, used)
    used.data = torch.tensor([5, 7], dtype=torch.int32)
    check_pages(decided(now, monkeypatch), q, k, v, table, used)
    table[1, 0] = 9
    with pytest.raises(DSLValueError, match=r"block_table\[1, 0\] is 9"):
        now()
    table[1, 0], used[0] = 2, 13
    with pytest.raises(DSLValueError, match=r"seqlens_k\[0\] is 13"):
        now()
    used[0] = 12
    check_pages(decided(now, monkeypatch), q, k, v, table, used)
    q, k, v, table, used = pages(rng)
    used[1] = 3
    check_pages(decided(now, monkeypatch), q, k, v, table, used)


def test_lengths_are_read_once_for_calls_of_several_kinds(on_gpu: list[object], rng: np.random.Generator):
    """As layers with and without a window have them, which take turns."""
    q, k, v, table, used = pages(rng)
    for _ in range(OFTEN):
        for window in (None, (3, 0)):
            attention(q, k, v, block_table=table, seqlens_k=used, window=window)
    assert len(on_gpu) == 1
    attention(q, k[:8], v[:8], block_table=table.clamp(max=7), seqlens_k=used)
    attention(q, k[:9], v[:9], block_table=table, seqlens_k=used)
    assert len(on_gpu) == 2, "another table"
    with pytest.raises(DSLValueError, match=r"block_table\[1, 2\] is 8, and k has 8 pages"):
        attention(q, k[:8], v[:8], block_table=table, seqlens_k=used)


def test_a_result_that_is_given_is_looked_at_each_time(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    q, k, v = dense(rng)
    out = torch.empty_like(q)
    for _ in range(OFTEN):
        assert attention(q, k, v, out=out) is out
    assert torch.equal(decided(partial(attention, q, k, v, out=torch.zeros_like(q)), monkeypatch), out)
    with pytest.raises(DSLValueError, match="out overlaps q"):
        attention(q, k, v, out=q)
    memory = torch.cat([k.flatten(), torch.zeros(q.numel())])
    near = memory[k.numel() - 16 :][: q.numel()].view(q.shape)
    with pytest.raises(DSLValueError, match="out overlaps k"):
        attention(q, memory[: k.numel()].view(k.shape), v, out=near)


def test_rooms_are_found_once_for_a_stream(monkeypatch: pytest.MonkeyPatch):
    """Each stream has its own; one that grows is another for all, and a graph that is captured gets fresh ones."""
    made: list[tuple[int, object]] = []
    now: dict[str, Any] = {"stream": 5, "captured": False}

    def empty(count: int, **rest: Any) -> torch.Tensor:
        made.append((count, now["stream"]))
        return really(count, dtype=rest["dtype"])

    really = torch.empty
    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda self: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: now["captured"])
    monkeypatch.setattr(workspace, "on_host", lambda kind: False)
    monkeypatch.setattr(workspace, "torch_stream_accessor", lambda: lambda index: now["stream"])
    monkeypatch.setattr(workspace, "_kept", {})
    monkeypatch.setattr(workspace, "_together", {})
    monkeypatch.setattr(workspace, "_in_order_of", lambda place: nullcontext())
    like = torch.zeros(1)
    small, large = (workspace.Room("a", 4, "float32"), None), (workspace.Room("a", 9, "float32"), None)
    first = workspace.rooms(like, small, None)
    assert first[1] is None and workspace.rooms(like, small, None)[0] is first[0] and len(made) == 1
    assert workspace.rooms(like, large, None)[0] is workspace.rooms(like, small, None)[0] is not first[0]
    assert made == [(4, 5), (9, 5)]
    now["stream"] = 6
    assert workspace.rooms(like, small, None)[0] is workspace.rooms(like, small, 6)[0] and len(made) == 3
    assert workspace.rooms(like, small, 5)[0] is not workspace.rooms(like, small, 6)[0] and len(made) == 3
    now["captured"] = True
    assert workspace.rooms(like, small, None)[0] is not workspace.rooms(like, small, None)[0] and len(made) == 5
