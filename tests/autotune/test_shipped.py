"""Winners that come with the package, and the rule for shapes between them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.autotune import Config, autotune, shipped
from flydsl.autotune.key import device_identity
from flydsl.autotune.shipped import distance, parse, write
from flydsl.errors import DSLValueError

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
        assert parse(file.read_text(), str(file)).points
