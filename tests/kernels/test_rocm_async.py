"""Asynchronous copies with counted waits, scalar buffer loads, clusters and the tensor data mover."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import buffer_ops
from flydsl.llvm.objects.code_object import read_code_object

# --- asynchronous copies ------------------------------------------------------------------------------------------

STAGES = 4


@flyc.kernel
def pipeline_kernel(
    src: fx.Tensor,
    dst: fx.Tensor,
    steps: fx.Int32,
    bits: fx.Constexpr[int],
    depth: fx.Constexpr[int],
):
    """Sums rows of 512 values; `depth` rows are under way while one is added."""
    r, t = fx.rocdl, fx.thread_idx.x
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, STAGES * 512, 16]).peek()
    place = fx.get_iter(lds.view(fx.make_layout(1, 1)))
    each = bits // 32
    atom = fx.make_copy_atom(r.cdna4.BufferLoadAsyncLDS(bits), fx.Float32)
    buffer = fx.get_iter(r.make_buffer_tensor(src, max_size=False))
    one, per_pass = fx.make_layout(each, 1), 128 * each
    wave = r.readfirstlane(fx.Int32, t // 64)

    def fetch(step):
        for i in fx.range_constexpr(512 // per_pass):
            here = fx.make_view(buffer + (step * 512 + i * per_pass + t * each), one)
            to = fx.make_view(place + (step % STAGES * 512 + i * per_pass + wave * 64 * each), one)
            fx.copy_atom_call(atom, here, to)
        r.asyncmark()

    for i in fx.range_constexpr(depth):
        fetch(i)
    total = fx.make_rmem_tensor(4, fx.Float32)
    total.fill(0.0)
    for step in range(steps):
        fetch(step + depth)
        r.wait_asyncmark(depth)
        r.s_barrier()
        row = fx.make_view(place + step % STAGES * 512, fx.make_layout(512, 1))
        for i in fx.range_constexpr(4):
            total[i] = total[i] + row[511 - (t * 4 + i)]
        r.s_barrier()
    for i in fx.range_constexpr(4):
        dst[t * 4 + i] = total[i]


@flyc.jit
def pipeline(
    src: fx.Tensor,
    dst: fx.Tensor,
    steps: fx.Int32,
    bits: fx.Constexpr[int],
    depth: fx.Constexpr[int],
):
    pipeline_kernel(src, dst, steps, bits, depth).launch(grid=1, block=128)


def rows(steps: int):
    return np.random.default_rng().standard_normal((steps + 3, 512)).astype(np.float32), np.zeros(512, np.float32)


@pytest.mark.parametrize(("arch", "bits", "copies"), [("gfx942", 32, 4), ("gfx950", 128, 1), ("gfx950", 32, 4)])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_waits_count_groups(arch: str, bits: int, copies: int, depth: int):
    src, dst = rows(6)
    asm = flyc.compile(pipeline, src.reshape(-1), dst, 6, bits, depth, target=f"rocm:{arch}").artifact.asm
    waits = re.findall(r"s_waitcnt ([^\n]*vmcnt\(\d+\))[^\n]*\n(?:\s*;.*\n)*\s*s_barrier", asm)
    assert waits and all(wait.endswith(f"vmcnt({copies * depth})") for wait in waits)
    # No other wait for copies is in the loop: the reads rely on the one above.
    loop = asm[asm.index("s_barrier") : asm.rindex("s_cbranch")]
    assert not re.search(r"s_waitcnt[^\n]*vmcnt\(\d+\)[^\n]*\n\s*ds_read", loop.split("ds_read", 1)[0] + "ds_read")


def test_groups_of_unknown_size_wait_for_all():
    """A group whose copies stand under a branch may be empty: only a wait for everything is safe."""

    @flyc.kernel
    def kernel(src: fx.Tensor, dst: fx.Tensor, n: fx.Int32):
        r, t = fx.rocdl, fx.thread_idx.x
        lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 256, 16]).peek()
        place = fx.get_iter(lds.view(fx.make_layout(1, 1)))
        atom = fx.make_copy_atom(r.cdna4.BufferLoadAsyncLDS32b(), fx.Float32)
        buffer = fx.get_iter(r.make_buffer_tensor(src))
        one = fx.make_layout(1, 1)
        fx.copy_atom_call(atom, fx.make_view(buffer + t, one), fx.make_view(place, one))
        r.asyncmark()
        if n > 5:
            fx.copy_atom_call(atom, fx.make_view(buffer + t + 64, one), fx.make_view(place + 64, one))
        r.asyncmark()
        r.wait_asyncmark(1)
        dst[t] = fx.make_view(place, fx.make_layout(64, 1))[63 - t]

    @flyc.jit
    def run(src: fx.Tensor, dst: fx.Tensor, n: fx.Int32):
        kernel(src, dst, n).launch(grid=1, block=64)

    src, dst = rows(1)
    asm = flyc.compile(run, src.reshape(-1), dst, 6, target="rocm:gfx942").artifact.asm
    assert "vmcnt(0)" in asm[asm.rindex(" lds") : asm.index("ds_read")]


@pytest.mark.covering
@pytest.mark.parametrize(("arch", "bits"), [("gfx942", 32), ("gfx950", 128)])
@pytest.mark.parametrize("checked", ["0", "1"])
def test_pipeline_numbers(arch: str, bits: int, checked: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    monkeypatch.setenv("FLYDSL_CPU_CHECK", checked)
    src, dst = rows(7)
    pipeline(src.reshape(-1), dst, 7, bits, 2)
    expected = src[:7].astype(np.float64).sum(0)[::-1]
    np.testing.assert_allclose(dst, expected, rtol=1e-5, atol=1e-5)


def test_negative_count_and_bad_mask_are_refused():
    @flyc.jit
    def wait(a: fx.Tensor):
        wait_kernel(a).launch(grid=1, block=64)

    @flyc.kernel
    def wait_kernel(a: fx.Tensor):
        fx.rocdl.wait_asyncmark(-1)

    @flyc.jit
    def group(a: fx.Tensor):
        group_kernel(a).launch(grid=1, block=64)

    @flyc.kernel
    def group_kernel(a: fx.Tensor):
        fx.rocdl.sched_group_barrier(0x800, 1, 0)

    a = np.zeros(64, np.float32)
    with pytest.raises(ValueError, match="count of groups"):
        flyc.compile(wait, a, target="rocm:gfx942")
    with pytest.raises(ValueError, match="mask of at most 0x7ff"):
        flyc.compile(group, a, target="rocm:gfx942")


# --- scalar loads -------------------------------------------------------------------------------------------------


@flyc.kernel
def scalar_kernel(src: fx.Tensor, dst: fx.Tensor):
    r = buffer_ops.create_buffer_resource(src, max_size=False)
    at = fx.block_idx.x
    four = buffer_ops.buffer_load(r, at * 4, 4, fx.Float32, is_scalar=True)
    pair = buffer_ops.buffer_load(r, at * 2, 2, fx.Float16, is_scalar=True, soffset_bytes=8)
    one = buffer_ops.buffer_load(r, at, 1, fx.Int32, is_scalar=True, mask=at < 3)
    total = four[0] + four[1] * 2.0 + four[2] * 3.0 + four[3] + fx.Float32(pair[0] + pair[1])
    dst[at, fx.thread_idx.x] = total + fx.Float32(one & 255)


@flyc.jit
def scalar(src: fx.Tensor, dst: fx.Tensor):
    scalar_kernel(src, dst).launch(grid=5, block=64)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201", "gfx1250"])
def test_scalar_loads(arch: str):
    args = np.zeros(16, np.float32), np.zeros((5, 64), np.float32)
    asm = flyc.compile(scalar, *args, target=f"rocm:{arch}").artifact.asm
    wide, word = ("dwordx4", "dword") if arch.startswith("gfx9") else ("b128", "b32")
    found = re.findall(r"\b(s_buffer_load_\w+|buffer_load_\w+)", asm)
    assert sorted(found) == sorted([f"s_buffer_load_{wide}", f"s_buffer_load_{word}", f"s_buffer_load_{word}"])


def test_scalar_load_numbers(monkeypatch: pytest.MonkeyPatch):
    """Four blocks of data, and one out of range that reads zeros."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    src = np.random.default_rng().uniform(1, 2, 16).astype(np.float16).astype(np.float32)
    dst = np.full((5, 64), np.nan, np.float32)
    scalar(src, dst)
    halves, words = src.view(np.float16).astype(np.float32), src.view(np.int32)
    for b in range(5):
        a = src[4 * b : 4 * b + 4] if b < 4 else np.zeros(4)
        pair = np.float16(halves[2 * b + 4]) + np.float16(halves[2 * b + 5])
        expected = a[0] + 2 * a[1] + 3 * a[2] + a[3] + float(pair) + (int(words[b]) & 255 if b < 3 else 0)
        np.testing.assert_allclose(dst[b], expected, rtol=1e-6)


def test_scalar_loads_read_dwords():
    @flyc.kernel
    def kernel(a: fx.Tensor):
        r = buffer_ops.create_buffer_resource(a)
        a[0] = fx.Float32(buffer_ops.buffer_load(r, 0, 1, fx.Float16, is_scalar=True))

    @flyc.jit
    def run(a: fx.Tensor):
        kernel(a).launch(grid=1, block=64)

    with pytest.raises(ValueError, match="a scalar load reads 32, 64, .* are 16"):
        flyc.compile(run, np.zeros(64, np.float32), target="rocm:gfx942")


# --- clusters and the tensor data mover ---------------------------------------------------------------------------


@flyc.kernel
def cluster_kernel(a: fx.Tensor):
    c = fx.rocdl.cluster
    i = fx.thread_idx.x + 64 * fx.block_idx.x
    a[i] = c.cluster_id("x") + c.cluster_id("y") * 3 + c.workgroup_id("x") * 10 + c.flat_workgroup_id() * 100
    c.barrier()
    a[i + 1] = a[i] + 1


@flyc.jit
def clustered(a: fx.Tensor, extents: fx.Constexpr):
    cluster_kernel(a).launch(grid=(8, 2), block=64, cluster=extents)


def test_clusters():
    a = np.zeros(4096, np.int32)
    artifact = flyc.compile(clustered, a, (2, 2, 1), target="rocm:gfx1250").artifact
    assert '"amdgpu-cluster-dims"="2,2,1"' in artifact.llvm_ir
    assert re.search(r"\.cluster_dims:\s+- 2\s+- 2\s+- 1", artifact.asm)
    code = artifact.asm
    # The first wave of each block signals the cluster, all wait; memory is settled before and looked at anew after.
    order = [
        code.index(word) for word in ("s_wait_storecnt 0x0", "s_barrier_signal -3", "s_barrier_wait -3", "global_inv")
    ]
    assert order == sorted(order) and "ttmp6" in code
    assert read_code_object(artifact.binary("hsaco")).kernels[0].wavefront_size == 32
    with pytest.raises(ValueError, match="gfx942 has no clusters"):
        flyc.compile(clustered, a, (2, 1, 1), target="rocm:gfx942")


def test_a_kernel_without_clusters_looks_for_none():
    @flyc.kernel
    def kernel(a: fx.Tensor):
        a[fx.block_idx.x * 64 + fx.thread_idx.x] = 1

    @flyc.jit
    def run(a: fx.Tensor):
        kernel(a).launch(grid=8, block=64)

    artifact = flyc.compile(run, np.zeros(4096, np.int32), target="rocm:gfx1250").artifact
    assert '"amdgpu-cluster-dims"="0,0,0"' in artifact.optimized_ir
    assert "IB_STS2" not in artifact.asm and "ttmp9" in artifact.asm


def test_cluster_ids_take_a_dimension():
    @flyc.kernel
    def kernel(a: fx.Tensor):
        a[0] = fx.rocdl.cluster.cluster_id("w")

    @flyc.jit
    def run(a: fx.Tensor):
        kernel(a).launch(grid=8, block=64, cluster=2)

    with pytest.raises(ValueError, match="'x', 'y' or 'z', got 'w'"):
        flyc.compile(run, np.zeros(64, np.int32), target="rocm:gfx1250")


@flyc.kernel
def mover_kernel(src: fx.Tensor, dst: fx.Tensor):
    tile = (32, 64)
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 32 * 64, 16]).peek()
    shared = lds.view(fx.make_layout(tile, (64, 1)))
    here = (None, None, fx.block_idx.x, fx.block_idx.y)
    atom = fx.rocdl.cdna5.make_tdm_atom(fx.Float16, 2, num_warps=4)
    fx.copy(atom, fx.flat_divide(src, tile)[here], shared, extent_0=20)
    fx.rocdl.s_wait_tensorcnt(0)
    fx.barrier()
    fx.copy(atom, shared, fx.flat_divide(dst, tile)[here])


@flyc.jit
def mover(src: fx.Tensor, dst: fx.Tensor):
    mover_kernel(src, dst).launch(grid=(2, 2), block=128)


def test_tiles_of_a_matrix_move_by_copy():
    """Run-time strides go into the descriptor; every wave moves its quarter of the rows."""
    a = np.zeros((64, 128), np.float16)
    asm = flyc.compile(mover, a, a, target="rocm:gfx1250").artifact.asm
    order = [asm.index(word) for word in ("tensor_load_to_lds", "s_wait_tensorcnt 0x0", "tensor_store_from_lds")]
    assert order == sorted(order) and "ttmp8" in asm
