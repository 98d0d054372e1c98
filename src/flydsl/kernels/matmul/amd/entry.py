"""`amd_matmul`: the kernel as a function of its own."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .kernel import Form, Tile, amd_tiles


@flyc.jit
def amd_matmul(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    bias: fx.Tensor | None,
    scale_a: fx.Tensor | None,
    scale_b: fx.Tensor | None,
    scale_out: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    batches: fx.Int32,
    step_a: fx.Int32,
    step_w: fx.Int32,
    step_c: fx.Int32,
    batch_a: fx.Int64,
    batch_w: fx.Int64,
    batch_c: fx.Int64,
    group: fx.Int32,
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
    blocks_w: fx.Tensor | None = None,
    blocks_a: fx.Tensor | None = None,
):
    """`c = activation((a @ w.T) * scale_a * scale_b + bias) / scale_out`, with rows of `a` and `w` in 16-byte units.

    Strides are in elements: of the rows of each matrix, and of its batch. Scales of MX blocks are in the order of
    `mx.py`.
    """
    extras = tuple(x for x in (blocks_w, blocks_a, bias, scale_a, scale_b, scale_out) if x is not None)
    amd_tiles(
        a, w, c, extras, m, n, k, batches, step_a, step_w, step_c, batch_a, batch_w, batch_c, group, tile, form, stream
    )
