"""`flyc.evaluate`: results of every form come back as Python values."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


def halve(n):
    steps = 0
    while n > 1:
        n = n // 2
        steps = steps + 1
    return steps


@fx.struct
class Pair:
    a: fx.Int32
    b: fx.Float32


def test_forms_of_results():
    assert flyc.evaluate(lambda x: x + 1, 41) == 42
    assert flyc.evaluate(lambda x: x * 0.5, 3.0) == 1.5
    assert flyc.evaluate(lambda x: x > 2, 3) is True
    assert flyc.evaluate(lambda x: None, 3) is None
    assert flyc.evaluate(lambda x: fx.Vector.from_elements([x, x + 1, x + 2]), 5) == [5, 6, 7]
    assert flyc.evaluate(lambda x: (x, [x + 1, 7], "text"), 5) == (5, [6, 7], "text")
    assert flyc.evaluate(lambda x: Pair(x, 2.5), 4) == {"a": 4, "b": 2.5}
    assert flyc.evaluate(lambda n: fx.make_shape(4, n), 6) == (4, 6)
    assert str(flyc.evaluate(lambda: fx.make_layout((4, 8), (8, 1)))) == "Layout<(4,8):(8,1)>"
    assert flyc.evaluate(lambda x: x.to(fx.BFloat16), 1.1) == 1.1015625


def test_arguments():
    assert flyc.evaluate(lambda x: x.dtype is fx.Uint8, fx.Uint8(3)) is True
    assert flyc.evaluate(lambda t, i: t[i, 1], np.arange(6, dtype=np.float32).reshape(3, 2), 2) == 5.0
    assert flyc.evaluate(lambda x, how: x + 1 if how == "up" else x - 1, 3, "up") == 4


def test_functions_are_rewritten_as_kernels_are():
    assert flyc.evaluate(halve, 1000) == 9


def test_threads():
    assert flyc.evaluate(lambda: (fx.thread_idx.x, fx.block_dim.x), threads=3) == [(0, 3), (1, 3), (2, 3)]
    for bad in (0, 2000):
        with pytest.raises(ValueError, match=f"1 to 1024 threads, got {bad}"):
            flyc.evaluate(lambda: 1, threads=bad)


def test_an_emulated_target():
    assert flyc.evaluate(lambda: fx.num_warp_threads(), target="cpu:gfx942") == 64
    with pytest.raises(ValueError, match="needs the rocm runtime, this is cpu"):
        flyc.evaluate(lambda: 1, target="rocm:gfx942")


def test_what_cannot_be_shown():
    with pytest.raises(TypeError, match="cannot show a run-time Int128"):
        flyc.evaluate(lambda x: x.to(fx.Int128), 3)
    with pytest.raises(ValueError, match="evaluate has room for 4096 scalars"):
        flyc.evaluate(lambda x: [x + i for i in range(5000)], 1)


def test_mistakes_show_the_users_line():
    def wrong(x):
        return int(x)

    with pytest.raises(RuntimeError, match="has no Python integer representation") as caught:
        flyc.evaluate(wrong, 3)
    assert "return int(x)\n           ^^^^^^" in caught.value.__notes__[-1]
