"""Register tensors that live across barriers: a thread's frame is as aligned as LLVM takes it to be."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def pieces_kernel(y: fx.Tensor, n: fx.Int32, size: fx.Constexpr[int], piece: fx.Constexpr[int]):
    thread = fx.thread_idx.x
    held = fx.make_rmem_tensor(fx.make_layout(size, 1), fx.Float32)
    held.fill(1.0)
    for i in range(n):
        held.store(held.load() + fx.Float32(i))
        fx.barrier()
    for c in fx.range_constexpr(size // piece):
        part = fx.make_view(fx.get_iter(held) + c * piece, fx.make_layout(piece, 1)).load()
        fx.barrier()
        for e in fx.range_constexpr(piece):
            y[thread, c * piece + e] = part[e]


@flyc.jit(compile_hints={"cpu_check": True})
def pieces(y: fx.Tensor, n: fx.Int32, size: fx.Constexpr[int], piece: fx.Constexpr[int]):
    pieces_kernel(y, n, size, piece).launch(grid=2, block=32)


@pytest.mark.parametrize(("size", "piece"), [(24, 8), (40, 8), (48, 16), (96, 32), (160, 32)])
def test_pieces_of_a_register_tensor(size: int, piece: int, emulate):
    """Checked mode has nothing to say: pieces at any offset are inside."""
    emulate("sm_90a")
    for _ in range(3):
        y = np.full((32, size), np.nan, np.float32)
        pieces(y, 3, size, piece)
        assert (y == 4).all()
