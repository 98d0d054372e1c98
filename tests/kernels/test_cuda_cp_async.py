"""`cp.async` that fills up with zeros, and whose completion a barrier in shared memory counts."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.build import driver
from flydsl.errors import DSLCompileError, KernelCheckError
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx

THREADS = 64
ROWS = 2


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", request.param)
    if request.param == "cpu":
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_80")
        # Nothing outside a tensor is read.
        monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    return request.param


def compiled(function: Any, args: Any, arch: str) -> str:
    """PTX that `ptxas`, where there is one, has taken."""
    text = flyc.compile(function, *args, target=f"cuda:{arch}").artifact.asm
    if tools.try_find_tool("ptxas") is not None:
        ptx.assemble(text)
    return text


def aligned(t: torch.Tensor) -> Any:
    return flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(1)


@flyc.kernel
def by_predicate_kernel(x: fx.Tensor, y: fx.Tensor, units: fx.Int32, copy: fx.TiledCopy, bits: fx.Constexpr[int]):
    """A tile of units into shared memory that held something else; rows beyond the last are zeros."""
    tid, count = fx.thread_idx.x, bits // x.dtype.width
    smem = fx.make_view(fx.get_dyn_shared(x.dtype), fx.make_layout((ROWS * THREADS, count), (count, 1)))
    mine = copy.get_slice(tid)
    source = mine.partition_S(fx.flat_divide(x, (ROWS * THREADS, count))[None, None, fx.block_idx.x, 0])
    target = mine.partition_D(smem)
    there = fx.make_rmem_tensor((1, ROWS, 1), fx.Boolean)
    for i in fx.range_constexpr(ROWS):
        there[0, i, 0] = (fx.block_idx.x * ROWS + i) * THREADS + tid < units
        for e in fx.range_constexpr(count):
            smem[i * THREADS + tid, e] = x.dtype(77)
    fx.barrier()
    fx.copy(fx.make_copy_atom(fx.nvgpu.CpAsync(bits, zero_fill=True), x.dtype), source, target, pred=there)
    fx.nvgpu.cp_async_commit()
    fx.nvgpu.cp_async_wait(0)
    fx.barrier()
    for i in fx.range_constexpr(ROWS):
        for e in fx.range_constexpr(count):
            y[(fx.block_idx.x * ROWS + i) * THREADS + tid, e] = smem[i * THREADS + tid, e]


@flyc.jit
def by_predicate(x: fx.Tensor, y: fx.Tensor, units: fx.Int32, bits: fx.Constexpr[int]):
    count = bits // x.dtype.width
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync(bits, zero_fill=True), x.dtype)
    copy = fx.make_tiled_copy_tv(atom, fx.make_layout((THREADS, 1), (1, 1)), fx.make_layout((1, count), (1, 1)))
    by_predicate_kernel(x, y, units, copy, bits).launch(
        grid=fx.ceildiv(units, ROWS * THREADS), block=THREADS, smem=ROWS * THREADS * bits // 8
    )


KINDS = [(32, torch.float32), (64, torch.int8), (128, torch.float16), (128, torch.float64)]


@pytest.mark.parametrize(("bits", "dtype"), KINDS)
def test_false_predicates_give_zeros(bits: int, dtype: torch.dtype, rng: np.random.Generator, device: str):
    count = bits // 8 // dtype.itemsize
    units = int(rng.integers(1, 2 * ROWS * THREADS))
    x = torch.from_numpy(rng.integers(1, 100, (units, count))).to(dtype).to(device)
    rows = -(-units // (ROWS * THREADS)) * ROWS * THREADS
    y = torch.full((rows, count), 55).to(dtype).to(device)
    by_predicate(aligned(x), aligned(y), units, bits)
    assert torch.equal(y[:units], x) and bool((y[units:] == 0).all())


@flyc.kernel
def by_count_kernel(x: fx.Tensor, y: fx.Tensor, bits: fx.Constexpr[int], state: fx.Constexpr[bool]):
    """Thread t copies the unit of row t; `valid` is how far the row of this length reaches."""
    tid, count = fx.thread_idx.x, bits // x.dtype.width
    smem = fx.make_view(fx.get_dyn_shared(x.dtype), fx.make_layout((THREADS, count), (count, 1)))
    for e in fx.range_constexpr(count):
        smem[tid, e] = x.dtype(77)
    valid = tid % (count + 4) - 2
    row = fx.make_view(fx.get_iter(x) + tid * count, fx.make_layout(count, 1))
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync(bits, "cg" if bits == 128 else "ca", zero_fill=True), x.dtype)
    if fx.const_expr(state):
        fx.copy(atom, row, smem[tid, None], valid=valid)
    else:
        wanted = fx.make_rmem_tensor(1, fx.Boolean)
        wanted[0] = tid % 3 != 0
        fx.copy_atom_call(atom.set_value("valid", valid), row, smem[tid, None], pred=wanted)
    fx.nvgpu.cp_async_wait_all()
    for e in fx.range_constexpr(count):
        y[tid, e] = smem[tid, e]


@flyc.jit
def by_count(x: fx.Tensor, y: fx.Tensor, bits: fx.Constexpr[int], state: fx.Constexpr[bool]):
    by_count_kernel(x, y, bits, state).launch(grid=1, block=THREADS, smem=THREADS * bits // 8)


@pytest.mark.covering
@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize(("bits", "dtype"), KINDS)
def test_elements_that_are_not_there(bits: int, dtype: torch.dtype, state: bool, rng: np.random.Generator, device: str):
    """Less than none and more than all are none and all; a predicate as well takes everything away."""
    count = bits // 8 // dtype.itemsize
    x = torch.from_numpy(rng.integers(1, 100, (THREADS, count))).to(dtype).to(device)
    y = torch.full((THREADS, count), 55).to(dtype).to(device)
    by_count(aligned(x), aligned(y), bits, state)
    t, e = torch.arange(THREADS)[:, None], torch.arange(count)[None]
    there = (e < t % (count + 4) - 2) & (torch.tensor(state) | (t % 3 != 0))
    assert torch.equal(y.cpu(), torch.where(there, x.cpu(), torch.zeros((), dtype=dtype)))


def test_pass_by_pass(monkeypatch: pytest.MonkeyPatch):
    """The same when each pass leaves its IR to the next."""
    monkeypatch.setattr(driver, "wanted", lambda: True)
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_80")
    x = torch.arange(1, 101.0).reshape(25, 4)
    y = torch.full((ROWS * THREADS, 4), 55.0)
    by_predicate(aligned(x), aligned(y), 25, 128)
    assert torch.equal(y[:25], x) and bool((y[25:] == 0).all())
    x, z = torch.ones(THREADS, 4), torch.full((THREADS, 4), 55.0)
    by_count(aligned(x), aligned(z), 128, False)
    t, e = torch.arange(THREADS)[:, None], torch.arange(4)[None]
    assert torch.equal(z, ((e < t % 8 - 2) & (t % 3 != 0)).float())
    text = flyc.compile(by_count, aligned(x), aligned(z), 128, False, target="cuda:sm_80").artifact.asm
    assert text.count("cp.async.cg.shared.global") == 1 and ", 16, %r" in text


@pytest.mark.parametrize(("bits", "cache"), [(32, "ca"), (64, "ca"), (128, "cg")])
def test_source_sizes_compile(bits: int, cache: str):
    args = [aligned(torch.zeros(64, bits // 16).half()) for _ in range(2)]
    for function, more in ((by_predicate, (8, bits)), (by_count, (bits, True))):
        lines = [line for line in compiled(function, (*args, *more), "sm_80").splitlines() if "shared.global" in line]
        word = f"cp.async.{cache if function is by_count else 'ca'}.shared.global"
        assert lines and all(word in line for line in lines)
        assert all(f", {bits // 8}, %r" in line for line in lines), lines


@flyc.kernel
def all_there_kernel(x: fx.Tensor, y: fx.Tensor):
    smem = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((32, 4), (4, 1)))
    row = fx.make_view(fx.get_iter(x) + fx.thread_idx.x * 4, fx.make_layout(4, 1))
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync(128, zero_fill=True), fx.Float32)
    fx.copy(atom, row, smem[fx.thread_idx.x, None])
    fx.copy(atom, row, smem[fx.thread_idx.x, None], valid=9)
    fx.nvgpu.cp_async_wait_all()
    y[fx.thread_idx.x] = smem[fx.thread_idx.x, 0]


@flyc.jit
def all_there(x: fx.Tensor, y: fx.Tensor):
    all_there_kernel(x, y).launch(grid=1, block=32, smem=512)


def test_nothing_left_out_needs_no_size():
    """What is known to be whole is the plain instruction, or one with a constant."""
    x = np.zeros(128, "f4")
    lines = [line for line in compiled(all_there, (x, x), "sm_80").splitlines() if "cp.async.ca" in line]
    assert (
        len(lines) == 2 and lines[0].rstrip().endswith(", 16;") and lines[1].rstrip().endswith((", 16;", ", 16, 16;"))
    )


def _misused(body: Any, arch: str = "sm_80") -> None:
    @flyc.kernel
    def kernel(x: fx.Tensor):
        body(x)

    @flyc.jit
    def function(x: fx.Tensor):
        kernel(x).launch(grid=1, block=32, smem=1024)

    flyc.compile(function, np.zeros((8, 4), "f4"), target=f"cuda:{arch}")


def _unknown_state(x: fx.Tensor) -> None:
    fx.make_copy_atom(fx.nvgpu.CpAsync(32), fx.Float32).set_value("valid", 1)


def _wrong_way(x: fx.Tensor) -> None:
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync(32, zero_fill=True), fx.Float32)
    fx.copy_atom_call(atom, fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout(1, 1)), x[0, None])


def _two_arrivals(x: fx.Tensor) -> None:
    fx.nvgpu.MBarrier(fx.get_dyn_shared(fx.Int64)).arrive(2)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (_unknown_state, ValueError, "unknown atom state 'valid'"),
        (_wrong_way, DSLCompileError, "copies from global to shared memory, got"),
        (_two_arrivals, DSLCompileError, "an mbarrier of sm_80 counts one arrival at a time; several need sm_90"),
    ],
)
def test_misuse(body: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        _misused(body)


# --- barriers -----------------------------------------------------------------------------------------------------


@flyc.kernel
def counted_kernel(x: fx.Tensor, y: fx.Tensor, rounds: fx.Int32, noinc: fx.Constexpr[bool]):
    """Each round all threads copy four values, and each reads those of another when the barrier says they are there."""
    nv, tid = fx.nvgpu, fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float32)
    smem = fx.make_view(base, fx.make_layout((THREADS, 4, 2), (4, 1, 4 * THREADS)))
    full = nv.MBarrier(base + 2 * 4 * THREADS)
    if tid == 0:
        full.init(THREADS)
    fx.barrier()
    atom = fx.make_copy_atom(nv.CpAsync(128), fx.Float32)
    for i in range(rounds):
        row = fx.make_view(fx.get_iter(x) + (i * THREADS + tid) * 4, fx.make_layout(4, 1))
        fx.copy(atom, row, smem[tid, None, i % 2])
        full.arrive_after_copies(noinc=noinc)
        if fx.const_expr(not noinc):
            full.arrive()
        full.wait(i % 2)
        for e in fx.range_constexpr(4):
            y[i * THREADS + tid, e] = smem[(tid * 7 + 5) % THREADS, e, i % 2]


@flyc.jit
def counted(x: fx.Tensor, y: fx.Tensor, rounds: fx.Int32, noinc: fx.Constexpr[bool]):
    counted_kernel(x, y, rounds, noinc).launch(grid=1, block=THREADS, smem=2 * 16 * THREADS + 8)


@pytest.mark.parametrize("noinc", [True, False])
def test_copies_are_counted(noinc: bool, rng: np.random.Generator, device: str):
    rounds = int(rng.integers(1, 9))
    x = torch.from_numpy(rng.standard_normal((rounds * THREADS, 4))).float().to(device)
    y = torch.full_like(x, float("nan"))
    counted(aligned(x), aligned(y), rounds, noinc)
    other = (torch.arange(THREADS) * 7 + 5) % THREADS
    assert torch.equal(y.view(rounds, THREADS, 4).cpu(), x.view(rounds, THREADS, 4).cpu()[:, other])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("noinc", [True, False])
def test_counted_copies_compile(noinc: bool, arch: str):
    x = np.zeros((64, 4), "f4")
    text = compiled(counted, (x, x, 3, noinc), arch)
    word = "cp.async.mbarrier.arrive.noinc.shared" if noinc else "cp.async.mbarrier.arrive.shared"
    assert word in text
    assert ("mbarrier.test_wait.parity" in text) == (arch == "sm_80") == ("mbarrier.try_wait.parity" not in text)
    assert (" \tmbarrier.arrive" in text or "\tmbarrier.arrive.shared" in text) == (not noinc)


@flyc.kernel
def unwaited_kernel(x: fx.Tensor, y: fx.Tensor, how: fx.Constexpr[str]):
    """Data that a barrier counts is there when the barrier says so, or when the thread has waited itself."""
    tid = fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float32)
    full = fx.nvgpu.MBarrier(base + THREADS)
    if tid == 0:
        full.init(THREADS)
    fx.barrier()
    smem = fx.make_view(base, fx.make_layout((THREADS, 1), (1, 1)))
    row = fx.make_view(fx.get_iter(x) + tid, fx.make_layout(1, 1))
    fx.copy(fx.make_copy_atom(fx.nvgpu.CpAsync(32), fx.Float32), row, smem[tid, None])
    full.arrive_after_copies(noinc=True)
    if fx.const_expr(how == "barrier"):
        full.wait(0)
    if fx.const_expr(how == "group"):
        fx.nvgpu.cp_async_wait_all()
    y[tid] = smem[tid, 0]  # bug


@flyc.jit
def unwaited(x: fx.Tensor, y: fx.Tensor, how: fx.Constexpr[str]):
    unwaited_kernel(x, y, how).launch(grid=1, block=THREADS, smem=4 * THREADS + 8)


@pytest.mark.parametrize("how", ["barrier", "group", "not at all"])
def test_checked_mode_knows_who_waited(how: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_80")
    x, y = np.arange(THREADS, dtype="f4"), np.full(THREADS, np.nan, "f4")
    if how != "not at all":
        unwaited(x, y, how)
        np.testing.assert_array_equal(y, x)
        return
    lines, first = inspect.getsourcelines(unwaited_kernel.__wrapped__)
    bug = first + next(i for i, line in enumerate(lines) if "# bug" in line)
    with pytest.raises(KernelCheckError, match="an asynchronous copy writes, before") as error:
        unwaited(x, y, how)
    assert f"test_cuda_cp_async.py:{bug}" in str(error.value)


@flyc.kernel
def product_kernel(x: fx.Tensor, y: fx.Pointer, by_barrier: fx.Constexpr[bool]):
    """Both operands are 64 by 16 elements that threads have copied."""
    nv, tid = fx.nvgpu, fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float16)
    full = nv.MBarrier(fx.recast_iter(fx.Int64, base + 1024))
    if tid == 0:
        full.init(128)
        nv.fence_mbarrier_init()
    fx.barrier()
    units = fx.make_layout((8, 128), (1, 8))
    copy = fx.make_copy_atom(nv.CpAsync128b(), fx.Float16)
    fx.copy(copy, fx.make_view(fx.get_iter(x), units)[None, tid], fx.make_view(base, units)[None, tid])
    if fx.const_expr(by_barrier):
        full.arrive_after_copies(noinc=True)
        full.wait(0)
        nv.fence_proxy_async()
    else:
        nv.cp_async_commit()
        nv.cp_async_wait(0)
        fx.barrier()
    mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(64, 16, fx.Float16)), fx.make_layout((1, 1, 1), (0, 0, 0)))
    both = fx.make_view(base, fx.make_layout(((8, 8), (8, 2)), ((8, 128), (1, 64))))
    part = mma.get_slice(0)
    sums = fx.make_rmem_tensor(fx.make_layout(((2, 2, 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
    sums.fill(0.0)
    fx.gemm(mma, sums, part.partition_A(both)[None, None, 0], part.partition_B(both)[None, None, 0], sums)
    nv.wgmma_wait(0, sums)
    values = sums.load().reshape(32)
    for i in fx.range_constexpr(32):
        y[tid * 32 + i] = values[i]


@flyc.jit
def product(x: fx.Tensor, y: fx.Tensor, by_barrier: fx.Constexpr[bool]):
    product_kernel(x, fx.get_iter(y), by_barrier).launch(grid=1, block=128, smem=2056)


@pytest.mark.parametrize("by_barrier", [False, True])
def test_fences_are_behind_copies_that_are_there(by_barrier: bool):
    """Tensor cores read what was copied: one fence, behind the wait for it and in front of the product."""
    args = aligned(torch.zeros(8, 128).half()), np.zeros(4096, "f4"), by_barrier
    text = compiled(product, args, "sm_90a")
    start, fence = text.index("cp.async.cg.shared.global"), text.index("fence.proxy.async")
    wait = text.index("mbarrier.try_wait" if by_barrier else "cp.async.wait_group")
    assert text.count("fence.proxy.async") == 1
    assert start < wait < fence < text.index("wgmma.mma_async")
