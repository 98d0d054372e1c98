"""Products of matrices."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

import flydsl.kernels as k
from flydsl.kernels.gemm_sm90 import gemm_sm90
from flydsl.kernels.matmul.amd.entry import amd_matmul
from flydsl.kernels.matmul.amd.kernel import Form as AmdForm
from flydsl.kernels.matmul.amd.kernel import Tile as AmdProductTile
from flydsl.kernels.matmul.few.thin import Thin
from flydsl.kernels.matmul.few.thin_kernel import thin_matmul
from flydsl.kernels.matmul.few.thin_shares import thin_shares_matmul
from flydsl.kernels.matmul.hopper import hopper
from flydsl.kernels.matmul.simt.kernel import simt
from flydsl.kernels.matmul.simt.tile import Form as SimtForm
from flydsl.kernels.matmul.simt.tile import Tile as SimtTile
from flydsl.kernels.matmul.tile import Form, Tile

from .call import HOPPER, Call, bf16, f32, of_case, room


def blocks_with_scales(kind: str) -> tuple[Any, ...]:
    x, y = (k.MxMatrix(*k.quantize_mx(f32(16, 128), kind), kind) for _ in range(2))
    return k.matmul, x, y


def slices(together: bool = False) -> tuple[Any, ...]:
    """Two blocks have a half of K each and meet in memory."""
    tile, m, n, depth = Tile(64, 64, 1, slices=2, together=together), 64, 64, 256
    x, y, c = bf16(1, m, depth), bf16(1, n, depth), room(1, m, n, dtype=torch.bfloat16)
    work = torch.zeros(2 * m * n)
    counters = torch.zeros(2 * tile.blocks * tile.consumers, dtype=torch.int32)
    sizes = (m, n, depth, 1, depth, m * depth, depth, n * depth, n, m * n)
    return (
        hopper,
        x,
        y,
        c,
        None,
        None,
        None,
        work,
        counters,
        *sizes,
        2 * tile.blocks,
        2,
        tile,
        Form("k", "k", "elements"),
    )


def shared(tile: Tile) -> tuple[Any, ...]:
    """A cluster's blocks fetch rows for each other, or add up each other's sums."""
    m, n, depth = tile.m * tile.high, tile.n * tile.wide, 64 * tile.splits
    x, y, c = bf16(1, m, depth), bf16(1, n, depth), room(1, m, n, dtype=torch.bfloat16)
    sizes = (m, n, depth, 1, depth, m * depth, depth, n * depth, n, m * n)
    return hopper, x, y, c, None, None, None, None, None, *sizes, tile.blocks, 1, tile, Form("k", "k", "pairs")


def few_rows() -> tuple[Any, ...]:
    """Two blocks of a cluster, two warps each, and a rest of K that is no whole step."""
    thin, m, n, depth = Thin(1, 8, 2, 1, 2), 3, 20, 136
    a, w, c = bf16(m, depth), bf16(n, depth), room(m, n, dtype=torch.bfloat16)
    return thin_matmul, a, w, c, None, m, n, depth, depth, depth, n, thin, "none", True


def few_rows_in_shares() -> tuple[Any, ...]:
    """Three blocks share two tiles' steps: the one in the middle has a part of both."""
    thin, m, n, depth = Thin(1, 8, 1, 1, blocks=3), 3, 20, 88
    a, w, c = bf16(m, depth), bf16(n, depth), room(m, n, dtype=torch.bfloat16)
    work, counters = torch.zeros(2 * thin.blocks * thin.size), torch.zeros(2, dtype=torch.int32)
    return thin_shares_matmul, a, w, c, None, work, counters, m, n, depth, depth, depth, n, thin, "none", True


def by_fma(slices: int, sharers: int = 1, overlap: bool = False) -> tuple[Any, ...]:
    """Three steps of two warps through two stages; slices, if any, meet in memory. `overlap` is for Hopper."""
    tile, m, n, depth = SimtTile(1, 2, 2, 4, 8, 2), 3, 60, 24 * slices
    x, y, c = f32(m, depth), f32(n, depth), room(m, n)
    form = SimtForm("deep", "deep", split=slices > 1, sharers=sharers, overlap=overlap)
    meeting = (room(slices * tile.size), torch.zeros(1, dtype=torch.int32)) if slices > 1 else (None, None)
    sizes = (m, n, depth, 1, depth, 1, 0, depth, 1, 0, n, 1, 0, 1, slices)
    return simt, x, y, c, None, None, None, *meeting, *sizes, tile, form


def groups_by_fma() -> tuple[Any, ...]:
    """A group without rows, one of two tiles and a tile that nobody has; the table lies where stages do afterwards."""
    tile, m, n, depth = SimtTile(1, 2, 2, 4, 8, 2), 9, 20, 24
    x, y, c, ends = f32(m, depth), f32(2, n, depth), room(m, n), torch.tensor([0, 9], dtype=torch.int32)
    form = SimtForm("deep", "deep", grouped=True, table=True)
    sizes = (m, n, depth, 2, depth, 1, 0, depth, 1, n * depth, n, 1, 0, 1, 1)
    return partial(simt, offsets=ends), x, y, c, None, None, None, None, None, *sizes, tile, form


def groups_of_fp8() -> tuple[Any, ...]:
    """Factors of blocks for two groups: others bring them than who fetches."""
    a, b = (f32(*shape).to(torch.float8_e4m3fn) for shape in ((16, 256), (2, 64, 256)))
    scaled = partial(k.grouped_matmul, scale_a=torch.rand(16, 2), scale_b=torch.rand(2, 2, 1))
    return scaled, a, b.mT, torch.tensor([7, 16], dtype=torch.int32)


def slices_on_amd() -> tuple[Any, ...]:
    """Two blocks have a half of K each; a kernel behind theirs adds their sums up."""
    m, n, depth = 4, 20, 128
    x, y, c, parts = bf16(m, depth), bf16(n, depth), room(m, n), room(2 * m * n)
    numbers = (m, n, depth, 1, depth, depth, n, 0, 0, 0, 1, 64, AmdProductTile(32, 64), AmdForm("mfma", 16, part=4))
    return partial(amd_matmul, parts=parts), x, y, c, None, None, None, None, *numbers


def groups_on_amd() -> tuple[Any, ...]:
    """A group without rows, one that ends inside a tile, and a tile that no group has."""
    return k.grouped_matmul, bf16(35, 16), bf16(2, 20, 16).mT, torch.tensor([0, 35], dtype=torch.int32)


def dequantized() -> tuple[Any, ...]:
    w = k.quantize_weight(bf16(128, 64), bits=4, group=128)
    return (lambda: k.dequantize_weight(w),)


def weighed(bits: int) -> tuple[Any, ...]:
    w = bf16(128, 64)
    return k.matmul, bf16(4, 128), k.quantize_weight(w, bits=bits, group=128)


CALLS: dict[str, Call] = {
    "gemm_sm80": Call("sm_80", of_case("gemm_sm80-bfloat16-64x72x40"), "gemm_sm80.gemm_sm80_kernel", False),
    "gemm_sm90": Call(
        HOPPER,
        lambda: (gemm_sm90, bf16(128, 128), bf16(128, 128), room(128, 128, dtype=torch.bfloat16), 1, 1),
        "gemm_sm90.gemm_sm90_kernel",
        False,
    ),
    "gemm_sm90 in clusters": Call(
        HOPPER,
        lambda: (gemm_sm90, bf16(256, 64), bf16(256, 64), room(256, 256, dtype=torch.bfloat16), 2, 2),
        "gemm_sm90.gemm_sm90_kernel",
        False,
    ),
    "gemm_cdna": Call("gfx942", of_case("gemm_cdna-bfloat16"), "gemm_cdna.gemm_cdna_kernel", False),
    "gemm_wmma": Call("gfx1100", of_case("gemm_wmma-bfloat16"), "gemm_cdna.gemm_cdna_kernel", False),
    "gemm_preshuffle": Call("gfx950", of_case("gemm_preshuffle-bfloat16"), "matmul.amd.kernel.amd_kernel", False),
    "gemm_preshuffle_scaled": Call("gfx942", of_case("gemm_preshuffle_scaled"), "matmul.amd.kernel.amd_kernel", False),
    "matmul of blocks with scales": Call(
        "gfx950",
        lambda: blocks_with_scales("float6_e2m3fn"),
        "matmul.amd.mx.pack_scales_kernel matmul.amd.mx.widen_kernel matmul.amd.kernel.amd_kernel",
        False,
    ),
    "matmul": Call(HOPPER, lambda: (k.matmul, bf16(64, 64), bf16(64, 64)), "matmul.hopper.hopper_kernel", False),
    "matmul in slices": Call(HOPPER, slices, "matmul.hopper.hopper_kernel"),
    "matmul in parts": Call(HOPPER, partial(shared, Tile(64, 16, 1, splits=2)), "matmul.hopper.hopper_kernel"),
    "matmul of clusters": Call(
        HOPPER, partial(shared, Tile(64, 16, 1, cluster=4, shares="xy")), "matmul.hopper.hopper_kernel", False
    ),
    "matmul in slices together": Call(HOPPER, partial(slices, together=True), "matmul.hopper.hopper_kernel"),
    "matmul of few rows, as words": Call(HOPPER, few_rows, "matmul.few.thin_kernel.thin_kernel"),
    "matmul of few rows, in shares": Call(HOPPER, few_rows_in_shares, "matmul.few.thin_shares.thin_shares_kernel"),
    "matmul by FMA": Call("sm_80", partial(by_fma, 1), "matmul.simt.kernel.simt_kernel"),
    "matmul by FMA, in slices": Call(HOPPER, partial(by_fma, 2, overlap=True), "matmul.simt.kernel.simt_kernel"),
    "matmul by FMA, in slices together": Call("sm_80", partial(by_fma, 2, 2), "matmul.simt.kernel.simt_kernel"),
    "matmul of odd rows": Call(
        HOPPER,
        lambda: (k.matmul, bf16(33, 35), bf16(35, 37)),
        "matmul.pack.pack_kernel matmul.hopper.hopper_kernel",
        False,
    ),
    "matmul in slices on AMD": Call(
        "gfx942", slices_on_amd, "matmul.amd.kernel.amd_kernel matmul.amd.sums.add_kernel", False
    ),
    "matmul by tensor copies": Call(
        "gfx1250", lambda: (k.matmul, bf16(4, 328), bf16(20, 328).T), "matmul.amd.kernel.amd_kernel", False
    ),
    "grouped_matmul on AMD": Call("gfx942", groups_on_amd, "matmul.amd.kernel.amd_kernel", False),
    "matmul of odd rows on Ampere": Call(
        "sm_80", lambda: (k.matmul, bf16(5, 7), bf16(7, 6)), "matmul.plain.plain_kernel", False
    ),
    "matmul of few rows": Call(
        HOPPER, lambda: (k.matmul, bf16(4, 256), bf16(256, 64)), "matmul.hopper.hopper_kernel", False
    ),
    "matmul of packed weights": Call(HOPPER, lambda: weighed(4), "matmul.few.slim_kernel.slim_kernel"),
    "grouped_matmul": Call(
        HOPPER,
        lambda: (k.grouped_matmul, bf16(16, 64), bf16(2, 64, 64), torch.tensor([7, 16], dtype=torch.int32)),
        "matmul.hopper.hopper_kernel",
    ),
    "grouped_matmul of fp8": Call(HOPPER, groups_of_fp8, "matmul.hopper.hopper_kernel", False),
    "grouped_matmul by FMA": Call("sm_80", groups_by_fma, "matmul.simt.kernel.simt_kernel"),
    "quantize_weight": Call(
        HOPPER,
        lambda: (partial(k.quantize_weight, bits=4, group=128), bf16(128, 64)),
        "matmul.weight_kernels.scale_kernel matmul.weight_kernels.pack_kernel",
    ),
    "dequantize_weight": Call(HOPPER, dequantized, "matmul.weight_kernels.unpack_kernel"),
}
