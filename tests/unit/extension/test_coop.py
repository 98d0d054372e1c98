"""Cooperative reductions and scans: classes, errors, and results on the cpu stack."""

import functools
import operator

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.extension.coop.operators import combine, identity

ADD, MUL, MAX, MIN = fx.ReductionOp.ADD, fx.ReductionOp.MUL, fx.ReductionOp.MAX, fx.ReductionOp.MIN
PYTHON = {ADD: operator.add, MUL: operator.mul, MAX: max, MIN: min}


def trace(body, *, block=64, target="rocm:gfx942"):
    """The device IR of a kernel with this body."""
    from flydsl.compiler.frontend.tracing import trace_host
    from flydsl.ir.printer import print_ir
    from flydsl.target import GPUTarget

    @flyc.kernel
    def kernel(n: fx.Int32):
        body(n)

    @flyc.jit
    def launch(n: fx.Int32):
        kernel(n).launch(block=block)

    call = launch.bind((1,), {})
    module, *_ = trace_host("launch", launch.rewritten.function, call.arguments, GPUTarget.parse(target))
    module.verify()
    return print_ir(module, hints=True)


# --- operations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", list(PYTHON))
@pytest.mark.parametrize("dtype", [fx.Int8, fx.Uint16, fx.Int32, fx.Uint64, fx.Float16, fx.Float32, fx.Float64])
def test_identities(op, dtype):
    for x in (0, 1, 3, 100):
        assert combine(op, identity(op, dtype), dtype(x)).value == dtype(x).value
        assert type(combine(op, dtype(x), dtype(x))) is dtype


def test_booleans():
    t, f = fx.Boolean(True), fx.Boolean(False)
    assert bool(combine(MAX, t, f)) and not bool(combine(MIN, t, f))
    assert not bool(identity(MAX, fx.Boolean)) and bool(identity(MIN, fx.Boolean))
    with pytest.raises(TypeError, match="Booleans"):
        combine(ADD, t, f)
    with pytest.raises(TypeError, match="no infinity"):
        identity(MAX, fx.Float8E4M3FN)


# --- errors -------------------------------------------------------------------------------------------------------


def test_warp_errors():
    def body(n):
        for width in (3, 0, 128, -4, 2.0, True):
            with pytest.raises(ValueError, match="power of two"):
                fx.coop.warp_reduce(n, ADD, width=width)
        for op in ("add", None, fx.AtomicOp.Add):
            with pytest.raises(TypeError, match="ReductionOp"):
                fx.coop.warp_reduce(n, op)
            with pytest.raises(TypeError, match="ReductionOp"):
                fx.coop.warp_scan(n, op)
        with pytest.raises(TypeError, match="counts lanes that bring one element"):
            fx.coop.warp_reduce(fx.full(4, 1, fx.Int32), ADD, valid_items=1)

    trace(body)
    with pytest.raises(ValueError, match="warp size 32"):
        trace(lambda n: fx.coop.warp_reduce(n, ADD, width=64), target="cuda:sm_90")


def test_specialisation():
    def body(n):
        reduce = fx.coop.BlockReduce[fx.Float32, (16, 4, 2)]
        assert (reduce.dtype, reduce.block_size, reduce.block_threads) == (fx.Float32, (16, 4, 2), 128)
        assert (reduce.warp_threads, reduce.num_warps) == (64, 2)
        assert reduce.algorithm is fx.coop.BlockReduceAlgorithm.WARP_REDUCTIONS
        assert reduce.SharedStorage is fx.Struct["slots" : fx.Array[fx.Float32, 2]]
        rake = fx.coop.BlockReduce[fx.Int32, 64, fx.coop.BlockReduceAlgorithm.RAKING]
        assert [f.name for f in rake.SharedStorage.__fields__] == ["slots", "result"]
        scan = fx.coop.BlockScan[fx.Int32, 128]
        assert scan.block_size == (128, 1, 1) and scan.algorithm is fx.coop.BlockScanAlgorithm.WARP_SCANS
        with pytest.raises(TypeError, match="already specialized"):
            reduce[fx.Float32, 64]
        with pytest.raises(TypeError, match="not called itself"):
            scan(n, ADD, storage=None)
        for size in (96, 48, 65):
            with pytest.raises(ValueError, match="neither a multiple"):
                fx.coop.BlockReduce[fx.Int32, size]
        for size in (0, -4, 1.5, (1, 2, 3, 4)):
            with pytest.raises(ValueError, match="block_size"):
                fx.coop.BlockScan[fx.Int32, size]
        for key in ((int, 64), (fx.Numeric, 64), fx.Int32):
            with pytest.raises(TypeError):
                fx.coop.BlockReduce[key]

    trace(body)


def test_unspecialised():
    with pytest.raises(TypeError, match="specialize first"):
        fx.coop.BlockReduce(1.0, ADD, storage=None)
    with pytest.raises(TypeError, match="specialize first"):
        fx.coop.BlockScan.inclusive(1.0, ADD, storage=None)
    assert fx.coop.BlockReduce[fx.Float32, 256].block_threads == 256


def test_storage_and_values_are_checked():
    def body(n):
        reduce = fx.coop.BlockReduce[fx.Int32, 128]
        place = fx.SharedAllocator().allocate(reduce.SharedStorage)
        with pytest.raises(TypeError, match="SharedStorage"):
            reduce(n, ADD, storage=3)
        with pytest.raises(TypeError, match="takes Int32, got a Float32"):
            reduce(n.to(fx.Float32), ADD, storage=place.peek())
        with pytest.raises(TypeError, match="ReductionOp"):
            reduce(n, "add", storage=place.peek())
        assert type(reduce(n, ADD, storage=place)) is fx.Int32

    assert "gpu.barrier" in trace(body, block=128)


def test_one_warp_needs_no_barrier():
    def body(n):
        reduce = fx.coop.BlockReduce[fx.Int32, 16]
        reduce(n, ADD, storage=fx.SharedAllocator().allocate(reduce.SharedStorage).peek())

    text = trace(body, block=16)
    assert "gpu.barrier" not in text and text.count("llvm.amdgcn.update.dpp") == 4


# --- results ------------------------------------------------------------------------------------------------------


@flyc.kernel
def warp_kernel(
    x: fx.Pointer, out: fx.Pointer, op: fx.Constexpr[str], width: fx.Constexpr[int], init: fx.Constexpr[int]
):
    t = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    op = fx.ReductionOp(op)
    start = None if init < 0 else fx.Int32(init)
    value = x[t]
    inclusive, exclusive, total = fx.coop.warp_scan_with_aggregate(value, op, width=width, init=start)
    out[t * 6 + 0] = fx.coop.warp_reduce(value, op, width=width)
    out[t * 6 + 1] = inclusive
    out[t * 6 + 2] = exclusive
    out[t * 6 + 3] = total
    out[t * 6 + 4] = fx.coop.warp_inclusive_scan(value, op, width=width, init=start)
    out[t * 6 + 5] = fx.coop.warp_exclusive_scan(value, op, width=width, init=start)


@flyc.jit
def warp(x: fx.Pointer, out: fx.Pointer, op: fx.Constexpr[str], width: fx.Constexpr[int], init: fx.Constexpr[int]):
    warp_kernel(x, out, op, width, init).launch(grid=2, block=64)


def neutral(op):
    return identity(op, fx.Int32).value


@pytest.mark.covering
@pytest.mark.parametrize("width", [1, 4, 32])
@pytest.mark.parametrize("init", [-1, 7])
@pytest.mark.parametrize("op", list(PYTHON))
def test_warp_results(op, init, width):
    rng = np.random.default_rng()
    x = rng.integers(1, 3 if op is MUL else 1000, 128).astype(np.int32)
    out = np.zeros((128, 6), np.int32)
    arguments = (flyc.from_c_void_p(fx.Int32, a.ctypes.data) for a in (x, out))
    warp(*arguments, op.value, width, init)
    for first in range(0, 128, width):
        segment = [int(v) for v in x[first : first + width]]
        fold = lambda items: functools.reduce(PYTHON[op], items)  # noqa: E731
        front = [] if init < 0 else [init]
        for i in range(width):
            inclusive = fold([*front, *segment[: i + 1]])
            before = [*front, *segment[:i]]
            exclusive = fold(before) if before else neutral(op)
            want = np.array([fold(segment), inclusive, exclusive, fold(segment), inclusive, exclusive], object)
            assert out[first + i].tolist() == [(int(w) + 2**31) % 2**32 - 2**31 for w in want]


@flyc.kernel
def reduce_kernel(x: fx.Pointer, out: fx.Pointer, dims: fx.Constexpr[tuple], raking: fx.Constexpr[bool]):
    algorithm = fx.coop.BlockReduceAlgorithm.RAKING if raking else fx.coop.BlockReduceAlgorithm.WARP_REDUCTIONS
    reduce = fx.coop.BlockReduce[fx.Int32, dims, algorithm]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    t = fx.thread_idx.x + fx.thread_idx.y * dims[0] + fx.thread_idx.z * (dims[0] * dims[1])
    items = fx.Vector.from_elements([x[t * 2], x[t * 2 + 1]])
    out[t] = reduce(items, fx.ReductionOp.ADD, storage=scratch)


@flyc.jit
def block_reduce(x: fx.Pointer, out: fx.Pointer, dims: fx.Constexpr[tuple], raking: fx.Constexpr[bool]):
    reduce_kernel(x, out, dims, raking).launch(block=dims)


@pytest.mark.covering
@pytest.mark.parametrize("raking", [False, True])
@pytest.mark.parametrize("block", [(256, 1, 1), (8, 4, 2), (96, 1, 1), (4, 1, 1), (1, 1, 1), (16, 16, 2)])
def test_block_reduce(block, raking):
    threads = int(np.prod(block))
    x = np.random.default_rng().integers(-1000, 1000, 2 * threads).astype(np.int32)
    out = np.zeros(threads, np.int32)
    block_reduce(*(flyc.from_c_void_p(fx.Int32, a.ctypes.data) for a in (x, out)), block, raking)
    assert set(out.tolist()) == {int(x.sum())}


@flyc.kernel
def scan_kernel(x: fx.Pointer, out: fx.Pointer, count: fx.Constexpr[int], items: fx.Constexpr[int]):
    scan = fx.coop.BlockScan[fx.Int32, count]
    scratch = fx.SharedAllocator().allocate(scan.SharedStorage).peek()
    t = fx.thread_idx.x
    n = count * items
    mine = fx.Vector.from_elements([x[t * items + i] for i in range(items)])
    first, total = scan.exclusive_with_aggregate(mine, fx.ReductionOp.ADD, storage=scratch)
    fx.barrier()
    second = scan.inclusive(mine, fx.ReductionOp.MAX, storage=scratch, init=5)
    fx.barrier()
    third = scan.exclusive(mine[0], fx.ReductionOp.MIN, storage=scratch)
    for i in fx.range_constexpr(items):
        out[t * items + i] = first[i]
        out[n + t * items + i] = second[i]
        out[2 * n + t * items + i] = total
    out[3 * n + t] = third


@flyc.jit
def block_scan(x: fx.Pointer, out: fx.Pointer, count: fx.Constexpr[int], items: fx.Constexpr[int]):
    scan_kernel(x, out, count, items).launch(block=count)


@pytest.mark.covering
@pytest.mark.parametrize("items", [1, 4])
@pytest.mark.parametrize("threads", [128, 32, 8, 96])
def test_block_scan(threads, items):
    n = threads * items
    x = np.random.default_rng().integers(-1000, 1000, n).astype(np.int32)
    out = np.zeros(3 * n + threads, np.int32)
    block_scan(*(flyc.from_c_void_p(fx.Int32, a.ctypes.data) for a in (x, out)), threads, items)
    np.testing.assert_array_equal(out[:n], np.cumsum(x) - x)
    np.testing.assert_array_equal(out[n : 2 * n], np.maximum(np.maximum.accumulate(x), 5))
    assert set(out[2 * n : 3 * n].tolist()) == {int(x.sum())}
    lowest = np.minimum.accumulate(x[::items])
    assert out[3 * n :].tolist() == [2**31 - 1, *lowest[:-1].tolist()]
