"""Checks and constants that the names of AMD GPUs share."""

from __future__ import annotations

from ...errors import DSLValueError
from .schedule import s_waitcnt as _s_waitcnt
from .target import need

mask_mfma = 0x008
mask_vmem_rd = 0x020
mask_dsrd = 0x100
mask_dswr = 0x200
"""Classes of instructions for `sched_group_barrier` and `sched_barrier`."""


def normalize_s_waitcnt_field(name: str, value: int | None, maximum: int) -> int:
    """A counter of `s_waitcnt`, checked; None is its maximum: no wait.

    >>> normalize_s_waitcnt_field("vmcnt", 3, 63), normalize_s_waitcnt_field("vmcnt", None, 63)
    (3, 63)
    """
    if value is None:
        return maximum
    if not 0 <= int(value) <= maximum:
        raise DSLValueError(f"{name} must be in [0, {maximum}] on this target, got {value}")
    return int(value)


def require_lds_dma_support(what: str) -> None:
    """Refuse `what` where buffers cannot be copied straight into shared memory.

    >>> flyc.evaluate(lambda: fx.rocdl.require_lds_dma_support("this"), target="cpu:gfx942")
    """
    need(what, "copy_to_lds_b32")


def s_waitcnt(vmcnt: int | None = None, lgkmcnt: int | None = None, expcnt: int | None = None) -> None:
    """`fx.rocdl.s_waitcnt` with its counters by position.

    >>> flyc.evaluate(lambda: fx.rocdl.cdna3.s_waitcnt(0), target="cpu:gfx942")
    """
    _s_waitcnt(vmcnt=vmcnt, lgkmcnt=lgkmcnt, expcnt=expcnt)


__all__ = [
    "mask_dsrd", "mask_dswr", "mask_mfma", "mask_vmem_rd", "normalize_s_waitcnt_field", "require_lds_dma_support",
    "s_waitcnt",
]  # fmt: skip
