"""Small things that programs rely on: types of values, aliases, places of names, what is accepted for what."""

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends.rocm import RocmBackend
from flydsl.expr.typing import T as Types
from flydsl.expr.utils.arith import arith_const
from flydsl.utils.file import atomic_write

from .case import ALL, CDNA, Call, poison, program, randn

assert callable(atomic_write) and isinstance(RocmBackend, type)
assert fx.Align[fx.Int32, 16].dtype is fx.Int32


@flyc.kernel
def types_kernel(x: fx.Tensor, out: fx.Tensor):
    """IR types where a class is asked for, and types as objects."""
    t = fx.thread_idx.x
    regs = fx.make_rmem_tensor(4, Types.f32)
    regs.fill(2.0)
    like = fx.make_fragment_like(regs, fx.T.i32)
    like.fill(3)
    layout = fx.LayoutType.get((4, 2), (1, 4))
    memory = fx.MemRefType.get(fx.T.f32, layout, fx.AddressSpace.Register)
    more = fx.memref_alloca(memory, fx.static(layout))
    fx.memref_store(fx.Float32(2.5), more, (1, 1))
    p = fx.get_iter(x) + t * 4
    bare = fx.ptr_load(p, result_type=fx.T.f32x4)
    view = fx.Tensor(fx.make_view(p, fx.make_layout(4, 1)))
    assert str(fx.make_layout(4, 1).type).startswith("!fly.layout")
    out[t, 0] = regs[0] + fx.Float32(like[1])
    out[t, 1] = fx.memref_load(more, (1, 1))
    out[t, 2] = fx.Vector(bare, (4,), fx.Float32)[3] + view[2]
    out[t, 3] = fx.Float32(fx.recast_iter(fx.T.i32, p)[1])
    fx.ptr_store(fx.Vector.filled(4, 1.5, fx.Float32).ir_value(), fx.get_iter(out) + t * 8 + 4)


@flyc.jit
def types(x: fx.Tensor, out: fx.Tensor):
    types_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(types, flydsl="IR types are refused for scalar classes")
def types_and_values_of_the_ir():
    x, out = randn(64, 4), poison(64, 8)
    v = x.double()
    wanted = torch.full((64, 8), 1.5, dtype=torch.float64)
    wanted[:, 0], wanted[:, 1], wanted[:, 2] = 5, 2.5, v[:, 3] + v[:, 2]
    wanted[:, 3] = x.view(torch.int32)[:, 1].float().double()
    tensors = [flyc.from_dlpack(x.reshape(-1), assumed_align=16), flyc.from_dlpack(out, assumed_align=16)]
    return Call(tensors, [(out, wanted)], terms=1)


@flyc.kernel
def fragments_kernel(x: fx.Tensor, out: fx.Tensor, tiled: fx.TiledCopy):
    """What is loaded from a fragment with several modes is one flat vector where it is used as one."""
    t = fx.thread_idx.x
    mine = tiled.get_slice(t)
    src = mine.partition_S(x)
    regs = fx.make_fragment_like(src)
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    fx.copy(atom, src, regs)
    v = regs.load()
    flat = fx.Vector.from_elements([v.ir_value()[i] for i in range(4)], fx.Float32)
    back = fx.make_fragment_like(src)
    back.store(v + fx.Float32(arith_const(1.0, fx.T.f32)))
    fx.copy(atom, back, mine.partition_D(out))
    total = flat.reduce("add")
    if total > 1000.0:
        out[0, 0] = total


@flyc.jit
def fragments(x: fx.Tensor, out: fx.Tensor):
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((4, 16), (16, 1)), fx.make_layout((2, 2), (2, 1)))
    fragments_kernel(x, out, tiled).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(fragments)
def vectors_of_fragments():
    x, out = randn(8, 32), poison(8, 32)
    return Call([flyc.from_dlpack(v, assumed_align=8) for v in (x, out)], [(out, x.double() + 1)])


@flyc.kernel
def atoms_kernel(x: fx.Tensor, out: fx.Tensor):
    """Atoms that are made and never used, and operands in registers of another type."""
    t = fx.thread_idx.x
    fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans16_64b(), fx.Float16)
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16))
    words = fx.make_rmem_tensor(2, fx.Int32)
    halves = fx.make_rmem_tensor(4, fx.Float16)
    move = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16)
    at = fx.get_iter(x) + t % 16 * 16 + t // 16 * 4
    fx.copy(move, fx.make_view(at, fx.make_layout(4, 1)), halves)
    fx.copy(move, halves, words)
    c = fx.make_rmem_tensor(4, fx.Float32)
    c.fill(0.0)
    fx.mma_atom_call(atom, c, words, halves, c)
    for i in fx.range_constexpr(4):
        out[t // 16 * 4 + i, t % 16] = c[i]


@flyc.jit
def atoms(x: fx.Tensor, out: fx.Tensor):
    atoms_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(atoms, CDNA, flydsl="registers of another type do not lower")
def operands_of_another_type():
    x, out = randn(16, 16, dtype=torch.float16), poison(16, 16)
    v = x.double()
    return Call([flyc.from_dlpack(x.reshape(-1), assumed_align=16), out], [(out, v @ v.T)], terms=16,
                magnitude=v.abs() @ v.T.abs())  # fmt: skip


@flyc.kernel(known_block_size=(fx.Int32(64), 1, 1))
def small_kernel(x: fx.Tensor, out: fx.Tensor):
    """A vector of one element as a number, an int tuple with a basis, rounding, a signedness."""
    t = fx.thread_idx.x
    one = fx.make_view(fx.get_iter(x) + t, fx.make_layout(1, 1)).load()
    crd = fx.make_int_tuple((fx.Basis(2, [0]), fx.E(1)))
    assert fx.rank(crd) == 2 and fx.make_tile(256).unpack() == (256,)
    words = fx.Vector.filled(4, 0xF0000000, fx.Uint32)
    out[t, 0] = fx.Float32(one)
    out[t, 1] = fx.Float32(x[t].to(fx.Float16))
    out[t, 2] = fx.Float32(words[0] >> 28)
    out[t, 3] = fx.Float32(fx.Float32x4.filled(4, 4.0, fx.Float32).reduce(fx.ReductionOp.ADD))


@flyc.jit
def small(x: fx.Tensor, out: fx.Tensor):
    small_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(small, ALL)
def odds_and_ends():
    x, out = randn(64), poison(64, 4)
    wanted = [x.double(), x.half().double(), torch.full((64,), 15.0), torch.full((64,), 16.0)]
    return Call([x, out], [(out, torch.stack(wanted, 1))])
