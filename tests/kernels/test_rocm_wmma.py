"""WMMA of gfx11, gfx120x and gfx1250, and the scaled products of gfx950 and gfx1250."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

from .rocm_tiles import arguments, close, make_tile, tile

FP8 = ("Float8E4M3FN", "Float8E5M2")
PAIRS = [(a, b) for a in FP8 for b in FP8]
NAMES = {"Float16": "f16", "BFloat16": "bf16", "Float32": "f32", "Int8": "iu8", "Int32": "i32"}
NAMES |= {"Float8E4M3FN": "fp8", "Float8E5M2": "bf8"}
RDNA = ("gfx1100", "gfx1151", "gfx1200", "gfx1201")
CASES = [
    *((arch, 16, t, t, "Float32") for arch in RDNA for t in ("Float16", "BFloat16")),
    *((arch, 16, "Int8", "Int8", "Int32") for arch in ("gfx1100", "gfx1151", "gfx1201")),
    *(("gfx1201", 16, t, t, t) for t in ("Float16", "BFloat16")),
    *(("gfx1201", 16, a, b, "Float32") for a, b in PAIRS),
    ("gfx1250", 4, "Float32", "Float32", "Float32"),
    *(("gfx1250", 32, t, t, acc) for t in ("Float16", "BFloat16") for acc in ("Float32", t)),
    *(("gfx1250", k, a, b, acc) for k in (64, 128) for a, b in PAIRS for acc in ("Float32", "Float16")),
    ("gfx1250", 64, "Int8", "Int8", "Int32"),
]


def spec(k: int, a: str, b: str, acc: str):
    return (16, 16, k, (getattr(fx, a), getattr(fx, b)), getattr(fx, acc))


@pytest.mark.parametrize(("arch", "k", "a", "b", "acc"), CASES)
def test_compiles_to_the_instruction(arch: str, k: int, a: str, b: str, acc: str):
    x, y, z, _ = make_tile(16, 16, k, a, b, acc, np.random.default_rng(1))
    args = (*arguments(x, y, z), "WMMA", spec(k, a, b, acc), (1, 1, 1))
    artifact = flyc.compile(tile, *args, target=f"rocm:{arch}").artifact
    tail = f"{NAMES[a]}_{NAMES[b]}" if a in FP8 else NAMES[a]
    assert re.findall(r"^\s+(v_wmma_\w+)", artifact.asm, re.M) == [f"v_wmma_{NAMES[acc]}_16x16x{k}_{tail}"]
    assert artifact.kernels[0]["spills"] == 0 and artifact.kernels[0]["scratch"] == 0


@pytest.mark.covering("acc")
@pytest.mark.parametrize("atoms", [(1, 1, 1), (1, 2, 1)])
@pytest.mark.parametrize(("arch", "k", "a", "b", "acc"), CASES)
def test_matches_numpy(arch: str, k: int, a: str, b: str, acc: str, atoms, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    if a == "Int8":
        a = b = "Uint8"  # operands are unsigned unless told otherwise
    x, y, z, expected = make_tile(16, 32, 2 * k, a, b, acc, np.random.default_rng())
    tile(*arguments(x, y, z), "WMMA", spec(k, *(t.replace("Uint", "Int") for t in (a, b)), acc), atoms)
    if acc in ("Float16", "BFloat16"):  # one rounding per atom along k
        np.testing.assert_allclose(z.astype(float), expected, rtol=0.05, atol=0.05 * np.abs(expected).max())
    else:
        close(z, expected)


# --- integers with signs and clamping, 4-bit inputs ---------------------------------------------------------------


@flyc.kernel
def words_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, atom: fx.MmaAtom, words: fx.Constexpr, elem: fx.Constexpr):
    """Operands as packed dwords: `words[i]` is the dword of its row that register i of lane group h holds."""
    lane, first = fx.thread_idx.x % 32, fx.thread_idx.x // 32 * 16
    row, half = lane % 16, lane // 16
    count = len(words) * (32 // elem.width)
    fragments = []
    for t, at in ((a, first), (b, 0)):
        picked = [t[at + row, words[i](half)] for i in fx.range_constexpr(len(words))]
        fragment = fx.make_rmem_tensor(count, elem)
        fragment.store(fx.Vector.from_elements(picked, fx.Int32).bitcast(elem))
        fragments.append(fragment)
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 1, 1), (1, 0, 0)))
    part = mma.get_slice(fx.thread_idx.x).partition_C(c)
    acc = fx.make_rmem_tensor(8, fx.Int32)
    acc.store(fx.Vector.from_elements([part[i] for i in fx.range_constexpr(8)], fx.Int32))
    fx.mma_atom_call(atom, acc, fragments[0], fragments[1], acc)
    for i in fx.range_constexpr(8):
        part[i] = acc[i]


@flyc.jit
def words_tile(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    k: fx.Constexpr,
    elem: fx.Constexpr,
    flags: fx.Constexpr,
    words: fx.Constexpr,
):
    op = fx.rocdl.WMMA(16, 16, k, elem, fx.Int32, sign_a=flags[0], sign_b=flags[1], clamp=flags[2])
    words_kernel(a, b, c, fx.make_mma_atom(op), words, elem).launch(grid=1, block=64)


def whole(n: int):
    return tuple((lambda half, i=i: i) for i in range(n))


def halves(n: int):
    return tuple((lambda half, i=i: half + 2 * i) for i in range(n))


NIBBLES = [("gfx1100", 16, whole(2)), ("gfx1201", 16, halves(1)), ("gfx1201", 32, halves(2))]


def packed_int4(x: np.ndarray) -> np.ndarray:
    bits = (x & 15).astype(np.uint32).reshape(x.shape[0], -1, 8)
    return (bits << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32).view(np.int32)


@pytest.mark.parametrize("flags", [(False, False, False), (True, False, False), (True, True, True)])
@pytest.mark.parametrize(("arch", "k", "words"), NIBBLES)
def test_int4(arch: str, k: int, words, flags, monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng()
    x, y = (rng.integers(-8 if s else 0, 8 if s else 16, (m, k)) for m, s in zip((32, 16), flags, strict=False))
    z = rng.integers(-(2**31), 2**31, (32, 16)).astype(np.int32)
    args = [flyc.from_dlpack(t) for t in (packed_int4(x), packed_int4(y), z)]
    artifact = flyc.compile(words_tile, *args, k, fx.Int4, flags, words, target=f"rocm:{arch}").artifact
    (line,) = re.findall(rf"v_wmma_i32_16x16x{k}_iu4 .*", artifact.asm)
    assert ("clamp" in line) == flags[2] and ("neg_lo" in line) == any(flags[:2])
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    exact = x.astype(np.int64) @ y.astype(np.int64).T + z
    expected = np.clip(exact, -(2**31), 2**31 - 1) if flags[2] else exact.astype(np.int32)
    words_tile(*args, k, fx.Int4, flags, words)
    np.testing.assert_array_equal(z, expected)


@pytest.mark.parametrize(
    ("arch", "k", "a", "acc", "says"),
    [
        ("gfx1100", 32, "Float16", "Float32", "GFX11 WMMA requires M=N=K=16, got 16x16x32"),
        ("gfx942", 16, "Float16", "Float32", "WMMA exists on gfx11xx"),
        ("gfx1250", 16, "Float16", "Float32", "it has 16x16x4 f32"),
        ("gfx1201", 32, "Float16", "Float32", "floating-point forms require M=N=K=16"),
    ],
)
def test_refused(arch: str, k: int, a: str, acc: str, says: str):
    x, y, z, _ = make_tile(16, 16, k, a, a, acc, np.random.default_rng(1))
    with pytest.raises(ValueError, match=says):
        flyc.compile(tile, *arguments(x, y, z), "WMMA", spec(k, a, a, acc), (1, 1, 1), target=f"rocm:{arch}")
