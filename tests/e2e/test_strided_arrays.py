"""Arrays of any strides: gaps in every dimension, and dimensions that run backwards."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.cpu.runtime import KernelCheckError


@flyc.kernel
def transfer_kernel(x: fx.Tensor, out: fx.Tensor, past: fx.Constexpr[int]):
    i = fx.thread_idx.x
    for j in range(x.shape[1]):
        out[i, j] = x[i, j]
    if past and i == 0:
        out[i, 0] = x[i, x.shape[1] + past]


@flyc.jit
def transfer(x: fx.Tensor, out: fx.Tensor, past: fx.Constexpr[int] = 0):
    transfer_kernel(x, out, past).launch(grid=1, block=x.shape[0])


WHOLE = np.random.default_rng().random((8, 12)).astype(np.float32)
VIEWS = [WHOLE[::2, ::3], WHOLE[::-1], WHOLE[:, ::-1], WHOLE[::-2, ::-3], WHOLE.T[::-1, ::2], WHOLE[3:4, ::-1]]


@pytest.mark.parametrize("checked", [False, True])
def test_reads_and_writes_follow_the_strides(checked: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", str(int(checked)))
    for view in VIEWS:
        out = np.full((*view.shape, 2), -1, np.float32)[::-1, :, 1]
        transfer(view, out)
        np.testing.assert_array_equal(out, view)


def test_one_compilation_serves_all_without_a_dimension_of_stride_one():
    before = transfer.cache_info().misses
    for view in (WHOLE[::2, ::3], WHOLE[::-2, ::-3], WHOLE[:, ::-1]):
        transfer(view, np.zeros(view.shape, np.float32))
    assert transfer.cache_info().misses - before <= 1


@pytest.mark.parametrize("view", [WHOLE[:, ::-1], WHOLE[::-1, ::-2], WHOLE[::2, ::2]])
def test_checked_mode_knows_where_they_end(view: np.ndarray, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    with pytest.raises(KernelCheckError, match="out of bounds of the tensor of argument 0"):
        transfer(view, np.zeros(view.shape, np.float32), 200)


def test_what_is_compiled_in_has_no_negative_strides():
    with pytest.raises(ValueError, match="negative strides are not supported here, got -12 in dimension 0"):
        flyc.from_dlpack(WHOLE[::-1])
