"""Memory and matrix instructions by the names of `fx.rocdl`, with descriptors and pointers as values of the IR."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import llvm
from flydsl._mlir.dialects import rocdl as raw_ops
from flydsl.expr import rocdl
from flydsl.expr.typing import T

from .case import CDNA, Call, poison, program, randint, randn


@flyc.kernel
def dma_kernel(x: fx.Tensor, out: fx.Tensor):
    """Each wave fetches 64 words with an offset at run time and one in the instruction."""
    t = fx.thread_idx.x
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 256, 16]).peek()
    rsrc = rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(x)))
    wave = fx.Int32(rocdl.readfirstlane(T.i32, (t // 64).ir_value()))
    place = fx.to_llvm_ptr(lds.ptr + wave * 64)
    size, zero = fx.Int32(4).ir_value(), fx.Int32(0).ir_value()
    rocdl.raw_ptr_buffer_load_lds(rsrc, place, size, (t % 64 * 4).ir_value(), (wave * 256).ir_value(), zero, zero)
    rocdl.cdna3.s_waitcnt(vmcnt=0)
    fx.gpu.barrier()
    out[t] = lds[255 - t]


@flyc.jit
def dma(x: fx.Tensor, out: fx.Tensor):
    dma_kernel(x, out).launch(grid=(1, 1, 1), block=(256, 1, 1))


@program(dma, CDNA)
def words_straight_into_shared_memory():
    x, out = randn(256), poison(256)
    return Call([x, out], [(out, x.double().flip(0))])


@flyc.kernel
def transposed_kernel(x: fx.Tensor, out: fx.Tensor, bits: fx.Constexpr[int]):
    """Reads of shared memory that transpose: 16 lanes hold a block of rows of 64 bits, each lane gets columns."""
    t = fx.thread_idx.x
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 128, 16]).peek()
    lds[t * 2] = x[t, 0]
    lds[t * 2 + 1] = x[t, 1]
    fx.gpu.barrier()
    place = fx.to_llvm_ptr(lds.ptr + t * 2)
    if fx.const_expr(bits == 16):
        words = fx.Vector(rocdl.ds_read_tr16_b64(T.i16x4, place).result, (4,), fx.Int16).bitcast(fx.Int32)
    else:
        words = fx.Vector(rocdl.ds_read_tr8_b64(T.i32x2, place).result, (2,), fx.Int32)
    out[t, 0] = words[0]
    out[t, 1] = words[1]


@flyc.jit
def transposed(x: fx.Tensor, out: fx.Tensor, bits: fx.Constexpr[int]):
    transposed_kernel(x, out, bits).launch(grid=(1, 1, 1), block=(64, 1, 1))


def transposed_call(bits):
    x, out = randint(-(2**31), 2**31, 64, 2), poison(64, 2, dtype=torch.int32)
    small = torch.int16 if bits == 16 else torch.uint8
    per = 64 // bits
    # The runs of 16 lanes are rows of 16 numbers; a lane gets a column of them.
    wanted = x.view(small).reshape(4, per, 16).transpose(1, 2).contiguous()
    return Call([x, out, bits], [(out, wanted.reshape(64, -1).view(torch.int32))])


@program(transposed, ("gfx950",))
def halves_read_transposed():
    return transposed_call(16)


@program(transposed, ("gfx950",))
def bytes_read_transposed():
    return transposed_call(8)


@flyc.kernel
def pairs_kernel(x: fx.Tensor, out: fx.Tensor):
    """Pairs of bf16 added to a buffer at once, and floats by the op that gives the old value."""
    t = fx.thread_idx.x
    rsrc = rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(out)))
    zero = fx.Int32(0).ir_value()
    pair = fx.Vector.from_elements([x[t, 0], x[t, 1]], fx.BFloat16)
    rocdl.raw_ptr_buffer_atomic_fadd(pair.ir_value(), rsrc, (t % 8 * 4).ir_value(), zero, zero)


@flyc.jit
def pairs(x: fx.Tensor, out: fx.Tensor):
    pairs_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(pairs, ("gfx950", "gfx1201", "gfx1250"))
def bfloats_added_to_a_buffer():
    # Whole numbers: every sum is exact in bf16.
    x, out = randint(-4, 5, 64, 2).to(torch.bfloat16), torch.zeros(8, 2, dtype=torch.bfloat16)
    return Call([x, out], [(out, x.double().reshape(8, 8, 2).sum(0))])


@flyc.kernel
def global_kernel(x: fx.Tensor, out: fx.Tensor):
    """The same in global memory, by LLVM's atomic op."""
    t = fx.thread_idx.x
    pair = fx.Vector.from_elements([x[t, 0], x[t, 1]], fx.BFloat16)
    place = fx.to_llvm_ptr(fx.get_iter(out) + t % 8 * 2)
    llvm.atomicrmw(llvm.AtomicBinOp.fadd, place, pair.ir_value(), llvm.AtomicOrdering.monotonic, syncscope="agent",
                   alignment=4)  # fmt: skip


@flyc.jit
def globally(x: fx.Tensor, out: fx.Tensor):
    global_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(globally, CDNA)
def bfloats_added_to_memory():
    x, out = randint(-4, 5, 64, 2).to(torch.bfloat16), torch.zeros(8, 2, dtype=torch.bfloat16)
    return Call([x, flyc.from_dlpack(out.reshape(-1), assumed_align=16)], [(out, x.double().reshape(8, 8, 2).sum(0))])


@flyc.kernel
def wmma_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    t = fx.thread_idx.x
    at = t % 16 * 16 + t // 16 * 8
    va, vb = (fx.ptr_load(fx.get_iter(x) + at, result_type=T.f16x8) for x in (a, b))
    zero = fx.Vector.filled(8, 0.0, fx.Float32)
    d = fx.Vector(rocdl.wmma_f32_16x16x16_f16(T.vec(8, T.f32), va, vb, zero.ir_value()).result, (8,), fx.Float32)
    for i in fx.range_constexpr(8):
        c[t // 16 * 8 + i, t % 16] = d[i]


@flyc.jit
def wmma(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    wmma_kernel(a, b, c).launch(grid=(1, 1, 1), block=(32, 1, 1))


@program(wmma, ("gfx1201",))
def wmma_on_values():
    a, b, c = randn(16, 16, dtype=torch.float16), randn(16, 16, dtype=torch.float16), poison(16, 16)
    wide = a.double(), b.double()
    args = [*(flyc.from_dlpack(x.reshape(-1), assumed_align=16) for x in (a, b)), c]
    return Call(args, [(c, wide[0] @ wide[1].T)], terms=16, magnitude=wide[0].abs() @ wide[1].T.abs())


@flyc.kernel
def scaled_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    """32x32x64 with a scale for each block of 32 along K; hints for the scheduler around it."""
    t = fx.thread_idx.x
    at = t % 32 * 16 + t // 32 * 4
    parts = []
    for x in (a, b):
        low = fx.ptr_load(fx.get_iter(x) + at, result_type=T.i32x4)
        high = fx.ptr_load(fx.get_iter(x) + at + 8, result_type=T.i32x4)
        both = fx.Vector(low, (4,), fx.Int32).shuffle(fx.Vector(high, (4,), fx.Int32), list(range(8)))
        parts.append(both.ir_value())
    rocdl.sched_group_barrier(rocdl.mask_dsrd, 1, 0)
    rocdl.sched_group_barrier(rocdl.mask_dswr, 1, 0)
    one, two = fx.Int32(0x7F).ir_value(), fx.Int32(0x80).ir_value()
    zero = fx.Vector.filled(16, 0.0, fx.Float32).ir_value()
    made = rocdl.mfma_scale_f32_32x32x64_f8f6f4(T.vec(16, T.f32), [*parts, zero, 0, 0, 0, one, 0, two])
    d = fx.Vector(made, (16,), fx.Float32)
    for i in fx.range_constexpr(16):
        c[i // 4 * 8 + t // 32 * 4 + i % 4, t % 32] = d[i]


@flyc.jit
def scaled(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    scaled_kernel(a, b, c).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(scaled, ("gfx950",))
def scaled_mfma_on_values():
    a, b, c = randn(32, 64).to(torch.float8_e4m3fn), randn(32, 64).to(torch.float8_e4m3fn), poison(32, 32)
    wide = [x.float().double() for x in (a, b)]
    words = [flyc.from_dlpack(x.view(torch.int32).reshape(-1), assumed_align=16) for x in (a, b)]
    return Call([*words, c], [(c, 2 * wide[0] @ wide[1].T)], terms=64, magnitude=2 * wide[0].abs() @ wide[1].T.abs())


@flyc.kernel
def values_kernel(x: fx.Tensor, out: fx.Tensor, records: fx.Int32):
    """A descriptor of an address, made by the op and used by the functions of the language."""
    t = fx.thread_idx.x
    i16, flags = fx.Int16(0).ir_value(), fx.Int32(0x27000).ir_value()
    ends = []
    for y in (x, out):
        base = fx.to_llvm_ptr(fx.get_iter(y))
        nbytes = fx.Int64(records * 4).ir_value()
        ends.append(raw_ops.MakeBufferRsrcOp(ir.Type.parse("!llvm.ptr<8>"), base, i16, nbytes, flags).result)
    zero = fx.Int32(0).ir_value()
    pair = rocdl.raw_ptr_buffer_load(T.i32x2, ends[0], (t * 8).ir_value(), zero)
    swapped = fx.Vector(pair, (2,), fx.Int32).shuffle(fx.Vector(pair, (2,), fx.Int32), [1, 0])
    rocdl.raw_ptr_buffer_store(swapped.ir_value(), ends[1], (t * 8).ir_value(), zero)


@flyc.jit
def values(x: fx.Tensor, out: fx.Tensor, records: fx.Int32):
    values_kernel(x, out, records).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(values, CDNA)
def descriptors_as_values():
    x, out = randint(1, 1000, 128), poison(128, dtype=torch.int32)
    wanted = x.reshape(64, 2).flip(1).reshape(-1).clone()
    # Each word is checked by itself: of the last pair the first is there.
    wanted[98:] = -77
    wanted[98] = 0
    return Call([x, out, 99], [(out, wanted)])


@flyc.kernel
def carried_kernel(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    """Two resources take turns: a loop carries them, a branch chooses between them."""
    t = fx.thread_idx.x
    here, there = (rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(z, max_size=False))) for z in (x, y))
    zero = fx.Int32(0).ir_value()
    total = fx.Float32(0.0)
    for i, state in range(fx.Index(0), fx.Index(n), fx.Index(1), init=[here, there, total.ir_value()]):
        at = (fx.Int32(i) * 256 + t * 4).ir_value()
        got = fx.Float32(rocdl.raw_ptr_buffer_load(T.f32, state[0], at, zero))
        carried = yield [state[1], state[0], (fx.Float32(state[2]) + got).ir_value()]
    last = carried[0]
    if t > 31:
        last = carried[1]
    out[t] = fx.Float32(carried[2]) + fx.Float32(rocdl.raw_ptr_buffer_load(T.f32, last, (t * 4).ir_value(), zero))


@flyc.jit
def carried(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    carried_kernel(x, y, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(carried, CDNA, flydsl="its loops carry no descriptors")
def resources_carried_by_a_loop():
    x, y, out = randn(3, 64), randn(3, 64), poison(64)
    v, w = x.double(), y.double()
    end = torch.where(torch.arange(64) > 31, v[0], w[0])
    return Call([x.reshape(-1), y.reshape(-1), out, 3], [(out, v[0] + w[1] + v[2] + end)], terms=4, atol=1e-5)


@flyc.kernel
def words_kernel(x: fx.Tensor, out: fx.Tensor):
    """The older form of a descriptor: four words."""
    t = fx.thread_idx.x
    rsrc = rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(out)))
    number = llvm.PtrToIntOp(ir.IntegerType.get_signless(128), rsrc).result
    words = llvm.BitcastOp(ir.VectorType.get([4], T.i32), number).result
    zero = fx.Int32(0).ir_value()
    rocdl.raw_buffer_atomic_fadd(T.f32, x[t].ir_value(), words, (t % 4 * 4).ir_value(), zero)


@flyc.jit
def words(x: fx.Tensor, out: fx.Tensor):
    words_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(words, ("gfx942",))
def floats_added_by_four_words():
    x, out = randn(64), torch.zeros(4)
    v = x.double().reshape(16, 4)
    return Call([x, out], [(out, v.sum(0))], terms=16, magnitude=v.abs().sum(0))
