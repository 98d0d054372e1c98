"""Upstream ops no target has as such, and loops that compare unsigned: through the passes, run on the CPU."""

import numpy as np
import pytest

PASSES = "fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,canonicalize,convert-fly-to-cpu,canonicalize"
INPUTS = np.array([0.0, -0.0, 1.5, -2.25, 1e-40, -1e-40, 1.1754944e-38, 3e38, np.inf, -np.inf, np.nan, 0.7], np.float32)
COUNT = len(INPUTS)


def kernel(body: str) -> str:
    """A kernel that computes an i32 from each input."""
    steps = ""
    for i in range(COUNT):
        steps += f"""
        %i{i} = fly.make_int_tuple() : () -> !fly.int_tuple<{i}>
        %x{i} = fly.memref.load(%in, %i{i}) : (!fly.memref<f32, global, {COUNT}:1>, !fly.int_tuple<{i}>) -> f32
        {body.replace("@", str(i))}
        fly.memref.store(%r{i}, %out, %i{i}) : (i32, !fly.memref<i32, global, {COUNT}:1>, !fly.int_tuple<{i}>) -> ()"""
    return f"""
    gpu.module @m {{
      gpu.func @k(%in: !fly.memref<f32, global, {COUNT}:1>, %out: !fly.memref<i32, global, {COUNT}:1>)
      kernel attributes {{known_block_size = array<i32: 1, 1, 1>}} {{ {steps} gpu.return }} }}"""


TESTS = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "isnormal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(np.float32).tiny),
}


@pytest.mark.parametrize("name", TESTS)
def test_what_a_float_is(name, run_kernel):
    body = f"%f@ = math.{name} %x@ : f32\n%r@ = arith.extui %f@ : i1 to i32"
    np.testing.assert_array_equal(run_kernel(kernel(body), PASSES, INPUTS, COUNT), TESTS[name](INPUTS))


def test_what_the_floats_of_a_vector_are(run_kernel):
    body = """
    %v@ = vector.broadcast %x@ : f32 to vector<2xf32>
    %f@ = math.isnan %v@ : vector<2xf32>
    %g@ = vector.extract %f@[1] : i1 from vector<2xi1>
    %r@ = arith.extui %g@ : i1 to i32"""
    np.testing.assert_array_equal(run_kernel(kernel(body), PASSES, INPUTS, COUNT), np.isnan(INPUTS))


def test_clamp(run_kernel):
    body = """
    %a@ = arith.constant -1.5 : f32
    %b@ = arith.constant 1.25 : f32
    %c@ = math.clampf %x@ to [%a@, %b@] : f32
    %r@ = arith.bitcast %c@ : f32 to i32"""
    found = run_kernel(kernel(body), PASSES, INPUTS, COUNT).view(np.float32)
    np.testing.assert_array_equal(found, np.clip(INPUTS, -1.5, 1.25))


@pytest.mark.parametrize("which", ["s", "c"])
def test_sine_and_cosine(which, run_kernel):
    body = f"%s@, %c@ = math.sincos %x@ : f32\n%r@ = arith.bitcast %{which}@ : f32 to i32"
    found = run_kernel(kernel(body), PASSES, INPUTS, COUNT).view(np.float32)
    exact = {"s": np.sin, "c": np.cos}[which]
    inside = np.abs(INPUTS) < 1e3
    np.testing.assert_allclose(found[inside], exact(INPUTS[inside].astype(np.float64)), rtol=2e-7, atol=2e-7)
    assert np.isnan(found[np.isnan(INPUTS) | np.isinf(INPUTS)]).all()


@pytest.mark.parametrize("text", ["index_cast", "index_castui"])
def test_casts_of_indices(text, run_kernel):
    body = f"""
    %n@ = arith.bitcast %x@ : f32 to i32
    %i64@ = arith.constant 32 : i64
    %j@ = arith.{text} %n@ : i32 to index
    %k@ = arith.index_cast %j@ : index to i64
    %h@ = arith.shrui %k@, %i64@ : i64
    %r@ = arith.trunci %h@ : i64 to i32"""
    bits = INPUTS.view(np.int32)
    expected = np.where(bits < 0, -1, 0) if text == "index_cast" else np.zeros(COUNT)
    np.testing.assert_array_equal(run_kernel(kernel(body), PASSES, INPUTS, COUNT), expected)


@pytest.mark.parametrize("known", [True, False])
def test_loops_that_compare_unsigned(known, run_kernel):
    """From 0x7ffffffe to 0x80000002 a signed loop runs never, an unsigned one four times."""
    start = "%z@ = arith.constant 0 : i32"
    if not known:
        # A zero that no fold sees.
        start = """
        %q@ = arith.bitcast %x@ : f32 to i32
        %c31@ = arith.constant 31 : i32
        %c2@ = arith.constant 2 : i32
        %w@ = arith.shrui %q@, %c31@ : i32
        %z@ = arith.andi %w@, %c2@ : i32"""
    body = f"""
    {start}
    %l@ = arith.constant 2147483646 : i32
    %low@ = arith.addi %l@, %z@ : i32
    %high@ = arith.constant -2147483646 : i32
    %one@ = arith.constant 1 : i32
    %a@ = scf.for unsigned %n@ = %low@ to %high@ step %one@ iter_args(%t@ = %z@) -> (i32) : i32 {{
      %u@ = arith.addi %t@, %one@ : i32
      scf.yield %u@ : i32
    }}
    %b@ = scf.for %m@ = %low@ to %high@ step %one@ iter_args(%v@ = %a@) -> (i32) : i32 {{
      scf.yield %low@ : i32
    }}
    %r@ = arith.addi %b@, %z@ : i32"""
    np.testing.assert_array_equal(run_kernel(kernel(body), PASSES, INPUTS, COUNT), 4)
