"""Arrays that nobody has written: what checked mode says of kernels that read them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.cpu import unwritten
from flydsl.errors import DSLTypeError, DSLValueError, KernelCheckError

N = 64


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")


@flyc.kernel
def write_kernel(out: fx.Tensor, count: fx.Int32):
    t = fx.thread_idx.x
    if t < count:
        out[t] = 1.0


@flyc.kernel
def add_kernel(out: fx.Tensor):
    t = fx.thread_idx.x
    out[t] = out[t] + 1.0  # plain


@flyc.kernel
def sum_kernel(out: fx.Tensor):
    fx.atomic_add(fx.get_iter(out) + fx.thread_idx.x, 1.0)  # atomic


@flyc.jit
def write(out: fx.Tensor, count: fx.Int32):
    write_kernel(out, count).launch(grid=1, block=N)


@flyc.jit
def add(out: fx.Tensor, atomic: fx.Constexpr[bool]):
    if atomic:
        sum_kernel(out).launch(grid=1, block=N)
    else:
        add_kernel(out).launch(grid=1, block=N)


def line_of(kernel, mark: str) -> str:
    source, start = inspect.getsourcelines(inspect.unwrap(getattr(kernel, "function", kernel)))
    return f"{__file__}:{start + next(i for i, text in enumerate(source) if f'# {mark}' in text)}:"


@pytest.mark.parametrize("atomic", [False, True])
def test_a_read_before_any_write_is_reported(atomic: bool):
    out = unwritten(np.empty(N, np.float32))
    with pytest.raises(
        KernelCheckError, match=r"of the tensor of argument 0 \('out'\) that nobody has written"
    ) as caught:
        add(out, atomic)
    assert line_of(sum_kernel if atomic else add_kernel, "atomic" if atomic else "plain") in str(caught.value)


def test_what_kernels_wrote_is_written():
    out = unwritten(np.empty(N, np.float32))
    write(out, N - 1)
    with pytest.raises(KernelCheckError, match=r"nobody has written; thread 63 .* index \(63\)"):
        add(out, False)
    out = unwritten(out)
    write(out, N)
    add(out, False)
    add(out, True)
    assert (out == 3).all()


def test_other_arrays_and_tensors_of_torch():
    tensor = unwritten(torch.empty(N))
    with pytest.raises(KernelCheckError, match="nobody has written"):
        add(tensor, False)
    add(torch.zeros(N), False)
    add(np.zeros(N, np.float32), False)


def test_an_array_that_is_gone_is_forgotten():
    for _ in range(100):
        unwritten(np.empty(N, np.float32))


def test_what_cannot_be_watched():
    with pytest.raises(DSLValueError, match="in a row"):
        unwritten(np.empty((8, 8), np.float32)[:, ::2])
    with pytest.raises(DSLTypeError, match="got list"):
        unwritten([1.0])
