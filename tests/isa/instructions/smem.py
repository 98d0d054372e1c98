"""Scalar loads: whole words for all lanes, returned in any order."""

from __future__ import annotations

import re

import numpy as np

from ..decode import MAKERS, Context, Step, instruction
from ..memory import Bytes
from ..operands import parse_operand, read_scalar, write_scalar
from ..text import Instruction
from ..wave import SCALAR, Event, Wave

_COUNTS = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}
_COUNTS |= {"b32": 1, "b64": 2, "b96": 3, "b128": 4, "b256": 8, "b512": 16, "u8": 0, "i8": 0, "u16": 0, "i16": 0}


def _load(inst: Instruction, ctx: Context) -> Step:
    buffer = inst.mnemonic.startswith("s_buffer")
    kind = inst.mnemonic.rpartition("_")[2]
    target, base, *rest = inst.operands
    count = _COUNTS[kind] or 1
    small = {"u8": (1, np.uint8), "i8": (1, np.int8), "u16": (2, np.uint16), "i16": (2, np.int16)}.get(kind)
    size = small[0] if small else 4 * count
    first, start = ctx.operand(target), read_scalar(ctx.operand(base), 64)
    limit = read_scalar(parse_operand(f"s{ctx.operand(base).index + 2}", 0)) if buffer else None
    offset = inst.number("offset")
    given = ctx.operand(rest[0]) if rest else None
    constant = given is not None and given.kind == "c"
    if given is not None and constant:
        number = int(given.text, 0)
        offset += number
    scalar = read_scalar(given) if given is not None and not constant else None
    scale = size if "scale_offset" in inst.modifiers else 1
    registers = tuple(SCALAR + first.index + at for at in range(count))
    # Special registers keep their meaning when they are loaded.
    writes = [write_scalar(type(first)("s", first.index + at, 1)) for at in range(count)]

    def step(w: Wave) -> None:
        at = offset + (0 if scalar is None else scalar(w) * scale)
        where = (start(w) & ((1 << 48) - 1 if buffer else (1 << 64) - 1)) + at
        if not small:
            where &= ~3
        top = None if limit is None else limit(w)

        def act() -> Bytes:
            if top is None:
                return w.read(np.array([where], np.uint64), size, inst.text, w.block.scalars)
            out = np.zeros((1, size), np.uint8)
            for word in range(0, size, 4):
                if at + word + 4 <= top:
                    out[:, word : word + 4] = w.read(np.array([where + word], np.uint64), 4, inst.text, w.block.scalars)
            return out

        def land(data: Bytes) -> None:
            if small:
                w.s[first.index] = int(data[0].view(small[1])[0]) & 0xFFFFFFFF
                return
            for put, value in zip(writes, data[0].view(np.uint32), strict=True):
                put(w, int(value))

        w.issue(Event("smem", inst.text, act, land, registers))

    return step


for _kind in _COUNTS:
    MAKERS[f"s_load_{_kind}"] = _load
    MAKERS[f"s_buffer_load_{_kind}"] = _load


@instruction("s_memtime", "s_memrealtime")
def clock(inst: Instruction, ctx: Context) -> Step:
    first = ctx.operand(inst.operands[0])
    write = write_scalar(first, 64)
    registers = (SCALAR + first.index, SCALAR + first.index + 1)

    def step(w: Wave) -> None:
        now = np.frombuffer((w.executed * 4).to_bytes(8, "little"), np.uint8)[None]
        land = lambda data: write(w, int.from_bytes(data.tobytes(), "little"))  # noqa: E731
        w.issue(Event("smem", inst.text, lambda: now, land, registers))

    return step


@instruction("s_sendmsg_rtn_b32", "s_sendmsg_rtn_b64")
def ask(inst: Instruction, ctx: Context) -> Step:
    """A clock, where a message asks for it."""
    if not re.search("REALTIME|CLOCK", inst.text):
        raise ValueError("a message that asks for something else")
    first = ctx.operand(inst.operands[0].split(",")[0])
    write = write_scalar(first, 64)
    return lambda w: write(w, w.executed * 4)
