"""Tiles that reach beyond the matrices: copies end where these do, and what they fetch instead goes nowhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.kernels.matmul.hopper import hopper
from flydsl.kernels.matmul.tile import Form, Tile, boxes, boxes_in_groups, problem

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
