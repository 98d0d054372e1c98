"""Waiting for memory instructions."""

from __future__ import annotations

import re

from ..decode import Context, Step, instruction
from ..errors import IsaError
from ..text import Instruction
from ..wave import Wave


@instruction("s_waitcnt")
def wait(inst: Instruction, ctx: Context) -> Step:
    text = inst.operands[0]
    found = [(name, int(left)) for name, left in re.findall(r"(\w+cnt)\((\d+)\)", text)]
    if not found:
        raise IsaError(f"counters {text}")

    def step(w: Wave) -> None:
        for name, left in found:
            w.wait(name, left)

    return step


@instruction("s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_lgkmcnt", "s_waitcnt_expcnt")
def wait_one(inst: Instruction, ctx: Context) -> Step:
    name, left = inst.mnemonic.removeprefix("s_waitcnt_"), int(inst.operands[0].rpartition(",")[2], 0)
    return lambda w: w.wait(name, left)


@instruction(
    *(f"s_wait_{name}cnt" for name in ("load", "store", "ds", "km", "sample", "bvh", "exp", "async", "tensor", "x"))
)
def wait_named(inst: Instruction, ctx: Context) -> Step:
    name, left = inst.mnemonic.removeprefix("s_wait_"), int(inst.operands[0], 0)
    return lambda w: w.wait(name, left)


@instruction("s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt")
def wait_two(inst: Instruction, ctx: Context) -> Step:
    first = inst.mnemonic.removeprefix("s_wait_").removesuffix("_dscnt")
    both = int(inst.operands[0], 0)

    def step(w: Wave) -> None:
        w.wait(first, both >> 8 & 63)
        w.wait("dscnt", both & 63)

    return step
