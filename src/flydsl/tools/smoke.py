"""The smallest kernel worth running: it shows that a stack compiles, loads, launches and copies."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.base import DeviceRuntime

_BLOCK = 64
_COUNT = 1000


@flyc.kernel
def add_one_kernel(out: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * _BLOCK + fx.thread_idx.x
    if i < n:
        out[i] = out[i] + fx.Uint8(1)


@flyc.jit
def add_one(out: fx.Tensor, n: fx.Int32):
    add_one_kernel(out, n).launch(grid=fx.ceildiv(n, _BLOCK), block=_BLOCK)


def run(runtime: DeviceRuntime) -> None:
    """Add one to every byte of a device buffer; raises if the bytes that come back are not those."""
    buffer = runtime.alloc(_COUNT)
    try:
        buffer.fill(41)
        add_one(buffer, _COUNT)
        runtime.synchronize()
        back = bytearray(_COUNT)
        buffer.copy_to(back)
    finally:
        buffer.free()
    wrong = sum(byte != 42 for byte in back)
    if wrong:
        raise AssertionError(f"{wrong} of {_COUNT} bytes are wrong")
