"""How rows are shared among threads: clusters of blocks, vectors beside unaligned rows, many largest elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flydsl import kernels
from flydsl.kernels.rows import norms, softmax_entry
from flydsl.kernels.rows.arrays import describe
from flydsl.kernels.rows.form import Form, form_of, looped
from flydsl.kernels.rows.largest.many import parts_of
from flydsl.kernels.rows.norm_kernels import norm_rows
from flydsl.kernels.rows.softmax_kernels import softmax_rows


def normed(x: np.ndarray, w: np.ndarray, b: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    x = x.astype("f8")
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) * w + b


@pytest.mark.parametrize("n", [40000, 40001])
def test_rows_across_a_cluster(n: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Rows that no block's registers hold, in clusters of eight; the mean is far from zero."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    x = (rng.standard_normal((2, n)) + 100).astype("f4")
    w, b = (rng.standard_normal(n).astype("f4") for _ in range(2))
    form = form_of(2, n, {"x": describe("test", "x", x), "w": describe("test", "w", w)}, 4, clusters=True)
    assert form.cluster == 8 and form.turns and form.block * 8 == form.team
    np.testing.assert_allclose(kernels.layer_norm(x, w, b), normed(x, w, b), atol=2e-4)
    e = np.exp(x.astype("f8") - x.max(-1, keepdims=True))
    np.testing.assert_allclose(kernels.softmax(x), e / e.sum(-1, keepdims=True), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("n", [2048, 1800])
def test_units_that_wait_in_shared_memory(n: int, rng: np.random.Generator):
    """Half of a thread's units, in the last turn of which some threads have none; the mean is far from zero."""
    x = (rng.standard_normal((3, n)) + 50).astype("f4")
    w, b = (rng.standard_normal(n).astype("f4") for _ in range(2))
    names = ("x", "out", "weight", "bias", "residual", "summed")
    form = Form(4, 128, 1, -(-n // 512), False, names, parked=2, constant=n == 1800, streamed=n == 1800)
    d, out = x.astype("f8"), np.full_like(x, np.nan)
    norm_rows(x, None, w, b, out, None, None, None, 3, n, 1e-5, True, form)
    np.testing.assert_allclose(out, normed(x, w, b), atol=2e-4)
    summed, residual = np.full_like(x, np.nan), rng.standard_normal((3, n)).astype("f4")
    norm_rows(x, residual, w, None, out, summed, None, None, 3, n, 1e-5, False, form)
    np.testing.assert_array_equal(summed, x + residual)
    total = (x + residual).astype("f8")
    np.testing.assert_allclose(
        out, total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * w, rtol=1e-5, atol=1e-6
    )
    softmax_rows(x, out, 3, n, False, form)
    e = np.exp(d - d.max(-1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(-1, keepdims=True), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("n,parked,cluster", [(4096, 0, 1), (3600, 1, 1), (3601, 0, 1), (4096, 0, 2)])
def test_units_that_stay_narrow(
    n: int, parked: int, cluster: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    """16-bit units that each pass widens anew, whole ones and beside edges, in a block and across a cluster."""
    if cluster > 1:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    x = (rng.standard_normal((3, n)) + 5).astype("f2")
    w, b = (rng.standard_normal(n).astype("f2") for _ in range(2))
    whole, out = n % 8 == 0, np.full_like(x, np.nan)
    form = Form(
        8, 128, 1, -(-(n // 8) // 128), not whole, ("x", "out", "weight", "bias") if whole else ("x", "out"), cluster,
        parked=parked, narrow=True,
    )  # fmt: skip
    norm_rows(x, None, w, b, out, None, None, None, 3, n, 1e-5, True, form)
    np.testing.assert_allclose(out, normed(x, w, b), rtol=2e-3, atol=4e-3)
    norm_rows(x, None, w, None, out, None, None, None, 3, n, 1e-5, False, form)
    d = x.astype("f8")
    np.testing.assert_allclose(out, d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w, rtol=2e-3, atol=1e-5)
    e = np.exp(d - d.max(-1, keepdims=True))
    softmax_rows(x, out, 3, n, False, form)
    np.testing.assert_allclose(out, e / e.sum(-1, keepdims=True), rtol=2e-3, atol=1e-7)
    x[0, 5], x[1, n - 1], x[2] = np.nan, np.inf, -np.inf
    softmax_rows(x, out, 3, n, False, form)
    assert np.isnan(out).all()
    x[2] = -np.inf
    x[2, 7] = 3
    softmax_rows(x, out, 3, n, True, form)
    assert np.isnan(out[:2]).all() and out[2, 7] == 0 and (np.delete(out[2], 7) == -np.inf).all()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_vectors_beside_unaligned_rows(dtype: str, rng: np.random.Generator):
    """Rows begin anywhere in units, their weights do not."""
    tolerance = {"f2": 3e-2, "f4": 3e-5, "f8": 1e-12}[dtype]
    for n in rng.integers(9, 1200, 3):
        x, (w, b) = rng.standard_normal((9, n)).astype(dtype), (rng.standard_normal(n).astype(dtype) for _ in range(2))
        np.testing.assert_allclose(kernels.layer_norm(x, w, b), normed(x, w, b), atol=tolerance)


def order(x: np.ndarray, k: int) -> np.ndarray:
    """NaN first, then by value, equal ones by their number."""
    nan = np.isnan(x)
    return np.stack([np.lexsort((np.arange(len(r)), np.where(a, 0, -r), ~a))[:k] for r, a in zip(x, nan, strict=True)])


def test_many_largest(rng: np.random.Generator):
    """Random rows, few values, NaN and infinities; as many as a block finds, and more."""
    shapes = (3, 300, 20), (2, 4097, 64), (2, 100, 60), (2, 3000, 1500), (1, 5000, 3), (2, 16, 16), (1, 4200, 1020)
    for m, n, k in shapes:
        x = rng.standard_normal((m, n)).astype("f4")
        for case in ("random", "few values", "nan"):
            if case == "few values":
                x = rng.integers(-1, 2, (m, n)).astype("f4") * 0.0 + rng.integers(0, 3, (m, n)).astype("f4")
            elif case == "nan":
                x[:, :: rng.integers(2, 9)], x[:, :: rng.integers(2, 9)] = np.nan, -np.inf
            values, numbers = kernels.top_k(x, k)
            want = order(x, k)
            assert (numbers == want).all(), (m, n, k, case)
            np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_few_largest(dtype: str, rng: np.random.Generator):
    """Rows of a thread, of some lanes, of a warp and of a block; equal elements, both zeros, NaN and infinities."""
    for m, n, k in ((70, 12, 3), (9, 60, 8), (33, 257, 6), (3, 3000, 8), (2, 700, 1)):
        x = rng.standard_normal((m, n)).astype(dtype)
        for case in ("random", "few values", "nan"):
            if case == "few values":
                x = (rng.integers(-1, 2, (m, n)) * 0.0 + rng.integers(0, 3, (m, n)) * -1.0).astype(dtype)
            elif case == "nan":
                x[:, :: rng.integers(2, 9)], x[:, :: rng.integers(2, 9)] = np.nan, -np.inf
                x[::2, 1] = np.inf
            values, numbers = kernels.top_k(x, k)
            want = order(x, k)
            assert (numbers == want).all(), (m, n, k, case)
            np.testing.assert_array_equal(values.view("u2"), np.take_along_axis(x, want, 1).view("u2"))
            if case != "nan" and n in (12, 257):
                e = np.exp(x.astype("f8") - x.max(-1, keepdims=True).astype("f8"))
                share = np.take_along_axis(e / e.sum(-1, keepdims=True), want, 1)
                shares, experts = kernels.gate(x, k, normed=False)
                assert (experts == want).all()
                np.testing.assert_allclose(shares, share, rtol=1e-5)
                shares, _ = kernels.gate(x, k)
                np.testing.assert_allclose(shares, share / share.sum(-1, keepdims=True), rtol=1e-5)


def test_largest_of_parts(rng: np.random.Generator):
    """Few long rows, the last part of which is shorter; equal elements on both sides of a cut."""
    n, k = 20001, 30
    assert parts_of(2, n, k, 8) == (4, 5056) and parts_of(1, 2**21 + 1, 64, 8)[0] == 32
    assert parts_of(528, 2**20, 64, 8)[0] == 1
    for dtype in ("f2", "f4"):
        x = rng.standard_normal((2, n)).astype(dtype)
        x[0, 10030:10070], x[1] = 9, rng.integers(0, 3, n)
        x[0, [3, 20000]] = np.nan
        values, numbers = kernels.top_k(x, k)
        assert (numbers == order(x, k)).all()
        np.testing.assert_array_equal(values, np.take_along_axis(x, numbers, 1))


def test_many_largest_that_few_threads_have(rng: np.random.Generator):
    """More candidates than shared memory has room for are found one by one."""
    n, k, threads, unit = 8188, 600, 1024, 4
    x = rng.standard_normal((1, n)).astype("f4")
    owner = np.arange(n) // unit % threads
    x[0, owner < k - 1] += 100
    assert (owner < k - 1).sum() > 4096
    values, numbers = kernels.top_k(x, k)
    assert (numbers == order(x, k)).all()
    np.testing.assert_array_equal(values, np.sort(x)[:, ::-1][:, :k])


@pytest.mark.parametrize("n,arch", [(6400, None), (6403, None), (6400, "sm_90a"), (9000, "sm_90a"), (33000, "sm_90a")])
def test_gradients_of_long_rows(n: int, arch: str | None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Columns are summed in a pass of their own, or in shared memory from row to row; the longest have clusters."""
    m = 5 if n > 30000 else 140 if arch else 70
    if arch:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    x, dy = (rng.standard_normal((m, n)).astype("f4") for _ in range(2))
    w = rng.standard_normal(n).astype("f4")
    d, g = x.astype("f8"), dy.astype("f8")
    mean = d.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(((d - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    v, h = (d - mean) * scale, g * w
    made = kernels.layer_norm_backward(dy, x, w, mean[:, 0].astype("f4"), scale[:, 0].astype("f4"))
    dx = (h - h.mean(-1, keepdims=True) - v * (h * v).mean(-1, keepdims=True)) * scale
    np.testing.assert_allclose(made.x, dx, atol=1e-5)
    np.testing.assert_allclose(made.weight, (g * v).sum(0), atol=1e-4)
    np.testing.assert_allclose(made.bias, g.sum(0), atol=1e-4)
    root = 1 / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)
    made = kernels.rms_norm_backward(dy, x, w, root[:, 0].astype("f4"))
    np.testing.assert_allclose(made.weight, (g * d * root).sum(0), atol=1e-4)
    assert made.bias is None
    if m == 5:
        y = np.exp(d - d.max(-1, keepdims=True))
        y = (y / y.sum(-1, keepdims=True)).astype("f4")
        want = y.astype("f8") * (g - (y.astype("f8") * g).sum(-1, keepdims=True))
        np.testing.assert_allclose(kernels.softmax_backward(y, dy), want, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("n,dtype", [(257, "f2"), (131, "f4"), (1501, "f2"), (9, "f2")])
def test_gradients_of_ragged_rows(n: int, dtype: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Teams go from row to row, in blocks of one multiprocessor only."""
    monkeypatch.setattr(norms, "PROCESSORS", 1)
    m = 333
    x, dy = (rng.standard_normal((m, n)).astype(dtype) for _ in range(2))
    w = rng.standard_normal(n).astype(dtype)
    d, g = x.astype("f8"), dy.astype("f8")
    mean = d.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(((d - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    v, h = (d - mean) * scale, g * w
    made = kernels.layer_norm_backward(dy, x, w, mean[:, 0].astype("f4"), scale[:, 0].astype("f4"))
    close = {"rtol": 2e-3, "atol": 2e-2} if dtype == "f2" else {"rtol": 1e-4, "atol": 1e-4}
    dx = (h - h.mean(-1, keepdims=True) - v * (h * v).mean(-1, keepdims=True)) * scale
    np.testing.assert_allclose(made.x, dx, **close)
    np.testing.assert_allclose(made.weight, (g * v).sum(0), **close)
    np.testing.assert_allclose(made.bias, g.sum(0), **close)


def test_rules():
    """What the measured rules say: warps for short rows, four units of a thread, loops for what writes nothing."""

    def form(m: int, n: int):
        x = describe("test", "x", np.zeros(1, "f2"))._replace(shape=(m, n), strides=(n, 1), address=0)
        return form_of(m, n, {"x": x}, 4)

    shapes = {n: (f.team, f.turns, f.block) for n in (64, 256, 768, 1024, 4096, 8192, 16384) if (f := form(2**20, n))}
    assert shapes == {
        64: (4, 2, 64), 256: (16, 2, 64), 768: (32, 3, 64), 1024: (32, 4, 64), 4096: (128, 4, 128), 8192: (256, 4, 256),
        16384: (512, 4, 512),
    }  # fmt: skip
    assert form(4, 4096).team > 128
    long = looped(form(8192, 32768), 8192)
    assert (long.team, long.turns) == (256, 0) and looped(form(8, 32768), 8).team == 1024
    assert looped(form(2**20, 1024), 2**20) == form(2**20, 1024)


def test_rules_of_long_rows():
    """Where units may wait in shared memory: two blocks of 512 threads, then one of 1024, then a cluster."""

    def form(n: int, dtype: str, **more: Any):
        x = describe("test", "x", np.zeros(1, dtype))._replace(shape=(4096, n), strides=(n, 1), address=0)
        return form_of(4096, n, {"x": x}, 4, clusters=True, parks={7: 1, 8: 4}, **more)

    lengths = 24576, 28672, 32768, 49152, 57344, 65536, 65544
    found = [(f.block, f.turns, f.parked, f.cluster) for f in (form(n, "f2") for n in lengths)]
    assert found == [
        (512, 6, 0, 1), (512, 7, 1, 1), (512, 8, 4, 1), (1024, 6, 0, 1), (1024, 7, 2, 1), (1024, 8, 2, 1),
        (256, 5, 0, 8),
    ]  # fmt: skip
    wide = [(f.block, f.turns, f.parked, f.cluster) for f in (form(n, "f4") for n in (16384, 32768, 36864))]
    assert wide == [(512, 8, 0, 1), (1024, 8, 0, 1), (128, 9, 0, 8)]
    assert form(36864, "f4", longest=12).cluster == 1
    # Rows with edges are left as they were.
    assert form(32767, "f2").parked == 0


def test_rules_of_norms():
    """Long rows of 32-bit elements that no cache holds pass by it; others stay as they are."""

    def streamed(n: int, dtype: str, nbytes: int = 2**28) -> bool:
        x = describe("test", "x", np.zeros(1, dtype))._replace(shape=(2**13, n), strides=(n, 1), address=0)
        form = form_of(2**13, n, {"x": x, "out": x}, 4, most=4, parks=norms.PARKS[False], clusters=True)
        return norms._streamed(form, nbytes, x.itemsize).streamed  # pyright: ignore[reportPrivateUsage]

    assert streamed(32768, "f4") and not streamed(32768, "f4", 2**20)
    assert not any(streamed(n, dtype) for n, dtype in ((32768, "f2"), (24576, "f4"), (32767, "f4")))


def test_rules_of_many_rows(monkeypatch: pytest.MonkeyPatch):
    """Threads of a block and units of each, blocks of a multiprocessor, and what is kept as it is or never written."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    memory = np.zeros(64, "f4")

    def rows(n: int, dtype: str) -> dict[str, Any]:
        kind = memory.view(dtype)
        x = np.lib.stride_tricks.as_strided(kind, (2**26 // n, n), (n * kind.itemsize, kind.itemsize), writeable=False)
        return {"x": x, "out": x}

    def normed(n: int, centred: bool, dtype: str = "f2", weight: str = "") -> tuple[object, ...]:
        kind = memory.view(weight or dtype)
        w = np.lib.stride_tricks.as_strided(kind, (n,), (kind.itemsize,), writeable=False)
        given = {**rows(n, dtype), "residual": None, "weight": w, "bias": w if centred else None, "summed": None}
        form = norms._form("test", given, False, centred)  # pyright: ignore[reportPrivateUsage]
        assert form is not None
        return form.block, form.turns, form.resident, form.narrow, form.constant

    def shared_out(n: int) -> tuple[int, int]:
        form = softmax_entry._form("test", rows(n, "f2"), False)  # pyright: ignore[reportPrivateUsage]
        assert form is not None
        return form.block, form.turns

    # Weights of short rows are constants of RMS norm, and so are those of rows that the blocks of a cluster share.
    assert normed(768, False) == (64, 3, 0, False, True) and normed(768, True) == (64, 3, 0, False, False)
    assert normed(262144, True, "f4") == (512, 16, 0, False, True)
    assert normed(262144, False, "f4") == (512, 16, 0, False, True)
    # Three blocks of 512 threads, where weights take no more registers than rows.
    assert normed(13000, True) == normed(16384, False) == (512, 4, 3, True, False)
    assert normed(13000, True, weight="f4") == (512, 4, 0, False, False)
    # Rows that begin anywhere.
    assert normed(4095, True) == (128, 4, 9, False, False) and normed(4095, False) == (128, 4, 0, False, False)
    assert normed(6001, True) == (128, 6, 9, True, False) and normed(9001, True) == (256, 5, 5, True, False)
    assert normed(12345, True) == normed(12345, False) == (256, 7, 4, True, False)
    assert normed(5001, True) == (128, 5, 10, True, False) and normed(5001, True, "f4")[2:] == (0, False, False)
    # Softmax looks at a row three times.
    found = [shared_out(n) for n in (4096, 4288, 7168, 8192, 12800)]
    assert found == [(128, 4), (128, 5), (128, 7), (256, 4), (256, 7)]
    assert shared_out(14344) == (512, 4)


def test_rules_of_ragged_rows():
    """Short ones are read by the element, by few threads each."""
    for dtype in ("f2", "f4"):
        for n, team in ((99, 8), (161, 16), (255, 16)):
            x = describe("test", "x", np.zeros(1, dtype))._replace(shape=(2**20, n), strides=(n, 1), address=0)
            form = form_of(2**20, n, {"x": x}, 4)
            assert (form.unit, form.team, form.edges) == (1, team, False) and form.turns <= 16
            assert form_of(2**20, n, {"x": x}, 4, edges=False).team == 32 * (1 + (n > 128))
        x = x._replace(shape=(2**20, 257), strides=(257, 1))
        assert form_of(2**20, 257, {"x": x}, 4).edges
