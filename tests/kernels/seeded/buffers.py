"""AMD's buffers: what a descriptor leaves out, and what it lets through."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import bug, floats

BUFFER = {"arch": "gfx942", "make": floats, "hints": {"cpu_check_buffers": True}}


@bug("read outside of its buffer, which the hardware leaves out", **BUFFER)
@flyc.kernel
def load_that_is_left_out(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    b = fx.rocdl.make_buffer_tensor(x, max_size=False)
    y[t] = b[t * (4 if mended else 5)]  # bug


@bug("write outside of its buffer, which the hardware leaves out", **BUFFER)
@flyc.kernel
def store_that_is_left_out(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    b = fx.rocdl.make_buffer_tensor(y, max_size=False)
    b[t + (192 if mended else 193)] = x[t]  # bug


@bug("atomic update outside of its buffer, which the hardware leaves out", **BUFFER)
@flyc.kernel
def sum_that_is_left_out(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    b = fx.rocdl.make_buffer_tensor(y, max_size=False)
    one = fx.make_rmem_tensor(1, fx.Float32)
    one[0] = x[t]
    atom = fx.make_copy_atom(fx.rocdl.BufferAtomicAdd(fx.Float32), fx.Float32)
    at = t * (4 if mended else 5)
    fx.copy_atom_call(atom, one, fx.make_view(fx.get_iter(b) + at, fx.make_layout(1, 1)))  # bug


@bug("out of bounds of the tensor of argument 0 ('x')", arch="gfx942", make=floats)
@flyc.kernel
def descriptor_of_any_size(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A descriptor that bounds nothing lets through what lies behind the tensor."""
    t = fx.thread_idx.x
    b = fx.rocdl.make_buffer_tensor(x)
    y[t] = b[t * (4 if mended else 5)]  # bug


@bug("race on the tensor of argument 0 ('x'): write of what another thread wrote", arch="gfx942", make=floats, grid=2)
@flyc.kernel
def two_blocks_store(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, b = fx.thread_idx.x, fx.block_idx.x
    to = fx.rocdl.make_buffer_tensor(x, max_size=False)
    to[t + (b * 64 if mended else 0)] = b.to(fx.Float32) - 5.0  # bug
