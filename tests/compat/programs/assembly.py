"""Inline assembly: idioms of arithmetic, and accesses of memory with their waits."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import llvm
from flydsl.expr import rocdl
from flydsl.expr.typing import T

from .case import CDNA, Call, poison, program, randint, randn


def asm(result, operands, text, constraints, effects=False):
    return llvm.inline_asm(result, [fx.as_ir_value(x) for x in operands], text, constraints, has_side_effects=effects)


@flyc.kernel
def idioms_kernel(x: fx.Tensor, f: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    v, w = x[t], f[t]
    i32 = ir.IntegerType.get_signless(32)
    found = [
        asm(i32, [v, t], "v_add3_u32 $0, $1, $2, 7", "=v,v,v"),
        asm(i32, [v], "v_bfe_u32 $0, $1, 4, 8", "=v,v"),
        asm(i32, [v, t], "v_lshl_or_b32 $0, $1, 8, $2", "=v,v,v"),
        asm(i32, [w, w], "v_cvt_pkrtz_f16_f32 $0, $1, $2", "=v,v,v"),
        asm(i32, [v], "v_mov_b32_dpp $0, $1 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf", "=v,v"),
    ]
    assert isinstance(fx.as_ir_value(v), ir.Value)
    op = llvm.InlineAsmOp(i32, [fx.as_ir_value(v)], "v_not_b32 $0, $1", "=v,v", has_side_effects=False)
    found.append(op.res if hasattr(op, "res") else op.result)
    asm(None, [], "s_nop 1", "", True)
    for j, value in enumerate(found):
        out[j, t] = fx.Int32(value)


@flyc.jit
def idioms_of_lanes(x: fx.Tensor, f: fx.Tensor, out: fx.Tensor):
    idioms_kernel(x, f, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(idioms_of_lanes, CDNA)
def idioms():
    x, f, out = randint(0, 1 << 20, 64), randint(-8, 8, 64).float(), poison(6, 64, dtype=torch.int32)
    t = torch.arange(64, dtype=torch.int32)
    half = f.half().view(torch.int16).int() & 0xFFFF
    both = half | half << 16
    wanted = [x + t + 7, x >> 4 & 255, x << 8 | t, both, x[t ^ 2], ~x]
    return Call([x, f, out], [(out, torch.stack(wanted))])


@flyc.kernel
def memory_kernel(x: fx.Tensor, out: fx.Tensor, tail: fx.Tensor):
    """Loads and stores of global, shared and buffer memory, with the waits they want."""
    t = fx.thread_idx.x
    four, address = ir.VectorType.get([4], T.i32), fx.to_llvm_ptr(fx.get_iter(x) + t * 4)
    v = asm(four, [address], "global_load_dwordx4 $0, $1, off\ns_waitcnt vmcnt(0)", "=v,v", True)
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 256, 16]).peek()
    place = fx.Int32(fx.ptrtoint(lds.ptr))
    asm(None, [place + t * 16, v], "ds_write_b128 $0, $1", "v,v,~{memory}", True)
    asm(None, [], "s_waitcnt lgkmcnt(0)\ns_barrier", "~{memory}", True)
    w = asm(four, [place + (63 - t) * 16], "ds_read_b128 $0, $1\ns_waitcnt lgkmcnt(0)", "=v,v,~{memory}", True)
    other = "ds_read_b32 $0, $1 offset:12\ns_waitcnt lgkmcnt(0)"
    last = asm(T.i32, [place + (63 - t) * 16], other, "=v,v,~{memory}", True)
    target = fx.to_llvm_ptr(fx.get_iter(out) + t * 4)
    asm(None, [target, w], "global_store_dwordx4 $0, $1, off", "v,v,~{memory}", True)
    rsrc = rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(tail, max_size=False)))
    words = llvm.BitcastOp(four, llvm.PtrToIntOp(ir.IntegerType.get_signless(128), rsrc).result).result
    asm(None, [last, t * 4, words], "buffer_store_dword $0, $1, $2, 0 offen", "v,v,s,~{memory}", True)
    asm(None, [], "s_waitcnt vmcnt(0)", "~{memory}", True)


@flyc.jit
def accesses(x: fx.Tensor, out: fx.Tensor, tail: fx.Tensor):
    memory_kernel(x, out, tail).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(accesses, CDNA)
def memory():
    x, out, tail = randint(-1000, 1000, 256), poison(256, dtype=torch.int32), poison(64, dtype=torch.int32)
    back = x.reshape(64, 4).flip(0)
    wanted = torch.where(torch.arange(64) < 48, back[:, 3], -77)
    part = tail[:48]
    return Call([x, out, part], [(out, back.reshape(-1)), (tail, wanted)])


@flyc.kernel
def product_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    t = fx.thread_idx.x
    at = t % 16 * 16 + t // 16 * 4
    left, right = (fx.ptr_load(fx.get_iter(x) + at, result_type=T.f16x4) for x in (a, b))
    zero = fx.Vector.filled(4, 0.0, fx.Float32)
    text = "v_mfma_f32_16x16x16_f16 $0, $1, $2, $3\ns_nop 7\ns_nop 2"
    d = fx.Vector(asm(T.f32x4, [left, right, zero], text, "=v,v,v,v"), (4,), fx.Float32)
    for i in fx.range_constexpr(4):
        c[t // 16 * 4 + i, t % 16] = d[i]


@flyc.jit
def product(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    product_kernel(a, b, c).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(product, CDNA)
def matrix_instruction():
    a, b, c = randn(16, 16, dtype=torch.float16), randn(16, 16, dtype=torch.float16), poison(16, 16)
    wide = a.double(), b.double()
    args = [*(flyc.from_dlpack(x.reshape(-1), assumed_align=16) for x in (a, b)), c]
    return Call(args, [(c, wide[0] @ wide[1].T)], terms=16, magnitude=wide[0].abs() @ wide[1].T.abs())


@flyc.kernel
def adding_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    place = fx.to_llvm_ptr(fx.get_iter(out) + t % 8)
    asm(None, [place, x[t]], "global_atomic_add_f32 $0, $1, off", "v,v,~{memory}", True)


@flyc.jit
def adding(x: fx.Tensor, out: fx.Tensor):
    adding_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(adding, CDNA)
def atomics():
    x, out = randn(64), torch.zeros(8)
    v = x.double().reshape(8, 8)
    return Call([x, out], [(out, v.sum(0))], terms=8, magnitude=v.abs().sum(0))
