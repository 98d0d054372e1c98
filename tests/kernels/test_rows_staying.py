"""Rows that pass through a ring in shared memory, in blocks that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flydsl.kernels import layer_norm_backward, rms_norm_backward
from flydsl.kernels.rows import norms
from flydsl.kernels.rows.arrays import describe
from flydsl.kernels.rows.form import Form, form_of, gradients_in_a_ring, in_a_ring, two_blocks
from flydsl.kernels.rows.norm_gradients import norm_back
from flydsl.kernels.rows.norm_kernels import norm_rows
from flydsl.kernels.rows.softmax_kernels import softmax_rows

NAMES = ("x", "out", "weight", "bias")


def ring_form(n: int, size: int, cluster: int, ring: int, vectors: bool, narrow: bool) -> Form:
    """A form whose ring has room for `ring` units of a thread more than a row."""
    unit = 16 // size
    whole = n % unit == 0
    shifted = NAMES[2:] if vectors and not whole else ()
    team = (128 if cluster > 2 else 64) * cluster
    turns = -(-(n // unit - bool(shifted)) // team)
    aligned = NAMES if whole else NAMES[:2]
    return Form(
        unit, team, 1, turns, not whole, aligned, cluster, shifted, narrow=narrow, ring=turns + ring, stays=3
    )  # fmt: skip


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hopper, emulated and checked."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


CASES = {
    "one row": (1, 1024, "f2", 1, 0),
    "a ring of a row": (11, 1024, "f2", 1, 0),
    "a ring of two rows, of which the last turn is short": (11, 1000, "f2", 1, 2),
    "a ring of a part more": (11, 1288, "f2", 1, 1),
    "rows that begin anywhere": (11, 1021, "f2", 1, 1),
    "a cluster": (11, 2048, "f2", 2, 1),
    "a cluster of which one block has nothing in the last turn": (11, 1160, "f2", 2, 2),
    "rows that begin anywhere, in a cluster": (11, 2043, "f2", 2, 3),
    "four blocks": (11, 3140, "f4", 4, 1),
    "f4 rows that begin anywhere": (11, 1022, "f4", 1, 2),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("hopper")
def test_rows_pass_through_a_ring(case: str, rng: np.random.Generator):
    """More rows than blocks, the mean far from zero, statistics on the side, and the result in the place of the row."""
    m, n, dtype, cluster, ring = CASES[case]
    x = (rng.standard_normal((m, n)) + 20).astype(dtype)
    w, b = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    close: Any = {"rtol": 2e-3, "atol": 1e-2} if dtype == "f2" else {"rtol": 1e-4, "atol": 1e-4}
    form = ring_form(n, x.itemsize, cluster, ring, True, dtype == "f2")
    d, out = x.astype("f8"), np.full_like(x, np.nan)
    means, scales = (np.full(m, np.nan, "f4") for _ in range(2))
    centred = d - d.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    norm_rows(x, None, w, b, out, None, means, scales, m, n, 1e-5, True, form)
    np.testing.assert_allclose(out, centred * scale * w + b, **close)
    np.testing.assert_allclose(means, d.mean(-1), rtol=1e-5)
    np.testing.assert_allclose(scales, scale[:, 0], rtol=1e-5)
    norm_rows(x, None, w, None, out, None, None, None, m, n, 1e-5, False, form._replace(narrow=False))
    np.testing.assert_allclose(out, d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w, **close)
    norm_rows(x, None, None, None, out, None, None, None, m, n, 1e-5, True, form)
    np.testing.assert_allclose(out, centred * scale, **close)
    form = ring_form(n, x.itemsize, cluster, ring, False, False)
    e = np.exp(d - d.max(-1, keepdims=True))
    softmax_rows(x, x, m, n, False, form)
    np.testing.assert_allclose(x, e / e.sum(-1, keepdims=True), rtol=2e-3 if dtype == "f2" else 2e-5, atol=1e-6)


@pytest.mark.usefixtures("hopper")
def test_infinities_spoil_their_rows_alone(rng: np.random.Generator):
    """Of rows that follow each other in a block."""
    m, n = 12, 1000
    x = rng.standard_normal((m, n)).astype("f2")
    x[3, 5], x[7, n - 1], x[10, 0] = np.nan, np.inf, -np.inf
    out = np.full_like(x, np.nan)
    softmax_rows(x, out, m, n, False, ring_form(n, 2, 1, 1, False, True))
    assert [int(i) for i in np.flatnonzero(np.isnan(out).any(-1))] == [3, 7] and out[10, 0] == 0
    norm_rows(x, None, None, None, out, None, None, None, m, n, 1e-5, True, ring_form(n, 2, 1, 1, False, True))
    assert [int(i) for i in np.flatnonzero(np.isnan(out).any(-1))] == [3, 7, 10]


MEMORY = 232448


def ruled(rule: Any, n: int, kind: str, dtype: str = "f2", m: int = 4096) -> tuple[int, ...] | None:
    """Threads of a block, units of a thread, those that wait, blocks of a row, and the ring."""
    row = describe("test", "x", np.zeros(1, dtype))
    x = row._replace(shape=(m, n), strides=(n, 1), address=0)
    arrays = {"x": x, "out": x}
    if kind != "softmax":
        arrays |= {"weight": row._replace(shape=(n,), strides=(1,), address=0)}
    form = rule(form_of(m, n, arrays, 4, clusters=True, parks={}), m, n, row.itemsize, kind, MEMORY)
    return None if form is None else (form.block, form.turns, form.parked, form.cluster, form.ring)


def test_two_blocks_of_a_multiprocessor():
    """Of rows whose registers would do for one and a half."""
    assert ruled(two_blocks, 24576, "layer") is None and ruled(two_blocks, 24576, "layer", "f4") is None
    for n in (24584, 28000, 32768):
        assert ruled(two_blocks, n, "layer") == ruled(two_blocks, n, "rms") == (1024, 4, 0, 1, 0)
        assert ruled(two_blocks, n, "softmax") is None
    for kind in ("softmax", "rms", "layer"):
        assert ruled(two_blocks, 28003, kind) == (512, 7, 0, 1, 0)
        assert ruled(two_blocks, 50257, kind) is None and ruled(two_blocks, 28003, kind, m=100) is None
    assert ruled(two_blocks, 40960, "layer") == ruled(two_blocks, 40960, "softmax") == (512, 10, 0, 1, 0)
    assert ruled(two_blocks, 32768, "rms", "f4") == (1024, 8, 6, 1, 0)


def test_clusters_that_stay():
    """Rows that no block holds, or whose weights L1 does not hold beside them; as many rows as clusters at least."""
    assert ruled(in_a_ring, 40960, "layer") is None and ruled(in_a_ring, 65536, "rms") is None
    assert ruled(in_a_ring, 49152, "layer") == (512, 6, 0, 2, 12)
    assert ruled(in_a_ring, 65536, "layer") == (512, 8, 0, 2, 9)
    assert ruled(in_a_ring, 50257, "softmax") == (512, 7, 0, 2, 14)
    assert ruled(in_a_ring, 131072, "layer", m=1024) == (512, 4, 0, 8, 5)
    assert ruled(in_a_ring, 65536, "layer", m=100) is None


GRADIENTS = {
    "a ring of a part more": (11, 1024, "f2", 1, True, False),
    "two rows, the last turn short": (11, 1000, "f2", 4, True, False),
    "without a mean": (11, 1536, "f2", 3, False, False),
    "f4": (7, 512, "f4", 5, True, True),
    "sums that wait in shared memory": (11, 1024, "f2", 2, True, True),
    "fewer rows than stay": (2, 1024, "f2", 0, False, True),
}


@pytest.mark.parametrize("case", GRADIENTS)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.usefixtures("hopper")
def test_gradients_pass_through_a_ring(case: str, residual: bool, rng: np.random.Generator):
    """More rows than blocks; sums of all columns, whatever waits where."""
    m, n, dtype, more, centred, pooled = GRADIENTS[case]
    dy, x, ds = (rng.standard_normal((m, n)).astype(dtype) for _ in range(3))
    w = rng.standard_normal(n).astype(dtype)
    mean, scale = rng.standard_normal(m).astype("f4"), (rng.random(m) + 0.5).astype("f4")
    unit, team, blocks = 16 // x.itemsize, 64, min(m, 3)
    turns = -(-n // (unit * team))
    form = Form(
        unit, team, 1, turns, False, ("dy", "x", "weight", "dsummed", "dx", "dweights", "dbiases"), pooled=pooled,
        ring=(2 + residual) * turns + more, stays=blocks,
    )  # fmt: skip
    dx, dw, db = np.full_like(x, np.nan), np.full(n, np.nan, "f4"), np.full(n, np.nan, "f4")
    sums = [np.full((blocks, n), np.nan, "f4") for _ in range(2)]
    norm_back(
        dy, x, w, mean if centred else None, scale, ds if residual else None, dx, sums[0], sums[1] if centred else None,
        dw, db if centred else None, m, n, blocks, form,
    )  # fmt: skip
    d, g = dy.astype("f8"), dy.astype("f8") * w
    v = (x.astype("f8") - (mean[:, None] if centred else 0)) * scale[:, None]
    want = (g - v * (g * v).mean(-1, keepdims=True) - (g.mean(-1, keepdims=True) if centred else 0)) * scale[:, None]
    want = want + ds.astype("f8") if residual else want
    np.testing.assert_allclose(dx, want, rtol=2e-3, atol=1e-2 if dtype == "f2" else 1e-4)
    np.testing.assert_allclose(dw, (d * v).sum(0), rtol=1e-4, atol=1e-4)
    if centred:
        np.testing.assert_allclose(db, d.sum(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_gradients_of_many_rows_are_taken_from_a_ring(
    kind: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    """As they are called: whole units of 16 bits, four rows of a block at least."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    found, way = list[Any](), norms._way  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(norms, "_way", lambda *given: found.append(way(*given)) or found[-1])
    m, n = (528, 6200) if kind == "rms" else (1056, 2104)
    dy, x, ds = (rng.standard_normal((m, n)).astype("f2") for _ in range(3))
    w, scale, mean = rng.standard_normal(n).astype("f2"), (rng.random(m) + 0.5).astype("f4"), np.zeros(m, "f4")
    d, v = dy.astype("f8"), x.astype("f8") * scale[:, None]
    g = d * w
    want = g - v * (g * v).mean(-1, keepdims=True)
    if kind == "rms":
        dx, dw, _ = rms_norm_backward(dy, x, w, scale)
    else:
        want = want - g.mean(-1, keepdims=True)
        dx, dw, db = layer_norm_backward(dy, x, w, mean, scale, dsummed=ds)
        np.testing.assert_allclose(db, d.sum(0), rtol=2e-3, atol=2e-2)
    want = want * scale[:, None] + (ds if kind == "layer" else 0.0)
    np.testing.assert_allclose(dx, want, rtol=2e-3, atol=1e-2)
    np.testing.assert_allclose(dw, (d * v).sum(0), rtol=2e-3, atol=5e-2)
    assert found[0].form.ring and found[0].blocks == found[0].form.stays


def test_gradients_in_a_ring():
    """Threads, units of a thread, blocks of a multiprocessor, chunks on their way; sums of long rows wait elsewhere."""
    lead = Form(8, 64, 1, 1, False, ())

    def ruled(units: int, kinds: int, matrices: int = 2, m: int = 65536) -> tuple[int, ...] | None:
        form = gradients_in_a_ring(lead, m, units, matrices, True, kinds, MEMORY)
        return form and (form.team, form.turns, form.resident, form.ring, form.narrow, form.pooled)

    for kinds in (1, 2):
        assert ruled(2049, kinds) is None and ruled(128, kinds, m=3167) is None
        assert ruled(128, kinds) == (128, 1, 6, 8, False, False)
        assert ruled(192, kinds) == (128, 2, 4, 8, False, False)
        assert ruled(256, kinds) == (256, 1, 3, 8, False, False)
        assert ruled(512, kinds) == (256, 2, 2, 8, False, False)
        assert ruled(512, kinds, matrices=3) == (256, 2, 2, 12, False, False)
        assert ruled(768, kinds) == (256, 3, 2, 12, kinds == 2, False)
    assert ruled(95, 1) is None and ruled(96, 1) == (128, 1, 6, 8, False, False) and ruled(127, 2) is None
    assert ruled(1024, 1) == (512, 2, 1, 8, False, False) and ruled(1024, 2) is None
    assert ruled(1536, 1) == (512, 3, 1, 12, False, False) and ruled(1536, 2) == (512, 3, 1, 12, False, True)
    assert ruled(2048, 1) == (512, 4, 1, 16, True, False) and ruled(2048, 2) == (512, 4, 1, 8, False, True)
    assert ruled(2048, 2, matrices=3) is None
