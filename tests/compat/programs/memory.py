"""Atomics, order of memory, buffers by instruction."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl
from flydsl.expr.typing import T

from .case import ALL, Call, poison, program, randint, randn


@flyc.kernel
def histogram_kernel(keys: fx.Tensor, bins: fx.Tensor, n: fx.Int32, nbins: fx.Constexpr[int]):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    bump = fx.make_copy_atom(fx.UniversalAtomicAdd(fx.Int32), fx.Int32)
    one = fx.make_rmem_tensor(1, fx.Int32)
    one.fill(1)
    if i < n:
        slot = fx.make_view(fx.get_iter(bins) + keys[i] % nbins, fx.make_layout(1, 1))
        fx.copy_atom_call(bump, one, slot)


@flyc.jit
def histogram(keys: fx.Tensor, bins: fx.Tensor, n: fx.Int32, nbins: fx.Constexpr[int]):
    histogram_kernel(keys, bins, n, nbins).launch(grid=(fx.ceildiv(n, 128), 1, 1), block=(128, 1, 1))


@program(histogram)
def atoms_that_add():
    keys, bins = randint(0, 1 << 20, 500), torch.zeros(10, dtype=torch.int32)
    return Call([keys, bins, 500, 10], [(bins, torch.bincount(keys.long() % 10, minlength=10))])


@flyc.kernel
def atomics_kernel(x: fx.Tensor, out: fx.Tensor, f: fx.Tensor, old: fx.Tensor):
    t = fx.thread_idx.x
    p = fx.get_iter(out)
    fx.atomic_add(p, x[t], syncscope=rocdl.SyncScope.Agent)
    fx.atomic_max(p + 1, x[t])
    fx.atomic_min(p + 2, x[t], ordering=fx.AtomicOrdering.AcqRel)
    fx.atomic_or(p + 3, fx.Int32(1) << (t % 32))
    fx.atomic_xor(p + 4, x[t])
    fx.atomic_add(fx.get_iter(f), fx.Float32(x[t]) * 0.5, syncscope=rocdl.SyncScope.Agent)
    before, done = fx.atomic_cas(p + 5, fx.Int32(0), t + 1)
    fx.memory_fence(ordering=fx.AtomicOrdering.SeqCst)
    old[t] = fx.Int32(done) + fx.Int32(before == 0) * 0


@flyc.jit
def atomics(x: fx.Tensor, out: fx.Tensor, f: fx.Tensor, old: fx.Tensor):
    atomics_kernel(x, out, f, old).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(atomics)
def atomics_that_give_the_old_value():
    x, f = randint(-1000, 1000, 64), torch.zeros(1)
    out = torch.tensor([5, -5000, 5000, 0, 0, 77], dtype=torch.int32)
    old = poison(64, dtype=torch.int32)
    folded = 0
    for v in x.tolist():
        folded ^= v
    wanted = [5 + int(x.sum()), int(x.max()), int(x.min()), -1, folded, 77]
    return Call(
        [x, out, f, old],
        [(out, torch.tensor(wanted)), (f, x.double().sum().reshape(1) / 2), (old, torch.zeros(64))],
        terms=64,
        magnitude=x.double().abs().sum(),
    )


@flyc.kernel
def descriptors_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    seen = rocdl.make_buffer_tensor(x, max_size=False)
    rsrc = rocdl.get_buffer_rsrc(fx.get_iter(seen))
    v = rocdl.raw_ptr_buffer_load(T.f32, rsrc, fx.as_ir_value(t * 4), fx.as_ir_value(fx.Int32(0)))
    back = rocdl.make_buffer_tensor(out)
    rocdl.raw_ptr_buffer_store(
        fx.as_ir_value(fx.Float32(v) * 3.0), rocdl.get_buffer_rsrc(fx.get_iter(back)), fx.as_ir_value(t * 4),
        fx.as_ir_value(fx.Int32(0)),
    )  # fmt: skip


@flyc.jit
def descriptors(x: fx.Tensor, out: fx.Tensor):
    descriptors_kernel(x, out).launch(grid=(1, 1, 1), block=(128, 1, 1))


@program(descriptors, ALL)
def buffers_by_instruction():
    x, out = randn(100), poison(128)
    wanted = torch.zeros(128, dtype=torch.float64)
    wanted[:100] = 3 * x.double()
    return Call([x, out], [(out, wanted)])


@flyc.kernel
def adding_kernel(x: fx.Tensor, out: fx.Tensor):
    """Floats added through a descriptor."""
    t = fx.thread_idx.x
    add = fx.make_copy_atom(rocdl.BufferAtomicAdd(fx.Float32), fx.Float32)
    regs = fx.make_rmem_tensor(1, fx.Float32)
    regs[0] = x[t]
    seen = rocdl.make_buffer_tensor(out)
    fx.copy(add, regs, fx.make_view(fx.get_iter(seen) + t % 4, fx.make_layout(1, 1)))


@flyc.jit
def adding(x: fx.Tensor, out: fx.Tensor):
    adding_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(adding)
def sums_through_a_descriptor():
    x, out = randn(64), torch.zeros(4)
    v = x.double().reshape(16, 4)
    return Call([x, out], [(out, v.sum(0))], terms=16, magnitude=v.abs().sum(0))


@flyc.kernel
def qualified_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    p = fx.get_iter(x) + t
    v = fx.generic_load(p, nontemporal=True)
    w = fx.generic_load(p, volatile=True)
    pair = fx.generic_load(fx.get_iter(x) + t // 2 * 2, dtype=fx.Float32x2)
    bits = fx.generic_load(fx.get_iter(x) + t // 2 * 2, dtype=fx.Int32x2)
    other = pair.shuffle_xor(2, 64)
    flag = rocdl.readfirstlane(fx.T.i32, (bits == pair.bitcast(fx.Int32)).to(fx.Int32).reduce("add"), loc=None)
    total = v + w + other[0] - other[1]
    fx.generic_store(fx.get_iter(out) + t, (fx.Int32(flag) == 2).select(total, 0.0), nontemporal=True)


@flyc.jit
def qualified(x: fx.Tensor, out: fx.Tensor):
    qualified_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(qualified)
def qualified_accesses():
    x, out = randn(64), poison(64)
    v = x.double()
    other = v.reshape(16, 2, 2).flip(1).reshape(32, 2)
    apart = (other[:, 0] - other[:, 1]).repeat_interleave(2)
    return Call(
        [x, out], [(out, 2 * v + apart)], terms=4, magnitude=2 * v.abs() + other.abs().sum(1).repeat_interleave(2)
    )
