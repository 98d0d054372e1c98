"""Integer division on the cpu stack never ends the process, whatever it divides by."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import FlyRuntimeError

CLASSES = {
    "int8": fx.Int8, "int16": fx.Int16, "int32": fx.Int32, "int64": fx.Int64,
    "uint8": fx.Uint8, "uint16": fx.Uint16, "uint32": fx.Uint32, "uint64": fx.Uint64,
}  # fmt: skip


@flyc.kernel
def divide_kernel(x: fx.Tensor, y: fx.Tensor, q: fx.Tensor, r: fx.Tensor, up: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        q[i] = x[i] // y[i]
        r[i] = x[i] % y[i]
        up[i] = fx.ceildiv(x[i], y[i])


@flyc.jit
def divide(x: fx.Tensor, y: fx.Tensor, q: fx.Tensor, r: fx.Tensor, up: fx.Tensor, n: fx.Int32):
    divide_kernel(x, y, q, r, up, n).launch(grid=fx.ceildiv(n, 64), block=64)


@pytest.mark.parametrize("name", CLASSES)
def test_every_pair_of_edges(name: str, rng: np.random.Generator):
    info = np.iinfo(name)
    edges = sorted({info.min, info.min + 1, 0, 1, 2, 7, info.max, *((-1, -2, -7) if info.min else ())})
    values = np.array([*edges, *rng.integers(info.min, info.max, 5, dtype=name, endpoint=True)], name)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    q, r, up = (np.full(x.shape, 77, name) for _ in range(3))
    divide(x, y, q, r, up, len(x))
    good = (y != 0) & ~((x == info.min) & (y == np.array(-1).astype(name)) & (info.min < 0))
    exact = [(int(a), int(b)) for a, b in zip(x[good], y[good], strict=True)]
    toward_zero = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in exact]
    assert r[good].tolist() == [a - b * t for (a, b), t in zip(exact, toward_zero, strict=True)]
    assert up[good].tolist() == [-(-a // b) for a, b in exact]
    floors = [a // b for a, b in exact]
    assert q[good].tolist() in (toward_zero, floors)


@flyc.kernel
def lanes_kernel(x: fx.Tensor, y: fx.Tensor, q: fx.Tensor):
    at = fx.thread_idx.x
    parts = [fx.flat_divide(t, (4,))[None, at] for t in (x, y, q)]
    parts[2].store(parts[0].load() // parts[1].load())


@flyc.jit
def lanes(x: fx.Tensor, y: fx.Tensor, q: fx.Tensor):
    lanes_kernel(x, y, q).launch(grid=1, block=2)


def test_vectors():
    x = np.array([5, -7, 9, np.iinfo("i4").min, 100, 200, 300, 400], np.int32)
    y = np.array([0, 2, 3, -1, 7, 0, 10, 1], np.int32)
    q = np.zeros(8, np.int32)
    lanes(x, y, q)
    assert q[[2, 4, 6, 7]].tolist() == [3, 14, 30, 400]


@flyc.kernel
def fill_kernel(x: fx.Tensor):
    x[fx.block_idx.x] = 1


@flyc.jit
def fill(x: fx.Tensor, n: fx.Int32, each: fx.Int32):
    fill_kernel(x).launch(grid=fx.min(n // each, 4), block=1)


def test_host_code():
    x = np.zeros(4, np.int32)
    fill(x, 3, 0)
    fill(x, 4, 2)
    assert x[:2].tolist() == [1, 1]


def test_checked_mode_reports_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    x = np.full(70, 5, np.int32)
    y = np.ones(70, np.int32)
    out = [np.zeros(70, np.int32) for _ in range(3)]
    divide(x, y, *out, 70)
    y[66] = 0
    with pytest.raises(FlyRuntimeError, match=r"test_cpu_division\.py:\d+: integer division by zero"):
        divide(x, y, *out, 70)
