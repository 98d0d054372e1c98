"""Running a kernel given as IR text on the CPU: one block of one thread."""

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from flydsl.cpu.code import abi as abi_cpu
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.llvm import binding, host_jit
from flydsl.passes.pipeline import parse_pipeline


def lower(text: str, passes: str) -> str:
    """LLVM IR of the first `gpu.module` of a module after some passes."""
    module = LocatedParser(make_context(), text, "kernel").parse_module()
    module.verify()
    for p in parse_pipeline(passes):
        module = p.run(module)
        module.verify()
    device = next(op for op in module.ops if op.name == "gpu.module")
    triple = binding.host_triple()
    return abi_cpu.device_module(device, triple, binding.data_layout(triple))


def execute(ir: str, arrays: list[np.ndarray]) -> None:
    """Run the kernel `k` on pointers to arrays."""
    with host_jit.load_ir(ir, opt_level=0) as library:
        kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)(library.address("k"))
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        params = (ctypes.c_void_p * len(arrays))(*[ctypes.addressof(p) for p in pointers])
        geometry = (ctypes.c_int32 * 32)(1, 1, 1, 1, 1, 1)
        shared = (ctypes.c_int64 * 1024)()
        kernel(ctypes.addressof(params), ctypes.addressof(geometry), ctypes.addressof(shared), 0, 1)


@pytest.fixture
def run_kernel() -> Callable[[str, str, np.ndarray, int], np.ndarray]:
    def run(text: str, passes: str, inputs: np.ndarray, count: int) -> np.ndarray:
        out = np.full(count, -1, np.int32)
        execute(lower(text, passes), [inputs, out])
        return out

    return run
