"""Events of a trace change nothing: no code, no result; wrong arguments are still wrong."""

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError


@flyc.kernel
def traced(a: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    token = fx.ktrace.inactive_token("double")
    if i < n:
        token = fx.ktrace.range_start("double", i)
        a[i] = a[i] * 2.0
    fx.ktrace.range_stop(token, 3)
    fx.ktrace.mark("after")
    for k in range(n):
        with fx.ktrace.range("loop", k):
            a[i] = a[i] + 1.0


@flyc.jit
def run(a: fx.Tensor, n: fx.Int32):
    traced(a, n).launch(grid=(1, 1, 1), block=(8, 1, 1))


def test_a_kernel_with_events_computes_what_it_did():
    a = np.random.default_rng(3).standard_normal(8).astype(np.float32)
    want = np.where(np.arange(8) < 5, a * 2, a)
    for _ in range(5):
        want = want + np.float32(1)
    compiled = flyc.compile(run, a.copy(), 5, target="cpu:native")
    assert "fly_ktrace" not in compiled.artifact.source_ir
    compiled(a, 5)
    np.testing.assert_array_equal(a, want)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fx.ktrace.mark(3), "the event of mark is a string, got 3"),
        (lambda: fx.ktrace.range_push("a", "b"), "the payload of range_push is a number, got 'b'"),
        (lambda: fx.ktrace.range_stop(7), "range_stop takes what range_start returned, got 7"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(DSLTypeError, match=message):
        call()
