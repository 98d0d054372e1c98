"""The interpreter gives the bits of compiled code: operations, control flow, threads that meet, atoms, copies."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.cpu.code.routines import ROUTINES
from flydsl.debug.routines import made
from flydsl.debug.session import Launch, Session, interpret
from flydsl.errors import DSLCompileError, KernelCheckError, KernelDeadlockError, LaunchError
from flydsl.kernels.rows import rms_norm
from flydsl.kernels.transpose import transpose
from flydsl.kernels.vector_add import vector_add


def line_of(comment: str) -> int:
    """The line of this file that ends in a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


def both(call: Callable[..., object], *arrays: np.ndarray[Any, Any]) -> int:
    """Call compiled and interpreted on equal copies; all arrays must be equal after, bit by bit."""
    compiled, interpreted = ([a.copy() for a in arrays] for _ in range(2))
    call(*compiled)
    seen: list[Launch] = []

    def run(launch: Launch) -> None:
        seen.append(launch)
        interpret(launch)

    with Session(run).open():
        call(*interpreted)
    for one, two in zip(compiled, interpreted, strict=True):
        np.testing.assert_array_equal(one.view(np.uint8), two.view(np.uint8))
    assert any(one.tobytes() != given.tobytes() for one, given in zip(compiled, arrays, strict=True)), "nothing ran"
    return len(seen)


# --- operations -----------------------------------------------------------------------------------------------------


@flyc.kernel
def integers_kernel(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor, unsigned: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    x, y = a[t], b[t]
    if fx.const_expr(unsigned):
        x, y = fx.Uint32(x), fx.Uint32(y)
    results = [x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, x << (y & 31), x >> (y & 31)]
    results += [fx.Int32(x < y), fx.Int32(x >= y), fx.Int32(fx.Int64(x) * fx.Int64(y) >> 16), fx.Int32(fx.Int8(x))]
    results += [fx.Int32(fx.Int16(y)), fx.Int32(fx.Uint8(x)), -x]
    for i, result in enumerate(results):
        out[i, t] = fx.Int32(result)


@pytest.mark.parametrize("unsigned", [False, True])
def test_integers(unsigned: bool, rng: np.random.Generator):
    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
        integers_kernel(a, b, out, unsigned).launch(grid=1, block=64)

    a = rng.integers(-(2**31), 2**31, 64).astype(np.int32)
    b = rng.integers(-40, 40, 64).astype(np.int32)
    a[:3], b[:4] = (-(2**31), 2**31 - 1, 0), (-1, 0, 1, -(2**31))
    both(run, a, b, np.full((17, 64), 77, np.int32))


@flyc.kernel
def floats_kernel(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor, dtype: fx.Constexpr):
    t = fx.thread_idx.x
    x, y = dtype(a[t]), dtype(b[t])
    results = [x + y, x - y, x * y, x / y, -x, fx.math.sqrt(x * x), fx.math.floor(x), fx.math.ceil(y)]
    results += [fx.math.absf(x), fx.math.fma(x, y, x), fx.math.exp(y), fx.math.sin(x)]
    results += [fx.Float32(fx.Int32(fx.Float32(x) * 100.0)), x if x < y else y]
    for i, result in enumerate(results):
        out[i, t] = fx.Float64(result)


@pytest.mark.parametrize("dtype", [fx.Float16, fx.BFloat16, fx.Float32, fx.Float64])
def test_floats(dtype: Any, rng: np.random.Generator):
    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
        floats_kernel(a, b, out, dtype).launch(grid=1, block=32)

    a, b = rng.standard_normal((2, 32))
    a[:4], b[:4] = (0.0, -0.0, np.inf, 1e-5), (0.0, 3.0, 2.0, np.nan)
    out = np.zeros((14, 32))

    def quiet(*arrays: Any) -> None:
        run(*arrays)
        # Which NaN an operation gives is nobody's promise.
        arrays[2][np.isnan(arrays[2])] = 7e77

    both(quiet, a, b, out)


@flyc.kernel
def small_kernel(a: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    for i, dtype in enumerate([fx.Float8E4M3FN, fx.Float8E5M2, fx.Float8E4M3FNUZ]):
        code = dtype(a[t])
        out[i, t] = fx.Float32(code)


def test_small_floats(rng: np.random.Generator):
    @flyc.jit
    def run(a: fx.Tensor, out: fx.Tensor):
        small_kernel(a, out).launch(grid=1, block=64)

    a = (rng.standard_normal(64) * 2.0 ** rng.integers(-12, 10, 64)).astype(np.float32)
    both(run, a, np.zeros((3, 64), np.float32))


# --- threads that meet ------------------------------------------------------------------------------------------------


@flyc.kernel
def meeting_kernel(a: fx.Tensor, out: fx.Tensor, count: fx.Tensor, n: fx.Int32):
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 96]).peek()
    t = fx.thread_idx.x
    i = fx.block_idx.x * 96 + t
    x = fx.Float32(a[i] if i < n else 0.0)
    tile[95 - t] = x
    fx.barrier()
    total = tile[t] + fx.shuffle_xor(x, 4) * 2.0
    if t % 3 == 0:
        total = total + fx.shuffle_down(x, 3, 16)
    k = t
    while k < 200:
        total = total + fx.Float32(k) * 0.125
        k = k * 2 + 7
    parts = fx.make_rmem_tensor(fx.make_layout(4, 1), fx.Float32)
    for j in range(4):
        parts[(j + t) % 4] = total * fx.Float32(j)
    if i < n:
        out[i] = parts[t % 4] + parts[3]
        fx.atomic_add(fx.get_iter(count), fx.Int32(1) + t)


@pytest.mark.parametrize("arch", ["native", "gfx942"])
def test_threads_that_meet(arch: str, emulate: Callable[[str], None], rng: np.random.Generator):
    emulate(arch)

    @flyc.jit
    def run(a: fx.Tensor, out: fx.Tensor, count: fx.Tensor, n: fx.Int32):
        meeting_kernel(a, out, count, n).launch(grid=fx.ceildiv(n, 96), block=96)

    a = rng.standard_normal(150).astype(np.float32)
    both(lambda a, out, count: run(a, out, count, 150), a, np.zeros_like(a), np.zeros(1, np.int32))


@flyc.kernel
def cluster_kernel(load: Any, out: fx.Tensor, size: fx.Constexpr[int]):
    """A tile for both blocks by one tensor copy; each waits on its own barrier, then reads the other's."""
    nv = fx.nvgpu
    t, b = fx.thread_idx.x, fx.block_idx.x
    base = fx.get_dyn_shared(fx.Float32)
    s = fx.make_view(base, fx.make_layout((8, 8), (8, 1)))
    barrier = nv.MBarrier(base + 64)
    rank = nv.uniform(nv.cluster.rank())
    if t == 0:
        barrier.init(1)
        barrier.expect_tx(load.nbytes)
        nv.fence_mbarrier_init()
    nv.cluster.sync()
    if rank == 0:
        if t == 0:
            load.load((b * 8, 0), s, barrier, multicast=3)
    barrier.wait(0)
    nv.cluster.sync()
    out[b, t] = s[t // 8, t % 8] + nv.cluster.peer(s, rank ^ 1)[t % 8, t // 8]
    nv.cluster.sync()


def test_clusters_mbarriers_and_tensor_copies(emulate: Callable[[str], None], rng: np.random.Generator):
    emulate("sm_90a")

    @flyc.jit
    def run(x: fx.Tensor, out: fx.Tensor):
        load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(multicast=True), x, None, (8, 8))
        cluster_kernel(load, out, 2).launch(grid=4, block=64, smem=264, cluster=2)

    def aligned(x: Any, out: Any) -> None:
        whole = np.empty(x.size + 4, np.float32)
        view = whole[(-whole.ctypes.data // 4) % 4 :][: x.size].reshape(x.shape)
        view[:] = x
        run(view, out)

    both(aligned, rng.standard_normal((32, 8)).astype(np.float32), np.full((4, 64), -1, np.float32))


# --- atoms ------------------------------------------------------------------------------------------------------------


@flyc.kernel
def product_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, mma: fx.TiledMma):
    mine = mma.get_slice(fx.thread_idx.x)
    ra, rb, rc = mine.make_fragment_A(a), mine.make_fragment_B(b), mine.make_fragment_C(c)
    ra.store(mine.partition_A(a).load())
    rb.store(mine.partition_B(b).load())
    rc.fill(0.5)
    fx.gemm(mma, rc, ra, rb, rc)
    mine.partition_C(c).store(rc.load())


@pytest.mark.parametrize("arch", ["sm_80", "gfx942"])
def test_matrix_atoms(arch: str, emulate: Callable[[str], None], rng: np.random.Generator):
    emulate(arch)
    m, n, k, threads = (16, 8, 16, 32) if arch == "sm_80" else (16, 16, 16, 64)

    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
        make = fx.nvgpu.MMA if arch == "sm_80" else fx.rocdl.MFMA
        op = make(m, n, k, fx.Float16)
        mma = fx.make_tiled_mma(fx.make_mma_atom(op), fx.make_layout((1, 1, 1), (1, 1, 0)))
        product_kernel(a, b, c, mma).launch(grid=1, block=threads)

    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((n, k)).astype(np.float16)

    def static(*arrays: Any) -> None:
        run(*(flyc.from_torch_tensor(torch.from_numpy(x)) for x in arrays))

    both(static, a, b, np.full((m, n), np.nan, np.float32))


# --- the library ------------------------------------------------------------------------------------------------------


def test_library_kernels(emulate: Callable[[str], None], rng: np.random.Generator):
    emulate("sm_80")
    x = rng.standard_normal((33, 18)).astype(np.float16)
    both(lambda s, d: transpose(torch.from_numpy(s), torch.from_numpy(d)), x, np.zeros((18, 33), np.float16))
    a, b = rng.standard_normal((2, 301)).astype(np.float32)

    def add(a: Any, b: Any, c: Any) -> None:
        vector_add(*map(torch.from_numpy, (a, b, c)))

    both(add, a, b, np.zeros(301, np.float32))

    def norm(x: Any, weight: Any, out: Any) -> None:
        rms_norm(torch.from_numpy(x), torch.from_numpy(weight), torch.from_numpy(out), 1e-5)

    rows = rng.standard_normal((1, 130)).astype(np.float32)
    both(norm, rows, rng.standard_normal(130).astype(np.float32), np.zeros_like(rows))


def test_examples():
    """Each checks its own numbers."""
    examples = Path(__file__).resolve().parents[2] / "examples"
    seen: list[str] = []

    def run(launch: Launch) -> None:
        seen.append(launch.kernel.name)
        interpret(launch)

    with Session(run).open():
        for name in ("tiled_copy", "predicated_add"):
            runpy.run_path(str(examples / f"{name}.py"), run_name="__main__")
    assert seen == ["tiled_copy_kernel_0", "predicated_add_kernel_0"]


def test_expressions_that_are_evaluated():
    seen: list[Launch] = []

    def run(launch: Launch) -> None:
        seen.append(launch)
        interpret(launch)

    with Session(run).open():
        assert flyc.evaluate(lambda a, b: fx.math.sqrt(a * a + b * b), 3.0, 4.0) == 5.0
    assert len(seen) == 1


# --- what goes wrong --------------------------------------------------------------------------------------------------


@flyc.kernel
def printing_kernel(a: fx.Tensor):
    t = fx.thread_idx.x
    if t % 2 == 1:
        fx.printf("thread {}: {}", t, a[t])


def test_prints(capsys: pytest.CaptureFixture[str]):
    @flyc.jit
    def run(a: fx.Tensor):
        printing_kernel(a).launch(grid=1, block=4)

    with Session(interpret).open():
        run(np.array([0.5, -1.5, 2.0, 3.25], np.float32))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["thread 1", "thread 3"]
    assert [float(line.split(":")[1]) for line in lines] == [-1.5, 3.25]


@flyc.kernel
def wild_kernel(a: fx.Tensor, far: fx.Int64):
    address = fx.ptrtoint(fx.get_iter(a)) + far
    type_ = fx.PointerType.get(fx.Float32.ir_type, fx.AddressSpace.Global)
    a[0] = fx.make_view(fx.inttoptr(type_, address), fx.make_layout(1, 1))[0]


def test_an_address_that_is_not_mapped_is_an_error():
    @flyc.jit
    def run(a: fx.Tensor, far: fx.Int64):
        wild_kernel(a, far).launch(grid=1, block=1)

    a = np.ones(4, np.float32)
    with Session(interpret).open(), pytest.raises(KernelCheckError, match="this process has no memory"):
        run(a, fx.Int64(16 - a.ctypes.data))
    assert a.tolist() == [1, 1, 1, 1]


@flyc.kernel
def stuck_kernel(a: fx.Tensor):
    barrier = fx.nvgpu.MBarrier(fx.get_dyn_shared(fx.Int64))
    if fx.thread_idx.x == 0:
        barrier.init(2)
    fx.barrier()
    barrier.wait(0)  # never
    a[0] = 1.0


def test_a_deadlock_names_its_line(emulate: Callable[[str], None]):
    emulate("sm_90a")

    @flyc.jit
    def run(a: fx.Tensor):
        stuck_kernel(a).launch(grid=1, block=32, smem=8)

    text = rf"test_interpreter\.py:{line_of('never')}.*mbarrier"
    with Session(interpret).open(), pytest.raises(KernelDeadlockError, match=text):
        run(np.zeros(1, np.float32))


@flyc.kernel
def assembly_kernel(a: fx.Tensor):
    fx.inline_asm(None, [], "nop", "")  # refused
    a[0] = 1.0


def test_what_cannot_be_interpreted_is_refused_by_name_and_line():
    @flyc.jit
    def run(a: fx.Tensor):
        assembly_kernel(a).launch(grid=1, block=1)

    refused = line_of("refused")
    with Session(interpret).open(), pytest.raises(DSLCompileError, match=r"cannot run 'llvm\.inline_asm'") as caught:
        run(np.zeros(1, np.float32))
    assert f"line {refused}" in str(caught.value)


def test_a_grid_that_clusters_do_not_divide(emulate: Callable[[str], None]):
    emulate("sm_90a")

    @flyc.kernel
    def kernel(a: fx.Tensor):
        fx.nvgpu.cluster.sync()
        a[fx.block_idx.x] = 1.0

    @flyc.jit
    def run(a: fx.Tensor, blocks: fx.Int32):
        kernel(a).launch(grid=blocks, block=1, cluster=2)

    with Session(interpret).open(), pytest.raises(LaunchError, match="invalid value"):
        run(np.zeros(3, np.float32), 3)


def test_buffers_are_no_addresses(monkeypatch: pytest.MonkeyPatch):
    """A line is marked with the variables there; a buffer has a descriptor, which the marks leave alone."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    monkeypatch.setenv("FLYDSL_CPU_DEBUG", "1")

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        buffer = fx.rocdl.make_buffer_tensor(x)
        t = fx.thread_idx.x
        y[t] = buffer[t] + 1.0

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=8)

    x, y = np.arange(8, dtype="f4"), np.zeros(8, "f4")
    run(x, y)
    np.testing.assert_array_equal(y, x + 1)


@flyc.kernel
def reduce_kernel(x: fx.Tensor, row: fx.Tensor, tiles: fx.Tensor, op: fx.Constexpr[str]):
    width = 32
    t = fx.thread_idx.x
    mine = fx.SharedAllocator().allocate(fx.Array[x.dtype, width, 128]).peek()
    mine[t] = x[fx.block_idx.x, t]
    fx.barrier()
    if t == 0:
        fx.nvgpu.fence_proxy_async()
        fx.nvgpu.bulk_reduce(mine, fx.get_iter(row), op)
        tiles.store(fx.make_view(mine.ptr, fx.make_layout((4, width // 4), (width // 4, 1))), (0, 0))
        fx.nvgpu.tma_commit()
        fx.nvgpu.tma_wait(0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_reductions_into_memory(dtype: torch.dtype, emulate: Callable[[str], None], rng: np.random.Generator):
    emulate("sm_90a")
    ops = ("add",) if dtype is torch.float32 else ("add", "min", "max")

    @flyc.jit
    def run(x: fx.Tensor, row: fx.Tensor, tiles: fx.Tensor, op: fx.Constexpr[str]):
        atom = fx.nvgpu.make_tma_atom(fx.nvgpu.TMAReduce(op), tiles, None, (4, 8))
        reduce_kernel(x, row, atom, op).launch(grid=3, block=32)

    def places(x: Any, out: Any) -> None:
        """Aligned as the copy engine asks, and of the type."""
        given = torch.from_numpy(x).to(dtype)
        for i, op in enumerate(ops):
            whole = torch.zeros(2, 64, dtype=dtype)
            row, tiles = whole[0, :32], whole[1, :32].view(4, 8)
            row[:], tiles[:] = 3, -2
            run(given, row, tiles, op)
            out[i] = torch.cat([row, tiles.reshape(-1)]).to(torch.float64).numpy()

    x = rng.integers(-50, 50, (3, 32)).astype(np.float64)
    both(places, x, np.full((len(ops), 64), -999.0))


@pytest.mark.parametrize("name", sorted(ROUTINES))
def test_every_routine_of_the_cpu_stack_is_read(name: str):
    assert callable(made(name))
