"""C = f(A W^T) with the matrix instructions of AMD's GPUs, on names that FlyDSL's public interface has too: both
compilers can make code of it.

W is the instruction's first operand, so that a lane ends up with neighbouring columns of a row of C and stores them at
once. A goes through stages of shared memory, and so does W, unless it was laid out beforehand for the instruction: then
it comes straight into registers. One step of the main loop multiplies one tile of K in two halves of
A's rows; meanwhile operands of the next half come from shared memory, and what later tiles need is under way:

    half 0 of tile t: read half 1 of A(t); by way of registers, write tile t+1 to its stage and load tile t+2
    barrier
    half 1 of tile t: read half 0 of A(t+1) and W(t+1); copies straight into shared memory: start tile t+stages

The first tile is the end of K, with zeros behind it: what follows are whole tiles, whose place along K is a uniform
offset, and no lane computes an address in the loop.

K may be cut into slices, each of a block of its own, whose sums `sums.py` adds up. Rows may belong to groups, each with
a matrix of its own, whose ends blocks read as `groups.py` says. Operands may have a factor for 128 elements of K: then
the products of a tile of K are summed alone, and added to the others times their factors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.rocdl import tdm_ops

UNIT_BYTES = 16
"""What a lane loads at once."""
GROUP_BYTES = 64
"""Bytes of K in what a wave of 64 loads at once of preshuffled weights: 16 rows, four lanes for each."""
CLASSES = {"valu": 0x2, "vmem": 0x20, "dsrd": 0x100, "dswr": 0x200, "dma": 0x10}
"""Masks of the scheduler: vector instructions, loads into registers, reads and writes of shared memory, its copies."""
UNIT_SCALE = 0x7F7F7F7F
"""Four E8M0 ones."""
FAR_BYTES = 0x7FFFFFF0
"""An offset that is out of range of every descriptor."""
MX_BYTES = {"Float8E4M3FN": 128, "Float8E5M2": 128, "Float4E2M1FN": 64}
"""Bytes of a row that one instruction with scales multiplies."""
TENSOR = -(1 << 63)
"""Says in the upper bits of an address that its words describe a tensor."""
BLOCK = 128
"""Elements of K, and rows of W, that share a factor where blocks have one; whole tiles of K, whole tiles in it, or it
in a tile."""
EACH = 4
"""Sums of slices are stored in so many at once, and rows of them are whole units of it."""
DIES = 8
"""Dies with an L2 each, to which blocks are dealt in turn."""


class Tile(NamedTuple):
    """What a block of threads computes, and how."""

    m: int
    n: int
    row_bytes: int = 128
    """Bytes of K in a stage."""
    waves_m: int = 1
    waves_n: int = 4
    stages: int = 2

    @property
    def waves(self) -> int:
        return self.waves_m * self.waves_n


class Form(NamedTuple):
    """What is compiled in besides the tile."""

    instruction: str
    """"mfma", "mfma_scale" or "wmma"."""
    atom_k: int
    lanes: int = 64
    """Of a wave."""
    part: int = 4
    """Elements of K that a lane gives one instruction, in one piece."""
    doubled: bool = False
    """Both halves of a wave hold the same of the operands."""
    direct: str = ""
    """How copies go straight into shared memory, if they do: out of a "buffer", each lane its part, or as a "tensor",
    one instruction for the rows of a wave."""
    wait: str = ""
    """Shared memory's counter, "lgkm" or "ds", where a fence at a barrier would also wait for loads into registers."""
    shuffled: bool = False
    """W is laid out for the instruction."""
    store: int = 4
    """Neighbouring elements of C that are stored at once."""
    extras: tuple[str, ...] = ()
    """What else there is: of bias, scale_a, scale_b, scale_out; with ":one" behind it if it is one value for all, and
    with ":rows" if a bias belongs to rows."""
    activation: str = "none"
    mx: str = ""
    """The type of MX blocks, whose scales go with the operands: see `mx.py`."""
    dies: int = 1
    """Neighbouring tiles go to the same one of so many dies."""
    grouped: bool = False
    """Rows of A belong to groups, each with a matrix of its own for W; their ends come before all else there is."""
    sliced: bool = False
    """K is cut, and C has the sums of each slice behind those of the one before."""
    paired: bool = False
    """Two additions of different registers are begun at once."""
    blocked: bool = False
    """Blocks of K have factors: (blocks of K, blocks of rows) for W, with groups in front, and (rows, blocks of K) for
    A. They come before all else there is, behind the ends of groups."""


if TYPE_CHECKING:
    TileLike: TypeAlias = Tile
    FormLike: TypeAlias = Form
    Several: TypeAlias = tuple[Any, ...]
else:
    # FlyDSL knows no other class for several values.
    TileLike = FormLike = Several = tuple


@flyc.kernel  # pyright: ignore[reportUnknownArgumentType]
def amd_kernel(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    extras: Several,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    batches: fx.Int32,
    step_a: fx.Int32,
    step_w: fx.Int32,
    step_c: fx.Int32,
    batch_a: fx.Int64,
    batch_w: fx.Int64,
    batch_c: fx.Int64,
    group: fx.Int32,
    length: fx.Int32,
    mma: fx.TiledMma,
    fill: fx.TiledCopy,
    tile: fx.Constexpr[TileLike],
    form: fx.Constexpr[FormLike],
):
    rocdl, dtype = fx.rocdl, a.dtype
    tid = fx.thread_idx.x
    size = dtype.width // 8
    unit, depth = UNIT_BYTES // size, tile.row_bytes // size
    stages, half_m, lanes = tile.stages, tile.m // 2, form.lanes
    threads = tile.waves * lanes
    units = tile.row_bytes // UNIT_BYTES
    across, down = tiles_across(m, batches, tile, form), (n + tile.n - 1) // tile.n
    block_m, block_n, part = placed(fx.block_idx.x, across, down, group, form.dies)
    row, column, batch, first = block_m * tile.m, block_n * tile.n, part, 0
    rows, columns = fx.min(m - row, tile.m), fx.min(n - column, tile.n)
    if fx.const_expr(form.grouped):
        from flydsl.kernels.matmul.amd.groups import rows_of_tile

        # A tile that no group has gets neither rows nor a K: the block has nothing to multiply and stores nothing.
        ends = fx.get_iter(extras[0])
        batch, row, rows = rows_of_tile(ends, batches, m, block_m, tid % lanes, tile.m, lanes)
        k = (rows > 0).select(k, fx.Int32(0))
    if fx.const_expr(form.sliced):
        slices = (k + length - 1) // length
        batch, first = part // slices, part % slices * length
        k = fx.min(k - first, length)

    # Each descriptor begins at what the block works on and ends behind its last row: other rows read zeros.
    here_a = fx.get_iter(a) + (fx.Int64(batch if not form.grouped else 0) * batch_a + fx.Int64(row) * step_a + first)
    bytes_a = ((rows - 1) * step_a + k) * size
    low = 1 if form.grouped else 0
    """Extras in front of those of the operands' blocks."""
    tile_a = rocdl.make_buffer_tensor(
        fx.make_view(here_a, fx.make_layout((tile.m, depth), (step_a, 1))),
        num_records_bytes=fx.max(bytes_a, 0) if form.grouped else bytes_a,
    )
    if fx.const_expr(form.shuffled):
        # K is whole groups there, zeros behind its end.
        panel = fx.make_layout(((16, tile.n // 16), (unit, 4, depth // (4 * unit))),
                               ((unit, step_w * 16), (1, 16 * unit, 64 * unit)))  # fmt: skip
        here_w = fx.get_iter(w) + (fx.Int64(batch) * batch_w + fx.Int64(column) * step_w + first * 16)
        tile_w = rocdl.make_buffer_tensor(
            fx.make_view(here_w, panel), num_records_bytes=((columns + 15) // 16 * step_w - first) * 16 * size
        )
    else:
        here_w = fx.get_iter(w) + (fx.Int64(batch) * batch_w + fx.Int64(column) * step_w + first)
        tile_w = rocdl.make_buffer_tensor(
            fx.make_view(here_w, fx.make_layout((tile.n, depth), (step_w, 1))),
            num_records_bytes=((columns - 1) * step_w + k) * size,
        )

    # Bits of the row permute the 16-byte units: eight rows of a unit lie in different banks. So they do where there is
    # a unit between rows.
    high = 0 if form.shuffled else tile.n
    pitch = stage_row(tile, form) // size
    pool = fx.SharedAllocator().allocate(fx.Array[dtype, stages * (tile.m + high) * pitch, 128]).peek()
    swizzle = fx.static(fx.SwizzleType.get(3 if units == 8 else 2, 4, 3))
    plain_a = fx.get_iter(pool.view(fx.make_layout(1, 1)))
    plain_w = plain_a + stages * tile.m * pitch
    base_a, base_w = plain_a, plain_w
    if fx.const_expr(form.direct != "tensor"):
        base_a, base_w = fx.apply_swizzle(plain_a, swizzle), fx.apply_swizzle(plain_w, swizzle)
    stages_a = fx.make_view(base_a, fx.make_layout((tile.m, depth, stages), (pitch, 1, tile.m * pitch)))
    halves = fx.make_view(
        base_a, fx.make_layout((half_m, depth, 2, stages), (pitch, 1, half_m * pitch, tile.m * pitch))
    )

    mine = fill.get_slice(tid)
    from_a, to_a = mine.partition_S(tile_a), mine.partition_D(stages_a)
    load = fx.make_copy_atom(rocdl.BufferCopy128b(), dtype)
    move = fx.make_copy_atom(fx.UniversalCopy128b(), dtype)
    held_a = fx.make_fragment_like(from_a)

    product = mma.get_slice(tid)
    read_a = fx.make_tiled_copy_B(move, mma).get_slice(tid)
    from_half = read_a.partition_S(halves)
    inputs = [product.make_fragment_B(halves[None, None, 0, 0]) for _ in range(2)]
    shape = fx.make_view(fx.get_iter(c), fx.make_layout((tile.n, half_m), (1, tile.n)))
    sums = [product.make_fragment_C(shape) for _ in range(2)]
    if fx.const_expr(form.mx != "" or form.blocked):
        # Operands may move as bytes, and sums of integers have factors that are none.
        sums = [fx.make_fragment_like(part, dtype=fx.Float32) for part in sums]
    for half in fx.range_constexpr(2):
        sums[half].fill(0)

    per_wave_m, per_wave_n = half_m // 16 // tile.waves_m, tile.n // 16 // tile.waves_n
    paired = form.blocked and form.paired and per_wave_m % 2 == 0
    # What is added at once lies in one vector, see `turns`.
    many = fx.make_layout(512 // lanes, 1)
    pairs = [[[fx.make_rmem_tensor(many, fx.Float32) for _ in range(per_wave_m // 2)] for _ in range(per_wave_n)]
             for _ in range(2)]  # fmt: skip
    if fx.const_expr(paired):
        for half in fx.range_constexpr(2):
            for i in fx.range_constexpr(per_wave_n):
                for total in pairs[half][i]:
                    total.fill(0)
    # Tiles shorter than a block are summed together, as far as stages follow each other. The first tile of all is the
    # last of K: that of stage i is number i - 1 of so many.
    together = min(max(BLOCK // depth, 1), stages) if form.blocked else 1
    parts = [product.make_fragment_C(shape) for _ in range(2 if together > 1 else 0)]
    for some in parts:
        some.fill(0)
    # A lane reads a unit at once. Where both halves of a wave hold the same, each reads all of it.
    wide = units if form.doubled else units * 16 // lanes

    to_w: Any = None
    held_w: Any = None
    from_stage: Any = None
    if fx.const_expr(form.shuffled):
        read_w = fx.make_tiled_copy_A(load, mma).get_slice(tid)
        from_w = read_w.partition_S(tile_w)
        weights = [product.make_fragment_A(tile_w) for _ in range(2)]
    else:
        read_w = fx.make_tiled_copy_A(move, mma).get_slice(tid)
        stages_w = fx.make_view(base_w, fx.make_layout((tile.n, depth, stages), (pitch, 1, tile.n * pitch)))
        from_w, to_w = mine.partition_S(tile_w), mine.partition_D(stages_w)
        held_w = fx.make_fragment_like(from_w)
        from_stage = read_w.partition_S(stages_w)
        weights = [product.make_fragment_A(stages_w[None, None, 0]) for _ in range(2)]

    # A uniform offset has no part in the bounds check of a row, and so it stays inside the row: behind the last tile
    # the last one is loaded again, for nobody.
    tiles = (k + depth - 1) // depth
    last = fx.max(tiles - 2, 0)
    end = (fx.max(tiles - 1, 0) if form.grouped else tiles - 1) * depth
    lane, wave = tid % lanes, uniform(tid // lanes) if form.direct != "" else tid // lanes
    each = lanes // units
    """Rows that a wave copies at once."""
    unit_of = lane % units ^ (lane // units if units == 8 else lane // units // 2 % 4)
    behind = FAR_BYTES // size

    def along(number: Any) -> Any:
        return fx.min(number - 1, last)

    def load_tile(at: Any, shift: Any) -> None:
        """Rows of A, and those of W that go through shared memory, into registers."""
        fx.copy(load, shifted(from_a, shift), held_a, soffset=at)
        if fx.const_expr(not form.shuffled):
            fx.copy(load, shifted(from_w, shift), held_w, soffset=at)

    def write_stage(stage: int) -> None:
        fx.copy(move, held_a, to_a[None, None, None, stage])
        if fx.const_expr(not form.shuffled):
            fx.copy(move, held_w, to_w[None, None, None, stage])

    def copy_rows(source: Any, to: Any, step: Any, count: int, at: Any, stage: int) -> None:
        """Straight into shared memory, where lanes follow each other: it is what they read that is swizzled."""
        atom = fx.make_copy_atom(rocdl.cdna4.BufferLoadAsyncLDS128b(), dtype).set_value("soffset", at)
        piece = fx.make_layout(unit, 1)
        mine_of = fx.get_iter(source) + ((wave * each + lane // units) * step + unit_of * unit)
        for i in fx.range_constexpr(count * units // threads):
            into = to + ((i * each * tile.waves + wave * each) * depth + stage * (count * depth))
            fx.copy_atom_call(
                atom, fx.make_view(mine_of + i * each * tile.waves * step, piece), fx.make_view(into, piece)
            )

    def tensor_words(source: Any, to: Any, step: Any, there: Any, count: int) -> tuple[Any, ...]:
        """Of the rows that a wave copies: the address, that in shared memory, and the rest for whole tiles and the last
        one."""
        part = count // tile.waves
        address = fx.Int64(fx.ptrtoint(source)) + fx.Int64(wave * part) * (fx.Int64(step) * size)
        left = fx.max(there - wave * part, 0)
        rest = [described(x, left, part, depth, pitch - depth, step, size) for x in (fx.min(k, depth), k - end)]
        return address | TENSOR, fx.ptrtoint(to) + wave * (part * pitch * size), *rest

    def copy_block(words: tuple[Any, ...], count: int, at: Any, stage: int, ragged: bool) -> None:
        address, place, *rest = words
        place = fx.Uint32(place + stage * (count * pitch * size))
        first = [fx.Int64(place) << 32 | 1, address + fx.Int64(fx.Uint32(at * size))]
        made = fx.Vector.from_elements(first, fx.Int64).bitcast(fx.Int32)
        tdm_ops.tensor_load_2d(tdm_ops.TDMDescriptor2D(made, rest[ragged]))

    words_a: Any = None
    words_w: Any = None
    if fx.const_expr(form.direct == "tensor"):
        words_a = tensor_words(here_a, plain_a, step_a, rows, tile.m)
        words_w = tensor_words(here_w, plain_w, step_w, columns, tile.n)

    def copy_tile(at: Any, stage: int, ragged: bool = False) -> None:
        if fx.const_expr(form.direct == "tensor"):
            copy_block(words_a, tile.m, at, stage, ragged)
            if fx.const_expr(not form.shuffled):
                copy_block(words_w, tile.n, at, stage, ragged)
            return
        copy_rows(tile_a, plain_a, step_a, tile.m, at, stage)
        if fx.const_expr(not form.shuffled):
            copy_rows(tile_w, plain_w, step_w, tile.n, at, stage)
        rocdl.asyncmark()

    def copies_are_there(under_way: int, later: int) -> None:
        """All but the last copies of this wave into shared memory, and behind them so many loads into registers; and
        the wave has read what it asked for."""
        if fx.const_expr(form.direct == "tensor"):
            rocdl.s_wait_tensorcnt(under_way)
            rocdl.s_wait_dscnt(0)
        else:
            rocdl.s_waitcnt(vmcnt=under_way + later, lgkmcnt=0)

    # Bytes from memory wait for their turn as words: a loop that carries vectors of bytes is not the compiler's best.
    in_words = form.shuffled and size == 1
    four = fx.make_layout(4, 1)
    pieces = units_of(from_w, unit) if in_words else []
    words = [[fx.make_rmem_tensor(four, fx.Int32) for _ in pieces] for _ in range(2)]

    def load_weights(at: Any, which: int) -> None:
        if fx.const_expr(not in_words):
            fx.copy(load, from_w, read_w.retile(weights[which]), soffset=at * 16)
            return
        atom, found = load.set_value("soffset", at * 16), fx.make_rmem_tensor(fx.make_layout(unit, 1), dtype)
        for piece, held in zip(pieces, words[which], strict=True):
            fx.copy_atom_call(atom, piece, found)
            held.store(found.load().bitcast(fx.Int32))

    def as_bytes(which: int) -> None:
        for piece, held in zip(units_of(read_w.retile(weights[which]), unit), words[which], strict=True):
            piece.store(held.load().bitcast(dtype))

    def read_weights(stage: int, which: int) -> None:
        fx.copy(move, from_stage[None, None, None, stage], read_w.retile(weights[which]))

    def read_half(half: int, stage: int) -> None:
        fx.copy(move, from_half[None, None, None, half, stage], read_a.retile(inputs[half]))

    # Scales of blocks: for each of an operand's 128 elements of K a word, with a byte for each of four instructions.
    steps = tile.row_bytes // MX_BYTES.get(form.mx, tile.row_bytes)
    scales = [[fx.make_rmem_tensor(fx.make_layout(1, 1), fx.Int32) for _ in range(2 * steps)] for _ in range(2)]

    def load_scales(number: Any, which: int) -> None:
        places = (block_n, down, wave % tile.waves_n), (block_m, across, wave // tile.waves_n)
        for side in fx.range_constexpr(2):
            block, blocks, part = places[side]
            words = fx.get_iter(rocdl.make_buffer_tensor(extras[side]))
            mine_of = words + (block * (2 * lanes) + part * lanes + lane)
            for i in fx.range_constexpr(steps):
                at = ((number + first // depth) * steps + i) * (blocks * (2 * lanes))
                atom = fx.make_copy_atom(rocdl.BufferCopy32b(), fx.Int32).set_value("soffset", at)
                fx.copy_atom_call(atom, fx.make_view(mine_of, fx.make_layout(1, 1)), scales[which][side * steps + i])

    def multiply_blocks(half: int, which: int) -> None:
        kind = getattr(fx, form.mx)
        for s in fx.range_constexpr(steps):
            of_w, of_a = (scales[which][side * steps + s][0] for side in range(2))
            for i in fx.range_constexpr(per_wave_n):
                left = as_operand(weights[which], i, s, kind)
                for j in fx.range_constexpr(per_wave_m):
                    make = rocdl.cdna4.MFMA_Scale(16, 16, 128, kind, opsel_a=i, opsel_b=half * per_wave_m + j)
                    total = sums[half][None, i, j]
                    fx.mma_atom_call(
                        fx.make_mma_atom(make), total, left, as_operand(inputs[half], j, s, kind), total,
                        scale_a=of_w, scale_b=of_a,
                    )  # fmt: skip

    # Factors of blocks: one for each row of A that a lane has results of, and one for each 128 columns of them.
    one = fx.make_layout(1, 1)
    first_m = wave // tile.waves_n * 16 + lane % 16
    rows_at = [row + first_m + (16 * tile.waves_m * j + half * half_m) for half in range(2) for j in range(per_wave_m)]
    squares = max(1, tile.n // BLOCK)
    at_once = 2 if paired else 1
    of_rows, of_columns = (
        [[fx.make_rmem_tensor(fx.make_layout(size, 1), fx.Float32) for _ in range(count)] for _ in range(2)]
        for count, size in ((len(rows_at) // at_once, at_once), (squares, 1))
    )

    def load_factors(number: Any, which: int) -> None:
        of_w, of_a = extras[low], extras[low + 1]
        at = (first + number * depth) // BLOCK
        along_w, along_n = fx.get_scalar(of_w.stride[low]), fx.get_scalar(of_w.stride[low + 1])
        along_m, along_a = fx.get_scalar(of_a.stride[0]), fx.get_scalar(of_a.stride[1])
        asked = fx.make_copy_atom(rocdl.BufferCopy32b(), fx.Float32)
        rows_of = fx.get_iter(rocdl.make_buffer_tensor(of_a))
        columns_of = fx.get_iter(rocdl.make_buffer_tensor(of_w))
        if fx.const_expr(form.grouped):
            columns_of = columns_of + batch * fx.get_scalar(of_w.stride[0])
        there = asked.set_value("soffset", fx.Int32(at * along_a))
        for i, place in enumerate(rows_at):
            held = fx.make_view(fx.get_iter(of_rows[which][i // at_once]) + i % at_once, one)
            fx.copy_atom_call(there, fx.make_view(rows_of + fx.min(place, m - 1) * along_m, one), held)
        there = asked.set_value("soffset", fx.Int32(at * along_w))
        for square, held in enumerate(of_columns[which]):
            block = fx.min(column // BLOCK + square, (n - 1) // BLOCK)
            if fx.const_expr(paired and form.wait == "ds"):
                # Two products that are begun at once may share a scalar register, but no vector register. Such a load
                # has a counter that nothing else of the loop waits for.
                held[0] = rocdl.s_buffer_load(columns_of, at * along_w + block * along_n).bitcast(fx.Float32)
            else:
                fx.copy_atom_call(there, fx.make_view(columns_of + block * along_n, one), held)

    def add_products(part: Any, half: int, which: int) -> None:
        for i in fx.range_constexpr(per_wave_n):
            of_column = of_columns[which][16 * tile.waves_n * i // BLOCK][0]
            for j in fx.range_constexpr(0, per_wave_m, at_once):
                factors = of_rows[which][(half * per_wave_m + j) // at_once].load() * of_column
                more = in_f32(part[None, i, j].load())
                if fx.const_expr(paired):
                    more = turns(more, in_f32(part[None, i, j + 1].load()))
                    total = pairs[half][i][j // 2]
                else:
                    total = sums[half][None, i, j]
                factors = fx.Vector.from_elements([factors[e] for e in range(at_once)] * (more.numel // at_once))
                total.store(fx.fma(more, factors, total.load()))

    def multiply(half: int, stage: int) -> None:
        which = stage % 2
        if fx.const_expr(in_words and half == 0):
            as_bytes(which)
        total = sums[half]
        if fx.const_expr(form.blocked):
            total = parts[half] if together > 1 else product.make_fragment_C(shape)
            if fx.const_expr(stage % together == 1 % together):
                total.fill(0)
        if fx.const_expr(form.mx != ""):
            multiply_blocks(half, which)
        elif fx.const_expr(form.instruction == "mfma_scale"):
            fx.gemm(mma, total, weights[which], inputs[half], total, scale_a=UNIT_SCALE, scale_b=UNIT_SCALE)
        else:
            fx.gemm(mma, total, weights[which], inputs[half], total)
        if fx.const_expr(form.blocked and stage % together == 0):
            add_products(total, half, which if together == 1 else 0)

    def ask_factors(number: Any, stage: int) -> None:
        """Those of the next tile; of several that are summed together, as the first of them begins."""
        if fx.const_expr(together == 1):
            load_factors(along(number + 1), 1 - stage % 2)
        elif fx.const_expr(stage % together == 1):
            load_factors(fx.Int32(number - 1), 0)

    products = per_wave_m * per_wave_n * (depth // form.atom_k)
    # Sums of their own are added up behind all products of a half: what reads a product's result right behind it waits,
    # on gfx1250 with an instruction for each cycle. Short rows of large tiles leave no registers for that.
    behind_all = form.blocked and (per_wave_m * per_wave_n <= 8 or tile.row_bytes >= 128)
    adds = per_wave_m * per_wave_n * (256 // lanes) if behind_all else 0

    def added_at(stage: int) -> int:
        return adds if stage % together == 0 else 0

    reads, reads_w = per_wave_m * wide, per_wave_n * wide
    moved = (tile.m + high) * units // threads
    if fx.const_expr(form.direct == "tensor"):
        moved = 1 if form.shuffled else 2

    def step(number: Any, stage: int) -> None:
        """By way of registers."""
        which, after = stage % 2, (stage + 1) % stages
        rocdl.sched_barrier(0)
        read_half(1, stage)
        if fx.const_expr(form.shuffled):
            load_weights(along(number + 1) * depth, 1 - which)
        if fx.const_expr(form.blocked):
            ask_factors(number, stage)
        write_stage(after)
        load_tile(along(number + 2) * depth, 0)
        multiply(0, stage)
        first = merged(["dsrd"] * reads, ["vmem"] * reads_w) if form.shuffled else ["dsrd"] * reads
        interleave(products, first + ["dswr", "vmem"] * moved, added_at(stage))
        rocdl.sched_barrier(0)
        meet(form.wait)
        rocdl.sched_barrier(0)
        read_half(0, after)
        if fx.const_expr(not form.shuffled):
            read_weights(after, 1 - which)
        multiply(1, stage)
        interleave(products, ["dsrd"] * (reads if form.shuffled else reads + reads_w), added_at(stage))
        rocdl.sched_barrier(0)

    def step_direct(number: Any, stage: int) -> None:
        which, after = stage % 2, (stage + 1) % stages
        rocdl.sched_barrier(0)
        read_half(1, stage)
        if fx.const_expr(form.shuffled):
            load_weights(along(number + 1) * depth, 1 - which)
        if fx.const_expr(form.mx != ""):
            load_scales(along(number + 1), 1 - which)
        if fx.const_expr(form.blocked):
            ask_factors(number, stage)
        multiply(0, stage)
        first = merged(["dsrd"] * reads, ["vmem"] * reads_w) if form.shuffled else ["dsrd"] * reads
        interleave(products, first, added_at(stage))
        rocdl.sched_barrier(0)
        # This wave has read all of tile t, and its part of tile t+1 is there: only what came later is under way.
        # Factors do not count, since neighbouring ones may be one load: the wait is for a copy more for each of them.
        later = reads_w if form.shuffled else 2 * steps if form.mx else 0
        copies_are_there((stages - 2) * moved, later)
        rocdl.s_barrier()
        rocdl.sched_barrier(0)
        read_half(0, after)
        if fx.const_expr(not form.shuffled):
            read_weights(after, 1 - which)
        copy_tile(along(number + stages) * depth, stage)
        multiply(1, stage)
        second = ["dsrd"] * (reads if form.shuffled else reads + reads_w) + ["dma"] * moved
        interleave(products, second, added_at(stage))
        rocdl.sched_barrier(0)

    if fx.const_expr(form.mx != ""):
        load_scales(tiles - 1, 0)
    if fx.const_expr(form.blocked):
        load_factors(fx.max(tiles - 1, 0), 0)
    if fx.const_expr(form.direct == "tensor"):
        copy_tile(end, 0, True)
    else:
        # Registers of lanes out of range are zeros; whether shared memory behind a straight copy is, nobody promises.
        load_tile(end, (end + tid % units * unit < k).select(fx.Int32(0), fx.Int32(behind)))
    if fx.const_expr(form.direct != ""):
        for i in fx.range_constexpr(1, stages):
            copy_tile(along(i) * depth, i)
    if fx.const_expr(form.shuffled):
        load_weights(end, 0)
    if fx.const_expr(form.direct == "tensor"):
        rocdl.s_wait_tensorcnt((stages - 1) * moved)
    else:
        write_stage(0)
    if fx.const_expr(form.direct == ""):
        load_tile(along(1) * depth, 0)
    fx.barrier()
    read_half(0, 0)
    if fx.const_expr(not form.shuffled):
        read_weights(0, 0)
    for turn in range(tiles // stages):
        for i in fx.range_constexpr(stages):
            if fx.const_expr(form.direct != ""):
                step_direct(turn * stages + i, i)
            else:
                step(turn * stages + i, i)
    rest = tiles % stages
    for i in fx.range_constexpr(stages - 1):
        if rest > i:
            read_half(1, i)
            if fx.const_expr(together > 1):
                ask_factors(tiles - rest + i, i)
            multiply(0, i)
            multiply(1, i)
            if fx.const_expr(i + 2 < stages):
                if fx.const_expr(form.direct == "tensor"):
                    copies_are_there(0, 0)
                fx.barrier()
                read_half(0, i + 1)
                if fx.const_expr(form.shuffled):
                    load_weights(along(tiles - rest + i + 1) * depth, (i + 1) % 2)
                else:
                    read_weights(i + 1, (i + 1) % 2)
                if fx.const_expr(form.mx != ""):
                    load_scales(along(tiles - rest + i + 1), (i + 1) % 2)
                if fx.const_expr(form.blocked and together == 1):
                    load_factors(along(tiles - rest + i + 1), (i + 1) % 2)
    if fx.const_expr(together > 1):
        if (tiles - 1) % together != 0:
            for half in fx.range_constexpr(2):
                add_products(parts[half], half, 0)

    here_c = fx.get_iter(c) + (fx.Int64(part) * batch_c + fx.Int64(row) * step_c + column)
    tile_c = fx.make_view(here_c, fx.make_layout((tile.m, tile.n), (step_c, 1)))
    bytes_c = ((rows - 1) * step_c + columns) * (c.dtype.width // 8)
    if fx.const_expr(form.grouped):
        bytes_c = (rows > 0).select(bytes_c, fx.Int32(0))
    out = fx.get_iter(rocdl.make_buffer_tensor(tile_c, num_records_bytes=bytes_c))
    store = fx.make_copy_atom(rocdl.BufferCopy(form.store * c.dtype.width), c.dtype)
    beyond = fx.Int32(FAR_BYTES // (c.dtype.width // 8))
    # A lane has a row of an instruction's results, and neighbouring columns of it; in waves of which both halves hold
    # the same operands, every second one.
    values, apart = 256 // lanes, 2 if form.doubled else 1
    first_n = wave % tile.waves_n * 16 + lane // 16 * (1 if form.doubled else values)
    for i in fx.range_constexpr(per_wave_n):
        for v in fx.range_constexpr(0, values, form.store):
            at_n = first_n + (16 * tile.waves_n * i + v * apart)
            inside = column + at_n < n
            for half in fx.range_constexpr(2):
                for j in fx.range_constexpr(per_wave_m):
                    at_m = first_m + (16 * tile.waves_m * j + half * half_m)
                    at = inside.select(at_m * step_c + at_n, beyond)
                    if fx.const_expr(paired):
                        total = its_own(pairs[half][i][j // 2].load(), j % 2)
                    else:
                        total = sums[half][None, i, j].load()
                    found = [total[v + e] for e in range(form.store)]
                    if fx.const_expr(form.extras != () or form.activation != "none" or c.dtype.width == 8):
                        from flydsl.kernels.matmul.amd.epilogue import finished

                        where = row + at_m, column + at_n, m, n
                        found = finished(found, extras, form.extras, form.activation, *where, c.dtype, batch)
                    elif fx.const_expr(c.dtype is not found[0].dtype):
                        found = [fx.Float32(value).to(c.dtype) for value in found]
                    result = fx.make_rmem_tensor(fx.make_layout(form.store, 1), c.dtype)
                    result.store(fx.Vector.from_elements(found, c.dtype))
                    fx.copy_atom_call(store, result, fx.make_view(out + at, fx.make_layout(form.store, 1)))


def as_operand(fragment: Any, at: int, step: int, kind: Any) -> Any:
    """What one lane gives an instruction, as elements of a type."""
    held = fragment[None, at, step].load()
    made = fx.make_rmem_tensor(fx.make_layout(held.numel * held.dtype.width // kind.width, 1), kind)
    made.store(held.bitcast(kind))
    return made


def units_of(part: Any, unit: int) -> list[Any]:
    """What a thread copies, as units of 16 bytes."""
    inner, across, down = (fx.size(part.shape[mode]).unpack() for mode in range(3))
    firsts = [None] if inner == unit else [(None, i) for i in range(inner // unit)]
    return [part[first, i, j] for j in range(down) for i in range(across) for first in firsts]


def meet(wait: str) -> None:
    """All waves of the block, what they wrote to shared memory done; loads into registers stay under way."""
    if wait == "":
        fx.barrier()
        return
    if wait == "ds":
        fx.rocdl.s_wait_dscnt(0)
    else:
        fx.rocdl.s_waitcnt(lgkmcnt=0)
    fx.rocdl.s_barrier()


def placed(block: Any, across: Any, down: Any, group: Any, dies: int) -> tuple[Any, Any, Any]:
    """The tile of a block and its batch: `group` rows of tiles are walked together, a die's one by one."""
    per_batch = across * down
    batch, at = block // per_batch, block % per_batch
    if dies > 1:
        each, more = per_batch // dies, per_batch % dies
        die = at % dies
        at = die * each + fx.min(die, more) + at // dies
    together = group * down
    first = at // together * group
    high = fx.min(across - first, group)
    inside = at % together
    return first + inside % high, inside // high, batch


def shifted(part: Any, shift: Any) -> Any:
    return part if isinstance(shift, int) else fx.make_view(fx.get_iter(part) + shift, part.layout)


def tiles_across(m: Any, batches: Any, tile: Tile, form: Form) -> Any:
    """Tiles of rows; where rows belong to groups, as many as there may be, since each group may end inside one."""
    if form.grouped:
        return (m + fx.min(m, batches) * (tile.m - 1)) // tile.m
    return (m + tile.m - 1) // tile.m


def stage_row(tile: Tile, form: Form) -> int:
    """Bytes from a row of a stage to the next."""
    return tile.row_bytes + (UNIT_BYTES if form.direct == "tensor" else 0)


def described(across: Any, down: Any, rows: int, columns: int, gap: int, step: Any, size: int) -> Any:
    """The second group of a tensor's words: elements and rows that are left of it, the tile, and the steps of rows."""
    line, free = columns * size // 4, gap * size // 4
    flags = (size.bit_length() - 1) << 16 | 1 << 20 | (line.bit_length() - 2) << 22 | (free - 1) << 25
    # Words that only a scalar register can hold must come from some.
    across, down, step = uniform(across), uniform(down), uniform(step)
    words = [flags, across << 16, across >> 16 & 0xFFFF | down << 16, down >> 16 & 0xFFFF | columns << 16, rows, step,
             0, 0]  # fmt: skip
    return fx.Vector.from_elements([fx.Int32(word) for word in words], fx.Int32)


def uniform(value: Any) -> Any:
    """A value that is the same in all lanes, in a scalar register."""
    return fx.Int32(fx.rocdl.readfirstlane(fx.Int32.ir_type, value))


def in_f32(vector: Any) -> Any:
    return vector if vector.dtype.is_float else vector.to(fx.Float32)


def turns(one: Any, other: Any) -> Any:
    """Elements of two vectors by turns, the other's from its third one on. Two neighbours then lie in registers of
    different banks, of four, even if one vector begins a register earlier or later than it might: operations on them
    can be begun at once if they share no operand."""
    count = one.numel
    return fx.Vector.from_elements([x[(e + 2 * at) % count] for e in range(count) for at, x in enumerate((one, other))])


def its_own(vector: Any, which: int) -> Any:
    """One of the two vectors of `turns`."""
    count = vector.numel // 2
    return fx.Vector.from_elements([vector[(e - 2 * which) % count * 2 + which] for e in range(count)])


def merged(one: list[str], other: list[str]) -> list[str]:
    """Both lists, each evenly spread over the result."""
    places = [((i + 0.5) / len(items), kind) for items in (one, other) for i, kind in enumerate(items)]
    return [kind for _, kind in sorted(places)]


def interleave(products: int, memory: list[str], vector: int = 0) -> None:
    """Ask the scheduler for this order of memory instructions, evenly spread over so many matrix instructions, and for
    at most so many vector instructions behind them."""
    rocdl = fx.rocdl
    done = 0
    for i, kind in enumerate(memory):
        rocdl.sched_group_barrier(CLASSES[kind], 1, 0)
        until = products * (i + 1) // len(memory)
        if until > done:
            rocdl.sched_mfma(until - done)
        done = until
    if vector:
        rocdl.sched_group_barrier(CLASSES["valu"], vector, 0)


def matrix_product(dtype: Any, tile: Tile, form: Form) -> fx.TiledMma:
    """The product of a block's waves.

    A lane loads 16 bytes of K. Where the instruction takes fewer, K is permuted so that it takes them one part after
    the other: a sum does not mind, as long as both operands are permuted alike.
    """
    integer = not dtype.is_float
    if form.instruction == "mfma_scale":
        atom = fx.rocdl.cdna4.MFMA_Scale(16, 16, form.atom_k, dtype)
    elif form.instruction == "mfma":
        atom = fx.rocdl.MFMA(16, 16, form.atom_k, dtype, fx.Int32 if integer else None)
    elif integer:
        atom = fx.rocdl.WMMA(16, 16, form.atom_k, dtype, fx.Int32, sign_a=True, sign_b=True)
    else:
        atom = fx.rocdl.WMMA(16, 16, form.atom_k, dtype)
    waves = fx.make_layout((tile.waves_n, tile.waves_m, 1), (1, tile.waves_n, 0))
    parts = UNIT_BYTES * 8 // dtype.width // form.part
    if parts <= 1:
        return fx.make_tiled_mma(fx.make_mma_atom(atom), waves)
    groups = form.lanes // 16
    span = parts * form.part
    whole = max(1, form.atom_k // (groups * span))
    order = fx.make_layout((form.part, groups, parts, whole), (1, span, form.part, groups * span))
    return fx.make_tiled_mma(fx.make_mma_atom(atom), waves, (None, None, order))


@flyc.jit
def amd_tiles(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    extras: Any,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    batches: fx.Int32,
    step_a: fx.Int32,
    step_w: fx.Int32,
    step_c: fx.Int32,
    batch_a: fx.Int64,
    batch_w: fx.Int64,
    batch_c: fx.Int64,
    group: fx.Int32,
    length: fx.Int32,
    tile: fx.Constexpr[TileLike],
    form: fx.Constexpr[FormLike],
    stream: fx.Stream = fx.Stream(None),
):
    """`c = f(a @ w.T)`; strides are in elements: of the rows of each matrix, and of its batch.

    Slices of K are `length` elements long.
    """
    mma = matrix_product(a.dtype, tile, form)
    unit = UNIT_BYTES * 8 // a.dtype.width
    units = tile.row_bytes // UNIT_BYTES
    threads = tile.waves * form.lanes
    chunk = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), a.dtype)
    fill = fx.make_tiled_copy_tv(
        chunk, fx.make_layout((threads // units, units), (units, 1)), fx.make_layout((1, unit), (unit, 1))
    )
    m, batches = fx.Int32(m), fx.Int32(batches)
    blocks = tiles_across(m, batches, tile, form) * ((n + tile.n - 1) // tile.n)
    if fx.const_expr(form.sliced):
        blocks = blocks * ((k + length - 1) // length)
    if fx.const_expr(not form.grouped):
        blocks = blocks * batches
    amd_kernel(
        a, w, c, extras, m, fx.Int32(n), fx.Int32(k), batches, fx.Int32(step_a), fx.Int32(step_w), fx.Int32(step_c),
        fx.Int64(batch_a), fx.Int64(batch_w), fx.Int64(batch_c), fx.Int32(group), fx.Int32(length), mma, fill, tile,
        form,
    ).launch(grid=blocks, block=threads, stream=stream)  # fmt: skip
