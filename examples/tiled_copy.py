"""A tiled copy between a row-major and a column-major matrix: layouts differ, the kernel does not.

python examples/tiled_copy.py
"""

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def tiled_copy_kernel(src: fx.Tensor, dst: fx.Tensor, tiled: fx.TiledCopy):
    bx, by, _ = fx.block_idx
    mine = tiled.get_slice(fx.thread_idx.x)
    read = mine.partition_S(fx.flat_divide(src, tiled.tile_mn)[None, None, bx, by])
    write = mine.partition_D(fx.flat_divide(dst, tiled.tile_mn)[None, None, bx, by])
    registers = fx.make_fragment_like(read)
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(atom, read, registers)
    fx.copy(atom, registers, write)


@flyc.jit
def tiled_copy(src: fx.Tensor, dst: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    # 128 threads of 4x4 values each: a tile of 32x64.
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((8, 16), (16, 1)), fx.make_layout((4, 4), (4, 1)))
    tile_m, tile_n = tiled.tile_mn.unpack()
    m, n = src.shape.unpack()
    tiled_copy_kernel(src, dst, tiled).launch(grid=(m // tile_m, n // tile_n), block=128, stream=stream)


def make_args(m: int, n: int, rng: np.random.Generator):
    """A row-major source, a poisoned column-major destination, and what it must hold."""
    src = rng.standard_normal((m, n)).astype(np.float32)
    dst = np.full((n, m), np.nan, np.float32).T
    rows = flyc.from_dlpack(src).mark_layout_dynamic(leading_dim=1, divisibility=4)
    columns = flyc.from_dlpack(dst).mark_layout_dynamic(leading_dim=0)
    return (rows, columns), dst, src


def compile_args():
    """The jit function and arguments to compile it for."""
    return tiled_copy, make_args(64, 128, np.random.default_rng(0))[0]


if __name__ == "__main__":
    args, out, expected = make_args(96, 192, np.random.default_rng())
    tiled_copy(*args)
    np.testing.assert_array_equal(out, expected)
    print("tiled_copy:", out.shape, "strides", out.strides)
