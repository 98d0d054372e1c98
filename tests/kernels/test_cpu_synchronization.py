"""Barriers, shared memory and warp collectives on the cpu stack, in straight and in divergent control flow."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLCompileError, FlyDSLError

ARCHES = ["native", "gfx942", "gfx1100", "sm_90a"]


def warp_of(arch: str) -> int:
    return 64 if arch == "gfx942" else 32


# --- shared memory and barriers -----------------------------------------------------------------------------------


@flyc.kernel
def reverse_kernel(a: fx.Tensor, b: fx.Tensor, size: fx.Constexpr[int], static: fx.Constexpr[bool]):
    s = fx.SharedAllocator(static=static).allocate(fx.Array[fx.Float32, size]).peek()
    t = fx.thread_idx.x
    g = fx.block_idx.x * size + t
    s[t] = a[g]
    fx.barrier()
    b[g] = s[size - 1 - t]


@flyc.jit
def reverse(a: fx.Tensor, b: fx.Tensor, blocks: fx.Int32, size: fx.Constexpr[int], static: fx.Constexpr[bool]):
    reverse_kernel(a, b, size, static).launch(grid=blocks, block=size)


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("size", [1, 31, 64, 100, 1024])
def test_reverse(size: int, static: bool, rng: np.random.Generator):
    blocks = int(rng.integers(1, 40))
    a = rng.standard_normal(blocks * size).astype(np.float32)
    b = np.full_like(a, np.nan)
    reverse(a, b, blocks, size, static)
    np.testing.assert_array_equal(b, a.reshape(blocks, size)[:, ::-1].ravel())


def test_static_bytes_are_known(rng: np.random.Generator):
    a = rng.standard_normal(128).astype(np.float32)
    for target in ("cpu:native", "rocm:gfx942", "cuda:sm_90a"):
        static = flyc.compile(reverse, a, a.copy(), 1, 128, True, target=target).artifact.kernels[0]
        assert static["shared_static"] == 512
        dynamic = flyc.compile(reverse, a, a.copy(), 1, 128, False, target=target).artifact.kernels[0]
        assert dynamic["shared_static"] == 0
    amd = flyc.compile(reverse, a, a.copy(), 1, 128, True, target="rocm:gfx942").artifact
    assert amd.kernels[0]["shared"] == 512 and "s_barrier" in amd.asm
    nvidia = flyc.compile(reverse, a, a.copy(), 1, 128, True, target="cuda:sm_90a").artifact
    assert ".shared .align" in nvidia.asm and "bar.sync" in nvidia.asm


@flyc.kernel
def two_arrays_kernel(out: fx.Tensor):
    shared = fx.SharedAllocator()
    x = shared.allocate(fx.Array[fx.Int8, 3]).peek()
    y = shared.allocate(fx.Array[fx.Float64, 64]).peek()
    t = fx.thread_idx.x
    if t < 3:
        x[t] = fx.Int8(t + 1)
    y[t] = fx.Float64(t) * 0.5
    fx.barrier()
    out[t] = y[63 - t] + fx.Float64(x[t % 3])


@flyc.jit
def two_arrays(out: fx.Tensor):
    two_arrays_kernel(out).launch(grid=1, block=64)


def test_allocations_do_not_overlap():
    out = np.zeros(64)
    two_arrays(out)
    t = np.arange(64)
    np.testing.assert_array_equal(out, (63 - t) * 0.5 + t % 3 + 1)


@flyc.kernel
def too_large_kernel(out: fx.Tensor):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 20000]).peek()
    s[fx.thread_idx.x] = 1.0
    fx.barrier()
    out[fx.thread_idx.x] = s[0]


@flyc.jit
def too_large(out: fx.Tensor):
    too_large_kernel(out).launch(grid=1, block=32)


@pytest.mark.parametrize(("target", "limit"), [("rocm:gfx942", 65536), ("cuda:sm_90a", 49152), ("cpu:gfx942", 65536)])
def test_too_much_shared_memory(target: str, limit: int):
    with pytest.raises((FlyDSLError, DSLCompileError), match=rf"80000 bytes.*{limit}"):
        flyc.compile(too_large, np.zeros(32, np.float32), target=target)
    flyc.compile(too_large, np.zeros(32, np.float32), target="rocm:gfx950")


@flyc.kernel
def scan_kernel(a: fx.Tensor, b: fx.Tensor, size: fx.Constexpr[int]):
    """Inclusive scan by doubling: two barriers per step of a run-time loop."""
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, size]).peek()
    t = fx.thread_idx.x
    base = fx.block_idx.x * size
    s[t] = a[base + t]
    fx.barrier()
    d = fx.Int32(1)
    while d < size:
        v = fx.Int32(0)
        if t >= d:
            v = s[t - d]
        fx.barrier()
        s[t] = s[t] + v
        fx.barrier()
        d = d * 2
    b[base + t] = s[t]


@flyc.jit
def scan(a: fx.Tensor, b: fx.Tensor, blocks: fx.Int32, size: fx.Constexpr[int]):
    scan_kernel(a, b, size).launch(grid=blocks, block=size)


@pytest.mark.parametrize("size", [32, 96, 256])
def test_barriers_in_a_loop(size: int, rng: np.random.Generator):
    a = rng.integers(-1000, 1000, (7, size)).astype(np.int32)
    b = np.zeros_like(a)
    scan(a.ravel(), b.reshape(-1), 7, size)
    np.testing.assert_array_equal(b, np.cumsum(a, 1))


@flyc.kernel
def early_exit_kernel(out: fx.Tensor, alive: fx.Int32):
    """Whole warps leave before the barrier; the others still meet."""
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 256]).peek()
    t = fx.thread_idx.x
    s[t] = fx.Int32(-1)
    fx.barrier()
    if t < alive:
        s[t] = t
        fx.barrier()
        out[t] = s[alive - 1 - t]


@flyc.jit
def early_exit(out: fx.Tensor, alive: fx.Int32):
    early_exit_kernel(out, alive).launch(grid=1, block=256)


@pytest.mark.parametrize("alive", [0, 1, 32, 100, 256])
def test_threads_that_leave_do_not_count(alive: int):
    out = np.full(256, -7, np.int32)
    early_exit(out, alive)
    np.testing.assert_array_equal(out[:alive], np.arange(alive)[::-1])
    assert np.all(out[alive:] == -7)


@flyc.kernel
def mismatched_kernel(out: fx.Tensor):
    """Undefined on a GPU; here it must end."""
    t = fx.thread_idx.x
    if t < 16:
        fx.barrier()
        fx.barrier()
    else:
        fx.barrier()
    out[t] = t


@flyc.jit
def mismatched(out: fx.Tensor):
    mismatched_kernel(out).launch(grid=3, block=64)


def test_mismatched_barriers_end():
    out = np.zeros(64, np.int32)
    mismatched(out)
    np.testing.assert_array_equal(out, np.arange(64))


@flyc.kernel
def block3d_kernel(out: fx.Tensor):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 120]).peek()
    x, y, z = fx.thread_idx
    nx, ny, nz = fx.block_dim
    i = x + nx * (y + ny * z)
    s[i] = x * 100 + y * 10 + z
    fx.barrier()
    bx, by, bz = fx.block_idx
    out[bz, by, bx, i] = s[119 - i] + 1000 * (bx + 10 * by + 100 * bz)


@flyc.jit
def block3d(out: fx.Tensor):
    block3d_kernel(out).launch(grid=(2, 3, 4), block=(4, 5, 6))


def test_three_dimensions():
    out = np.zeros((4, 3, 2, 120), np.int32)
    block3d(out)
    z, y, x = np.meshgrid(np.arange(6), np.arange(5), np.arange(4), indexing="ij")
    inner = (x * 100 + y * 10 + z).ravel()[::-1]
    bz, by, bx = np.meshgrid(np.arange(4), np.arange(3), np.arange(2), indexing="ij")
    np.testing.assert_array_equal(out, inner + 1000 * (bx + 10 * by + 100 * bz)[..., None])


# --- warps --------------------------------------------------------------------------------------------------------


@flyc.kernel
def shuffle_kernel(a: fx.Tensor, b: fx.Tensor, by: fx.Int32, width: fx.Constexpr[int], mode: fx.Constexpr[str]):
    t = fx.thread_idx.x
    b[t] = fx.gpu.shuffle(a[t], by, width, mode)


@flyc.jit
def shuffle(a: fx.Tensor, b: fx.Tensor, by: fx.Int32, width: fx.Constexpr[int], mode: fx.Constexpr[str]):
    shuffle_kernel(a, b, by, width, mode).launch(grid=1, block=fx.get_scalar(a.shape[0]))


def expected_shuffle(a: np.ndarray, by: int, width: int, mode: str, warp: int) -> np.ndarray:
    lane = np.arange(len(a)) % warp
    source = {"xor": lane ^ by, "up": lane - by, "down": lane + by, "idx": np.full_like(lane, by)}[mode]
    inside = (source // width == lane // width) | (mode == "idx")
    return a[np.where(inside, source, lane) + np.arange(len(a)) // warp * warp]


@pytest.mark.covering
@pytest.mark.parametrize("arch", ["native", "gfx942"])
@pytest.mark.parametrize("mode", ["xor", "up", "down", "idx"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_shuffle(dtype, mode: str, arch: str, rng: np.random.Generator, emulate):
    emulate(arch)
    warp = warp_of(arch)
    for width in (warp, 8):
        by = int(rng.integers(0, width))
        a = (rng.standard_normal(4 * warp) * 100).astype(dtype)
        b = np.zeros_like(a)
        shuffle(a, b, by, width, mode)
        np.testing.assert_array_equal(b, expected_shuffle(a, by, width, mode, warp))


@flyc.kernel
def block_sum_kernel(a: fx.Tensor, out: fx.Tensor, warps: fx.Constexpr[int]):
    """The first warp reduces what the others left while they wait at the barrier."""
    s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 33]).peek()
    w = fx.num_warp_threads()
    t, lane = fx.thread_idx.x, fx.lane_id()
    v = a[fx.block_idx.x * fx.block_dim.x + t]
    for i in fx.range_constexpr(w.bit_length() - 1):
        v = v + fx.shuffle_xor(v, w >> (i + 1), w)
    if lane == 0:
        s[t // w] = v
    fx.barrier()
    if t < w:
        u = fx.Float32(0.0)
        if lane < warps:
            u = s[lane]
        for i in fx.range_constexpr(w.bit_length() - 1):
            u = u + fx.shuffle_down(u, w >> (i + 1), w)
        if lane == 0:
            s[32] = u
    fx.barrier()
    out[fx.block_idx.x * fx.block_dim.x + t] = s[32]


@flyc.jit
def block_sum(a: fx.Tensor, out: fx.Tensor, warps: fx.Constexpr[int], threads: fx.Constexpr[int]):
    block_sum_kernel(a, out, warps).launch(grid=5, block=threads)


@pytest.mark.parametrize("arch", ARCHES)
def test_one_warp_alone(arch: str, rng: np.random.Generator, emulate):
    emulate(arch)
    threads = 4 * warp_of(arch)
    a = rng.standard_normal((5, threads)).astype(np.float32)
    out = np.zeros_like(a)
    block_sum(a.reshape(-1), out.reshape(-1), 4, threads)
    expected = np.broadcast_to(a.sum(1, dtype=np.float64)[:, None], out.shape)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-4)


@flyc.kernel
def divergent_kernel(a: fx.Tensor, out: fx.Tensor, rounds: fx.Tensor):
    """Lanes take different numbers of rounds; after them the whole warp is together again."""
    t = fx.thread_idx.x
    v = a[t]
    for _ in range(rounds[t]):
        v = v + fx.shuffle_xor(v, 1, 32)
    if fx.lane_id() < 16:
        v = v * 2 + fx.shuffle_xor(v, 2, 16)
    out[t] = v + fx.shuffle_xor(v, 16, 32)


@flyc.jit
def divergent(a: fx.Tensor, out: fx.Tensor, rounds: fx.Tensor):
    divergent_kernel(a, out, rounds).launch(grid=1, block=fx.get_scalar(a.shape[0]))


def test_divergent_lanes_come_together_again(rng: np.random.Generator, emulate):
    emulate("native")
    a = rng.integers(-50, 50, 128).astype(np.int32)
    rounds = np.repeat(rng.integers(0, 6, 64), 2).astype(np.int32)
    out = np.zeros_like(a)
    divergent(a, out, rounds)
    v = a.copy()
    for i in range(5):
        there = rounds > i
        v = np.where(there, v + v[np.arange(128) ^ 1], v)
    low = np.arange(128) % 32 < 16
    v = np.where(low, v * 2 + v[np.arange(128) ^ 2], v)
    np.testing.assert_array_equal(out, v + v[np.arange(128) ^ 16])


@flyc.kernel
def lanes_kernel(out: fx.Tensor):
    x, y, _ = fx.thread_idx
    out[y, x] = fx.lane_id()


@flyc.jit
def lanes(out: fx.Tensor):
    lanes_kernel(out).launch(grid=1, block=(48, 4))


@pytest.mark.parametrize("arch", ARCHES)
def test_lanes_count_across_rows(arch: str, emulate):
    emulate(arch)
    out = np.zeros((4, 48), np.int32)
    lanes(out)
    np.testing.assert_array_equal(out.ravel(), np.arange(192) % warp_of(arch))


def test_pass_by_pass(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator):
    """The named passes, run one by one, lower shared memory and barriers as the fused walk does."""
    import flydsl.compiler.build.driver as driver

    monkeypatch.setattr(driver, "plan", lambda specs, watched: driver.one_by_one(specs))
    for static in (True, False):
        a = rng.standard_normal(3 * 77).astype(np.float32)
        b = np.full_like(a, np.nan)
        reverse(a, b, 3, 77, static)
        np.testing.assert_array_equal(b, a.reshape(3, 77)[:, ::-1].ravel())
