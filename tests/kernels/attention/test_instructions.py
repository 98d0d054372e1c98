"""Instructions that the Hopper kernels count on."""

from __future__ import annotations

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def powers_kernel(x: fx.Tensor):
    at = fx.thread_idx.x
    x[at] = fx.exp2(x[at], fastmath="fast") + fx.exp2(x[at] * 2.0, fastmath="afn")


@flyc.jit
def powers(x: fx.Tensor):
    powers_kernel(x).launch(grid=1, block=32)


def test_fast_powers_flush_denormal_numbers():
    text = flyc.compile(powers, np.zeros(32, "f4"), target="cuda:sm_90a").artifact.binary("ptx").decode()
    assert text.count("ex2.approx.ftz.f32") == 1
    assert text.count("ex2.approx.f32") == 1
