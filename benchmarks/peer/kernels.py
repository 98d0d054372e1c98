"""The kernels whose compile times are compared, against the public FlyDSL API only.

This file and the kernel file it loads must import and compile unchanged under FlyDSL and under this package, so that
the two compilers are timed on the same source. Tensors are made by the caller's `array` function (torch or numpy).
"""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

# (a) Guarded vector add of run-time size.


@flyc.kernel
def vector_add_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    if i < n:
        c[i] = a[i] + b[i]


@flyc.jit
def vector_add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    vector_add_kernel(a, b, c, n).launch(grid=fx.ceildiv(n, 256), block=256, stream=stream)


# (b) Predicated, vectorised 2-D add through a tiled copy; any M x N.


@flyc.kernel
def predicated_add_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, tiled: fx.TiledCopy):
    m, n = A.shape.unpack()
    bm, bn, _ = fx.block_idx
    mine = tiled.get_slice(fx.thread_idx.x)
    where = fx.make_view((0, 0), fx.make_identity_layout((m, n)))
    here = (None, None, bm, bn)
    src_a = mine.partition_S(fx.flat_divide(A, tiled.tile_mn)[here])
    src_b = mine.partition_S(fx.flat_divide(B, tiled.tile_mn)[here])
    dst = mine.partition_D(fx.flat_divide(C, tiled.tile_mn)[here])
    crd = mine.partition_S(fx.flat_divide(where, tiled.tile_mn)[here])[(0, None), None, None]
    inside = fx.make_fragment_like(crd, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(inside.shape).unpack()):
        inside[i] = fx.elem_less(crd[i], (m, n))
    reg_a, reg_b = fx.make_fragment_like(src_a), fx.make_fragment_like(src_b)
    reg_a.fill(0.0)
    reg_b.fill(0.0)
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(atom, src_a, reg_a, pred=inside)
    fx.copy(atom, src_b, reg_b, pred=inside)
    reg_a.store(reg_a.load() + reg_b.load())
    fx.copy(atom, reg_a, dst, pred=inside)


@flyc.jit
def predicated_add(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((4, 16), (16, 1)), fx.make_layout((1, 4), (4, 1)))
    tm, tn = tiled.tile_mn.unpack()
    m, n = A.shape.unpack()
    predicated_add_kernel(A, B, C, tiled).launch(grid=((m + tm - 1) // tm, (n + tn - 1) // tn), block=64, stream=stream)


# (c) Tiled copy from a row-major tensor to a column-major one.


@flyc.kernel
def tiled_copy_kernel(src: fx.Tensor, dst: fx.Tensor, tiled: fx.TiledCopy):
    bm, bn, _ = fx.block_idx
    mine = tiled.get_slice(fx.thread_idx.x)
    from_ = mine.partition_S(fx.flat_divide(src, tiled.tile_mn)[None, None, bm, bn])
    to = mine.partition_D(fx.flat_divide(dst, tiled.tile_mn)[None, None, bm, bn])
    regs = fx.make_fragment_like(from_)
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    fx.copy(atom, from_, regs)
    fx.copy(atom, regs, to)


@flyc.jit
def tiled_copy(src: fx.Tensor, dst: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((8, 16), (16, 1)), fx.make_layout((4, 4), (4, 1)))
    tm, tn = tiled.tile_mn.unpack()
    m, n = src.shape.unpack()
    tiled_copy_kernel(src, dst, tiled).launch(grid=(m // tm, n // tn), block=128, stream=stream)


# (d) One tile of a matrix product: TiledMma over the scalar FMA atom, C = A B^T.


@flyc.kernel
def tiled_mma_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma, kt: fx.Constexpr[int]):
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
def tiled_mma(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((16, 16, 1), (1, 16, 0)))
    m, n = C.shape.unpack()
    tiled_mma_kernel(A, B, C, mma, 8).launch(grid=(m // 32, n // 32), block=256, stream=stream)


# (e) The pipelined matrix product with preshuffled weights, f16 for gfx942: the shipped kernel file itself.


def _shipped(name: str) -> Any:
    file = Path(__file__).resolve().parents[2] / "src" / "flydsl" / "kernels" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


shipped = _shipped("matmul/amd/kernel")
Tile, Form, amd_tiles = shipped.Tile, shipped.Form, shipped.amd_tiles


def product(tile: Any, form: Any) -> Any:
    """C = A W^T by that tile; rows lie behind each other. Factors of blocks come behind C, W's first."""

    @flyc.jit
    def gemm(A: fx.Tensor, W: fx.Tensor, C: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        m, n = C.shape.unpack()
        k = fx.get_scalar(A.shape[1])
        amd_tiles(A, W, C, (), m, n, k, 1, k, k, n, 0, 0, 0, 8, k, tile, form, stream)

    @flyc.jit
    def gemm_of_blocks(
        A: fx.Tensor, W: fx.Tensor, C: fx.Tensor, of_w: fx.Tensor, of_a: fx.Tensor, stream: fx.Stream = fx.Stream(None)
    ):
        m, n = C.shape.unpack()
        k = fx.get_scalar(A.shape[1])
        amd_tiles(A, W, C, (of_w, of_a), m, n, k, 1, k, k, n, 0, 0, 0, 8, k, tile, form, stream)

    return gemm_of_blocks if form.blocked else gemm


preshuffle_gemm = product(Tile(128, 128), Form("mfma", 16, shuffled=True))


# The kernel compiled first in every process, so that one-time work is not counted.


@flyc.kernel
def warm_up_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * 2.0


@flyc.jit
def warm_up(x: fx.Tensor, n: fx.Int32):
    warm_up_kernel(x, n).launch(grid=fx.ceildiv(n, 64), block=64)


Array = Callable[..., Any]
"""`array(*shape, column_major=False, half=False)` gives a float32 or float16 tensor."""


def cases(array: Array) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Name -> (jit function, arguments)."""
    return {
        "vector_add": (vector_add, (array(1000), array(1000), array(1000), 1000)),
        "predicated_add": (predicated_add, (array(37, 101), array(37, 101), array(37, 101))),
        "tiled_copy": (tiled_copy, (array(64, 128), array(64, 128, column_major=True))),
        "tiled_mma": (tiled_mma, (array(64, 32), array(64, 32), array(64, 64))),
        "preshuffle_gemm": (
            preshuffle_gemm,
            (array(256, 1024, half=True), array(256, 1024, half=True), array(256, 256, half=True)),
        ),
        "warm_up": (warm_up, (array(128), 128)),
    }
