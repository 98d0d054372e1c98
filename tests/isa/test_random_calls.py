"""Random calls of `matmul` and `attention` as machine code: ends inside tiles, any layout, all that goes with a call.

A seed is printed for each call; `Product(arch, seed).check()` is that call again, inside of `executing(arch)`.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from tests.kernels.attention.oracle import compare

from flydsl.kernels import attention, matmul, preshuffle_weight

F16, BF16, F32, I8 = torch.float16, torch.bfloat16, torch.float32, torch.int8
E4M3, E5M2, FNUZ = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz
TYPES = {
    "gfx90a": (F16, BF16, F32, I8),
    "gfx942": (F16, BF16, F32, I8, FNUZ),
    "gfx950": (F16, BF16, F32, I8, E4M3, E5M2),
    "gfx1100": (F16, BF16, I8),
    "gfx1201": (F16, BF16, I8, E4M3, E5M2),
    "gfx1250": (F16, BF16, I8, E4M3, E5M2),
}
"""Architecture -> types."""
EXTENTS = (0, 1, 2, 5, 16, 17, 33, 40, 68)
DEPTHS = (0, 1, 7, 16, 17, 33, 64, 72, 128, 200, 264)
EPSILON = {F32: 2.0**-24, F16: 2.0**-11, BF16: 2.0**-8}
CALLS = 2


def laid(rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    """A matrix somewhere in a larger one of which nothing else may be read: numbers there are none."""
    raw = x.view(torch.uint8) if x.element_size() == 1 else x
    none = 0x7F if raw.dtype is torch.uint8 else float("nan")
    rows, columns = raw.shape
    turned, every, first = rng.random() < 0.4, rng.choice((1, 1, 2)), rng.choice((0, 0, 3))
    shape = (columns, rows) if turned else (rows, columns)
    whole = torch.full((shape[0] + 1, first + every * shape[1] + rng.choice((0, 1, 16))), none, dtype=raw.dtype)
    part = whole[: shape[0], first : first + every * shape[1] : every]
    part = part.T if turned else part
    part.copy_(raw)
    return part.view(x.dtype)


class Product:
    """A random product."""

    def __init__(self, arch: str, seed: int):
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        rng = self.rng
        self.dtype: torch.dtype = rng.choice(TYPES[arch])
        self.m, self.n, self.k = rng.choice(EXTENTS), rng.choice(EXTENTS), rng.choice(DEPTHS)
        self.shuffled = rng.random() < 0.25 and self.n * self.k > 0
        self.scaled, self.bias, self.turned = rng.random() < 0.4, rng.random() < 0.4, rng.random() < 0.3
        self.activation: str | None = rng.choice((None, "relu"))
        plain = self.dtype is I8 and not (self.scaled or self.bias or self.activation)
        self.out: torch.dtype = torch.int32 if plain else F32 if self.dtype is I8 else rng.choice((F32, F16, BF16))

    def operand(self, rows: int, columns: int) -> torch.Tensor:
        if self.dtype is I8:
            return torch.from_numpy(self.numbers.integers(-128, 128, (rows, columns), np.int8))
        return torch.from_numpy(self.numbers.standard_normal((rows, columns))).float().to(self.dtype)

    def check(self) -> None:
        a, b = self.operand(self.m, self.k), self.operand(self.k, self.n)
        second: Any = laid(self.rng, b)
        second = preshuffle_weight(second) if self.shuffled else second
        more: dict[str, Any] = {"activation": self.activation}
        factors, bias = torch.ones(self.m, self.n).double(), torch.zeros(self.n).double()
        if self.scaled:
            more["scale_a"], more["scale_b"] = torch.rand(self.m) + 0.5, torch.rand(self.n) + 0.5
            factors = more["scale_a"].double()[:, None] * more["scale_b"].double()
        if self.bias:
            more["bias"] = torch.from_numpy(self.numbers.standard_normal(self.n)).float()
            bias = more["bias"].double()
        lines, length = (self.n, self.m) if self.turned else (self.m, self.n)
        whole = torch.full((lines + 1, length + 8), 77, dtype=self.out)
        part = whole[:lines, :length]
        name = str(self.out).removeprefix("torch.")
        matmul(laid(self.rng, a), second, out=part.T if self.turned else part, out_dtype=name, **more)
        assert (whole[lines:] == 77).all() and (whole[:, length:] == 77).all()
        found = (part.T if self.turned else part).double()
        wanted = (a.double() @ b.double()) * factors + bias
        terms = (a.double().abs() @ b.double().abs()) * factors + bias.abs()
        wanted = wanted.relu() if self.activation else wanted
        if self.out is torch.int32:
            assert torch.equal(found, wanted)
            return
        # Each of K sums is rounded, and what comes behind them.
        allowed = EPSILON[self.out] * wanted.abs() * 1.01 + (self.k + 16) * 2.0**-23 * terms
        allowed += torch.finfo(self.out).smallest_normal * EPSILON[self.out] * 2
        largest = torch.finfo(self.out).max
        far = wanted.abs() + allowed >= largest * (1 + EPSILON[self.out] / 2)
        assert not found.isnan().any() and ((found - wanted).abs() <= allowed)[~far].all()
        assert (found[far].abs() >= largest * (1 - 2 * EPSILON[self.out])).all() or self.out is not F16


def attend(seed: int) -> None:
    """A random attention."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    d, kv_heads, dtype = rng.choice((32, 64, 128)), rng.choice((1, 2)), rng.choice((F16, BF16))
    heads, queries, keys = kv_heads * rng.choice((1, 2, 3)), rng.choice((1, 3, 17, 40)), rng.choice((1, 5, 33, 70))
    q, k, v = (
        torch.from_numpy(numbers.standard_normal((1, rows, h, d))).to(dtype)
        for rows, h in ((queries, heads), (keys, kv_heads), (keys, kv_heads))
    )
    more: dict[str, Any] = {"causal": rng.random() < 0.5}
    if rng.random() < 0.4:
        more["window"] = rng.choice((None, 0, 3, 40)), rng.choice((None, 0, 5))
    if rng.random() < 0.3:
        more["softcap"] = 2.0
    if rng.random() < 0.3:
        more["sinks"] = torch.from_numpy(numbers.standard_normal(heads)).float()
    if rng.random() < 0.3:
        more["alibi"] = torch.from_numpy(numbers.random(heads)).float()
    whole = torch.full((1, queries + 1, heads, d + 8), 77, dtype=dtype)
    out, lse = attention(q, k, v, return_lse=True, out=whole[:, :queries, :, :d], **more)
    compare((out, lse), q, k, v, **more)
    assert (whole[:, queries:] == 77).all() and (whole[..., d:] == 77).all()


@pytest.mark.parametrize("arch", TYPES)
def test_random_products(arch: str, gpu: Any, rng: np.random.Generator):
    gpu(arch)
    for _ in range(CALLS):
        seed = int(rng.integers(1 << 31))
        print(f"Product({arch!r}, {seed})")
        Product(arch, seed).check()


@pytest.mark.parametrize("arch", [pytest.param(a, marks=[pytest.mark.slow] * (a != "gfx950")) for a in TYPES])
def test_random_attention(arch: str, gpu: Any, rng: np.random.Generator):
    gpu(arch)
    for _ in range(CALLS):
        seed = int(rng.integers(1 << 31))
        print(f"attend({seed})")
        attend(seed)
