"""What Hopper's units need beyond single atoms: fences, shared memory of other blocks, dependent launches, roles."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx
from flydsl.testing import assert_close


def compiled(function, *args) -> str:
    """PTX for Hopper that `ptxas` has taken."""
    text = flyc.compile(function, *args, target="cuda:sm_90").artifact.asm
    if tools.try_find_tool("ptxas") is not None:
        ptx.assemble(text)
    return text


# --- tensor copies through fx.copy, with the fences the compiler places ---------------------------------------------


@flyc.kernel
def double_kernel(load, store, m: fx.Int32, n: fx.Int32):
    """Tiles come by TMA, threads double them, TMA takes them away; no fence is written anywhere."""
    nv, tid = fx.nvgpu, fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float32)
    smem = fx.make_view(base, fx.make_layout((16, 32), (32, 1)))
    barrier = nv.MBarrier(base + 16 * 32)
    tile = fx.flat_divide(load.coordinates((m, n)), (16, 32))[None, None, fx.block_idx.x, fx.block_idx.y]
    if tid == 0:
        barrier.init(1)
        nv.fence_mbarrier_init()
    fx.barrier()
    if tid == 0:
        barrier.expect_tx(load.nbytes)
        fx.copy(load.with_barrier(barrier), tile, smem)
    barrier.wait(0)
    for i in range(tid, 512, 128):
        smem[i // 32, i % 32] = smem[i // 32, i % 32] * 2.0
    fx.barrier()
    if tid == 0:
        fx.copy(store, smem, tile)
        nv.tma_commit()
        nv.tma_wait(0)


@flyc.jit
def double(src: fx.Tensor, dst: fx.Tensor):
    nv = fx.nvgpu
    m, n = src.shape.unpack()
    load = nv.make_tma_atom(nv.TMALoad(), src, None, (16, 32))
    store = nv.make_tma_atom(nv.TMAStore(), dst, None, (16, 32))
    grid = (fx.ceildiv(m, 16), fx.ceildiv(n, 32))
    double_kernel(load, store, fx.Int32(m), fx.Int32(n)).launch(grid=grid, block=128, smem=2048 + 8)


def test_copy_takes_tma_atoms(rng: np.random.Generator, device: str):
    for m, n in ((16, 32), (37, 76), (1, 4)):
        src = torch.from_numpy(rng.standard_normal((m, n))).float().to(device)
        dst = torch.full_like(src, float("nan"))
        double(src, dst)
        assert torch.equal(dst, 2 * src)


def test_proxy_fence_stands_before_the_barrier_behind_the_writes():
    text = compiled(double, torch.zeros(16, 32), torch.zeros(16, 32))
    assert text.count("fence.proxy.async") == 1
    body = text[text.index("add.rn.f32") :]
    assert re.search(r"fence\.proxy\.async.*?bar\.sync.*?cp\.async\.bulk\.tensor\.2d\.global", body, re.DOTALL)


@flyc.kernel
def count_kernel(store, n: fx.Int32):
    tid = fx.thread_idx.x
    smem = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout(64, 1))
    smem[tid] = fx.Float32(fx.block_idx.x * 64 + tid)
    fx.barrier()
    if tid == 0:
        fx.copy(store, smem, fx.zipped_divide(store.coordinates(n), fx.make_tile(64))[None, fx.block_idx.x])
        fx.nvgpu.tma_commit()
        fx.nvgpu.tma_wait(0)


@flyc.jit
def count(dst: fx.Tensor, n: fx.Int32):
    store = fx.nvgpu.make_tma_atom(fx.nvgpu.TMAStore(), dst, None, 64)
    count_kernel(store, n).launch(grid=fx.ceildiv(n, 64), block=64, smem=256)


def test_copy_takes_tma_atoms_of_one_mode(device: str):
    for n in (4, 64, 100):
        dst = torch.full((n,), float("nan"), device=device)
        count(dst, n)
        assert torch.equal(dst.cpu(), torch.arange(n).float())


def test_tma_coordinates_have_the_modes_of_the_tensor():
    @flyc.jit
    def flat(src: fx.Tensor):
        load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), src, None, (16, 32))
        flat_kernel(load).launch(grid=1, block=32)

    @flyc.kernel
    def flat_kernel(load):
        load.coordinates(64)

    with pytest.raises(ValueError, match="the tensor has 2 modes, got the shape 64"):
        flyc.compile(flat, torch.zeros(64, 64), target="cuda:sm_90")


def test_tma_copies_are_checked():
    @flyc.jit
    def wrong_tile(src: fx.Tensor):
        load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), src, None, (16, 32))
        wrong_kernel(load).launch(grid=1, block=32, smem=4096)

    @flyc.kernel
    def wrong_kernel(load):
        base = fx.get_dyn_shared(fx.Float32)
        smem = fx.make_view(base, fx.make_layout((16, 32), (32, 1)))
        tile = fx.flat_divide(load.coordinates((64, 64)), (8, 32))[None, None, 0, 0]
        fx.copy(load.with_barrier(fx.nvgpu.MBarrier(base + 512)), tile, smem)

    with pytest.raises(ValueError, match=r"copies tiles of \(16, 32\), got one of \(8,32\)"):
        flyc.compile(wrong_tile, torch.zeros(64, 64), target="cuda:sm_90")

    @flyc.jit
    def no_barrier(src: fx.Tensor):
        load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), src, None, (16, 32))
        no_barrier_kernel(load).launch(grid=1, block=32, smem=4096)

    @flyc.kernel
    def no_barrier_kernel(load):
        smem = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((16, 32), (32, 1)))
        fx.copy(load, load.coordinates((16, 32)), smem)

    with pytest.raises(TypeError, match="with_barrier"):
        flyc.compile(no_barrier, torch.zeros(64, 64), target="cuda:sm_90")


@pytest.mark.parametrize(("fetched", "code"), [(0, 0), (64, 1), (128, 2), (256, 3), (100, None)])
def test_what_l2_fetches_is_part_of_a_tensor_map(fetched: int, code: int | None):
    @flyc.jit
    def mapped(src: fx.Tensor):
        load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), src, None, (16, 32), l2_fetch=fetched)
        mapped_kernel(load).launch(grid=1, block=32)

    @flyc.kernel
    def mapped_kernel(load: fx.nvgpu.TmaAtom):
        pass

    if code is None:
        with pytest.raises(ValueError, match="l2_fetch is 0, 64, 128 or 256 bytes, got 100"):
            flyc.compile(mapped, torch.zeros(64, 64), target="cuda:sm_90")
        return
    compiled = flyc.compile(mapped, torch.zeros(64, 64), target="cuda:sm_90")
    assert f"promotion = {code} : i32" in compiled.artifact.source_ir


# --- wgmma: fences, groups, the accumulate state --------------------------------------------------------------------


@flyc.kernel
def product_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, keep: fx.Int32):
    """One tile of 64 x 64 x 64. Registers start with 7; the first step drops them unless `keep`."""
    tid = fx.thread_idx.x
    base = fx.get_dyn_shared(fx.BFloat16)
    swizzle = fx.static(fx.SwizzleType.get(3, 4, 3))
    tile = fx.make_layout((64, 64), (64, 1))
    sa = fx.make_view(fx.apply_swizzle(base, swizzle), tile)
    sb = fx.make_view(fx.apply_swizzle(base + 64 * 64, swizzle), tile)
    for i in range(tid, 64 * 64, 128):
        sa[i // 64, i % 64] = a[i // 64, i % 64]
        sb[i // 64, i % 64] = b[i // 64, i % 64]
    fx.barrier()
    atom = fx.make_mma_atom(fx.nvgpu.WGMMA(64, 16, fx.BFloat16))
    mma = fx.make_tiled_mma(atom, fx.make_layout((1, 1, 1), (0, 0, 0)))
    mine = mma.get_slice(tid)
    acc = mine.make_fragment_C(c)
    acc.fill(7.0)
    left, right = mine.partition_A(sa), mine.partition_B(sb)
    for step in fx.range_constexpr(4):
        now = mma.set_value("accumulate", keep) if step == 0 else mma
        fx.gemm(now, acc, left[None, None, step], right[None, None, step], acc)
    fx.nvgpu.wgmma_wait(0, acc)
    word = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    store = fx.make_tiled_copy_C(word, mma).get_slice(tid)
    fx.copy(word, store.retile(acc), store.partition_D(c))


@flyc.jit
def product(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, keep: fx.Int32):
    product_kernel(a, b, c, keep).launch(grid=1, block=128, smem=2 * 2 * 64 * 64)


def _tiles(rng: np.random.Generator, device: str):
    a, b = (torch.from_numpy(rng.standard_normal((64, 64))).bfloat16().to(device) for _ in range(2))
    return a, b, torch.full((64, 64), float("nan"), device=device)


@pytest.mark.parametrize("keep", [0, 1])
def test_wgmma_accumulate_state(keep: int, rng: np.random.Generator, device: str):
    a, b, c = _tiles(rng, device)
    product(*(flyc.from_torch_tensor(t) for t in (a, b, c)), keep)
    expected = a.cpu().double() @ b.cpu().double().T + 7 * keep
    magnitude = a.cpu().double().abs() @ b.cpu().double().abs().T + 7
    assert_close(c, expected, terms=65, magnitude=magnitude)


def test_wgmma_batches_are_fenced_and_committed(rng: np.random.Generator):
    args = [flyc.from_torch_tensor(t) for t in _tiles(rng, "cpu")]
    text = compiled(product, *args, 1)
    order = re.findall(r"fence\.proxy\.async|bar\.sync|wgmma\.(?:fence|mma_async|commit_group|wait_group)", text)
    assert order == [
        "fence.proxy.async", "bar.sync", "wgmma.fence", *["wgmma.mma_async"] * 4, "wgmma.commit_group",
        "wgmma.wait_group",
    ]  # fmt: skip


# --- clusters -------------------------------------------------------------------------------------------------------


@flyc.kernel
def neighbour_kernel(src: fx.Tensor, dst: fx.Tensor, size: fx.Constexpr[int], swizzled: fx.Constexpr[bool]):
    """Reads the next block's shared memory and writes into it."""
    nv, t, block = fx.nvgpu, fx.thread_idx.x, fx.block_idx.x
    pointer = fx.get_dyn_shared(fx.Float32)
    if fx.const_expr(swizzled):
        pointer = fx.apply_swizzle(pointer, fx.static(fx.SwizzleType.get(3, 4, 3)))
    mine = fx.make_view(pointer, fx.make_layout((64,), (1,)))
    mine[t] = src[block * 32 + t]
    nv.cluster.sync()
    other = nv.cluster.peer(mine, (nv.cluster.rank() + 1) % size)
    value = other[t]
    other[32 + t] = value * 2.0
    nv.cluster.sync()
    dst[block * 32 + t, 0] = value
    dst[block * 32 + t, 1] = mine[32 + t]


@flyc.jit
def neighbour(src: fx.Tensor, dst: fx.Tensor, size: fx.Constexpr[int], swizzled: fx.Constexpr[bool]):
    neighbour_kernel(src, dst, size, swizzled).launch(grid=8, block=32, smem=256, cluster=size)


@pytest.mark.covering
@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_shared_memory_of_other_blocks(size: int, swizzled: bool, rng: np.random.Generator, device: str):
    src = torch.from_numpy(rng.standard_normal(256)).float().to(device)
    dst = torch.full((256, 2), float("nan"), device=device)
    neighbour(src, dst, size, swizzled)
    groups = src.view(8 // size, size, 32)
    assert torch.equal(dst[:, 0], torch.roll(groups, -1, 1).reshape(-1))
    assert torch.equal(dst[:, 1], 2 * src)


def test_peer_takes_shared_memory_alone():
    @flyc.kernel
    def kernel(x: fx.Tensor):
        fx.nvgpu.cluster.peer(x, 0)

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=2, block=32, cluster=2)

    with pytest.raises(TypeError, match="shared memory"):
        flyc.compile(run, torch.zeros(4), target="cuda:sm_90")


# --- reductions by the copy engine ----------------------------------------------------------------------------------


@flyc.kernel
def combine_kernel(src: fx.Tensor, store):
    shared = fx.make_view(fx.get_dyn_shared(src.dtype), fx.make_layout((8, 16), (16, 1)))
    for i in range(fx.thread_idx.x, 128, 32):
        shared[i // 16, i % 16] = src[fx.block_idx.x, i // 16, i % 16]
    fx.barrier()
    if fx.nvgpu.elect():
        store.store(shared, (0, 0))
        fx.nvgpu.tma_commit()
        fx.nvgpu.tma_wait(0)


def combiner(op: str):
    @flyc.jit
    def combine(src: fx.Tensor, dst: fx.Tensor):
        store = fx.nvgpu.make_tma_atom(fx.nvgpu.TMAReduce(op), dst, None, (8, 16))
        combine_kernel(src, store).launch(grid=src.shape.unpack()[0], block=32, smem=512)

    return combine


REDUCTIONS = [
    *((op, torch.int32) for op in ("add", "min", "max", "and", "or", "xor")),
    *((op, torch.bfloat16) for op in ("add", "min", "max")),
]


@pytest.mark.parametrize(("op", "dtype"), REDUCTIONS)
def test_tma_reductions(op: str, dtype, rng: np.random.Generator, device: str):
    src = torch.from_numpy(rng.integers(-100, 100, (5, 8, 16))).to(dtype).to(device)
    dst = torch.from_numpy(rng.integers(-100, 100, (8, 16))).to(dtype).to(device)
    before = dst.cpu().clone()
    combiner(op)(src, dst)
    step = {
        "add": torch.add, "min": torch.minimum, "max": torch.maximum, "and": torch.bitwise_and,
        "or": torch.bitwise_or, "xor": torch.bitwise_xor,
    }[op]  # fmt: skip
    for part in src.cpu():
        before = step(before, part)
    if dtype == torch.bfloat16 and op == "add":
        # Blocks come in any order, and each sum is rounded.
        torch.testing.assert_close(dst.cpu(), before, rtol=2e-2, atol=2.0)
    else:
        assert torch.equal(dst.cpu(), before)


# --- roles of warps -------------------------------------------------------------------------------------------------


@flyc.kernel
def roles_kernel(src: fx.Tensor, dst: fx.Tensor, turns: fx.Int32):
    """A warpgroup writes, the other reads, in turn: a named barrier for "full" and one for "empty"."""
    nv, tid = fx.nvgpu, fx.thread_idx.x
    group, member = nv.uniform(tid // 128), tid % 128
    shared = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((128,), (1,)))
    full, empty = nv.named_barrier(1, 256), nv.named_barrier(2, 256)
    if group == 0:
        nv.setmaxnreg(40, increase=False)
        for i in range(turns):
            empty.sync()
            shared[member] = src[i, member]
            full.arrive()
    else:
        nv.setmaxnreg(232, increase=True)
        for i in range(turns):
            empty.arrive()
            full.sync()
            dst[i, member] = shared[127 - member]


@flyc.jit
def roles(src: fx.Tensor, dst: fx.Tensor):
    turns = fx.Int32(src.shape.unpack()[0])
    roles_kernel(src, dst, turns, value_attrs={"nvvm.minctasm": 1}).launch(grid=1, block=256, smem=512)


def test_named_barriers_and_registers(rng: np.random.Generator, device: str):
    src = torch.from_numpy(rng.standard_normal((5, 128))).float().to(device)
    dst = torch.full_like(src, float("nan"))
    roles(src, dst)
    assert torch.equal(dst, src.flip(1))


@flyc.kernel
def elect_kernel(out: fx.Tensor):
    if fx.nvgpu.elect():
        fx.atomic_add(fx.get_iter(out) + fx.thread_idx.x // 32, fx.Int32(1))


@flyc.jit
def elect(out: fx.Tensor):
    elect_kernel(out).launch(grid=3, block=128)


def test_elect_takes_one_thread_of_each_warp(device: str):
    out = torch.zeros(4, dtype=torch.int32, device=device)
    elect(out)
    assert out.tolist() == [3, 3, 3, 3]


# --- dependent launches ---------------------------------------------------------------------------------------------


@flyc.kernel
def increment_kernel(x: fx.Tensor):
    fx.nvgpu.griddepcontrol_wait()
    i = fx.block_idx.x * 128 + fx.thread_idx.x
    x[i] = x[i] * 2.0 + 1.0
    fx.nvgpu.griddepcontrol_launch()


@flyc.jit
def increments(x: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    for _ in fx.range_constexpr(8):
        increment_kernel(x).launch(grid=64, block=128, stream=stream, pdl=True)


def test_dependent_launches_keep_their_order(device: str):
    """Each kernel may start before the one in front has ended, and sees all of its writes all the same."""
    x = torch.arange(64 * 128, dtype=torch.float32, device=device)
    increments(x)
    expected = torch.arange(64 * 128, dtype=torch.float64) * 2**8 + (2**8 - 1)
    assert torch.equal(x.cpu().double(), expected)


@pytest.mark.cuda
def test_dependent_launches_in_a_graph(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    x = torch.zeros(64 * 128, device="cuda")
    increments(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        increments(x)
    x.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert (x == 255).all()


@flyc.kernel
def meeting_kernel(x: fx.Tensor):
    x[fx.block_idx.x * 32 + fx.thread_idx.x] = fx.Float32(fx.block_idx.x)


@flyc.jit
def meeting(x: fx.Tensor):
    meeting_kernel(x).launch(grid=4, block=32, cooperative=True)


@pytest.mark.cuda
def test_cooperative_launch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    x = torch.full((128,), float("nan"), device="cuda")
    meeting(x)
    assert torch.equal(x, torch.arange(4.0, device="cuda").repeat_interleave(32))


def test_launch_attributes_are_checked():
    x = torch.zeros(64 * 128)

    @flyc.kernel
    def plain(x: fx.Tensor):
        x[0] = 1.0

    def launcher(**attributes):
        @flyc.jit
        def run(x: fx.Tensor):
            plain(x).launch(grid=1, block=32, **attributes)

        return run

    with pytest.raises(ValueError, match="pdl=True needs sm_90, this is sm_80"):
        flyc.compile(launcher(pdl=True), x, target="cuda:sm_80")
    with pytest.raises(ValueError, match="needs an NVIDIA GPU, this is rocm"):
        flyc.compile(launcher(pdl=True), x, target="rocm:gfx942")
    with pytest.raises(ValueError, match="needs an NVIDIA GPU, this is cpu"):
        flyc.compile(launcher(cooperative=True), x, target="cpu:sm_90")
    with pytest.raises(TypeError, match="True or False"):
        flyc.compile(launcher(pdl=1), x, target="cuda:sm_90")


# --- tensor copies of every rank, to several blocks, with a say on caching --------------------------------------------


@flyc.kernel
def ranks_kernel(load, store, rank: fx.Constexpr[int], box: fx.Constexpr[tuple]):
    """One tile per block of the grid's x, along the first mode."""
    base = fx.get_dyn_shared(fx.Float32)
    barrier = fx.nvgpu.MBarrier(base + load.nbytes // 4)
    at = (fx.block_idx.x * box[0], *(0 for _ in range(rank - 1)))
    if fx.thread_idx.x == 0:
        barrier.init(1)
        fx.nvgpu.fence_mbarrier_init()
        barrier.expect_tx(load.nbytes)
        load.load(at, base, barrier, evict="first")
        barrier.wait(0)
        store.store(base, at)
        fx.nvgpu.tma_commit()
        fx.nvgpu.tma_wait(0)


def rank_copy(box: tuple[int, ...]):
    @flyc.jit
    def copy(src: fx.Tensor, dst: fx.Tensor):
        nv = fx.nvgpu
        load = nv.make_tma_atom(nv.TMALoad(), src, None, box)
        store = nv.make_tma_atom(nv.TMAStore(), dst, None, box)
        blocks = fx.ceildiv(src.shape.unpack()[0], box[0])
        ranks_kernel(load, store, len(box), box).launch(grid=blocks, block=32, smem=load.nbytes + 8)

    return copy


@pytest.mark.parametrize("box", [(64,), (8, 16), (4, 2, 8), (2, 3, 2, 4), (2, 2, 3, 2, 4)])
def test_tma_of_every_rank(box: tuple[int, ...], rng: np.random.Generator, device: str):
    """The first mode has a part of a tile left over; what the other modes have beyond the tile stays."""
    shape = (3 * box[0] + (4 if len(box) == 1 else 1), *(2 * x for x in box[1:]))
    src = torch.from_numpy(rng.standard_normal(shape)).float().to(device)
    dst = torch.full_like(src, 7.0)
    rank_copy(box)(src, dst)
    inside = (slice(None), *(slice(0, x) for x in box[1:]))
    expected = torch.full_like(src, 7.0)
    expected[inside] = src[inside]
    assert torch.equal(dst, expected)


@flyc.kernel
def multicast_kernel(load, out: fx.Tensor, size: fx.Constexpr[int]):
    """Each block of a cluster fetches a part of a tile for all of them."""
    nv, tid, rank = fx.nvgpu, fx.thread_idx.x, fx.nvgpu.cluster.rank()
    base = fx.get_dyn_shared(fx.Float32)
    whole = fx.make_view(base, fx.make_layout((4 * size, 32), (32, 1)))
    barrier = nv.MBarrier(base + 4 * size * 32)
    if tid == 0:
        barrier.init(1)
        nv.fence_mbarrier_init()
        # All parts come to the barrier of every block.
        barrier.expect_tx(size * load.nbytes)
    nv.cluster.sync()
    if tid == 0:
        part = fx.flat_divide(whole, (4, 32))[None, None, rank, 0]
        load.load((rank * 4, 0), part, barrier, multicast=(1 << size) - 1)
    barrier.wait(0)
    for i in range(tid, 4 * size * 32, 32):
        out[fx.block_idx.x, i // 32, i % 32] = whole[i // 32, i % 32]
    nv.cluster.sync()


def multicaster(size: int):
    @flyc.jit
    def run(src: fx.Tensor, out: fx.Tensor):
        load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), src, None, (4, 32))
        multicast_kernel(load, out, size).launch(grid=2 * size, block=32, smem=size * 512 + 8, cluster=size)

    return run


@pytest.mark.parametrize("size", [2, 4])
def test_multicast(size: int, rng: np.random.Generator, device: str):
    src = torch.from_numpy(rng.standard_normal((4 * size, 32))).float().to(device)
    out = torch.full((2 * size, 4 * size, 32), float("nan"), device=device)
    multicaster(size)(src, out)
    assert torch.equal(out, src.expand_as(out))


@flyc.kernel
def phases_kernel(out: fx.Tensor):
    """A barrier of 64 arrivals: its phases as threads see them, before and after."""
    barrier = fx.nvgpu.MBarrier(fx.get_dyn_shared(fx.Int64))
    tid = fx.thread_idx.x
    if tid == 0:
        barrier.init(64)
        fx.nvgpu.fence_mbarrier_init()
    fx.barrier()
    if tid == 0:
        out[0] = fx.Int32(barrier.test(0))
        out[1] = fx.Int32(barrier.test(1))
    fx.barrier()
    barrier.arrive()
    barrier.wait(0)
    if tid == 0:
        out[2] = fx.Int32(barrier.test(0))
        out[3] = fx.Int32(barrier.test(1))
        barrier.arrive(63)
    fx.barrier()
    if tid == 1:
        barrier.arrive()
    barrier.wait(1)
    if tid == 0:
        out[4] = fx.Int32(barrier.test(1))
    fx.barrier()
    if tid == 0:
        barrier.invalidate()


@flyc.jit
def phases(out: fx.Tensor):
    phases_kernel(out).launch(grid=1, block=64, smem=8)


def test_phases_of_a_barrier(device: str):
    out = torch.full((5,), -1, dtype=torch.int32, device=device)
    phases(out)
    assert out.tolist() == [0, 1, 1, 0, 1]
