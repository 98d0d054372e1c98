"""Winners that come with the package, and the rule for shapes between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.autotune import Config, autotune, shipped
from flydsl.autotune.key import device_identity
from flydsl.autotune.shipped import distance, parse, write
from flydsl.errors import DSLValueError
from flydsl.kernels.matmul.plan import Problem, best, candidates
from flydsl.kernels.matmul.tile import Tile

ARCH = "sm_90a"
CHIP = "sm_90"
"""The same GPU, as its driver names it."""
SHAPES = st.tuples(st.integers(1, 1 << 16), st.integers(1, 1 << 16))


@given(SHAPES, SHAPES, SHAPES)
def test_distance_is_one(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]):
    far = {(x, y): distance({"n": list(x)}, {"n": list(y)}) for x in (a, b, c) for y in (a, b, c)}
    assert far[a, a] == 0 and far[a, b] == pytest.approx(far[b, a])
    assert far[a, c] <= far[a, b] + far[b, c] + 1e-9  # pyright: ignore


def test_kinds_differ():
    assert distance({"n": 4}, {"m": 4}) is None
    assert distance({"n": 4, "t": "f16"}, {"n": 8, "t": "bf16"}) is None
    assert distance({"n": 4, "t": "f16"}, {"n": 8, "t": "f16"}) == 1
    assert distance({"x": [1, 2]}, {"x": [1, 2, 3]}) is None
    assert distance({"flag": True}, {"flag": False}) is None


def test_a_call_takes_the_nearest_point_without_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    device = device_identity()
    assert device is not None
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    shipped.read.cache_clear()
    write(tmp_path / f"mine-{device.arch}.json", [({"n": 64}, Config(B=1)), ({"n": 4096}, Config(B=2))], reach=8.0)
    tuned = autotune([Config(B=1), Config(B=2), Config(B=3)], key=["n"], shipped="mine", default=lambda n: Config(B=3))(
        lambda n, B: B
    )
    assert [tuned(n) for n in (64, 100, 500, 600, 5000)] == [1, 1, 1, 2, 2]
    assert tuned(1) == 3 and tuned(1 << 20) == 3  # out of reach: the default
    assert not tuned.report().trials
    with monkeypatch.context() as patch:
        patch.setenv("FLYDSL_AUTOTUNE", "1")
        tuned(64)
        assert tuned.report().trials
    other = autotune([Config(B=3)], key=["n"], shipped="none", rep=1)(lambda n, B: B)
    assert other(64) == 3
    shipped.read.cache_clear()


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2, "points": []}', '{"version": 1, "points": [{"key": 3}]}'])
def test_bad_files(text: str):
    with pytest.raises(DSLValueError, match="holds no winners"):
        parse(text, "x.json")
    with pytest.raises(DSLValueError, match="1 to 64 letters"):
        shipped.read("../x", "sm_90a")


def test_what_ships_is_whole():
    for file in shipped.FOLDER.glob("*.json"):
        name, _, arch = file.stem.rpartition("-")
        assert parse(file.read_text(), str(file)).points
        assert shipped.file_of(name, arch) == file, "nobody finds it"


def test_products_of_the_library_take_what_won():
    """Where a product was measured, and about there; elsewhere its model chooses. What K is cut into may be refused."""
    found = shipped.read("matmul", ARCH)
    assert found is not None and len(found.points) > 40 and shipped.read("matmul", CHIP) == found
    for i in np.random.default_rng().choice(len(found.points), 8, replace=False):
        key, tile = dict(found.points[i].key), dict(found.points[i].config)
        m, n, k = (cast(int, key[name]) for name in "mnk")
        near = Problem(m, n, k, 1, 16, 2, str(key["a_major"]), str(key["b_major"]), n % 8 != 0, 132)
        for arch in (ARCH, CHIP):
            assert best(near, arch=arch).tile == Tile(**cast("dict[str, Any]", tile)), key
        far = near._replace(k=1 << 20)
        assert found.nearest({**key, "k": far.k}) is None and best(far, arch=ARCH) == candidates(far)[0]
        assert best(near, True, ARCH).tile.splits == 1 and best(near) == candidates(near)[0]
