"""Which instruction and which tile a product takes on an AMD GPU: by features of the architecture, types and extents.

The model counts clocks of a compute unit. A byte of K costs a tile what is slower of its products and of the way of its
rows from L2; tiles come in rounds over the compute units. Where there are fewer tiles than compute units K may be cut
into slices; their sums go to memory, and one more kernel adds them up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

from flydsl.target import GPUTarget

from ..request import FNUZ
from ..request import FP8 as OCP
from .kernel import DIES, Form, Tile, stage_row

FEED = 64.0
"""Bytes a compute unit gets from L2 in a clock."""
LATENCY = 1000.0
"""Clocks from asking memory for a stage to its arrival, as far as other waves do not hide them."""
START = 3000.0
"""Clocks of a block before its first product and behind its last one."""
AGAIN = 8000.0
"""Clocks of one more kernel."""
SLICES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SHORTEST = 1024
"""Bytes of K in a slice."""


class Given(NamedTuple):
    """C = A W^T as the model sees it; bytes of an operand's element and of a result's."""

    m: int
    n: int
    k: int
    batches: int
    size: int
    out: int
    processors: int
    shared: int
    """Bytes of shared memory that a block may have."""
    block: int = 1
    """Elements of K, a power of two, that share a factor."""


class Plan(NamedTuple):
    tile: Tile
    group: int
    """Rows of tiles that are walked together."""
    dies: int
    clocks: float
    length: int
    """Elements of K in a slice, whole stages of the tile."""
    slices: int = 1


@lru_cache(256)
def form_for(target: GPUTarget, dtype: str) -> Form | None:
    """The instruction for a type; None where there is none."""
    for feature, found in (("mfma", _mfma), ("wmma_v1", _wmma_v1), ("wmma_v2", _wmma_v2), ("wmma_v3", _wmma_v3)):
        if target.has(feature):
            return found(target, dtype)
    return None


def _mfma(target: GPUTarget, dtype: str) -> Form | None:
    # Where only 4 bytes a lane can be copied straight into shared memory, 16 bytes by way of registers are better.
    direct = "buffer" if target.has("copy_to_lds_b128") else ""
    if dtype in ("float16", "bfloat16"):
        return Form("mfma", 32, part=8, direct=direct) if target.has("mfma_long_k") else Form("mfma", 16, part=4)
    if dtype == "float32":
        return Form("mfma", 4, part=1, direct=direct)
    if dtype == "int8":
        if target.has("mfma_long_k"):
            return Form("mfma", 64, part=16, direct=direct)
        return Form("mfma", 32, part=8) if target.has("mfma_i8_k32") else Form("mfma", 16, part=4)
    if dtype in OCP and target.has("mfma_scale"):
        # With all scales one it is twice as fast as the instruction without scales.
        return Form("mfma_scale", 128, part=32, direct=direct)
    if dtype in FNUZ and target.has("mfma_fp8_fnuz"):
        return Form("mfma", 32, part=8)
    return None


def _wmma_v1(target: GPUTarget, dtype: str) -> Form | None:
    if dtype not in ("float16", "bfloat16", "int8"):
        return None
    return Form("wmma", 16, 32, part=16, doubled=True, wait="lgkm", store=1, paired=True)


def _wmma_v2(target: GPUTarget, dtype: str) -> Form | None:
    if dtype not in ("float16", "bfloat16", "int8", *OCP):
        return None
    return Form("wmma", 16, 32, part=8, wait="ds", store=8, paired=True)


def _wmma_v3(target: GPUTarget, dtype: str) -> Form | None:
    if dtype in ("float16", "bfloat16"):
        return Form("wmma", 32, 32, part=8, direct="tensor", wait="ds", store=8)
    if dtype in ("int8", *OCP):
        return Form("wmma", 64, 32, part=8, direct="tensor", wait="ds", store=8)
    return Form("wmma", 4, 32, part=2, direct="tensor", wait="ds", store=8) if dtype == "float32" else None


def rate(target: GPUTarget) -> float:
    """Bytes of K times results that a compute unit multiplies in a clock: the same for 16 and for 8 bits."""
    if any(map(target.has, ("mfma_long_k", "wmma_v3"))):
        return 4096.0
    if target.has("mfma"):
        return 2048.0 if target.has("mfma_i8_k32") else 1024.0
    return 1024.0 if target.has("wmma_v2") else 512.0


def tiles(form: Form) -> Iterator[Tile]:
    """Tiles without spills, but for what `fits` says; the first one is for everything that must not depend on M.

    Copies straight into shared memory are up to three stages ahead, where there is room for them.
    """
    stages = 4 if form.direct else 2
    if form.shuffled:
        if form.lanes == 64:
            for m, n in ((32, 64), (32, 128), (64, 128), (128, 128), (256, 128)):
                yield Tile(m, n, 128, 1, 4)
            return
        tensor = form.direct == "tensor"
        yield Tile(32, 64, 128, 1, 4, stages)
        yield Tile(32, 128, 128 if tensor else 64, 1, 4, stages)
        if not form.doubled:
            yield Tile(64, 128, 128 if tensor else 64, 1, 4, stages)
        return
    if form.instruction == "wmma":
        yield Tile(32, 64, 128, 1, 4, stages)
        for m, n, waves_m, waves_n in ((64, 64, 2, 2), (64, 128, 2, 4), (128, 64, 2, 2), (128, 128, 2, 4)):
            for row in (64, 128) if form.direct else (64,):
                yield Tile(m, n, row, waves_m, waves_n, stages)
        return
    # A whole instruction must fit a row.
    long = form.instruction == "mfma_scale"
    for m, n in ((32, 64), (32, 128), (64, 64), (64, 128)):
        yield Tile(m, n, 128, m // 32, 4 // (m // 32), stages)
    for m, n in ((128, 64), (128, 128), (256, 128)):
        if not long:
            yield Tile(m, n, 64, 2, 2, stages)
        yield Tile(m, n, 128, 2, 2, stages if m < 256 else 2)
    if not long:
        yield Tile(256, 256, 64, 2, 4, stages)


def fits(tile: Tile, form: Form) -> bool:
    """Whether a lane has registers for the sums of a tile. With factors of blocks it holds them twice."""
    return not form.blocked or tile.m * tile.n <= tile.waves * form.lanes * (32 if form.doubled else 64)


def shared_bytes(tile: Tile, form: Form) -> int:
    return tile.stages * stage_row(tile, form) * (tile.m + (0 if form.shuffled else tile.n))


def slice_length(given: Given, tile: Tile, slices: int) -> int:
    """Elements of K in each of at most so many slices: whole stages, and whole blocks."""
    depth = max(tile.row_bytes // given.size, given.block)
    return -(-given.k // (slices * depth)) * depth


def clocks(given: Given, tile: Tile, speed: float, slices: int = 1) -> float:
    length = slice_length(given, tile, slices) if slices > 1 else given.k
    blocks = -(-given.m // tile.m) * -(-given.n // tile.n) * given.batches * -(-given.k // length)
    rounds = -(-blocks // given.processors)
    products, feed = tile.m * tile.n / speed, (tile.m + tile.n) / FEED
    byte = max(products, feed) + 0.15 * min(products, feed)
    # Several blocks on a compute unit hide each other's waits.
    byte = max(byte, LATENCY / (tile.row_bytes * (tile.stages - 1)) / min(rounds, 2))
    out = given.out if slices == 1 else 4
    found = rounds * (length * given.size * byte + tile.m * tile.n * out / FEED) + START
    if slices > 1:
        sums = given.m * given.n * given.batches
        found += AGAIN + sums * (4 * slices + given.out) / (FEED / 2 * given.processors)
    return found


def cuts(given: Given, tile: Tile) -> Iterator[int]:
    """Numbers of slices: more than one where compute units are left over, none shorter than what it costs to start."""
    blocks = -(-given.m // tile.m) * -(-given.n // tile.n) * given.batches
    few = blocks < given.processors
    return (count for count in SLICES if count == 1 or (few and given.k * given.size >= count * SHORTEST))


@lru_cache(4096)
def cut(given: Given, target: GPUTarget, tile: Tile) -> tuple[int, int]:
    """How long the slices of K are that a tile is fastest with, and how many."""
    speed = rate(target)
    count = min(cuts(given, tile), key=lambda count: (clocks(given, tile, speed, count), count))
    length = slice_length(given, tile, count)
    return length, -(-given.k // length)


@lru_cache(4096)
def best(given: Given, target: GPUTarget, form: Form, whole: bool = False) -> Plan:
    """The fastest tile and cut by the model. `whole`: of those that sum in the same order, whatever M is."""
    speed = rate(target)
    every = [t for t in tiles(form) if shared_bytes(t, form) <= given.shared and fits(t, form)]
    found = [t for t in every if not whole or t.row_bytes == every[0].row_bytes]
    choices = [(t, count) for t in found for count in ((1,) if whole or form.grouped else cuts(given, t))]
    tile, count = min(choices, key=lambda x: (clocks(given, x[0], speed, x[1]), x[1], x[0].m * x[0].n))
    length = slice_length(given, tile, count)
    across, down = -(-given.m // tile.m), -(-given.n // tile.n)
    total = across * down * (given.batches if form.grouped else 1)
    dies = DIES if target.has("xcc_id") and total >= 8 * DIES else 1
    group = max(1, round(sqrt(given.processors / dies * tile.n / tile.m)))
    slices = -(-given.k // length)
    return Plan(tile, min(group, across), dies, clocks(given, tile, speed, count), length, slices)


__all__ = ["Given", "Plan", "best", "cut", "form_for", "shared_bytes", "tiles"]
