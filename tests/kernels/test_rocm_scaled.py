"""Block-scaled products of gfx950 and gfx1250, and the transposing reads of shared memory of gfx950."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

FORMATS = {
    "Float8E4M3FN": (8, ml_dtypes.float8_e4m3fn),
    "Float8E5M2": (8, ml_dtypes.float8_e5m2),
    "Float6E2M3FN": (6, ml_dtypes.float6_e2m3fn),
    "Float6E3M2FN": (6, ml_dtypes.float6_e3m2fn),
    "Float4E2M1FN": (4, ml_dtypes.float4_e2m1fn),
}


WAVES = 2
"""Waves of the tiled product, next to each other along M."""


def draw(rows: int, k: int, name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random values of a format: packed as dwords per row, and as float64."""
    bits, dtype = FORMATS[name]
    codes = rng.integers(0, 1 << bits, (rows, k)).astype(np.uint8)
    values = codes.view(dtype).astype(np.float64)
    bad = ~np.isfinite(values)
    codes[bad], values[bad] = 0, 0.0
    places = np.unpackbits(codes[..., None], axis=-1, bitorder="little")[..., :bits].reshape(rows, -1)
    return np.packbits(places, axis=-1, bitorder="little").view(np.int32), values


def runs(bits: int, starts: list, length: int):
    """Dwords of a row that hold `length` values from each start on; a start is (per group, fixed)."""
    per = length * bits // 32
    return [(g * bits // 32, f * bits // 32 + i) for g, f in starts for i in range(per)]


@flyc.kernel
def scaled_kernel(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor, atom: fx.MmaAtom, plan: fx.Constexpr
):
    rows, words_a, words_b, elems, counts, (lanes, m) = plan
    lane, first = fx.thread_idx.x % lanes, fx.thread_idx.x // lanes * m
    row, group = lane % rows, lane // rows
    fragments = []
    for t, words, elem, count, at in ((a, words_a, elems[0], counts[0], first), (b, words_b, elems[1], counts[1], 0)):
        picked = [t[at + row + w[2], group * w[0] + w[1]] for w in words]
        fragment = fx.make_rmem_tensor(count, elem)
        fragment.store(fx.Vector.from_elements(picked, fx.Int32).bitcast(elem))
        fragments.append(fragment)
    mma = fx.make_tiled_mma(atom, fx.make_layout((WAVES, 1, 1), (1, 0, 0)))
    part = mma.get_slice(fx.thread_idx.x).partition_C(c)
    acc = fx.make_fragment_like(part)
    acc.store(part.load())
    flat = fx.make_view(fx.get_iter(acc), fx.make_layout(counts[2], 1))
    fx.mma_atom_call(atom, flat, fragments[0], fragments[1], flat, scale_a=sa[fx.thread_idx.x], scale_b=sb[lane])
    part.store(acc.load())


@flyc.jit
def scaled(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    sa: fx.Tensor,
    sb: fx.Tensor,
    make: fx.Constexpr,
    args: fx.Constexpr,
    options: fx.Constexpr,
    plan: fx.Constexpr,
):
    module, name = make
    atom = fx.make_mma_atom(getattr(getattr(fx.rocdl, module), name)(*args, **dict(options)))
    threads = 64 if module == "cdna4" else 32
    scaled_kernel(a, b, c, sa, sb, atom, plan).launch(grid=1, block=WAVES * threads)


def check(make, arch, m, n, k, a, b, options, words, scale_of, monkeypatch, block=32):
    rng = np.random.default_rng()
    lanes = 64 if make[0] == "cdna4" else 32
    x, xv = draw(WAVES * m, k, a, rng)
    y, yv = draw(n, k, b, rng)
    z = rng.standard_normal((WAVES * m, n)).astype(np.float32)
    dtype = np.int64 if block == 16 else np.int32
    count = 8 if block == 16 else 4
    bytes_a, bytes_b = (rng.integers(120, 134, (w * lanes, count)).astype(np.uint8) for w in (WAVES, 1))
    sa, sb = (t.view(dtype).reshape(-1) for t in (bytes_a, bytes_b))
    waves = [bytes_a[w * lanes : (w + 1) * lanes] for w in range(WAVES)]
    fa = 2.0 ** (
        np.array([[scale_of(0, w, r, kb) for kb in range(k // block)] for w in waves for r in range(m)]) - 127.0
    )
    fb = 2.0 ** (np.array([[scale_of(1, bytes_b, r, kb) for kb in range(k // block)] for r in range(n)]) - 127.0)
    expected = (xv * np.repeat(fa, block, 1)) @ (yv * np.repeat(fb, block, 1)).T + z
    counts = (m * k // lanes, n * k // lanes, m * n // lanes)
    rows = min(m, 16) if lanes == 32 else m
    plan = (rows, words(a, 0), words(b, 1), (getattr(fx, a), getattr(fx, b)), counts, (lanes, m))
    args = [flyc.from_dlpack(t) for t in (x, y, z, sa, sb)]
    spec = (make, (m, n, k, getattr(fx, a), getattr(fx, b)), tuple(options.items()), plan)
    asm = flyc.compile(scaled, *args, *spec, target=f"rocm:{arch}").artifact.asm
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    scaled(*args, *spec)
    np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    return asm


@pytest.mark.covering
@pytest.mark.parametrize("shape", [(16, 16, 128), (32, 32, 64)])
@pytest.mark.parametrize(
    ("a", "b"),
    [*((t, t) for t in FORMATS), ("Float8E4M3FN", "Float4E2M1FN"), ("Float6E2M3FN", "Float8E5M2")],
)
def test_mfma_scale(a: str, b: str, shape, monkeypatch: pytest.MonkeyPatch):
    m, n, k = shape

    def words(name: str, operand: int):
        bits = FORMATS[name][0]
        if bits == 4:
            return tuple((g, f, 0) for g, f in runs(4, [(32, 0)], 32))
        return tuple((g, f, 0) for g, f in runs(bits, [(16, 0), (16, k // 2)], 16))

    def scale_of(operand: int, table: np.ndarray, row: int, kb: int) -> int:
        return table[row + m * kb, (1, 2)[operand]]

    options = {"opsel_a": 1, "opsel_b": 2}
    asm = check(("cdna4", "MFMA_Scale"), "gfx950", m, n, k, a, b, options, words, scale_of, monkeypatch)
    assert f"v_mfma_scale_f32_{m}x{n}x{k}_f8f6f4" in asm


@pytest.mark.covering
@pytest.mark.parametrize("block", [32, 16])
@pytest.mark.parametrize(("a", "b"), [*((t, t) for t in FORMATS), ("Float8E4M3FN", "Float4E2M1FN")])
def test_wmma_scale(a: str, b: str, block: int, monkeypatch: pytest.MonkeyPatch):
    def words(name: str, operand: int):
        bits = FORMATS[name][0]
        starts = [(32, 64 * r) for r in range(2)] if bits == 4 else [(16, 32 * j) for j in range(4)]
        return tuple((g, f, 0) for g, f in runs(bits, starts, 32 if bits == 4 else 16))

    def scale_of(operand: int, table: np.ndarray, row: int, kb: int) -> int:
        return table[row + 16 * operand, kb]

    options = {"opsel_a": 0, "opsel_b": 1, "block_size": block}
    asm = check(("cdna5", "WMMAScale"), "gfx1250", 16, 16, 128, a, b, options, words, scale_of, monkeypatch, block)
    assert f"v_wmma_scale{16 if block == 16 else ''}_f32_16x16x128_f8f6f4" in asm


def test_wmma_scale_32_rows(monkeypatch: pytest.MonkeyPatch):
    def words(name: str, operand: int):
        plain = runs(4, [(32, 64 * r) for r in range(2)], 32)
        return tuple((g, f, 16 * u) for u in range(1 if operand else 2) for g, f in plain)

    def scale_of(operand: int, table: np.ndarray, row: int, kb: int) -> int:
        return table[row, kb]

    name = "Float4E2M1FN"
    asm = check(("cdna5", "WMMAScale"), "gfx1250", 32, 16, 128, name, name, {}, words, scale_of, monkeypatch)
    assert "v_wmma_scale_f32_32x16x128_f4" in asm


# --- transposing reads --------------------------------------------------------------------------------------------


@flyc.kernel
def trans_kernel(src: fx.Tensor, dst: fx.Tensor, g: fx.Constexpr, bits: fx.Constexpr, elem: fx.Constexpr):
    lane = fx.thread_idx.x
    words = bits // 32
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 64 * words, 16]).peek()
    shared = lds.view(fx.make_layout(64 * words, 1))
    for j in fx.range_constexpr(words):
        shared[lane * words + j] = src[lane * words + j]
    fx.barrier()
    atom = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(g, bits), elem)
    n = bits // elem.width
    run = fx.make_view(fx.recast_iter(elem, fx.get_iter(shared) + lane * words), fx.make_layout(n, 1))
    out = fx.make_rmem_tensor(n, elem)
    fx.copy_atom_call(atom, run, out)
    packed = out.load().bitcast(fx.Int32)
    for j in fx.range_constexpr(words):
        dst[lane * words + j] = packed[j]


@flyc.jit
def trans(src: fx.Tensor, dst: fx.Tensor, g: fx.Constexpr, bits: fx.Constexpr, elem: fx.Constexpr):
    trans_kernel(src, dst, g, bits, elem).launch(grid=1, block=64)


@pytest.mark.parametrize(
    ("g", "bits", "elem", "says"),
    [
        (16, 64, "Float16", "ds_read_b64_tr_b16"),
        (8, 64, "Int8", "ds_read_b64_tr_b8"),
        (4, 64, "Int4", "ds_read_b64_tr_b4"),
        (6, 96, "Float6E2M3FN", "ds_read_b96_tr_b6"),
    ],
)
def test_transposing_reads(g: int, bits: int, elem: str, says: str, monkeypatch: pytest.MonkeyPatch):
    words = bits // 32
    src = np.random.default_rng().integers(0, 2**31, 64 * words).astype(np.int32)
    dst = np.zeros_like(src)
    args = [flyc.from_dlpack(src), flyc.from_dlpack(dst), g, bits, getattr(fx, elem)]
    assert re.search(says, flyc.compile(trans, *args, target="rocm:gfx950").artifact.asm)
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx950")
    trans(*args)
    n = bits // g

    def elements(words_: np.ndarray) -> np.ndarray:
        places = np.unpackbits(words_.view(np.uint8), bitorder="little").reshape(4, 16, n, g)
        return (places * (1 << np.arange(g))).sum(-1)

    runs_, got = elements(src), elements(dst)
    expected = runs_.reshape(4, 16 * n).reshape(4, n, 16).transpose(0, 2, 1)
    np.testing.assert_array_equal(got, expected)


# --- tensor data mover --------------------------------------------------------------------------------------------


@flyc.kernel
def tdm_kernel(src: fx.Tensor, dst: fx.Tensor, rank: fx.Constexpr, warps: fx.Constexpr):
    count = 32 * 64
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float16, count, 16]).peek()
    shape = (32, 64) if rank == 2 else (4, 8, 64)
    strides = (64, 1) if rank == 2 else (512, 64, 1)
    shared = lds.view(fx.make_layout(shape, strides))
    tile = fx.make_view(fx.get_iter(src), fx.make_layout(shape, strides))
    atom = fx.rocdl.cdna5.make_tdm_atom(fx.Float16, rank, num_warps=warps)
    fx.copy_atom_call(atom.set_value("extent_0", 20), tile, shared)
    fx.rocdl.s_wait_tensorcnt(0)
    fx.barrier()
    fx.copy_atom_call(atom, shared, fx.make_view(fx.get_iter(dst), fx.make_layout(shape, strides)))


@flyc.jit
def tdm(src: fx.Tensor, dst: fx.Tensor, rank: fx.Constexpr, warps: fx.Constexpr):
    tdm_kernel(src, dst, rank, warps).launch(grid=1, block=32 * warps)


@pytest.mark.parametrize(("rank", "warps"), [(2, 1), (2, 4), (3, 4)])
def test_tdm_compiles(rank: int, warps: int):
    src = np.zeros(32 * 64, np.float16)
    args = [flyc.from_dlpack(src), flyc.from_dlpack(src), rank, warps]
    asm = flyc.compile(tdm, *args, target="rocm:gfx1250").artifact.asm
    assert "tensor_load_to_lds" in asm and "tensor_store_from_lds" in asm and "s_wait_tensorcnt" in asm
    with pytest.raises(ValueError, match="does not exist on gfx942"):
        flyc.compile(tdm, *args, target="rocm:gfx942")
