"""Matrix products with WMMA on waves of 32 lanes, and products with scales."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl

from .case import CDNA, WAVE32, Call, poison, program, randint, randn


@flyc.kernel
def tile_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, tiled_mma: fx.TiledMma, copies: fx.Constexpr[tuple]):
    """A tile for each block; fragments are read as the instruction wants them, element by element of K."""
    t = fx.thread_idx.x
    bm, bn, _ = fx.block_idx
    element, bits = getattr(fx, copies[0]), copies[1]
    move = fx.make_copy_atom(fx.UniversalCopy(bits), element)
    m, n, k = tiled_mma.tile_size_mnk.unpack()
    thr = tiled_mma.get_slice(t)
    tile_a = fx.flat_divide(a, (m, k))[None, None, bm, None]
    tile_b = fx.flat_divide(b, (n, k))[None, None, bn, None]
    tile_c = fx.flat_divide(c, (m, n))[None, None, bm, bn]
    from_a = fx.make_tiled_copy_A(move, tiled_mma).get_slice(t)
    from_b = fx.make_tiled_copy_B(move, tiled_mma).get_slice(t)
    ra = thr.make_fragment_A(tile_a[None, None, 0])
    rb = thr.make_fragment_B(tile_b[None, None, 0])
    rc = thr.make_fragment_C(tile_c)
    rc.fill(0)
    for step in fx.range_constexpr(fx.get_scalar(fx.size(tile_a.shape[2]))):
        fx.copy(move, from_a.partition_S(tile_a)[None, None, None, step], from_a.retile(ra))
        fx.copy(move, from_b.partition_S(tile_b)[None, None, None, step], from_b.retile(rb))
        fx.gemm(tiled_mma, rc, ra, rb, rc)
    word = fx.make_copy_atom(fx.UniversalCopy32b(), rc.element_type)
    to_c = fx.make_tiled_copy_C(word, tiled_mma).get_slice(t)
    fx.copy(word, to_c.retile(rc), to_c.partition_D(tile_c))


@flyc.jit
def tile_product(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, k: fx.Constexpr[int], copies: fx.Constexpr[tuple]):
    element = getattr(fx, copies[0])
    if fx.const_expr(copies[0] == "Int8"):
        op = rocdl.WMMA(16, 16, k, element, fx.Int32, sign_a=True, sign_b=True)
    else:
        op = rocdl.WMMA(16, 16, k, elem_ty_ab=element, elem_ty_acc=fx.Float32)
    tiled = fx.make_tiled_mma(fx.make_mma_atom(op), fx.make_layout((2, 1, 1), (1, 0, 0)))
    m, n = c.shape.unpack()
    tile_kernel(a, b, c, tiled, copies).launch(grid=(m // 32, n // 16, 1), block=(64, 1, 1))


def product_call(a, b, c, k, copies):
    wide = a.double(), b.double()
    tensors = [flyc.from_dlpack(x, assumed_align=16) for x in (a, b, c)]
    results = [(c, wide[0] @ wide[1].T)]
    return Call([*tensors, k, copies], results, terms=a.shape[1], magnitude=wide[0].abs() @ wide[1].T.abs())


@program(tile_product, ("gfx1201",))
def halves_of_rdna4():
    a, b, c = randn(32, 48, dtype=torch.float16), randn(32, 48, dtype=torch.float16), poison(32, 32)
    return product_call(a, b, c, 16, ("Float16", 128))


@program(tile_product, ("gfx1201",))
def bfloats_of_rdna4():
    a, b, c = randn(32, 16, dtype=torch.bfloat16), randn(16, 16, dtype=torch.bfloat16), poison(32, 16)
    return product_call(a, b, c, 16, ("BFloat16", 128))


@program(tile_product, ("gfx1201",))
def signed_bytes_of_rdna4():
    a, b = randint(-128, 128, 32, 32, dtype=torch.int8), randint(-128, 128, 32, 32, dtype=torch.int8)
    return product_call(a, b, poison(32, 32, dtype=torch.int32), 16, ("Int8", 64))


@program(tile_product, ("gfx1250",))
def halves_of_gfx1250():
    a, b, c = randn(32, 64, dtype=torch.float16), randn(32, 64, dtype=torch.float16), poison(32, 32)
    return product_call(a, b, c, 32, ("Float16", 128))


@program(tile_product, ("gfx1250",))
def bfloats_of_gfx1250():
    a, b, c = randn(32, 32, dtype=torch.bfloat16), randn(16, 32, dtype=torch.bfloat16), poison(32, 16)
    return product_call(a, b, c, 32, ("BFloat16", 128))


@program(tile_product, ("gfx1250",))
def floats_of_gfx1250():
    a, b, c = randn(32, 8), randn(16, 8), poison(32, 16)
    return product_call(a, b, c, 4, ("Float32", 64))


@flyc.kernel
def bytes_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, k: fx.Constexpr[int], kind: fx.Constexpr[str]):
    """8-bit floats: blocks of 8 along K for each half of the wave."""
    element = getattr(fx, kind)
    t = fx.thread_idx.x
    atom = fx.make_mma_atom(rocdl.WMMA(16, 16, k, element))
    count = k // 2
    ra, rb = fx.make_rmem_tensor(count, element), fx.make_rmem_tensor(count, element)
    rc = fx.make_rmem_tensor(8, fx.Float32)
    rc.fill(0.0)
    move = fx.make_copy_atom(fx.UniversalCopy64b(), element)
    for source, regs in ((a, ra), (b, rb)):
        for i in fx.range_constexpr(count // 8):
            p = fx.recast_iter(element, fx.get_iter(source)) + t % 16 * k + i * 16 + t // 16 * 8
            part = fx.make_view(fx.get_iter(regs) + i * 8, fx.make_layout(8, 1))
            fx.copy(move, fx.make_view(p, fx.make_layout(8, 1)), part)
    fx.mma_atom_call(atom, rc, ra, rb, rc)
    for i in fx.range_constexpr(8):
        c[t // 16 * 8 + i, t % 16] = rc[i]


@flyc.jit
def bytes_product(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, k: fx.Constexpr[int], kind: fx.Constexpr[str]):
    bytes_kernel(a, b, c, k, kind).launch(grid=(1, 1, 1), block=(32, 1, 1))


def bytes_call(k, dtype, kind):
    a, b, c = randn(16, k).to(dtype), randn(16, k).to(dtype), poison(16, 16)
    wide = [x.float().double() for x in (a, b)]
    tensors = [flyc.from_dlpack(x.view(torch.uint8), assumed_align=16) for x in (a, b)]
    return Call([*tensors, c, k, kind], [(c, wide[0] @ wide[1].T)], terms=k, magnitude=wide[0].abs() @ wide[1].T.abs())


@program(bytes_product, ("gfx1201",))
def eight_bits_of_rdna4():
    return bytes_call(16, torch.float8_e4m3fn, "Float8E4M3FN")


@program(bytes_product, ("gfx1250",))
def eight_bits_of_gfx1250():
    return bytes_call(64, torch.float8_e5m2, "Float8E5M2")


@flyc.kernel
def scaled_kernel(a: fx.Tensor, b: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor, c: fx.Tensor):
    """Blocks of 32 along K have a power of two as their scale; lane group g has K = 16 g and 64 + 16 g."""
    t = fx.thread_idx.x
    op = rocdl.cdna4.MFMA_Scale(16, 16, 128, fx.Float8E4M3FN)
    scales = {"scale_a": sa[t], "scale_b": sb[t]}
    atom = fx.make_mma_atom(op).set_value(scales)
    ra, rb = fx.make_rmem_tensor(32, fx.Float8E4M3FN), fx.make_rmem_tensor(32, fx.Float8E4M3FN)
    rc = fx.make_rmem_tensor(4, fx.Float32)
    rc.fill(0.0)
    move = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float8E4M3FN)
    for source, regs in ((a, ra), (b, rb)):
        for i in fx.range_constexpr(2):
            p = fx.recast_iter(fx.Float8E4M3FN, fx.get_iter(source)) + t % 16 * 128 + i * 64 + t // 16 * 16
            part = fx.make_view(fx.get_iter(regs) + i * 16, fx.make_layout(16, 1))
            fx.copy(move, fx.make_view(p, fx.make_layout(16, 1)), part)
    fx.mma_atom_call(atom, rc, ra, rb, rc)
    for i in fx.range_constexpr(4):
        c[t // 16 * 4 + i, t % 16] = rc[i]


@flyc.jit
def scaled(a: fx.Tensor, b: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor, c: fx.Tensor):
    scaled_kernel(a, b, sa, sb, c).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(scaled, ("gfx950",))
def scales_as_the_state_of_an_atom():
    a, b, c = randn(16, 128).to(torch.float8_e4m3fn), randn(16, 128).to(torch.float8_e4m3fn), poison(16, 16)
    # Lane r + 16 g has the scale of row r and the 32 numbers from K = 32 g on.
    sa, sb = randint(120, 134, 4, 16), randint(120, 134, 4, 16)
    wide = [x.float().double() * 2.0 ** (s.T.double() - 127).repeat_interleave(32, 1) for x, s in ((a, sa), (b, sb))]
    tensors = [flyc.from_dlpack(x.view(torch.uint8), assumed_align=16) for x in (a, b)]
    return Call(
        [*tensors, sa.reshape(-1), sb.reshape(-1), c],
        [(c, wide[0] @ wide[1].T)],
        terms=128,
        magnitude=wide[0].abs() @ wide[1].T.abs(),
    )


@flyc.kernel
def lanes_kernel(x: fx.Tensor, out: fx.Tensor):
    """What a wave knows of itself; 32 lanes here, 64 elsewhere."""
    t = fx.thread_idx.x
    width = fx.num_warp_threads()
    lane = fx.lane_id()
    v = x[t]
    out[0, t] = fx.shuffle_xor(v, 1, width)
    out[1, t] = fx.shuffle_idx(v, (lane // 8) * 8, width)
    out[2, t] = fx.shuffle_down(v, 1, 16) + fx.shuffle_up(v, 2, 8)
    out[3, t] = fx.Int32(fx.rocdl.readlane(fx.T.i32, v, fx.Int32(3)))
    out[4, t] = fx.Int32(width)


@flyc.jit
def lanes(x: fx.Tensor, out: fx.Tensor):
    lanes_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


def lanes_call(width):
    x, out = randint(-1000, 1000, 64), poison(5, 64, dtype=torch.int32)
    t = torch.arange(64)
    down = torch.where(t % 16 == 15, x, x[(t + 1) % 64])
    up = torch.where(t % 8 < 2, x, x[(t - 2) % 64])
    first = x[t // width * width + 3]
    wanted = [x[t ^ 1], x[t // 8 * 8], down + up, first, torch.full((64,), width)]
    return Call([x, out], [(out, torch.stack(wanted))])


@program(lanes, WAVE32)
def lanes_of_32():
    return lanes_call(32)


@program(lanes, CDNA)
def lanes_of_64():
    return lanes_call(64)
