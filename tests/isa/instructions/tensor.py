"""The tensor data mover: tiles of up to five dimensions between global and shared memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..decode import Context, Step, instruction
from ..errors import IsaError
from ..operands import Operand
from ..text import Instruction
from ..wave import Event, Wave

Places = NDArray[np.int64]


class Tile(NamedTuple):
    """What a descriptor says, the innermost dimension first; sizes and steps in elements."""

    shared: int
    address: int
    size: int
    """Bytes of an element."""
    extents: tuple[int, ...]
    """Elements that are left of the tensor, from the address on."""
    tile: tuple[int, ...]
    steps: tuple[int, ...]
    interval: int
    """Bytes after which `gap` bytes of shared memory are left out."""
    gap: int
    rows: tuple[int, ...] | None
    """The numbers of the rows that are gathered."""
    mask: int
    """Blocks of the cluster that a load is for; none: the own one."""


def _bits(words: list[int], low: int, count: int) -> int:
    whole = sum(word << 32 * at for at, word in enumerate(words))
    return whole >> low & (1 << count) - 1


def described(groups: list[list[int]], text: str) -> Tile:
    """From the words of the groups."""
    first, second = groups[0], groups[1]
    third, fourth = (groups[2], groups[3]) if len(groups) > 2 else ([0] * 4, [0] * 4)
    if not first[0] & 1:
        raise IsaError(f"{text}: the descriptor is not valid")
    if first[3] >> 30 != 2:
        raise IsaError(f"{text}: the descriptor's type is {first[3] >> 30}")
    for low, count, what in ((18, 1, "a barrier"), (19, 1, "iterations")):
        if _bits(second, low, count):
            raise IsaError(f"{text}: {what} in the descriptor")
    rows: tuple[int, ...] | None = None
    extents = [_bits(second, 48, 32), _bits(second, 80, 32), third[0], third[1], _bits(fourth, 48, 32)]
    tile = [_bits(second, 112, 16), _bits(second, 128, 16), _bits(second, 144, 16), third[3] >> 16, fourth[2] >> 16]
    steps = [1, _bits(second, 160, 48), _bits(second, 208, 48), _bits(third, 64, 48), _bits(fourth, 0, 48)]
    rank = 5 if len(groups) > 2 else 2
    if first[0] >> 31:
        width = 32 if first[0] >> 30 & 1 else 16
        rows = tuple(_bits(third + fourth, width * at, width) for at in range(tile[1]))
        rank = 2
    while rank > 1 and not tile[rank - 1]:
        rank -= 1
    if not tile[0] or 0 in tile[1:rank]:
        raise IsaError(f"{text}: a tile of {tile[:rank]}")
    pads = bool(_bits(second, 20, 1))
    return Tile(
        first[1],
        _bits(first, 64, 57),
        1 << _bits(second, 16, 2),
        tuple(extents[:rank]),
        tuple(tile[:rank]),
        tuple(steps[:rank]),
        4 << _bits(second, 22, 3) + 1 if pads else 0,
        4 * (_bits(second, 25, 7) + 1) if pads else 0,
        rows,
        _bits(second, 0, 16),
    )


def places_of(tile: Tile) -> tuple[Places, Places, NDArray[np.bool_]]:
    """Of each element: its address, its place in shared memory, and whether it is inside the tensor."""
    offset, inside = np.zeros(1, np.int64), np.ones(1, np.bool_)
    for at, (count, extent, step) in enumerate(zip(tile.tile, tile.extents, tile.steps, strict=True)):
        numbers = np.arange(count, dtype=np.int64)
        if at == 1 and tile.rows is not None:
            numbers = np.array(tile.rows, np.int64)
        # Outer dimensions go slower.
        offset = (numbers[:, None] * step + offset[None, :]).ravel()
        inside = ((numbers < extent)[:, None] & inside[None, :]).ravel()
    there = np.arange(len(offset), dtype=np.int64) * tile.size
    if tile.interval:
        there += there // tile.interval * tile.gap
    return tile.address + offset * tile.size, tile.shared + there, inside


@instruction("tensor_load_to_lds", "tensor_store_from_lds")
def move(inst: Instruction, ctx: Context) -> Step:
    groups: list[Operand] = [ctx.operand(text) for text in inst.operands]
    loads = inst.mnemonic == "tensor_load_to_lds"
    if any(group.kind != "s" or group.count not in (4, 8) for group in groups) or len(groups) not in (2, 4):
        raise IsaError("its operands")

    def step(w: Wave) -> None:
        words = [[int(w.s[group.index + at]) for at in range(group.count)] for group in groups]
        tile = described(words, inst.text)
        if tile.gap and not loads:
            raise IsaError(f"{inst.text}: what a gap means to a store is not known")
        addresses, there, inside = places_of(tile)
        span, limit = np.arange(tile.size), len(w.block.lds)
        if there.min() < 0 or there.max() + tile.size > limit:
            raise IsaError(f"{inst.text}: byte {int(there.max())} of {limit} of shared memory")
        at = addresses[inside].view(np.uint64)
        if tile.mask >> max(1, len(w.block.cluster.blocks)):
            raise IsaError(f"{inst.text}: copies for blocks {tile.mask:#b} of {len(w.block.cluster.blocks)}")
        blocks = [b for n, b in enumerate(w.block.cluster.blocks) if tile.mask >> n & 1] if tile.mask else [w.block]

        def load() -> None:
            data = np.zeros((len(there), tile.size), np.uint8)
            data[inside] = w.read(at, tile.size, inst.text, None)
            for block in blocks:
                block.lds[there[:, None] + span] = data

        def store() -> None:
            w.write(at, w.block.lds[there[inside][:, None] + span], inst.text)

        low, high = (int(at.min()), int(at.max()) + tile.size) if len(at) else (0, 0)
        w.issue(Event("tensor", inst.text, load if loads else store, None, (), low, high), "tensorcnt")

    return step
