"""Kernels whose threads meet in step are loops over threads on the cpu stack; what they compute stays the same."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")


def in_phases(function, *args) -> bool:
    """Whether no thread of the kernel is a coroutine."""
    return "presplitcoroutine" not in flyc.compile(function, *args).artifact.llvm_ir


@flyc.kernel
def swap_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    """Values carried round a loop change places, and each meets its neighbour's on the way."""
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 96]).peek()
    t = fx.thread_idx.x
    a, b = x[t], x[t] * 2
    for i in range(n):
        s[t] = a
        fx.barrier()
        c = s[(t + i + 1) % 96]
        fx.barrier()
        a, b = b + i, a + c
    out[0, t] = a
    out[1, t] = b


@flyc.jit
def swap(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    swap_kernel(x, out, n).launch(grid=1, block=96)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_carried_values(n: int, rng: np.random.Generator):
    x = rng.integers(-50, 50, 96).astype(np.int32)
    out = np.zeros((2, 96), np.int32)
    assert in_phases(swap, x, out, n)
    swap(x, out, n)
    a, b = x.copy(), x * 2
    t = np.arange(96)
    for i in range(n):
        a, b = b + i, a + a[(t + i + 1) % 96]
    np.testing.assert_array_equal(out, [a, b])


@flyc.kernel
def shuffle_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    """What is shuffled is what the loop carries."""
    t = fx.thread_idx.x
    v = x[t]
    for i in range(n):
        v = v + fx.shuffle_xor(v, 1 << (i % 5)) * (i + 1)
    out[t] = v + fx.shuffle_idx(fx.Int32(7), 3)


@flyc.jit
def shuffles(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    shuffle_kernel(x, out, n).launch(grid=1, block=64)


@pytest.mark.parametrize("n", [0, 1, 6])
def test_shuffled_values(n: int, rng: np.random.Generator):
    x = rng.integers(-50, 50, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    assert in_phases(shuffles, x, out, n)
    shuffles(x, out, n)
    v, t = x.copy(), np.arange(64)
    for i in range(n):
        v = v + v[t ^ (1 << i % 5)] * np.int32(i + 1)
    np.testing.assert_array_equal(out, v + 7)


@flyc.kernel
def registers_kernel(x: fx.Tensor, out: fx.Tensor, k: fx.Int32):
    """Register tensors outlive a barrier, and are indexed at run time; a block of two dimensions."""
    s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 8 * 12]).peek()
    tx, ty, _ = fx.thread_idx
    t = ty * 8 + tx
    r = fx.make_rmem_tensor(4, fx.Float32)
    for i in range(4):
        r[i] = x[i, t]
    s[t] = r[k]
    fx.barrier()
    for i in range(4):
        r[i] = r[i] * s[ty * 8 + (tx + 1) % 8]
    fx.barrier()
    for i in range(4):
        out[i, t] = r[(i + k) % 4]


@flyc.jit
def registers(x: fx.Tensor, out: fx.Tensor, k: fx.Int32):
    registers_kernel(x, out, k).launch(grid=1, block=(8, 12))


def test_register_tensors(rng: np.random.Generator):
    x = rng.standard_normal((4, 96)).astype(np.float32)
    for k in range(4):
        out = np.zeros_like(x)
        assert in_phases(registers, x, out, k)
        registers(x, out, k)
        t = np.arange(96)
        expected = x * x[k][t // 8 * 8 + (t + 1) % 8]
        np.testing.assert_array_equal(out, expected[(np.arange(4) + k) % 4])


@flyc.kernel
def branch_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    """Barriers in nested loops and branches that all threads take alike; inside, threads go their own ways."""
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 64]).peek()
    t = fx.thread_idx.x
    v = x[fx.block_idx.x, t]
    i = fx.Int32(0)
    while i < n:
        if (i + fx.block_idx.x) % 2 == 0:
            s[t] = v
            fx.barrier()
            if t % 3 == 0:
                v = v + s[63 - t]
            fx.barrier()
        else:
            v = v - i
        for j in range(i):
            s[t] = v + j
            fx.barrier()
            w = s[(t + 1) % 64]
            for _ in range(t % 4):
                w = w + 1
            fx.barrier()
            v = w
        i = i + 1
    out[fx.block_idx.x, t] = v


@flyc.jit
def branches(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    branch_kernel(x, out, n).launch(grid=3, block=64)


def test_uniform_branches(rng: np.random.Generator):
    x = rng.integers(-50, 50, (3, 64)).astype(np.int32)
    out = np.zeros_like(x)
    n = 5
    assert in_phases(branches, x, out, n)
    branches(x, out, n)
    t = np.arange(64)
    for block in range(3):
        v = x[block].copy()
        for i in range(n):
            v = np.where(t % 3 == 0, v + v[63 - t], v) if (i + block) % 2 == 0 else v - i
            for j in range(i):
                v = (v + j)[(t + 1) % 64] + t % 4
        np.testing.assert_array_equal(out[block], v)


@flyc.kernel
def partial_kernel(x: fx.Tensor, out: fx.Tensor):
    """A block that is no whole number of warps."""
    t = fx.thread_idx.x
    out[t] = fx.shuffle_up(x[t], 1) + x[t]


@flyc.jit
def partial(x: fx.Tensor, out: fx.Tensor):
    partial_kernel(x, out).launch(grid=1, block=45)


def test_partial_warps(rng: np.random.Generator):
    x = rng.standard_normal(45).astype(np.float32)
    out = np.zeros_like(x)
    assert in_phases(partial, x, out)
    partial(x, out)
    t = np.arange(45)
    np.testing.assert_array_equal(out, np.where(t % 32 == 0, x, x[t - 1]) + x)


@flyc.kernel
def alone_kernel(x: fx.Tensor, out: fx.Tensor):
    """Threads that go their own ways to a meeting."""
    t = fx.thread_idx.x
    v = x[t]
    if t < 32:
        v = v + fx.shuffle_xor(v, 1)
    for _ in range(t // 32):
        v = v * fx.shuffle_xor(v, 2)
    out[t] = v


@flyc.jit
def alone(x: fx.Tensor, out: fx.Tensor):
    alone_kernel(x, out).launch(grid=1, block=64)


def test_others_are_coroutines(rng: np.random.Generator):
    x = rng.standard_normal(64).astype(np.float32)
    out = np.zeros_like(x)
    assert not in_phases(alone, x, out)
    alone(x, out)
    t = np.arange(64)
    np.testing.assert_allclose(out, np.where(t < 32, x + x[t ^ 1], x * x[t ^ 2]), rtol=1e-6)


@flyc.kernel
def votes_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    v = x[t]
    first = fx.rocdl.readfirstlane(fx.Int32, v)
    odd = fx.rocdl.ballot(fx.Int64, v % 2 == 1)
    here = fx.rocdl.ballot(fx.Int64, fx.block_idx.x == 0)
    out[0, t] = first
    out[1, t] = fx.Int32(odd & 0xFFFFFFFF)
    out[2, t] = fx.Int32(odd >> 32)
    out[3, t] = fx.Int32(here >> 16)


@flyc.jit
def votes(x: fx.Tensor, out: fx.Tensor):
    votes_kernel(x, out).launch(grid=1, block=93)


def test_votes_of_a_partial_wave(rng: np.random.Generator, emulate):
    emulate("gfx942")
    x = rng.integers(0, 1000, 93).astype(np.int32)
    out = np.zeros((4, 93), np.int32)
    assert in_phases(votes, x, out)
    votes(x, out)
    for t in range(93):
        lanes = range(t // 64 * 64, min(t // 64 * 64 + 64, 93))
        mask = sum(1 << i - lanes[0] for i in lanes if x[i] % 2)
        here = (1 << len(lanes)) - 1
        words = [x[lanes[0]], mask & 0xFFFFFFFF, mask >> 32, here >> 16 & 0xFFFFFFFF]
        np.testing.assert_array_equal(out[:, t].view(np.uint32), np.array(words, np.uint64).astype(np.uint32))
