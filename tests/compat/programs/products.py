"""Matrix products with MFMA: tiled, preshuffled, of several element types, on values and with scales."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import CDNA, Call, poison, program, randint, randn


@flyc.kernel
def tile_kernel(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, tiled_mma: fx.TiledMma, copy_a: fx.TiledCopy, copy_b: fx.TiledCopy
):
    """One block for a tile of C; A and B go from global memory to registers."""
    t = fx.thread_idx.x
    bm, bn, _ = fx.block_idx
    m, n, k = (fx.get_scalar(x) for x in fx.get_leaves(tiled_mma.tile_size_mnk))
    tile_a = fx.flat_divide(a, (m, k))[None, None, bm, None]
    tile_b = fx.flat_divide(b, (n, k))[None, None, bn, None]
    tile_c = fx.flat_divide(c, (m, n))[None, None, bm, bn]
    from_a, from_b = copy_a.get_slice(t), copy_b.get_slice(t)
    regs_a = tiled_mma.make_fragment_A(tile_a[None, None, 0])
    regs_b = tiled_mma.make_fragment_B(tile_b[None, None, 0])
    regs_c = tiled_mma.make_fragment_C(tile_c)
    regs_c.fill(0)
    src_a, src_b = from_a.partition_S(tile_a), from_b.partition_S(tile_b)
    for step in fx.range_constexpr(fx.get_scalar(fx.size(tile_a.shape[2]))):
        fx.copy(copy_a, src_a[None, None, None, step], from_a.retile(regs_a))
        fx.copy(copy_b, src_b[None, None, None, step], from_b.retile(regs_b))
        fx.gemm(tiled_mma, regs_c, regs_a, regs_b, regs_c)
    word = fx.make_copy_atom(fx.UniversalCopy32b(), regs_c.element_type)
    to_c = fx.make_tiled_copy_C(word, tiled_mma).get_slice(t)
    fx.copy(word, to_c.retile(regs_c), to_c.partition_D(tile_c))


@flyc.jit
def tile_product(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    shape: fx.Constexpr[tuple],
    kind: fx.Constexpr[str],
    stream: fx.Stream = fx.Stream(None),
):
    element = getattr(fx, kind)
    accumulator = fx.Int32 if kind == "Int8" else fx.Float32
    atom = fx.make_mma_atom(fx.rocdl.MFMA(*shape, element, accumulator))
    tiled = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
    per_lane = shape[0] * shape[2] // 64
    move = fx.make_copy_atom(fx.UniversalCopy(per_lane * element.width), element)
    copy_a, copy_b = fx.make_tiled_copy_A(move, tiled), fx.make_tiled_copy_B(move, tiled)
    m, n = c.shape.unpack()
    tile_kernel(a, b, c, tiled, copy_a, copy_b).launch(
        grid=(m // (2 * shape[0]), n // (2 * shape[1]), 1), block=(256, 1, 1), stream=stream
    )


def product_call(a, b, c, shape, kind):
    wide_a, wide_b = a.double(), b.double()
    tensors = [flyc.from_dlpack(x, assumed_align=16) for x in (a, b, c)]
    results = [(c, wide_a @ wide_b.T)]
    return Call([*tensors, shape, kind], results, terms=a.shape[1], magnitude=wide_a.abs() @ wide_b.T.abs())


@program(tile_product, CDNA)
def half_precision():
    a, b, c = randn(64, 48, dtype=torch.float16), randn(32, 48, dtype=torch.float16), poison(64, 32)
    return product_call(a, b, c, (16, 16, 16), "Float16")


@program(tile_product, CDNA)
def bfloat_32x32():
    a, b, c = randn(64, 16, dtype=torch.bfloat16), randn(64, 16, dtype=torch.bfloat16), poison(64, 64)
    return product_call(a, b, c, (32, 32, 8), "BFloat16")


@program(tile_product, CDNA)
def single_precision():
    a, b, c = randn(32, 8), randn(32, 8), poison(32, 32)
    return product_call(a, b, c, (16, 16, 4), "Float32")


@program(tile_product, CDNA)
def integers():
    a, b = (randint(-128, 128, 32, 64, dtype=torch.int8) for _ in range(2))
    return product_call(a, b, poison(32, 32, dtype=torch.int32), (16, 16, 32), "Int8")


@program(tile_product, ("gfx950",))
def deeper_half_precision():
    a, b, c = randn(32, 64, dtype=torch.float16), randn(32, 64, dtype=torch.float16), poison(32, 32)
    return product_call(a, b, c, (16, 16, 32), "Float16")


@flyc.kernel
def bytes_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, kind: fx.Constexpr[str]):
    """8-bit floats: the tensors hold bytes and are seen as what they are."""
    element = getattr(fx, kind)
    t = fx.thread_idx.x
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 32, element))
    ra, rb = fx.make_rmem_tensor(8, element), fx.make_rmem_tensor(8, element)
    rc = fx.make_rmem_tensor(4, fx.Float32)
    rc.fill(0.0)
    move = fx.make_copy_atom(fx.UniversalCopy64b(), element)
    for step in fx.range_constexpr(2):
        at = t % 16 * 64 + step * 32 + t // 16 * 8
        for source, regs in ((a, ra), (b, rb)):
            p = fx.recast_iter(element, fx.get_iter(source)) + at
            fx.copy(move, fx.make_view(p, fx.make_layout(8, 1)), regs)
        fx.mma_atom_call(atom, rc, ra, rb, rc)
    for i in fx.range_constexpr(4):
        c[t // 16 * 4 + i, t % 16] = rc[i]


@flyc.jit
def bytes_product(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, kind: fx.Constexpr[str]):
    bytes_kernel(a, b, c, kind).launch(grid=(1, 1, 1), block=(64, 1, 1))


def bytes_call(dtype, kind):
    a, b = (randn(16, 64).to(dtype) for _ in range(2))
    c = poison(16, 16)
    wide = [x.float().double() for x in (a, b)]
    tensors = [flyc.from_dlpack(x.view(torch.uint8), assumed_align=16) for x in (a, b)]
    return Call([*tensors, c, kind], [(c, wide[0] @ wide[1].T)], terms=64, magnitude=wide[0].abs() @ wide[1].T.abs())


@program(bytes_product, ("gfx942",))
def bytes_of_cdna3():
    return bytes_call(torch.float8_e4m3fnuz, "Float8E4M3FNUZ")


@program(bytes_product, ("gfx950",))
def bytes_of_cdna4():
    return bytes_call(torch.float8_e4m3fn, "Float8E4M3FN")


@program(bytes_product, ("gfx950",), flydsl="its code generator aborts")
def bytes_of_cdna4_with_long_exponents():
    return bytes_call(torch.float8_e5m2, "Float8E5M2")


@flyc.kernel
def preshuffled_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, k: fx.Constexpr[int]):
    """B lies as the instruction reads it: a nested layout says where element (n, k) is."""
    t = fx.thread_idx.x
    wave, lane = t // 64, t % 64
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.BFloat16))
    shuffled = fx.rocdl.make_buffer_tensor(b)
    lines = fx.rocdl.make_buffer_tensor(a)
    wide = fx.make_copy_atom(fx.rocdl.BufferCopy64b(), fx.BFloat16)
    ra, rb = fx.make_rmem_tensor(4, fx.BFloat16), fx.make_rmem_tensor(4, fx.BFloat16)
    rc = fx.make_rmem_tensor(4, fx.Float32)
    rc.fill(0.0)
    for step in fx.range_constexpr(k // 16):
        row = fx.slice(lines, (lane % 16, None))
        fx.copy(wide, fx.slice(fx.logical_divide(row, fx.make_layout(4, 1)), (None, step * 4 + lane // 16)), ra)
        part = fx.slice(shuffled, ((lane % 16, wave), (None, lane // 16, step)))
        fx.copy(wide, part, rb)
        fx.mma_atom_call(atom, rc, ra, rb, rc)
    for i in fx.range_constexpr(4):
        c[lane // 16 * 4 + i, wave * 16 + lane % 16] = rc[i]


@flyc.jit
def preshuffled(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Constexpr[int], k: fx.Constexpr[int]):
    # ((16 columns, blocks of them), (4 values, 4 groups of lanes, steps))
    layout = fx.make_layout(((16, n // 16), (4, 4, k // 16)), ((4, 16 * k), (1, 64, 256)))
    view = fx.make_view(fx.get_iter(b), layout)
    preshuffled_kernel(a, view, c, k).launch(grid=(1, 1, 1), block=(64 * (n // 16), 1, 1))


@program(preshuffled, CDNA)
def preshuffled_weights():
    n, k = 64, 48
    a, b, c = randn(16, k, dtype=torch.bfloat16), randn(n, k, dtype=torch.bfloat16), poison(16, n)
    shuffled = b.reshape(n // 16, 16, k // 16, 4, 4).permute(0, 2, 3, 1, 4).contiguous().reshape(-1)
    wide = a.double(), b.double()
    return Call(
        [a, flyc.from_dlpack(shuffled, assumed_align=16), c, n, k],
        [(c, wide[0] @ wide[1].T)],
        terms=k,
        magnitude=wide[0].abs() @ wide[1].T.abs(),
    )


@flyc.kernel
def pipelined_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, tiled_mma: fx.TiledMma, k: fx.Constexpr[int]):
    """Two buffers of shared memory: while one is multiplied, the next tile is on its way."""
    t = fx.thread_idx.x

    @fx.struct
    class Stages:
        a: fx.Array[fx.Float16, 2 * 32 * 32, 16]
        b: fx.Array[fx.Float16, 2 * 32 * 32, 16]

    lds = fx.SharedAllocator().allocate(Stages).peek()
    staged = fx.make_layout((32, 32, 2), (32, 1, 1024))
    tiles = [fx.make_view(lds.a.ptr, staged), fx.make_view(lds.b.ptr, staged)]
    wide = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16)
    load = fx.make_tiled_copy_tv(wide, fx.make_layout((32, 8), (8, 1)), fx.make_layout((1, 4), (4, 1))).get_slice(t)
    sources = [fx.flat_divide(x, (32, 32))[None, None, 0, None] for x in (a, b)]
    steps = k // 32
    thr = tiled_mma.get_slice(t)
    fragments = [thr.make_fragment_A(tiles[0][None, None, 0]), thr.make_fragment_B(tiles[1][None, None, 0])]
    parts = [thr.partition_A(tiles[0]), thr.partition_B(tiles[1])]
    rc = thr.make_fragment_C(c)
    rc.fill(0.0)
    waiting = [fx.make_fragment_like(load.partition_S(source[None, None, 0])) for source in sources]
    for source, regs, tile in zip(sources, waiting, tiles, strict=True):
        fx.copy(wide, load.partition_S(source[None, None, 0]), regs)
        fx.copy(wide, regs, load.partition_D(tile[None, None, 0]))
    for step in fx.range_constexpr(steps):
        fx.gpu.barrier()
        if fx.const_expr(step + 1 < steps):
            for source, regs in zip(sources, waiting, strict=True):
                fx.copy(wide, load.partition_S(source[None, None, step + 1]), regs)
        for part, fragment in zip(parts, fragments, strict=True):
            fx.copy(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16), part[None, None, None, step % 2], fragment)
        fx.gemm(tiled_mma, rc, fragments[0], fragments[1], rc, traversal_order="kmn")
        if fx.const_expr(step + 1 < steps):
            for tile, regs in zip(tiles, waiting, strict=True):
                fx.copy(wide, regs, load.partition_D(tile[None, None, (step + 1) % 2]))
    word = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    to_c = fx.make_tiled_copy_C(word, tiled_mma).get_slice(t)
    fx.copy(word, to_c.retile(rc), to_c.partition_D(c))


@flyc.jit
def pipelined(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, k: fx.Constexpr[int]):
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16))
    tiled = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
    pipelined_kernel(a, b, c, tiled, k).launch(grid=(1, 1, 1), block=(256, 1, 1))


@program(pipelined, CDNA)
def double_buffered():
    k = 96
    a, b, c = randn(32, k, dtype=torch.float16), randn(32, k, dtype=torch.float16), poison(32, 32)
    wide = a.double(), b.double()
    return Call(
        [*(flyc.from_dlpack(x, assumed_align=16) for x in (a, b, c)), k],
        [(c, wide[0] @ wide[1].T)],
        terms=k,
        magnitude=wide[0].abs() @ wide[1].T.abs(),
    )


@flyc.kernel
def values_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    """The instruction itself, on vectors."""
    t = fx.thread_idx.x
    at = t % 16 * 16 + t // 16 * 4
    va = fx.ptr_load(fx.get_iter(a) + at, result_type=fx.Vector.make_type(4, fx.Float16))
    vb = fx.ptr_load(fx.get_iter(b) + at, result_type=fx.T.f16x4)
    acc = fx.Vector.filled(4, 0.0, fx.Float32)
    d = fx.rocdl.mfma_f32_16x16x16f16(fx.T.f32x4, [va, vb, acc, 0, 0, 0])
    d = fx.Vector(d, (4,), fx.Float32) * 0.5
    for i in fx.range_constexpr(4):
        c[t // 16 * 4 + i, t % 16] = d[i]


@flyc.jit
def values(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    values_kernel(a, b, c).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(values, CDNA)
def instruction_on_values():
    a, b, c = randn(16, 16, dtype=torch.float16), randn(16, 16, dtype=torch.float16), poison(16, 16)
    wide = a.double(), b.double()
    args = [*(flyc.from_dlpack(x.reshape(-1), assumed_align=16) for x in (a, b)), c]
    return Call(args, [(c, wide[0] @ wide[1].T / 2)], terms=16, magnitude=wide[0].abs() @ wide[1].T.abs())


@program(bytes_product, ("gfx950",), warns="as OCP numbers")
def fnuz_on_gfx950():
    """The name of CDNA3's format: the hardware reads the bytes as OCP numbers."""
    assert fx.Float8E4M3FNUZ.width == 8
    return bytes_call(torch.float8_e4m3fn, "Float8E4M3FNUZ")
