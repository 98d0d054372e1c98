"""Vector registers beyond 255, as gfx1250 has them: an instruction in front of their users sets the upper bits of their
numbers, for each operand of the instructions that follow.

LLVM 22.1.0 puts this `s_set_vgpr_msb` one instruction too early where a barrier stands in front of the user: what is in
front of the barrier then means other registers than LLVM does. The text that it writes names both, the bits and the
registers, so code can be held against them; what is wrong is made again with fewer registers.
"""

from __future__ import annotations

import re

NEAR = 256
"""Registers that have no upper bits."""
STEP = 8
"""How many fewer are tried next: the least that changes what the registers are given to."""

_SET = re.compile(r"s_set_vgpr_msb (\w+)")
_REGISTER = r"-?\|?v(?:\d+|\[\d+:\d+\])(?!\w)"
_OPERAND = re.compile(rf"(?P<near>{_REGISTER})(?:\.[lh])?(?: /\*v\[?(?P<far>\d+))?")
_OTHERS = re.compile(r"\b(?:s\d+|s\[\d+:\d+\]|vcc(?:_lo)?|null)$")
_TWO_RESULTS = re.compile(r"v_\w+_co_\w+|v_div_scale_\w+")
_LIMIT = re.compile(r'("amdgpu-num-vgpr"=)"(\d+)"')
_KERNEL = re.compile(r"^(define .*\bamdgpu_kernel\b.*?)((?: ![\w.]+ !\d+)*) \{$", re.MULTILINE)


def misplaced(asm: str) -> str | None:
    """The first instruction that means other registers than its text says; None if all is well."""
    mode = 0
    for line in asm.splitlines():
        text = line.partition(";")[0].strip()
        if text.endswith(":"):
            mode = 0  # so every block begins
        elif found := _SET.match(text):
            mode = int(found[1], 0) & 0xFF
        elif any(not _means_what_it_says(part, mode) for part in text.split(" :: ")):
            return text
    return None


def _means_what_it_says(text: str, mode: int) -> bool:
    name, _, rest = text.partition(" ")
    operands = [operand.strip() for operand in re.split(r",(?![^\[]*\])(?![^(]*\))", rest)]
    fields = [mode >> shift & 3 for shift in (6, 0, 2, 4)]
    if not name.startswith("v_"):
        # Which field an operand has differs from one memory instruction to the next.
        return all(_upper(operand) in (None, *fields) for operand in operands)
    if _TWO_RESULTS.match(name) and len(operands) > 1 and _OTHERS.match(operands[1]):
        del operands[1]
    # Scales of products, behind the three factors, are not looked at.
    return all(_upper(operand) in (None, field) for operand, field in zip(operands, fields, strict=False))


def _upper(operand: str) -> int | None:
    """The upper bits of a register's number; None if it is no vector register."""
    found = _OPERAND.match(operand)
    return None if found is None else int(found["far"] or 0) // NEAR


def fewer(count: int) -> int:
    """The next count of registers to try."""
    return max(NEAR, (count - 1) // STEP * STEP)


def limited(ir_text: str, count: int) -> str:
    """IR text whose kernels have so many registers at most."""
    # What a group of attributes says goes before what is said here.
    ir_text = _LIMIT.sub(lambda found: f'{found[1]}"{min(int(found[2]), count)}"', ir_text)
    return _KERNEL.sub(rf'\1 "amdgpu-num-vgpr"="{count}"\2 {{', ir_text)


__all__ = ["NEAR", "fewer", "limited", "misplaced"]
