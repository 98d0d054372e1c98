"""Kernels that reach below the language: MLIR's bindings, ops by class and by builder function."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import arith, fly, gpu, llvm, math, memref, rocdl, scf, vector
from flydsl._mlir.extras import types as T
from flydsl.compiler.kernel_function import CompilationContext
from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr

from .case import CDNA, Call, poison, program, randint, randn

DYNAMIC = -(2**31)


SMEM = SmemAllocator(None, arch="gfx942", global_sym_name="smem_of_bindings")
PLACE = SMEM._align(SMEM.ptr, 16)
SMEM.ptr = PLACE + 256 * 4


@flyc.kernel
def places_kernel(x: fx.Tensor, out: fx.Tensor):
    """A place of the older allocator as a memref: vectors and elements by ops of `vector` and `memref`."""
    t = fx.thread_idx.x
    four = T.vector(4, T.f32())
    place = SmemPtr(SMEM.get_base(), PLACE, T.f32(), shape=(256,)).get()
    at = arith.index_cast(T.index(), fx.as_ir_value(t * 4))
    mine = fx.Vector.from_elements([x[t * 4 + j] for j in range(4)], fx.Float32)
    vector.store(fx.as_ir_value(mine), place, [at])
    gpu.barrier()
    other = arith.index_cast(T.index(), fx.as_ir_value((63 - t) * 4))
    read = fx.Vector(vector.load(four, place, [other]), (4,), fx.Float32)
    one = fx.Float32(memref.load(place, [arith.index_cast(T.index(), fx.as_ir_value(t))]))
    gpu.barrier()
    memref.store(fx.as_ir_value(read[0] + one), place, [arith.index_cast(T.index(), fx.as_ir_value(t))])
    gpu.barrier()
    out[t] = fx.Float32(memref.load(place, [arith.index_cast(T.index(), fx.as_ir_value(t))])) + read[3]


@flyc.jit
def places(x: fx.Tensor, out: fx.Tensor):
    SMEM.finalized = False
    with ir.InsertionPoint(CompilationContext.get_current().gpu_module_body):
        SMEM.finalize()
    places_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(places)
def places_as_memrefs():
    x, out = randn(256), poison(64)
    v = x.double()
    back = v.reshape(64, 4).flip(0)
    return Call([x, out], [(out, back[:, 0] + v[:64] + back[:, 3])], terms=2)


def thread():
    return arith.index_cast(T.i32(), gpu.thread_id(gpu.Dimension.x))


def const(value, type_=None):
    type_ = T.i32() if type_ is None else type_
    attribute = ir.FloatAttr.get(type_, value) if isinstance(value, float) else ir.IntegerAttr.get(type_, value)
    return arith.ConstantOp(type_, attribute).result


def address(tensor, i, elem):
    base = fly.extract_aligned_pointer_as_index(ir.Type.parse("!llvm.ptr<1>"), tensor)
    return llvm.GEPOp(llvm.PointerType.get(1), base, [i], [DYNAMIC], elem, llvm.GEPNoWrapFlags.none).result


@flyc.kernel
def branches_kernel(x: fx.Tensor, out: fx.Tensor):
    f32 = ir.F32Type.get()
    i = thread()
    v = llvm.LoadOp(f32, address(x, i, f32), alignment=4).result
    positive = arith.CmpFOp(arith.CmpFPredicate.OGT, v, const(0.0, f32)).result
    branch = scf.IfOp(positive, [f32], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([math.sqrt(v)])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([arith.MulFOp(v, const(2.0, f32)).result])
    low, high, step = (const(n, T.index()) for n in (0, 5, 1))
    loop = scf.ForOp(low, high, step, [branch.results[0]])
    with ir.InsertionPoint(loop.body):
        number = arith.sitofp(f32, arith.index_cast(T.i32(), loop.induction_variable))
        scf.YieldOp([arith.addf(loop.inner_iter_args[0], number)])
    guarded = scf.IfOp(arith.cmpi(arith.CmpIPredicate.slt, i, const(60)))
    with ir.InsertionPoint(guarded.then_block):
        llvm.StoreOp(loop.results[0], address(out, i, f32), alignment=4)
        scf.YieldOp([])


@flyc.jit
def branches(x: fx.Tensor, out: fx.Tensor):
    branches_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(branches)
def branches_and_loops():
    x, out = randn(64), poison(64)
    v = x.double()
    wanted = torch.where(v > 0, v.abs().sqrt(), 2 * v) + 10
    wanted[60:] = -77
    return Call([x, out], [(out, wanted)], terms=8)


@flyc.kernel
def vectors_kernel(x: fx.Tensor, out: fx.Tensor):
    f32, i = T.f32(), thread()
    four = ir.VectorType.get([4], f32)
    v = llvm.LoadOp(four, address(x, arith.muli(i, const(4)), f32), alignment=16).result
    words = vector.bitcast(T.vector(4, T.i32()), v)
    signs = arith.andi(words, arith.ConstantOp(T.vector(4, T.i32()), dense(0x7FFFFFFF, 4)).result)
    positive = vector.bitcast(four, signs)
    total = vector.reduction(f32, vector.CombiningKind.ADD, positive)
    picked = vector.extract(v, [], [2])
    made = vector.from_elements(four, [total, picked, total, picked])
    swapped = vector.shuffle(made, made, [1, 0, 3, 2])
    spread = vector.broadcast(four, picked)
    both = vector.insert(total, spread, [], [0])
    llvm.StoreOp(arith.addf(swapped, both), address(out, arith.muli(i, const(4)), f32), alignment=16)


def dense(value, count):
    return ir.DenseElementsAttr.get_splat(T.vector(count, T.i32()), ir.IntegerAttr.get(T.i32(), value))


@flyc.jit
def vectors(x: fx.Tensor, out: fx.Tensor):
    vectors_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(vectors)
def vector_ops():
    x, out = randn(64, 4), poison(64, 4)
    v = x.double()
    total, picked = v.abs().sum(1), v[:, 2]
    wanted = torch.stack([picked + total, total + picked, 2 * picked, total + picked], 1)
    tensors = [flyc.from_dlpack(t.reshape(-1), assumed_align=16) for t in (x, out)]
    return Call(tensors, [(out, wanted)], terms=8)


@flyc.kernel
def shared_kernel(x: fx.Tensor, out: fx.Tensor):
    """A place in shared memory as LLVM's pointer, barriers by op, and a value that goes round the block."""
    t = fx.thread_idx.x
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 64, 16]).peek()
    base = fx.to_llvm_ptr(lds.ptr)
    i = fx.as_ir_value(t)
    pointer = llvm.PointerType.get(3)
    mine = llvm.GEPOp(pointer, base, [i], [DYNAMIC], T.i32(), llvm.GEPNoWrapFlags.none).result
    llvm.StoreOp(fx.as_ir_value(x[t]), mine, alignment=4)
    gpu.barrier()
    other = fx.as_ir_value(63 - t)
    there = llvm.GEPOp(pointer, base, [other], [DYNAMIC], T.i32(), llvm.GEPNoWrapFlags.none).result
    value = llvm.LoadOp(T.i32(), there, alignment=4).result
    out[t] = fx.Int32(value) * 2


@flyc.jit
def shared(x: fx.Tensor, out: fx.Tensor):
    shared_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(shared)
def pointers_to_shared_memory():
    x, out = randint(-1000, 1000, 64), poison(64, dtype=torch.int32)
    return Call([x, out], [(out, 2 * x.flip(0))])


@flyc.kernel
def atomics_kernel(x: fx.Tensor, out: fx.Tensor, slots: fx.Constexpr[int]):
    i = thread()
    v = fx.as_ir_value(x[fx.Int32(i)])
    slot = arith.remsi(i, const(slots))
    place = address(out, slot, T.i32())
    llvm.AtomicRMWOp(llvm.AtomicBinOp.add, place, v, llvm.AtomicOrdering.monotonic, syncscope="agent", alignment=4)
    llvm.FenceOp(llvm.AtomicOrdering.release, syncscope="agent")
    high = address(out, arith.addi(slot, const(slots)), T.i32())
    llvm.AtomicRMWOp(llvm.AtomicBinOp.max, high, v, llvm.AtomicOrdering.acq_rel, syncscope="agent", alignment=4)


@flyc.jit
def atomics(x: fx.Tensor, out: fx.Tensor, slots: fx.Constexpr[int]):
    atomics_kernel(x, out, slots).launch(grid=(1, 1, 1), block=(128, 1, 1))


@program(atomics)
def atomic_ops():
    x = randint(-1000, 1000, 128)
    out = torch.cat([torch.zeros(8, dtype=torch.int32), torch.full((8,), -5000, dtype=torch.int32)])
    columns = x.reshape(16, 8)
    return Call([x, out, 8], [(out, torch.cat([columns.sum(0), columns.max(0).values]))])


@flyc.kernel
def buffers_kernel(x: fx.Tensor, out: fx.Tensor, records: fx.Int32):
    """A descriptor from an address: what lies beyond its records reads as zero and is not written."""
    i = thread()
    base = fly.extract_aligned_pointer_as_index(llvm.PointerType.get(1), x)
    number = llvm.PtrToIntOp(T.i64(), base).result
    again = llvm.IntToPtrOp(llvm.PointerType.get(1), number).result
    nbytes = arith.extsi(T.i64(), fx.as_ir_value(records * 4))
    rsrc = rocdl.MakeBufferRsrcOp(llvm.PointerType.get(8), again, const(0, T.i16()), nbytes, const(0x27000)).result
    zero = const(0)
    loaded = rocdl.RawPtrBufferLoadOp(T.i32(), rsrc, arith.muli(i, const(4)), zero, aux=zero_attr()).result
    out[fx.Int32(i)] = fx.Int32(loaded)
    rocdl.RawPtrBufferStoreOp(i, rsrc, arith.muli(i, const(4)), zero, aux=zero_attr())


def zero_attr():
    return ir.IntegerAttr.get(T.i32(), 0)


@flyc.jit
def buffers(x: fx.Tensor, out: fx.Tensor, records: fx.Int32):
    buffers_kernel(x, out, records).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(buffers, CDNA)
def descriptors_of_addresses():
    x, out = randint(1, 1000, 64), poison(64, dtype=torch.int32)
    t = torch.arange(64, dtype=torch.int32)
    return Call([x, out, 40], [(out, torch.where(t < 40, x.clone(), 0)), (x, torch.where(t < 40, t, x.clone()))])


@flyc.kernel
def lanes_kernel(x: fx.Tensor, out: fx.Tensor):
    """Instructions across lanes, by op, by intrinsic and as assembly."""
    t = fx.thread_idx.x
    i32 = T.i32()
    v = fx.as_ir_value(x[t])
    lane = fx.as_ir_value(fx.Int32(t % 64))
    found = [
        llvm.call_intrinsic(i32, "llvm.amdgcn.readfirstlane.i32", [v], [], []),
        rocdl.readlane(i32, v, const(5)),
        rocdl.ds_bpermute(i32, arith.muli(arith.subi(const(63), lane), const(4)), v),
        rocdl.ds_swizzle(i32, v, const(0x041F)),
        rocdl.update_dpp(i32, const(-1), v, 0x111, 0xF, 0xF, False),
        llvm.inline_asm(i32, [v, v], "v_add_u32 $0, $1, $2", "=v,v,v", has_side_effects=False),
    ]
    fx.rocdl.sched_barrier(0)
    llvm.inline_asm(None, [], "s_waitcnt vmcnt(0) lgkmcnt(0)", "", has_side_effects=True)
    for j, value in enumerate(found):
        out[j, t] = fx.Int32(value)


@flyc.jit
def lanes(x: fx.Tensor, out: fx.Tensor):
    lanes_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(lanes, CDNA)
def instructions_of_lanes():
    x, out = randint(-1000, 1000, 64), poison(6, 64, dtype=torch.int32)
    t = torch.arange(64)
    shifted = torch.where(t % 16 == 0, torch.tensor(-1, dtype=torch.int32), x[(t - 1) % 64])
    wanted = [x[0].expand(64), x[5].expand(64), x.flip(0), x[t ^ 1], shifted, 2 * x]
    return Call([x, out], [(out, torch.stack(wanted))])


@flyc.kernel
def product_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    t = fx.thread_idx.x
    m, q = t % 16, t // 16
    half, four = T.vector(4, T.f16()), T.vector(4, T.f32())
    left = vector.from_elements(half, [fx.as_ir_value(a[m, q * 4 + j]) for j in range(4)])
    right = vector.from_elements(half, [fx.as_ir_value(b[m, q * 4 + j]) for j in range(4)])
    zero = arith.ConstantOp(four, ir.DenseElementsAttr.get_splat(four, ir.FloatAttr.get_f32(0.0))).result
    d = fx.rocdl.mfma_f32_16x16x16f16(four, [left, right, zero, 0, 0, 0])
    for j in fx.range_constexpr(4):
        c[q * 4 + j, m] = fx.Float32(vector.extract(d, [], [j]))


@flyc.jit
def product(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    product_kernel(a, b, c).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(product, CDNA)
def matrix_instruction_by_its_op():
    a, b, c = randn(16, 16, dtype=torch.float16), randn(16, 16, dtype=torch.float16), poison(16, 16)
    wide = a.double(), b.double()
    return Call([a, b, c], [(c, wide[0] @ wide[1].T)], terms=16, magnitude=wide[0].abs() @ wide[1].T.abs())


@flyc.kernel
def mixed_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    """The language around raw ops, and their results in its operators."""
    t = fx.thread_idx.x
    acc = fx.Float32(0.0)
    for j in range(n):
        raw = llvm.LoadOp(T.f32(), address(x, fx.as_ir_value(t * n + j), T.f32()), alignment=4).result
        acc = acc + fx.Float32(raw) * 2.0
        if raw_greater(raw, 0.0):
            acc = acc + 1.0
    undefined = llvm.mlir_undef(T.vector(2, T.f32()))
    pair = llvm.insertelement(undefined, fx.as_ir_value(acc), const(0))
    pair = llvm.insertelement(pair, fx.as_ir_value(acc * 0.5), const(1))
    out[t] = fx.Float32(llvm.extractelement(pair, const(0))) + fx.Float32(llvm.extractelement(pair, const(1)))


def raw_greater(raw, limit):
    return fx.Boolean(arith.cmpf(arith.CmpFPredicate.OGT, raw, const(limit, T.f32())))


@flyc.jit
def mixed(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    mixed_kernel(x, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(mixed)
def raw_ops_in_the_language():
    x, out = randn(64, 4), poison(64)
    v = x.double()
    return Call([x.reshape(-1), out, 4], [(out, 1.5 * (2 * v.sum(1) + (v > 0).sum(1)))], terms=16, atol=1e-5)


@flyc.kernel
def memrefs_kernel(x: fx.Tensor, out: fx.Tensor):
    """A buffer of MLIR's memref dialect for each thread."""
    t = fx.thread_idx.x
    type_ = ir.MemRefType.get([4], T.f32(), memory_space=ir.Attribute.parse("5 : i32"))
    mine = memref.AllocaOp(type_, [], []).memref
    for j in fx.range_constexpr(4):
        memref.store(fx.as_ir_value(x[t, j]), mine, [const(j, T.index())])
    total = arith.addf(memref.load(mine, [const(1, T.index())]), memref.load(mine, [const(3, T.index())]))
    out[t] = fx.Float32(total)


@flyc.jit
def memrefs(x: fx.Tensor, out: fx.Tensor):
    memrefs_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(memrefs)
def memref_ops():
    x, out = randn(64, 4), poison(64)
    v = x.double()
    return Call([x, out], [(out, v[:, 1] + v[:, 3])], terms=1)
