"""Programs of the structure that FlyDSL's documentation teaches: tiled copies, tiled and preshuffled products."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import fly_rocdl

from .case import ALL, CDNA, Call, poison, program, randint, randn


@flyc.kernel
def transposing_kernel(x: fx.Tensor, out: fx.Tensor):
    """A tile of a matrix for each block, from rows to columns, by one tiled copy for each side."""
    t = fx.thread_idx.x
    bm, bn, _ = fx.block_idx
    tile = fx.make_tile(8, 24)
    src = fx.slice(fx.zipped_divide(x, tile), (None, (bm, bn)))
    dst = fx.slice(fx.zipped_divide(out, tile), (None, (bm, bn)))
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    tiled = fx.make_tiled_copy(atom, fx.make_layout(((4, 8), (3, 2)), ((24, 1), (8, 96))), tile)
    mine = tiled.get_slice(t)
    regs = fx.make_fragment_like(mine.partition_S(src))
    fx.copy(tiled, mine.partition_S(src), regs)
    regs.store(regs.load() + 1.0)
    fx.copy(tiled, regs, mine.partition_D(dst))


@flyc.jit
def transposing(x: fx.Tensor, out: fx.Tensor):
    m, n = x.shape.unpack()
    transposing_kernel(x, out).launch(grid=(m // 8, n // 24, 1), block=(32, 1, 1))


@program(transposing, ALL)
def tiled_copy():
    x, out = randn(16, 48), poison(48, 16).T
    return Call([x, out], [(out, x.double() + 1)])


@flyc.kernel
def preshuffled_kernel(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, tiled_mma: fx.TiledMma, copy_g2s: fx.TiledCopy, k: fx.Constexpr[int]
):
    """A through shared memory, swizzled; B, which lies as lanes read it, straight into registers."""
    t = fx.thread_idx.x
    bm, bn, _ = fx.block_idx
    buffers = [fx.rocdl.make_buffer_tensor(x) for x in (a, b, c)]
    tile_a = fx.flat_divide(buffers[0], fx.make_tile(32, 64))[None, None, bm, None]
    tile_b = fx.flat_divide(buffers[1], fx.make_tile(64, 64))[None, None, bn, None]
    tile_c = fx.flat_divide(buffers[2], fx.make_tile(32, 64))[None, None, bm, bn]
    thr = tiled_mma.thr_slice(t)
    load_a = copy_g2s.get_slice(t)
    wide = fx.make_copy_atom(fx.rocdl.CopyOpCDNA3BufferCopyType.get(128), fx.BFloat16)
    copy_b = fx.make_tiled_copy_B(wide, tiled_mma).get_slice(t)
    shared_atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.BFloat16)
    copy_s2r = fx.make_tiled_copy_A(shared_atom, tiled_mma).get_slice(t)
    lds = fx.SharedAllocator().allocate(fx.Array[fx.BFloat16, 32 * 64, 16]).peek()
    swizzled = fx.make_composed_layout(fx.static(fx.SwizzleType.get(3, 3, 3)), fx.make_ordered_layout((32, 64), (1, 0)))
    shared = fx.make_view(lds.ptr, swizzled)
    staged = fx.make_fragment_like(load_a.partition_S(tile_a[None, None, 0]))
    ra = thr.make_fragment_A(tile_a[None, None, 0])
    rb = thr.make_fragment_B(tile_b[None, None, 0])
    rc = thr.make_fragment_C(tile_c)
    rc.fill(0)
    for step in fx.range_constexpr(k // 64):
        fx.copy(wide, load_a.partition_S(tile_a[None, None, step]), staged)
        fx.copy(shared_atom, staged, load_a.partition_D(shared))
        fx.copy(wide, copy_b.partition_S(tile_b)[None, None, None, step], copy_b.retile(rb))
        fx.gpu.barrier()
        fx.copy(shared_atom, copy_s2r.partition_S(shared), copy_s2r.retile(ra))
        fx.gemm(tiled_mma, rc, ra, rb, rc)
        fx.gpu.barrier()
    narrow = fx.make_fragment_like(rc, fx.BFloat16)
    narrow.store(rc.load().to(fx.BFloat16))
    word = fx.make_copy_atom(fx.rocdl.BufferCopy16b(), fx.BFloat16)
    to_c = fx.make_tiled_copy_C(word, tiled_mma).get_slice(t)
    fx.copy(word, to_c.retile(narrow), to_c.partition_D(tile_c))


@flyc.jit
def preshuffled(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Constexpr[int], k: fx.Constexpr[int]):
    assert isinstance(fx.rocdl.BufferCopy128b().type if hasattr(fx.rocdl.BufferCopy128b(), "type")
                      else fx.rocdl.BufferCopy128b(), fly_rocdl.CopyOpCDNA3BufferCopyType)  # fmt: skip
    assert ir.Context.current is not None
    # ((16 columns, blocks of them), ((8 values, 4 groups of lanes), steps)): 8 values of a lane lie next to each other.
    layout = fx.make_layout(((16, n // 16), ((8, 4), k // 32)), ((8, 16 * k), ((1, 128), 512)))
    view = fx.make_view(fx.get_iter(b), layout)
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.BFloat16))
    order = fx.make_tile(None, None, fx.make_layout((4, 4, 2), (1, 8, 4)))
    tiled = fx.make_tiled_mma(atom, fx.make_layout((1, 4, 1), (0, 1, 0)), order)
    wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.BFloat16)
    g2s = fx.make_tiled_copy(wide, fx.make_layout(((8, 32), (1, 8)), ((256, 1), (1, 32))), fx.make_tile(32, 64))
    m, _ = c.shape.unpack()
    preshuffled_kernel(a, view, c, tiled, g2s, k).launch(grid=(m // 32, n // 64, 1), block=(256, 1, 1))


@program(preshuffled, CDNA)
def preshuffled_product():
    m, n, k = 64, 128, 128
    a, b = randn(m, k, dtype=torch.bfloat16), randn(n, k, dtype=torch.bfloat16)
    c = poison(m, n, dtype=torch.bfloat16)
    shuffled = b.reshape(n // 16, 16, k // 32, 4, 8).permute(0, 2, 3, 1, 4).contiguous()
    wide = a.double(), b.double()
    tensors = [flyc.from_dlpack(x, assumed_align=16) for x in (a, shuffled.reshape(-1), c)]
    return Call([*tensors, n, k], [(c, wide[0] @ wide[1].T)], rtol=1 / 128, terms=k,
                magnitude=wide[0].abs() @ wide[1].T.abs())  # fmt: skip


@flyc.kernel
def gathered_kernel(table: fx.Tensor, index: fx.Tensor, out: fx.Tensor, tiled: fx.TiledCopy, rows: fx.Int32):
    """Coordinates of the elements of a tile say which rows to take, and where the matrix ends."""
    t = fx.thread_idx.x
    tile = fx.make_tile(8, 32)
    _, width = out.shape.unpack()
    where = fx.make_view((0, 0), fx.make_identity_layout((rows, width)))
    crd = tiled.get_slice(t).partition_S(fx.flat_divide(where, tile)[None, None, fx.block_idx.x, fx.block_idx.y])
    one = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    held = fx.make_rmem_tensor(1, fx.Float32)
    for i in fx.range_constexpr(fx.size(crd.shape).unpack()):
        here = crd[i]
        row, column = here.unpack()
        if fx.elem_less(here, (rows, width)):
            source = fx.get_iter(table) + fx.crd2idx((index[row], column), fx.get_layout(table))
            fx.copy(one, fx.make_view(source, fx.make_layout(1, 1)), held)
            target = fx.get_iter(out) + fx.crd2idx((rows - 1 - row, column), fx.get_layout(out))
            fx.copy(one, held, fx.make_view(target, fx.make_layout(1, 1)))


@flyc.jit
def gathered(table: fx.Tensor, index: fx.Tensor, out: fx.Tensor, rows: fx.Int32):
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((2, 32), (32, 1)), fx.make_layout((4, 1), (1, 1)))
    _, width = out.shape.unpack()
    gathered_kernel(table, index, out, tiled, rows).launch(
        grid=(fx.ceildiv(rows, 8), fx.ceildiv(width, 32), 1), block=(64, 1, 1)
    )


@program(gathered)
def gather_and_scatter():
    table, index, out = randn(17, 45), randint(0, 17, 21), poison(21, 45)
    return Call([table, index, out, 21], [(out, table.double()[index.long()].flip(0))])


@flyc.kernel
def scaled_kernel(a: fx.Tensor, b: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor, c: fx.Tensor):
    """A tiled product whose atom has scales as its state."""
    t = fx.thread_idx.x
    lane = t % 64
    op = fx.rocdl.cdna4.MFMAScale(16, 16, 128, fx.Float8E4M3FN)
    atom = fx.make_mma_atom(op).set_value({"scale_a": sa[t // 64, lane], "scale_b": sb[lane]})
    tiled = fx.make_tiled_mma(atom, fx.make_layout((2, 1, 1), (1, 0, 0)))
    thr = tiled.get_slice(t)
    move = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float8E4M3FN)
    views = [
        fx.make_view(fx.recast_iter(fx.Float8E4M3FN, fx.get_iter(x)), fx.make_layout((rows, 128), (128, 1)))
        for x, rows in ((a, 32), (b, 16))
    ]
    ra, rb = thr.make_fragment_A(views[0]), thr.make_fragment_B(views[1])
    tile_c = fx.flat_divide(c, (32, 16))[None, None, 0, 0]
    rc = thr.make_fragment_C(tile_c)
    rc.fill(0.0)
    for maker, view, regs in ((fx.make_tiled_copy_A, views[0], ra), (fx.make_tiled_copy_B, views[1], rb)):
        part = maker(move, tiled).get_slice(t)
        fx.copy(move, part.partition_S(view), part.retile(regs))
    fx.gemm(tiled, rc, ra, rb, rc)
    word = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    to_c = fx.make_tiled_copy_C(word, tiled).get_slice(t)
    fx.copy(word, to_c.retile(rc), to_c.partition_D(tile_c))


@flyc.jit
def scaled(a: fx.Tensor, b: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor, c: fx.Tensor):
    scaled_kernel(a, b, sa, sb, c).launch(grid=(1, 1, 1), block=(128, 1, 1))


@program(scaled, ("gfx950",))
def tiled_product_with_scales():
    a, b, c = randn(32, 128).to(torch.float8_e4m3fn), randn(16, 128).to(torch.float8_e4m3fn), poison(32, 16)
    sa, sb = randint(120, 134, 2, 4, 16), randint(120, 134, 4, 16)
    by_row = sa.permute(0, 2, 1).reshape(32, 4), sb.T
    factors = [2.0 ** (s.double() - 127).repeat_interleave(32, 1) for s in by_row]
    wide = [x.float().double() * s for x, s in zip((a, b), factors, strict=True)]
    tensors = [flyc.from_dlpack(x.view(torch.uint8).reshape(-1), assumed_align=16) for x in (a, b)]
    return Call([*tensors, sa.reshape(2, 64), sb.reshape(-1), c], [(c, wide[0] @ wide[1].T)], terms=128,
                magnitude=wide[0].abs() @ wide[1].T.abs())  # fmt: skip
