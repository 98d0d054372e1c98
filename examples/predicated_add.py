"""A predicated 2-D add: vectors of four inside the matrix, predicates at its ragged edges.

python examples/predicated_add.py
"""

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def predicated_add_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, tiled: fx.TiledCopy):
    m, n = c.shape.unpack()
    bx, by, _ = fx.block_idx
    mine = tiled.get_slice(fx.thread_idx.x)

    def tile(t):
        return fx.flat_divide(t, tiled.tile_mn)[None, None, bx, by]

    pa, pb, pc = mine.partition_S(tile(a)), mine.partition_S(tile(b)), mine.partition_D(tile(c))
    # A tensor of coordinates, cut like the data, tells which elements exist.
    where = mine.partition_S(tile(fx.make_view((0, 0), fx.make_identity_layout((m, n)))))
    inside = fx.make_fragment_like(where, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(inside.shape).unpack()):
        inside[i] = fx.elem_less(where[i], (m, n))
    ra, rb, rc = fx.make_fragment_like(pa), fx.make_fragment_like(pb), fx.make_fragment_like(pc)
    ra.fill(0.0)
    rb.fill(0.0)
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(atom, pa, ra, pred=inside)
    fx.copy(atom, pb, rb, pred=inside)
    rc.store(ra.load() + rb.load())
    fx.copy(atom, rc, pc, pred=inside)


@flyc.jit
def predicated_add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((4, 16), (16, 1)), fx.make_layout((1, 4), (4, 1)))
    tile_m, tile_n = tiled.tile_mn.unpack()
    m, n = c.shape.unpack()
    grid = (fx.ceildiv(m, tile_m), fx.ceildiv(n, tile_n))
    predicated_add_kernel(a, b, c, tiled).launch(grid=grid, block=64, stream=stream)


def make_args(m: int, n: int, rng: np.random.Generator):
    """Random inputs, a poisoned output, and what the output must be."""
    a, b = rng.standard_normal((2, m, n)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    return (a, b, c), c, a.astype(np.float64) + b


def compile_args():
    """The jit function and arguments to compile it for."""
    return predicated_add, make_args(37, 131, np.random.default_rng(0))[0]


if __name__ == "__main__":
    args, out, expected = make_args(129, 67, np.random.default_rng())
    predicated_add(*args)
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)
    print("predicated_add:", out.shape)
