"""A plugin makes every thread of a block say its id; run on the cpu stack.

clang++-22 -shared -fPIC $(llvm-config-22 --cxxflags) ir_plugin.cpp -o ir_plugin.so
python examples/custom_passes/thread_print.py ./ir_plugin.so
"""

import sys

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

PLUGINS = sys.argv[1:]
PIPELINE = "example-thread-print,default<O2>" if PLUGINS else None


@flyc.kernel
def double_kernel(x: fx.Tensor):
    i = fx.thread_idx.x
    x[i] = x[i] * 2.0


@flyc.jit(llvm_pass_pipeline=PIPELINE, llvm_pass_plugins=PLUGINS or None)
def double(x: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    double_kernel(x).launch(grid=1, block=64, stream=stream)


if __name__ == "__main__":
    x = np.arange(64, dtype=np.float32)
    double(x)
    np.testing.assert_array_equal(x, 2 * np.arange(64))
