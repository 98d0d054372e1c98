"""The kernel of `gemm_preshuffle`, on names that FlyDSL's public interface has too: both compilers can make code of it.

The weights are the instruction's first operand, so that a lane ends up with four neighbouring columns of C and stores
them at once. They come straight into registers, 16 bytes per lane and 1 KiB per wave. A goes through two stages of
swizzled shared memory. One step of the main loop multiplies one tile in two halves of its rows; meanwhile the fragments
of the next half come from shared memory, and the weights of the next tile and the rows of A of the one after it are
under way:

    half 0 of tile t: read half 1 of A(t), load W(t+1), write A(t+1) to the other stage, load A(t+2)
    barrier
    half 1 of tile t: read half 0 of A(t+1)
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 256
WAVES = THREADS // 64
ROW_BYTES = 128
"""Bytes of K in a tile: 64 elements of 16 bits, 128 of 8."""
UNIT_BYTES = 16
"""What a lane loads at once."""
GROUP_BYTES = 4 * UNIT_BYTES
"""Bytes of K in what a wave loads at once: 16 rows, four lanes for each."""
CLASSES = {"vmem": 0x20, "dsrd": 0x100, "dswr": 0x200, "dma": 0x10}
"""Masks of the scheduler: loads into registers, reads and writes of shared memory, copies into it."""
UNIT_SCALE = 0x7F7F7F7F
"""Four E8M0 ones."""


@flyc.kernel  # pyright: ignore[reportUnknownArgumentType]
def gemm_preshuffle_kernel(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    scales: tuple,  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    mma: fx.TiledMma,
    fill: fx.TiledCopy,
    block_m: fx.Constexpr[int],
    block_n: fx.Constexpr[int],
    atom_k: fx.Constexpr[int],
    block_scaled: fx.Constexpr[bool],
    direct: fx.Constexpr[bool],
):
    rocdl, dtype = fx.rocdl, a.dtype
    tid = fx.thread_idx.x
    size = dtype.width // 8
    unit, block_k = UNIT_BYTES // size, ROW_BYTES // size
    half_m = block_m // 2
    m, n = c.shape.unpack()
    k = fx.get_scalar(a.shape[1])
    stride_a, stride_c = fx.get_scalar(a.stride[0]), fx.get_scalar(c.stride[0])
    row, column = fx.block_idx.x * block_m, fx.block_idx.y * block_n
    rows, columns = fx.min(m - row, block_m), fx.min(n - column, block_n)

    # Each descriptor begins at what the block works on and ends behind its last row: other rows read zeros.
    here_a = fx.flat_divide(a, (block_m, block_k))[None, None, fx.block_idx.x, None]
    tiles_a = rocdl.make_buffer_tensor(here_a, num_records_bytes=((rows - 1) * stride_a + k) * size)
    panel = fx.make_layout(
        ((16, block_n // 16), (unit, 4, k // (4 * unit))), ((unit, k * 16), (1, 16 * unit, 64 * unit))
    )
    here_w = fx.make_view(fx.get_iter(w) + fx.Int64(column) * k, panel)
    tiles_w = fx.flat_divide(
        rocdl.make_buffer_tensor(here_w, num_records_bytes=columns * k * size), (block_n, block_k)
    )[None, None, 0, None]

    # Rows of 128 bytes: three bits of the row permute the eight 16-byte units.
    pool = fx.SharedAllocator().allocate(fx.Array[dtype, 2 * block_m * block_k, 128]).peek()
    swizzle = fx.static(fx.SwizzleType.get(3, 4, 3))
    plain = fx.get_iter(pool.view(fx.make_layout(1, 1)))
    base = fx.apply_swizzle(plain, swizzle)
    stages = fx.make_view(base, fx.make_layout((block_m, block_k, 2), (block_k, 1, block_m * block_k)))
    halves = fx.make_view(
        base, fx.make_layout((half_m, block_k, 2, 2), (block_k, 1, half_m * block_k, block_m * block_k))
    )

    mine = fill.get_slice(tid)
    from_a, to_a = mine.partition_S(tiles_a), mine.partition_D(stages)
    held = fx.make_fragment_like(from_a[None, None, None, 0])
    load = fx.make_copy_atom(rocdl.BufferCopy128b(), dtype)
    move = fx.make_copy_atom(fx.UniversalCopy128b(), dtype)

    product = mma.get_slice(tid)
    load_w, read_a = fx.make_tiled_copy_A(load, mma).get_slice(tid), fx.make_tiled_copy_B(move, mma).get_slice(tid)
    from_w, from_stage = load_w.partition_S(tiles_w), read_a.partition_S(halves)
    weights = [product.make_fragment_A(tiles_w[None, None, 0]) for _ in range(2)]
    inputs = [product.make_fragment_B(halves[None, None, 0, 0]) for _ in range(2)]
    shape = fx.make_view(fx.get_iter(c), fx.make_layout((block_n, half_m), (1, block_n)))
    sums = [product.make_fragment_C(shape) for _ in range(2)]
    for half in fx.range_constexpr(2):
        sums[half].fill(0.0)

    # A uniform offset moves along K, so that no lane computes addresses. It has no part in the bounds check of a row,
    # and so it stays inside the row: behind the last tile the last one is loaded again, for nobody.
    tiles = k // block_k

    def load_tile_a(tile: fx.Int32):
        along = fx.min(tile, tiles - 1) * block_k
        fx.copy(load, from_a[None, None, None, 0], held, soffset=along)

    def load_tile_w(tile: fx.Int32, stage: int):
        along = fx.min(tile, tiles - 1) * (16 * block_k)
        fx.copy(load, from_w[None, None, None, 0], load_w.retile(weights[stage]), soffset=along)

    def write_stage(stage: int):
        fx.copy(move, held, to_a[None, None, None, stage])

    lane, wave = tid % 64, tid // 64
    wave_row = uniform(wave * 8) if direct else wave * 8

    def copy_tile_a(tile: fx.Int32, stage: int):
        """Straight into shared memory, where lanes follow each other: it is what they read that is swizzled."""
        along = fx.min(tile, tiles - 1) * block_k
        atom = fx.make_copy_atom(rocdl.cdna4.BufferLoadAsyncLDS128b(), dtype).set_value("soffset", along)
        piece = fx.make_layout(unit, 1)
        source = fx.get_iter(tiles_a) + ((wave * 8 + lane // 8) * stride_a + (lane % 8 ^ lane // 8) * unit)
        for pass_ in fx.range_constexpr(writes):
            to = plain + ((pass_ * 8 * WAVES + wave_row) * block_k + stage * (block_m * block_k))
            fx.copy_atom_call(atom, fx.make_view(source + pass_ * 8 * WAVES * stride_a, piece), fx.make_view(to, piece))
        rocdl.asyncmark()

    def read_half(half: int, stage: int):
        fx.copy(move, from_stage[None, None, None, half, stage], read_a.retile(inputs[half]))

    def multiply(half: int, stage: int):
        if fx.const_expr(block_scaled):
            fx.gemm(mma, sums[half], weights[stage], inputs[half], sums[half], scale_a=UNIT_SCALE, scale_b=UNIT_SCALE)
        else:
            fx.gemm(mma, sums[half], weights[stage], inputs[half], sums[half])

    products = half_m // 16 * (block_n // 16 // WAVES) * (block_k // atom_k)
    reads, writes = half_m // 16 * (ROW_BYTES // GROUP_BYTES), block_m * ROW_BYTES // UNIT_BYTES // THREADS
    loads_w = block_n // 16 // WAVES * (ROW_BYTES // GROUP_BYTES)

    def step(tile: fx.Int32, stage: int):
        rocdl.sched_barrier(0)
        read_half(1, stage)
        load_tile_w(tile + 1, 1 - stage)
        write_stage(1 - stage)
        load_tile_a(tile + 2)
        multiply(0, stage)
        interleave(products, merged(["dsrd"] * reads, ["vmem"] * loads_w) + ["dswr", "vmem"] * writes)
        rocdl.sched_barrier(0)
        fx.barrier()
        rocdl.sched_barrier(0)
        read_half(0, 1 - stage)
        multiply(1, stage)
        interleave(products, ["dsrd"] * reads)
        rocdl.sched_barrier(0)

    def step_direct(tile: fx.Int32, stage: int):
        rocdl.sched_barrier(0)
        read_half(1, stage)
        load_tile_w(tile + 1, 1 - stage)
        multiply(0, stage)
        interleave(products, merged(["dsrd"] * reads, ["vmem"] * loads_w))
        rocdl.sched_barrier(0)
        # This wave has read all of A(t), and its part of A(t+1) is there: only the loads of W(t+1) are younger.
        rocdl.s_waitcnt(vmcnt=loads_w, lgkmcnt=0)
        rocdl.s_barrier()
        rocdl.sched_barrier(0)
        read_half(0, 1 - stage)
        copy_tile_a(tile + 2, stage)
        multiply(1, stage)
        interleave(products, ["dsrd"] * reads + ["dma"] * writes)
        rocdl.sched_barrier(0)

    if fx.const_expr(direct):
        copy_tile_a(0, 0)
        load_tile_w(0, 0)
        copy_tile_a(1, 1)
        fx.barrier()
    else:
        load_tile_a(0)
        load_tile_w(0, 0)
        write_stage(0)
        load_tile_a(1)
        fx.barrier()
    read_half(0, 0)
    for pair in range(tiles // 2):
        if fx.const_expr(direct):
            step_direct(pair * 2, 0)
            step_direct(pair * 2 + 1, 1)
        else:
            step(pair * 2, 0)
            step(pair * 2 + 1, 1)
    if tiles % 2 == 1:
        read_half(1, 0)
        multiply(0, 0)
        multiply(1, 0)

    here_c = fx.make_view(
        fx.get_iter(c) + (fx.Int64(row) * stride_c + column),
        fx.make_layout((block_n, half_m, 2), (1, stride_c, half_m * stride_c)),
    )
    bytes_c = ((rows - 1) * stride_c + columns) * (c.dtype.width // 8)
    out = rocdl.make_buffer_tensor(here_c, num_records_bytes=bytes_c)
    store = fx.make_copy_atom(rocdl.BufferCopy(4 * c.dtype.width), c.dtype)
    write_c = fx.make_tiled_copy_C(store, mma).get_slice(tid)
    to_c = write_c.partition_D(out)
    wave_column = column + wave * 16
    for group in fx.range_constexpr(block_n // 16 // WAVES):
        first = wave_column + 16 * WAVES * group
        # N is a multiple of 16: all columns of a wave exist, or none.
        if first < n:
            for half in fx.range_constexpr(2):
                for atom in fx.range_constexpr(half_m // 16):
                    total = sums[half][None, group, atom]
                    value = total.load()
                    if fx.const_expr(scales):
                        at = fx.min(row + half * half_m + 16 * atom + lane % 16, m - 1)
                        value = scaled(total, scales, at, first + lane // 16 * 4)
                    result = fx.make_fragment_like(total, dtype=c.dtype)
                    result.store(value.to(c.dtype))
                    fx.copy(store, result, to_c[None, group, atom, half])


def scaled(total: fx.Tensor, scales: Any, row: fx.Int32, column: fx.Int32) -> fx.Vector:
    """A lane's four sums times the scale of their row and those of their columns."""
    of_rows, of_columns = scales
    of_row = of_rows[row]
    return fx.Vector.from_elements([total[i] * (of_row * of_columns[column + i]) for i in range(4)])


def uniform(value: fx.Int32) -> fx.Int32:
    """A value that is the same in all lanes, in a scalar register."""
    return fx.rocdl.readfirstlane(fx.Int32, value)


def merged(one: list[str], other: list[str]) -> list[str]:
    """Both lists, each evenly spread over the result."""
    places = [((i + 0.5) / len(items), kind) for items in (one, other) for i, kind in enumerate(items)]
    return [kind for _, kind in sorted(places)]


def interleave(products: int, memory: list[str]) -> None:
    """Ask the scheduler for this order of memory instructions, evenly spread over so many matrix instructions."""
    rocdl = fx.rocdl
    done = 0
    for i, kind in enumerate(memory):
        rocdl.sched_group_barrier(CLASSES[kind], 1, 0)
        until = products * (i + 1) // len(memory)
        if until > done:
            rocdl.sched_mfma(until - done)
        done = until


def matrix_product(dtype: type[fx.Numeric], atom_k: int, block_scaled: bool) -> fx.TiledMma:
    """The product of four waves side by side along N.

    A lane loads 16 bytes of K. Where the instruction takes fewer, K is permuted so that it takes them one part after
    the other: a sum does not mind, as long as both operands are permuted alike.
    """
    make = fx.rocdl.cdna4.MFMA_Scale if block_scaled else fx.rocdl.MFMA
    atom = fx.make_mma_atom(make(16, 16, atom_k, dtype))
    waves = fx.make_layout((WAVES, 1, 1), (1, WAVES, 0))
    part = atom_k // 4
    parts = UNIT_BYTES * 8 // dtype.width // part
    if parts <= 1:
        return fx.make_tiled_mma(atom, waves)
    return fx.make_tiled_mma(atom, waves, (None, None, fx.make_layout((part, 4, parts), (1, parts * part, part))))


@flyc.jit
def gemm_preshuffle_tiles(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    scales: Any,
    block_m: fx.Constexpr[int],
    block_n: fx.Constexpr[int],
    atom_k: fx.Constexpr[int],
    block_scaled: fx.Constexpr[bool],
    direct: fx.Constexpr[bool],
    stream: fx.Stream = fx.Stream(None),
):
    """`c = a @ w.T`, times the scales of rows and columns unless they are `()`, by blocks of block_m x block_n."""
    mma = matrix_product(a.dtype, atom_k, block_scaled)
    unit = UNIT_BYTES * 8 // a.dtype.width
    chunk = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), a.dtype)
    fill = fx.make_tiled_copy_tv(chunk, fx.make_layout((THREADS // 8, 8), (8, 1)), fx.make_layout((1, unit), (unit, 1)))
    m, n = c.shape.unpack()
    grid = ((m + block_m - 1) // block_m, (n + block_n - 1) // block_n)
    gemm_preshuffle_kernel(a, w, c, scales, mma, fill, block_m, block_n, atom_k, block_scaled, direct).launch(
        grid=grid, block=THREADS, stream=stream
    )
