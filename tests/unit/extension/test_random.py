"""Philox: known vectors, folding, the same numbers at run time, vectors lane by lane."""

import math

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


def reference(seed: int, offset: int, rounds: int = 10, subsequence: int = 0) -> list[int]:
    """Philox 4x32 in plain Python."""
    mask = 0xFFFFFFFF
    c, k = [x >> i & mask for x in (offset, subsequence) for i in (0, 32)], [seed & mask, (seed >> 32) & mask]
    for _ in range(rounds):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def test_known_vectors():
    assert [int(x) for x in fx.random.randint4x(0, 0)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert [int(x) for x in fx.random.randint4x(42, 7)] == [1539146673, 1752714373, 387999658, 778794423]
    assert fx.random.rand(42, 7).to(float) == pytest.approx(0.7167209997, abs=1e-7)


@pytest.mark.parametrize(
    ("seed", "offset"),
    [(1, 2), (1 << 40, 5), (-1, 9), (7, 1 << 35), (123456789, (1 << 32) - 1), (fx.Int32(5), fx.Uint32(6))],
)
def test_folds_to_the_reference(seed, offset):
    found = fx.random.randint4x(seed, offset)
    assert all(type(x) is fx.Uint32 and x.is_static() for x in found)
    assert [int(x) for x in found] == reference(int(seed), int(offset))
    assert int(fx.random.randint(seed, offset)) == int(found[0])


def test_rounds():
    assert [int(x) for x in fx.random.randint4x(3, 4, n_rounds=7)] == reference(3, 4, 7)
    with pytest.raises(ValueError, match="n_rounds"):
        fx.random.randint(0, 0, 0)


def test_subsequences():
    for subsequence in (5, fx.Int32(5), 1 << 40):
        found = fx.random.randint4x(3, 4, 7, subsequence=subsequence)
        assert [int(x) for x in found] == reference(3, 4, 7, int(subsequence))
    with pytest.raises(TypeError, match="subsequence must be an integer"):
        fx.random.randint4x(0, 0, subsequence=1.5)


def test_arguments():
    for bad in (1.5, "x", None):
        with pytest.raises(TypeError, match="seed must be an integer"):
            fx.random.rand(bad, 0)
    with pytest.raises(TypeError, match="offset must be an integer"):
        fx.random.rand(0, 2.0)


def test_uniform_and_normal_fold():
    uniforms = [x.to(float) for i in range(200) for x in fx.random.rand4x(9, i)]
    assert all(0.0 <= u < 1.0 for u in uniforms) and 0.45 < np.mean(uniforms) < 0.55
    normals = [x.to(float) for i in range(500) for x in fx.random.randn4x(9, i)]
    assert abs(np.mean(normals)) < 0.1 and 0.9 < np.std(normals) < 1.1
    u1, u2 = (x.to(float) for x in fx.random.rand4x(5, 6)[:2])
    radius = math.sqrt(-2.0 * math.log(u1))
    assert fx.random.randn(5, 6).to(float) == pytest.approx(radius * math.cos(2 * math.pi * u2), abs=1e-5)
    assert fx.random.randn4x(5, 6)[1].to(float) == pytest.approx(radius * math.sin(2 * math.pi * u2), abs=1e-5)


@flyc.kernel
def fill_kernel(ints: fx.Tensor, floats: fx.Tensor, vectors: fx.Tensor, seed: fx.Int64, offset: fx.Int64):
    t = fx.thread_idx.x
    words = fx.random.randint4x(seed, t)
    for i in fx.range_constexpr(4):
        ints[t, i] = words[i].to(fx.Int32)
    wide = fx.random.randint4x(seed, offset + t.to(fx.Int64))
    for i in fx.range_constexpr(4):
        ints[t, 4 + i] = wide[i].to(fx.Int32)
    floats[t] = fx.random.rand(seed, t)
    lanes = fx.Vector.from_elements([t * 4 + i for i in range(4)])
    uniform = fx.random.rand(seed, lanes)
    for i in fx.range_constexpr(4):
        vectors[t, i] = uniform[i]


@flyc.jit
def fill(ints: fx.Tensor, floats: fx.Tensor, vectors: fx.Tensor, seed: fx.Int64, offset: fx.Int64):
    fill_kernel(ints, floats, vectors, seed, offset).launch(block=32)


def test_run_time_gives_the_same_numbers():
    seed, offset = 0x123456789ABCDEF, (1 << 33) + 17
    ints = np.zeros((32, 8), np.int32)
    floats, vectors = np.full(32, np.nan, np.float32), np.full((32, 4), np.nan, np.float32)
    fill(ints, floats, vectors, seed, offset)
    assert ints.view(np.uint32)[:, :4].tolist() == [reference(seed, t) for t in range(32)]
    assert ints.view(np.uint32)[:, 4:].tolist() == [reference(seed, offset + t) for t in range(32)]
    assert floats.tolist() == [np.float32(fx.random.rand(seed, t).to(float)) for t in range(32)]
    assert vectors.ravel().tolist() == [np.float32(fx.random.rand(seed, t).to(float)) for t in range(128)]
