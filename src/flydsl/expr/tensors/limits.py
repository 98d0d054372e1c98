"""How much a thread may hold: beyond it code generators take hours or the stack of a thread overflows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import layout as L
from ...errors import DSLValueError

if TYPE_CHECKING:
    from ..numeric import Numeric

LOCAL_BYTES = 512 * 1024
"""Memory of its own that a thread of any GPU has at most."""
LANES = 16384
"""Elements of a vector: LLVM takes each as a register."""


def check_registers(layout: L.Layout, dtype: type[Numeric]) -> None:
    """Refuse a register tensor that no thread can hold."""
    count = L.cosize(layout)
    nbytes = (count * max(dtype.width, 8 if dtype.width == 1 else 1) + 7) // 8 if type(count) is int else 0
    if nbytes > LOCAL_BYTES:
        raise DSLValueError(
            f"a register tensor {layout} of {dtype} takes {nbytes} bytes of every thread, which has {LOCAL_BYTES} at "
            "most; spread it over the threads, or keep it in shared or global memory"
        )


def check_lanes(count: int) -> None:
    """Refuse a vector that LLVM would never get done with."""
    if count > LANES:
        raise DSLValueError(
            f"a vector of {count} elements is too long, at most {LANES} are taken; work on parts of it in a loop"
        )
