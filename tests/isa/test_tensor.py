"""The tensor data mover: tiles against loops over their elements, and that kernels wait for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import LaunchError
from flydsl.kernels import matmul

from . import image
from .decode import Context, line_of
from .errors import IsaError
from .memory import Memory
from .text import Instruction, disassemble, parse
from .wave import Block, Wave

CONTEXT = Context("gfx1250", "gfx12", 32, 1 << 10)
LOAD = "tensor_load_to_lds s[0:3], s[4:11], s[12:15], s[16:19]"
STORE = LOAD.replace("load_to_lds", "store_from_lds")


def words(bits: int, count: int) -> list[int]:
    return [bits >> 32 * at & 0xFFFFFFFF for at in range(count)]


def registers(
    address: int, shared: int, size: int, tile: tuple[int, ...], extents: tuple[int, ...], steps: tuple[int, ...],
    pad: tuple[int, int] | None,
) -> list[int]:  # fmt: skip
    """A descriptor of five dimensions, field by field as the table of its bits has them."""
    first = 1 | shared << 32 | address << 64 | 2 << 126
    second = (size.bit_length() - 1) << 16 | extents[0] << 48 | extents[1] << 80 | tile[0] << 112 | tile[1] << 128
    second |= tile[2] << 144 | steps[1] << 160 | steps[2] << 208
    if pad is not None:
        second |= 1 << 20 | (pad[0].bit_length() - 2) << 22 | (pad[1] - 1) << 25
    third = extents[2] | extents[3] << 32 | steps[3] << 64 | tile[3] << 112
    fourth = steps[4] | extents[4] << 48 | tile[4] << 80
    return [*words(first, 4), *words(second, 8), *words(third, 4), *words(fourth, 4)]


def wave(memory: Memory, values: list[int], shared: np.ndarray[Any, Any]) -> Wave:
    w = Wave("gfx12", 32, 8, Block((0, 0, 0), shared), memory, random.Random(0))
    w.s[: len(values)] = values
    return w


@st.composite
def tiles(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(1, 5))
    tile = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    extents = tuple(draw(st.integers(0, 6)) for _ in range(rank))
    steps, step = [1], 6
    for _ in range(rank - 1):
        steps.append(step)
        step *= draw(st.integers(4, 6))
    size = draw(st.sampled_from((1, 2, 4, 8)))
    pad = draw(st.none() | st.tuples(st.sampled_from((2, 4, 8)), st.integers(1, 5))) if size >= 4 else None
    return {"size": size, "tile": tile, "extents": extents, "steps": tuple(steps), "pad": pad}


@settings(max_examples=60, deadline=None)
@given(tiles(), st.integers(0, 1 << 32))
def test_tiles(given: dict[str, Any], seed: int):
    """Of any dimensions, at the ends of a tensor, with gaps; what is outside is zero, and is not stored."""
    size, tile, extents, steps, pad = (given[name] for name in ("size", "tile", "extents", "steps", "pad"))
    rng = np.random.default_rng(seed)
    count = sum((n - 1) * step for n, step in zip(tile, steps, strict=True)) + 1
    x = rng.integers(1, 255, (count, size), np.uint8)
    lds = np.full(1 << 16, 0xEE, np.uint8)
    shared, rest = 4 * int(rng.integers(64)), 5 - len(tile)
    values = registers(
        x.ctypes.data, shared, size, (*tile, *[0] * rest), (*extents, *[0] * rest), (*steps, *[0] * rest), pad
    )
    memory = Memory()
    memory.add(x.ctypes.data, x.nbytes, "an array")
    wanted, place, elements = lds.copy(), 0, []
    for at in product(*(range(n) for n in reversed(tile))):
        inside = all(i < extent for i, extent in zip(at[::-1], extents, strict=True))
        number = sum(i * step for i, step in zip(at[::-1], steps, strict=True))
        gaps = 0 if pad is None else place // (4 * pad[0]) * 4 * pad[1]
        wanted[shared + place + gaps : shared + place + gaps + size] = x[number] if inside else 0
        elements.append((number, shared + place, inside))
        place += size
    w = wave(memory, values, lds)
    line_of(parse(LOAD), CONTEXT, {}).step(w)
    w.wait("tensorcnt", 0)
    np.testing.assert_array_equal(lds, wanted)
    if pad is None:
        lds[:] = rng.integers(1, 255, len(lds), np.uint8)
        stored = x.copy()
        for number, there, inside in elements:
            if inside:
                stored[number] = lds[there : there + size]
        w = wave(memory, values, lds)
        line_of(parse(STORE), CONTEXT, {}).step(w)
        w.wait("tensorcnt", 0)
        np.testing.assert_array_equal(x, stored)


def test_what_is_odd_is_refused():
    values = registers(0, 0, 4, (4, 4, 0, 0, 0), (4, 4, 0, 0, 0), (1, 4, 0, 0, 0), None)
    broken = {
        "not valid": (0, 0), "type is 0": (3, 0), "copies for blocks": (4, values[4] | 2), "a tile of": (7, 0),
        "iterations": (4, values[4] | 1 << 19), "of shared memory": (1, 1000),
    }  # fmt: skip
    for what, (at, word) in broken.items():
        w = wave(Memory(), values, np.zeros(1000, np.uint8))
        w.s[at] = word
        with pytest.raises(IsaError, match=what):
            line_of(parse(LOAD), CONTEXT, {}).step(w)


@flyc.kernel
def alone_kernel(src: fx.Tensor, dst: fx.Tensor, mover: fx.Constexpr[bool]):
    """A wave turns rows and has no barrier to wait at; the mover uses the same place again and again."""
    lane, row = fx.thread_idx.x, fx.make_layout(32, 1)
    cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 96, 16]).peek().ptr
    for i in fx.range_constexpr(3):
        source = fx.get_iter(src) + i * 32
        if fx.const_expr(mover):
            atom = fx.rocdl.cdna5.make_tdm_atom(fx.Float32, 1)
            fx.copy_atom_call(atom, fx.make_view(source, row), fx.make_view(cells, row))
            fx.rocdl.s_wait_tensorcnt(0)
            cells[lane] = cells[31 - lane]
            fx.copy_atom_call(atom, fx.make_view(cells, row), fx.make_view(fx.get_iter(dst) + i * 32, row))
            fx.rocdl.s_wait_tensorcnt(0)
        else:
            fx.rocdl.cluster_load_async_to_lds(source + lane, cells + (i * 32 + lane), 4)
            fx.rocdl.s_wait_asynccnt(0)
            dst[i, lane] = cells[i * 32 + 31 - lane]


@flyc.jit
def alone(src: fx.Tensor, dst: fx.Tensor, mover: fx.Constexpr[bool]):
    alone_kernel(src, dst, mover).launch(grid=1, block=32)


@pytest.mark.parametrize("mover", [True, False])
def test_a_wave_alone(mover: bool, gpu: Callable[[str], Any], rng: np.random.Generator):
    """LLVM knows neither what the mover touches nor what a wait is for."""
    gpu("gfx1250")
    for _ in range(3):
        src, dst = rng.standard_normal((3, 32)).astype("f4"), np.zeros((3, 32), "f4")
        alone(src, dst, mover)
        np.testing.assert_array_equal(dst, src[:, ::-1])


@pytest.mark.parametrize("gone", ["s_wait_tensorcnt", "s_wait_dscnt", "s_barrier_wait"])
def test_a_product_waits(gone: str, gpu: Callable[[str], Any], rng: np.random.Generator, monkeypatch):
    """Without its waits of a kind the pipelined loop of a product multiplies what has not come."""
    nop = parse("s_nop 0")

    def without(binary: bytes) -> dict[int, Instruction]:
        found = disassemble(binary)
        names = (gone, gone.replace("_wait", "_signal"))
        changed = {at: inst for at, inst in found.items() if inst.mnemonic in names}
        return found | {at: replace(nop, address=at, size=inst.size) for at, inst in changed.items()}

    a, b = (torch.from_numpy(rng.standard_normal(shape)).bfloat16() for shape in ((40, 600), (70, 600)))
    wanted = a.double() @ b.double().T
    gpu("gfx1250")
    assert (matmul(a, b.T, out_dtype="float32").double() - wanted).abs().max() < 1e-2
    monkeypatch.setattr(image, "disassemble", without)
    with pytest.raises((IsaError, LaunchError, AssertionError)):
        for _ in range(5):  # in other turns of the waves each time
            gpu("gfx1250")
            torch.testing.assert_close(matmul(a, b.T, out_dtype="float32").double(), wanted, rtol=1e-3, atol=1e-3)
