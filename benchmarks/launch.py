"""Host cost of a warm call, in microseconds, beside the bare native call.

    python benchmarks/launch.py [--repeat N]

Four dynamic tensors and two scalars, a grid of one block of one thread: what is left is the way to the kernel. On an
NVIDIA GPU with torch the arrays are torch tensors on it; otherwise numpy arrays on the cpu stack.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def touch_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor, n: fx.Int32, x: fx.Float32):
    if fx.thread_idx.x < n:
        d[0, 0] = a[0, 0] + b[0, 0] + c[0, 0] + x


@flyc.jit
def touch(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor, n: fx.Int32, x: fx.Float32):
    touch_kernel(a, b, c, d, n, x).launch(grid=1, block=1)


def microseconds(fn: Callable[[], Any], repeat: int) -> float:
    """Best of several medians: these machines are noisy."""
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(repeat):
            fn()
        best = min(best, (time.perf_counter() - start) / repeat)
    return best * 1e6


def arrays() -> tuple[tuple[Any, ...], str]:
    """Arguments of the call and where they are."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return tuple(torch.ones(8, 8, device="cuda") for _ in range(4)), "torch on " + torch.cuda.get_device_name()
    return tuple(np.ones((8, 8), np.float32) for _ in range(4)), "numpy on the cpu stack"


def main() -> int:
    """Print one row per way to call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5000, help="calls per timing")
    options = parser.parse_args()
    tensors, where = arrays()
    args = (*tensors, 1, 2.0)
    touch(*args)
    compiled = flyc.compile(touch, *args)
    compiled(*args)
    prepared = compiled.prepare(*args)
    packed = prepared._packed  # the slots of the call, for the bare native call
    stub, address = prepared._native, ctypes.c_void_p(packed.address)
    bare = microseconds(lambda: stub(address), options.repeat)
    print(f"warm call with four tensors and two scalars, {where}; microseconds of host time")
    rows = {
        "bare native call": bare,
        "PreparedLaunch.launch()": microseconds(prepared.launch, options.repeat),
        "CompiledFunction(...)": microseconds(lambda: compiled(*args), options.repeat),
        "@jit call": microseconds(lambda: touch(*args), options.repeat),
    }
    for name, value in rows.items():
        print(f"{name:<26}{value:8.2f}{value - bare:+9.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
