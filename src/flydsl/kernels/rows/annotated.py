"""Operations on the rows of a matrix: softmax, RMS norm, layer norm; of every length, on every target.

f32, f16 or bf16 in and out; sums and statistics are f32. What is known of the arguments decides how rows are read:

* the row length is known, and rows are promised to be 16-byte units (`flyc.from_torch_tensor(t, assumed_align=16)`): a
  block keeps its row in registers (`wide.py`) or, if it is long, in shared memory (`long.py`, for NVIDIA);
* otherwise a block reads its row from memory in each pass, in 16-byte units where rows turn out to have them
  (`any_length.py`). One kernel then serves all row lengths.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.nvgpu.target import trace_target
from flydsl.target import KIB, architecture

from ..extents import check_extents
from .any_length import THREADS, layer_norm_any_kernel, rms_norm_any_kernel, softmax_any_kernel, unit_of
from .long import layer_norm_long_kernel, rms_norm_long_kernel, row_bytes, softmax_long_kernel
from .wide import Plan, layer_norm_wide_kernel, plan, rms_norm_wide_kernel, softmax_wide_kernel, staged, units_of

LONG_BYTES = 32768
"""Rows from which on shared memory is the better place."""
LONG_THREADS = 512


@flyc.jit
def softmax(x: fx.Tensor, out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    """Softmax of every row."""
    _softmax(x, out, stream)


def _softmax(x: fx.Tensor, out: fx.Tensor, stream: fx.Stream) -> None:
    check_extents("softmax", x=(x, "mn"), out=(out, "mn"))
    m, n = x.shape.unpack()
    how = _best(plan((x, out), (), 16), x, 512, 16384)
    if _long_team((x, out), (), 1, (LONG_THREADS,)):
        # Registers for three blocks of a multiprocessor.
        softmax_long_kernel(x, out, LONG_THREADS, value_attrs={"nvvm.minctasm": 3}).launch(
            grid=m, block=LONG_THREADS, smem=row_bytes(x, LONG_THREADS), stream=stream
        )
    elif how is not None:
        softmax_wide_kernel(x, out, how.threads, how.rows, how.staged).launch(
            grid=fx.ceildiv(m, how.rows), block=how.block, stream=stream
        )
    else:
        n, unit = fx.Int32(n), unit_of(x, out)
        room = _room(x, unit)
        softmax_any_kernel(x, out, n, unit, room).launch(
            grid=m, block=_team(n, unit, room), smem=_held_bytes(x, n, room), stream=stream
        )


def _has(feature: str) -> bool:
    target = trace_target()
    return target is not None and target.has(feature)


def _shared_bytes() -> int:
    """Shared memory of a block for rows, a multiple of 32 KiB; 0 where rows are not kept there."""
    target = trace_target()
    if target is None or not target.has("cp_async"):
        return 0
    return (target.caps.shared_mem_per_block_optin or 96 * KIB) // (32 * KIB) * 32 * KIB


def _multiprocessors() -> int:
    """Blocks that stay, one on each multiprocessor of the largest GPU."""
    target = trace_target()
    entry = None if target is None else architecture(target.arch)
    return (entry.multiprocessors if entry is not None else None) or 148


def _room(x: fx.Tensor, unit: int) -> int:
    """Elements of a row of unknown length that a block has room for, so that two blocks fit a multiprocessor."""
    return _shared_bytes() // 2 * 8 // x.dtype.width if unit > 1 else 0


def _team(n: fx.Int32, unit: int, room: int) -> int | fx.Int32:
    """Threads for a row of unknown length: four or eight units each."""
    if not room:
        return THREADS
    return (n <= 512 * unit).select(fx.Int32(128), (n <= 1024 * unit).select(fx.Int32(256), fx.Int32(512)))


def _held_bytes(x: fx.Tensor, n: fx.Int32, room: int) -> int | fx.Int32:
    """Shared memory for such a row; none if it does not fit."""
    return (n <= room).select(n * (x.dtype.width // 8), 0) if room else 0


def _best(how: Plan | None, x: fx.Tensor, threads: int, nbytes: int) -> Plan | None:
    """The plan with bulk copies where there are any; threads and bytes of a block were found by trying.

    A row that is long, but too long for the shared memory of its kernel, has no place there to be staged in either.
    """
    if how is None or not _has("bulk_copy") or how.columns * x.dtype.width // 8 > LONG_BYTES:
        return how
    return staged(how, x, threads, nbytes)


def _long_team(
    matrices: tuple[fx.Tensor, ...], vectors: tuple[fx.Tensor, ...], rows: int, teams: tuple[int, ...]
) -> int:
    """Threads for rows in shared memory, `rows` of them at once; 0 where they are not long, or do not fit."""
    limit, found, x = _shared_bytes(), units_of(matrices, vectors), matrices[0]
    if not limit or found is None or found[0] * x.dtype.width // 8 <= LONG_BYTES:
        return 0
    return next((team for team in teams if rows * row_bytes(x, team) <= limit), 0)


@flyc.jit
def rms_norm(x: fx.Tensor, weight: fx.Tensor, out: fx.Tensor, eps: fx.Float32, stream: fx.Stream = fx.Stream(None)):
    """Every row divided by its root mean square, times `weight`."""
    _rms_norm(x, weight, out, eps, stream)


def _rms_norm(x: fx.Tensor, weight: fx.Tensor, out: fx.Tensor, eps: fx.Float32, stream: fx.Stream) -> None:
    check_extents("rms_norm", x=(x, "mn"), weight=(weight, "n"), out=(out, "mn"))
    m, n = x.shape.unpack()
    how = _best(plan((x, out), (weight,), 16, prefer=256), x, 256, 8192)
    if _long_team((x, out), (weight,), 1, (LONG_THREADS,)):
        rms_norm_long_kernel(x, weight, out, eps, LONG_THREADS, value_attrs={"nvvm.minctasm": 2}).launch(
            grid=m, block=LONG_THREADS, smem=row_bytes(x, LONG_THREADS), stream=stream
        )
    elif how is not None:
        rms_norm_wide_kernel(x, weight, out, eps, how.threads, how.rows, how.staged).launch(
            grid=fx.ceildiv(m, how.rows), block=how.block, stream=stream
        )
    else:
        n, unit = fx.Int32(n), unit_of(x, weight, out)
        room = _room(x, unit)
        rms_norm_any_kernel(x, weight, out, n, eps, unit, room).launch(
            grid=m, block=_team(n, unit, room), smem=_held_bytes(x, n, room), stream=stream
        )


@flyc.jit
def layer_norm(
    x: fx.Tensor,
    weight: fx.Tensor,
    bias: fx.Tensor,
    out: fx.Tensor,
    eps: fx.Float32,
    stream: fx.Stream = fx.Stream(None),
):
    """Every row less its mean, divided by its standard deviation, times `weight` plus `bias`."""
    _layer_norm(x, weight, bias, out, eps, stream)


def _layer_norm(
    x: fx.Tensor, weight: fx.Tensor, bias: fx.Tensor, out: fx.Tensor, eps: fx.Float32, stream: fx.Stream
) -> None:
    check_extents("layer_norm", x=(x, "mn"), weight=(weight, "n"), bias=(bias, "n"), out=(out, "mn"))
    m, n = x.shape.unpack()
    how = plan((x, out), (weight, bias), 32)
    # Weight and bias have places of their own.
    team = _long_team((x, out), (weight, bias), 3, (2 * LONG_THREADS, LONG_THREADS))
    if team:
        blocks = fx.min(fx.Int32(m), _multiprocessors())
        layer_norm_long_kernel(x, weight, bias, out, fx.Int32(m), eps, team).launch(
            grid=blocks, block=team, smem=3 * row_bytes(x, team), stream=stream
        )
    elif how is not None:
        layer_norm_wide_kernel(x, weight, bias, out, eps, how.threads).launch(grid=m, block=how.threads, stream=stream)
    else:
        n, unit = fx.Int32(n), unit_of(x, weight, bias, out)
        room = _room(x, unit)
        layer_norm_any_kernel(x, weight, bias, out, n, eps, unit, room).launch(
            grid=m, block=_team(n, unit, room), smem=_held_bytes(x, n, room), stream=stream
        )


__all__ = ["layer_norm", "rms_norm", "softmax"]
