"""Small kernels around single NVIDIA atoms, shared by the compile tests and the tests on a GPU."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def mma_kernel(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    mma: fx.TiledMma,
    tm: fx.Constexpr[int],
    tn: fx.Constexpr[int],
    tk: fx.Constexpr[int],
):
    """C = A B^T from global memory straight to registers."""
    bm, bn, _ = fx.block_idx
    tid = fx.thread_idx.x
    mine = mma.get_slice(tid)
    ga = fx.flat_divide(a, (tm, tk))[None, None, bm, None]
    gb = fx.flat_divide(b, (tn, tk))[None, None, bn, None]
    gc = fx.flat_divide(c, (tm, tn))[None, None, bm, bn]
    ra = mine.make_fragment_A(ga[None, None, 0])
    rb = mine.make_fragment_B(gb[None, None, 0])
    rc = mine.make_fragment_C(gc)
    rc.fill(0)
    element = fx.make_copy_atom(fx.UniversalCopy(a.dtype.width), a.dtype)
    result = fx.make_copy_atom(fx.UniversalCopy(c.dtype.width), c.dtype)
    load_a = fx.make_tiled_copy_A(element, mma).get_slice(tid)
    load_b = fx.make_tiled_copy_B(element, mma).get_slice(tid)
    store_c = fx.make_tiled_copy_C(result, mma).get_slice(tid)
    ta, tb = load_a.partition_S(ga), load_b.partition_S(gb)
    for k in range(fx.get_scalar(fx.size(ga.shape[2]))):
        fx.copy(element, ta[None, None, None, k], load_a.retile(ra))
        fx.copy(element, tb[None, None, None, k], load_b.retile(rb))
        fx.gemm(mma, rc, ra, rb, rc)
    fx.copy(result, store_c.retile(rc), store_c.partition_D(gc))


def mma_product(m: int, n: int, k: int, ab, acc, b=None):
    """A jit function for products with one shape of `mma.sync`, tiles of 4m x 4n on four warps."""

    @flyc.jit
    def product(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        atom = fx.make_mma_atom(fx.nvgpu.MMA(m, n, k, ab, acc, b=b))
        mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
        rows, columns = z.shape.unpack()
        mma_kernel(x, y, z, mma, 4 * m, 4 * n, k).launch(grid=(rows // (4 * m), columns // (4 * n)), block=128)

    return product


@flyc.kernel
def ldmatrix_kernel(src: fx.Tensor, dst: fx.Tensor, count: fx.Constexpr[int], trans: fx.Constexpr[bool]):
    """Each lane writes the registers it got: dst[lane, 2 * count]."""
    lane = fx.thread_idx.x
    shared = fx.make_view(fx.get_dyn_shared(src.dtype), fx.make_layout((8 * count, 8), (8, 1)))
    for i in fx.range_constexpr(2 * count):
        at = i * 32 + lane
        shared[at // 8, at % 8] = src[at // 8, at % 8]
    fx.barrier()
    atom = fx.make_copy_atom(fx.nvgpu.LdMatrix(count, trans), src.dtype)
    got = fx.make_rmem_tensor(2 * count, src.dtype)
    fx.copy_atom_call(atom, shared[lane % (8 * count), None], got)
    for i in fx.range_constexpr(2 * count):
        dst[lane, i] = got[i]


@flyc.kernel
def stmatrix_kernel(src: fx.Tensor, dst: fx.Tensor, count: fx.Constexpr[int], trans: fx.Constexpr[bool]):
    """Each lane stores registers src[lane, 2 * count] as matrices, which dst gets."""
    lane = fx.thread_idx.x
    shared = fx.make_view(fx.get_dyn_shared(src.dtype), fx.make_layout((8 * count, 8), (8, 1)))
    atom = fx.make_copy_atom(fx.nvgpu.StMatrix(count, trans), src.dtype)
    mine = fx.make_rmem_tensor(2 * count, src.dtype)
    for i in fx.range_constexpr(2 * count):
        mine[i] = src[lane, i]
    fx.copy_atom_call(atom, mine, shared[lane % (8 * count), None])
    fx.barrier()
    for i in fx.range_constexpr(2 * count):
        at = i * 32 + lane
        dst[at // 8, at % 8] = shared[at // 8, at % 8]


def matrix_move(load: bool, count: int, trans: bool):
    """A jit function that moves `count` matrices with one warp."""

    @flyc.jit
    def move(src: fx.Tensor, dst: fx.Tensor):
        kernel = ldmatrix_kernel if load else stmatrix_kernel
        kernel(src, dst, count, trans).launch(grid=1, block=32, smem=128 * count)

    return move


@flyc.kernel
def cp_async_kernel(src: fx.Tensor, dst: fx.Tensor, tiled: fx.TiledCopy, bits: fx.Constexpr[int]):
    """Through shared memory and back, in two groups."""
    mine = tiled.get_slice(fx.thread_idx.x)
    rows, columns = tiled.tile_mn.unpack()
    layout = fx.make_layout((rows, columns, 2), (columns, 1, rows * columns))
    shared = fx.make_view(fx.get_dyn_shared(src.dtype), layout)
    tiles = fx.flat_divide(src, tiled.tile_mn)[None, None, None, fx.block_idx.x]
    out = fx.flat_divide(dst, tiled.tile_mn)[None, None, None, fx.block_idx.x]
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync(bits), src.dtype)
    for i in fx.range_constexpr(2):
        fx.copy(atom, mine.partition_S(tiles[None, None, i]), mine.partition_D(shared[None, None, i]))
        fx.nvgpu.cp_async_commit()
    plain = fx.make_copy_atom(fx.UniversalCopy(bits), src.dtype)
    for i in fx.range_constexpr(2):
        fx.nvgpu.cp_async_wait(1 - i)
        fx.barrier()
        part = mine.partition_S(shared[None, None, i])
        registers = fx.make_fragment_like(part)
        fx.copy(plain, part, registers)
        fx.copy(plain, registers, mine.partition_D(out[None, None, i]))


def cp_async_copy(bits: int):
    """A jit function that copies float32 tiles of 16 rows, two per block."""

    @flyc.jit
    def copy(src: fx.Tensor, dst: fx.Tensor):
        atom = fx.make_copy_atom(fx.nvgpu.CpAsync(bits), src.dtype)
        values = bits // src.dtype.width
        tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((16, 8), (8, 1)), fx.make_layout((1, values), (values, 1)))
        columns = src.shape.unpack()[1]
        cp_async_kernel(src, dst, tiled, bits).launch(grid=columns // (8 * values), block=128, smem=2 * 128 * bits // 8)

    return copy


@flyc.kernel
def tma_kernel(
    load,
    store,
    out: fx.Tensor,
    rows: fx.Constexpr[int],
    columns: fx.Constexpr[int],
    width: fx.Constexpr[int],
):
    """A tile by TMA into swizzled shared memory; threads copy it to `out`, and TMA stores it somewhere else."""
    bm, bn, _ = fx.block_idx
    tid = fx.thread_idx.x
    pointer = fx.get_dyn_shared(out.dtype)
    mask = {0: 0, 32: 1, 64: 2, 128: 3}[width]
    view = fx.apply_swizzle(pointer, fx.static(fx.SwizzleType.get(mask, 4, 3))) if mask else pointer
    shared = fx.make_view(view, fx.make_layout((rows, columns), (columns, 1)))
    barrier = fx.nvgpu.MBarrier(pointer + rows * columns)
    if tid == 0:
        barrier.init(1)
        fx.nvgpu.fence_mbarrier_init()
    fx.barrier()
    if tid == 0:
        barrier.expect_tx(load.nbytes)
        load.load((bm * rows, bn * columns), shared, barrier)
    barrier.wait(0)
    for i in range(tid, rows * columns, 128):
        out[bm * rows + i // columns, bn * columns + i % columns] = shared[i // columns, i % columns]
    fx.barrier()
    if tid == 0:
        store.store(shared, (bm * rows, bn * columns))
        fx.nvgpu.tma_commit()
        fx.nvgpu.tma_wait(0)


def tma_copy(rows: int, columns: int, width: int):
    """A jit function: `padded` gets the tiles of `src` with zeros around, `dst` the tensor itself."""

    @flyc.jit
    def copy(src: fx.Tensor, padded: fx.Tensor, dst: fx.Tensor):
        nv = fx.nvgpu
        load = nv.make_tma_atom(nv.TMALoad(), src, None, (rows, columns), swizzle=width)
        store = nv.make_tma_atom(nv.TMAStore(), dst, None, (rows, columns), swizzle=width)
        m, n = padded.shape.unpack()
        nbytes = rows * columns * src.dtype.width // 8 + 8
        tma_kernel(load, store, padded, rows, columns, width).launch(
            grid=(m // rows, n // columns), block=128, smem=nbytes
        )

    return copy


@flyc.kernel
def reduce_kernel(src: fx.Tensor, store, rows: fx.Constexpr[int], columns: fx.Constexpr[int]):
    """Every block adds the same tile: `elect` picks the thread that tells the copy engine."""
    tid = fx.thread_idx.x
    shared = fx.make_view(fx.get_dyn_shared(src.dtype), fx.make_layout((rows, columns), (columns, 1)))
    for i in range(tid, rows * columns, 128):
        shared[i // columns, i % columns] = src[i // columns, i % columns]
    fx.nvgpu.fence_proxy_async()
    fx.barrier()
    if fx.nvgpu.uniform(tid // 32) == 0:
        if fx.nvgpu.elect():
            store.store(shared, (0, 0))
            fx.nvgpu.tma_commit()
            fx.nvgpu.tma_wait(0)


def tma_reduce(op: str, rows: int, columns: int):
    """A jit function that combines `src` into `dst` once per block."""

    @flyc.jit
    def reduce(src: fx.Tensor, dst: fx.Tensor, blocks: fx.Int32):
        store = fx.nvgpu.make_tma_atom(fx.nvgpu.TMAReduce(op), dst, None, (rows, columns))
        nbytes = rows * columns * src.dtype.width // 8
        reduce_kernel(src, store, rows, columns).launch(grid=blocks, block=128, smem=nbytes)

    return reduce


@flyc.kernel
def cluster_kernel(out: fx.Tensor):
    """Blocks of a cluster count each other's arrivals; each writes its rank and the size of the cluster."""
    barrier = fx.nvgpu.MBarrier(fx.get_dyn_shared(fx.Int64))
    tid = fx.thread_idx.x
    size = fx.nvgpu.cluster.size()
    if tid == 0:
        barrier.init(size)
        fx.nvgpu.fence_mbarrier_init()
    fx.nvgpu.cluster.sync()
    if tid < size:
        barrier.arrive_remote(tid)
    barrier.wait(0)
    if tid == 0:
        out[fx.block_idx.x, 0] = fx.nvgpu.cluster.rank()
        out[fx.block_idx.x, 1] = size
    fx.nvgpu.cluster.sync()


def cluster_ranks(size: int):
    """A jit function that launches clusters of `size` blocks."""

    @flyc.jit
    def ranks(out: fx.Tensor):
        cluster_kernel(out).launch(grid=out.shape.unpack()[0], block=32, smem=8, cluster=size)

    return ranks


def operand_layout(rows: int, depth: int, bits: int, width: int, major: str):
    """A shared-memory layout of (rows, depth) elements that `wgmma` reads with this swizzle and major direction."""
    e = bits // 8
    unit = 16 // e
    if major == "k":
        if width:
            assert depth * e == width
            return fx.make_layout((rows, depth), (depth, 1))
        steps = depth // unit
        return fx.make_layout(((8, rows // 8), (unit, steps)), ((unit, 8 * unit * steps), (1, 8 * unit)))
    if width:
        span = width // e
        if rows <= span:
            assert rows == span
            return fx.make_layout((rows, depth), (1, span))
        return fx.make_layout(((span, rows // span), depth), ((1, span * depth), span))
    return fx.make_layout(((8, rows // 8), (8, depth // 8)), ((1, 64), (8, rows * 8)))


@flyc.kernel
def wgmma_kernel(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    mma: fx.TiledMma,
    layout_a: fx.Layout,
    layout_b: fx.Layout,
    widths: fx.Constexpr[tuple],
    registers: fx.Constexpr[bool],
):
    """One warpgroup, one tile: operands are written to shared memory element by element."""
    tid = fx.thread_idx.x
    rows_a, depth = a.shape.unpack()
    rows_b = b.shape.unpack()[0]
    base = fx.get_dyn_shared(a.dtype)
    masks = [{0: 0, 32: 1, 64: 2, 128: 3}[w] for w in widths]
    pointers = [base, base + rows_a * depth]
    pointers = [
        fx.apply_swizzle(p, fx.static(fx.SwizzleType.get(m, 4, 3))) if m else p
        for p, m in zip(pointers, masks, strict=True)
    ]
    sa, sb = fx.make_view(pointers[0], layout_a), fx.make_view(pointers[1], layout_b)
    for i in range(tid, rows_a * depth, 128):
        sa[i // depth, i % depth] = a[i // depth, i % depth]
    for i in range(tid, rows_b * depth, 128):
        sb[i // depth, i % depth] = b[i // depth, i % depth]
    fx.nvgpu.fence_proxy_async()
    fx.barrier()
    mine = mma.get_slice(tid)
    acc = mine.make_fragment_C(c)
    acc.fill(0)
    left = mine.partition_A(sa)
    if fx.const_expr(registers):
        left = mine.make_fragment_A(a)
        element = fx.make_copy_atom(fx.UniversalCopy(a.dtype.width), a.dtype)
        load = fx.make_tiled_copy_A(element, mma).get_slice(tid)
        fx.copy(element, load.partition_S(a), load.retile(left))
    fx.nvgpu.wgmma_fence()
    fx.gemm(mma, acc, left, mine.partition_B(sb), acc)
    fx.nvgpu.wgmma_commit()
    fx.nvgpu.wgmma_wait(0, acc)
    word = fx.make_copy_atom(fx.UniversalCopy(c.dtype.width), c.dtype)
    store = fx.make_tiled_copy_C(word, mma).get_slice(tid)
    fx.copy(word, store.retile(acc), store.partition_D(c))


def wgmma_product(n: int, depth: int, ab, acc, *, b=None, widths=(128, 128), majors=("k", "k"), registers=False):
    """A jit function for one 64 x n x depth product; arguments have static layouts."""

    @flyc.jit
    def product(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        bits = ab.width
        atom = fx.nvgpu.WGMMA(
            n, 256 // bits, ab, acc, b=b, a_from="registers" if registers else "smem", major_a=majors[0],
            major_b=majors[1],
        )  # fmt: skip
        mma = fx.make_tiled_mma(fx.make_mma_atom(atom), fx.make_layout((1, 1, 1), (0, 0, 0)))
        la = operand_layout(64, depth, bits, widths[0], majors[0])
        lb = operand_layout(n, depth, bits, widths[1], majors[1])
        nbytes = (64 + n) * depth * bits // 8
        wgmma_kernel(x, y, z, mma, la, lb, widths, registers).launch(grid=1, block=128, smem=nbytes)

    return product
