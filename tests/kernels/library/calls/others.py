"""Axes, experts, elements and several GPUs."""

from __future__ import annotations

from functools import partial

import torch

import flydsl.kernels as k

from .call import HOPPER, Call, bf16, f32, ids, of_case

CALLS: dict[str, Call] = {
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
