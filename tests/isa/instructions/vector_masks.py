"""Vector instructions that read or write masks of lanes: comparisons, carries, selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..decode import Context, Step, instruction
from ..errors import IsaError
from ..operands import Array, Operand, reader, write_scalar, writer
from ..text import Instruction
from ..wave import EXEC, NULL, VCC, Mask, Wave
from . import floats
from .valu import sources_of, target_of


def mask_reader(operand: Operand, ctx: Context) -> Callable[[Wave], Mask]:
    i = operand.index
    if operand.kind == "c":
        value = int(operand.text, 0)
        return lambda w: w.bits(value)
    if ctx.lanes == 64:
        return lambda w: np.unpackbits(w.s[i : i + 2].view(np.uint8), bitorder="little").view(np.bool_)
    return lambda w: np.unpackbits(w.s[i : i + 1].view(np.uint8), bitorder="little").view(np.bool_)


def mask_writer(operand: Operand, ctx: Context) -> Callable[[Wave, Mask], None]:
    i = operand.index
    if i == NULL:
        return lambda w, mask: None
    if i == EXEC:
        return lambda w, mask: w.set_exec(w.number_of(mask))
    if ctx.lanes == 64:

        def both(w: Wave, mask: Mask) -> None:
            w.s[i : i + 2] = np.packbits(mask, bitorder="little").view(np.uint32)

        return both

    def one(w: Wave, mask: Mask) -> None:
        w.s[i] = np.packbits(mask, bitorder="little").view(np.uint32)[0]

    return one


# --- comparing --------------------------------------------------------------------------------------------------------


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "ne": np.not_equal,
    "lg": lambda a, b: (a < b) | (a > b),
    "o": lambda a, b: ~_unordered(a, b),
    "u": _unordered,
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "t": lambda a, b: np.ones(np.broadcast(a, b).shape, np.bool_),
    "f": lambda a, b: np.zeros(np.broadcast(a, b).shape, np.bool_),
}
_KINDS = ("f16", "f32", "f64", "i16", "i32", "i64", "u16", "u32", "u64")


@instruction(
    *(f"v_cmp{x}_{name}_{kind}" for x in ("", "x") for name in _COMPARE for kind in _KINDS),
    *(f"v_cmp{x}_class_f{n}" for x in ("", "x") for n in (16, 32, 64)),
)
def compare(inst: Instruction, ctx: Context) -> Step:
    name, kind = inst.mnemonic.split("_")[-2:]
    operands = ctx.operands(inst)
    to_exec = inst.mnemonic.startswith("v_cmpx")
    exec_too = to_exec and ctx.family == "gfx9"
    plain = to_exec and not exec_too
    given = operands if len(operands) == 2 else operands[1:]
    if name == "class":
        function: Any = floats.classes
        kinds = [kind, "u32"]
    else:
        function, kinds = _COMPARE[name], [kind, kind]
    reads, dpp = sources_of(inst, ctx, given, kinds)
    first = Operand("s", EXEC, 2) if plain else operands[0] if len(operands) == 3 else Operand("s", VCC, 2)
    put = mask_writer(first, ctx)
    a, b = reads

    def step(w: Wave) -> None:
        found = np.broadcast_to(function(a(w), b(w)), (w.lanes,)) & w.mask
        if dpp is not None:
            found = found & dpp.written(w)
        put(w, found)
        if exec_too:
            w.set_exec(w.number_of(found))

    return step


# --- carries ----------------------------------------------------------------------------------------------------------

_CARRY = {
    **{"v_add_co_u32": ("add", False), "v_sub_co_u32": ("sub", False), "v_subrev_co_u32": ("rev", False)},
    **{"v_addc_co_u32": ("add", True), "v_subb_co_u32": ("sub", True), "v_subbrev_co_u32": ("rev", True)},
    **{"v_add_co_ci_u32": ("add", True), "v_sub_co_ci_u32": ("sub", True), "v_subrev_co_ci_u32": ("rev", True)},
}


@instruction(*_CARRY)
def with_carry(inst: Instruction, ctx: Context) -> Step:
    what, takes = _CARRY[inst.mnemonic]
    operands = ctx.operands(inst)
    reads, dpp = sources_of(inst, ctx, operands[2:4], ["u32", "u32"])
    if dpp is not None:
        raise IsaError("lanes that move")
    write, put = target_of(inst, ctx, operands[0], "u32"), mask_writer(operands[1], ctx)
    carry = mask_reader(operands[4], ctx) if takes else None
    a, b = reads

    def step(w: Wave) -> None:
        x, y = np.asarray(a(w), np.int64), np.asarray(b(w), np.int64)
        if what == "rev":
            x, y = y, x
        more = 0 if carry is None else carry(w).astype(np.int64)
        total = np.broadcast_to(x + y + more if what == "add" else x - y - more, (w.lanes,))
        write(w, total.astype(np.uint32), w.mask)
        put(w, ((total > 0xFFFFFFFF) | (total < 0)) & w.mask)

    return step


# --- selection --------------------------------------------------------------------------------------------------------


@instruction("v_cndmask_b32", "v_cndmask_b16")
def choose(inst: Instruction, ctx: Context) -> Step:
    kind = "u" + inst.mnemonic[-2:]
    operands = ctx.operands(inst)
    reads, dpp = sources_of(inst, ctx, operands[1:3], [kind, kind])
    mask = mask_reader(operands[3] if len(operands) > 3 else Operand("s", VCC, 2), ctx)
    write = target_of(inst, ctx, operands[0], kind)
    a, b = reads

    def step(w: Wave) -> None:
        write(w, np.where(mask(w), b(w), a(w)), w.mask if dpp is None else dpp.written(w))

    return step


# --- lanes and scalars ------------------------------------------------------------------------------------------------


@instruction("v_readfirstlane_b32")
def read_first(inst: Instruction, ctx: Context) -> Step:
    d, a = ctx.operands(inst)
    write, read = write_scalar(d), reader(a, "u32")

    def step(w: Wave) -> None:
        lane = int(np.argmax(w.mask)) if w.exec() else 0
        write(w, int(np.broadcast_to(read(w), (w.lanes,))[lane]))

    return step


@instruction("v_readlane_b32")
def read_lane(inst: Instruction, ctx: Context) -> Step:
    d, a, which = ctx.operands(inst)
    write, read, at = write_scalar(d), reader(a, "u32"), reader(which, "u32")
    return lambda w: write(w, int(read(w)[int(at(w)) & w.lanes - 1]))


@instruction("v_writelane_b32")
def write_lane(inst: Instruction, ctx: Context) -> Step:
    d, a, which = ctx.operands(inst)
    read, at = reader(a, "u32"), reader(which, "u32")

    def step(w: Wave) -> None:
        w.v[d.index][int(at(w)) & w.lanes - 1] = int(read(w))

    return step


@instruction("v_nop", "v_pipeflush")
def nothing(inst: Instruction, ctx: Context) -> Step:
    return lambda w: None


@instruction("v_swap_b32")
def swap(inst: Instruction, ctx: Context) -> Step:
    a, b = ctx.operands(inst)
    left, right = writer(a, "u32"), writer(b, "u32")

    def step(w: Wave) -> None:
        x, y = w.v[a.index].copy(), w.v[b.index].copy()
        left(w, y, w.mask)
        right(w, x, w.mask)

    return step


@instruction("v_permlane32_swap_b32", "v_permlane16_swap_b32")
def swap_rows(inst: Instruction, ctx: Context) -> Step:
    """Odd rows of the first register and even rows of the second change places."""
    a, b = ctx.operands(inst)
    size = 32 if "32_swap" in inst.mnemonic else 16

    def step(w: Wave) -> None:
        if not w.full:
            raise IsaError(f"{inst.text}: not all lanes are active")
        x, y = (w.v[operand.index].reshape(-1, 2, size) for operand in (a, b))
        kept = x[:, 1].copy()
        x[:, 1] = y[:, 0]
        y[:, 0] = kept

    return step


@instruction("v_permlane64_b32")
def halves_swapped(inst: Instruction, ctx: Context) -> Step:
    """A wave of 32 lanes has one half: nothing moves."""
    d, a = ctx.operands(inst)
    read, write = reader(a, "u32"), writer(d, "u32")

    def step(w: Wave) -> None:
        write(w, np.roll(read(w), w.lanes // 2) if w.lanes == 64 else read(w), w.mask)

    return step


@instruction("v_permlane16_b32", "v_permlanex16_b32")
def permute_row(inst: Instruction, ctx: Context) -> Step:
    """Each lane takes the lane that four bits of two scalars name, of its row or of the other one."""
    d, a, low, high = ctx.operands(inst)
    read, first, second = reader(a, "u32"), reader(low, "u32"), reader(high, "u32")
    write = writer(d, "u32")
    other = "lanex16" in inst.mnemonic
    flags = inst.bits("op_sel", 3, 0)

    def step(w: Wave) -> None:
        select = int(first(w)) | int(second(w)) << 32
        lanes = np.arange(w.lanes)
        rows = lanes // 16 ^ int(other)
        sources = rows * 16 + np.array([select >> 4 * (lane % 16) & 15 for lane in range(w.lanes)])
        found = read(w)[sources]
        valid = w.mask[sources] | bool(flags[0])
        if flags[1]:
            found, valid = np.where(valid, found, np.uint32(0)), np.ones(w.lanes, np.bool_)
        write(w, found, w.mask & valid)

    return step
