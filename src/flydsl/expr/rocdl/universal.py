"""The atoms and buffer functions of all AMD GPUs; the same objects as in `fx.rocdl`."""

from __future__ import annotations

from . import atoms
from .atoms import *  # noqa: F403
from .buffers import get_buffer_rsrc, make_buffer_ptr, make_buffer_tensor
from .raw_memory import s_buffer_load
from .schedule import asyncmark, s_waitcnt, wait_asyncmark

__all__ = [
    "asyncmark", "get_buffer_rsrc", "make_buffer_ptr", "make_buffer_tensor", "s_buffer_load", "s_waitcnt",
    "wait_asyncmark",
]  # fmt: skip
__all__ += atoms.__all__
