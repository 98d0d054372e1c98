"""Checked mode: seeded mistakes are reported with their line; the same kernels without them run clean."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import KernelCheckError


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")


def line_of(function, mark: str) -> str:
    """`file:line` of the line of a kernel that has a mark in its comment."""
    source, start = inspect.getsourcelines(function)
    number = next(i for i, text in enumerate(source) if f"# {mark}" in text)
    return f"test_cpu_checked.py:{start + number}:"


def expect(run, kernel, mark: str, words: str) -> None:
    with pytest.raises(KernelCheckError) as caught:
        run()
    assert line_of(inspect.unwrap(getattr(kernel, "function", kernel)), mark) in str(caught.value), str(caught.value)
    assert words in str(caught.value)


@flyc.kernel
def shift_kernel(a: fx.Tensor, b: fx.Tensor, by: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    b[i] = a[i + by]  # here


@flyc.jit
def shift(a: fx.Tensor, b: fx.Tensor, by: fx.Int32):
    shift_kernel(a, b, by).launch(grid=2, block=64)


@pytest.mark.parametrize("by", [1, -1, 1 << 20])
def test_global_out_of_bounds(by: int):
    a, b = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    expect(lambda: shift(a, b, by), shift_kernel, "here", "read out of bounds of the tensor of argument 0")
    shift(a, b, 0)
    np.testing.assert_array_equal(a, b)
    expect(lambda: shift(b, a, by), shift_kernel, "here", "out of bounds")


class Places(NamedTuple):
    number: fx.Int32
    source: fx.Pointer


@flyc.kernel
def pointers_kernel(
    places: Places, target: fx.Pointer | None, more: fx.Pointer, how: fx.Constexpr[str], at: fx.Int32
):  # fmt: skip
    i = fx.thread_idx.x
    value = places.source[i]
    if fx.const_expr(how == "read"):
        value = places.source[i + at]  # read
    if fx.const_expr(target is not None):
        target[i + (at if how == "write" else 0)] = value  # write
    if fx.const_expr(how == "words"):
        fx.nvgpu.store_global(more + (2 * i + at), fx.Vector.filled(2, 1, fx.Int16))  # words


@flyc.jit
def pointers(
    a: fx.Tensor, b: fx.Tensor | None, c: fx.Tensor, how: fx.Constexpr[str], at: fx.Int32, twice: fx.Constexpr[bool]
):
    target = None if b is None else fx.get_iter(b)
    more = fx.recast_iter(fx.Int16, fx.get_iter(c))
    pointers_kernel(Places(at, fx.get_iter(a)), target, more, how, at).launch(grid=1, block=32)
    if fx.const_expr(twice):  # the same kernel, with arrays of other layouts
        pointers_kernel(Places(at, fx.get_iter(c)), target, more, how, at).launch(grid=1, block=32)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize(("how", "argument"), [("read", "places"), ("write", "target"), ("words", "more")])
def test_pointers_have_the_bounds_of_their_tensors(how: str, argument: str, twice: bool, monkeypatch):
    """Alone, in tuples, left out, and as other elements; of views, too. Accesses outside are left out."""
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    room = np.zeros((3, 64), np.int32)
    a, b, c = np.arange(32, dtype=np.int32), room[1, :32], np.zeros(32, np.int32)
    pointers(a, b, c, how, 0, twice)
    np.testing.assert_array_equal(b, c if twice else a)
    word = "read" if how == "read" else "write"
    for at in (1, -1, 40):
        expect(lambda at=at: pointers(a, b, c, how, at, twice), pointers_kernel, how, f"{word} out of bounds of the")
        with pytest.raises(KernelCheckError, match=f"'{argument}'"):
            pointers(a, b, c, how, at, twice)
    assert not room[0].any() and not room[2].any() and not room[1, 32:].any()
    pointers(a, None, c, "words", 0, twice)


@flyc.kernel
def bools_kernel(a: fx.Tensor, b: fx.Pointer, at: fx.Int32):
    b[fx.thread_idx.x + at] = a[fx.thread_idx.x]  # here


@flyc.jit
def bools(a: fx.Tensor, b: fx.Tensor, at: fx.Int32):
    bools_kernel(a, fx.get_iter(b), at).launch(grid=1, block=16)


def test_booleans_take_a_byte():
    a, b = np.arange(16) % 3 == 0, np.zeros(16, bool)
    bools(a, b, 0)
    np.testing.assert_array_equal(a, b)
    expect(lambda: bools(a, b, 1), bools_kernel, "here", "write out of bounds of the tensor of argument 1")


@flyc.kernel
def neighbour_kernel(row: fx.Pointer, out: fx.Tensor, by: fx.Int32):
    out[fx.thread_idx.x] = row[fx.thread_idx.x + by]


@flyc.jit
def neighbour(a: fx.Tensor, out: fx.Tensor, by: fx.Int32):
    neighbour_kernel(fx.get_iter(a[2, None]), out, by).launch(grid=1, block=8)


def test_pointers_of_views_reach_the_tensor():
    a, out = np.arange(32, dtype=np.int32).reshape(4, 8), np.zeros(8, np.int32)
    for by, row in ((-8, 1), (0, 2), (8, 3)):
        neighbour(a, out, by)
        np.testing.assert_array_equal(out, a[row])


@flyc.kernel
def scatter_kernel(out: fx.Tensor, at: fx.Int32):
    out[fx.thread_idx.x + at] = 1.0  # here


@flyc.jit
def scatter(out: fx.Tensor, at: fx.Int32):
    scatter_kernel(out, at).launch(grid=1, block=32)


def test_store_out_of_bounds_is_left_out():
    whole = np.zeros(64, np.float32)
    expect(lambda: scatter(whole[:32], 5), scatter_kernel, "here", "write out of bounds")
    assert not whole[32:].any()


@flyc.kernel
def shared_kernel(out: fx.Tensor, by: fx.Int32):
    shared = fx.SharedAllocator()
    s = shared.allocate(fx.Array[fx.Float32, 64]).peek()
    other = shared.allocate(fx.Array[fx.Float32, 64]).peek()
    t = fx.thread_idx.x
    other[t] = 0.0
    s[t + by] = 1.0  # here
    fx.barrier()
    out[t] = s[63 - t] + other[t]


@flyc.jit
def shared(out: fx.Tensor, by: fx.Int32):
    shared_kernel(out, by).launch(grid=1, block=64)


def test_shared_out_of_bounds():
    """Also where the next allocation begins right behind."""
    out = np.zeros(64, np.float32)
    expect(lambda: shared(out, 1), shared_kernel, "here", "out of bounds of shared memory")
    shared(out, 0)


@flyc.kernel
def missing_barrier_kernel(a: fx.Tensor, out: fx.Tensor, safe: fx.Constexpr[bool]):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 128]).peek()
    t = fx.thread_idx.x
    s[t] = a[t]
    if fx.const_expr(safe):
        fx.barrier()
    out[t] = s[127 - t]  # here


@flyc.jit
def missing_barrier(a: fx.Tensor, out: fx.Tensor, safe: fx.Constexpr[bool]):
    missing_barrier_kernel(a, out, safe).launch(grid=3, block=128)


def test_missing_barrier():
    a, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    with pytest.raises(KernelCheckError, match="nobody has written|race on shared memory"):
        missing_barrier(a, out, False)
    missing_barrier(a, out, True)
    np.testing.assert_array_equal(out, a[::-1])


@flyc.kernel
def write_after_read_kernel(out: fx.Tensor, safe: fx.Constexpr[bool]):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 128]).peek()
    t = fx.thread_idx.x
    s[t] = t
    fx.barrier()
    v = s[127 - t]
    if fx.const_expr(safe):
        fx.barrier()
    s[t] = v + 1000  # here
    fx.barrier()
    out[t] = s[t]


@flyc.jit
def write_after_read(out: fx.Tensor, safe: fx.Constexpr[bool]):
    write_after_read_kernel(out, safe).launch(grid=1, block=128)


def test_write_after_read():
    out = np.zeros(128, np.int32)
    expect(lambda: write_after_read(out, False), write_after_read_kernel, "here", "race on shared memory")
    write_after_read(out, True)
    np.testing.assert_array_equal(out, np.arange(128)[::-1] + 1000)


@flyc.kernel
def collision_kernel(out: fx.Tensor, slots: fx.Constexpr[int]):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 128]).peek()
    t = fx.thread_idx.x
    s[t] = 0
    fx.barrier()
    s[t % slots] = t  # here
    fx.barrier()
    out[t] = s[t]


@flyc.jit
def collision(out: fx.Tensor, slots: fx.Constexpr[int]):
    collision_kernel(out, slots).launch(grid=1, block=128)


def test_two_writers():
    out = np.zeros(128, np.int32)
    expect(lambda: collision(out, 64), collision_kernel, "here", "race on shared memory")
    collision(out, 128)


@flyc.kernel
def unwritten_kernel(out: fx.Tensor, n: fx.Int32):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()
    t = fx.thread_idx.x
    if t < n:
        s[t] = 1.0
    fx.barrier()
    out[t] = s[t]  # here


@flyc.jit
def unwritten(out: fx.Tensor, n: fx.Int32):
    unwritten_kernel(out, n).launch(grid=2, block=64)


def test_unwritten_shared_memory():
    out = np.zeros(64, np.float32)
    expect(lambda: unwritten(out, 63), unwritten_kernel, "here", "nobody has written")
    unwritten(out, 64)


@flyc.kernel
def divergent_kernel(out: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    if t < n:
        fx.barrier()  # here
    out[t] = t


@flyc.jit
def divergent(out: fx.Tensor, n: fx.Int32):
    divergent_kernel(out, n).launch(grid=1, block=64)


def test_divergent_barrier():
    out = np.zeros(64, np.int32)
    expect(lambda: divergent(out, 40), divergent_kernel, "here", "do not all come to this barrier")
    divergent(out, 64)
    divergent(out, 32)  # whole warps may leave


@flyc.kernel
def wide_kernel(a: fx.Tensor, b: fx.Tensor):
    t = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    r = fx.make_rmem_tensor(4, fx.Float32)
    fx.copy_atom_call(atom, fx.flat_divide(a, (4,))[None, t], r)  # here
    fx.copy_atom_call(atom, r, fx.flat_divide(b, (4,))[None, t])


@flyc.jit
def wide(a: fx.Tensor, b: fx.Tensor):
    wide_kernel(a, b).launch(grid=1, block=16)


def test_misaligned_vectors():
    whole = np.zeros(80, np.float32)
    start = (-whole.ctypes.data // 4) % 4
    a, b = whole[start : start + 64], np.zeros(80, np.float32)
    b = b[(-b.ctypes.data // 4) % 4 :][:64]
    wide(a, b)
    expect(lambda: wide(whole[start + 1 : start + 65], b), wide_kernel, "here", "not a multiple of 16")


def test_examples_are_clean(example, rng: np.random.Generator):
    for name, sizes in (("vector_add", (1001,)), ("predicated_add", (33, 70)), ("tiled_mma", (64, 32, 16))):
        module = example(name)
        args, out, expected = module.make_args(*sizes, rng)
        getattr(module, name)(*args)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_nothing_is_left_when_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FLYDSL_CPU_CHECK")
    a = np.zeros(128, np.float32)
    text = flyc.compile(shift, a, a.copy(), 0).artifact.llvm_ir
    assert "fly_report" not in text and "fly_table" not in text


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how large a process is comes from Linux")
def test_kernels_share_the_table_of_words():
    """It takes 48 MB: a process with a hundred checked kernels must not have one for each."""

    def data() -> int:
        return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE") >> 20

    def call(factor: int) -> None:
        @flyc.kernel
        def kernel(x: fx.Tensor):
            x[fx.thread_idx.x] = x[fx.thread_idx.x] * factor

        @flyc.jit
        def run(x: fx.Tensor):
            kernel(x).launch(grid=1, block=64)

        x = np.ones(64, np.int32)
        run(x)
        assert (x == factor).all()

    call(2)
    before = data()
    for factor in range(3, 7):
        call(factor)
    assert data() - before < 90
