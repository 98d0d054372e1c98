"""Layouts as values of the language: what they say of themselves, static and with run-time leaves."""

from __future__ import annotations

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


def swizzle():
    return fx.static(fx.SwizzleType.get(3, 0, 3))


def test_a_composed_layout_says_which_part_is_static():
    def facts(n):
        plain, run_time = fx.make_layout((8, 8), (8, 1)), fx.make_layout((8, n), (n, 1))
        layouts = [
            fx.make_composed_layout(swizzle(), plain),
            fx.make_composed_layout(swizzle(), n, plain),
            fx.make_composed_layout(swizzle(), run_time),
            fx.make_composed_layout(run_time, plain),
        ]
        return [(c.is_static, c.is_static_inner, c.is_static_offset, c.is_static_outer) for c in layouts]

    assert flyc.evaluate(facts, 8) == [
        (True, True, True, True),
        (False, True, False, True),
        (False, True, True, False),
        (False, False, True, True),
    ]


def test_a_composed_layout_has_no_stride():
    with pytest.raises(TypeError, match="a composed layout has no stride"):
        _ = fx.make_composed_layout(swizzle(), fx.make_layout(8, 1)).stride


def test_the_only_mode_of_a_leaf_is_the_leaf():
    def modes(n):
        leaf = fx.make_int_tuple(n)
        with pytest.raises(IndexError, match="is a leaf: it has no mode 1"):
            leaf[1]
        return leaf[0].unpack(), leaf[-1].unpack(), leaf[[0]].unpack()

    assert flyc.evaluate(modes, 5) == (5, 5, 5)


def test_run_time_layouts_compute_what_static_ones_do():
    def both(m, n, i, j):
        layout = fx.make_layout((m, n), (n, 1))
        found = [fx.crd2idx((i, j), layout), fx.size(layout), fx.cosize(layout), fx.get_1d_coord(i * n + j, layout)]
        tiles = fx.zipped_divide(layout, (4, 8))
        return [fx.get_scalar(x) for x in (*found, fx.crd2idx(((1, 2), (1, 0)), tiles))]

    static = fx.make_layout((8, 16), (16, 1))
    tiles = fx.zipped_divide(static, (4, 8))
    wanted = [fx.crd2idx((3, 5), static), fx.size(static), fx.cosize(static), fx.get_1d_coord(53, static)]
    wanted.append(fx.crd2idx(((1, 2), (1, 0)), tiles))
    assert flyc.evaluate(both, 8, 16, 3, 5) == [fx.get_scalar(x) for x in wanted]
