"""Operations on rows of random extents: what `h200_training.py --random` draws, and how each is called.

Lengths are log-uniform, half of them multiples of 64, a quarter of 8, and a quarter as they come. Most matrices fill
2^27 elements; others have few rows, a middling size that L2 holds, or a million short rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn import functional as F

from flydsl import kernels
from flydsl.kernels.rows.norms import norm

ELEMENTS = 2**27
SHORTEST, LONGEST = 64, 262144
MANY_ROWS, FEW_ROWS, LONG = 2**20, 512, 4096
EPS = 1e-5
DTYPES = ("bfloat16", "float32", "float16")
FORWARD = ("softmax", "RMS norm", "layer norm")
BACKWARD = ("softmax backward", "RMS norm backward", "layer norm backward")
OTHERS = ("cross entropy", "SiLU mul", "top k", "RoPE", "gate", "log-softmax", "group norm")
PASSES = {"cross entropy": 1, "top k": 1, "gate": 1, "SiLU mul": 3} | dict.fromkeys(BACKWARD, 3)
"""Times that the matrix is read or written, where it is not twice."""

Made = torch.Tensor | tuple[torch.Tensor, ...]
"""What a call gives; of several results the first is compared, but none may be left out."""

Operation = tuple[Callable[[], Made], Callable[[], Made], torch.Tensor]
"""Ours, torch's, and what the first rows come to."""


class Draw(NamedTuple):
    """One operation on one matrix."""

    op: str
    m: int
    n: int
    dtype: str
    k: int
    """Elements that are looked for, or heads."""

    def __str__(self) -> str:
        return f"{self.op} {self.dtype} {self.m} x {self.n}" + (f" k={self.k}" if self.k else "")


def draws(count: int, seed: int, others: bool = True) -> list[Draw]:
    """Three operations of `FORWARD`, then one of the others; types in turn."""
    rng = random.Random(seed)
    rest = [*OTHERS, *BACKWARD]
    rng.shuffle(rest)
    made: list[Draw] = []
    for i in range(count):
        group, place = divmod(i, 4) if others else (0, i % 3)
        op = FORWARD[place] if place < 3 else rest[group % len(rest)]
        made.append(_draw(rng, op, DTYPES[i % len(DTYPES)]))
    return made


def _between(rng: random.Random, low: int, high: int) -> int:
    """Log-uniform."""
    return min(int(low * (high / low) ** rng.random()), high)


def _length(rng: random.Random, low: int = SHORTEST, high: int = LONGEST) -> int:
    n, step = _between(rng, low, high), rng.choice((64, 64, 8, 1))
    return max(n // step * step, low)


def _draw(rng: random.Random, op: str, dtype: str) -> Draw:
    if op == "gate":
        n = rng.choice((32, 60, 64, 128, 160, 256, 384))
        return Draw(op, _between(rng, 1024, 65536), n, dtype, rng.choice((1, 2, 4, 6, 8)))
    if op == "top k":
        n = _length(rng, 1024, 131072)
        return Draw(op, max(min(ELEMENTS // 4 // n, _between(rng, 16, 4096)), 1), n, dtype, rng.choice((4, 20, 50, 64)))
    if op == "RoPE":
        heads, width = rng.choice((8, 16, 32, 40)), rng.choice((64, 96, 128, 256))
        return Draw(op, min(_between(rng, 1024, 65536), ELEMENTS // (heads * width)), heads * width, dtype, heads)
    if op == "group norm":
        groups = rng.choice((8, 16, 32))
        n = groups * rng.choice((2, 4, 8, 10)) * _between(rng, 8, 64) ** 2
        return Draw(op, min(max(2**26 // n, 1), 64), n, dtype, groups)
    n = _length(rng)
    kind = rng.random()
    if kind < 0.2 and n >= LONG:
        m = _between(rng, 1, FEW_ROWS)
    elif kind < 0.2:
        m = MANY_ROWS
    elif kind < 0.4:
        m = _between(rng, 2**20, 2**26) // n
    else:
        m = ELEMENTS // n
    most = ELEMENTS // 2 if op in BACKWARD or op == "SiLU mul" else ELEMENTS
    return Draw(op, max(min(m, most // n), 1), n, dtype, 0)


def operations(x: torch.Tensor) -> dict[str, Operation]:
    """The forward operations of a matrix."""
    n = x.shape[1]
    w, b = (torch.randn(n, device="cuda").to(x.dtype) for _ in range(2))
    some, dw, db = x[:64].double(), w.double(), b.double()
    return {
        "softmax": (lambda: kernels.softmax(x), lambda: torch.softmax(x, -1), torch.softmax(some, -1)),
        "RMS norm": (
            lambda: kernels.rms_norm(x, w, eps=EPS),
            lambda: F.rms_norm(x, (n,), w, EPS),
            F.rms_norm(some, (n,), dw, EPS),
        ),
        "layer norm": (
            lambda: kernels.layer_norm(x, w, b, eps=EPS),
            lambda: F.layer_norm(x, (n,), w, b, EPS),
            F.layer_norm(some, (n,), dw, db, EPS),
        ),
        "log-softmax": (
            lambda: kernels.log_softmax(x),
            lambda: torch.log_softmax(x, -1),
            torch.log_softmax(some, -1),
        ),
    }


def gradients(x: torch.Tensor) -> dict[str, Operation]:
    """The gradients of softmax and norms of a matrix."""
    n, dtype = x.shape[1], x.dtype
    d = torch.randn_like(x)
    w, b = (torch.randn(n, device="cuda").to(dtype) for _ in range(2))
    y = kernels.softmax(x)
    rms = norm("rms_norm", x, w, None, EPS, None, None, False, True, None)
    layer = norm("layer_norm", x, w, b, EPS, None, None, True, True, None)
    aten = torch.ops.aten
    some, given = x[:64].double().requires_grad_(), d[:64].double()

    def rms_by_hand() -> tuple[torch.Tensor, ...]:
        v, g = x.float() * rms.scale[:, None], d.float() * w.float()
        dx = (g - v * (g * v).mean(-1, keepdim=True)) * rms.scale[:, None]
        return dx.to(dtype), (d.float() * v).sum(0).to(dtype)

    shape, mean, scale = [n], layer.mean[:, None], layer.scale[:, None]
    return {
        "softmax backward": (
            lambda: kernels.softmax_backward(y, d),
            lambda: aten._softmax_backward_data(d, y, -1, dtype),
            torch.autograd.grad(torch.softmax(some, -1), some, given)[0],
        ),
        "RMS norm backward": (
            lambda: kernels.rms_norm_backward(d, x, w, rms.scale)[:2],
            rms_by_hand,
            torch.autograd.grad(F.rms_norm(some, (n,), w.double(), EPS), some, given)[0],
        ),
        "layer norm backward": (
            lambda: tuple(kernels.layer_norm_backward(d, x, w, layer.mean, layer.scale)),
            lambda: aten.native_layer_norm_backward(d, x, shape, mean, scale, w, b, [True, True, True]),
            torch.autograd.grad(F.layer_norm(some, (n,), w.double(), b.double(), EPS), some, given)[0],
        ),
    }


def turned(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of (positions, heads, elements), in the words of torch."""
    a, b = q.to(cos.dtype).chunk(2, -1)
    c, s = cos[..., None, :], sin[..., None, :]
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(q.dtype)


def loss(x: torch.Tensor) -> Operation:
    target = torch.randint(0, x.shape[1], (x.shape[0],), device="cuda")
    return (
        lambda: kernels.cross_entropy(x, target, reduction="none"),
        lambda: F.cross_entropy(x.float(), target, reduction="none"),
        F.cross_entropy(x[:64].double(), target[:64], reduction="none"),
    )


def product(x: torch.Tensor) -> Operation:
    y = torch.randn_like(x)
    return lambda: kernels.silu_mul(x, y), lambda: F.silu(x) * y, F.silu(x[:64].double()) * y[:64].double()


def largest(x: torch.Tensor, k: int) -> Operation:
    return lambda: kernels.top_k(x, k)[0], lambda: torch.topk(x, k)[0], torch.topk(x[:64].double(), k).values


def gates(x: torch.Tensor, k: int) -> Operation:
    """Softmax and the largest shares, which sum to one; both results of torch are float32, as ours are."""

    def theirs() -> tuple[torch.Tensor, ...]:
        share, experts = torch.topk(torch.softmax(x.float(), -1), k)
        return share / share.sum(-1, keepdim=True), experts

    share = torch.topk(torch.softmax(x[:64].double(), -1), k).values
    return lambda: kernels.gate(x, k), theirs, share / share.sum(-1, keepdim=True)


def rotated(x: torch.Tensor, heads: int) -> Operation:
    m, n = x.shape
    width = n // heads
    q = x.view(1, m, heads, width)
    angle = torch.rand(m, width // 2, device="cuda") * 6
    cos, sin = angle.cos(), angle.sin()
    want = turned(q[0, :64].double(), cos[:64].double(), sin[:64].double())
    return lambda: kernels.rope(q, None, cos, sin)[0], lambda: turned(q[0], cos, sin), want


def grouped(x: torch.Tensor, groups: int) -> Operation:
    m, n = x.shape
    side = next(s for s in range(64, 7, -1) if n % (groups * s * s) == 0)
    channels = n // side**2
    image = x.view(m, channels, side, side)
    w, b = (torch.randn(channels, device="cuda").to(x.dtype) for _ in range(2))
    want = F.group_norm(image[:4].double(), groups, w.double(), b.double(), EPS)
    return (
        lambda: kernels.group_norm(image, groups, w, b, eps=EPS),
        lambda: F.group_norm(image, groups, w, b, EPS),
        want,
    )


def matrix(m: int, n: int, dtype: str) -> torch.Tensor:
    return torch.randn(m, n, device="cuda").to(getattr(torch, dtype))


def operation(draw: Draw, x: torch.Tensor) -> Operation:
    """How a draw is called on its matrix."""
    if draw.op in BACKWARD:
        return gradients(x)[draw.op]
    special = {
        "cross entropy": lambda: loss(x),
        "SiLU mul": lambda: product(x),
        "top k": lambda: largest(x, draw.k),
        "gate": lambda: gates(x, draw.k),
        "RoPE": lambda: rotated(x, draw.k),
        "group norm": lambda: grouped(x, draw.k),
    }
    return special[draw.op]() if draw.op in special else operations(x)[draw.op]
