"""C = f(A W + bias) for at most 16 rows of A: weights of 8 and 16 bits go from memory to registers, and nowhere else.

As in `slim_kernel.py` the weights' columns are rows of the matrix instruction and the rows of A, its tokens, are
columns. A lane reads 16 bytes of a column of W and 16 bytes of a token at the same place along K: the instruction sums
over K in any order, as long as both operands have the same, so four words of either are fragments of two instructions
as they come. No stage lies between, and nobody waits for another: lanes have `units` reads of each column under way,
and those of the next step are asked for before this one is multiplied.

The assembler makes f16 of fp8 there, and adds products up as it does those of f16: sums keep f32.

Warps of a block divide K, and so do the blocks of a cluster (`slices`). Sums are added in a fixed order: the same bits
in every run.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...activations import activated
from ...epilogue import narrowed
from ..sm90.promote import sum_class
from .thin import HIGH, PAD, UNSCALED, Scales, Thin, depth_of

WORDS = 4
"""Of 16 bytes: they stay words until they are multiplied, or each half would be a register between two steps."""
QUAD = 4
"""Results a thread stores together."""


class Given(NamedTuple):
    """Extents at run time, and the steps between rows in elements."""

    m: fx.Int32
    n: fx.Int32
    k: fx.Int32
    step_a: fx.Int64
    step_w: fx.Int64
    step_c: fx.Int64


class Result(NamedTuple):
    """Where results go, and what is done to them on the way."""

    c: fx.Pointer
    bias: fx.Tensor | None
    scale_a: fx.Tensor | None
    scale_b: fx.Tensor | None
    scales: Scales
    activation: str
    quads: bool


@flyc.kernel
def thin_kernel(
    a: fx.Pointer,
    w: fx.Pointer,
    c: fx.Pointer,
    bias: fx.Tensor | None,
    scale_a: fx.Tensor | None,
    scale_b: fx.Tensor | None,
    thin: fx.Constexpr[Thin],
    scales: fx.Constexpr[Scales],
    activation: fx.Constexpr[str],
    quads: fx.Constexpr[bool],
    given: Given,
):
    nv = fx.nvgpu
    total, deep = sum_class(a.dtype), depth_of(a.dtype.width)
    tid = fx.thread_idx.x
    warp, lane = nv.uniform(tid // 32), tid % 32
    rank = fx.block_idx.x % thin.slices
    first = fx.block_idx.x // thin.slices * thin.rows
    # Columns and rows that are not there are read where the last ones are; their sums go nowhere.
    along = lane % 4 * (deep // 4)
    columns, tokens = columns_at(w, first, lane, along, thin, given), tokens_at(a, lane, along, thin, given)
    sums = fx.make_rmem_tensor(fx.make_layout(4 * thin.tiles * (thin.tokens // 8), 1), total)
    sums.fill(0)
    nv.griddepcontrol_wait()
    nv.griddepcontrol_launch()

    depth = deep * thin.units
    whole = given.k // depth
    stride = thin.warps * thin.slices
    start = rank * thin.warps + warp
    count = fx.max(fx.ceildiv(whole - start, stride), 0)
    reads = 2 * thin.tiles + thin.tokens // 8
    layout = fx.make_layout((WORDS, reads, thin.units), (1, WORDS, WORDS * reads))
    held, coming = fx.make_rmem_tensor(layout, fx.Int32), fx.make_rmem_tensor(layout, fx.Int32)
    if count > 0:
        fetch(held, columns, tokens, start * depth, thin, deep)
    for i in range(count):
        if i + 1 < count:
            fetch(coming, columns, tokens, (start + (i + 1) * stride) * depth, thin, deep)
        multiply(sums, held, thin, w.dtype, a.dtype)
        held.store(coming.load())
    # What is left is less than a step: one warp's. Beyond the end of K there are zeros.
    if (given.k > whole * depth) & (start == whole % stride):
        fetch_inside(held, [*columns, *tokens], whole * depth, along, given.k, thin, deep)
        multiply(sums, held, thin, w.dtype, a.dtype)

    parts = fx.get_dyn_shared(total)
    put_sums(parts + warp * (thin.tokens * (thin.rows + PAD)), sums, thin, lane)
    if fx.const_expr(thin.slices > 1):
        nv.cluster.sync()
    else:
        fx.barrier()
    # Each block of a cluster adds up its share of the results.
    results = thin.tokens * thin.rows // QUAD
    out = Result(c, bias, scale_a, scale_b, scales, activation, quads)
    for at in range(rank * (32 * thin.warps) + tid, results, 32 * thin.warps * thin.slices):
        store(add_sums(parts, at, thin), out, given, first, at, thin)
    if fx.const_expr(thin.slices > 1):
        # Nobody leaves while another block reads its sums.
        nv.cluster.sync()


def columns_at(
    w: fx.Pointer, first: fx.Int32, lane: fx.Int32, along: fx.Int32, thin: Thin, given: Given
) -> list[fx.Pointer]:
    """A lane's columns of W from the `first` on; where there are none any more, the last."""
    return [
        w + (fx.Int64(fx.min(first + (t * HIGH + h * 8) + lane // 4, given.n - 1)) * given.step_w + along)
        for t in range(thin.tiles)
        for h in range(2)
    ]


def tokens_at(a: fx.Pointer, lane: fx.Int32, along: fx.Int32, thin: Thin, given: Given) -> list[fx.Pointer]:
    return [
        a + (fx.Int64(fx.min(lane // 4 + j * 8, given.m - 1)) * given.step_a + along) for j in range(thin.tokens // 8)
    ]


def fetch(
    held: fx.Tensor, columns: list[fx.Pointer], tokens: list[fx.Pointer], at: fx.Int32, thin: Thin, deep: int
) -> None:
    """A step's weights and tokens; weights are read once and leave the cache to the tokens."""
    for u in range(thin.units):
        for i, place in enumerate(columns):
            held[None, i, u].store(words_at(place + (at + u * deep), once=True))
        for j, place in enumerate(tokens):
            held[None, len(columns) + j, u].store(words_at(place + (at + u * deep)))


def fetch_inside(
    held: fx.Tensor, places: list[fx.Pointer], at: fx.Int32, along: fx.Int32, k: fx.Int32, thin: Thin, deep: int
) -> None:
    """A step that reaches beyond the end of K: there are zeros. A lane's places begin at its unit, `along` K."""
    for u in range(thin.units):
        here = at + u * deep
        inside = here < k - along
        # What is read in vain is the first unit, which is there however short K is.
        near = inside.select(here, -along)
        for i, place in enumerate(places):
            zero = fx.Vector.filled(WORDS, 0, fx.Int32)
            held[None, i, u].store(cast("fx.Vector", inside.select(words_at(place + near), zero)))


def words_at(place: fx.Pointer, *, once: bool = False) -> fx.Vector:
    """A unit of memory that nobody writes meanwhile; `once`: it is read no second time, but what is behind it is."""
    words = fx.recast_iter(fx.Int32, place)
    if once:
        return cast("fx.Vector", fx.nvgpu.load_global(words, WORDS, read_only=True, l1="no_allocate", l2_prefetch=128))
    return cast("fx.Vector", fx.nvgpu.load_global(words, WORDS, read_only=True))


def multiply(sums: fx.Tensor, held: fx.Tensor, thin: Thin, dtype: type[fx.Numeric], dtype_a: type[fx.Numeric]) -> None:
    """Words of a lane's units are fragments: its column's and the one eight further, and its token's."""
    mma = fx.make_mma_atom(fx.nvgpu.MMA(16, 8, 256 // dtype.width, dtype, b=dtype_a))
    each = 32 // dtype.width
    left, right = (fx.make_rmem_tensor(fx.make_layout(x * each, 1), t) for x, t in ((4, dtype), (2, dtype_a)))
    many = thin.tokens // 8
    for u in range(thin.units):
        tokens = [held[None, 2 * thin.tiles + j, u].load() for j in range(many)]
        for t in range(thin.tiles):
            near, far = (held[None, 2 * t + h, u].load() for h in range(2))
            for s in range(2):
                left.store(near.shuffle(far, [2 * s, 4 + 2 * s, 2 * s + 1, 5 + 2 * s]).bitcast(dtype))
                for j in range(many):
                    right.store(tokens[j].shuffle(tokens[j], [2 * s, 2 * s + 1]).bitcast(dtype_a))
                    acc = fx.make_view(fx.get_iter(sums) + 4 * (t * many + j), fx.make_layout(4, 1))
                    fx.mma_atom_call(mma, acc, left, right, acc)


def put_sums(parts: fx.Pointer, sums: fx.Tensor, thin: Thin, lane: fx.Int32) -> None:
    """A warp's sums to shared memory, by tokens."""
    many = thin.tokens // 8
    for t in range(thin.tiles):
        for j in range(many):
            for e in range(4):
                row, token = t * HIGH + lane // 4 + 8 * (e // 2), 8 * j + lane % 4 * 2 + e % 2
                parts[token * (thin.rows + PAD) + row] = sums[4 * (t * many + j) + e]


def add_sums(parts: fx.Pointer, at: fx.Int32, thin: Thin) -> fx.Vector:
    """Four columns' sums of a token, of all warps of all blocks."""
    per, pitch = thin.rows // QUAD, thin.rows + PAD
    layout = fx.make_layout(QUAD, 1)
    unit = fx.make_copy_atom(fx.UniversalCopy128b(), parts.dtype)
    total = None
    for s in range(thin.slices):
        there = fx.nvgpu.cluster.peer(parts, s) if thin.slices > 1 else parts
        for p in range(thin.warps):
            held = fx.make_rmem_tensor(layout, parts.dtype)
            place = there + (p * (thin.tokens * pitch) + at // per * pitch + at % per * QUAD)
            fx.copy_atom_call(unit, fx.make_view(place, layout), held)
            total = held.load() if total is None else total + held.load()
    return cast("fx.Vector", total)


@flyc.jit
def store(values: fx.Vector, out: Result, given: Given, first: fx.Int32, at: fx.Int32, thin: Thin):
    """Four results of a token, as far as C goes."""
    per = thin.rows // QUAD
    row, column = at // per, first + at % per * QUAD
    place = out.c + (fx.Int64(row) * given.step_c + column)
    if row < given.m:
        if fx.const_expr(out.quads):
            if column < given.n:
                fx.nvgpu.store_global(place, finished(values, out, row, column, QUAD))
        else:
            for i in fx.range_constexpr(QUAD):
                if column + i < given.n:
                    place[i] = finished(values.shuffle(values, [i]), out, row, column + i, 1)[0]


def finished(values: fx.Vector, out: Result, row: fx.Int32, column: fx.Int32, count: int) -> fx.Vector:
    """Sums of so many columns of a row with scales, bias and activation, as C has them."""
    if out.c.dtype is fx.Int32:
        return values
    values = values.to(fx.Float32)
    for scale, how, at in ((out.scale_a, out.scales.a, None), (out.scale_b, out.scales.b, column)):
        if how == "one" or (how and at is None):
            values = values * fx.Float32(cast("fx.Tensor", scale)[0 if how == "one" else row])
        elif how:
            values = values * elements(scale, column, count)
    if out.bias is not None:
        values = values + elements(out.bias, column, count)
    return narrowed(activated(out.activation, values), out.c.dtype)


def elements(vector: fx.Tensor | None, first: fx.Int32, count: int) -> fx.Vector:
    found = [fx.Float32(cast("fx.Tensor", vector)[first + i]) for i in range(count)]
    return fx.Vector.from_elements(found, fx.Float32)


@flyc.jit
def thin_matmul(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    bias: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    step_a: fx.Int64,
    step_w: fx.Int64,
    step_c: fx.Int64,
    thin: fx.Constexpr[Thin],
    activation: fx.Constexpr[str] = "none",
    quads: fx.Constexpr[bool] = False,
    stream: fx.Stream = fx.Stream(None),
    scale_a: fx.Tensor | None = None,
    scale_b: fx.Tensor | None = None,
    scales: fx.Constexpr[Scales] = UNSCALED,
):
    """C (m, n) = f(A (m, k) W + bias), m up to `thin.tokens`, with rows of A and C in one piece; strides in elements.

    `step_w` leads from one column of W to the next, K in one piece; rows of A and columns of W are units of 16 bytes.
    `quads`: C takes four elements at a time. `scales` says what `scale_a` and `scale_b` are for.
    """
    blocks = fx.ceildiv(n, thin.rows) * thin.slices
    given = Given(m, n, k, step_a, step_w, step_c)
    thin_kernel(
        fx.get_iter(a), fx.get_iter(w), fx.get_iter(c), bias, scale_a, scale_b, thin, scales, activation, quads, given
    ).launch(
        grid=blocks, block=32 * thin.warps, stream=stream, pdl=True, smem=thin.shared_bytes,
        cluster=thin.slices if thin.slices > 1 else None,
    )  # fmt: skip
