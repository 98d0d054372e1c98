"""Shared memory: allocators, typed storage, structs, unions and raw offsets."""

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl.compiler.kernel_function import CompilationContext
from flydsl.expr.typing import T
from flydsl.utils.smem_allocator import SmemAllocator, SmemPtr

from .case import Call, poison, program, randint, randn


@fx.struct
class Parts:
    count: fx.Int32
    scale: fx.Float32
    body: fx.Array[fx.Float32, 64, 16]


@flyc.kernel
def storage_kernel(x: fx.Tensor, out: fx.Tensor):
    """A struct in shared memory, written field by field."""
    place = fx.SharedAllocator().allocate(Parts)
    t = fx.thread_idx.x
    place.count.poke(fx.Int32(7))
    place.scale.poke(fx.Float32(0.5))
    lds = place.peek()
    lds.body[t] = x[t]
    fx.gpu.barrier()
    both = place.count.peek() + fx.Int32(3)
    out[t] = lds.body[63 - t] * place.scale.peek() + fx.Float32(both)


@flyc.jit
def storage(x: fx.Tensor, out: fx.Tensor):
    storage_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(storage)
def fields_of_a_struct():
    x, out = randn(64), poison(64)
    return Call([x, out], [(out, x.double().flip(0) / 2 + 10)], terms=2)


@fx.union
class Reused:
    words: fx.Array[fx.Int32, 64, 16]
    halves: fx.Array[fx.Float16, 128, 16]


@flyc.kernel
def dynamic_kernel(x: fx.Tensor, out: fx.Tensor):
    """One piece of dynamic shared memory, used as words and then as halves."""
    lds = fx.SharedAllocator(static=False).allocate(Reused)
    words, halves = lds.words.peek(), lds.halves.peek()
    t = fx.thread_idx.x
    words[t] = fx.Int32(x[t])
    fx.gpu.barrier()
    v = words[(t + 1) % 64]
    fx.gpu.barrier()
    halves[t] = fx.Float16(v)
    halves[64 + t] = fx.Float16(1.0)
    fx.gpu.barrier()
    out[t] = fx.Float32(halves[t]) + fx.Float32(halves[127 - t])


@flyc.jit
def dynamic(x: fx.Tensor, out: fx.Tensor):
    dynamic_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(dynamic)
def dynamic_memory_reused():
    x, out = randint(-900, 900, 64), poison(64)
    return Call([x, out], [(out, x.roll(-1).double() + 1)])


ALLOCATOR = SmemAllocator(None, arch="gfx942", global_sym_name="smem_of_offsets")
OFFSET_A = ALLOCATOR._align(ALLOCATOR.ptr, 16)
ALLOCATOR.ptr = OFFSET_A + 64 * 4
OFFSET_B = ALLOCATOR._align(ALLOCATOR.ptr, 16)
ALLOCATOR.ptr = OFFSET_B + 64 * 2


@flyc.kernel
def offsets_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    base = ALLOCATOR.get_base()
    words = SmemPtr(base, OFFSET_A, T.f32, shape=(64,))
    halves = SmemPtr(base, OFFSET_B, T.f16, shape=(64,))
    i = fx.arith.index_cast(T.index, t)
    words.store(x[t], [i])
    halves.store(fx.Float16(x[t]), [i])
    fx.gpu.barrier()
    j = fx.arith.index_cast(T.index, 63 - t)
    out[t] = fx.Float32(words.load([j])) - fx.Float32(fx.Float16(halves.load([j])))


@flyc.jit
def offsets(x: fx.Tensor, out: fx.Tensor):
    ALLOCATOR.finalized = False
    context = CompilationContext.get_current()
    with ir.InsertionPoint(context.gpu_module_body):
        ALLOCATOR.finalize()
    offsets_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(offsets)
def memory_by_offsets():
    x, out = randn(64), poison(64)
    back = x.flip(0)
    return Call([x, out], [(out, back.double() - back.half().double())])


@flyc.kernel
def raw_kernel(x: fx.Tensor, out: fx.Tensor):
    """The kernel's dynamic shared memory by its base pointer, with a swizzled address."""
    t = fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float32)
    swizzled = fx.apply_swizzle(base, fx.static(fx.SwizzleType.get(2, 4, 2)))
    tile = fx.make_view(swizzled, fx.make_layout((16, 16), (16, 1)))
    for j in fx.range_constexpr(4):
        tile[t // 16 + j * 4, t % 16] = x[t // 16 + j * 4, t % 16]
    fx.barrier()
    first = base[0]
    for j in fx.range_constexpr(4):
        out[t // 16 + j * 4, t % 16] = tile[t % 16, t // 16 + j * 4] + first


@flyc.jit
def raw(x: fx.Tensor, out: fx.Tensor):
    raw_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1), smem=16 * 16 * 4)


@program(raw)
def base_of_dynamic_memory():
    x, out = randn(16, 16), poison(16, 16)
    return Call([flyc.from_dlpack(v) for v in (x, out)], [(out, x.double().T + x[0, 0].double())])


@flyc.kernel
def scratch_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    """A tree over shared memory, in vectors of four."""
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 256, 16]).peek()
    t = fx.thread_idx.x
    vector = fx.Vector.from_elements([x[t * 4 + i] for i in range(4)], fx.Float32)
    fx.ptr_store(vector, lds.ptr + t * 4)
    fx.gpu.barrier()
    width = fx.Int32(128)
    while width > 0:
        for j in fx.range_constexpr(2):
            i = t + j * 64
            if i < width:
                lds[i] = lds[i] + lds[i + width]
        fx.gpu.barrier()
        width = width // 2
    if t == 0:
        out[0] = lds[0]


@flyc.jit
def scratch(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    scratch_kernel(x, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(scratch)
def tree_of_sums():
    x, out = randn(256), poison(1)
    return Call([x, out, 256], [(out, x.double().sum().reshape(1))], terms=256, magnitude=x.double().abs().sum())


@fx.struct
class Pair:
    low: fx.Float32
    high: fx.Float32


@flyc.kernel
def aligned_kernel(x: fx.Tensor, out: fx.Tensor):
    """Structs in arrays, alignment on request, an arena of bytes."""

    @fx.struct
    class Place:
        one: fx.Align[fx.Int32, 16]
        pairs: fx.Array[fx.Float32, 128, 16]

    allocator = fx.SharedAllocator()
    place = allocator.allocate(Place)
    more = allocator.allocate(256).peek()
    t = fx.thread_idx.x
    lds = place.peek()
    pair = Pair(x[t], x[t] * 2.0)
    lds.pairs[t * 2] = pair.low
    lds.pairs[t * 2 + 1] = pair.replace(high=pair.high + 1.0).high
    bytes_ = fx.recast_iter(fx.Float32, more.ptr)
    bytes_[t] = x[t]
    place.one.poke(fx.Int32(5))
    fx.gpu.barrier()
    out[t] = lds.pairs[(63 - t) * 2] + lds.pairs[(63 - t) * 2 + 1] + bytes_[t] + fx.Float32(place.one.peek())


@flyc.jit
def aligned(x: fx.Tensor, out: fx.Tensor):
    aligned_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(aligned)
def structs_and_alignment():
    x, out = randn(64), poison(64)
    wide = x.double()
    return Call([x, out], [(out, 3 * wide.flip(0) + 1 + wide + 5)], terms=6, atol=1e-6)
