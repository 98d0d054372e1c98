"""`amd_attention`: the kernel as a function of its own."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..dropout import Drop
from ..plain import Kind, Sight, Steps
from ..walk import Places, pointer_of
from .kernel import Numbers, amd_attention_kernel
from .tile import Machine, Tile


@flyc.jit
def amd_attention(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    lse: fx.Tensor | None,
    descale_q: fx.Tensor | None,
    descale_k: fx.Tensor | None,
    descale_v: fx.Tensor | None,
    bias: fx.Tensor | None,
    alibi: fx.Tensor | None,
    sinks: fx.Tensor | None,
    cu_q: fx.Tensor | None,
    cu_k: fx.Tensor | None,
    used_k: fx.Tensor | None,
    table: fx.Tensor | None,
    batches: fx.Int32,
    longest: fx.Int32,
    keys: fx.Int32,
    heads: fx.Int32,
    kv_heads: fx.Int32,
    splits: fx.Int32,
    page: fx.Int32,
    table_row: fx.Int32,
    alibi_batch: fx.Int32,
    batch_descale_q: fx.Int32,
    head_descale_q: fx.Int32,
    share_descale_q: fx.Int32,
    batch_descale_k: fx.Int32,
    head_descale_k: fx.Int32,
    batch_descale_v: fx.Int32,
    head_descale_v: fx.Int32,
    batch_q: fx.Int64,
    row_q: fx.Int64,
    head_q: fx.Int64,
    batch_k: fx.Int64,
    row_k: fx.Int64,
    head_k: fx.Int64,
    batch_v: fx.Int64,
    row_v: fx.Int64,
    head_v: fx.Int64,
    batch_out: fx.Int64,
    row_out: fx.Int64,
    head_out: fx.Int64,
    batch_bias: fx.Int64,
    row_bias: fx.Int64,
    head_bias: fx.Int64,
    column_bias: fx.Int64,
    head_lse: fx.Int64,
    batch_lse: fx.Int64,
    out_split: fx.Int64,
    lse_split: fx.Int64,
    bytes_k: fx.Int32,
    bytes_v: fx.Int32,
    left: fx.Int32,
    right: fx.Int32,
    scale: fx.Float32,
    softcap: fx.Float32,
    factor: fx.Float32,
    seed: fx.Int64,
    cut: fx.Int64,
    kept: fx.Float32,
    tile: fx.Constexpr[Tile],
    machine: fx.Constexpr[Machine],
    kind: fx.Constexpr[Kind],
    stream: fx.Stream = fx.Stream(None),
):
    """Strides are in elements, those of a row's elements are one. `longest` is the number of queries, or the most.

    With `splits` there is an f32 result and a logarithm for each part of the keys.
    """
    one = fx.Int64(1)
    amd_attention_kernel(
        fx.get_iter(q), fx.get_iter(k), fx.get_iter(v), fx.get_iter(out), pointer_of(lse), pointer_of(descale_q),
        pointer_of(descale_k), pointer_of(descale_v), pointer_of(bias), pointer_of(alibi), pointer_of(sinks),
        pointer_of(cu_q), pointer_of(cu_k), pointer_of(used_k), pointer_of(table), tile, machine, kind,
        Numbers(
            longest, keys, heads, heads // kv_heads, splits, page, table_row, alibi_batch, factor, head_lse, batch_lse,
            out_split, lse_split, bytes_k, bytes_v,
        ),
        Sight(left, right, scale, softcap), Drop(seed, cut, kept),
        Places(
            batch_descale_q, head_descale_q, share_descale_q, batch_descale_k, head_descale_k, batch_descale_v,
            head_descale_v,
        ), Steps(batch_q, row_q, head_q, one), Steps(batch_k, row_k, head_k, one), Steps(batch_v, row_v, head_v, one),
        Steps(batch_out, row_out, head_out, one), Steps(batch_bias, row_bias, head_bias, column_bias),
    ).launch(
        grid=(heads, fx.ceildiv(longest, tile.m), batches * (kind.dv // tile.dv) * splits),
        block=tile.threads(machine), stream=stream,
    )  # fmt: skip
