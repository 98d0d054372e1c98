"""Clusters on the cpu stack, of both vendors: ids, barriers, each other's shared memory, copies to several blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import LaunchError


@pytest.fixture(autouse=True, params=["plain", "checked"])
def checked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", str(int(request.param == "checked")))


# --- AMD --------------------------------------------------------------------------------------------------------------


@flyc.kernel
def ids_kernel(out: fx.Tensor):
    cluster = fx.rocdl.cluster
    x, y, z = fx.block_idx
    gx, gy, _ = fx.grid_dim
    block = x + gx * (y + gy * z)
    if fx.thread_idx.x == 0:
        for i, dim in enumerate("xyz"):
            out[block, i] = cluster.cluster_id(dim)
            out[block, 3 + i] = cluster.workgroup_id(dim)
        out[block, 6] = cluster.flat_workgroup_id()
    cluster.barrier()


def ids(grid: tuple, extents: tuple):
    @flyc.jit
    def launch(out: fx.Tensor):
        ids_kernel(out).launch(grid=grid, block=32, cluster=extents)

    return launch


@pytest.mark.parametrize(("grid", "extents"), [((4, 6, 2), (2, 3, 1)), ((3, 2, 4), (1, 2, 2)), ((5, 1, 1), (1, 1, 1))])
def test_ids(grid, extents, emulate):
    emulate("gfx1250")
    out = np.full((int(np.prod(grid)), 7), -1, np.int32)
    ids(grid, extents)(out)
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                inside = [c % e for c, e in zip((x, y, z), extents, strict=True)]
                which = [c // e for c, e in zip((x, y, z), extents, strict=True)]
                flat = inside[0] + extents[0] * (inside[1] + extents[1] * inside[2])
                np.testing.assert_array_equal(out[x + grid[0] * (y + grid[1] * z)], [*which, *inside, flat])


def test_grid_must_hold_whole_clusters(emulate):
    emulate("gfx1250")
    with pytest.raises(LaunchError, match="invalid value"):
        ids((3, 1, 1), (2, 1, 1))(np.zeros((3, 7), np.int32))


# --- NVIDIA -----------------------------------------------------------------------------------------------------------


@flyc.kernel
def ring_kernel(x: fx.Tensor, out: fx.Tensor, size: fx.Constexpr[int]):
    """Every block writes into the next one's shared memory, and reads the one before it."""
    nv = fx.nvgpu
    t, b = fx.thread_idx.x, fx.block_idx.x
    s = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((64, 2), (1, 64)))
    rank = nv.cluster.rank()
    s[t, 0] = x[b, t]
    nv.cluster.sync()
    after, before = (nv.cluster.peer(s, (rank + step) % size) for step in (1, size - 1))
    after[t, 1] = x[b, 63 - t]
    nv.cluster.sync()
    out[b, t] = before[t, 0] + s[t, 1]
    nv.cluster.sync()


@pytest.mark.parametrize("size", [2, 4])
def test_shared_memory_of_peers(size: int, rng: np.random.Generator, emulate):
    emulate("sm_90a")

    @flyc.jit
    def ring(x: fx.Tensor, out: fx.Tensor):
        ring_kernel(x, out, size).launch(grid=8, block=64, smem=512, cluster=size)

    x, out = rng.standard_normal((8, 64)).astype(np.float32), np.zeros((8, 64), np.float32)
    ring(x, out)
    left = np.array([b - b % size + (b % size - 1) % size for b in range(8)])
    np.testing.assert_allclose(out, x[left] + x[left][:, ::-1], rtol=1e-6)


@flyc.kernel
def multicast_kernel(load: Any, out: fx.Tensor, size: fx.Constexpr[int], mask: fx.Constexpr[int]):
    """The first block of a cluster fetches a tile for those in the mask; each waits on its own barrier."""
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
            load.load((b * 8, 0), s, barrier, multicast=mask)
    if (fx.Int32(mask) >> rank) % 2 == 1:
        barrier.wait(0)
        out[b, t] = s[t // 8, t % 8]
    nv.cluster.sync()


def test_multicast(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    size, mask = 4, 0b1011

    @flyc.jit
    def multicast(x: fx.Tensor, out: fx.Tensor):
        load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(multicast=True), x, None, (8, 8))
        multicast_kernel(load, out, size, mask).launch(grid=8, block=64, smem=264, cluster=size)

    whole = rng.standard_normal((64 * 8 + 4,)).astype(np.float32)
    x = whole[(-whole.ctypes.data // 4) % 4 :][: 64 * 8].reshape(64, 8)
    out = np.full((8, 64), -1, np.float32)
    multicast(x, out)
    for b in range(8):
        first = b - b % size
        expected = x[8 * first : 8 * first + 8].reshape(-1) if mask >> b % size & 1 else np.full(64, -1)
        np.testing.assert_array_equal(out[b], expected)


def test_misaligned_tensor_map_is_refused(emulate):
    emulate("sm_90a")

    @flyc.jit
    def multicast(x: fx.Tensor, out: fx.Tensor):
        load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(multicast=True), x, None, (8, 8))
        multicast_kernel(load, out, 1, 1).launch(grid=1, block=64, smem=264, cluster=1)

    whole = np.zeros(64 + 8, np.float32)
    start = (-whole.ctypes.data // 4) % 4 + 1
    with pytest.raises(LaunchError):
        multicast(whole[start : start + 64].reshape(8, 8), np.zeros((1, 64), np.float32))


# --- the tensor data mover --------------------------------------------------------------------------------------------


@flyc.kernel
def tdm_kernel(src: fx.Tensor, dst: fx.Tensor, warps: fx.Constexpr, pad: fx.Constexpr, rows: fx.Int32, mask: fx.Int32):
    t, b = fx.thread_idx.x, fx.block_idx.x
    interval, amount = pad
    pitch = 32 + amount
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 16 * pitch, 16]).peek()
    shared = lds.view(fx.make_layout((16, 32), (pitch, 1)))
    for i in range(t, 16 * 32, 32 * warps):
        shared[i // 32, i % 32] = fx.Float16(-1.0)
    if fx.const_expr(warps > 0):
        fx.rocdl.cluster.barrier()
    tile = fx.make_view(fx.get_iter(src), fx.make_layout((16, 32), (40, 1)))
    atom = fx.rocdl.cdna5.make_tdm_atom(fx.Float16, 2, num_warps=warps, pad_interval=interval, pad_amount=amount)
    load = atom.set_value("extent_0", rows).set_value("extent_1", 29).set_value("workgroup_mask", mask)
    if fx.rocdl.cluster.flat_workgroup_id() == 0:
        fx.copy_atom_call(load, tile, shared)
    fx.rocdl.s_wait_tensorcnt(0)
    fx.rocdl.cluster.barrier()
    out = fx.make_view(fx.get_iter(dst) + b * 512, fx.make_layout((16, 32), (32, 1)))
    fx.copy_atom_call(atom.set_value("extent_0", 15), shared, out)
    fx.rocdl.s_wait_tensorcnt(0)


@pytest.mark.covering
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("pad", [(0, 0), (32, 8)])
@pytest.mark.parametrize("mask", [0, 0b11, 0b10])
def test_tdm(warps: int, pad, mask: int, rng: np.random.Generator, emulate):
    """What lies outside comes as zeros and is not written; workgroups outside the mask keep what they had."""
    emulate("gfx1250")

    @flyc.jit
    def tdm(src: fx.Tensor, dst: fx.Tensor, rows: fx.Int32, mask: fx.Int32):
        tdm_kernel(src, dst, warps, pad, rows, mask).launch(grid=2, block=32 * warps, cluster=2)

    src = rng.standard_normal((16, 40)).astype(np.float16)
    dst = np.full((2, 16, 32), 7, np.float16)
    rows = int(rng.integers(1, 17))
    tdm(src.reshape(-1), dst.reshape(-1), rows, mask)
    loaded = np.zeros((16, 32), np.float16)
    loaded[:rows, :29] = src[:rows, :29]
    for b in range(2):
        got = loaded if (mask >> b & 1 if mask else b == 0) else np.full((16, 32), -1, np.float16)
        expected = np.concatenate([got[:15], np.full((1, 32), 7, np.float16)])
        np.testing.assert_array_equal(dst[b], expected)
