"""Gradients on Hopper: sequences of any lengths and sizes of a head, against float64's, sequence by sequence."""

from __future__ import annotations

import importlib
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels.attention import attention_backward
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx

from .oracle import kept_of, oracle, random
from .test_gradients import gradients

ALLOWED = {torch.float16: 2e-3, torch.bfloat16: 2e-2}
backward: Any = importlib.import_module("flydsl.kernels.attention.backward")


class Problem(NamedTuple):
    """Sequences one behind the other, and what is known of them."""

    arrays: dict[str, torch.Tensor]
    """As `attention_backward` takes them, by name."""
    lengths: tuple[list[int], list[int]]
    wanted: list[torch.Tensor]
    ill: int
    """A sequence of NaNs, between others."""


def starts(lengths: list[int]) -> list[int]:
    return [0, *accumulate(lengths)]


def parts_of(lengths: tuple[list[int], list[int]]) -> list[tuple[slice, slice]]:
    """A sequence's rows, of queries and of keys."""
    first, second = map(starts, lengths)
    pairs = zip(zip(first, first[1:], strict=False), zip(second, second[1:], strict=False), strict=True)
    return [(slice(*a), slice(*b)) for a, b in pairs]


def problem(
    rng: np.random.Generator, lengths: tuple[list[int], list[int]], sizes: tuple[int, int, int, int],
    dtype: torch.dtype, packed: tuple[bool, bool], more: dict[str, Any], drop: dict[str, Any],
) -> Problem:  # fmt: skip
    heads, kv_heads, d, dv = sizes
    behind = [3 if x else 0 for x in packed]
    rows = [sum(of) + more_rows for of, more_rows in zip(lengths, behind, strict=True)]
    shapes = {"q": (rows[0], heads, d), "k": (rows[1], kv_heads, d), "v": (rows[1], kv_heads, dv)}
    arrays = {name: random(rng, *shape, dtype=dtype) for name, shape in shapes.items()}
    arrays["grad"] = random(rng, rows[0], heads, dv, dtype=dtype)
    arrays["out"], arrays["lse"] = torch.zeros_like(arrays["grad"]), torch.zeros(heads, rows[0])
    q, k, v, grad = (arrays[name] for name in ("q", "k", "v", "grad"))
    wanted = [torch.zeros(x.shape, dtype=torch.float64) for x in (q, k, v)]
    count = len(lengths[0])
    for i, (a, b) in enumerate(parts_of(lengths)):
        known = dict(more)
        if drop:
            shape = (1, count * heads, lengths[0][i], lengths[1][i])
            known["kept"] = kept_of(shape, drop["dropout"], drop["seed"])[:, i * heads : (i + 1) * heads]
        found, heights, _ = oracle(q[None, a], k[None, b], v[None, b], **known)
        arrays["out"][a], arrays["lse"][:, a] = found[0].nan_to_num().to(dtype), heights[0].float()
        some = gradients(q[None, a], k[None, b], v[None, b], grad[None, a], **known)
        for whole, part, where in zip(wanted, some, (a, b, b), strict=True):
            whole[where] = part[0]
    # What lies behind a sequence's end is none of its business.
    ill = count // 2
    for name, x in arrays.items():
        side = name in ("k", "v")
        if name == "lse":
            x[:, parts_of(lengths)[ill][0]] = float("nan")
        else:
            x[parts_of(lengths)[ill][side]] = float("nan")
            x[rows[side] - behind[side] :] = float("nan")
    for name, x in arrays.items():
        if not packed[name in ("k", "v")]:
            shape = x.reshape(heads, count, -1).transpose(0, 1) if name == "lse" else x.reshape(count, -1, *x.shape[1:])
            arrays[name] = shape.contiguous()
    return Problem(arrays, lengths, wanted, ill)


def check(found: tuple[torch.Tensor, ...], made: Problem) -> None:
    """Every sequence but the ill one, and the rows of none."""
    for i, (got, want) in enumerate(zip(found, made.wanted, strict=True)):
        flat = got.reshape(want.shape)
        for which, parts in enumerate(parts_of(made.lengths)):
            where = parts[i > 0]
            if which != made.ill and want[where].numel():
                allowed = ALLOWED[got.dtype] * max(1.0, want[where].abs().max().item())
                worst = (flat[where].double() - want[where]).abs().max().item()
                assert worst <= allowed, (i, which, worst / allowed)
        assert not flat[sum(made.lengths[i > 0]) :].any()


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch):
    """Memory that has not been written is NaN; and no other kernel comes to help."""

    def ill(make):
        def made(*args, **more):
            x = make(*args, **more)
            if x.dtype.is_floating_point:
                x.fill_(float("nan"))
            return x

        return made

    for name in ("empty", "scratch"):
        monkeypatch.setattr(backward, name, ill(getattr(backward, name)))
    monkeypatch.delattr(importlib.import_module("flydsl.kernels.attention.plain_backward"), "plain_backward")


PACKED = [
    (([5, 0, 70, 1], [20, 3, 130, 0]), (2, 1, 128, 128), torch.bfloat16, (True, True), {}),
    (([130, 0, 9, 20, 1], [40, 3, 50, 70, 9]), (2, 2, 64, 64), torch.float16, (True, True), {"causal": True}),
    (([50, 50, 50], [70, 9, 130]), (1, 1, 64, 64), torch.bfloat16, (False, True), {"window": (20, 10)}),
    (([50, 64, 9], [70, 70, 70]), (2, 1, 128, 128), torch.float16, (True, False), {"window": (20, 10)}),
    (([50, 7, 66], [33, 9, 70]), (2, 1, 64, 64), torch.bfloat16, (True, True), {"dropout": 0.3, "seed": 5}),
    (([70, 7, 66], [133, 9, 150]), (2, 1, 128, 128), torch.bfloat16, (True, True),
     {"deterministic": True, "causal": True}),
]  # fmt: skip
SIZES = [
    (([70, 1, 9], [70, 3, 130]), (2, 1, 96, 96), torch.bfloat16, (True, True), {"causal": True, "deterministic": True}),
    (([70, 70, 70], [140, 140, 140]), (2, 1, 80, 80), torch.float16, (False, False), {"causal": True}),
    (([130, 130, 130], [40, 40, 40]), (1, 1, 32, 32), torch.bfloat16, (False, False), {"causal": True}),
    (([30, 5, 70], [33, 9, 70]), (2, 2, 112, 64), torch.bfloat16, (True, True), {"window": (30, 5)}),
    (([70, 5, 9], [70, 9, 13]), (1, 1, 48, 16), torch.float16, (True, True), {"dropout": 0.2, "seed": -3}),
    (([66, 66, 66], [20, 20, 20]), (2, 1, 16, 128), torch.float16, (False, False), {}),
]  # fmt: skip
CAPPED = [
    (([70, 9, 20], [33, 9, 140]), (2, 1, 64, 64), torch.float16, (True, True), {"causal": True, "softcap": 1.5}),
    (([66, 66, 66], [20, 20, 20]), (1, 1, 128, 128), torch.bfloat16, (False, False), {"softcap": 4.0, "scale": 0.3}),
    (([70, 1, 9], [30, 3, 50]), (2, 1, 96, 96), torch.bfloat16, (True, True),
     {"window": (9, 30), "softcap": 0.7, "dropout": 0.25, "seed": 77}),
]  # fmt: skip


WIDE = [
    (([5, 0, 70, 1], [20, 3, 130, 0]), (2, 1, 256, 256), torch.bfloat16, (True, True), {}),
    (([130, 0, 9, 20, 1], [40, 3, 50, 70, 1]), (2, 1, 192, 128), torch.float16, (True, True), {"causal": True}),
    (([1, 9, 66], [70, 9, 200]), (1, 1, 128, 192), torch.bfloat16, (True, True), {"causal": True}),
    (([50, 50, 50], [70, 9, 130]), (1, 1, 136, 72), torch.bfloat16, (False, True), {"window": (20, 10)}),
    (([50, 64, 9], [70, 70, 70]), (2, 1, 192, 128), torch.float16, (True, False), {"window": (20, 10)}),
    (([50, 7, 66], [33, 9, 70]), (2, 1, 192, 128), torch.bfloat16, (True, True), {"dropout": 0.3, "seed": 5}),
    (([70, 7, 66], [133, 9, 150]), (2, 1, 192, 128), torch.bfloat16, (True, True),
     {"deterministic": True, "window": (40, 0)}),
    (([66, 66, 66], [20, 20, 20]), (1, 1, 256, 256), torch.bfloat16, (False, False), {"softcap": 4.0, "scale": 0.3}),
    (([70, 1, 9], [30, 3, 80]), (2, 1, 192, 128), torch.float16, (True, True),
     {"causal": True, "softcap": 0.7, "dropout": 0.25, "seed": 77}),
]  # fmt: skip


@pytest.mark.parametrize(("lengths", "sizes", "dtype", "packed", "more"), [*PACKED, *SIZES, *CAPPED, *WIDE])
def test_every_sequence(lengths, sizes, dtype, packed, more, rng, emulate, poisoned, monkeypatch: pytest.MonkeyPatch):
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    drop = {name: more[name] for name in ("dropout", "seed") if name in more}
    order = {name: more[name] for name in ("deterministic",) if name in more}
    what = {name: x for name, x in more.items() if name not in (*drop, *order)}
    made = problem(rng, lengths, sizes, dtype, packed, what, drop)
    names = ("cu_seqlens_q", "cu_seqlens_k")
    cu: Any = {
        name: torch.tensor(starts(of), dtype=torch.int32)
        for name, of, is_packed in zip(names, lengths, packed, strict=True)
        if is_packed
    }
    x = made.arrays
    given = (x["grad"], x["q"], x["k"], x["v"], x["out"], x["lse"])
    found = attention_backward(*given, **cu, **more)
    check(found, made)
    if order:
        again = attention_backward(*given, **cu, **more)
        assert all(torch.equal(a.view(torch.int16), b.view(torch.int16)) for a, b in zip(found, again, strict=True))


STAYING = [
    (([130, 130], [140, 140]), (2, 2, 128, 128), torch.bfloat16, {}, 1),
    (([70, 70, 70], [200, 200, 200]), (4, 2, 112, 64), torch.float16, {}, 3),
    (([50, 50], [300, 300]), (2, 1, 96, 80), torch.bfloat16, {"softcap": 2.0}, 3),
    (([66, 66, 66], [150, 150, 150]), (2, 1, 32, 64), torch.float16, {"dropout": 0.25, "seed": 9}, 2),
]


@pytest.mark.parametrize(("lengths", "sizes", "dtype", "more", "processors"), STAYING)
def test_blocks_that_stay(lengths, sizes, dtype, more, processors, rng, emulate, poisoned, monkeypatch):
    """Of equal tiles of keys a block takes several, an odd number of steps each."""
    forms = []
    form_for, target_of = backward.form_for, backward.target_of
    monkeypatch.setattr(backward, "form_for", lambda *args: forms.append(form_for(*args)) or forms[-1])
    monkeypatch.setattr(backward, "target_of", lambda x: target_of(x)._replace(processors=processors))
    test_every_sequence(lengths, sizes, dtype, (False, False), more, rng, emulate, poisoned, monkeypatch)
    assert forms[0].stays


@pytest.mark.parametrize(("d", "packed"), [(96, False), (80, True), (128, True)])
def test_nothing_spills(d: int, packed: bool, emulate, monkeypatch: pytest.MonkeyPatch):
    if tools.try_find_tool("ptxas") is None:
        pytest.skip("no ptxas on this machine")
    emulate("sm_90a")
    place: Any = importlib.import_module("flydsl.kernels.attention.hopper_backward")
    launch, calls = place.hopper_backward, []
    monkeypatch.setattr(place, "hopper_backward", lambda *args: calls.append(args))
    x, lse = torch.zeros(2, 70, 2, d, dtype=torch.bfloat16), torch.zeros(2, 2, 70)
    cu: Any = {}
    if packed:
        x, lse = x.reshape(140, 2, d), lse.reshape(2, 140)
        cu = dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), torch.tensor([0, 50, 140], dtype=torch.int32))
    attention_backward(x, x, x, x, x, lse, causal=True, **cu)
    text = flyc.compile(launch, *calls[0], target="cuda:sm_90a").artifact.binary("ptx").decode()
    _, log = ptx.assemble(text, "sm_90a")
    used = ptx.parse_log(log)
    assert len(used) == 3 and all(kernel.spill_stores == 0 for kernel in used.values()), used
