"""`amd_matmul`: the kernel as a function of its own."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .kernel import EACH, Form, Tile, amd_tiles
from .sums import add_slices


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
    length: fx.Int32,
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
    blocks_w: fx.Tensor | None = None,
    blocks_a: fx.Tensor | None = None,
    parts: fx.Tensor | None = None,
    offsets: fx.Tensor | None = None,
):
    """`c = activation((a @ w.T) * scale_a * scale_b + bias) / scale_out`, with rows of `a` and `w` in 16-byte units.

    Strides are in elements: of the rows of each matrix, and of its batch. Scales of MX blocks are in the order of
    `mx.py`. With `parts`, memory for the sums of all slices in rows of whole units of four, K is cut into slices of
    `length` elements. With `offsets`, the ends of groups, `a` and `c` have no batch, and each group of rows has its own
    `w`.
    """
    blocks = tuple(x for x in (offsets, blocks_w, blocks_a) if x is not None)
    extras = tuple(x for x in (bias, scale_a, scale_b, scale_out) if x is not None)
    steps = (step_a, step_w)
    if parts is None:
        amd_tiles(
            a, w, c, (*blocks, *extras), m, n, k, batches, *steps, step_c, batch_a, batch_w, batch_c, group, length,
            tile, form, stream,
        )  # fmt: skip
        return
    pitch = fx.ceildiv(n, EACH) * EACH
    inner = form._replace(sliced=True, extras=(), activation="none", store=1 if form.doubled else EACH)
    amd_tiles(
        a, w, parts, blocks, m, n, k, batches, *steps, pitch, batch_a, batch_w, fx.Int64(m) * pitch, group, length,
        tile, inner, stream,
    )  # fmt: skip
    add_slices(
        parts, c, extras, m, n, batches, fx.ceildiv(k, length), pitch, step_c, batch_c, form.extras, form.activation,
        form.store, stream,
    )  # fmt: skip
