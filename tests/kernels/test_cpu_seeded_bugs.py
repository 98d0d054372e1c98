"""One kernel per class of mistakes that checked mode knows: the bug is reported at its line, the mended kernel is not.

Each kernel has the line with the mistake marked `# bug` and runs without it when `mended` is set.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import KernelCheckError, KernelDeadlockError


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")


N = 64


def floats(n: int = N) -> np.ndarray:
    """Values that start at a multiple of 64 bytes."""
    whole = np.arange(n + 16, dtype=np.float32)
    start = (-whole.ctypes.data // 4) % 16
    return whole[start : start + n]


# --- memory -----------------------------------------------------------------------------------------------------------


@flyc.kernel
def global_kernel(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    row = t // 8 if fx.const_expr(mended) else t // 8 + 1
    out[t] = a[row, t % 8]  # bug


@flyc.jit
def global_bounds(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    global_kernel(a, out, mended).launch(grid=1, block=N)


@flyc.kernel
def shared_kernel(out: fx.Tensor, mended: fx.Constexpr[bool]):
    shared = fx.SharedAllocator()
    s = shared.allocate(fx.Array[fx.Int32, N]).peek()
    behind = shared.allocate(fx.Array[fx.Int32, N]).peek()
    t = fx.thread_idx.x
    behind[t] = 0
    fx.barrier()
    s[t if fx.const_expr(mended) else t + 1] = t  # bug
    fx.barrier()
    out[t] = s[t] + behind[t] if fx.const_expr(mended) else 0


@flyc.jit
def shared_bounds(out: fx.Tensor, mended: fx.Constexpr[bool]):
    shared_kernel(out, mended).launch(grid=1, block=N)


@flyc.kernel
def register_kernel(out: fx.Tensor, n: fx.Int32, mended: fx.Constexpr[bool]):
    r = fx.make_rmem_tensor(4, fx.Int32)
    t = fx.thread_idx.x
    for i in range(n if fx.const_expr(mended) else n + 1):
        r[i] = t + i  # bug
    out[t] = r[n - 1]


@flyc.jit
def register_bounds(out: fx.Tensor, n: fx.Int32, mended: fx.Constexpr[bool]):
    register_kernel(out, n, mended).launch(grid=1, block=N)


@flyc.kernel
def misaligned_kernel(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    r = fx.make_rmem_tensor(4, fx.Float32)
    step = 0 if fx.const_expr(mended) else 1
    source = fx.make_view(fx.get_iter(a) + t * 4 + step, fx.make_layout(4, 1))
    fx.copy_atom_call(atom, source, r)  # bug
    out[t] = r[0]


@flyc.jit
def misaligned(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    misaligned_kernel(a, out, mended).launch(grid=1, block=15)


# --- races ------------------------------------------------------------------------------------------------------------


@flyc.kernel
def write_write_kernel(out: fx.Tensor, mended: fx.Constexpr[bool]):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 128]).peek()
    t = fx.thread_idx.x
    s[t] = 0
    fx.barrier()
    s[t if fx.const_expr(mended) else t % 64] = t + 1  # bug
    fx.barrier()
    out[t] = s[t]


@flyc.jit
def write_write(out: fx.Tensor, mended: fx.Constexpr[bool]):
    write_write_kernel(out, mended).launch(grid=1, block=128)


@flyc.kernel
def read_write_kernel(out: fx.Tensor, mended: fx.Constexpr[bool]):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 128]).peek()
    t = fx.thread_idx.x
    s[t] = t
    fx.barrier()
    other = s[127 - t]
    if fx.const_expr(mended):
        fx.barrier()
    s[t] = other + 1000  # bug
    fx.barrier()
    out[t] = s[t]


@flyc.jit
def read_write(out: fx.Tensor, mended: fx.Constexpr[bool]):
    read_write_kernel(out, mended).launch(grid=1, block=128)


@flyc.kernel
def lanes_kernel(out: fx.Tensor, mended: fx.Constexpr[bool]):
    """One warp: its lanes are in no order of their own."""
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 32]).peek()
    t = fx.thread_idx.x
    s[t] = t
    fx.barrier()
    s[t] = t + 100
    if fx.const_expr(mended):
        fx.barrier()
    out[t] = s[31 - t]  # bug


@flyc.jit
def lanes(out: fx.Tensor, mended: fx.Constexpr[bool]):
    lanes_kernel(out, mended).launch(grid=1, block=32)


@flyc.kernel
def unwritten_kernel(out: fx.Tensor, mended: fx.Constexpr[bool]):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, N]).peek()
    t = fx.thread_idx.x
    if t < (N if fx.const_expr(mended) else N - 1):
        s[t] = t
    fx.barrier()
    out[t] = s[t]  # bug


@flyc.jit
def unwritten(out: fx.Tensor, mended: fx.Constexpr[bool]):
    unwritten_kernel(out, mended).launch(grid=2, block=N)


@flyc.kernel
def divergent_kernel(out: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    if t < (N if fx.const_expr(mended) else 40):
        fx.barrier()  # bug
    out[t] = t


@flyc.jit
def divergent(out: fx.Tensor, mended: fx.Constexpr[bool]):
    divergent_kernel(out, mended).launch(grid=1, block=N)


# --- asynchronous copies ----------------------------------------------------------------------------------------------


@flyc.kernel
def cp_async_kernel(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    """Two groups; the second is waited for too late."""
    s = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((4, N, 2), (1, 4, 4 * N)))
    t = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync(128), fx.Float32)
    parts = fx.flat_divide(a, (4,))
    for i in fx.range_constexpr(2):
        fx.copy_atom_call(atom, parts[None, t], s[None, t, i])
        fx.nvgpu.cp_async_commit()
    fx.nvgpu.cp_async_wait(0 if fx.const_expr(mended) else 1)
    fx.barrier()
    out[t] = s[0, N - 1 - t, 0] + s[0, t, 1]  # bug


@flyc.jit
def cp_async(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    cp_async_kernel(a, out, mended).launch(grid=1, block=N, smem=8 * 4 * N)


@flyc.kernel
def to_shared_kernel(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    s = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout(N, 1))
    t = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.rocdl.cdna4.GlobalLoadAsyncLDS32b(), fx.Float32)
    fx.copy_atom_call(atom, fx.flat_divide(a, (1,))[None, t], s)
    fx.rocdl.asyncmark()
    if fx.const_expr(mended):
        fx.rocdl.wait_asyncmark(0)
    fx.rocdl.s_barrier()
    out[t] = s[N - 1 - t]  # bug


@flyc.jit
def to_shared(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    to_shared_kernel(a, out, mended).launch(grid=1, block=N, smem=4 * N)


@flyc.kernel
def tma_load_kernel(load: Any, out: fx.Tensor, mended: fx.Constexpr[bool]):
    """Only one thread waits for the copy, and nobody waits for that thread."""
    t = fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float32)
    s = fx.make_view(base, fx.make_layout((8, 8), (8, 1)))
    barrier = fx.nvgpu.MBarrier(base + N)
    if t == 0:
        barrier.init(1)
        fx.nvgpu.fence_mbarrier_init()
    fx.barrier()
    if t == 0:
        barrier.expect_tx(load.nbytes)
        load.load((0, 0), s, barrier)
    if fx.const_expr(mended):
        barrier.wait(0)
    else:
        if t == 0:
            barrier.wait(0)
    out[t] = s[t // 8, t % 8]  # bug


@flyc.jit
def tma_load(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), a, None, (8, 8))
    tma_load_kernel(load, out, mended).launch(grid=1, block=N, smem=4 * N + 8)


@flyc.kernel
def tma_store_kernel(store: Any, mended: fx.Constexpr[bool]):
    """Shared memory is written again while it is being stored."""
    t = fx.thread_idx.x
    s = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((8, 8), (8, 1)))
    s[t // 8, t % 8] = t.to(fx.Float32)
    fx.nvgpu.fence_proxy_async()
    fx.barrier()
    if t == 0:
        store.store(s, (0, 0))
        fx.nvgpu.tma_commit()
        if fx.const_expr(mended):
            fx.nvgpu.tma_wait(0, read=True)
    fx.barrier()
    s[t // 8, t % 8] = -1.0  # bug


@flyc.jit
def tma_store(a: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    store = fx.nvgpu.make_tma_atom(fx.nvgpu.TMAStore(), a, None, (8, 8))
    tma_store_kernel(store, mended).launch(grid=1, block=N, smem=4 * N)


# --- offsets ----------------------------------------------------------------------------------------------------------


@flyc.kernel
def overflow_kernel(out: fx.Tensor, stride: fx.Int32, mended: fx.Constexpr[bool]):
    """Wraps around to an index that is inside again."""
    t = fx.thread_idx.x
    far = t * stride * 4
    if fx.const_expr(mended):
        far = fx.Int32(0)
    out[far + t] = 1.0  # bug


@flyc.jit
def overflow(out: fx.Tensor, stride: fx.Int32, mended: fx.Constexpr[bool]):
    overflow_kernel(out, stride, mended).launch(grid=1, block=N)


class Case(NamedTuple):
    """A jit function, its kernel, its arguments but the last, words of the report, and what is emulated."""

    run: Any
    kernel: Any
    args: Callable[[], tuple[Any, ...]]
    words: str
    arch: str = "native"


def square() -> np.ndarray:
    return floats().reshape(8, 8)


def ints(n: int = N) -> np.ndarray:
    return np.zeros(n, np.int32)


CASES = {
    "global bounds": Case(global_bounds, global_kernel, lambda: (square(), floats()), "read out of bounds"),
    "shared bounds": Case(shared_bounds, shared_kernel, lambda: (ints(),), "write out of bounds of shared memory"),
    "register bounds": Case(
        register_bounds, register_kernel, lambda: (ints(), 4), "write out of bounds of a register tensor"
    ),
    "misaligned": Case(misaligned, misaligned_kernel, lambda: (floats(), floats()), "not a multiple of 16"),
    "two writers": Case(write_write, write_write_kernel, lambda: (ints(128),), "write of what another thread wrote"),
    "write after read": Case(read_write, read_write_kernel, lambda: (ints(128),), "write of what another thread read"),
    "lanes": Case(lanes, lanes_kernel, lambda: (ints(32),), "race on shared memory"),
    "unwritten": Case(unwritten, unwritten_kernel, lambda: (ints(),), "nobody has written"),
    "divergent": Case(divergent, divergent_kernel, lambda: (ints(),), "do not all come to this barrier"),
    "cp.async": Case(
        cp_async, cp_async_kernel, lambda: (floats(4 * N), floats()), "an asynchronous copy writes, before", "sm_80"
    ),
    "to shared": Case(
        to_shared, to_shared_kernel, lambda: (floats(), floats()), "an asynchronous copy writes, before", "gfx950"
    ),
    "tma load": Case(tma_load, tma_load_kernel, lambda: (square(), floats()), "an asynchronous copy writes", "sm_90a"),
    "tma store": Case(
        tma_store, tma_store_kernel, lambda: (square(), floats()), "asynchronous copy still reads", "sm_90a"
    ),
    "overflow": Case(overflow, overflow_kernel, lambda: (floats(), 1 << 30), "32-bit offset"),
}


def bug_line(kernel: Any) -> str:
    """`file:line` of the marked line of a kernel."""
    source, start = inspect.getsourcelines(inspect.unwrap(getattr(kernel, "function", kernel)))
    number = next(i for i, text in enumerate(source) if "# bug" in text)
    return f"{__file__}:{start + number}:"


@pytest.mark.parametrize("name", CASES)
def test_seeded_bug(name: str, emulate):
    case = CASES[name]
    emulate(case.arch)
    with pytest.raises(KernelCheckError) as caught:
        case.run(*case.args(), False)
    text = str(caught.value)
    said = [line for line in text.splitlines() if case.words in line]
    assert any(line.lstrip().partition(": ")[0] + ":" == bug_line(case.kernel) for line in said), text
    assert all("thread " in line and "of block (" in line for line in said), text


@pytest.mark.parametrize("name", CASES)
def test_mended_kernel_is_clean(name: str, emulate):
    case = CASES[name]
    emulate(case.arch)
    case.run(*case.args(), True)


def test_report_names_tensor_and_index():
    a = floats().reshape(8, 8)
    with pytest.raises(KernelCheckError, match=r"argument 0 \('a'\).*thread 56 of.*address 0x.*index \(8, 0\)"):
        global_bounds(a, floats(), False)


def test_report_names_both_lines_of_a_race():
    with pytest.raises(KernelCheckError) as caught:
        read_write(ints(128), False)
    source, start = inspect.getsourcelines(inspect.unwrap(getattr(read_write_kernel, "function", read_write_kernel)))
    first = next(i for i, text in enumerate(source) if "other = s[127 - t]" in text)
    assert f"the other access: thread 63 at {__file__}:{start + first}" in str(caught.value), str(caught.value)


def test_each_place_reports_once():
    with pytest.raises(KernelCheckError) as caught:
        divergent(ints(), False)
    assert str(caught.value).count("do not all come") == 1


# --- waits that never end, checked or not -----------------------------------------------------------------------------


@flyc.kernel
def stuck_kernel(out: fx.Tensor, count: fx.Int32, poll: fx.Constexpr[bool]):
    barrier = fx.nvgpu.MBarrier(fx.get_dyn_shared(fx.Int64))
    if fx.thread_idx.x == 0:
        barrier.init(count)
    fx.barrier()
    barrier.arrive()
    if fx.const_expr(poll):
        while not barrier.test(0):  # poll
            pass
    else:
        barrier.wait(0)  # wait
    out[fx.block_idx.x, fx.thread_idx.x] = 1


@flyc.jit
def stuck(out: fx.Tensor, count: fx.Int32, poll: fx.Constexpr[bool]):
    stuck_kernel(out, count, poll).launch(grid=3, block=32, smem=8)


@pytest.mark.parametrize("check", ["0", "1"])
@pytest.mark.parametrize("poll", [False, True])
def test_endless_wait_is_an_error(poll: bool, check: str, emulate, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", check)
    emulate("sm_90a")
    out = np.zeros((3, 32), np.int32)
    with pytest.raises(KernelDeadlockError, match="stuck_kernel") as caught:
        stuck(out, 33, poll)
    source, start = inspect.getsourcelines(inspect.unwrap(getattr(stuck_kernel, "function", stuck_kernel)))
    number = next(i for i, text in enumerate(source) if ("# poll" if poll else "# wait") in text)
    assert f"test_cpu_seeded_bugs.py:{start + number}:" in str(caught.value)
    assert "of block (" in str(caught.value) and not out.any()
    stuck(out, 32, poll)
    assert out.all()


@flyc.kernel
def named_kernel(out: fx.Tensor, expected: fx.Constexpr[int]):
    fx.nvgpu.named_barrier(1, expected).sync()
    out[fx.thread_idx.x] = 1


@flyc.jit
def named(out: fx.Tensor, expected: fx.Constexpr[int]):
    named_kernel(out, expected).launch(grid=1, block=64)


def test_named_barrier_that_never_fills(emulate):
    emulate("sm_90a")
    out = ints()
    with pytest.raises(KernelDeadlockError, match="a wait for a named barrier never ends"):
        named(out, 96)
    named(out, 64)
    assert out.all()


# --- global memory ----------------------------------------------------------------------------------------------------


@flyc.kernel
def blocks_kernel(x: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    """In place: a block reads what its neighbour writes."""
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    to = out if fx.const_expr(mended) else x
    value = x[(i + 1) % 128]
    to[i] = value + 1000.0  # bug


@flyc.jit
def blocks(x: fx.Tensor, out: fx.Tensor, mended: fx.Constexpr[bool]):
    blocks_kernel(x, out, mended).launch(grid=4, block=32)


@flyc.kernel
def threads_kernel(x: fx.Tensor, mended: fx.Constexpr[bool]):
    """Through global memory, with and without a barrier."""
    t = fx.thread_idx.x
    x[t] = 2.0 * t.to(fx.Float32) + 1.0
    if fx.const_expr(mended):
        fx.barrier()
    value = x[63 - t]  # bug
    fx.barrier()
    x[t] = value


@flyc.jit
def threads(x: fx.Tensor, mended: fx.Constexpr[bool]):
    threads_kernel(x, mended).launch(grid=1, block=64)


@pytest.mark.parametrize("cores", ["1", "2"])
def test_races_on_global_memory(cores: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_THREADS", cores)
    for _ in range(2):
        with pytest.raises(KernelCheckError, match=r"race on the tensor of argument 0 \('x'\).*index \(") as caught:
            blocks(floats(128), floats(128), False)
        assert bug_line(blocks_kernel) in str(caught.value)
        with pytest.raises(KernelCheckError, match="race on the tensor") as caught:
            threads(floats(), False)
        assert bug_line(threads_kernel) in str(caught.value)
        blocks(floats(128), floats(128), True)
        threads(floats(), True)
