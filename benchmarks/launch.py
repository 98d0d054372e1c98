"""Host cost of a warm call, in microseconds, beside the bare native call.

    python benchmarks/launch.py [--repeat N]

Four dynamic tensors and two scalars, three tensors and a named tuple of constants, and three tensors alone, with a grid
of one block of one thread: what is left is the way to the kernel. On an NVIDIA GPU with torch the arrays are torch
tensors on it, and the same launch goes through the bare driver, Triton, CuPy and torch (an `add`) in the same run,
where they are installed; otherwise the arrays are numpy arrays on the cpu stack.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

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


@flyc.kernel
def three_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    c[0, 0] = a[0, 0] + b[0, 0]


@flyc.jit
def three(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    three_kernel(a, b, c).launch(grid=1, block=1)


class Choice(NamedTuple):
    """A compile-time value of a class of the user's."""

    by: float
    plus: int


@flyc.kernel
def chosen_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, choice: fx.Constexpr):
    c[0, 0] = a[0, 0] * choice.by + b[0, 0] + choice.plus


@flyc.jit
def chosen(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, choice: fx.Constexpr):
    chosen_kernel(a, b, c, choice).launch(grid=1, block=1)


def cuda_torch() -> Any:
    """torch if it sees an NVIDIA GPU."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch if torch.cuda.is_available() and torch.version.cuda else None


class Clock:
    """Times calls; on a GPU in bursts short enough for its queue, so that no call waits for the device."""

    def __init__(self, repeat: int, synchronize: Callable[[], Any] | None):
        self.repeat = repeat if synchronize is None else min(repeat, 500)
        self.rounds = 7 if synchronize is None else 40
        self.synchronize = synchronize or (lambda: None)

    def __call__(self, fn: Callable[[], Any]) -> float:
        """Best of several means: these machines are noisy."""
        fn()
        best = float("inf")
        for _ in range(self.rounds):
            self.synchronize()
            start = time.perf_counter()
            for _ in range(self.repeat):
                fn()
            best = min(best, (time.perf_counter() - start) / self.repeat)
        self.synchronize()
        return best * 1e6


def ours(function: Any, args: tuple[Any, ...], clock: Clock) -> dict[str, float]:
    """Every way of calling one jit function."""
    function(*args)
    compiled = flyc.compile(function, *args)
    compiled(*args)
    prepared = compiled.prepare(*args)
    packed = prepared._packed  # the slots of the call, for the bare native call
    stub, address = prepared._native, ctypes.c_void_p(packed.address)
    return {
        "bare native call": clock(lambda: stub(address)),
        "PreparedLaunch.launch()": clock(prepared.launch),
        "CompiledFunction(...)": clock(lambda: compiled(*args)),
        "@jit call": clock(lambda: function(*args)),
    }


def peers(torch: Any, a: Any, b: Any, c: Any, clock: Clock) -> dict[str, float]:
    """The same launch elsewhere: the driver through ctypes, Triton, CuPy, torch."""
    rows: dict[str, float] = {}
    rows["torch.add(out=)"] = clock(lambda: torch.add(a, b, out=c))
    if importlib.util.find_spec("triton") is not None:
        rows["Triton"] = clock(triton_call(a, b, c))
    if importlib.util.find_spec("cupy") is not None:
        import cupy

        source = 'extern "C" __global__ void add(const float* a, const float* b, float* c) { c[0] = a[0] + b[0]; }'
        kernel = cupy.RawKernel(source, "add")
        x, y, z = (cupy.from_dlpack(t) for t in (a, b, c))
        rows["CuPy RawKernel"] = clock(lambda: kernel((1,), (1,), (x, y, z)))
        driver = ctypes.CDLL("libcuda.so.1")
        values = [ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)]
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(v) for v in values))
        launch = driver.cuLaunchKernel
        launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
        handle = ctypes.c_void_p(kernel.kernel.ptr)
        rows["bare driver (ctypes)"] = clock(lambda: launch(handle, 1, 1, 1, 1, 1, 1, 0, None, pointers, None))
    return rows


def triton_call(a: Any, b: Any, c: Any) -> Callable[[], Any]:
    import triton
    import triton.language as tl

    # The extents come with our tensors; here they are arguments, as in every Triton kernel that is safe to call.
    @triton.jit
    def kernel(a, b, c, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(c + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)

    return lambda: kernel[(1,)](a, b, c, 64, block=64)


def show(title: str, rows: dict[str, float]) -> None:
    bare = rows["bare native call"]
    print(title)
    for name, value in rows.items():
        print(f"  {name:<26}{value:8.2f}{value - bare:+9.2f}")


def main() -> int:
    """Print one row per way to call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5000, help="calls per timing")
    options = parser.parse_args()
    torch = cuda_torch()
    if torch is not None:
        tensors: tuple[Any, ...] = tuple(torch.ones(8, 8, device="cuda") for _ in range(4))
        where = f"torch on {torch.cuda.get_device_name()}"
    else:
        tensors, where = tuple(np.ones((8, 8), np.float32) for _ in range(4)), "numpy on the cpu stack"
    clock = Clock(options.repeat, torch and torch.cuda.synchronize)
    print(f"microseconds of host time per warm call, and more than the bare native call; {where}")
    show("four tensors and two scalars", ours(touch, (*tensors, 1, 2.0), clock))
    choice = Choice(2.0, 3)
    rows = ours(chosen, (*tensors[:3], choice), clock)
    rows["@jit call, another tuple"] = clock(lambda: chosen(*tensors[:3], Choice(2.0, 3)))
    show("three tensors and a named tuple of constants", rows)
    rows = ours(three, tensors[:3], clock)
    if torch is not None:
        rows |= peers(torch, *tensors[:3], clock)
    show("three tensors", rows)
    if "Triton" in rows:
        print(f"@jit call / Triton: {rows['@jit call'] / rows['Triton']:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
