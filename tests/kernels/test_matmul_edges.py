"""Tiles that reach beyond the matrices: copies end where these do, and what they fetch instead goes nowhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.kernels import matmul
from flydsl.kernels.matmul.hopper import hopper
from flydsl.kernels.matmul.plan import Problem, candidates
from flydsl.kernels.matmul.tile import Form, Tile, boxes, boxes_in_groups, problem

from .matmul_checks import bound

TILES = [
    Tile(64, 64, 1), Tile(128, 64, 2), Tile(64, 48, 1), Tile(64, 96, 1), Tile(64, 64, 1, cluster=2),
    Tile(64, 64, 1, cluster=2, shares="x"), Tile(64, 64, 1, cluster=4, shares="xy"),
]  # fmt: skip


@pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t.m}x{t.n}c{t.cluster}{t.shares}")
def test_edges(tile: Tile, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """In checked mode: nothing is read that nobody wrote. What is not there would be NaN."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    rows, columns = (8 * int(rng.integers(2, 26)) for _ in range(2))
    k = 8 * int(rng.integers(1, 18))
    found = boxes(tile, rows, columns, "k", "k")
    x, y = (torch.from_numpy(rng.standard_normal((n, k))).bfloat16() for n in (rows, columns))
    c = torch.full((rows, columns), float("nan"), dtype=torch.bfloat16)
    across = -(-rows // (tile.m * tile.high)) * -(-columns // (tile.n * tile.wide))
    form = Form("k", "k", "engine", boxes_x=found[0], boxes_y=found[1])
    hopper(
        x, y, c, None, None, None, None, None, rows, columns, k, 1, k, 0, k, 0, columns, 0, across * tile.blocks, 1,
        tile, form,
    )  # fmt: skip
    want, most = x.double() @ y.double().T, x.double().abs() @ y.double().abs().T
    assert ((c.double() - want).abs() <= want.abs() * 2**-8 + most * 2**-22).all(), (rows, columns, k)


def test_copies_end_where_the_matrix_does(rng: np.random.Generator):
    """With as many copies as pay for themselves, never with more rows beyond the end than without them."""
    for tile in TILES:
        assert problem(tile) is None
        for _ in range(200):
            rows, columns = (int(x) for x in rng.integers(1, 2000, 2))
            x, y = boxes(tile, rows, columns, "k", "k")
            for high, extent, many, least in ((tile.m, rows, x, tile.wide), (tile.n, columns, y, tile.high)):
                assert high % (8 * many) == 0 and many % least == 0 and many <= 4 * least
                assert -extent % (high // many) <= -extent % (high // least)
                assert many == least or extent % high, "nothing is beyond the end"
        assert boxes(tile, 1000, 1000, "mn", "mn") == (tile.wide, tile.high)
    assert boxes(Tile(128, 128, 2), 3136, 576, "k", "k") == (2, 2)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80", "gfx942"])
def test_what_lies_behind_k_is_anything(arch: str, rng: np.random.Generator, emulate):
    """Rows that are units of 16 bytes and K that ends inside of one: few rows and more, results of one column and
    more."""
    emulate(arch)
    for dtype, m, n, k in (
        (torch.bfloat16, 1, 1, 1), (torch.bfloat16, 5, 40, 71), (torch.float16, 12, 24, 4097),
        (torch.float8_e4m3fn, 3, 9, 17), (torch.int8, 5, 40, 3), (torch.bfloat16, 40, 12, 9),
    ):  # fmt: skip
        shape, length = (m + n, k), -(-k // 16) * 16
        held = torch.full((m + n, length), 1 if dtype is torch.int8 else float("nan")).to(dtype)
        held[:, :k] = torch.from_numpy(rng.standard_normal(shape) * 3).to(dtype)
        a, b = held[:m, :k], held[m:, :k].T
        bound(matmul(a, b, out_dtype="float32"), a, b, sums=2.0**-10 if dtype.itemsize == 1 else 0.0)


def test_rows_are_the_same_bits_with_scales(rng: np.random.Generator, emulate):
    """Whichever operand is swapped for a number of rows, and for one row of a result that has gaps."""
    emulate("sm_90a")
    m, n, k = 70, 64, 256
    a, b = (torch.from_numpy(rng.standard_normal((x, k))).to(torch.float8_e4m3fn) for x in (m, n))
    rows, columns = (torch.from_numpy(rng.random(x) + 0.5).float() for x in (m, n))
    for gap in (1, 2):
        found = []
        for first, last in ((0, m), (0, 9), (5, 6)):
            out = torch.zeros(m, gap * n, dtype=torch.bfloat16)[first:last, ::gap]
            given = a[first:last], b.T
            matmul(*given, scale_a=rows[first:last], scale_b=columns, out=out, batch_invariant=True)
            found.append(out)
        assert torch.equal(found[0][:9], found[1]) and torch.equal(found[0][5:6], found[2]), gap


@pytest.mark.parametrize(("m", "n", "k"), [(1, 40, 256), (5, 200, 128), (1, 200, 128), (1, 200, 256)])
def test_blocks_of_one_row_or_one_step(m: int, n: int, k: int, rng: np.random.Generator, emulate):
    """Their scales have an extent of 1, and are those of blocks."""
    emulate("sm_90a")
    a, b = (torch.from_numpy(rng.standard_normal((x, k))).to(torch.float8_e4m3fn) for x in (m, n))
    scale_a, scale_b = (
        torch.from_numpy(rng.random(x) + 0.5).float() for x in ((m, k // 128), (k // 128, -(-n // 128)))
    )
    left = a.double() * scale_a.double().repeat_interleave(128, 1)
    right = b.double().T * scale_b.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:, :n]
    bound(matmul(a, b.T, scale_a=scale_a, scale_b=scale_b, out_dtype="float32"), left, right, sums=2.0**-10)


def test_integers_have_tiles_of_their_own():
    """The instruction has no 40 or 56 columns for them, which is the fastest on few multiprocessors."""
    given = Problem(390, 243, 211, 1, 8, 2, "k", "k", False, 30)
    assert any(p.tile.n % 16 and p.tile.n > 32 for p in candidates(given))
    assert not any(p.tile.n % 16 and p.tile.n > 32 for p in candidates(given._replace(integers=True)))


def test_copies_of_groups(rng: np.random.Generator):
    """A pair shares copies in one way or the other, so that there are two at least; of the rest a block makes four."""
    for tile in (
        Tile(128, 128, 2),
        Tile(128, 208, 2),
        Tile(64, 224, 2, True, 2, "either"),
        Tile(128, 96, 2, cluster=2, shares="either"),
    ):
        least = 2 if tile.either else 1
        assert boxes_in_groups(tile, 3 * tile.n, "k") == boxes_in_groups(tile, 1000, "mn") == least
        for columns in map(int, rng.integers(1, 2000, 100)):
            many = boxes_in_groups(tile, columns, "k")
            assert tile.n % (8 * many) == 0 and many % least == 0 and many <= 4
            assert -columns % (tile.n // many) <= -columns % (tile.n // least)
    assert boxes_in_groups(Tile(128, 192, 2, cluster=2, shares="either"), 200, "k") == 4


def test_weights_are_asked_for_by_most_multiprocessors():
    """Of few rows: a pair of them gets no more from memory than one alone, so 80 blocks are no better than 40."""
    for m, n, k in ((32, 11008, 4096), (32, 5120, 5120), (16, 12288, 4096)):
        chosen = candidates(Problem(m, n, k, 1, 16, 2, "k", "k", False, 132))[0]
        assert chosen.blocks > 110, (m, n, k, chosen)
