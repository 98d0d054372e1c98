"""The first consumer of latent keys: scores, their softmax, and its part of the sums with weights in its registers.

Where it has few columns of the sums, it has registers for queries: products that take those from shared memory wait for
it, since a step has no more keys than a block has rows.
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...matmul.sm90.out import swizzle
from ..softmax import Scale, Turn, look, weigh
from .form import ROWS, WIDE, Latent, Rows

LAZY = 8
"""A maximum may be behind by 2 to this power."""


class First(NamedTuple):
    """What it works with."""

    form: Latent
    numbers: Rows
    scale: Scale
    member: fx.Int32
    line: fx.Int32
    """This thread's first row of the block."""
    row: fx.Int32
    """The same among all rows."""
    keys: fx.Int32
    scores_mma: fx.TiledMma
    sums_mma: fx.TiledMma
    held_mma: fx.TiledMma
    queries: fx.Tensor
    held: list[fx.Tensor]
    """Queries in registers, an operand for each of the first products."""
    all_keys: fx.Tensor
    values: fx.Tensor
    scores: fx.Tensor
    weights: list[fx.Tensor]
    """An operand for each instruction."""
    sums: fx.Tensor
    highest: fx.Tensor
    total: fx.Tensor
    store: fx.CopyAtom
    copy: fx.ThrCopy
    to_weights: fx.Tensor
    stats: fx.Pointer
    ready: fx.nvgpu.MBarrier
    """Weights and what earlier sums count are there for the second consumer."""
    read: fx.nvgpu.MBarrier
    """It is done with them."""


def multiply_keys(me: First, stage: fx.Int32) -> None:
    """Issue a step's scores."""
    for k in range(me.form.d // 16):
        here = k < len(me.held)
        mma = me.held_mma if here else me.scores_mma
        mma = mma.set_value("accumulate", fx.Int32(0)) if k == 0 else mma
        queries = me.held[k][None, None, 0] if here else me.queries[None, None, k - me.form.lent * 4]
        fx.gemm(mma, me.scores, queries, me.all_keys[None, None, k, stage], me.scores)
    fx.nvgpu.wgmma_commit()


def hold(base: fx.Pointer, line: fx.Int32, member: fx.Int32, form: Latent) -> list[fx.Tensor]:
    """The first columns of a thread's rows of queries, as operands of products."""
    layout = fx.make_layout((ROWS, WIDE // 2, form.held // 4), (WIDE // 2, 1, ROWS * WIDE // 2))
    words = fx.make_view(fx.apply_swizzle(fx.recast_iter(fx.Int32, base), swizzle(2 * WIDE)), layout)
    operand = fx.make_layout(((2, 2, 2), 1, 1), ((1, 2, 4), 0, 0))
    made: list[fx.Tensor] = []
    for k in range(form.held):
        first = k % 4 * 8 + member % 4
        found = [fx.Int32(words[line + 8 * r, first + 4 * half, k // 4]) for half in range(2) for r in range(2)]
        made.append(fx.make_rmem_tensor(operand, base.dtype))
        values = fx.Vector.from_elements(found, fx.Int32).bitcast(base.dtype)
        made[-1].store(values.reshape(operand.shape.unpack()))
    return made


def multiply_values(me: First, stage: fx.Int32) -> None:
    """Issue its part of a step's sums."""
    for k in range(me.form.n // 16):
        fx.gemm(me.sums_mma, me.sums, me.weights[k][None, None, 0], me.values[None, None, k, stage], me.sums)
    fx.nvgpu.wgmma_commit()


@flyc.jit
def weigh_scores(me: First, index: fx.Int32, base: fx.Pointer, parity: fx.Int32):
    """A step's weights, here and for the second consumer, once a phase of `read` is over; what earlier sums are
    multiplied by."""
    form = me.form
    if (index + 1) * form.n > me.keys - (me.numbers.queries - 1 if form.causal else 0):
        mask(me, index)
        if fx.const_expr(form.used_k and not form.raw):
            clear(base, me.keys - index * form.n, me.member, form)
    turn = look(me.scores, me.highest, me.scale, first=False, masked=True, lazy=LAZY)
    weigh(me.scores, me.total, me.scale, turn, first=False)
    hand_over(me, turn, parity)
    keep(me)
    return turn.factors


@flyc.jit
def hand_over(me: First, turn: Turn, parity: fx.Int32):
    """A step's weights to the second consumer, with what earlier sums count now."""
    flat = fx.make_rmem_tensor(me.scores.layout, me.weights[0].dtype)
    flat.store(me.scores.load().to(flat.dtype))
    me.read.wait(parity)
    fx.copy(me.store, me.copy.retile(flat), me.to_weights)
    if me.member % 4 == 0:
        me.stats[me.line] = turn.factors[0]
        me.stats[me.line + 8] = turn.factors[1]
    me.ready.arrive()


def keep(me: First) -> None:
    """Weights where their products take them from."""
    values = me.scores.load().reshape(me.form.n // 2)
    for k, operand in enumerate(me.weights):
        part = values.shuffle(values, [8 * k + i for i in range(8)])
        operand.store(part.to(operand.dtype).reshape(operand.shape.unpack()))


def mask(me: First, index: fx.Int32) -> None:
    """Scores of keys that a row must not see become the least there is."""
    form, numbers = me.form, me.numbers
    for r in range(2):
        end = me.keys - (index * form.n + me.member % 4 * 2)
        if form.causal:
            query = fx.min((me.row + 8 * r) // numbers.heads, numbers.queries - 1)
            end = end - (numbers.queries - 1 - query)
        for j in range(form.n // 8):
            for e in range(2):
                at = (e, r, j), 0, 0
                me.scores[at] = (end > 8 * j + e).select(me.scores[at], me.scale.least)


@flyc.jit
def clear(base: fx.Pointer, rows: fx.Int32, member: fx.Int32, form: Latent):
    """Zeros for values behind the last one: whatever lies there, its weights of 0 must not make it NaN."""
    # Each warp has waited for its own part of the product; the others may read on.
    fx.nvgpu.named_barrier(1, 128).sync()
    for i in range(fx.max(rows, 0) * WIDE + member, form.n * WIDE, 128):
        for box in fx.range_constexpr(form.dv // WIDE):
            base[i + box * (form.n * WIDE)] = base.dtype(0.0)
    fx.nvgpu.fence_proxy_async()
    fx.nvgpu.named_barrier(1, 128).sync()


__all__ = ["First", "hold", "multiply_keys", "multiply_values", "weigh_scores"]
