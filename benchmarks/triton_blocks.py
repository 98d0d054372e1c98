"""A Triton kernel for fp8 products with a factor for 128 elements of a row of A and for 128 x 128 of B: a contender."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": m, "BN": n}, num_warps=warps, num_stages=stages)
    for m, n, warps, stages in ((128, 128, 4, 4), (128, 128, 8, 4), (128, 128, 8, 5), (64, 128, 4, 5), (64, 64, 4, 6))
]


@triton.autotune(CONFIGS, key=["m", "n", "k"])
@triton.jit
def _product(a, b, c, sa, sb, m, n, k, BM: tl.constexpr, BN: tl.constexpr):
    across = tl.cdiv(n, BN)
    # Eight rows of tiles are walked together, so that L2 keeps them.
    per_group = 8 * across
    group = tl.program_id(0) // per_group
    height = min(tl.cdiv(m, BM) - group * 8, 8)
    inside = tl.program_id(0) % per_group
    row, column = group * 8 + inside % height, inside // height
    rows, columns, depth = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, 128)
    at_a = a + (rows % m)[:, None] * k + depth[None, :]
    at_b = b + (columns % n)[None, :] * k + depth[:, None]
    steps = k // 128
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(steps):
        part = tl.dot(tl.load(at_a), tl.load(at_b))
        line = tl.load(sa + (rows % m) * steps + step)
        square = tl.load(sb + column * BN // 128 * steps + step)
        total += part * (line * square)[:, None]
        at_a += 128
        at_b += 128
    at_c = c + rows[:, None] * n + columns[None, :]
    tl.store(at_c, total.to(c.dtype.element_ty), (rows[:, None] < m) & (columns[None, :] < n))


def product(a: torch.Tensor, b: torch.Tensor, lines: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    """A (m, k) times the transpose of B (n, k); factors (m, k / 128) and the transpose of (n / 128, k / 128)."""
    (m, k), n = a.shape, b.shape[0]
    c = torch.empty(m, n, device=a.device, dtype=torch.bfloat16)
    _product[lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)](
        a, b, c, lines, squares, m, n, k
    )  # fmt: skip
    return c
