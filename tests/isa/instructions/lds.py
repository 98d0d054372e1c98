"""Instructions on shared memory, and those that send numbers between lanes through its crossbar."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ..decode import MAKERS, Context, Step, instruction
from ..errors import IsaError
from ..memory import Bytes
from ..operands import Operand, reader
from ..text import Instruction
from ..wave import Event, Wave
from .access import FORMS, Atomic, Form, Lanes, atomic, lds_read, lds_write, put, take


def _offsets(inst: Instruction, address: Operand, offset: int) -> Callable[[Wave, Lanes], Lanes]:
    if "gds" in inst.modifiers:
        raise IsaError("global data share")
    read = reader(address, "u32")
    # The sum is one of 32 bits: a base below zero is fine.
    return lambda w, lanes: (np.broadcast_to(read(w), (w.lanes,))[lanes].astype(np.int64) + offset) & 0xFFFFFFFF


def _registers(operand: Operand, size: int) -> tuple[int, ...]:
    return tuple(range(operand.index, operand.index + max(1, size // 4)))


def _read(inst: Instruction, ctx: Context) -> Step:
    form = FORMS[re.sub(r"^ds_(read|load)_", "", inst.mnemonic)]
    target, address = ctx.operands(inst)
    places = _offsets(inst, address, inst.number("offset"))
    registers = _registers(target, form.size)

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        at = places(w, lanes)
        w.issue(
            Event(
                "ds",
                inst.text,
                lambda: lds_read(w, at, form.size, inst.text),
                lambda data: put(w, target, form, data, lanes),
                registers,
            )
        )

    return step


def _write(inst: Instruction, ctx: Context) -> Step:
    form = FORMS[re.sub(r"^ds_(write|store)_", "", inst.mnemonic)]
    address, source = ctx.operands(inst)
    places = _offsets(inst, address, inst.number("offset"))

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        at, data = places(w, lanes), take(w, source, form, lanes)
        w.issue(Event("ds", inst.text, lambda: lds_write(w, at, data, inst.text)))

    return step


def _two(inst: Instruction) -> tuple[int, tuple[int, int]]:
    """Bytes of each part of an instruction with two offsets, and the offsets in bytes."""
    size = 8 if "64_b64" in inst.mnemonic or inst.mnemonic.endswith("b64") else 4
    unit = size * (64 if "st64" in inst.mnemonic or "stride64" in inst.mnemonic else 1)
    return size, (unit * inst.number("offset0"), unit * inst.number("offset1"))


@instruction(
    *(f"ds_read2{st}_b{n}" for st in ("", "st64") for n in (32, 64)),
    *(f"ds_load_2addr{st}_b{n}" for st in ("", "_stride64") for n in (32, 64)),
)
def read_two(inst: Instruction, ctx: Context) -> Step:
    size, offsets = _two(inst)
    target, address = ctx.operands(inst)
    places = _offsets(inst, address, 0)
    form, registers = Form(2 * size), _registers(target, 2 * size)

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        at = places(w, lanes)

        def act() -> Bytes:
            parts = [lds_read(w, at + offset & 0xFFFFFFFF, size, inst.text) for offset in offsets]
            return np.concatenate(parts, axis=1)

        w.issue(Event("ds", inst.text, act, lambda data: put(w, target, form, data, lanes), registers))

    return step


@instruction(
    *(f"ds_write2{st}_b{n}" for st in ("", "st64") for n in (32, 64)),
    *(f"ds_store_2addr{st}_b{n}" for st in ("", "_stride64") for n in (32, 64)),
)
def write_two(inst: Instruction, ctx: Context) -> Step:
    size, offsets = _two(inst)
    address, *sources = ctx.operands(inst)
    places = _offsets(inst, address, 0)

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        at = places(w, lanes)
        parts = [take(w, source, Form(size), lanes) for source in sources]

        def act() -> None:
            for offset, data in zip(offsets, parts, strict=True):
                lds_write(w, at + offset & 0xFFFFFFFF, data, inst.text)

        w.issue(Event("ds", inst.text, act))

    return step


for _form in FORMS:
    for _name in ("read", "load"):
        MAKERS[f"ds_{_name}_{_form}"] = _read
    for _name in ("write", "store"):
        MAKERS[f"ds_{_name}_{_form}"] = _write


# --- atomics ----------------------------------------------------------------------------------------------------------


def _change(inst: Instruction, ctx: Context) -> Step:
    name = inst.mnemonic.removeprefix("ds_")
    returns = "_rtn" in name
    what = _atomic(name.replace("_rtn", ""))
    operands = ctx.operands(inst)
    target = operands.pop(0) if returns else None
    address, *sources = operands
    places = _offsets(inst, address, inst.number("offset"))
    form = Form(what.size)
    registers = () if target is None else _registers(target, what.size)
    # Older names put the value that is compared first, newer ones the new value.
    swapped = what.compares and name.startswith("cmpst_")
    if swapped:
        sources = sources[::-1]

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        at = places(w, lanes)
        data = np.concatenate([take(w, source, form, lanes) for source in sources], axis=1)

        def act() -> Bytes:
            before = np.zeros((len(lanes), what.size), np.uint8)
            for lane in range(len(lanes)):
                where = at[lane : lane + 1]
                before[lane] = lds_read(w, where, what.size, inst.text)[0]
                lds_write(w, where, what.apply(before[lane], data[lane])[None], inst.text)
            return before

        land = None if target is None else (lambda found, to=target: put(w, to, form, found, lanes))
        w.issue(Event("ds", inst.text, act, land, registers))

    return step


def _atomic(name: str) -> Atomic:
    name = name.replace("cmpstore", "cmpswap").replace("cmpst", "cmpswap").replace("wrxchg", "swap")
    return atomic(name.replace("storexchg", "swap"))


_CHANGED = [
    *(f"{name}_u{n}" for name in ("add", "sub", "inc", "dec", "min", "max") for n in (32, 64)),
    *(f"{name}_i{n}" for name in ("min", "max") for n in (32, 64)),
    *(f"{name}_b{n}" for name in ("and", "or", "xor") for n in (32, 64)),
    *(f"{name}_f{n}" for name in ("add", "min", "max", "min_num", "max_num") for n in (32, 64)),
    *("pk_add_f16", "pk_add_bf16"),
]
for _name in _CHANGED:
    _head, _, _kind = _name.rpartition("_")
    MAKERS[f"ds_{_name}"] = MAKERS[f"ds_{_head}_rtn_{_kind}"] = _change
for _name in ("cmpst_b32", "cmpst_b64", "cmpstore_b32", "cmpstore_b64"):
    _head, _, _kind = _name.rpartition("_")
    MAKERS[f"ds_{_name}"] = MAKERS[f"ds_{_head}_rtn_{_kind}"] = _change
for _name in ("wrxchg_rtn_b32", "wrxchg_rtn_b64", "storexchg_rtn_b32", "storexchg_rtn_b64"):
    MAKERS[f"ds_{_name}"] = _change


# --- between lanes ----------------------------------------------------------------------------------------------------


@instruction("ds_bpermute_b32", "ds_bpermute_fi_b32")
def from_lanes(inst: Instruction, ctx: Context) -> Step:
    """Each lane names the lane it reads; lanes that are off give zero."""
    target, address, source = ctx.operands(inst)
    which, data = reader(address, "u32"), reader(source, "u32")
    offset, inactive = inst.number("offset"), "_fi_" in inst.mnemonic

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        sent = data(w).copy() if inactive else np.where(w.mask, data(w), np.uint32(0))
        sources = (np.broadcast_to(which(w), (w.lanes,)).astype(np.int64) + offset) // 4 % w.lanes
        found = np.ascontiguousarray(sent[sources][lanes]).view(np.uint8).reshape(-1, 4)
        land = lambda got: put(w, target, Form(4), got, lanes)  # noqa: E731
        w.issue(Event("ds", inst.text, lambda: found, land, (target.index,)))

    return step


@instruction("ds_permute_b32")
def to_lanes(inst: Instruction, ctx: Context) -> Step:
    target, address, source = ctx.operands(inst)
    which, data = reader(address, "u32"), reader(source, "u32")
    offset = inst.number("offset")

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        targets = (which(w).astype(np.int64) + offset) // 4 % w.lanes
        sent = np.zeros(w.lanes, np.uint32)
        sent[targets[lanes]] = data(w)[lanes]
        found = np.ascontiguousarray(sent[lanes]).view(np.uint8).reshape(-1, 4)
        land = lambda got: put(w, target, Form(4), got, lanes)  # noqa: E731
        w.issue(Event("ds", inst.text, lambda: found, land, (target.index,)))

    return step


def _swizzle_sources(text: str, lanes: int) -> list[int]:
    """The lane that each lane reads."""
    match = re.fullmatch(r"swizzle\((\w+),\s*(.*)\)", text)
    if match:
        words = [word.strip().strip('"') for word in match[2].split(",")]
        if match[1] == "QUAD_PERM":
            perm = [int(word) for word in words]
            return [lane // 4 * 4 + perm[lane % 4] for lane in range(lanes)]
        if match[1] == "SWAP":
            return [lane ^ int(words[0]) for lane in range(lanes)]
        if match[1] == "REVERSE":
            return [lane ^ int(words[0]) - 1 for lane in range(lanes)]
        if match[1] == "BROADCAST":
            size, at = int(words[0]), int(words[1])
            return [lane // size * size + at for lane in range(lanes)]
        if match[1] == "BITMASK_PERM":
            found: list[int] = []
            for lane in range(lanes):
                at = 0
                for bit, word in enumerate(words[0]):
                    own = lane >> 4 - bit & 1
                    at = at << 1 | {"0": 0, "1": 1, "p": own, "i": 1 - own}[word]
                found.append(lane & ~31 | at)
            return found
        raise IsaError(f"the pattern {text}")
    code = int(text, 0)
    if code & 0x8000:
        return [lane // 4 * 4 + (code >> 2 * (lane % 4) & 3) for lane in range(lanes)]
    keep, force, flip = code & 31, code >> 5 & 31, code >> 10 & 31
    return [lane & ~31 | ((lane & 31 & keep | force) ^ flip) for lane in range(lanes)]


@instruction("ds_swizzle_b32")
def swizzle(inst: Instruction, ctx: Context) -> Step:
    target, source = ctx.operands(inst)
    data = reader(source, "u32")
    sources = np.array(_swizzle_sources(inst.modifiers.get("offset", "0"), ctx.lanes))

    def step(w: Wave) -> None:
        lanes: Lanes = np.flatnonzero(w.mask)
        sent = np.where(w.mask, data(w), np.uint32(0))
        found = np.ascontiguousarray(sent[sources][lanes]).view(np.uint8).reshape(-1, 4)
        land = lambda got: put(w, target, Form(4), got, lanes)  # noqa: E731
        w.issue(Event("ds", inst.text, lambda: found, land, (target.index,)))

    return step
