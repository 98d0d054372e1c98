"""A small call for every kernel of the library, whose schedules are explored.

A kernel that no call here claims fails `test_every_kernel_of_the_library_is_explored`; so does a claim that its call
does not keep. Sizes are the smallest that go through all that the kernel does.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

import flydsl.compiler as flyc
import flydsl.kernels as k
from flydsl.compiler.kernel_function import KernelFunction
from flydsl.cpu.schedules.findings import ScheduleReport
from flydsl.kernels.attention import attention_backward
from flydsl.kernels.attention.amd.entry import amd_attention
from flydsl.kernels.attention.amd.plan import machine_for
from flydsl.kernels.attention.amd.tile import Tile as AmdTile
from flydsl.kernels.attention.combine import combine
from flydsl.kernels.attention.plain import Kind
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
from flydsl.kernels.mx.quantize import quantize_mx
from flydsl.kernels.rows.columns import weight_sums
from flydsl.kernels.rows.form import Form as RowForm
from flydsl.kernels.rows.norm_kernels import norm_rows

from ..library import CASES

HOPPER = "sm_90a"


class Call(NamedTuple):
    """What is explored: the GPU, a function with its arguments, and the kernels it is for."""

    arch: str
    make: Callable[[], tuple[Any, ...]]
    kernels: str
    """Modules behind `flydsl.kernels` with their kernels: `rows.rope.rope_kernel`."""
    quick: bool = True
    """Whether it is explored in every run of the tests."""


def f32(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def bf16(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16()


def ids(count: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, count, shape)


def blocks_with_scales(kind: str) -> tuple[Any, ...]:
    x, y = (k.MxMatrix(*k.quantize_mx(np.random.rand(16, 128).astype("f4"), kind), kind) for _ in range(2))
    return k.matmul, x, y


def of_case(name: str) -> Callable[[], tuple[Any, ...]]:
    """One of `tests/kernels/library`."""
    case = next(case for case in CASES if case.name.startswith(name))

    def make() -> tuple[Any, ...]:
        arrays = case.make(np.random.default_rng(0))
        placed = {array: case.place.get(array, lambda t: t)(t) for array, t in arrays.items()}
        return case.kernel, *case.arguments(placed)

    return make


def backward(dtype: torch.dtype, n: int, d: int) -> tuple[Any, ...]:
    q, keys, v, grad = (torch.randn(1, n, 1, d).to(dtype) for _ in range(4))
    out, lse = k.attention(q, keys, v, return_lse=True)
    return attention_backward, grad, q, keys, v, out, lse


def packed_backward(d: int) -> tuple[Any, ...]:
    """Two sequences, whose ends are inside of steps."""
    q, keys, v, grad = (torch.randn(90, 1, d).bfloat16() for _ in range(4))
    cu: Any = dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), torch.tensor([0, 20, 90], dtype=torch.int32))
    out, lse = k.attention(q, keys, v, return_lse=True, **cu)
    return partial(attention_backward, **cu), grad, q, keys, v, out, lse


def combined() -> tuple[Any, ...]:
    """Three parts of the keys."""
    parts, heights, out = f32(3, 1, 2, 5, 64), f32(3, 1, 2, 5), torch.zeros(1, 5, 2, 64).bfloat16()
    return combine, parts, heights, out, None, None, 3, 1, 5, 2, *(out.stride(i) for i in range(3)), 64, False


def amd_attention_of() -> tuple[Any, ...]:
    """Three steps of keys, the last of which has an end, in the smallest tile."""
    machine = machine_for(flyc.get_backend().target, "bfloat16", 2, 32)
    assert machine is not None
    tile = AmdTile(32, 32, 32, 16, 2)
    q, keys, v, out = bf16(20, 32), bf16(70, 32), bf16(70, 32), torch.zeros(20, 32).bfloat16()
    strides = (0, 32, 32) * 4
    numbers = (1, 20, 70, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0)
    kind = Kind(32, 32, False, True, False, False, False)
    arrays = (x.reshape(-1) for x in (q, keys, v, out))
    rest = (0, 0, 0, 0, 20, 20, 0, 0, 0, 0, 0, 0, 32**-0.5, 0.0, 32**-0.5, 0, 0, 1.0)
    return amd_attention, *arrays, torch.zeros(20), *[None] * 10, *numbers, *strides, *rest, tile, machine, kind


def slices(together: bool = False) -> tuple[Any, ...]:
    """Two blocks have a half of K each and meet in memory."""
    tile, m, n, depth = Tile(64, 64, 1, slices=2, together=together), 64, 64, 256
    x, y, c = bf16(1, m, depth), bf16(1, n, depth), torch.zeros(1, m, n).bfloat16()
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
    x, y, c = bf16(1, m, depth), bf16(1, n, depth), torch.zeros(1, m, n).bfloat16()
    sizes = (m, n, depth, 1, depth, m * depth, depth, n * depth, n, m * n)
    return hopper, x, y, c, None, None, None, None, None, *sizes, tile.blocks, 1, tile, Form("k", "k", "pairs")


def few_rows() -> tuple[Any, ...]:
    """Two blocks of a cluster, two warps each, and a rest of K that is no whole step."""
    thin, m, n, depth = Thin(1, 8, 2, 1, 2), 3, 20, 136
    a, w, c = bf16(m, depth), bf16(n, depth), torch.zeros(m, n).bfloat16()
    return thin_matmul, a, w, c, None, m, n, depth, depth, depth, n, thin, "none", True


def few_rows_in_shares() -> tuple[Any, ...]:
    """Three blocks share two tiles' steps: the one in the middle has a part of both."""
    thin, m, n, depth = Thin(1, 8, 1, 1, blocks=3), 3, 20, 88
    a, w, c = bf16(m, depth), bf16(n, depth), torch.zeros(m, n).bfloat16()
    work, counters = torch.zeros(2 * thin.blocks * thin.size), torch.zeros(2, dtype=torch.int32)
    return thin_shares_matmul, a, w, c, None, work, counters, m, n, depth, depth, depth, n, thin, "none", True


def by_fma(slices: int, sharers: int = 1) -> tuple[Any, ...]:
    """Three steps of two warps through two stages; slices, if any, meet in memory."""
    tile, m, n, depth = SimtTile(1, 2, 2, 4, 8, 2), 3, 60, 24 * slices
    x, y, c = f32(m, depth), f32(n, depth), torch.zeros(m, n)
    form = SimtForm("deep", "deep", split=slices > 1, sharers=sharers)
    room = (torch.zeros(slices * tile.size), torch.zeros(1, dtype=torch.int32)) if slices > 1 else (None, None)
    sizes = (m, n, depth, 1, depth, 1, 0, depth, 1, 0, n, 1, 0, 1, slices)
    return simt, x, y, c, None, None, None, *room, *sizes, tile, form


def groups_by_fma() -> tuple[Any, ...]:
    """A group without rows, one of two tiles and a tile that nobody has; the table lies where stages do afterwards."""
    tile, m, n, depth = SimtTile(1, 2, 2, 4, 8, 2), 9, 20, 24
    x, y, c, ends = f32(m, depth), f32(2, n, depth), torch.zeros(m, n), torch.tensor([0, 9], dtype=torch.int32)
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
    x, y, c, parts = bf16(m, depth), bf16(n, depth), torch.zeros(m, n), torch.zeros(2 * m * n)
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


def mx_values() -> tuple[Any, ...]:
    return k.dequantize_mx, *quantize_mx(f32(3, 128))


def group_norm_gradients() -> tuple[Any, ...]:
    x, dy, weight = f32(2, 8, 16), f32(2, 8, 16), f32(8)
    made = k.group_norm_forward(x, 2, weight, f32(8))
    return k.group_norm_backward, dy, x, 2, weight, made.mean, made.scale


def through_a_ring(cluster: int) -> tuple[Any, ...]:
    """Five rows for two blocks, or clusters, which have room for one and a half each."""
    m, n = 5, 512 * cluster
    x, weight = f32(m, n), f32(n)
    names = ("x", "out", "weight", "bias")
    form = RowForm(4, 64 * cluster, 1, 2, False, names, cluster, ring=3, stays=2)
    return norm_rows, x, None, weight, weight, torch.empty_like(x), None, None, None, m, n, 1e-5, True, form


def summed_weights() -> tuple[Any, ...]:
    """What the gradients of long rows leave to a kernel of its own."""
    sums = [torch.zeros(2, 64) for _ in range(2)]
    return weight_sums, f32(9, 64), f32(9, 64), f32(9), f32(9), *sums, f32(64), f32(64), 9, 64, 2, 4


def few_candidates() -> tuple[Any, ...]:
    """Numbers in falling order: those that may be among the largest belong to two warps, which draw places in turn."""
    return partial(k.top_k, k=40), torch.linspace(1, 0, 600)[None]


CALLS: dict[str, Call] = {
    # --- products ---
    "gemm_sm80": Call("sm_80", of_case("gemm_sm80-bfloat16-64x72x40"), "gemm_sm80.gemm_sm80_kernel", False),
    "gemm_sm90": Call(
        HOPPER,
        lambda: (gemm_sm90, bf16(128, 128), bf16(128, 128), bf16(128, 128), 1, 1),
        "gemm_sm90.gemm_sm90_kernel",
        False,
    ),
    "gemm_sm90 in clusters": Call(
        HOPPER,
        lambda: (gemm_sm90, bf16(256, 64), bf16(256, 64), bf16(256, 256), 2, 2),
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
    "matmul in parts": Call(HOPPER, partial(shared, Tile(64, 16, 1, splits=2)), "matmul.hopper.hopper_kernel", False),
    "matmul of clusters": Call(
        HOPPER, partial(shared, Tile(64, 16, 1, cluster=4, shares="xy")), "matmul.hopper.hopper_kernel", False
    ),
    "matmul in slices together": Call(HOPPER, partial(slices, together=True), "matmul.hopper.hopper_kernel"),
    "matmul of few rows, as words": Call(HOPPER, few_rows, "matmul.few.thin_kernel.thin_kernel"),
    "matmul of few rows, in shares": Call(HOPPER, few_rows_in_shares, "matmul.few.thin_shares.thin_shares_kernel"),
    "matmul by FMA": Call("sm_80", partial(by_fma, 1), "matmul.simt.kernel.simt_kernel"),
    "matmul by FMA, in slices": Call("sm_80", partial(by_fma, 2), "matmul.simt.kernel.simt_kernel"),
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
    "matmul of f32": Call("native", lambda: (k.matmul, f32(5, 7), f32(7, 6)), "matmul.plain.plain_kernel", False),
    "matmul of few rows": Call(
        HOPPER, lambda: (k.matmul, bf16(4, 256), bf16(256, 64)), "matmul.hopper.hopper_kernel", False
    ),
    "matmul of packed weights": Call(HOPPER, lambda: weighed(4), "matmul.few.slim_kernel.slim_kernel"),
    "grouped_matmul": Call(
        HOPPER,
        lambda: (k.grouped_matmul, bf16(16, 64), bf16(2, 64, 64), torch.tensor([7, 16], dtype=torch.int32)),
        "matmul.hopper.hopper_kernel",
        False,
    ),
    "grouped_matmul of fp8": Call(HOPPER, groups_of_fp8, "matmul.hopper.hopper_kernel", False),
    "grouped_matmul by FMA": Call("sm_80", groups_by_fma, "matmul.simt.kernel.simt_kernel"),
    "quantize_weight": Call(
        HOPPER,
        lambda: (partial(k.quantize_weight, bits=4, group=128), bf16(128, 64)),
        "matmul.weight_kernels.scale_kernel matmul.weight_kernels.pack_kernel",
    ),
    "dequantize_weight": Call(HOPPER, dequantized, "matmul.weight_kernels.unpack_kernel"),
    # --- attention ---
    "attention": Call(
        HOPPER,
        lambda: (k.attention, bf16(1, 64, 1, 64), bf16(1, 96, 1, 64), bf16(1, 96, 1, 64)),
        "attention.hopper.attention_kernel",
        False,
    ),
    "attention with dropout": Call(
        HOPPER,
        lambda: (partial(k.attention, dropout=0.3, seed=4), bf16(1, 128, 1, 64), *(bf16(1, 96, 1, 64) for _ in "kv")),
        "attention.hopper.attention_kernel",
        False,
    ),
    "attention of fp8": Call(
        HOPPER,
        lambda: (k.attention, *(f32(1, 64, 1, 64).to(torch.float8_e4m3fn) for _ in range(3))),
        "attention.values.turn_kernel attention.hopper.attention_kernel",
        False,
    ),
    "attention by mma": Call(
        "sm_80",
        lambda: (k.attention, bf16(1, 20, 1, 32), bf16(1, 40, 1, 32), bf16(1, 40, 1, 32)),
        "attention.matrix.matrix_kernel",
        False,
    ),
    **{
        f"attention on {arch}": Call(arch, amd_attention_of, "attention.amd.kernel.amd_attention_kernel", False)
        for arch in ("gfx942", "gfx950", "gfx1201")
    },
    "attention of f32": Call(
        HOPPER,
        lambda: (k.attention, f32(1, 20, 1, 16), f32(1, 24, 1, 16), f32(1, 24, 1, 16)),
        "attention.plain.plain_kernel",
    ),
    "parts of attention": Call(HOPPER, combined, "attention.combine.combine_kernel"),
    "attention_backward": Call(
        HOPPER,
        lambda: backward(torch.bfloat16, 64, 64),
        "attention.rounding.sides_kernel attention.hopper_backward.backward_kernel attention.rounding.round_kernel",
        False,
    ),
    "attention_backward of packed sequences": Call(
        HOPPER,
        lambda: packed_backward(96),
        "attention.rounding.sides_kernel attention.hopper_backward.backward_kernel attention.rounding.round_kernel",
        False,
    ),
    "attention_backward of long rows": Call(
        HOPPER,
        lambda: backward(torch.bfloat16, 64, 136),
        "attention.rounding.sides_kernel attention.wide.hopper.wide_kernel attention.rounding.round_kernel",
        False,
    ),
    "attention_backward of f32": Call(
        HOPPER,
        lambda: backward(torch.float32, 20, 16),
        "attention.plain_backward.delta_kernel attention.plain_backward.gradient_kernel",
        False,
    ),
    "mla_decode": Call(
        HOPPER,
        lambda: (partial(k.mla_decode, dv=128), bf16(1, 1, 16, 192), bf16(1, 64, 192)),
        "attention.latent.hopper.latent_kernel",
        False,
    ),
    "mla_decode of fp8": Call(
        HOPPER,
        lambda: (partial(k.mla_decode, dv=128), bf16(1, 1, 16, 192), f32(1, 64, 192).to(torch.float8_e4m3fn)),
        "attention.latent.hopper.latent_kernel",
        False,
    ),
    "mla_decode by threads": Call(
        "sm_80",
        lambda: (partial(k.mla_decode, dv=64), bf16(1, 1, 4, 96), bf16(1, 32, 96)),
        "attention.latent.plain.plain_latent_kernel",
        False,
    ),
    # --- axes ---
    "cast": Call(HOPPER, lambda: (partial(k.cast, dtype=torch.float16), f32(40, 9)), "axes.permute.cast_kernel"),
    "permute": Call(HOPPER, lambda: (partial(k.permute, axes=(1, 0)), f32(40, 9)), "axes.permute.turn_kernel"),
    "reduce rows": Call(HOPPER, lambda: (partial(k.reduce, axis=1), f32(5, 700)), "axes.reduce.reduce_rows_kernel"),
    "reduce columns": Call(
        HOPPER, lambda: (partial(k.reduce, axis=0), f32(40, 64)), "axes.reduce.reduce_columns_kernel"
    ),
    "scan rows": Call(HOPPER, lambda: (k.scan, f32(2, 300)), "axes.scan.scan_rows_kernel"),
    "scan columns": Call(HOPPER, lambda: (partial(k.scan, axis=0), f32(70, 600)), "axes.scan.scan_columns_kernel"),
    "sort": Call(
        HOPPER,
        lambda: (k.sort, f32(1, 9000)),
        "axes.sort_kernels.sort_tiles_kernel axes.sort_kernels.merge_runs_kernel axes.sort_kernels.gather_rows_kernel",
        False,
    ),
    # --- experts ---
    "moe": Call(
        HOPPER,
        lambda: (partial(k.moe, k=2), bf16(8, 64), f32(8, 4), bf16(4, 64, 64), bf16(4, 32, 64)),
        "rows.largest.few.few_largest_kernel experts.sort.count_kernel experts.sort.deal_kernel "
        "experts.sort.end_kernel experts.move.permute_kernel experts.move.unpermute_kernel matmul.hopper.hopper_kernel",
        False,
    ),
    "sort_tokens": Call(
        HOPPER,
        lambda: (partial(k.sort_tokens, experts=4), ids(4, 8, 2).int()),
        "experts.sort.count_kernel experts.sort.deal_kernel experts.sort.end_kernel",
    ),
    "permute_tokens": Call(
        HOPPER,
        lambda: (partial(k.permute_tokens, k=2), f32(4, 32), torch.randperm(8).int()),
        "experts.move.permute_kernel",
    ),
    "unpermute_tokens": Call(
        HOPPER,
        lambda: (k.unpermute_tokens, f32(8, 32), torch.randperm(8).int().reshape(4, 2), f32(4, 2)),
        "experts.move.unpermute_kernel",
    ),
    # --- rows ---
    "softmax": Call(HOPPER, lambda: (k.softmax, f32(2, 3000)), "rows.softmax_kernels.softmax_rows_kernel"),
    "softmax of a cluster": Call(
        HOPPER, lambda: (k.softmax, f32(1, 40000)), "rows.softmax_kernels.softmax_rows_kernel", False
    ),
    "softmax_backward": Call(
        HOPPER, lambda: (k.softmax_backward, f32(3, 100), f32(3, 100)), "rows.softmax_kernels.softmax_back_kernel"
    ),
    **{
        f"{name} {form}": Call(
            "sm_90" if form != "any" else "sm_80",
            of_case(f"{name}-{sizes}"),
            f"rows.{module}.{name}_{form}_kernel",
            name == "rms_norm" and form == "wide",
        )
        for name in ("softmax", "rms_norm", "layer_norm")
        for form, module, sizes in (
            ("any", "any_length", "float32-3x333"),
            ("wide", "wide", "bfloat16-3x1032"),
            ("long", "long", "bfloat16-3x16392"),
        )
    },
    "layer_norm of a cluster": Call(
        HOPPER,
        lambda: (k.layer_norm, f32(1, 34000), f32(34000), f32(34000)),
        "rows.norm_kernels.norm_rows_kernel",
        False,
    ),
    **{
        f"layer norm through a ring{', of a cluster' if cluster > 1 else ''}": Call(
            HOPPER, partial(through_a_ring, cluster), "rows.norm_kernels.norm_rows_kernel"
        )
        for cluster in (1, 2)
    },
    "layer_norm_backward": Call(
        HOPPER,
        lambda: (k.layer_norm_backward, f32(9, 64), f32(9, 64), f32(64), f32(9), f32(9)),
        "rows.norm_gradients.norm_back_kernel rows.columns.column_sums_kernel",
        False,
    ),
    "sums of weights": Call(HOPPER, summed_weights, "rows.columns.weight_sums_kernel rows.columns.column_sums_kernel"),
    "group_norm": Call(
        HOPPER, lambda: (partial(k.group_norm, groups=2), f32(2, 8, 16)), "rows.group_norm.group_norm_kernel"
    ),
    "group_norm_backward": Call(
        HOPPER,
        group_norm_gradients,
        "rows.group_norm.group_norm_back_kernel rows.group_norm.channel_sums_kernel",
        False,
    ),
    "cross_entropy": Call(
        HOPPER, lambda: (k.cross_entropy, f32(3, 100), ids(100, 3)), "rows.cross_entropy.cross_entropy_kernel"
    ),
    "cross_entropy_backward": Call(
        HOPPER,
        lambda: (k.cross_entropy_backward, f32(3, 100), ids(100, 3), f32(3), f32(3)),
        "rows.cross_entropy.cross_entropy_back_kernel",
    ),
    "linear_cross_entropy": Call(
        HOPPER,
        lambda: (k.linear_cross_entropy, bf16(8, 32), bf16(64, 32), ids(64, 8)),
        "matmul.few.slim_kernel.slim_kernel rows.linear_cross_entropy.partial_loss_kernel",
        False,
    ),
    "embedding": Call(HOPPER, lambda: (k.embedding, ids(16, 5), f32(16, 32)), "rows.embedding.embedding_kernel"),
    "embedding_backward": Call(
        HOPPER,
        lambda: (partial(k.embedding_backward, count=16), f32(5, 32), ids(16, 5)),
        "rows.embedding.embedding_back_kernel",
    ),
    "gated": Call(HOPPER, lambda: (k.silu_mul, f32(3, 100), f32(3, 100)), "rows.gated.gated_kernel"),
    "gated_backward": Call(
        HOPPER, lambda: (k.gated_backward, f32(3, 100), f32(3, 100), f32(3, 100)), "rows.gated.gated_back_kernel"
    ),
    "argmax": Call(HOPPER, lambda: (k.argmax, f32(2, 64)), "rows.largest.few.few_largest_kernel"),
    "gate of many": Call(HOPPER, lambda: (partial(k.gate, k=9), f32(2, 64)), "rows.largest.one.largest_kernel"),
    "top_k": Call(HOPPER, few_candidates, "rows.largest.many.many_largest_kernel"),
    "sample": Call(HOPPER, lambda: (partial(k.sample, seed=1, top_k=5), f32(2, 64)), "rows.sample.sample_kernel"),
    "rope": Call(
        HOPPER, lambda: (k.rope, f32(1, 4, 2, 16), f32(1, 4, 2, 16), f32(4, 8), f32(4, 8)), "rows.rope.rope_kernel"
    ),
    "quantize": Call(HOPPER, lambda: (k.quantize, f32(3, 100)), "rows.quantize.quantize_kernel"),
    "quantize_mx": Call(HOPPER, lambda: (k.quantize_mx, f32(3, 128)), "mx.quantize.mx_rows_kernel"),
    "dequantize_mx": Call(HOPPER, mx_values, "mx.quantize.mx_values_kernel"),
    # --- others ---
    "transpose": Call("sm_80", of_case("transpose-float32"), "transpose.transpose_kernel"),
    "vector_add": Call("sm_80", of_case("vector_add-float32"), "vector_add.vector_add_kernel"),
    "vector_add of units": Call("sm_80", of_case("vector_add-bfloat16"), "vector_add.vector_add_wide_kernel"),
    # --- several GPUs: one rank of a world of one; other ranks are other processes, which `tests/dist` runs ---
    **{
        name: Call(HOPPER, of_case(f"{name}-"), f"dist.{kernel}_kernel", "matmul" not in name)
        for name, kernel in {
            "all_reduce_one_shot": "reduce.one_shot",
            "all_reduce_two_shot": "reduce.two_shot",
            "reduce_scatter": "reduce.reduce_scatter",
            "all_gather": "gather.all_gather",
            "dispatch": "experts.dispatch",
            "combine": "experts.combine",
            "all_gather_matmul": "matmul.all_gather_matmul",
            "matmul_reduce_scatter": "matmul.matmul_reduce_scatter",
        }.items()
    },
}


def explore(call: Call, budget_s: float) -> tuple[ScheduleReport, list[str]]:
    """What is found, and the kernels of the call that did not run."""
    function, *arguments = call.make()
    report = flyc.explore_schedules(function, *arguments, budget_s=budget_s)
    ran = {name.rpartition("_")[0] for name in report.kernels}
    return report, [name for name in call.kernels.split() if name.rpartition(".")[2] not in ran]


def all_kernels() -> set[str]:
    """`module.kernel` of every kernel of the library."""
    found: set[str] = set()
    for module in pkgutil.walk_packages(k.__path__, "flydsl.kernels."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, KernelFunction):
                found.add(f"{value.__module__}.{value.__name__}".removeprefix("flydsl.kernels."))
    return found


__all__ = ["CALLS", "Call", "all_kernels", "explore"]
