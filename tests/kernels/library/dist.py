"""Collectives, as a world of one rank: `tests/dist` has the others. Flags may hold anything that is small."""

from __future__ import annotations

import torch

from flydsl.kernels.dist.experts import combine, dispatch
from flydsl.kernels.dist.gather import all_gather
from flydsl.kernels.dist.matmul import all_gather_matmul, matmul_reduce_scatter
from flydsl.kernels.dist.reduce import all_reduce_one_shot, all_reduce_two_shot, reduce_scatter

from .case import Case

TARGETS = ("cuda:sm_90a", "rocm:gfx942")
ALONE = {"rank": 0, "ranks": 1}
FLAGS = {"flags": torch.int32}
ROWS = {"w": 1, "b": 8, "c": 2}


def _no_flags(t: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(t)


def _slots(t: torch.Tensor) -> torch.Tensor:
    return torch.arange(t.numel()).reshape(t.shape).to(t.dtype)


CASES = [
    Case(
        all_reduce_one_shot,
        {"x": "wn", "out": "n", "flags": "wbc"},
        {"n": 1001, **ROWS},
        lambda x, flags: x[0],
        TARGETS,
        "out",
        torch.float16,
        FLAGS,
        ALONE,
        place={"flags": _no_flags},
    ),
    Case(
        all_reduce_two_shot,
        {"x": "wn", "sums": "wp", "out": "n", "flags": "wbc"},
        {"n": 777, "p": 777, **ROWS},
        lambda x, sums, flags: x[0],
        TARGETS,
        "out",
        torch.bfloat16,
        FLAGS,
        ALONE,
        place={"flags": _no_flags},
    ),
    Case(
        reduce_scatter,
        {"x": "wn", "out": "p", "flags": "wbc"},
        {"n": 300, "p": 300, **ROWS},
        lambda x, flags: x[0],
        TARGETS,
        "out",
        dtypes=FLAGS,
        others=ALONE,
        place={"flags": _no_flags},
    ),
    Case(
        all_gather,
        {"x": "wn", "out": "wn", "flags": "wbc"},
        {"n": 513, **ROWS},
        lambda x, flags: x,
        TARGETS,
        "out",
        dtypes=FLAGS,
        others=ALONE,
        place={"flags": _no_flags},
    ),
    Case(
        dispatch,
        {
            **{"tokens": "th", "experts": "tk", "received": "wsrh", "owners": "wsr", "counts": "ws", "slots": "tk"},
            "flags": "wbc",
        },
        {"t": 9, "h": 21, "k": 1, "s": 1, "r": 9, **ROWS},
        # Every token has its one expert here, so its place is its number.
        lambda tokens, **_: tokens[None, None],
        TARGETS,
        "received",
        dtypes={**FLAGS, **dict.fromkeys(("experts", "owners", "counts", "slots"), torch.int32)},
        others={**ALONE, "per_rank": 2, "k": 1},
        place={"flags": _no_flags, "experts": lambda t: t.clamp(0, 1)},
    ),
    Case(
        combine,
        {
            **{"results": "wsrh", "experts": "tk", "slots": "tk", "weights": "tk", "out": "th"},
            "flags": "wbc",
        },
        {"t": 6, "h": 19, "k": 2, "s": 1, "r": 12, **ROWS},
        lambda results, weights, **_: (results[0, 0].reshape(6, 2, 19) * weights[..., None]).sum(1),
        TARGETS,
        "out",
        dtypes={**FLAGS, "experts": torch.int32, "slots": torch.int32},
        others={**ALONE, "per_rank": 2, "k": 2},
        terms="k",
        magnitude=lambda results, weights, **_: (results[0, 0].reshape(6, 2, 19) * weights[..., None]).sum(1),
        place={"flags": _no_flags, "experts": lambda t: t.clamp(0, 1), "slots": _slots},
    ),
    Case(
        all_gather_matmul,
        {"a": "wmk", "b": "nk", "c": "wmn", "flags": "wbc"},
        {"m": 33, "n": 17, "k": 19, **ROWS},
        lambda a, b, flags: a @ b.T,
        TARGETS,
        "c",
        torch.float16,
        FLAGS,
        ALONE,
        terms="k",
        magnitude=lambda a, b, flags: a @ b.T,
        place={"flags": _no_flags},
    ),
    Case(
        matmul_reduce_scatter,
        {"a": "mk", "b": "nk", "partial": "wmn", "out": "pn", "flags": "wbc"},
        {"m": 35, "n": 18, "k": 20, "p": 35, **ROWS},
        lambda a, b, partial, flags: a @ b.T,
        TARGETS,
        "out",
        torch.float16,
        {**FLAGS, "partial": torch.float32},
        ALONE,
        terms="k",
        magnitude=lambda a, b, partial, flags: a @ b.T,
        place={"flags": _no_flags},
    ),
]
