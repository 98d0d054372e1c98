"""Small calls of every attention kernel for Hopper, for a GPU: numbers against float64, and what a sanitizer watches.

The same kernels run on the cpu stack in the other files of this folder, with small tiles; here tiles are those that
callers get.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from flydsl.kernels import attention, mla_decode
from flydsl.kernels.attention import attention_backward

from .oracle import compare, kept_of, random
from .test_fp8 import bytes_of, near
from .test_gradients import gradients
from .test_latent import near as near_latent

Call = Callable[[np.random.Generator, str], None]


def cpu(found: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(x.cpu() for x in found)


def forward(shape: tuple[int, ...], dtype: torch.dtype = torch.bfloat16, **more: Any) -> Call:
    """Batch, queries, keys, heads, heads of keys, d and that of values."""
    b, s, sk, h, hk, d, dv = shape

    def call(rng: np.random.Generator, device: str) -> None:
        q, k, v = (random(rng, b, *x, dtype=dtype) for x in ((s, h, d), (sk, hk, d), (sk, hk, dv)))
        given = dict(more)
        known = {name: x for name, x in more.items() if name not in ("dropout", "seed")}
        if "dropout" in more:
            known["kept"] = kept_of((b, h, s, sk), more["dropout"], more["seed"])
        out = torch.full((b, s, h, dv), float("nan"), dtype=dtype, device=device)
        found = attention(*(x.to(device) for x in (q, k, v)), out=out, return_lse=True, **given)
        compare(cpu(found), q, k, v, **known)

    return call


def decode(page: int, d: int, counts: list[int]) -> Call:
    """One query a sequence, keys in pages; pages that no sequence has are NaN."""

    def call(rng: np.random.Generator, device: str) -> None:
        b, room = len(counts), -(-max(counts) // page)
        q = random(rng, b, 1, 8, d)
        k, v = (random(rng, b, room * page, 2, d) for _ in range(2))
        order = torch.from_numpy(rng.permutation(b * room + 3))
        paged = []
        for x in (k, v):
            pages = torch.full((b * room + 3, page, 2, d), float("nan"), dtype=x.dtype)
            pages[: b * room] = x.reshape(b * room, page, 2, d)
            paged.append(pages[order].contiguous().to(device))
        table = order.argsort()[: b * room].to(torch.int32).reshape(b, room).to(device)
        used = torch.tensor(counts, dtype=torch.int32, device=device)
        out, lse = cpu(attention(q.to(device), *paged, block_table=table, seqlens_k=used, return_lse=True))
        for i, count in enumerate(counts):
            one = slice(i, i + 1)
            compare((out[one], lse[one]), q[one], k[one, :count], v[one, :count])

    return call


def replayed(b: int, s: int, page: int, heads_k: int, d: int) -> Call:
    """Captured once, with other lengths and keys at each replay of the graph: the device picks the number of parts."""

    def call(rng: np.random.Generator, device: str) -> None:
        room = s // page
        order = torch.from_numpy(rng.permutation(b * room))
        table = order.argsort().to(torch.int32).reshape(b, room).to(device)
        q, paged = random(rng, b, 1, 4 * heads_k, d).to(device), [
            torch.empty(b * room, page, heads_k, d, dtype=torch.bfloat16, device=device) for _ in range(2)
        ]  # fmt: skip
        used = torch.ones(b, dtype=torch.int32, device=device)
        out = torch.empty_like(q)

        def attend() -> torch.Tensor:
            return attention(q, *paged, block_table=table, seqlens_k=used, out=out, return_lse=True)[1]

        attend()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            lse = attend()
        some = rng.integers(0, s + 1, b).tolist()
        for counts in ([s] * b, some, [s] * b, [s - 1] * b, [0] * b, [*some[:-1], s]):
            k, v = (random(rng, b, s, heads_k, d) for _ in range(2))
            for x, into in ((k, paged[0]), (v, paged[1])):
                into.copy_(x.reshape(-1, page, heads_k, d)[order])
            used.copy_(torch.tensor(counts, dtype=torch.int32))
            out.fill_(float("nan"))
            lse.fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            for i in {0, b // 2, b - 1}:
                one, count = slice(i, i + 1), counts[i]
                if count == 0:
                    assert not out[i].any() and bool((lse[i] == float("-inf")).all())
                else:
                    compare((out[one].cpu(), lse[one].cpu()), q[one].cpu(), k[one, :count], v[one, :count])
            assert bool(torch.isfinite(out).all())

    return call


def eight_bits(s: int, d: int, causal: bool) -> Call:
    def call(rng: np.random.Generator, device: str) -> None:
        q, k, v = bytes_of(rng, 2, s, 4, d), bytes_of(rng, 2, s, 2, d), bytes_of(rng, 2, s, 2, d)
        found = attention(*(x.to(device) for x in (q, k, v)), causal=causal, return_lse=True)
        near(cpu(found), q.float(), k.float(), v.float(), causal=causal)

    return call


def latent(rows: int, keys: int, raw: bool) -> Call:
    def call(rng: np.random.Generator, device: str) -> None:
        q, kv = random(rng, 2, rows, 16, 576), random(rng, 2, keys, 576)
        kv = kv.to(torch.float8_e4m3fn) if raw else kv
        found = mla_decode(q.to(device), kv.to(device), dv=512, causal=True, scale=0.1, return_lse=True)
        near_latent(cpu(found), q, kv.double() if raw else kv, 512, causal=True, scale=0.1)

    return call


def backward(shape: tuple[int, ...], dtype: torch.dtype = torch.bfloat16, packed: bool = False, **more: Any) -> Call:
    """The gradients of `forward`'s extents; `packed`: of as many sequences behind each other, and NaN behind them."""
    b, s, sk, h, hk, d, dv = shape
    allowed = {torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]

    def call(rng: np.random.Generator, device: str) -> None:
        q, k, v = (random(rng, b, *x, dtype=dtype) for x in ((s, h, d), (sk, hk, d), (sk, hk, dv)))
        grad = random(rng, b, s, h, dv, dtype=dtype)
        known = {name: x for name, x in more.items() if name not in ("dropout", "seed", "deterministic")}
        way = {name: x for name, x in more.items() if name != "deterministic"}
        if "dropout" in more:
            known["kept"] = kept_of((b, h, s, sk), more["dropout"], more["seed"])
        arrays, cu = [x.to(device) for x in (q, k, v, grad)], {}
        if packed:
            ill = torch.full((7,), float("nan"), dtype=dtype, device=device)[:, None, None]
            arrays = [torch.cat([x.flatten(0, 1), ill.expand(7, *x.shape[2:])]) for x in arrays]
            names = ("cu_seqlens_q", "cu_seqlens_k")
            cu = {
                n: torch.arange(b + 1, dtype=torch.int32, device=device) * r
                for n, r in zip(names, (s, sk), strict=True)
            }  # fmt: skip
        out, lse = attention(*arrays[:3], return_lse=True, **cu, **way)
        found = cpu(attention_backward(arrays[3], *arrays[:3], out, lse, **cu, **more))
        for got, want in zip(found, gradients(q, k, v, grad, **known), strict=True):
            rows = want.shape[0] * want.shape[1]
            assert got.dtype == dtype and (not packed or not got[rows:].any())
            got = got[:rows].reshape(want.shape) if packed else got
            assert (got.double() - want).abs().max() <= allowed * max(1.0, want.abs().max().item())

    return call


HALF = torch.float16
CALLS: dict[str, Call] = {
    "forward 64": forward((2, 300, 333, 4, 2, 64, 64), causal=True),
    "forward 96": forward((1, 200, 260, 2, 2, 96, 96), HALF, window=(60, 20)),
    "forward 128": forward((2, 257, 400, 4, 4, 128, 128)),
    "forward 128 with dropout": forward((1, 130, 200, 2, 1, 128, 128), dropout=0.2, seed=9),
    "forward 192, 128": forward((1, 200, 300, 2, 1, 192, 128), causal=True),
    "forward 256": forward((1, 150, 220, 2, 2, 256, 256), HALF, causal=True, softcap=3.0),
    "decode": forward((3, 1, 700, 8, 2, 128, 128)),
    "decode in pages of 1": decode(1, 64, [70, 1, 300]),
    "decode in pages of 16": decode(16, 128, [70, 500, 16]),
    "decode in pages of 64": decode(64, 128, [700, 640, 701]),
    "forward of fp8, 64": eight_bits(300, 64, True),
    "forward of fp8, 128": eight_bits(270, 128, False),
    "latent": latent(1, 700, False),
    "latent of fp8": latent(2, 300, True),
    "backward 64": backward((2, 200, 260, 4, 2, 64, 64), causal=True),
    "backward 80": backward((1, 140, 150, 2, 1, 80, 80), HALF),
    "backward 96": backward((1, 200, 300, 2, 1, 96, 96), causal=True),
    "backward 128": backward((2, 200, 333, 2, 1, 128, 128)),
    # More tiles of keys than there are multiprocessors.
    "backward 96 in blocks that stay": backward((3, 150, 400, 14, 14, 96, 96), HALF),
    "backward 128 in blocks that stay": backward((2, 330, 650, 40, 20, 128, 128)),
    "backward 128, deterministic": backward((1, 200, 260, 2, 2, 128, 128), causal=True, deterministic=True),
    "backward 128 with dropout": backward((1, 130, 200, 2, 1, 128, 128), dropout=0.25, seed=5),
    "backward 128 with a cap": backward((1, 130, 200, 2, 1, 128, 128), softcap=2.0),
    "backward 64, packed": backward((3, 70, 90, 2, 1, 64, 64), packed=True, causal=True),
    "backward 128, packed": backward((3, 130, 150, 2, 2, 128, 128), packed=True),
    "backward 192, 128": backward((1, 200, 300, 2, 1, 192, 128), causal=True),
    "backward 224": backward((1, 130, 190, 2, 2, 224, 224), HALF, window=(60, 30)),
    "backward 256": backward((2, 200, 210, 2, 1, 256, 256)),
    "backward 256, deterministic": backward((1, 200, 210, 2, 2, 256, 256), causal=True, deterministic=True),
}
