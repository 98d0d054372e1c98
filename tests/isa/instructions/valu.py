"""The frame of vector instructions: sources with their modifiers, lanes that move, the result and where it goes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..decode import Context, Step
from ..errors import IsaError
from ..operands import DTYPES, WIDTH, Array, Operand, Read, Write, reader, writer
from ..text import Instruction
from ..wave import Mask, Wave

Function = Callable[..., Any]

_PRESERVE = (
    "fma_",
    "mad_",
    "div_fixup",
    "med3",
    "min3",
    "max3",
    "v_add_i16",
    "v_sub_i16",
    "mixlo",
    "mixhi",
)
"""Instructions of gfx9 that write 16 bits and leave the others; the rest clear them."""


def clears_upper(inst: Instruction, ctx: Context) -> bool:
    if ctx.family != "gfx9":
        return False
    return not any(part in inst.mnemonic for part in _PRESERVE)


# --- DPP: a source that comes from other lanes -----------------------------------------------------------------------


def _row(lanes: int, function: Callable[[int], int], size: int = 16) -> list[int]:
    """Lane -> lane inside rows; -1 where there is none."""
    found: list[int] = []
    for lane in range(lanes):
        at = function(lane % size)
        found.append(lane // size * size + at if 0 <= at < size else -1)
    return found


def dpp_sources(inst: Instruction, lanes: int) -> list[int]:
    """The lane that each lane reads, or -1."""
    for name, text in inst.modifiers.items():
        found = _sources(name, text, lanes)
        if found is not None:
            return found
    raise IsaError(f"the lanes that {inst.text!r} reads")


def _sources(name: str, value: str, lanes: int) -> list[int] | None:
    perm = [int(word) for word in value.strip("[]").split(",")] if "[" in value else []
    by = int(value) if value.isdigit() else 0
    match name:
        case "quad_perm" | "dpp8":
            return _row(lanes, lambda i: perm[i], len(perm))
        case "row_shl":
            return _row(lanes, lambda i: i + by)
        case "row_shr":
            return _row(lanes, lambda i: i - by)
        case "row_ror":
            return _row(lanes, lambda i: (i - by) % 16)
        case "row_newbcast" | "row_share":
            return _row(lanes, lambda i: by)
        case "row_xmask":
            return _row(lanes, lambda i: i ^ by)
        case "row_mirror":
            return _row(lanes, lambda i: 15 - i)
        case "row_half_mirror":
            return _row(lanes, lambda i: 7 - i, 8)
        case "row_bcast":
            step = 16 if by == 15 else 32
            return [lane // step * step - 1 for lane in range(lanes)]
        case "wave_shl" | "wave_shr" | "wave_rol" | "wave_ror":
            moved = [lane + (1 if name.endswith("l") else -1) for lane in range(lanes)]
            turns = name in ("wave_rol", "wave_ror")
            return [m % lanes if turns else m if 0 <= m < lanes else -1 for m in moved]
        case _:
            return None


class Dpp:
    """What DPP changes: the first source, and which lanes are written."""

    def __init__(self, inst: Instruction, lanes: int):
        sources = np.array(dpp_sources(inst, lanes))
        self.there: Mask = sources >= 0
        self.sources = np.maximum(sources, 0)
        self.zero = inst.modifiers.get("bound_ctrl") == "1"
        self.inactive = inst.modifiers.get("fi") == "1"
        rows, banks = inst.number("row_mask", 15), inst.number("bank_mask", 15)
        at = np.arange(lanes)
        self.enabled: Mask = ((rows >> (at // 16) & 1) & (banks >> (at // 4 % 4) & 1)).astype(np.bool_)

    def valid(self, w: Wave) -> Mask:
        return self.there if self.inactive else self.there & w.mask[self.sources]

    def source(self, read: Read) -> Read:
        def moved(w: Wave) -> Array:
            found = np.broadcast_to(read(w), (w.lanes,))[self.sources]
            return np.where(self.valid(w), found, found.dtype.type(0))

        return moved

    def written(self, w: Wave) -> Mask:
        return w.mask & self.enabled if self.zero else w.mask & self.enabled & self.valid(w)


# --- SDWA: parts of registers ----------------------------------------------------------------------------------------


def _part(text: str) -> tuple[int, int]:
    """Shift and width of a byte or a word of a register."""
    if text == "DWORD":
        return 0, 32
    what, _, at = text.partition("_")
    width = 8 if what == "BYTE" else 16
    return int(at) * width, width


def sdwa_source(operand: Operand, kind: str, select: str) -> Read:
    if WIDTH[kind] > 32:
        raise IsaError("a part of a pair of registers")
    shift, width = _part(select)
    plain = Operand(operand.kind, operand.index, operand.count, text=operand.text)
    read = reader(plain, "u32")
    dtype = DTYPES[kind]

    def get(w: Wave) -> Array:
        word = np.broadcast_to(read(w), (w.lanes,)) >> np.uint32(shift)
        if width < 32:
            word = word & np.uint32((1 << width) - 1)
            if operand.sext:
                sign = np.uint32(1 << width - 1)
                word = (word ^ sign) - sign
        small = word.astype(np.uint16) if WIDTH[kind] == 16 else word
        value = small.view(dtype)
        if operand.abs:
            value = np.abs(value)
        return -value if operand.neg else value

    return get


def sdwa_target(operand: Operand, kind: str, inst: Instruction) -> Write:
    shift, width = _part(inst.modifiers.get("dst_sel", "DWORD"))
    unused = inst.modifiers.get("dst_unused", "UNUSED_PAD")
    if width == 32:
        return writer(operand, kind, clears=True)
    bits = np.uint32((1 << width) - 1)

    def put(w: Wave, x: Array, mask: Mask) -> None:
        raw = np.broadcast_to(np.asarray(x, DTYPES[kind]), (w.lanes,))
        word = raw.view(np.uint16 if WIDTH[kind] == 16 else np.uint32).astype(np.uint32) & bits
        old = w.v[operand.index]
        if unused == "UNUSED_PRESERVE":
            made = old & ~(bits << np.uint32(shift)) | word << np.uint32(shift)
        elif unused == "UNUSED_SEXT":
            sign = np.uint32(1 << width - 1)
            made = ((word ^ sign) - sign) << np.uint32(shift)
        else:
            made = word << np.uint32(shift)
        np.copyto(old, made, where=mask)

    return put


# --- results ---------------------------------------------------------------------------------------------------------


def _finish(inst: Instruction, kind: str, function: Function) -> Function:
    """Clamping and scaling of a result."""
    scale = 1.0
    if "mul" in inst.modifiers:
        scale = float(inst.modifiers["mul"])
    if "div" in inst.modifiers:
        scale = 1.0 / float(inst.modifiers["div"])
    clamp = "clamp" in inst.modifiers
    if scale == 1.0 and not clamp:
        return function
    if kind[0] != "f":
        raise IsaError("clamp of a whole number")
    dtype = DTYPES[kind]

    def run(*sources: Array) -> Array:
        value = function(*sources) * dtype(scale)
        if clamp:
            value = np.where(np.isnan(value), dtype(0), np.clip(value, dtype(0), dtype(1)))
        return value

    return run


def sources_of(
    inst: Instruction, ctx: Context, operands: list[Operand], kinds: list[str]
) -> tuple[list[Read], Dpp | None]:
    """Readers of the sources, whatever the encoding."""
    if len(operands) != len(kinds):
        raise IsaError(f"{len(kinds)} sources are expected")
    if inst.encoding == "sdwa":
        parts = [inst.modifiers.get(f"src{at}_sel", "DWORD") for at in range(len(operands))]
        return [sdwa_source(o, k, p) for o, k, p in zip(operands, kinds, parts, strict=True)], None
    upper = inst.bits("op_sel", len(kinds) + 1, 0) if any(WIDTH[k] == 16 for k in kinds) else [0] * len(kinds)
    reads = [
        reader(o, k, bool(upper[at]) and WIDTH[k] == 16) for at, (o, k) in enumerate(zip(operands, kinds, strict=True))
    ]
    if "dpp" not in inst.encoding:
        return reads, None
    dpp = Dpp(inst, ctx.lanes)
    plain = Operand(operands[0].kind, operands[0].index, operands[0].count, operands[0].half, operands[0].text)
    moved = dpp.source(reader(plain, kinds[0], bool(upper[0])))
    if operands[0].neg or operands[0].abs:
        first, keep = operands[0], moved
        moved = lambda w: (-1 if first.neg else 1) * (np.abs(keep(w)) if first.abs else keep(w))  # noqa: E731
    return [moved, *reads[1:]], dpp


def target_of(inst: Instruction, ctx: Context, operand: Operand, kind: str) -> Write:
    if inst.encoding == "sdwa":
        return sdwa_target(operand, kind, inst)
    high = False
    if WIDTH[kind] == 16 and "op_sel" in inst.modifiers:
        high = bool(inst.bits("op_sel", 0, 0)[-1])
        return writer(operand, kind, high=high)
    return writer(operand, kind, clears=clears_upper(inst, ctx))


def vector(
    inst: Instruction, ctx: Context, kind: str, kinds: list[str], function: Function, *, accumulate: bool = False
) -> Step:
    """A vector instruction with one result; `accumulate`: the old value of the target is the last source."""
    operands = ctx.operands(inst)
    given = operands[1:]
    if accumulate:
        given = [*given, Operand("v", operands[0].index, operands[0].count, operands[0].half)]
    reads, dpp = sources_of(inst, ctx, given, kinds)
    write = target_of(inst, ctx, operands[0], kind)
    run = _finish(inst, kind, function)
    if dpp is not None:
        return lambda w: write(w, run(*[read(w) for read in reads]), dpp.written(w))
    if len(reads) == 1:
        (a,) = reads
        return lambda w: write(w, run(a(w)), w.mask)
    if len(reads) == 2:
        a, b = reads
        return lambda w: write(w, run(a(w), b(w)), w.mask)
    return lambda w: write(w, run(*[read(w) for read in reads]), w.mask)


def types_of(words: str) -> list[str]:
    return re.findall(r"\S+", words)
