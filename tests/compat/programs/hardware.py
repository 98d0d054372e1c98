"""AMD's instructions by the names that `fx.rocdl` has for them."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl
from flydsl.expr.typing import T

from .case import CDNA, WAVE32, Call, poison, program, randint, randn


@flyc.kernel
def direct_kernel(x: fx.Tensor, out: fx.Tensor):
    """From a buffer straight into shared memory, by the instruction; the lane's word goes behind the wave's base."""
    t = fx.thread_idx.x
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 128, 16]).peek()
    rsrc = rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(x)))
    wave = fx.Int32(rocdl.readfirstlane(T.i32, (t // 64 * 64).ir_value()))
    place = fx.to_llvm_ptr(lds.ptr + wave)
    rocdl.buffer_load_to_lds(rsrc, place, (t * 4).ir_value(), size_bytes=4)
    rocdl.s_waitcnt(vmcnt=0)
    fx.gpu.barrier()
    out[t] = lds[127 - t]


@flyc.jit
def direct(x: fx.Tensor, out: fx.Tensor):
    direct_kernel(x, out).launch(grid=(1, 1, 1), block=(128, 1, 1))


@program(direct, CDNA)
def buffer_to_shared_memory():
    x, out = randn(128), poison(128)
    return Call([x, out], [(out, x.double().flip(0))])


@flyc.kernel
def adding_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    rsrc = rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(out)))
    zero = fx.Int32(0).ir_value()
    rocdl.raw_ptr_buffer_atomic_fadd(x[t].ir_value(), rsrc, (t % 8 * 4).ir_value(), zero)


@flyc.jit
def adding(x: fx.Tensor, out: fx.Tensor):
    adding_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(adding)
def floats_added_to_a_buffer():
    x, out = randn(64), torch.zeros(8)
    v = x.double().reshape(8, 8)
    return Call([x, out], [(out, v.sum(0))], terms=8, magnitude=v.abs().sum(0))


@flyc.kernel
def scheduled_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    """Two products with hints for the scheduler between them."""
    t = fx.thread_idx.x
    acc = fx.Vector.filled(4, 0.0, fx.Float32)
    rocdl.s_setprio(1)
    for step in fx.range_constexpr(2):
        at = t % 16 * 32 + step * 16 + t // 16 * 4
        va = fx.ptr_load(fx.get_iter(a) + at, result_type=T.bf16x4).bitcast(fx.Int16)
        vb = fx.ptr_load(fx.get_iter(b) + at, result_type=T.bf16x4).bitcast(fx.Int16)
        acc = rocdl.mfma_f32_16x16x16bf16_1k(T.f32x4, [va, vb, acc, 0, 0, 0])
        rocdl.sched_group_barrier(rocdl.mask_vmem_rd, 2, 0)
        rocdl.sched_mfma(1)
        rocdl.sched_dsrd(1)
    rocdl.s_setprio(0)
    d = fx.Vector(acc, (4,), fx.Float32)
    for i in fx.range_constexpr(4):
        c[t // 16 * 4 + i, t % 16] = d[i]


@flyc.jit
def scheduled(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    scheduled_kernel(a, b, c).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(scheduled, CDNA)
def hints_for_the_scheduler():
    a, b, c = randn(16, 32, dtype=torch.bfloat16), randn(16, 32, dtype=torch.bfloat16), poison(16, 16)
    wide = a.double(), b.double()
    args = [*(flyc.from_dlpack(x.reshape(-1), assumed_align=16) for x in (a, b)), c]
    return Call(args, [(c, wide[0] @ wide[1].T)], terms=32, magnitude=wide[0].abs() @ wide[1].T.abs())


@flyc.kernel
def narrow_kernel(x: fx.Tensor, out: fx.Tensor, codes: fx.Tensor):
    """Conversions of CDNA4 with a scale, and two numbers to bf16 at once."""
    t = fx.thread_idx.x
    v = x[t]
    scale = fx.Float32(2.0)
    pair = fx.Int32(rocdl.cvt_pk_bf16_f32(v, v * 3.0))
    out[t, 0] = (pair << 16).bitcast(fx.Float32)
    out[t, 1] = (pair & -65536).bitcast(fx.Float32)
    old = fx.Int32(0)
    four = rocdl.cvt_scalef32_pk_fp4_f32(T.i32, old.ir_value(), v.ir_value(), (v * 2.0).ir_value(), scale.ir_value(), 0)
    codes[t] = fx.Int32(four) & 0xFF
    both = fx.Vector(rocdl.cvt_scalef32_pk_f32_fp4(T.f32x2, four, scale.ir_value(), 0), (2,), fx.Float32)
    out[t, 2] = both[0]
    out[t, 3] = both[1]


@flyc.jit
def narrow(x: fx.Tensor, out: fx.Tensor, codes: fx.Tensor):
    narrow_kernel(x, out, codes).launch(grid=(1, 1, 1), block=(64, 1, 1))


def to_fp4(x):
    """Codes and numbers of E2M1, to the nearest, ties to an even code."""
    grid = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
    apart = (x.abs()[:, None] - grid).abs()
    nearest = apart.min(1, keepdim=True).values
    order = torch.where(torch.arange(8) % 2 == 0, 0, 1) + (apart > nearest) * 10
    code = order.argmin(1)
    return code + 8 * (torch.signbit(x)), torch.where(torch.signbit(x), -1.0, 1.0) * grid[code]


@program(narrow, ("gfx950",))
def conversions_with_a_scale():
    x, out, codes = randn(64), poison(64, 4), poison(64, dtype=torch.int32)
    low, first = to_fp4(x.double() / 2)
    high, second = to_fp4(x.double())
    wanted = [x.bfloat16().double(), (3 * x).bfloat16().double(), 2 * first, 2 * second]
    return Call([x, out, codes], [(out, torch.stack(wanted, 1)), (codes, low + 16 * high)])


@flyc.kernel
def across_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    v = x[t].ir_value()
    votes = fx.Int64(rocdl.ballot(T.i64, (x[t] > 0).ir_value()))
    out[0, t] = fx.Int32(votes & 0xFFFF)
    out[1, t] = fx.Int32(rocdl.ds_bpermute(T.i32, ((t * 4) ^ 12).ir_value(), v))
    out[2, t] = fx.Int32(rocdl.perm_b32(v, fx.Int32(0x04030201).ir_value(), fx.Int32(0x07000601).ir_value()))
    out[3, t] = fx.Int32(rocdl.readfirstlane(T.i32, v))
    out[4, t] = fx.Int32(rocdl.update_dpp(T.i32, v, v, 0xB1, 0xF, 0xF, True))


@flyc.jit
def across(x: fx.Tensor, out: fx.Tensor):
    across_kernel(x, out).launch(grid=(1, 1, 1), block=(32, 1, 1))


@program(across)
def lanes_of_a_wave():
    x, out = randint(-1000, 1000, 32), poison(5, 32, dtype=torch.int32)
    t = torch.arange(32)
    votes = sum(1 << i for i in range(16) if x[i] > 0)
    words = x.long() & 0xFFFFFFFF
    mixed = (words >> 24 << 24) | (1 << 16) | ((words >> 16 & 0xFF) << 8) | 2
    mixed = torch.where(mixed >= 1 << 31, mixed - (1 << 32), mixed)
    wanted = [torch.full((32,), votes), x[t ^ 3], mixed, x[0].expand(32), x[t ^ 1]]
    return Call([x, out], [(out, torch.stack([w.long() for w in wanted]))])


@flyc.kernel
def approximate_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    v = x[t].ir_value()
    out[t, 0] = fx.Float32(rocdl.exp2(T.f32, v))
    out[t, 1] = fx.Float32(rocdl.rcp(T.f32, v))
    out[t, 2] = fx.Float32(rocdl.rsq(T.f32, v))


@flyc.jit
def approximate(x: fx.Tensor, out: fx.Tensor):
    approximate_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(approximate, (*CDNA, *WAVE32))
def approximations():
    x, out = torch.rand(64) * 3 + 0.5, poison(64, 3)
    v = x.double()
    return Call([x, out], [(out, torch.stack([v.exp2(), 1 / v, v.rsqrt()], 1))], rtol=3e-6)
