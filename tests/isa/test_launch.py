"""What a launch hands to the hardware: arguments, hidden arguments, sizes, shared and private memory, printing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels import silu_mul

ARCHES = ("gfx942", "gfx1201", "gfx1250")


@flyc.kernel
def mixed_kernel(
    out: fx.Tensor, n: fx.Int32, x: fx.Float64, small: fx.Int8, wide: fx.Int64, m: fx.Tensor, h: fx.Float16
):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    row = fx.block_idx.y * fx.block_dim.y + fx.thread_idx.y
    if (i < n) & (fx.block_idx.z == 1):
        scale = fx.Float64(small) + x + fx.Float64(fx.Float32(h))
        out[row, i] = fx.Float64(m[i, row]) * scale + fx.Float64(wide) + fx.Float64(fx.grid_dim.x + fx.block_dim.y)


@flyc.jit
def mixed(
    out: fx.Tensor, n: fx.Int32, x: fx.Float64, small: fx.Int8, wide: fx.Int64, m: fx.Tensor, h: fx.Float16, t: fx.Int32
):
    mixed_kernel(out, n, x, small, wide, m, h).launch(grid=(fx.ceildiv(n, t), 3, 2), block=(t, 2))


@pytest.mark.parametrize("arch", [*ARCHES, "gfx90a", "gfx1100"])
def test_arguments(arch: str, gpu: Any, rng: np.random.Generator):
    """Of all sizes, at any alignment; sizes of the launch that are not known come behind them."""
    gpu(arch)
    n, t = int(rng.integers(40, 90)), int(rng.integers(3, 40))
    m = rng.standard_normal((n, 6)).astype("f4")
    out = np.full((6, n), np.nan)
    small, wide, x, h = int(rng.integers(-128, 128)), int(rng.integers(-(1 << 40), 1 << 40)), float(rng.normal()), 1.5
    mixed(out, n, x, small, wide, m, h, t)
    wanted = m.T.astype("f8") * (small + x + h) + wide + (-(-n // t) + 2)
    np.testing.assert_allclose(out, wanted, rtol=1e-12)


@flyc.kernel
def shared_kernel(x: fx.Tensor):
    t = fx.thread_idx.x
    dynamic = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout(192, 1))
    fixed = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 192, 16]).peek().view(fx.make_layout(192, 1))
    fixed[t] = x[t]
    fx.barrier()
    dynamic[t] = fixed[191 - t] * 2.0
    fx.barrier()
    x[t] = dynamic[(t + 67) % 192]


@flyc.jit
def shared(x: fx.Tensor, smem: fx.Constexpr[int]):
    shared_kernel(x).launch(grid=1, block=192, smem=smem)


@pytest.mark.parametrize("arch", ARCHES)
def test_shared_memory(arch: str, gpu: Any, rng: np.random.Generator):
    """Dynamic memory begins behind the static, and both end where the launch says."""
    gpu(arch)
    x = rng.standard_normal(192).astype("f4")
    wanted = np.roll(x[::-1] * 2, -67)
    shared(x, 768)
    np.testing.assert_array_equal(x, wanted)


def test_too_little_shared_memory(gpu: Any):
    gpu("gfx942")
    with pytest.raises(Exception, match=r"past shared memory: 4 bytes at \d+ of 1788"):
        shared(np.zeros(192, "f4"), 764)


@pytest.mark.parametrize(("arch", "size"), [("gfx942", 65536), ("gfx950", 163840), ("gfx1250", 327680)])
def test_most_shared_memory(arch: str, size: int, gpu: Any, rng: np.random.Generator):
    """All that a block can have, and four bytes more."""
    gpu(arch)
    x = rng.standard_normal(192).astype("f4")
    wanted = np.roll(x[::-1] * 2, -67)
    shared(x, size - 1024)
    np.testing.assert_array_equal(x, wanted)
    with pytest.raises(Exception, match=rf"1024 and {size - 1020} bytes of shared memory, the device has {size}"):
        shared(x, size - 1020)


@flyc.kernel
def private_kernel(x: fx.Tensor, at: fx.Tensor):
    t = fx.thread_idx.x
    mine = fx.make_rmem_tensor(64, fx.Float32)
    for i in range(64):
        mine[i] = x[t, i]
    total = fx.Float32(0.0)
    for i in range(64):
        total = total + mine[at[(i + t) % 64]] * fx.Float32(i)
    x[t, 0] = total


@flyc.jit
def private(x: fx.Tensor, at: fx.Tensor):
    private_kernel(x, at).launch(grid=1, block=96)


@pytest.mark.parametrize("arch", ARCHES)
def test_registers_by_run_time_index(arch: str, gpu: Any, rng: np.random.Generator):
    """An array of a thread whose index is not known lies in private memory."""
    gpu(arch)
    x, at = rng.standard_normal((96, 64)).astype("f4"), rng.permutation(64).astype("i4")
    order = at[(np.arange(64)[None] + np.arange(96)[:, None]) % 64]
    wanted = (np.take_along_axis(x, order, 1).astype("f8") * np.arange(64)).sum(1)
    private(x, at)
    np.testing.assert_allclose(x[:, 0], wanted, rtol=2e-5, atol=1e-3)


@flyc.kernel
def talking_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i % 31 == 3:
        for j in range(n):
            fx.printf("{:>4} {:+.2f} {}", i, fx.Float64(x[i]), j)


@flyc.jit
def talking(x: fx.Tensor, n: fx.Int32):
    talking_kernel(x, n).launch(grid=2, block=64)


@pytest.mark.parametrize("arch", ARCHES)
def test_printing(arch: str, gpu: Any, rng: np.random.Generator, capsys: pytest.CaptureFixture[str]):
    gpu(arch)
    x = rng.standard_normal(128).astype("f4")
    capsys.readouterr()
    talking(x, 2)
    said = sorted(capsys.readouterr().out.splitlines())
    assert said == sorted(f"{i:>4} {x[i]:+.2f} {j}" for i in range(3, 128, 31) for j in range(2))


@pytest.mark.parametrize("arch", ARCHES)
def test_memory_outside_the_arrays(arch: str, gpu: Any):
    """A launch over more than an array has is told apart from one that is right."""
    gpu(arch)
    with pytest.raises(Exception, match="in no memory of this launch"):
        mixed(np.zeros((6, 8)), 12, 1.0, 1, 1, np.zeros((12, 6), "f4"), 1.0, 4)


@flyc.kernel
def clustered_kernel(out: fx.Tensor):
    x, y, z = fx.block_idx.x, fx.block_idx.y, fx.block_idx.z
    own = [fx.rocdl.cluster.workgroup_id(axis) for axis in "xyz"]
    first = [fx.rocdl.cluster.cluster_id(axis) for axis in "xyz"]
    if fx.thread_idx.x == 0:
        for at, value in enumerate((*own, *first, fx.rocdl.cluster.flat_workgroup_id())):
            out[x, y, z, at] = value


@flyc.jit
def clustered(out: fx.Tensor, cluster: fx.Constexpr[tuple]):
    clustered_kernel(out).launch(grid=(8, 4, 2), block=32, cluster=cluster)


@pytest.mark.parametrize("cluster", [(2, 1, 1), (4, 2, 1), (1, 2, 2), (1, 1, 1)])
def test_clusters(cluster: tuple[int, int, int], gpu: Any):
    """The driver is told of them with the launch: ids of blocks are those of clusters and a place inside."""
    gpu("gfx1250")
    out = np.full((8, 4, 2, 7), -1, "i4")
    clustered(out, cluster)
    for block in np.ndindex(8, 4, 2):
        own = [i % c for i, c in zip(block, cluster, strict=True)]
        first = [i // c for i, c in zip(block, cluster, strict=True)]
        flat = own[0] + cluster[0] * (own[1] + cluster[1] * own[2])
        assert out[block].tolist() == [*own, *first, flat], block


@flyc.kernel
def meeting_kernel(src: fx.Tensor, out: fx.Tensor, mask: fx.Int32):
    t, b = fx.thread_idx.x, fx.block_idx.x
    cluster = fx.rocdl.cluster
    cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek().view(fx.make_layout(64, 1))
    cells[t] = fx.Float32(-1.0)
    cluster.barrier()
    if (cluster.flat_workgroup_id() == 0) & (t < 32):
        load = fx.rocdl.cdna5.make_tdm_atom(fx.Float32, 1).set_value("workgroup_mask", mask)
        fx.copy_atom_call(load, fx.make_view(fx.get_iter(src) + b * 32, fx.make_layout(64, 1)), cells)
        fx.rocdl.s_wait_tensorcnt(0)
    cluster.cluster_signal_once_per_wg()
    cluster.cluster_wait()
    out[b, t] = cells[63 - t]


@flyc.jit
def meeting(src: fx.Tensor, out: fx.Tensor, mask: fx.Int32):
    meeting_kernel(src, out, mask).launch(grid=8, block=64, cluster=2)


@pytest.mark.parametrize("mask", [0, 0b10, 0b11])
def test_blocks_of_a_cluster_meet(mask: int, gpu: Any, rng: np.random.Generator):
    """A block of two waves signals its cluster once, behind both; what the first copies is there for the mask."""
    gpu("gfx1250")
    src, out = rng.standard_normal(4 * 64).astype("f4"), np.zeros((8, 64), "f4")
    meeting(src, out, mask)
    for b in range(8):
        there = src.reshape(4, 64)[b // 2, ::-1] if (mask or 1) >> b % 2 & 1 else -np.ones(64)
        np.testing.assert_array_equal(out[b], there)


def test_repeated_calls_of_the_library(gpu: Any, rng: np.random.Generator):
    """Of the second call on only addresses are written; the arrays of each are its own."""
    gpu("gfx1201")
    kept: list[torch.Tensor] = []
    for _ in range(12):
        x, y = (torch.from_numpy(rng.standard_normal((5, 64))).float() for _ in range(2))
        found = silu_mul(x, y)
        kept += [x, y, found]
        torch.testing.assert_close(found, torch.nn.functional.silu(x) * y)
