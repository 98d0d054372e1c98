"""What `tuning.py` tunes: kernels with knobs, the shapes they run at, and the Hopper product of the library."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import Config, Space
from flydsl.kernels.matmul.hopper import hopper
from flydsl.kernels.matmul.plan import Problem, candidates, operands
from flydsl.kernels.matmul.tile import Form
from flydsl.kernels.rows.form import Form as RowForm
from flydsl.kernels.rows.gated import gated_rows
from flydsl.kernels.rows.norm_kernels import norm_rows_kernel
from flydsl.kernels.rows.softmax_kernels import blocks_for, softmax_rows

UNITS = 132


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, BLOCK: fx.Constexpr[int], EACH: fx.Constexpr[int]):
    first = fx.block_idx.x * (BLOCK * EACH) + fx.thread_idx.x
    for j in fx.range_constexpr(EACH):
        i = first + j * BLOCK
        if i < n:
            y[i] = x[i] * 2.0 + y[i]


@flyc.jit
def axpy(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, BLOCK: fx.Constexpr[int], EACH: fx.Constexpr[int]):
    axpy_kernel(x, y, n, BLOCK, EACH).launch(grid=fx.ceildiv(n, BLOCK * EACH), block=BLOCK)


@flyc.kernel
def transpose_kernel(
    src: fx.Tensor,
    dst: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    TILE: fx.Constexpr[int],
    ROWS: fx.Constexpr[int],
    PAD: fx.Constexpr[int],
):
    lds = fx.SharedAllocator().allocate(fx.Array[src.dtype, TILE * (TILE + PAD), 16]).peek()
    tile = lds.view(fx.make_layout((TILE, TILE), (TILE + PAD, 1)))
    x, y = fx.thread_idx.x % TILE, fx.thread_idx.x // TILE
    row, column = fx.block_idx.y * TILE, fx.block_idx.x * TILE
    for j in fx.range_constexpr(TILE // ROWS):
        r = y + j * ROWS
        if (row + r < m) & (column + x < n):
            tile[r, x] = src[row + r, column + x]
    fx.barrier()
    for j in fx.range_constexpr(TILE // ROWS):
        r = y + j * ROWS
        if (column + r < n) & (row + x < m):
            dst[column + r, row + x] = tile[x, r]


@flyc.jit
def transpose(
    src: fx.Tensor,
    dst: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    TILE: fx.Constexpr[int],
    ROWS: fx.Constexpr[int],
    PAD: fx.Constexpr[int],
):
    grid = (fx.ceildiv(n, TILE), fx.ceildiv(m, TILE))
    transpose_kernel(src, dst, m, n, TILE, ROWS, PAD).launch(grid=grid, block=TILE * ROWS)


@flyc.kernel
def sums_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32, THREADS: fx.Constexpr[int]):
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, THREADS, 16]).peek()
    parts = lds.view(fx.make_layout((THREADS,), (1,)))
    row, lane = fx.block_idx.x, fx.thread_idx.x
    total = fx.Float32(0.0)
    for i in range(lane, n, THREADS):
        value = x[row, i]
        total = total + value * value
    parts[lane] = total
    step = THREADS // 2
    while fx.const_expr(step > 0):
        fx.barrier()
        if lane < step:
            parts[lane] = parts[lane] + parts[lane + step]
        step = step // 2
    if lane == 0:
        out[row] = parts[0]


@flyc.jit
def sums(x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32, THREADS: fx.Constexpr[int]):
    sums_kernel(x, out, n, THREADS).launch(grid=m, block=THREADS)


@flyc.jit
def norms(
    x: fx.Tensor,
    weight: fx.Tensor,
    bias: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    centred: fx.Constexpr[bool],
    form: fx.Constexpr[RowForm],
):
    """The library's kernel of layer norm, or of RMS norm without a bias."""
    bias = bias if centred else None
    norm_rows_kernel(x, None, weight, bias, out, None, None, None, m, n, 1e-5, centred, form).launch(
        grid=blocks_for(form, m), block=form.block
    )


# --- families -----------------------------------------------------------------------------------------------------

Array = tuple[tuple[int, ...], str]
"""Shape and type."""


@dataclass(frozen=True)
class Family:
    """A kernel, its shapes and its candidates."""

    name: str
    function: Any
    shapes: Sequence[tuple[int, ...]]
    arrays: Callable[..., Sequence[Array]]
    numbers: Callable[..., Sequence[object]]
    """Arguments behind the arrays, without knobs."""
    configs: Callable[..., list[Config]]
    fitted: bool = False
    """Whether its shapes were used to fit the model's constants; the figures leave them out."""


def _matmul_problem(m: int, n: int, k: int) -> Problem:
    return Problem(m, n, k, 1, 16, 2, "k", "k", n % 8 != 0, UNITS, ragged=(k % 64 != 0, k % 64 != 0))


def matmul_configs(m: int, n: int, k: int, most: int = 12) -> list[Config]:
    """Tiles of all kinds, the library's own choice among them: those its model likes, and others by chance."""
    given = _matmul_problem(m, n, k)
    ranked = [p for p in candidates(given) if p.tile.slices == 1 and p.tile.splits == 1 and not p.tile.swap]
    near = [p for p in ranked if p.clocks < 3.0 * ranked[0].clocks]
    chosen = near[:3] + random.Random(m * 31 + n * 7 + k).sample(near[3:], min(most - 3, len(near) - 3))
    found: list[Config] = []
    for plan in chosen:
        _, _, x_major, y_major = operands(given, False)
        form = Form(x_major, y_major, "engine" if n % 8 == 0 else "elements")
        found.append(Config(blocks=plan.blocks, group=plan.group, tile=plan.tile, form=form))
    return found


def _matmul_numbers(m: int, n: int, k: int) -> tuple[object, ...]:
    return (None, None, None, None, None, m, n, k, 1, k, 0, k, 0, n, 0)


def row_configs(names: tuple[str, ...], most: int) -> Callable[[int, int], list[Config]]:
    """Threads and units of a thread for the library's operations on rows."""

    def found(m: int, n: int) -> list[Config]:
        units = n // 8
        teams = [t for t in (4, 8, 16, 32, 64, 128, 256, 512, 1024) if t <= 2 * units and -(-units // t) <= most]
        forms = [
            RowForm(8, team, max(block // team, 1), -(-units // team), False, names)
            for team in teams
            for block in ((64, 256) if team <= 64 else (team,))
        ]
        return [Config(form=form) for form in forms]

    return found


BLOCKS = Space(BLOCK=(64, 128, 256, 512, 1024), EACH=(1, 2, 4))
TILES = Space(TILE=(16, 32, 64), ROWS=(4, 8, 16), PAD=(0, 1), where=lambda c: 64 <= c.TILE * c.ROWS <= 1024)  # type: ignore[operator]

ROWS = [(2**27 // n, n) for n in (768, 1024, 2048, 4096, 5120, 8192, 16384)]

FAMILIES = (
    Family("axpy", axpy, [(1 << 14,), (1 << 18,), (1 << 22,), (1 << 26,)],
           lambda n: [((n,), "float32"), ((n,), "float32")], lambda n: (n,), lambda n: list(BLOCKS), fitted=True),
    Family("transpose", transpose, [(512, 512), (2048, 4096), (8192, 8192)],
           lambda m, n: [((m, n), "float32"), ((n, m), "float32")], lambda m, n: (m, n), lambda m, n: list(TILES)),
    Family("sums", sums, [(64, 65536), (1024, 1024), (8192, 4096), (65536, 256)],
           lambda m, n: [((m, n), "float32"), ((m,), "float32")], lambda m, n: (m, n),
           lambda m, n: [Config(THREADS=t) for t in (32, 64, 128, 256, 512, 1024)]),
    Family("matmul", hopper,
           [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 1024, 1024),
            (128, 8192, 8192), (512, 4096, 4096), (2048, 6144, 4096)],
           lambda m, n, k: [((m, k), "bfloat16"), ((n, k), "bfloat16"), ((m, n), "bfloat16")], _matmul_numbers,
           matmul_configs),
    *(Family(name, norms, ROWS, lambda m, n: [((m, n), "bfloat16"), ((n,), "bfloat16"), ((n,), "bfloat16"),
                                              ((m, n), "bfloat16")],
             lambda m, n, centred=centred: (m, n, centred), row_configs(("x", "weight", "bias", "out"), 8))
      for name, centred in (("RMS norm", False), ("layer norm", True))),
    Family("softmax", softmax_rows, ROWS,
           lambda m, n: [((m, n), "bfloat16"), ((m, n), "bfloat16")], lambda m, n: (m, n, False),
           row_configs(("x", "out"), 8)),
    Family("SiLU mul", gated_rows, [(1 << 16, 512), (1 << 15, 2048), (1 << 14, 4096)],
           lambda m, n: [((m, n), "bfloat16")] * 3, lambda m, n: (m, n, "silu"), row_configs(("x", "y", "out"), 4)),
)  # fmt: skip
