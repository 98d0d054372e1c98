"""Bulk copies of plain bytes: loads, stores, reductions, prefetches, copies between blocks; and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx

nv = fx.nvgpu


def choose(stack: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compile for a stack from here on: a GPU, or the cpu stack emulating Hopper; gives where tensors live."""
    if stack == "cuda":
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
        return "cuda"
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1" if stack == "checked" else "0")
    return "cpu"


GPU = pytest.param("cuda", marks=pytest.mark.cuda)


@pytest.fixture(params=["cpu", "checked", GPU])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return choose(request.param, monkeypatch)


@pytest.fixture(params=["cpu", GPU])
def unchecked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return choose(request.param, monkeypatch)


def compiled(function: Any, *args: Any, target: str = "cuda:sm_90a") -> str:
    """PTX for Hopper that `ptxas` has taken."""
    text = flyc.compile(function, *args, target=target).artifact.asm
    if tools.try_find_tool("ptxas") is not None:
        ptx.assemble(text)
    return text


def aligned(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.Tensor:
    """Memory that starts at a multiple of 16 bytes, filled with what no result is."""
    count = int(np.prod(shape))
    size = torch.empty((), dtype=dtype).element_size()
    whole = torch.empty(count + 16 // size, dtype=dtype, device=device)
    start = -whole.data_ptr() // size % (16 // size)
    found = whole[start : start + count].view(*shape)
    return found.fill_(float("nan") if dtype.is_floating_point else 77)


def filled(values: np.ndarray, dtype: torch.dtype, device: str) -> torch.Tensor:
    source = torch.from_numpy(values).to(dtype)
    return aligned(*source.shape, dtype=dtype, device=device).copy_(source)


# --- there and back ---------------------------------------------------------------------------------------------------

TILE = 192


@flyc.kernel
def double_kernel(x: fx.Tensor, y: fx.Tensor, atoms: fx.Constexpr[bool], evict: fx.Constexpr):
    """A row comes, threads double it, it goes; no fence is written anywhere."""
    tid = fx.thread_idx.x
    shared = fx.SharedAllocator()
    row = shared.allocate(fx.Array[fx.Float32, TILE, 16]).peek().view(fx.make_layout(TILE, 1))
    barrier = shared.allocate(nv.MBarrier).peek()
    src, dst = (fx.flat_divide(t, (TILE,))[None, fx.block_idx.x] for t in (x, y))
    if tid == 0:
        nv.bulk_prefetch(src, evict=evict)
        barrier.init(1)
    fx.barrier()
    if tid == 0:
        barrier.expect_tx(4 * TILE)
        if fx.const_expr(atoms):
            fx.copy(nv.BulkLoad(barrier, evict), src, row)
        else:
            nv.bulk_load(src, row, barrier, evict=evict)
    barrier.wait(0)
    for i in range(tid, TILE, 64):
        row[i] = row[i] * 2.0
    fx.barrier()
    if tid == 0:
        if fx.const_expr(atoms):
            fx.copy(nv.BulkStore(evict), row, dst)
        else:
            nv.bulk_store(row, dst, evict=evict)
        nv.tma_commit()
        nv.tma_wait(0)


def doubler(atoms: bool = False, evict: str | None = None) -> Any:
    @flyc.jit
    def double(x: fx.Tensor, y: fx.Tensor, blocks: fx.Int32):
        double_kernel(x, y, atoms, evict).launch(grid=blocks, block=64)

    return double


@pytest.mark.parametrize("atoms", [False, True])
def test_bytes_come_and_go(atoms: bool, rng: np.random.Generator, device: str):
    blocks = 5
    x = filled(rng.standard_normal(blocks * TILE), torch.float32, device)
    y = aligned(blocks * TILE + 4, device=device)
    doubler(atoms)(x, y, blocks)
    assert torch.equal(y[:-4], 2 * x) and y[-4:].isnan().all()


def test_text_and_fences():
    text = compiled(doubler(), torch.zeros(TILE), torch.zeros(TILE), 1)
    assert re.search(r"cp\.async\.bulk\.prefetch\.L2\.global \[%rd\d+\], %r\d+;", text)
    assert re.search(
        r"cp\.async\.bulk\.shared::cluster\.global\.mbarrier::complete_tx::bytes \[\S+\], \[%rd\d+\], %r\d+, \[", text
    )
    assert text.count("fence.mbarrier_init") == 1
    assert re.search(r"mbarrier\.init.*?fence\.mbarrier_init.*?bar\.sync", text, re.DOTALL)
    # One fence, between the threads' writes and the barrier in front of the store.
    assert text.count("fence.proxy.async") == 1
    store = r"cp\.async\.bulk\.global\.shared::cta\.bulk_group \[%rd\d+\], \[\S+\], %r\d+;"
    assert re.search(rf"st\.shared.*?fence\.proxy\.async.*?bar\.sync.*?{store}", text, re.DOTALL)


@pytest.mark.parametrize("evict", ["normal", "first", "last"])
def test_policies_of_the_cache(evict: str):
    text = compiled(doubler(evict=evict), torch.zeros(TILE), torch.zeros(TILE), 1)
    for start in ("prefetch.L2.global", "shared::cluster.global.mbarrier::complete_tx::bytes", "global.shared::cta"):
        assert re.search(rf"cp\.async\.bulk\.{start}\S*\.L2::cache_hint ", text)


# --- a number of bytes known at run time ------------------------------------------------------------------------------

ROOM = 256


@flyc.kernel
def ragged_kernel(x: fx.Tensor, starts: fx.Tensor, y: fx.Tensor, stages: fx.Constexpr[int]):
    """Rows of different lengths, one per block, in pieces that take turns in shared memory."""
    shared = fx.SharedAllocator()
    room = (
        shared.allocate(fx.Array[fx.Uint8, ROOM * stages, 128]).peek().view(fx.make_layout((ROOM, stages), (1, ROOM)))
    )
    barriers = shared.allocate(fx.Array[nv.MBarrier, stages]).peek()
    begin, end = starts[fx.block_idx.x], starts[fx.block_idx.x + 1]
    source, to = fx.get_iter(x), fx.get_iter(y)
    for stage in fx.range_constexpr(stages):
        barriers[stage].init(1)
    fx.barrier()
    turn = fx.Int32(0)
    for at in range(begin, end, ROOM):
        stage, phase = turn % stages, turn // stages % 2
        left = end - at
        nbytes = fx.arith.select(left < ROOM, left, fx.Int32(ROOM))
        # The copy that read this stage last has done so.
        nv.tma_wait(stages - 1, read=True)
        barrier = barriers[stage]
        barrier.expect_tx(nbytes)
        nv.bulk_load(source + at, room[None, stage], barrier, nbytes=nbytes)
        barrier.wait(phase)
        nv.bulk_store(room[None, stage], to + at, nbytes=nbytes)
        nv.tma_commit()
        turn = turn + 1
    nv.tma_wait(0)


@flyc.jit
def ragged(x: fx.Tensor, starts: fx.Tensor, y: fx.Tensor, blocks: fx.Int32):
    ragged_kernel(x, starts, y, 3).launch(grid=blocks, block=1)


def test_rows_of_any_length(rng: np.random.Generator, device: str):
    lengths = 16 * rng.integers(0, 90, 7)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    x = filled(rng.integers(0, 255, starts[-1] + 16), torch.uint8, device)
    y = aligned(len(x), dtype=torch.uint8, device=device)
    ragged(x, torch.from_numpy(starts).to(device), y, len(lengths))
    assert torch.equal(y[:-16], x[:-16]) and (y[-16:] == 77).all()


# --- the number of bytes that layouts say --------------------------------------------------------------------------

PACKED = [
    (64, 1, 256),
    ((4, 16), (16, 1), 256),
    ((4, 1, 8, 2), (1, 77, 8, 4), 256),
    (((2, 4), (2, 3)), ((12, 24), (6, 2)), None),
    (((2, 4), (2, 3)), ((6, 12), (3, 1)), 192),
    ((8, 8), (8, 0), None),
    (12, 2, None),
]


@pytest.mark.parametrize(("shape", "stride", "nbytes"), PACKED)
def test_layouts_without_gaps_say_how_much(shape: Any, stride: Any, nbytes: int | None):
    @flyc.kernel
    def kernel(x: fx.Tensor):
        nv.bulk_prefetch(fx.make_view(fx.get_iter(x), fx.make_layout(shape, stride)))

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=32)

    if nbytes is None:
        with pytest.raises(ValueError, match="without gaps"):
            flyc.compile(run, torch.zeros(256), target="cuda:sm_90")
        return
    text = flyc.compile(run, torch.zeros(256), target="cuda:sm_90").artifact.asm
    assert re.search(rf"mov\.b32\s+(%r\d+), {nbytes};\s+cp\.async\.bulk\.prefetch\.L2\.global \[%rd\d+\], \1;", text)


# --- reductions -------------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "add": [torch.int32, torch.uint32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64],
    "min": [torch.int32, torch.uint32, torch.int64, torch.float16, torch.bfloat16],
    "max": [torch.int32, torch.uint32, torch.int64, torch.float16, torch.bfloat16],
    "and": [torch.int32, torch.int64],
    "or": [torch.int32, torch.uint32],
    "xor": [torch.int32, torch.int64],
    "inc": [torch.uint32],
    "dec": [torch.uint32],
}
CASES = [(op, dtype) for op, dtypes in REDUCTIONS.items() for dtype in dtypes]


@flyc.kernel
def reduce_kernel(x: fx.Tensor, y: fx.Tensor, op: fx.Constexpr[str], n: fx.Constexpr[int]):
    """All blocks combine rows of their own into one."""
    tid = fx.thread_idx.x
    row = fx.SharedAllocator().allocate(fx.Array[x.dtype, n, 16]).peek()
    row[tid] = x[fx.block_idx.x * n + tid]
    fx.barrier()
    if tid == 0:
        nv.bulk_reduce(row, fx.get_iter(y), op)
        nv.tma_commit()
        nv.tma_wait(0)


def reducer(op: str, n: int) -> Any:
    @flyc.jit
    def reduce(x: fx.Tensor, y: fx.Tensor, blocks: fx.Int32):
        reduce_kernel(x, y, op, n).launch(grid=blocks, block=n)

    return reduce


def combined(op: str, start: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What the rows make of `start`, in any order."""
    wrapping = {"inc": lambda old, x: np.where(old >= x, 0, old + 1)}
    wrapping["dec"] = lambda old, x: np.where((old == 0) | (old > x), x, old - 1)
    plain = {"add": np.add, "min": np.minimum, "max": np.maximum}
    plain |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    result = start
    for row in rows:
        result = (plain.get(op) or wrapping[op])(result, row)
    return result


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda v: str(v).removeprefix("torch."))
def test_reductions(op: str, dtype: torch.dtype, rng: np.random.Generator, unchecked: str):
    n, blocks, device = 32, 6, unchecked
    if op in ("inc", "dec"):
        # All blocks bring the same bound, so that their order does not matter.
        rows = np.broadcast_to(rng.integers(0, 9, n), (blocks, n)).copy()
        start = rng.integers(0, 9, n)
    else:
        # Small whole numbers, so that sums are exact in every type.
        low = 0 if dtype is torch.uint32 else -20
        rows, start = rng.integers(low, 20, (blocks, n)), rng.integers(low, 20, n)
    y = filled(np.concatenate([start, [5] * 8]), torch.int64, "cpu").to(dtype)
    y = aligned(n + 8, dtype=dtype, device=device).copy_(y) if dtype is not torch.uint32 else _unsigned(y, device)
    x = torch.from_numpy(rows.reshape(-1)).to(dtype)
    reducer(op, n)(x.to(device), y, blocks)
    got = y.cpu().to(torch.int64).numpy()
    assert np.array_equal(got[:n], combined(op, start, rows)) and (got[n:] == 5).all()


def _unsigned(values: torch.Tensor, device: str) -> torch.Tensor:
    """The same at an aligned place; torch has few operations on such numbers."""
    return aligned(len(values), dtype=torch.int32, device=device).copy_(values.view(torch.int32)).view(torch.uint32)


INTEGERS = [(fx.Int32, "s32"), (fx.Uint32, "u32"), (fx.Int64, "s64"), (fx.Uint64, "u64")]
HALVES = [(fx.Float16, "f16"), (fx.BFloat16, "bf16")]
BITS = [(dtype, f"b{word[1:]}") for dtype, word in INTEGERS]
SUMS = [*INTEGERS[:2], (fx.Int64, "u64"), (fx.Uint64, "u64"), (fx.Float32, "f32"), (fx.Float64, "f64")]
INSTRUCTIONS = {
    "add": [*SUMS, (fx.Float16, "noftz.f16"), (fx.BFloat16, "noftz.bf16")],
    **dict.fromkeys(("min", "max"), [*INTEGERS, *HALVES]),
    **dict.fromkeys(("inc", "dec"), [(fx.Uint32, "u32")]),
    **dict.fromkeys(("and", "or", "xor"), BITS),
}


@flyc.kernel
def every_kernel(y: fx.Tensor):
    """All there are, one after the other."""
    row = fx.SharedAllocator().allocate(fx.Array[fx.Uint8, 16, 16]).peek()
    row[fx.thread_idx.x] = fx.Uint8(1)
    fx.barrier()
    if fx.thread_idx.x == 0:
        for op, dtypes in INSTRUCTIONS.items():
            for dtype, _ in dtypes:
                source, to = (fx.recast_iter(dtype, p) for p in (row.ptr, fx.get_iter(y)))
                nv.bulk_reduce(source, to, op, nbytes=16)


@flyc.jit
def every(y: fx.Tensor):
    every_kernel(y).launch(grid=1, block=16)


def test_reductions_compile():
    text = compiled(every, torch.zeros(16, dtype=torch.uint8))
    found = re.findall(r"cp\.reduce\.async\.bulk\.global\.shared::cta\.bulk_group\.(\S+) \[", text)
    assert found == [f"{op}.{word}" for op, dtypes in INSTRUCTIONS.items() for _, word in dtypes]
    assert re.search(r"st\.shared.*?fence\.proxy\.async.*?bar\.sync.*?cp\.reduce", text, re.DOTALL)


def test_reduction_with_a_policy():
    @flyc.jit
    def reduce(y: fx.Tensor):
        policy_kernel(y).launch(grid=1, block=32)

    @flyc.kernel
    def policy_kernel(y: fx.Tensor):
        row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 32, 16]).peek()
        row[fx.thread_idx.x] = fx.Float32(1)
        fx.barrier()
        if fx.thread_idx.x == 0:
            fx.copy(nv.BulkReduce("add", "last"), row, fx.flat_divide(y, (32,))[None, 0])

    text = compiled(reduce, torch.zeros(32))
    assert "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [" in text


# --- clusters ---------------------------------------------------------------------------------------------------------


@flyc.kernel
def multicast_kernel(x: fx.Tensor, out: fx.Tensor, size: fx.Constexpr[int]):
    """Each block of a cluster fetches a part of a row for all of them."""
    tid, rank = fx.thread_idx.x, nv.cluster.rank()
    base = fx.get_dyn_shared(fx.Float32)
    parts = fx.make_view(base, fx.make_layout((32, size), (1, 32)))
    barrier = nv.MBarrier(base + 32 * size)
    if tid == 0:
        barrier.init(1)
        # All parts come to the barrier of every block.
        barrier.expect_tx(size * 128)
    nv.cluster.sync()
    if tid == 0:
        nv.bulk_load(
            fx.flat_divide(x, (32,))[None, rank], parts[None, rank], barrier, multicast=(1 << size) - 1, evict="last"
        )
    barrier.wait(0)
    for i in range(tid, 32 * size, 32):
        out[fx.block_idx.x, i] = parts[i % 32, i // 32]
    nv.cluster.sync()


def multicaster(size: int) -> Any:
    @flyc.jit
    def run(x: fx.Tensor, out: fx.Tensor):
        multicast_kernel(x, out, size).launch(grid=2 * size, block=32, smem=size * 128 + 8, cluster=size)

    return run


@pytest.mark.parametrize("size", [2, 4])
def test_multicast(size: int, rng: np.random.Generator, device: str):
    x = filled(rng.standard_normal(32 * size), torch.float32, device)
    out = torch.full((2 * size, 32 * size), float("nan"), device=device)
    multicaster(size)(x, out)
    assert torch.equal(out, x.expand_as(out))


def test_multicast_compiles():
    text = compiled(multicaster(2), torch.zeros(64), torch.zeros(4, 64))
    assert "complete_tx::bytes.multicast::cluster.L2::cache_hint [" in text


def test_masks_of_sixteen_blocks():
    """The largest cluster has one more bit than a number with a sign has room for."""

    @flyc.kernel
    def kernel(load: Any, x: fx.Tensor):
        base = fx.get_dyn_shared(fx.Float32)
        barrier = nv.MBarrier(base + 64)
        load.load((0, 0), base, barrier, multicast=0xFFFF)
        nv.bulk_load(fx.get_iter(x), base, barrier, nbytes=256, multicast=0xFFFF)

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(nv.make_tma_atom(nv.TMALoad(), x, None, (8, 8)), x).launch(grid=1, block=32, smem=512)

    text = compiled(run, torch.zeros(16, 16))
    assert re.search(r"mov\.b16\s+%rs\d+, -1;", text) and text.count(".multicast::cluster [") == 2


@flyc.kernel
def ring_kernel(x: fx.Tensor, out: fx.Tensor, size: fx.Constexpr[int], turns: fx.Constexpr[int]):
    """What a block holds goes to the next one of its cluster, turn by turn."""
    tid, rank = fx.thread_idx.x, nv.cluster.rank()
    shared = fx.SharedAllocator()
    rows = [shared.allocate(fx.Array[fx.Float32, 32, 16]).peek() for _ in range(turns + 1)]
    barriers = shared.allocate(fx.Array[nv.MBarrier, turns]).peek()
    rows[0][tid] = x[fx.block_idx.x, tid]
    if tid == 0:
        for turn in fx.range_constexpr(turns):
            barriers[turn].init(1)
            barriers[turn].expect_tx(128)
    nv.cluster.sync()
    for turn in fx.range_constexpr(turns):
        if tid == 0:
            nv.bulk_send(rows[turn], rows[turn + 1], barriers[turn], (rank + 1) % size)
        barriers[turn].wait(0)
    out[fx.block_idx.x, tid] = rows[turns][tid]
    nv.cluster.sync()


def ring(size: int, turns: int) -> Any:
    @flyc.jit
    def run(x: fx.Tensor, out: fx.Tensor):
        ring_kernel(x, out, size, turns).launch(grid=2 * size, block=32, cluster=size)

    return run


@pytest.mark.parametrize(("size", "turns"), [(2, 1), (4, 3)])
def test_between_blocks(size: int, turns: int, rng: np.random.Generator, device: str):
    x = filled(rng.standard_normal((2 * size, 32)), torch.float32, device)
    out = torch.full_like(x, float("nan"))
    ring(size, turns)(x, out)
    assert torch.equal(out, x.view(2, size, 32).roll(turns, 1).reshape(-1, 32))


def test_between_blocks_compiles():
    text = compiled(ring(2, 1), torch.zeros(4, 32), torch.zeros(4, 32))
    assert re.search(r"cp\.async\.bulk\.shared::cluster\.shared::cta\.mbarrier::complete_tx::bytes \[", text)
    assert text.count("mapa.shared::cluster") == 2
    assert re.search(r"st\.shared.*?fence\.proxy\.async.*?barrier\.cluster\.arrive.*?cp\.async", text, re.DOTALL)


# --- refusals ---------------------------------------------------------------------------------------------------------


def refuse(
    body: Any, error: type[Exception], match: str, *, target: str = "cuda:sm_90", align: int | None = None
) -> None:
    """`body(x, row, barrier)` does not compile; x is in global memory, row has 64 floats of shared memory."""

    @flyc.kernel
    def kernel(x: fx.Tensor):
        base = fx.get_dyn_shared(fx.Float32)
        body(x, fx.make_view(base, fx.make_layout(64, 1)), nv.MBarrier(base + 1024))

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=32, smem=8192)

    x: Any = aligned(16, 64)
    if align is not None:
        x = flyc.from_torch_tensor(x, assumed_align=align)
    with pytest.raises(error, match=match):
        flyc.compile(run, x, target=target)


def flat(x: fx.Tensor) -> Any:
    return fx.make_view(fx.get_iter(x), fx.make_layout(64, 1))


REFUSALS = {
    "odd count": (
        lambda x, row, b: nv.bulk_load(flat(x), row, b, nbytes=100),
        ValueError,
        "multiple of 16 bytes, got 100",
    ),
    "no count": (lambda x, row, b: nv.bulk_store(row, flat(x), nbytes=0), ValueError, "multiple of 16 bytes, got 0"),
    "too much": (
        lambda x, row, b: nv.bulk_load(flat(x), row, b, nbytes=512),
        ValueError,
        "512 bytes do not fit src, which has 256",
    ),
    "no number": (
        lambda x, row, b: nv.bulk_load(flat(x), row, b, nbytes=64.0),
        TypeError,
        "a number of bytes, got 64.0",
    ),
    "from shared": (
        lambda x, row, b: nv.bulk_load(row, row, b),
        TypeError,
        "src lies in global memory, got .* in shared memory",
    ),
    "to global": (
        lambda x, row, b: nv.bulk_load(flat(x), flat(x), b),
        TypeError,
        "dst lies in shared memory, got .* in global",
    ),
    "store from global": (lambda x, row, b: nv.bulk_store(flat(x), row), TypeError, "src lies in shared memory"),
    "prefetch of shared": (lambda x, row, b: nv.bulk_prefetch(row), TypeError, "src lies in global memory"),
    "no memory": (
        lambda x, row, b: nv.bulk_prefetch(3),
        TypeError,
        "src is a tensor or pointer in global memory, got 3",
    ),
    "no barrier": (lambda x, row, b: nv.bulk_load(flat(x), row, 0), TypeError, "counted on an MBarrier, got 0"),
    "gaps": (
        lambda x, row, b: nv.bulk_load(fx.make_view(fx.get_iter(x), fx.make_layout((8, 8), (16, 1))), row, b),
        ValueError,
        r"\(8,8\):\(16,1\) of src is not static and without gaps.*give nbytes",
    ),
    "run-time extent": (lambda x, row, b: nv.bulk_prefetch(x), ValueError, "of src is not static and without gaps"),
    "two pointers": (
        lambda x, row, b: nv.bulk_load(fx.get_iter(x), fx.get_iter(row), b),
        ValueError,
        "pointers do not say how many bytes",
    ),
    "other sizes": (
        lambda x, row, b: nv.bulk_load(fx.make_view(fx.get_iter(x), fx.make_layout(32, 1)), row, b),
        ValueError,
        "differ in bytes: src 128, dst 256",
    ),
    "other order": (
        lambda x, row, b: nv.bulk_store(
            fx.make_view(fx.get_iter(row), fx.make_layout((8, 8), (1, 8))),
            fx.make_view(fx.get_iter(x), fx.make_layout((8, 8), (8, 1))),
        ),
        ValueError,
        r"as they lie, but src has the layout \(8,8\):\(1,8\) and dst \(8,8\):\(8,1\)",
    ),
    "swizzle": (
        lambda x, row, b: nv.bulk_load(
            flat(x),
            fx.make_view(
                fx.apply_swizzle(fx.get_iter(row), fx.static(fx.SwizzleType.get(3, 4, 3))), fx.make_layout(64, 1)
            ),
            b,
        ),
        ValueError,
        "dst is swizzled",
    ),
    "shared alignment": (
        lambda x, row, b: nv.bulk_load(fx.get_iter(x), fx.get_iter(row) + 2, b, nbytes=16),
        ValueError,
        "dst must be known to start at a multiple of 16 bytes, and of .* only 8 is",
    ),
    "reduction": (
        lambda x, row, b: nv.bulk_reduce(row, flat(x), "mul"),
        ValueError,
        "bulk_reduce does add, .*got 'mul'",
    ),
    "reduced type": (
        lambda x, row, b: nv.bulk_reduce(row, flat(x), "max"),
        TypeError,
        "does max on elements of u32, s32, u64, s64, f16, bf16, got Float32",
    ),
    "two types": (
        lambda x, row, b: nv.bulk_reduce(row, fx.recast_iter(fx.Int32, fx.get_iter(x)), "add", nbytes=16),
        TypeError,
        "src holds Float32, dst Int32",
    ),
    "policy": (
        lambda x, row, b: nv.bulk_prefetch(flat(x), evict="never"),
        ValueError,
        "normal, first, last, got 'never'",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_mistakes_are_refused(name: str):
    refuse(*REFUSALS[name])


def test_promised_alignment_must_do():
    def moved(x: Any, row: Any, b: Any) -> None:
        nv.bulk_prefetch(fx.get_iter(x) + 3, nbytes=16)

    refuse(moved, ValueError, "src must start at a multiple of 16 bytes, it is 12 behind one", align=16)

    def promised(x: Any, row: Any, b: Any) -> None:
        nv.bulk_prefetch(fx.get_iter(x), nbytes=16)

    refuse(promised, ValueError, "src must start at a multiple of 16 bytes, .* promises 8", align=8)


def test_policies_of_tensor_copies_are_checked_too():
    @flyc.kernel
    def kernel(load: Any):
        base = fx.get_dyn_shared(fx.Float32)
        load.load((0, 0), base, nv.MBarrier(base + 64), evict="never")

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(nv.make_tma_atom(nv.TMALoad(), x, None, (8, 8))).launch(grid=1, block=32, smem=512)

    with pytest.raises(ValueError, match=r"TmaAtom\.load: evict is one of normal, first, last, got 'never'"):
        flyc.compile(run, torch.zeros(16, 16), target="cuda:sm_90")


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_89", "rocm:gfx942"])
def test_older_architectures_are_refused(target: str):
    words = "belongs to NVIDIA GPUs" if target.startswith("rocm") else "does not exist on sm_8.; it needs sm_90"
    refuse(lambda x, row, b: nv.bulk_store(row, flat(x)), ValueError, f"bulk_store {words}", target=target)


def test_an_atom_copies_all_or_nothing():
    def predicated(x: Any, row: Any, b: Any) -> None:
        fx.copy(nv.BulkStore(), row, flat(x), pred=fx.make_rmem_tensor(1, fx.Boolean))

    refuse(predicated, ValueError, "copies a whole tile and takes neither a predicate nor state")


@flyc.kernel
def filling_kernel(load: nv.TmaAtom, y: fx.Pointer, rows: fx.Int32):
    shared = fx.SharedAllocator()
    smem = shared.allocate(fx.Array[fx.Float32, 256, 128]).peek()
    full = shared.allocate(nv.MBarrier).peek()
    tid = fx.thread_idx.x
    if tid == 0:
        full.init(1)
    nv.fence_mbarrier_init()
    fx.barrier()
    if nv.leader(tid - 32):
        for row in range(0, rows, 8):
            full.expect_tx(load.nbytes)
            load.load((row, 0), smem.ptr, full)
            full.wait(row // 8 % 2)
    fx.barrier()
    y[tid] = smem[tid]


@flyc.jit
def filling(x: fx.Tensor, y: fx.Tensor, rows: fx.Int32):
    load = nv.make_tma_atom(nv.TMALoad(), x, None, (8, 32))
    filling_kernel(load, fx.get_iter(y), rows).launch(grid=1, block=128)


def test_a_leader_is_one_thread_of_its_warp(rng: np.random.Generator, emulate):
    """And elected: the assembler then knows that one thread asks for copies."""
    x, y = rng.standard_normal((24, 32)).astype("f4"), np.full(128, np.nan, "f4")
    text = flyc.compile(filling, x, y, 24, target="cuda:sm_90a").artifact.binary("ptx").decode()
    assert text.count("elect.sync") == 1
    emulate("sm_90a")
    filling(x, y, 24)
    np.testing.assert_array_equal(y, x[16:].reshape(-1)[:128])
