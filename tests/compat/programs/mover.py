"""gfx1250: the tensor data mover, clusters of workgroups, and products with scales."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl
from flydsl.expr.rocdl import cdna5, cluster, tdm_ops

from .case import Call, poison, program, randint, randn

CDNA5 = ("gfx1250",)


@flyc.kernel
def tiles_kernel(src: fx.Tensor, dst: fx.Tensor, rows: fx.Int32):
    """Whole tiles by one instruction of each wave; what lies beyond the rows arrives as zero."""
    t = fx.thread_idx.x
    tile = fx.make_tile(16, 32)
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 16 * 32, 16]).peek()
    shared = lds.view(fx.make_layout((16, 32), (32, 1)))
    here = fx.flat_divide(src, tile)[None, None, fx.block_idx.x, 0]
    left = rows - fx.block_idx.x * 16
    atom = rocdl.cdna5.make_tdm_atom(here, (left, fx.Int32(32)), num_warps=2)
    fx.copy(atom, here, shared)
    rocdl.s_wait_tensorcnt(0)
    fx.gpu.barrier()
    there = fx.flat_divide(dst, tile)[None, None, fx.block_idx.x, 0]
    for i in fx.range_constexpr(8):
        there[t // 32 + 2 * i, t % 32] = shared[t // 32 + 2 * i, 31 - t % 32] * 2.0


@flyc.jit
def tiles(src: fx.Tensor, dst: fx.Tensor, rows: fx.Int32):
    tiles_kernel(src, dst, rows).launch(grid=(3, 1, 1), block=(64, 1, 1))


@program(tiles, CDNA5)
def whole_tiles():
    src, dst = randn(48, 32), poison(48, 32)
    wanted = 2 * src.double().flip(1)
    wanted[41:] = 0
    tensors = [flyc.from_dlpack(x, assumed_align=16) for x in (src, dst)]
    return Call([*tensors, 41], [(dst, wanted)])


@flyc.kernel
def partitioned_kernel(src: fx.Tensor, dst: fx.Tensor, warps: fx.Constexpr[int]):
    """Tiles of a ragged tensor there and back: two stages in shared memory, rows with a gap, shared by warps."""
    t = fx.thread_idx.x
    tile = (16, 32)
    cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 2 * 640 + 1024, 16]).peek()
    rows = fx.make_layout(tile, (40, 1))
    packed = fx.make_layout(tile, (32, 1))
    load, from_src = cdna5.make_tiled_tdm_atom(cdna5.TensorLoad(), src, rows, tile, warps)
    store, to_dst = cdna5.make_tiled_tdm_atom(cdna5.TensorStore(), dst, packed, tile, num_warps=warps)
    loaded = fx.make_view(cells.ptr, fx.make_layout((tile, 2), ((40, 1), 640)))
    kept = fx.make_view(cells.ptr + 1280, fx.make_layout((tile, 2), ((32, 1), 512)))
    from_src = fx.zipped_divide(from_src, tile)[None, (fx.block_idx.x, None)]
    to_dst = fx.zipped_divide(to_dst, tile)[None, (fx.block_idx.x, None)]
    order = fx.make_layout(warps, 1)
    own_loaded, own_src = cdna5.tdm_partition(load, rocdl.wave_id(), order, loaded, from_src)
    own_kept, own_dst = cdna5.tdm_partition(store, rocdl.wave_id(), order, kept, to_dst)
    for i in fx.range_constexpr(2):
        fx.copy(load, own_src[None, i], own_loaded[None, i])
    rocdl.s_wait_tensorcnt(0)
    fx.gpu.barrier()
    for i in fx.range_constexpr(2):
        for j in fx.range_constexpr(16 // warps):
            row, column = t // 32 + j * warps, t % 32
            kept[(row, column), i] = loaded[(row, column), i] * 2.0
    fx.gpu.barrier()
    for i in fx.range_constexpr(2):
        fx.copy(store, own_kept[None, i], own_dst[None, i])
    rocdl.s_wait_tensorcnt(0)


@flyc.jit
def partitioned(src: fx.Tensor, dst: fx.Tensor, warps: fx.Constexpr[int]):
    partitioned_kernel(src, dst, warps).launch(grid=(3, 1, 1), block=(32 * warps, 1, 1))


def partitioned_call(warps):
    src, dst = randn(41, 50), poison(41, 50)
    return Call([src, dst, warps], [(dst, 2 * src.double())])


@program(partitioned, CDNA5)
def tiles_by_coordinates():
    return partitioned_call(1)


@program(partitioned, CDNA5)
def tiles_shared_by_warps():
    return partitioned_call(4)


@flyc.kernel
def described_kernel(src: fx.Tensor, dst: fx.Tensor, rows: fx.Int32):
    """The same by descriptors: a padded tile, the rest of it beyond the rows that count."""
    cells = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 16 * 72, 16]).peek()
    shared = fx.make_view(cells.ptr, fx.make_layout((16, 64), (72, 1)))
    zero = fx.Index(0)
    at = (fx.Index(fx.block_idx.x) * 16, zero)
    tile = {"tensor_shape": (48, 64), "strides": (64, 1), "tile_shape": (16, 64), "elem_bytes": 2, "num_warps": 2,
            "pad_interval": 64, "pad_amount": 8}  # fmt: skip
    base = tdm_ops.make_tensor_descriptor_2d(src, shared, (zero, zero), oob_outer_bound=16, **tile)
    low, high = fx.Int32(base.dgroup0[2]), fx.Int32(base.dgroup0[3])
    here = tdm_ops.update_tensor_descriptor_2d_addr64(base, low, high, fx.Int32(fx.block_idx.x) * (16 * 64 * 2))
    tdm_ops.l2_prefetch_tile(src, at, (16, 64), (64, 1), thread_id=fx.Index(fx.thread_idx.x), block_threads=64)
    tdm_ops.tensor_load_2d(here)
    tdm_ops.tensor_wait(0)
    fx.gpu.barrier()
    there = tdm_ops.make_tensor_descriptor_2d(dst, shared, at, for_store=True, oob_outer_bound=rows, **tile)
    tdm_ops.tensor_store_2d(there)
    tdm_ops.tensor_wait(0)


@flyc.jit
def described(src: fx.Tensor, dst: fx.Tensor, rows: fx.Int32):
    described_kernel(src, dst, rows).launch(grid=(3, 1, 1), block=(64, 1, 1))


@program(described, CDNA5)
def tiles_by_descriptors():
    src, dst = randn(48, 64, dtype=torch.float16), poison(48, 64, dtype=torch.float16)
    wanted = src.double().clone()
    wanted[41:] = -77
    return Call([src, dst, 41], [(dst, wanted)])


@flyc.kernel
def cluster_kernel(x: fx.Tensor, tmp: fx.Tensor, out: fx.Tensor):
    """Workgroups of a cluster see what the others wrote before they met."""
    t = fx.thread_idx.x
    row, column = cluster.compute_cluster_position()
    b = fx.block_idx.x
    tmp[b, t] = x[b, t]
    cluster.cluster_barrier()
    out[b, t] = tmp[b ^ 1, 63 - t] + fx.Float32(fx.Int32(row) * 10 + fx.Int32(column))
    cluster.cluster_signal_once_per_wg()
    cluster.cluster_wait()
    if cluster.is_wave_leader():
        tmp[b, t] = fx.Float32(fx.Int32(rocdl.cluster_workgroup_id_x()))


@flyc.jit
def clusters(x: fx.Tensor, tmp: fx.Tensor, out: fx.Tensor):
    cluster_kernel(x, tmp, out).launch(grid=(6, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1))


@program(clusters, CDNA5)
def clusters_of_workgroups():
    x, tmp, out = randn(6, 64), poison(6, 64), poison(6, 64)
    b = torch.arange(6)
    left = x.double().clone()
    left[:, ::32] = (b % 2).double()[:, None]
    return Call([x, tmp, out], [(out, x.double()[b ^ 1].flip(1) + (b % 2)[:, None]), (tmp, left)], terms=1)


@flyc.kernel
def scaled_kernel(a: fx.Tensor, b: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor, c: fx.Tensor):
    """Blocks of 32 along K have a scale; a lane half g has K = 16 g + 32 j, its four scales in one word."""
    t = fx.thread_idx.x
    op = rocdl.cdna5.WMMAScale(16, 16, 128, fx.Float8E4M3FN, elem_ty_b=fx.Float8E4M3FN)
    atom = fx.make_mma_atom(op).set_value({"scale_a": sa[t % 16], "scale_b": sb[t % 16]})
    ra, rb = fx.make_rmem_tensor(64, fx.Float8E4M3FN), fx.make_rmem_tensor(64, fx.Float8E4M3FN)
    rc = fx.make_rmem_tensor(8, fx.Float32)
    rc.fill(0.0)
    move = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float8E4M3FN)
    for source, regs in ((a, ra), (b, rb)):
        for j in fx.range_constexpr(4):
            p = fx.recast_iter(fx.Float8E4M3FN, fx.get_iter(source)) + t % 16 * 128 + j * 32 + t // 16 * 16
            part = fx.make_view(fx.get_iter(regs) + j * 16, fx.make_layout(16, 1))
            fx.copy(move, fx.make_view(p, fx.make_layout(16, 1)), part)
    fx.mma_atom_call(atom, rc, ra, rb, rc)
    for i in fx.range_constexpr(8):
        c[t // 16 * 8 + i, t % 16] = rc[i]


@flyc.jit
def scaled(a: fx.Tensor, b: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor, c: fx.Tensor):
    scaled_kernel(a, b, sa, sb, c).launch(grid=(1, 1, 1), block=(32, 1, 1))


@program(scaled, CDNA5)
def scales_of_wmma():
    a, b, c = randn(16, 128).to(torch.float8_e4m3fn), randn(16, 128).to(torch.float8_e4m3fn), poison(16, 16)
    sa, sb = (randint(120, 134, 16, 4, dtype=torch.uint8) for _ in range(2))
    wide = [x.float().double() * 2.0 ** (s.double() - 127).repeat_interleave(32, 1) for x, s in ((a, sa), (b, sb))]
    tensors = [flyc.from_dlpack(x.view(torch.uint8), assumed_align=16) for x in (a, b)]
    scales = [s.view(torch.int32).reshape(-1) for s in (sa, sb)]
    return Call([*tensors, *scales, c], [(c, wide[0] @ wide[1].T)], terms=128,
                magnitude=wide[0].abs() @ wide[1].T.abs())  # fmt: skip
