"""The sums of slices of K, added up in their order: a kernel behind the one that made them.

Blocks of one kernel could meet in memory instead, as they do on Hopper. Here dies have caches of their own, and the end
of a kernel is where all of them agree anyway.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .epilogue import finished
from .kernel import EACH

THREADS = 256
AHEAD = 4
"""Slices whose sums are asked for together."""


@flyc.kernel  # pyright: ignore[reportUnknownArgumentType]
def add_kernel(
    parts: fx.Tensor,
    c: fx.Tensor,
    extras: tuple,  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    m: fx.Int32,
    n: fx.Int32,
    batches: fx.Int32,
    slices: fx.Int32,
    pitch: fx.Int32,
    step_c: fx.Int32,
    batch_c: fx.Int64,
    names: fx.Constexpr[tuple[str, ...]],
    activation: fx.Constexpr[str],
    store: fx.Constexpr[int],
):
    # Without a sign a division is a third as long.
    units, high = fx.Uint32(pitch) // EACH, fx.Uint32(m)
    at = fx.Uint32(fx.block_idx.x * THREADS + fx.thread_idx.x)
    if at < fx.Uint32(batches) * high * units:
        line = at // units
        column, row, batch = fx.Int32(at % units) * EACH, fx.Int32(line % high), fx.Int32(line // high)
        each = fx.Int64(m) * pitch
        """Elements of a slice."""
        here = fx.get_iter(parts) + (fx.Int64(batch) * slices * each + fx.Int64(row) * pitch + column)
        total = fx.make_rmem_tensor(fx.make_layout(EACH, 1), parts.dtype)
        held = [fx.make_rmem_tensor(fx.make_layout(EACH, 1), parts.dtype) for _ in range(AHEAD)]
        load_sums(here, total)
        for first in range(1, slices, AHEAD):
            for i in fx.range_constexpr(AHEAD):
                load_sums(here + fx.Int64(fx.min(first + i, slices - 1)) * each, held[i])
            for i in fx.range_constexpr(AHEAD):
                if first + i < slices:
                    total.store(total.load() + held[i].load())
        values = total.load()
        target = fx.get_iter(c) + (fx.Int64(batch) * batch_c + fx.Int64(row) * step_c + column)
        for i in fx.range_constexpr(0, EACH, store):
            if column + i < n:
                some = [values[i + e] for e in range(store)]
                put(target + i, finished(some, extras, names, activation, row, column + i, m, n, c.dtype))


def load_sums(place: fx.Pointer, held: fx.Tensor) -> None:
    unit = fx.make_copy_atom(fx.UniversalCopy128b(), place.dtype)
    fx.copy_atom_call(unit, fx.make_view(place, fx.make_layout(EACH, 1)), held)


def put(place: fx.Pointer, values: list[Any]) -> None:
    if len(values) == 1:
        place[0] = values[0]
        return
    layout = fx.make_layout(len(values), 1)
    made = fx.make_rmem_tensor(layout, place.dtype)
    made.store(fx.Vector.from_elements(values, place.dtype))
    atom = fx.make_copy_atom(fx.UniversalCopy(len(values) * place.dtype.width), place.dtype)
    fx.copy_atom_call(atom, made, fx.make_view(place, layout))


def add_slices(
    parts: fx.Tensor,
    c: fx.Tensor,
    extras: Any,
    m: fx.Int32,
    n: fx.Int32,
    batches: fx.Int32,
    slices: fx.Int32,
    pitch: fx.Int32,
    step_c: fx.Int32,
    batch_c: fx.Int64,
    names: tuple[str, ...],
    activation: str,
    store: int,
    stream: fx.Stream,
) -> None:
    """`c = f(sum of parts)`; `parts` is (batches, slices, m, pitch), and `store` columns of C are written at once."""
    blocks = fx.ceildiv(batches * m * (pitch // EACH), THREADS)
    add_kernel(
        parts, c, extras, m, n, batches, slices, pitch, step_c, batch_c, names, activation, min(store, EACH)
    ).launch(grid=blocks, block=THREADS, stream=stream)


__all__ = ["add_slices"]
