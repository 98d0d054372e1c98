"""Operations on rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

import flydsl.kernels as k
from flydsl.kernels.mx.quantize import quantize_mx
from flydsl.kernels.rows.columns import weight_sums
from flydsl.kernels.rows.form import Form as RowForm
from flydsl.kernels.rows.norm_kernels import norm_rows

from .call import HOPPER, Call, bf16, f32, ids, of_case, room


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
    return norm_rows, x, None, weight, weight, room(m, n), None, None, None, m, n, 1e-5, True, form


def summed_weights() -> tuple[Any, ...]:
    """What the gradients of long rows leave to a kernel of its own."""
    sums = [room(2, 64) for _ in range(2)]
    return weight_sums, f32(9, 64), f32(9, 64), f32(9), f32(9), *sums, room(64), room(64), 9, 64, 2, 4


def few_candidates() -> tuple[Any, ...]:
    """Numbers in falling order: those that may be among the largest belong to two warps, which draw places in turn."""
    return partial(k.top_k, k=40), torch.linspace(1, 0, 600)[None]


def mx_values() -> tuple[Any, ...]:
    return k.dequantize_mx, *quantize_mx(f32(3, 128))


CALLS: dict[str, Call] = {
    "softmax": Call(HOPPER, lambda: (k.softmax, f32(2, 3000)), "rows.softmax_kernels.softmax_rows_kernel"),
    "softmax of a cluster": Call(
        HOPPER, lambda: (k.softmax, f32(1, 40000)), "rows.softmax_kernels.softmax_rows_kernel"
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
        "matmul.few.thin_kernel.thin_kernel rows.linear_cross_entropy.partial_loss_kernel",
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
    "dequantize": Call(HOPPER, lambda: (k.dequantize, *k.quantize(f32(3, 100))), "rows.dequantize.dequantize_kernel"),
    "quantize_mx": Call(HOPPER, lambda: (k.quantize_mx, f32(3, 128)), "mx.quantize.mx_rows_kernel"),
    "dequantize_mx": Call(HOPPER, mx_values, "mx.quantize.mx_values_kernel"),
}
