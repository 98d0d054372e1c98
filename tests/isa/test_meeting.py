"""Blocks that meet in memory: fences and atomics must get past caches that nobody keeps up to date."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

from .errors import IsaError
from .image import Image
from .text import Instruction, parse

BLOCKS, THREADS = 5, 128


@flyc.kernel
def meet_kernel(x: fx.Tensor, parts: fx.Tensor, tickets: fx.Tensor, out: fx.Tensor):
    """The block that comes last adds what all have left; each has seen the others' places before."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    told = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 4, 16]).peek().view(fx.make_layout(4, 1))
    early = fx.Float32(0.0)
    for other in fx.range_constexpr(BLOCKS):
        early = early + parts[other, t]
    out[b + 1, t] = early
    parts[b, t] = x[b, t] * 2.0
    fx.memory_fence(syncscope=fx.SyncScope.Device)
    fx.barrier()
    if t == 0:
        told[0] = fx.atomic_add(fx.get_iter(tickets), 1, syncscope=fx.SyncScope.Device)
    fx.barrier()
    fx.memory_fence(syncscope=fx.SyncScope.Device)
    if told[0] == BLOCKS - 1:
        total = fx.Float32(0.0)
        for other in fx.range_constexpr(BLOCKS):
            total = total + parts[other, t]
        out[0, t] = total


@flyc.jit
def meet(x: fx.Tensor, parts: fx.Tensor, tickets: fx.Tensor, out: fx.Tensor):
    meet_kernel(x, parts, tickets, out).launch(grid=BLOCKS, block=THREADS)


def attempt(rng: np.random.Generator) -> None:
    x = rng.standard_normal((BLOCKS, THREADS)).astype("f4")
    parts, out, tickets = np.zeros_like(x), np.full((BLOCKS + 1, THREADS), np.nan, "f4"), np.zeros(1, "i4")
    meet(x, parts, tickets, out)
    wanted = np.zeros(THREADS, "f4")
    for row in x * np.float32(2):
        wanted += row
    np.testing.assert_array_equal(out[0], wanted)


ARCHES = ("gfx942", "gfx1201", "gfx1250")


@pytest.mark.parametrize("arch", ARCHES)
def test_the_last_block_sees_all(arch: str, gpu: Any, rng: np.random.Generator):
    gpu(arch)
    for _ in range(4):
        attempt(rng)


@pytest.mark.parametrize("arch", ARCHES)
def test_without_dropping_caches_it_does_not(
    arch: str, gpu: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    load = Image.__init__

    def changed(image: Image, code_object: bytes, memory: Any) -> None:
        load(image, code_object, memory)
        for at, inst in image.instructions.items():
            if inst.mnemonic in ("buffer_inv", "global_inv"):
                image.instructions[at] = Instruction(at, inst.size, *("s_nop", "", ("0",)), parse("s_nop 0").modifiers)

    monkeypatch.setattr(Image, "__init__", changed)
    gpu(arch)
    with pytest.raises((AssertionError, IsaError)):
        for _ in range(6):
            attempt(rng)
