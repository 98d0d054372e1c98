"""Bulk copies in checked mode: bounds, alignment, counts, and data that is used too early; each mistake at its line.

Each kernel has the line with the mistake marked `# bug` and runs without it when `mended` is set.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import KernelCheckError

N = 64
nv = fx.nvgpu


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch, emulate: Any) -> None:
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


def floats(n: int = N) -> np.ndarray:
    """Values that start at a multiple of 64 bytes."""
    whole = np.arange(n + 16, dtype=np.float32)
    start = (-whole.ctypes.data // 4) % 16
    return whole[start : start + n]


@flyc.kernel
def early_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """Only one thread waits for the copy, and nobody waits for that thread."""
    t = fx.thread_idx.x
    shared = fx.SharedAllocator()
    row, barrier = shared.allocate(fx.Array[fx.Float32, N, 16]).peek(), shared.allocate(nv.MBarrier).peek()
    if t == 0:
        barrier.init(1)
    fx.barrier()
    if t == 0:
        barrier.expect_tx(4 * N)
        nv.bulk_load(fx.get_iter(x), row, barrier)
    if fx.const_expr(mended):
        barrier.wait(0)
    else:
        if t == 0:
            barrier.wait(0)
    x[t] = row[t] + 1.0  # bug


@flyc.kernel
def reused_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """Shared memory is written again while it is being stored."""
    t = fx.thread_idx.x
    row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, N, 16]).peek()
    row[t] = t.to(fx.Float32)
    fx.barrier()
    if t == 0:
        nv.bulk_store(row, fx.get_iter(x))
        nv.tma_commit()
        if fx.const_expr(mended):
            nv.tma_wait(0, read=True)
    fx.barrier()
    row[t] = -1.0  # bug


@flyc.kernel
def reduced_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """The same for a reduction, of which all but the last are waited for."""
    t = fx.thread_idx.x
    row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, N, 16]).peek()
    row[t] = t.to(fx.Float32)
    fx.barrier()
    if t == 0:
        nv.bulk_reduce(row, fx.get_iter(x), "add")
        nv.tma_commit()
        nv.tma_wait(0 if mended else 1, read=True)
    fx.barrier()
    row[t] = -1.0  # bug


@flyc.kernel
def unmet_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """What other warps wrote is stored before the threads have met."""
    t = fx.thread_idx.x
    row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, N, 16]).peek()
    row[t] = t.to(fx.Float32)
    if fx.const_expr(mended):
        fx.barrier()
    if t == N - 1:
        nv.bulk_store(row, fx.get_iter(x))  # bug
        nv.tma_commit()
        nv.tma_wait(0)


@flyc.kernel
def source_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """Reads behind the tensor."""
    shared = fx.SharedAllocator()
    row, barrier = shared.allocate(fx.Array[fx.Float32, N, 16]).peek(), shared.allocate(nv.MBarrier).peek()
    start = fx.thread_idx.x * 0 + (0 if mended else 16)
    if fx.thread_idx.x == 0:
        barrier.init(1)
        barrier.expect_tx(4 * N)
        nv.bulk_load(fx.get_iter(x) + start, row, barrier)  # bug
        barrier.wait(0)


@flyc.kernel
def target_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """Writes behind shared memory, by a number of bytes that is known when it runs."""
    shared = fx.SharedAllocator()
    row, barrier = shared.allocate(fx.Array[fx.Float32, N - 4, 16]).peek(), shared.allocate(nv.MBarrier).peek()
    nbytes = fx.thread_idx.x * 0 + (4 * N - 16 if mended else 4 * N)
    if fx.thread_idx.x == 0:
        barrier.init(1)
        barrier.expect_tx(nbytes)
        nv.bulk_load(fx.get_iter(x), row, barrier, nbytes=nbytes)  # bug
        barrier.wait(0)


@flyc.kernel
def count_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """A number of bytes that is no multiple of 16."""
    row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, N, 16]).peek()
    row[fx.thread_idx.x] = 1.0
    nbytes = fx.thread_idx.x * 0 + (32 if mended else 36)
    fx.barrier()
    if fx.thread_idx.x == 0:
        nv.bulk_store(row, fx.get_iter(x), nbytes=nbytes)  # bug
        nv.tma_commit()
        nv.tma_wait(0)


@flyc.kernel
def crooked_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """A place in global memory that is no multiple of 16 bytes."""
    row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, N, 16]).peek()
    row[fx.thread_idx.x] = 1.0
    start = fx.thread_idx.x * 0 + (4 if mended else 2)
    fx.barrier()
    if fx.thread_idx.x == 0:
        nv.bulk_reduce(row, fx.get_iter(x) + start, "add", nbytes=32)  # bug
        nv.tma_commit()
        nv.tma_wait(0)


@flyc.kernel
def shared_target_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """Two warps store different rows to the same place."""
    t = fx.thread_idx.x
    rows = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 2 * N, 16]).peek().view(fx.make_layout((N, 2), (1, N)))
    rows[t, 0], rows[t, 1] = fx.Float32(1), fx.Float32(2)
    fx.barrier()
    if t % 32 == 0:
        half = fx.make_view(fx.get_iter(rows[None, t // 32]), fx.make_layout(N // 2, 1))
        start = t // 32 * (N // 2) if fx.const_expr(mended) else fx.Int32(0)
        nv.bulk_store(half, fx.get_iter(x) + start, nbytes=2 * N)  # bug
        nv.tma_commit()
        nv.tma_wait(0)


@flyc.kernel
def beyond_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """Writes behind the tensor."""
    row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, N, 16]).peek()
    row[fx.thread_idx.x] = -1.0
    start = fx.thread_idx.x * 0 + (0 if mended else 4)
    fx.barrier()
    if fx.thread_idx.x == 0:
        nv.bulk_store(row, fx.get_iter(x) + start)  # bug
        nv.tma_commit()
        nv.tma_wait(0)


CASES = {
    "used too early": (early_kernel, "an asynchronous copy writes, before"),
    "written too early": (reused_kernel, "asynchronous copy still reads"),
    "written too early after a reduction": (reduced_kernel, "asynchronous copy still reads"),
    "stored too early": (unmet_kernel, "read of what another thread wrote"),
    "out of the tensor": (source_kernel, "read out of bounds of the tensor of argument 0 ('x')"),
    "out of shared memory": (target_kernel, "write out of bounds of shared memory"),
    "behind the tensor": (beyond_kernel, "write out of bounds of the tensor of argument 0 ('x')"),
    "count": (count_kernel, "a bulk copy of a number of bytes that is not a multiple of 16"),
    "place": (crooked_kernel, "at an address that is not a multiple of 16"),
    "two stores": (shared_target_kernel, "race on the tensor of argument 0 ('x'): write of what another thread wrote"),
}


def launcher(kernel: Any) -> Any:
    @flyc.jit
    def run(x: fx.Tensor, mended: fx.Constexpr[bool]):
        kernel(x, mended).launch(grid=1, block=N)

    return run


def bug_line(kernel: Any) -> str:
    """`file:line` of the marked line of a kernel."""
    source, start = inspect.getsourcelines(inspect.unwrap(getattr(kernel, "function", kernel)))
    number = next(i for i, text in enumerate(source) if "# bug" in text)
    return f"{__file__}:{start + number}:"


@pytest.mark.parametrize("name", CASES)
def test_mistake_is_reported_at_its_line(name: str):
    kernel, words = CASES[name]
    with pytest.raises(KernelCheckError) as caught:
        launcher(kernel)(floats(), False)
    text = str(caught.value)
    said = [line.lstrip() for line in text.splitlines() if words in line]
    assert any(line.startswith(bug_line(kernel)) for line in said), text


@pytest.mark.parametrize("name", CASES)
def test_mended_kernel_is_clean(name: str):
    launcher(CASES[name][0])(floats(), True)


def test_a_refused_copy_is_left_out():
    """Its barrier opens all the same, so that no wait without end is reported beside it."""
    with pytest.raises(KernelCheckError) as caught:
        launcher(source_kernel)(floats(), False)
    assert "never ends" not in str(caught.value)
    whole = floats(2 * N)
    before = whole.copy()
    with pytest.raises(KernelCheckError, match="write out of bounds of the tensor of argument 0"):
        launcher(beyond_kernel)(whole[:N], False)
    assert np.array_equal(whole, before)
