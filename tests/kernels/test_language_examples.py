"""The ten example kernels of the language reference, as written there, on random data and odd sizes.

Each "Computes" line of the reference is a test here. The kernels themselves are copied from it unchanged.
"""

import ctypes

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

# fmt: off


# E1: guarded axpy on raw pointers


@flyc.kernel
def axpy_kernel(x: fx.Pointer, y: fx.Pointer, a: fx.Float32, n: fx.Int32):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    if i < n:
        y[i] = a * x[i] + y[i]


@flyc.jit
def axpy(x: fx.Pointer, y: fx.Pointer, a: fx.Float32, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    axpy_kernel(x, y, a, n).launch(grid=fx.ceildiv(n, 128), block=128, stream=stream)


# E2: transpose of run-time sizes


@flyc.kernel
def transpose_kernel(src: fx.Tensor, dst: fx.Tensor):
    rows, cols = src.shape.unpack()
    c = fx.block_idx.x * 16 + fx.thread_idx.x
    r = fx.block_idx.y * 16 + fx.thread_idx.y
    if r < rows and c < cols:
        dst[c, r] = src[r, c]


@flyc.jit
def transpose(src: fx.Tensor, dst: fx.Tensor):
    rows, cols = src.shape.unpack()
    transpose_kernel(src, dst).launch(grid=(fx.ceildiv(cols, 16), fx.ceildiv(rows, 16)), block=(16, 16))


# E3: ReLU through a tiled copy with predicates


@flyc.kernel
def relu_tiled_kernel(X: fx.Tensor, Y: fx.Tensor, tiled: fx.TiledCopy):
    m, n = X.shape.unpack()
    bx, by, _ = fx.block_idx
    mine = tiled.get_slice(fx.thread_idx.x)
    where = fx.make_view((0, 0), fx.make_identity_layout((m, n)))
    cut = lambda t: fx.flat_divide(t, tiled.tile_mn)[None, None, bx, by]  # noqa: E731
    src, dst = mine.partition_S(cut(X)), mine.partition_D(cut(Y))
    crd = mine.partition_S(cut(where))[(0, None), None, None]
    ok = fx.make_fragment_like(crd, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(ok.shape).unpack()):
        ok[i] = fx.elem_less(crd[i], (m, n))
    regs = fx.make_fragment_like(src)
    regs.fill(0.0)
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    fx.copy(atom, src, regs, pred=ok)
    v = regs.load()
    regs.store((v > 0.0).select(v, 0.0))
    fx.copy(atom, regs, dst, pred=ok)


@flyc.jit
def relu_tiled(X: fx.Tensor, Y: fx.Tensor):
    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((4, 16), (16, 1)), fx.make_layout((2, 2), (2, 1)))
    tm, tn = tiled.tile_mn.unpack()
    m, n = X.shape.unpack()
    relu_tiled_kernel(X, Y, tiled).launch(grid=((m + tm - 1) // tm, (n + tn - 1) // tn), block=64)


# E4: row norms with a block reduction


@flyc.kernel
def row_norm_kernel(X: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    reduce = fx.coop.BlockReduce[fx.Float32, fx.known_block_size()]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    row = fx.block_idx.x
    acc = 0.0
    for c in range(fx.thread_idx.x, n, 256):
        x = X[row, c]
        acc = acc + x * x
    total = reduce(acc, fx.ReductionOp.ADD, storage=scratch)
    if fx.thread_idx.x == 0:
        out[row] = fx.sqrt(total)


@flyc.jit
def row_norm(X: fx.Tensor, out: fx.Tensor):
    m, n = X.shape.unpack()
    row_norm_kernel(X, out, n).launch(grid=m, block=256)


# E5: per-block prefix sum of 4 items per thread


@flyc.kernel
def prefix_kernel(x: fx.Pointer, y: fx.Pointer, items: fx.Constexpr[int]):
    scan = fx.coop.BlockScan[fx.Int32, 128]
    scratch = fx.SharedAllocator().allocate(scan.SharedStorage).peek()
    base = (fx.block_idx.x * 128 + fx.thread_idx.x) * items
    mine = fx.Vector.from_elements([x[base + i] for i in range(items)])
    run, total = scan.inclusive_with_aggregate(mine, fx.ReductionOp.ADD, storage=scratch, init=fx.Int32(100))
    for i in fx.range_constexpr(items):
        y[base + i] = run[i]


@flyc.jit
def prefix(x: fx.Pointer, y: fx.Pointer, blocks: fx.Int32, items: fx.Constexpr[int] = 4):
    prefix_kernel(x, y, items).launch(grid=blocks, block=128)


# E6: histogram with an atomic copy atom


@flyc.kernel
def histogram_kernel(keys: fx.Tensor, bins: fx.Tensor, n: fx.Int32, nbins: fx.Constexpr[int]):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    bump = fx.make_copy_atom(fx.UniversalAtomicAdd(fx.Int32), fx.Int32)
    one = fx.make_rmem_tensor(1, fx.Int32)
    one.fill(1)
    if i < n:
        b = keys[i] % nbins
        slot = fx.make_view(fx.get_iter(bins) + b, fx.make_layout(1, 1))
        fx.copy_atom_call(bump, one, slot)


@flyc.jit
def histogram(keys: fx.Tensor, bins: fx.Tensor, n: fx.Int32, nbins: fx.Constexpr[int]):
    histogram_kernel(keys, bins, n, nbins).launch(grid=(n + 255) // 256, block=256)


# E7: matrix product with TiledMma over scalar FMA


@flyc.kernel
def sgemm_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma, kt: fx.Constexpr[int]):
    bm, bn, _ = fx.block_idx
    thr = mma.get_slice(fx.thread_idx.x)
    gA = fx.flat_divide(A, (32, kt))[None, None, bm, None]
    gB = fx.flat_divide(B, (32, kt))[None, None, bn, None]
    gC = fx.flat_divide(C, (32, 32))[None, None, bm, bn]
    tA, tB, tC = thr.partition_A(gA), thr.partition_B(gB), thr.partition_C(gC)
    rA = thr.make_fragment_A(gA[None, None, 0])
    rB = thr.make_fragment_B(gB[None, None, 0])
    rC = thr.make_fragment_C(gC)
    rC.fill(0.0)
    word = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    steps = fx.get_scalar(fx.size(gA.shape[2]))
    for k in range(steps):
        fx.copy(word, tA[None, None, None, k], rA)
        fx.copy(word, tB[None, None, None, k], rB)
        fx.gemm(mma, rC, rA, rB, rC)
    fx.copy(word, rC, tC)


@flyc.jit
def sgemm(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor):
    mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((16, 16, 1), (1, 16, 0)))
    m, n = C.shape.unpack()
    sgemm_kernel(A, B, C, mma, 8).launch(grid=(m // 32, n // 32), block=256)


# E8: while loop and conditional expression


@flyc.kernel
def collatz_kernel(start: fx.Tensor, steps: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        v = start[i]
        count = fx.Int32(0)
        while v != 1 and count < 1000:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            count += 1
        steps[i] = count


@flyc.jit
def collatz(start: fx.Tensor, steps: fx.Tensor, n: fx.Int32):
    collatz_kernel(start, steps, n).launch(grid=fx.ceildiv(n, 64), block=64)


# E9: struct argument, dynamic shared memory, swizzled view


@fx.struct
class Affine:
    scale: fx.Float32
    bias: fx.Float32
    unroll: fx.Constexpr[int]


@fx.struct
class Tile:
    body: fx.Array[fx.Float32, 1024, 16]


@flyc.kernel
def affine_flip_kernel(x: fx.Tensor, y: fx.Tensor, p: Affine):
    lds = fx.SharedAllocator(static=False).allocate(Tile).peek()
    swz = fx.make_composed_layout(fx.static(fx.SwizzleType.get(3, 2, 3)), fx.make_layout((32, 32), (32, 1)))
    tile = fx.make_view(lds.body.ptr, swz)
    t = fx.thread_idx.x
    for j in fx.range_constexpr(p.unroll):
        r = t // 32 + j * (256 // 32)
        c = t % 32
        tile[r, c] = p.scale * x[r, c] + p.bias
    fx.gpu.barrier()
    for j in fx.range_constexpr(p.unroll):
        r = t // 32 + j * (256 // 32)
        c = t % 32
        y[r, c] = tile[c, r]


@flyc.jit
def affine_flip(x: fx.Tensor, y: fx.Tensor, p: Affine):
    affine_flip_kernel(x, y, p).launch(grid=1, block=256)


# E10: two kernels, inlined jit helper, RNG, shuffle


@flyc.jit
def clamp01(v):
    return fx.min(fx.max(v, 0.0), 1.0)


@flyc.kernel
def noise_kernel(out: fx.Pointer, seed: fx.Int32, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        out[i] = clamp01(fx.random.rand(seed, i) * 2.0 - 0.5)


@flyc.kernel(name="lane_rotate")
def rotate_kernel(src: fx.Pointer, out: fx.Pointer, width: fx.Constexpr[int]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    lane = fx.lane_id()
    peer = (lane // width) * width + (lane + 1) % width
    out[i] = fx.shuffle_idx(src[i], peer, width)


@flyc.jit
def noise_rotate(tmp: fx.Pointer, out: fx.Pointer, seed: fx.Int32, blocks: fx.Int32, width: fx.Constexpr[int] = 32):
    noise_kernel(tmp, seed, blocks * 64).launch(grid=blocks, block=64)
    rotate_kernel(tmp, out, width).launch(grid=blocks, block=64)


# fmt: on


def pointer(dtype, array):
    return flyc.from_c_void_p(dtype, ctypes.c_void_p(array.ctypes.data))


CASES = 5


def sizes(rng, low, high):
    return [int(n) for n in rng.integers(low, high, CASES)]


def test_e1_axpy(rng: np.random.Generator):
    for n in [1, 127, 128, 129, *sizes(rng, 1, 5000)]:
        room = n + 17
        x, y = (rng.standard_normal(room, dtype=np.float32) for _ in range(2))
        a = float(np.float32(rng.standard_normal()))
        expected = np.float32(a) * x + y
        before = y.copy()
        axpy(pointer(fx.Float32, x), pointer(fx.Float32, y), a, n)
        np.testing.assert_allclose(y[:n], expected[:n], rtol=1e-6, atol=1e-6, err_msg=f"n = {n}")
        np.testing.assert_array_equal(y[n:], before[n:])


def test_e2_transpose(rng: np.random.Generator):
    for rows, cols in [(1, 1), (16, 16), (17, 31), *zip(sizes(rng, 1, 120), sizes(rng, 1, 120), strict=True)]:
        src = rng.standard_normal((rows, cols), dtype=np.float32)
        dst = np.full((cols, rows), np.nan, np.float32)
        transpose(src, dst)
        np.testing.assert_array_equal(dst, src.T)


def test_e3_relu_tiled(rng: np.random.Generator):
    for m, half in [(1, 1), (8, 16), (9, 17), *zip(sizes(rng, 1, 60), sizes(rng, 1, 60), strict=True)]:
        n = 2 * half
        room = rng.standard_normal((m + 3, n), dtype=np.float32)
        out = np.full((m + 3, n), np.nan, np.float32)
        relu_tiled(room[:m], out[:m])
        np.testing.assert_array_equal(out[:m], np.maximum(room[:m], 0), err_msg=f"{m} x {n}")
        assert np.isnan(out[m:]).all()


def test_e4_row_norms(rng: np.random.Generator):
    for m, n in [(1, 1), (3, 256), (2, 257), *zip(sizes(rng, 1, 9), sizes(rng, 1, 2000), strict=True)]:
        x = rng.standard_normal((m, n), dtype=np.float32)
        out = np.full(m, np.nan, np.float32)
        row_norm(x, out)
        np.testing.assert_allclose(out, np.linalg.norm(x.astype(np.float64), axis=1), rtol=1e-5, err_msg=f"{m} x {n}")


@pytest.mark.parametrize("items", [4, 1, 3])
def test_e5_prefix_sums(items: int, rng: np.random.Generator):
    for blocks in [1, 2, 5]:
        x = rng.integers(-1000, 1000, blocks * 128 * items, dtype=np.int32)
        y = np.full_like(x, -7)
        prefix(pointer(fx.Int32, x), pointer(fx.Int32, y), blocks, items)
        expected = 100 + x.reshape(blocks, -1).cumsum(axis=1)
        np.testing.assert_array_equal(y.reshape(blocks, -1), expected)


def test_e6_histogram(rng: np.random.Generator):
    for n, nbins in [(1, 1), (256, 8), *zip(sizes(rng, 1, 5000), sizes(rng, 1, 40), strict=True)]:
        keys = rng.integers(0, 1 << 30, n + 5, dtype=np.int32)
        bins = np.zeros(nbins, np.int32)
        histogram(keys, bins, n, nbins)
        np.testing.assert_array_equal(bins, np.bincount(keys[:n] % nbins, minlength=nbins))


def test_e7_sgemm(rng: np.random.Generator):
    for m, n, k in [(32, 32, 8), *zip(sizes(rng, 1, 4), sizes(rng, 1, 4), sizes(rng, 1, 6), strict=True)]:
        m, n, k = (m, n, k) if k == 8 and m == 32 else (32 * m, 32 * n, 8 * k)
        a, b = rng.standard_normal((m, k), dtype=np.float32), rng.standard_normal((n, k), dtype=np.float32)
        c = np.full((m, n), np.nan, np.float32)
        sgemm(a, b, c)
        np.testing.assert_allclose(c, a.astype(np.float64) @ b.T, rtol=1e-4, atol=1e-4, err_msg=f"{m} x {n} x {k}")


def steps_to_one(v: int) -> int:
    count = 0
    while v != 1 and count < 1000:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        count += 1
    return count


def test_e8_collatz(rng: np.random.Generator):
    for n in [1, 63, 65, *sizes(rng, 1, 500)]:
        start = rng.integers(1, 10000, n + 3, dtype=np.int32)
        steps = np.full(n + 3, -1, np.int32)
        collatz(start, steps, n)
        assert steps[:n].tolist() == [steps_to_one(int(v)) for v in start[:n]]
        assert (steps[n:] == -1).all()


def test_e9_affine_flip(rng: np.random.Generator):
    for _ in range(CASES):
        x = rng.standard_normal((32, 32), dtype=np.float32)
        y = np.full((32, 32), np.nan, np.float32)
        scale, bias = (float(v) for v in rng.standard_normal(2, dtype=np.float32))
        affine_flip(x, y, Affine(scale, bias, 4))
        np.testing.assert_allclose(y, (np.float32(scale) * x + np.float32(bias)).T, rtol=1e-6, atol=1e-6)


def test_e9_infers_its_shared_memory():
    x = np.zeros((32, 32), np.float32)
    compiled = flyc.compile(affine_flip, x, x, Affine(2.0, 1.0, 4))
    assert "arith.constant 4096 : i32" in compiled.artifact.source_ir
    assert "dynamic_shared_memory_size" in compiled.artifact.source_ir


def philox(seed: int, offset: int) -> int:
    """First word of Philox 4x32-10, in plain Python."""
    c, k = [offset & 0xFFFFFFFF, 0, 0, 0], [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0]


def uniform(seed: int, offset: int) -> float:
    x = philox(seed, offset)
    x = x - (1 << 32) if x >> 31 else x
    return (-x - 1 if x < 0 else x) * 4.6566127342e-10


@pytest.mark.parametrize("width", [32, 8])
def test_e10_noise_rotate(width: int, rng: np.random.Generator):
    for blocks in [1, 3]:
        seed = int(rng.integers(0, 1 << 31))
        tmp, out = (np.full(64 * blocks, np.nan, np.float32) for _ in range(2))
        noise_rotate(pointer(fx.Float32, tmp), pointer(fx.Float32, out), seed, blocks, width)
        expected = [min(max(2 * uniform(seed, i) - 0.5, 0.0), 1.0) for i in range(64 * blocks)]
        np.testing.assert_allclose(tmp, expected, rtol=1e-6, atol=1e-6)
        lanes = np.arange(64 * blocks)
        peer = lanes // width * width + (lanes % width + 1) % width
        np.testing.assert_array_equal(out, tmp[peer])


def arguments_of(name: str) -> tuple:
    """Arguments of each example's host function, for a compilation."""
    matrix, line = np.zeros((32, 32), np.float32), np.zeros(64, np.float32)
    ints, real, whole = np.zeros(64, np.int32), flyc.from_c_void_p(fx.Float32, 0), flyc.from_c_void_p(fx.Int32, 0)
    return {
        "axpy": (real, real, 2.0, 64),
        "transpose": (matrix, matrix),
        "relu_tiled": (matrix, matrix),
        "row_norm": (matrix, line),
        "prefix": (whole, whole, 2),
        "histogram": (ints, ints, 64, 8),
        "sgemm": (matrix, matrix, matrix),
        "collatz": (ints, ints, 64),
        "affine_flip": (matrix, matrix, Affine(2.0, 1.0, 4)),
        "noise_rotate": (real, real, 1, 2),
    }[name]


@pytest.mark.covering
@pytest.mark.parametrize("target", ["rocm:gfx942", "rocm:gfx1201", "cuda:sm_80"])
@pytest.mark.parametrize(
    "function",
    [axpy, transpose, relu_tiled, row_norm, prefix, histogram, sgemm, collatz, affine_flip, noise_rotate],
    ids=lambda f: f.__name__,
)
def test_compiles_for_gpus(function, target: str):
    artifact = flyc.compile(function, *arguments_of(function.__name__), target=target).artifact
    names = [k["name"] for k in artifact.kernels]
    assert names == (
        ["noise_kernel_0", "lane_rotate"] if function is noise_rotate else [f"{function.__name__}_kernel_0"]
    )
    assert artifact.asm
