"""The operand of `s_waitcnt` (gfx9 to gfx11): counts of outstanding memory operations in one word."""

from __future__ import annotations

from . import has

MOST_LOADS = 63
"""The largest count of `vmcnt`, which waits for nothing."""


def vmcnt_of(arch: str, operand: int) -> int:
    """The count of vector memory operations in an operand.

    >>> vmcnt_of("gfx942", 0xF70), vmcnt_of("gfx950", 0xCF7F), vmcnt_of("gfx1100", 0x1407)
    (0, 63, 5)
    """
    if has(arch, "waitcnt_lgkm_first"):
        return operand >> 10 & 63
    return operand & 15 | (operand >> 14 & 3) << 4
