"""Buffer memory: copies, bounds, offsets, atomics, copies into shared memory, and the older `buffer_ops`."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import buffer_ops

ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
NEW = ("gfx11", "gfx12")


def wave_of(arch: str) -> int:
    return 32 if arch.startswith("gfx1") else 64


@pytest.fixture
def emulate(monkeypatch: pytest.MonkeyPatch):
    """Run on the cpu stack as this architecture."""

    def set_arch(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    return set_arch


# --- copies -------------------------------------------------------------------------------------------------------


@flyc.kernel
def copy_kernel(src: fx.Tensor, dst: fx.Tensor, size: fx.Int32, bits: fx.Constexpr, cache: fx.Constexpr):
    op = fx.rocdl.BufferCopy(bits, cache)
    atom = fx.make_copy_atom(op, src.dtype)
    values = bits // src.dtype.width
    s = fx.rocdl.make_buffer_tensor(src, num_records_bytes=size)
    d = fx.rocdl.make_buffer_tensor(dst, num_records_bytes=size)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((1, 64), (64, 1)), fx.make_layout((1, values), (values, 1)))
    mine = tiled.get_slice(fx.thread_idx.x)
    tile = (None, None, 0, fx.block_idx.x)
    read = mine.partition_S(fx.flat_divide(s, tiled.tile_mn)[tile])
    write = mine.partition_D(fx.flat_divide(d, tiled.tile_mn)[tile])
    registers = fx.make_fragment_like(read)
    fx.copy(atom, read, registers)
    fx.copy(atom, registers, write)


@flyc.jit
def copy(src: fx.Tensor, dst: fx.Tensor, size: fx.Int32, blocks: fx.Constexpr, bits: fx.Constexpr, cache: fx.Constexpr):
    copy_kernel(src, dst, size, bits, cache).launch(grid=blocks, block=64)


OLD_NAMES = {
    8: ("ubyte", "byte"),
    16: ("ushort", "short"),
    32: ("dword",) * 2,
    64: ("dwordx2",) * 2,
    128: ("dwordx4",) * 2,
}


@pytest.mark.covering
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    ("bits", "dtype"), [(8, "int8"), (16, "float16"), (32, "float32"), (64, "float32"), (128, "float16")]
)
def test_copy(bits: int, dtype: str, arch: str, emulate):
    """Every width: one instruction each way; nothing outside the descriptor's range is read or written."""
    values = bits // (8 * np.dtype(dtype).itemsize)
    n = 64 * values * 3
    src = np.random.default_rng().integers(1, 100, (1, n)).astype(dtype)
    dst = np.full((1, n), 111, dtype)
    size = (n - 5 * values) * src.itemsize
    asm = flyc.compile(copy, src, dst, size, 3, bits, 0, target=f"rocm:{arch}").artifact.asm
    if arch.startswith(NEW):
        assert re.search(rf"buffer_load_[ub]{bits} ", asm) and re.search(rf"buffer_store_b{bits} ", asm)
    else:
        load, store = OLD_NAMES[bits]
        assert f"buffer_load_{load} " in asm and f"buffer_store_{store} " in asm
    emulate(arch)
    copy(src, dst, size, 3, bits, 0)
    kept = size // src.itemsize
    np.testing.assert_array_equal(dst[0, :kept], src[0, :kept])
    assert (dst[0, kept:] == 111).all()


@pytest.mark.parametrize(
    ("arch", "says"), [("gfx942", r"buffer_load_dword .* nt"), ("gfx1100", "slc"), ("gfx1201", "th:TH_LOAD_HT")]
)
def test_cache_modifier(arch: str, says: str):
    src, dst = np.zeros((1, 64), np.float32), np.zeros((1, 64), np.float32)
    asm = flyc.compile(copy, src, dst, 256, 1, 32, 2, target=f"rocm:{arch}").artifact.asm
    assert re.search(says, asm), [line for line in asm.splitlines() if "buffer_load" in line]


def test_descriptor_words():
    """The last word of the descriptor says how bounds are checked."""
    src, dst = np.zeros((1, 64), np.float32), np.zeros((1, 64), np.float32)
    for arch, word in (("gfx942", "0x27000"), ("gfx1100", "0x31027000"), ("gfx1201", "0x31027000")):
        assert word in flyc.compile(copy, src, dst, 256, 1, 32, 0, target=f"rocm:{arch}").artifact.asm


# --- element access, sizes, offsets -------------------------------------------------------------------------------


@flyc.kernel
def access_kernel(src: fx.Tensor, dst: fx.Tensor, shift: fx.Int32):
    i = fx.thread_idx.x
    s = fx.rocdl.make_buffer_tensor(src, max_size=False)
    d = fx.rocdl.make_buffer_tensor(dst, max_size=False)
    assert s.memspace == fx.rocdl.BufferDesc and fx.rocdl.get_buffer_rsrc(s) is not None
    d[i] = s[i + 60] + s[i]  # beyond the end: 0
    out = fx.make_rmem_tensor(1, fx.Float32)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    fx.copy(atom, fx.make_view(fx.get_iter(s) + i, fx.make_layout(1, 1)), out, soffset=shift)
    fx.copy(atom, out, fx.make_view(fx.get_iter(d) + i, fx.make_layout(1, 1)), soffset=64)


@flyc.jit
def access(src: fx.Tensor, dst: fx.Tensor, shift: fx.Int32):
    access_kernel(src, dst, shift).launch(grid=1, block=64)


@pytest.mark.parametrize("arch", ARCHES)
def test_elements_and_soffset(arch: str, emulate):
    src = np.random.default_rng().standard_normal(100).astype(np.float32)
    dst = np.zeros(128, np.float32)
    args = [flyc.from_dlpack(src), flyc.from_dlpack(dst), 7]
    assert "buffer_load" in flyc.compile(access, *args, target=f"rocm:{arch}").artifact.asm
    emulate(arch)
    access(*args)
    padded = np.concatenate([src, np.zeros(100, np.float32)])
    np.testing.assert_array_equal(dst[:64], padded[60:124] + src[:64])
    np.testing.assert_array_equal(dst[64:], src[7:71])


# --- atomics ------------------------------------------------------------------------------------------------------


@flyc.kernel
def atomic_kernel(src: fx.Tensor, dst: fx.Tensor, make: fx.Constexpr, elem: fx.Constexpr, n: fx.Constexpr):
    i = fx.thread_idx.x
    op = getattr(fx.rocdl, make)(elem)
    atom = fx.make_copy_atom(op, src.dtype)
    value = fx.make_rmem_tensor(n, src.dtype)
    for j in fx.range_constexpr(n):
        value[j] = src[i * n + j]
    d = fx.rocdl.make_buffer_tensor(dst, max_size=False)
    fx.copy_atom_call(atom, value, fx.make_view(fx.get_iter(d) + (i % 4) * n, fx.make_layout(n, 1)))


@flyc.jit
def atomic(src: fx.Tensor, dst: fx.Tensor, make: fx.Constexpr, elem: fx.Constexpr, n: fx.Constexpr):
    atomic_kernel(src, dst, make, elem, n).launch(grid=1, block=64)


ATOMICS = {
    ("BufferAtomicAdd", "Float32"): ARCHES,
    ("BufferAtomicPkAdd", "Float16"): ("gfx90a", "gfx942", "gfx950", "gfx1201", "gfx1250"),
    ("BufferAtomicPkAdd", "BFloat16"): ("gfx950", "gfx1201", "gfx1250"),
    ("BufferAtomicMax", "Float32"): ("gfx1100", "gfx1201", "gfx1250"),
    ("BufferAtomicAdd", "Float64"): ("gfx90a", "gfx942", "gfx950"),
    ("BufferAtomicMax", "Float64"): ("gfx90a", "gfx942", "gfx950"),
    ("BufferAtomicMin", "Float64"): ("gfx90a", "gfx942", "gfx950"),
    ("BufferAtomicMax", "Int32"): ARCHES,
    ("BufferAtomicMin", "Uint32"): ARCHES,
}


@pytest.mark.covering
@pytest.mark.parametrize(("make", "elem"), ATOMICS)
@pytest.mark.parametrize("arch", ARCHES)
def test_atomics(make: str, elem: str, arch: str, emulate):
    import ml_dtypes

    dtype = {"BFloat16": ml_dtypes.bfloat16}.get(elem, elem.lower())
    n = 2 if "Pk" in make else 1
    rng = np.random.default_rng()
    src = rng.integers(0, 8, 64 * n).astype(dtype)
    dst = np.full(4 * n, 3, dtype)
    arguments = [flyc.from_dlpack(t.view(np.int16)) if elem == "BFloat16" else flyc.from_dlpack(t) for t in (src, dst)]
    if elem == "BFloat16":
        pytest.skip("numpy has no bfloat16 to pass")
    spec = (make, getattr(fx, elem), n)
    if arch not in ATOMICS[make, elem]:
        with pytest.raises(ValueError, match=f"does not exist on {arch}"):
            flyc.compile(atomic, *arguments, *spec, target=f"rocm:{arch}")
        return
    assert "buffer_atomic_" in flyc.compile(atomic, *arguments, *spec, target=f"rocm:{arch}").artifact.asm
    emulate(arch)
    expected = dst.astype(np.float64)
    combine = np.add if "Add" in make else np.maximum if "Max" in make else np.minimum
    for i in range(64):
        at = slice((i % 4) * n, (i % 4) * n + n)
        expected[at] = combine(expected[at], src[i * n : i * n + n].astype(np.float64))
    atomic(*arguments, *spec)
    np.testing.assert_array_equal(dst.astype(np.float64), expected)


# --- copies into shared memory ------------------------------------------------------------------------------------


@flyc.kernel
def dma_kernel(src: fx.Tensor, dst: fx.Tensor, make: fx.Constexpr, words: fx.Constexpr):
    i = fx.thread_idx.x
    wave = i // 64
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 128 * words, 16]).peek()
    shared = lds.view(fx.make_layout(128 * words, 1))
    buffered = "Buffer" in make
    s = fx.rocdl.make_buffer_tensor(src, max_size=False) if fx.const_expr(buffered) else src
    space = fx.rocdl if hasattr(fx.rocdl, make) else fx.rocdl.cdna4
    atom = fx.make_copy_atom(getattr(space, make)(), fx.Int32)
    # Lanes read backwards; what they read lies in lane order.
    lane = 63 - i % 64
    at = fx.make_view(fx.get_iter(s) + (wave * 64 + lane) * words, fx.make_layout(words, 1))
    to = fx.make_view(fx.get_iter(shared) + wave * 64 * words, fx.make_layout(words, 1))
    fx.copy_atom_call(atom, at, to)
    fx.rocdl.asyncmark()
    fx.rocdl.wait_asyncmark(0)
    fx.barrier()
    for j in fx.range_constexpr(words):
        dst[i * words + j] = shared[i * words + j]


@flyc.jit
def dma(src: fx.Tensor, dst: fx.Tensor, make: fx.Constexpr, words: fx.Constexpr):
    dma_kernel(src, dst, make, words).launch(grid=1, block=128)


DMA = [
    ("gfx90a", "BufferCopyLDS32b", 1, "buffer_load_dword .* lds"),
    ("gfx942", "BufferCopyLDS32b", 1, "buffer_load_dword .* lds"),
    ("gfx950", "BufferCopyLDS32b", 1, "buffer_load_dword .* lds"),
    ("gfx950", "BufferCopyLDS128b", 4, "buffer_load_dwordx4 .* lds"),
    ("gfx950", "BufferLoadAsyncLDS128b", 4, "buffer_load_dwordx4 .* lds"),
    ("gfx942", "GlobalLoadAsyncLDS32b", 1, "global_load_lds_dword "),
    ("gfx950", "GlobalLoadAsyncLDS128b", 4, "global_load_lds_dwordx4 "),
]


@pytest.mark.parametrize(("arch", "make", "words", "says"), DMA)
def test_copy_into_shared_memory(arch: str, make: str, words: int, says: str, emulate):
    src = np.random.default_rng().integers(0, 2**30, 128 * words).astype(np.int32)
    dst = np.zeros_like(src)
    args = [flyc.from_dlpack(src), flyc.from_dlpack(dst), make, words]
    assert re.search(says, flyc.compile(dma, *args, target=f"rocm:{arch}").artifact.asm)
    emulate(arch)
    dma(*args)
    np.testing.assert_array_equal(dst.reshape(2, 64, words), src.reshape(2, 64, words)[:, ::-1])


def test_widths_of_copies_into_shared_memory():
    with pytest.raises(ValueError, match="unsupported bitSize = 64 for BufferCopyLDS"):
        fx.rocdl.BufferCopyLDS64b()
    src = np.zeros(512, np.int32)
    with pytest.raises(ValueError, match="gfx942 has: BufferCopyLDS32b"):
        flyc.compile(dma, flyc.from_dlpack(src), flyc.from_dlpack(src), "BufferCopyLDS128b", 4, target="rocm:gfx942")


# --- buffer_ops ---------------------------------------------------------------------------------------------------


@flyc.kernel
def ops_kernel(src: fx.Tensor, dst: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    r = buffer_ops.create_buffer_resource(src, max_size=False)
    w = buffer_ops.create_buffer_resource(dst, num_records_bytes=n * 4)
    v = buffer_ops.buffer_load(r, i * 4, vec_width=4, mask=i < 40)
    one = buffer_ops.buffer_load(r, i, vec_width=1, dtype=fx.Float32, soffset_bytes=8)
    buffer_ops.buffer_store(v + one, w, i * 4)
    buffer_ops.buffer_store(one, w, i * 4 + 1024, mask=i == 3, offset_is_bytes=True)


@flyc.jit
def ops(src: fx.Tensor, dst: fx.Tensor, n: fx.Int32):
    ops_kernel(src, dst, n).launch(grid=1, block=64)


@pytest.mark.parametrize("arch", ARCHES)
def test_buffer_ops(arch: str, emulate):
    src = np.random.default_rng().standard_normal(256).astype(np.float32)
    dst = np.full(400, -1, np.float32)
    args = [flyc.from_dlpack(src), flyc.from_dlpack(dst), 261]
    asm = flyc.compile(ops, *args, target=f"rocm:{arch}").artifact.asm
    assert re.search(r"buffer_load_(dwordx4|b128)", asm) and re.search(r"buffer_store_(dwordx4|b128)", asm)
    emulate(arch)
    ops(*args)
    i = np.arange(64)
    v = np.where(i[:, None] < 40, src.reshape(64, 4), 0)
    expected = np.full(400, -1, np.float32)
    expected[:256] = (v + src[i + 2][:, None]).reshape(-1)
    expected[256 + 3] = src[5]
    np.testing.assert_array_equal(dst, expected)


@flyc.kernel
def unbounded_kernel(src: fx.Tensor, dst: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    r, w = (buffer_ops.create_buffer_resource(t) for t in (src, dst))
    pair = buffer_ops.buffer_load(r, i * 2, vec_width=2, mask=i < n)
    one = buffer_ops.buffer_load(r, i, vec_width=1, mask=i >= n)
    buffer_ops.buffer_store(pair + one, w, i * 2, mask=i != 7)


@flyc.jit
def unbounded(src: fx.Tensor, dst: fx.Tensor, n: fx.Int32):
    unbounded_kernel(src, dst, n).launch(grid=1, block=64)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_masks_of_unbounded_resources(arch: str, emulate):
    """Every offset is within the default resource, so a masked access must not happen at all."""
    src = np.random.default_rng().standard_normal(128).astype(np.float32)
    dst = np.full(128, -1, np.float32)
    emulate(arch)
    unbounded(src, dst, 40)
    i = np.arange(64)
    expected = np.where(i[:, None] < 40, src.reshape(64, 2), src[:64, None])
    expected[7] = -1
    np.testing.assert_array_equal(dst, expected.reshape(-1))
