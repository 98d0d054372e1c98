"""Loads that transpose: the lanes of a group read a piece of a row each, and get a piece of a column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..decode import Context, Step, instruction
from ..errors import IsaError
from ..memory import Bytes
from ..operands import reader
from ..text import Instruction
from ..wave import Event, Wave
from .access import Form, Lanes, lds_read, put
from .smallfloats import pack, unpack

_READS = {
    "ds_read_b64_tr_b16": (16, 4),
    "ds_read_b64_tr_b8": (8, 8),
    "ds_read_b64_tr_b4": (4, 16),
    "ds_read_b96_tr_b6": (6, 16),
}
"""Bits of an element, and how many of them a lane gets."""


def turned(data: Bytes, bits: int, count: int) -> Bytes:
    """Lane i of 16 gets element i % count of the lanes that hold its part of the rows."""
    lanes = len(data)
    words = data.view(np.uint32)
    if bits == 16:
        parts: NDArray[np.uint32] = np.ascontiguousarray(words).view(np.uint16).astype(np.uint32)
    else:
        parts = unpack(words, bits, count)
    lane, j = np.arange(lanes)[:, None], np.arange(count)[None, :]
    within, group = lane % 16, lane // 16 * 16
    sources = group + (16 // count) * j + within // count
    found = parts[sources, within % count + 0 * j]
    if bits == 16:
        return np.ascontiguousarray(found.astype(np.uint16)).view(np.uint8)
    return np.ascontiguousarray(pack(found.astype(np.uint8), bits)).view(np.uint8)


@instruction(*_READS)
def read_turned(inst: Instruction, ctx: Context) -> Step:
    bits, count = _READS[inst.mnemonic]
    size = bits * count // 8
    target, address = ctx.operands(inst)
    where, offset = reader(address, "u32"), inst.number("offset")
    registers = tuple(range(target.index, target.index + size // 4))

    def step(w: Wave) -> None:
        if not w.full:
            raise IsaError(f"{inst.text}: not all lanes are active")
        lanes: Lanes = np.arange(w.lanes)
        at = (where(w).astype(np.int64) + offset) & 0xFFFFFFFF
        act = lambda: turned(lds_read(w, at, size, inst.text), bits, count)  # noqa: E731
        w.issue(Event("ds", inst.text, act, lambda data: put(w, target, Form(size), data, lanes), registers))

    return step
