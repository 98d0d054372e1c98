"""Tiled copies, copy atoms with state, and copies the layouts of which do not match word for word."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import CDNA, Call, poison, program, randint, randn


@flyc.kernel
def relu_kernel(x: fx.Tensor, y: fx.Tensor, tiled: fx.TiledCopy):
    m, n = x.shape.unpack()
    bx, by, _ = fx.block_idx
    mine = tiled.get_slice(fx.thread_idx.x)
    where = fx.make_view((0, 0), fx.make_identity_layout((m, n)))
    tile = fx.make_tile(8, 32)
    src = mine.partition_S(fx.slice(fx.zipped_divide(x, tile), (None, (bx, by))))
    dst = mine.partition_D(fx.slice(fx.zipped_divide(y, tile), (None, (bx, by))))
    crd = mine.partition_S(fx.slice(fx.zipped_divide(where, tile), (None, (bx, by))))
    ok = fx.make_fragment_like(crd[(0, None), None, None], dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(ok.shape).unpack()):
        ok[i] = fx.elem_less(crd[(0, None), None, None][i], (m, n))
    regs = fx.make_fragment_like(src)
    regs.fill(0.0)
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    fx.copy(atom, src, regs, pred=ok)
    v = regs.load()
    regs.store((v > 0.0).select(v, v * 0.5))
    fx.copy(atom, regs, dst, pred=ok)


@flyc.jit
def relu(x: fx.Tensor, y: fx.Tensor):
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((4, 16), (16, 1)), fx.make_layout((2, 2), (2, 1)))
    m, n = x.shape.unpack()
    relu_kernel(x, y, tiled).launch(grid=((m + 7) // 8, (n + 31) // 32, 1), block=(64, 1, 1))


@program(relu)
def predicated_tiled_copy():
    x, y = randn(11, 38), poison(11, 38)
    wide = x.double()
    return Call([x, y], [(y, torch.where(wide > 0, wide, wide / 2))])


@flyc.kernel
def buffered_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    block = fx.block_idx.x
    t = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.Float16)
    source = fx.rocdl.make_buffer_tensor(x, max_size=False)
    target = fx.rocdl.make_buffer_tensor(y, max_size=False)
    source = fx.logical_divide(source, fx.make_layout(8, 1))
    target = fx.logical_divide(target, fx.make_layout(8, 1))
    regs = fx.make_rmem_tensor(fx.make_layout(8, 1), fx.Float16)
    fx.copy(atom, fx.slice(source, (None, block * 64 + t)), regs)
    v = regs.load().to(fx.Float32)
    regs.store((v * v).to(fx.Float16))
    fx.copy(atom, regs, fx.slice(target, (None, block * 64 + t)))


@flyc.jit
def buffered(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    buffered_kernel(x, y, n).launch(grid=(fx.ceildiv(n, 512), 1, 1), block=(64, 1, 1))


@program(buffered)
def buffer_copies_end_with_the_buffer():
    x, y = randn(1208, dtype=torch.float16), poison(1208, dtype=torch.float16)
    return Call([x, y, 1208], [(y, x.double() ** 2)])


@flyc.kernel
def strided_kernel(x: fx.Tensor, y: fx.Tensor, row: fx.Int32, cols: fx.Constexpr[int]):
    t = fx.thread_idx.x
    read = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    seen = fx.rocdl.make_buffer_tensor(x)
    regs = fx.make_rmem_tensor(1, fx.Float32)
    line = fx.make_view(fx.get_iter(seen) + t, fx.make_layout(1, 1))
    total = fx.Float32(0.0)
    for j in fx.range_constexpr(3):
        fx.copy(read, line, regs, soffset=row * cols + j * cols)
        total += regs[0]
    moved = read.set_value("soffset", row * cols)
    fx.copy_atom_call(moved, line, regs)
    y[t] = total * regs[0]


@flyc.jit
def strided(x: fx.Tensor, y: fx.Tensor, row: fx.Int32, cols: fx.Constexpr[int]):
    strided_kernel(x, y, row, cols).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(strided)
def atoms_with_a_run_time_offset():
    x, y = randn(9, 64), poison(64)
    wide = x.double()
    return Call([x.reshape(-1), y, 5, 64], [(y, wide[5:8].sum(0) * wide[5])], terms=4)


@flyc.kernel
def gather_kernel(table: fx.Tensor, index: fx.Tensor, out: fx.Tensor, width: fx.Constexpr[int]):
    """A row of the table for each index: 16 threads of 4 values take one row."""
    t = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    row = fx.block_idx.x * 4 + t // 16
    column = t % 16 * 4
    offsets = fx.make_rmem_tensor((2, 1), fx.Int32)
    for v in fx.range_constexpr(2):
        offsets[v] = index[row * 2 + v] * width + column
    regs = fx.make_rmem_tensor(fx.make_layout(((4, 2), 1), ((1, 4), 0)), fx.Float32)
    fx.gather(atom, fx.get_iter(table), offsets, regs)
    regs.store(regs.load() * 3.0)
    back = fx.make_rmem_tensor((2, 1), fx.Int32)
    for v in fx.range_constexpr(2):
        back[v] = (row * 2 + v) * width + column
    fx.scatter(atom, regs, fx.get_iter(out), back)


@flyc.jit
def gather(table: fx.Tensor, index: fx.Tensor, out: fx.Tensor, rows: fx.Int32, width: fx.Constexpr[int]):
    gather_kernel(table, index, out, width).launch(grid=(rows // 8, 1, 1), block=(64, 1, 1))


@program(gather)
def gathered_rows():
    table, index, out = randn(31, 64), randint(0, 31, 24), poison(24, 64)
    tensors = [flyc.from_dlpack(x, assumed_align=16) for x in (table, index, out)]
    return Call([*tensors, 24, 64], [(out, 3 * table[index.long()].double())])


@flyc.kernel
def words_kernel(x: fx.Tensor, y: fx.Tensor):
    """One 128-bit access moves whatever lies there: between element types, and from a view of one element."""
    t = fx.thread_idx.x
    wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    halves = fx.make_rmem_tensor(8, fx.Float16)
    words = fx.make_rmem_tensor(4, fx.Int32)
    line = fx.make_view(fx.get_iter(x) + t * 4, fx.make_layout(4, 1))
    one = fx.make_view(fx.get_iter(x) + t * 4, fx.make_layout(1, 1))
    fx.copy(wide, line, halves)
    fx.copy(wide, one, words)
    v = halves.load() + words.load().bitcast(fx.Float16)
    halves.store(v)
    fx.copy(wide, halves, fx.make_view(fx.get_iter(y) + t * 4, fx.make_layout(4, 1)))


@flyc.jit
def words(x: fx.Tensor, y: fx.Tensor):
    words_kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(words)
def words_of_another_type():
    x, y = randn(512, dtype=torch.float16), poison(512, dtype=torch.float16)
    raw = [flyc.from_dlpack(v.view(torch.float32), assumed_align=16) for v in (x, y)]
    return Call(raw, [(y, 2 * x.double())])


@flyc.kernel
def staged_kernel(x: fx.Tensor, y: fx.Tensor, load: fx.TiledCopy, keep: fx.TiledCopy):
    """Global to shared memory with one shape of threads, back with another."""
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 16 * 64, 16]).peek()
    tile = fx.make_view(lds.ptr, fx.make_layout((16, 64), (64, 1)))
    t = fx.thread_idx.x
    first, second = load.get_slice(t), keep.get_slice(t)
    block = fx.flat_divide(x, (16, 64))[None, None, fx.block_idx.x, 0]
    regs = fx.make_fragment_like(first.partition_S(block))
    wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    fx.copy(wide, first.partition_S(block), regs)
    fx.copy(wide, regs, first.partition_D(tile))
    fx.gpu.barrier()
    out = second.partition_D(fx.flat_divide(y, (16, 64))[None, None, fx.block_idx.x, 0])
    again = fx.make_fragment_like(out)
    fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float16), second.partition_S(tile), again)
    again.store(again.load() + fx.Float16(1.0))
    fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float16), again, out)


@flyc.jit
def staged(x: fx.Tensor, y: fx.Tensor):
    wide = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)
    word = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float16)
    load = fx.make_tiled_copy_tv(wide, fx.make_layout((16, 8), (8, 1)), fx.make_layout((1, 8), (8, 1)))
    keep = fx.make_tiled_copy_tv(word, fx.make_layout((4, 32), (32, 1)), fx.make_layout((1, 2), (2, 1)))
    m = fx.get_scalar(x.shape[0])
    staged_kernel(x, y, load, keep).launch(grid=(m // 16, 1, 1), block=(128, 1, 1))


@program(staged)
def staged_through_shared_memory():
    x, y = randn(48, 64, dtype=torch.float16), poison(48, 64, dtype=torch.float16)
    return Call([flyc.from_dlpack(v, assumed_align=16) for v in (x, y)], [(y, x.double() + 1)])


@flyc.kernel
def direct_kernel(x: fx.Tensor, y: fx.Tensor):
    """Straight into shared memory, a word for each lane."""
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 256, 16]).peek()
    t = fx.thread_idx.x
    wave = fx.rocdl.readfirstlane(fx.T.i32, t // 64 * 64)
    move = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Float32)
    seen = fx.rocdl.make_buffer_tensor(x)
    line = fx.make_view(fx.get_iter(seen) + fx.block_idx.x * 256 + t, fx.make_layout(1, 1))
    fx.copy(move, line, fx.make_view(lds.ptr + fx.Int32(wave), fx.make_layout(1, 1)))
    fx.rocdl.s_waitcnt(0)
    fx.gpu.barrier()
    y[fx.block_idx.x * 256 + t] = lds[255 - t]


@flyc.jit
def direct(x: fx.Tensor, y: fx.Tensor):
    direct_kernel(x, y).launch(grid=(2, 1, 1), block=(256, 1, 1))


@program(direct, CDNA)
def straight_into_shared_memory():
    x, y = randn(512), poison(512)
    return Call([x, y], [(y, x.double().reshape(2, 256).flip(1).reshape(-1))])


@flyc.kernel
def run_kernel(x: fx.Tensor, out: fx.Tensor):
    """A run of more values than a call of the atom moves."""
    t = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    regs = fx.make_rmem_tensor(fx.make_layout((4,), (1,)), fx.Float32)
    fx.copy(atom, fx.make_view(fx.get_iter(x) + t * 4, fx.make_layout(4, 1)), regs)
    out[t] = regs[0] + regs[3]


@flyc.jit
def runs(x: fx.Tensor, out: fx.Tensor):
    run_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(runs, counts="one access of all values there, one for each call here")
def a_run_of_values():
    x, out = randn(256), poison(64)
    v = x.double().reshape(64, 4)
    return Call([x, out], [(out, v[:, 0] + v[:, 3])], terms=1)
