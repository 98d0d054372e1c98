"""Atom operations of CDNA3; the same objects as in `fx.rocdl`."""

from .atoms import (
    MFMA,
    BufferAtomic,
    BufferCopy,
    BufferCopy8b,
    BufferCopy16b,
    BufferCopy32b,
    BufferCopy64b,
    BufferCopy128b,
    BufferCopyLDS,
    BufferCopyLDS32b,
    BufferCopyLDS128b,
)
from .utils import s_waitcnt

__all__ = [
    "MFMA", "BufferAtomic", "BufferCopy", "BufferCopy128b", "BufferCopy16b", "BufferCopy32b", "BufferCopy64b",
    "BufferCopy8b", "BufferCopyLDS", "BufferCopyLDS128b", "BufferCopyLDS32b", "s_waitcnt",
]  # fmt: skip
