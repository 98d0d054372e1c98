"""Views with nested, composed and swizzled layouts; coordinates as tensors."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Call, poison, program, randn


@flyc.kernel
def nested_kernel(view: fx.Tensor, out: fx.Tensor):
    seen = fx.rocdl.make_buffer_tensor(view)
    t = fx.thread_idx.x
    out[t] = seen[(t % 8, t // 8)] * 2.0


@flyc.jit
def nested(x: fx.Tensor, out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    view = fx.make_view(fx.get_iter(x), fx.make_layout(((2, 4), 8), ((1, 16), 2)))
    nested_kernel(view, out).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


@program(nested)
def nested_view_as_an_argument():
    x, out = randn(64), poison(64)
    t = torch.arange(64)
    where = t % 8 % 2 + t % 8 // 2 * 16 + t // 8 * 2
    return Call([x, out], [(out, 2 * x[where].double())])


@flyc.kernel
def swizzled_kernel(x: fx.Tensor, y: fx.Tensor):
    @fx.struct
    class Tile:
        body: fx.Array[fx.Float32, 1024, 16]

    lds = fx.SharedAllocator().allocate(Tile).peek()
    swizzle = fx.static(fx.SwizzleType.get(3, 2, 3))
    tile = fx.make_view(lds.body.ptr, fx.make_composed_layout(swizzle, fx.make_layout((32, 32), (32, 1))))
    t = fx.thread_idx.x
    for j in fx.range_constexpr(4):
        tile[t // 32 + j * 8, t % 32] = x[t // 32 + j * 8, t % 32]
    fx.gpu.barrier()
    for j in fx.range_constexpr(4):
        y[t // 32 + j * 8, t % 32] = tile[t % 32, t // 32 + j * 8]


@flyc.jit
def swizzled(x: fx.Tensor, y: fx.Tensor):
    swizzled_kernel(x, y).launch(grid=(1, 1, 1), block=(256, 1, 1))


@program(swizzled)
def swizzled_tile():
    x, y = randn(32, 32), poison(32, 32)
    return Call([flyc.from_dlpack(x), flyc.from_dlpack(y)], [(y, x.T.double())])


@flyc.kernel
def coordinates_kernel(x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32):
    t = fx.thread_idx.x
    where = fx.make_view((0, 0), fx.make_identity_layout((m, n)))
    tile = fx.flat_divide(where, (8, 8))[None, None, fx.block_idx.x, fx.block_idx.y]
    here = tile[t % 8, t // 8]
    r, c = here.unpack()
    if fx.elem_less(here, (m, n)):
        out[r, c] = x[r, c] + fx.Float32(r * 100 + c)


@flyc.jit
def coordinates(x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32):
    coordinates_kernel(x, out, m, n).launch(grid=(fx.ceildiv(m, 8), fx.ceildiv(n, 8), 1), block=(64, 1, 1))


@program(coordinates)
def coordinate_tensor():
    x, out = randn(13, 21), poison(13, 21)
    r, c = torch.meshgrid(torch.arange(13), torch.arange(21), indexing="ij")
    return Call([x, out, 13, 21], [(out, x.double() + r * 100 + c)], terms=1)


@flyc.kernel
def offsets_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    offsets = fx.make_view(t * 2, fx.make_layout((2, 4), (1, 128))).load()
    p = fx.get_iter(x)
    total = fx.Float32(0.0)
    for i in fx.range_constexpr(8):
        total += (p + offsets.reshape(8)[i]).load()
    out[t] = total


@flyc.jit
def offsets(x: fx.Tensor, out: fx.Tensor):
    offsets_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(offsets)
def loaded_coordinates():
    x, out = randn(4, 64, 2), poison(64)
    return Call([x.reshape(-1), out], [(out, x.double().sum((0, 2)))], terms=8)


@flyc.kernel
def algebra_kernel(x: fx.Tensor, out: fx.Tensor):
    """Every function of the algebra that a kernel's author reaches for, on static layouts."""
    t = fx.thread_idx.x
    a = fx.make_layout((8, 16), (16, 1))
    tiled = fx.zipped_divide(a, fx.make_tile(4, 8))
    ordered = fx.make_ordered_layout((4, 8, 4), (1, 0, 2))
    product = fx.raked_product(fx.make_layout((4, 2), (1, 4)), fx.make_layout((2, 8), (1, 2)))
    inverse = fx.right_inverse(product)
    blocked = fx.blocked_product(fx.make_layout((2, 2), (2, 1)), fx.make_layout((4, 8), (1, 4)))
    composed = fx.composition(a, fx.make_layout((16, 8), (8, 1)))
    spread = fx.tile_to_shape(fx.make_layout((2, 4), (4, 1)), (8, 16), (1, 0))
    found = [
        fx.crd2idx(t, tiled),
        fx.crd2idx(t, ordered),
        fx.crd2idx(t, inverse),
        fx.crd2idx(t, blocked),
        fx.crd2idx(t, composed),
        fx.crd2idx(t, spread),
        fx.crd2idx(fx.idx2crd(t, a), a),
        fx.crd2idx(t, fx.complement(fx.make_layout(16, 4), 128)),
        fx.crd2idx(t, fx.recast_layout(a, 32, 16)),
        fx.crd2idx(t, fx.coalesce(fx.make_layout((2, (4, 4)), (1, (2, 8))))),
    ]
    for j, index in enumerate(found):
        out[t, j] = fx.get_scalar(index) + fx.Int32(x[t])


@flyc.jit
def algebra(x: fx.Tensor, out: fx.Tensor):
    algebra_kernel(x, out).launch(grid=(1, 1, 1), block=(32, 1, 1))


def colex(shape, stride, i):
    total = 0
    for s, d in zip(shape, stride, strict=True):
        total, i = total + i % s * d, i // s
    return total


@program(algebra)
def layout_functions():
    x, out = torch.zeros(32), poison(32, 10, dtype=torch.int32)
    t = torch.arange(32)
    raked = {colex((2, 4, 8, 2), (8, 1, 16, 4), i): i for i in range(128)}
    wanted = [
        colex((4, 8, 2, 2), (16, 1, 64, 8), t),
        colex((4, 8, 4), (8, 1, 32), t),
        torch.tensor([raked[int(i)] for i in t]),
        colex((2, 4, 2, 8), (2, 4, 1, 16), t),
        colex((2, 8, 8), (8 * 1, 16, 1), colex((16, 8), (1, 16), t)) * 0 + composed_by_hand(t),
        colex((2, 4, 4, 4), (4, 32, 1, 8), t),
        t,
        colex((4, 2), (1, 64), t % 8) + t // 8 * 128,
        colex((8, 32), (32, 1), t),
        t,
    ]
    return Call([x, out], [(out, torch.stack(wanted, 1))])


def composed_by_hand(t):
    """A of B: B walks 8 along the first mode, which A's first mode of 8 takes apart."""
    inner = colex((16, 8), (8, 1), t)
    return colex((8, 16), (16, 1), inner)
