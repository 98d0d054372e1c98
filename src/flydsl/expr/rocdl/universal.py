"""The atoms and buffer functions of all AMD GPUs; the same objects as in `fx.rocdl`."""

from __future__ import annotations

from .atoms import (
    MFMA,
    WMMA,
    BufferAtomic,
    BufferAtomicAdd,
    BufferAtomicMax,
    BufferAtomicMin,
    BufferAtomicPkAdd,
    BufferCopy,
    BufferCopy8b,
    BufferCopy16b,
    BufferCopy32b,
    BufferCopy64b,
    BufferCopy128b,
    BufferCopyLDS,
    BufferCopyLDS32b,
    BufferCopyLDS64b,
    BufferCopyLDS128b,
)
from .buffers import get_buffer_rsrc, make_buffer_ptr, make_buffer_tensor
from .raw_memory import s_buffer_load
from .schedule import asyncmark, s_waitcnt, wait_asyncmark

__all__ = [
    "MFMA",
    "WMMA",
    "BufferAtomic",
    "BufferAtomicAdd",
    "BufferAtomicMax",
    "BufferAtomicMin",
    "BufferAtomicPkAdd",
    "BufferCopy",
    "BufferCopy128b",
    "BufferCopy16b",
    "BufferCopy32b",
    "BufferCopy64b",
    "BufferCopy8b",
    "BufferCopyLDS",
    "BufferCopyLDS128b",
    "BufferCopyLDS32b",
    "BufferCopyLDS64b",
    "asyncmark",
    "get_buffer_rsrc",
    "make_buffer_ptr",
    "make_buffer_tensor",
    "s_buffer_load",
    "s_waitcnt",
    "wait_asyncmark",
]
