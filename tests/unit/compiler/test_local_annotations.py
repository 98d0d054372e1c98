"""String annotations that name what only the functions around a kernel know."""

from __future__ import annotations

import warnings

import numpy as np
import pytest


def make_scale():
    import flydsl.compiler as flyc
    import flydsl.expr as fx

    @flyc.kernel
    def kernel(x: fx.Tensor, by: fx.Float32, count: fx.Constexpr[int]):
        if fx.thread_idx.x < count:
            x[fx.thread_idx.x] = x[fx.thread_idx.x] * by

    @flyc.jit
    def scale(x: fx.Tensor, by: fx.Float32, count: fx.Constexpr[int]):
        kernel(x, by, count).launch(grid=1, block=8)

    return scale


def test_names_imported_by_the_function_around(recwarn):
    scale = make_scale()
    x = np.arange(8, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scale(x, 2, 5)  # an int is a Float32 only by its annotation
    np.testing.assert_array_equal(x, [0, 2, 4, 6, 8, 5, 6, 7])
    assert scale.signature.parameters["count"].kind == "constexpr"


def outermost():
    import flydsl.expr as lang

    def middle():
        import flydsl.compiler as flyc

        class Holder:
            Own = lang.Int32

            @flyc.jit
            def method(self, n: Own, out: lang.Tensor):
                kernel(n, out).launch(grid=1, block=1)

        @flyc.kernel
        def kernel(n: lang.Int32, out: lang.Tensor):
            out[0] = n + 1

        return Holder

    return middle()


def test_names_of_classes_and_of_functions_farther_out():
    out = np.zeros(1, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outermost()().method(41, out)
    assert out[0] == 42


def test_only_what_is_named_is_kept():
    import flydsl.compiler as flyc

    big = object()

    def outer():
        import flydsl.expr as fx

        unrelated = big

        @flyc.jit
        def fn(n: fx.Int32):
            return None

        assert unrelated is big
        return fn

    kept = vars(outer().__wrapped__)["__fly_annotation_locals__"]
    assert list(kept) == ["fx"]


def test_a_name_nobody_has_still_warns():
    import flydsl.compiler as flyc

    @flyc.jit
    def fn(n: nowhere.Int32):  # noqa: F821
        return None

    with pytest.warns(UserWarning, match=r"fn: cannot resolve the annotation of 'n' \('nowhere.Int32'\)"):
        assert fn.signature.parameters["n"].annotation is None
