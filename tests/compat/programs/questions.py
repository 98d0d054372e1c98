"""Names around the kernel: what the host is asked, how functions are compiled and called, libraries, odd values."""

import atexit
import logging
import operator
import os
import tempfile

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.extern_link import link_extern
from flydsl.expr import meta, rocdl
from flydsl.expr.extern import ffi
from flydsl.expr.meta import dsl_loc_tracing
from flydsl.expr.struct import Arena
from flydsl.expr.typing import Types
from flydsl.runtime import device
from flydsl.utils import log

from .case import CDNA, Call, poison, program, randint, randn

assert isinstance(log(), logging.Logger)


@dsl_loc_tracing
def scaled(value, by):
    """A helper whose ops carry the place where it was called."""
    return value * by


@flyc.kernel
def double_kernel(src: fx.Pointer, dst: fx.Pointer, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        dst[i] = scaled(src[i], 2.0)


@flyc.jit
def double(src: fx.Pointer, dst: fx.Pointer, n: fx.Int32):
    double_kernel(src, dst, n).launch(grid=(fx.ceildiv(n, 64), 1, 1), block=(64, 1, 1))


assert double.func.__name__ == "double"


def call_with_addresses(src, dst, n):
    """Compiled for typed pointers, called with numbers."""
    compiled = flyc.compile(double, src, dst, n)
    src_address, dst_address = HELD["addresses"]
    HELD["tensors"][1].fill_(-77)
    compiled(src_address, dst_address, n)


HELD: dict[str, tuple] = {}


@program(double, run=call_with_addresses)
def addresses_for_a_compiled_function():
    src, dst = randn(100), poison(100)
    HELD.update(tensors=(src, dst), addresses=(src.data_ptr(), dst.data_ptr()))
    args = [flyc.from_c_void_p(fx.Float32, x.data_ptr(), assumed_align=4) for x in (src, dst)]
    return Call([*args, 100], [(dst, 2 * src.double())], kept=src)


@flyc.kernel
def counted_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    out[t] = out[t] + x[t]


@flyc.jit
def counted(x: fx.Tensor, out: fx.Tensor):
    counted_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


def compile_once(x, out):
    """`compile` runs the kernel, and calling what it gives runs it again."""
    compiled = flyc.compile(counted, x, out)
    compiled(x, out)


@program(counted, run=compile_once)
def compiling_runs_once():
    x, out = randn(64), torch.zeros(64)
    return Call([x, out], [(out, 2 * x.double())])


LIBRARY = os.path.join(tempfile.gettempdir(), f"flydsl_library_{os.getpid()}.ll")


def write_library():
    """Text of LLVM's, for whichever target links it."""
    with open(LIBRARY, "w", encoding="utf-8") as out:
        out.write("define float @lerp_of_a_library(float %a, float %b, float %t) {\n  %d = fsub float %b, %a\n"
                  "  %s = fmul float %d, %t\n  %r = fadd float %a, %s\n  ret float %r\n}\n")  # fmt: skip
    atexit.register(lambda: os.path.exists(LIBRARY) and os.unlink(LIBRARY))
    return LIBRARY


lerp = link_extern(
    ffi("lerp_of_a_library", ["float32", "float32", "float32"], "float32", is_pure=True), bitcode_path=write_library()
)


@flyc.kernel
def library_kernel(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    out[t] = fx.Float32(lerp(a[t], b[t], fx.Float32(0.25)))


@flyc.jit
def library(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
    library_kernel(a, b, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(library, flydsl="its linker wants bitcode for the GPU from a file of clang's")
def functions_of_a_library():
    a, b, out = randn(64), randn(64), poison(64)
    return Call([a, b, out], [(out, 0.75 * a.double() + 0.25 * b.double())], terms=3, atol=1e-6)


@flyc.kernel
def atomics_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    out[t] = x[t] * (2.0 if fx.const_expr(device.supports_bf16_global_atomics("gfx942")) else 3.0)


@flyc.jit
def atomics(x: fx.Tensor, out: fx.Tensor):
    atomics_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(atomics, CDNA, flydsl="0.4.1 has these names no more")
def questions_about_atomics():
    from flydsl.compiler.backends import RocmBackend

    assert RocmBackend.__name__ == "RocmBackend"
    assert isinstance(device.bf16_global_atomics_arch_description(), str)
    x, out = randn(64), poison(64)
    return Call([x, out], [(out, 2 * x.double())])


@flyc.kernel
def odd_kernel(x: fx.Tensor, out: fx.Tensor, wide: fx.Uint128):
    """Operators as functions, signs of vectors, filled ones by keyword, places of a block collective."""
    t = fx.thread_idx.x
    v = fx.Vector.from_elements([x[t, 0], x[t, 1]], fx.Int32)
    less = v.apply_op(operator.sub, 10, flip=True)
    high = v.with_signedness(False) >> 28
    same = fx.full(2, fill_value=3, dtype=fx.Int32) + fx.Vector.filled(2, fill_value=4, dtype=fx.Int32)
    assert fx.T.i32 == Types().i32
    assert fx.coop.BlockReduce[fx.Int32, 16].warp_threads == 16
    crd = fx.Basis(2, [0, 1])
    assert list(crd.modes) == [0, 1]
    pointer = fx.PointerType.get(elem_ty=fx.T.i32, address_space=fx.AddressSpace.Global, alignment=8)
    assert pointer.alignment == 8
    with meta.tracing_context(unused=True):
        down = fx.Float32(x[t, 0]) / 3.0
    out[t, 0] = less[0] + fx.Int32(high[1])
    out[t, 1] = same[1] + fx.Int32(wide >> 96)
    out[t, 2] = fx.Int32(down)


@flyc.jit
def odd(x: fx.Tensor, out: fx.Tensor, wide: fx.Uint128):
    odd_kernel(x, out, wide).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(odd)
def odd_values():
    x, out = randint(-1000, 1000, 64, 2), poison(64, 3, dtype=torch.int32)
    high = torch.where(x[:, 1] < 0, 15, 0)
    third = (x[:, 0].double() / 3).trunc()
    return Call([x, out, (9 << 96) + 1], [(out, torch.stack([10 - x[:, 0] + high, torch.full((64,), 16), third], 1))])


@flyc.kernel
def arena_kernel(x: fx.Tensor, out: fx.Tensor):
    """Places taken one after another from an arena in shared memory."""
    t = fx.thread_idx.x
    arena = fx.gpu.SharedAllocator()
    assert isinstance(arena, Arena)
    first = arena.allocate(fx.Array[fx.Float32, 64, 16]).peek()
    flag = arena.allocate(fx.Align[fx.Int32, 8])
    flag.poke(fx.Int32(5))
    first[t] = x[t].to(fx.Float16, rounding_mode=fx.arith.RoundingMode.to_nearest_even).to(fx.Float32)
    fx.gpu.barrier()
    out[t] = first[63 - t] + fx.Float32(flag.peek())


@flyc.jit
def arenas(x: fx.Tensor, out: fx.Tensor):
    arena_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(arenas)
def places_of_an_arena():
    x, out = randn(64), poison(64)
    return Call([x, out], [(out, x.half().double().flip(0) + 5)], terms=1)


@fx.struct
class Held:
    first: fx.Array[fx.Float32, 64, 16]
    count: fx.Int32


@flyc.kernel
def waits_kernel(x: fx.Tensor, out: fx.Tensor):
    """The wait of each generation by its own module, and a place that is typed storage."""
    t = fx.thread_idx.x
    place = fx.SharedAllocator().allocate(Held)
    assert isinstance(place, fx.Storage)
    held = place.peek()
    held.first[t] = x[t]
    arch = rocdl.rdna4 if fx.const_expr(fx.num_warp_threads() == 32) else rocdl.cdna3
    arch.s_waitcnt(lgkmcnt=0)
    fx.gpu.barrier()
    out[t] = held.first[t ^ 1]


@flyc.jit
def waits(x: fx.Tensor, out: fx.Tensor):
    waits_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(waits, ("gfx942", "gfx1201"))
def waits_of_each_generation():
    assert callable(rocdl.rdna3.s_waitcnt)
    x, out = randn(64), poison(64)
    return Call([x, out], [(out, x.double()[torch.arange(64) ^ 1])])
