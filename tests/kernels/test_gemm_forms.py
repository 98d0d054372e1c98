"""`fx.gemm` in all its forms: traversal orders, an atom per step, operand lists with scales."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

M, N, K = 3, 2, 4
ORDERS = list(fx.GemmTraversalOrder)


def plain_loops(order: fx.GemmTraversalOrder) -> list[tuple[int, int, int]]:
    """(m, n, k) by three nested loops, written out; the name's first letter is the innermost one."""
    letters, _, snake = order.name.partition("_")
    extent = {"M": M, "N": N, "K": K}
    found, turned_inner, turned_middle = [], False, False
    for o in range(extent[letters[2]]):
        middle = list(range(extent[letters[1]]))
        for m in reversed(middle) if snake and turned_middle else middle:
            inner = list(range(extent[letters[0]]))
            for i in reversed(inner) if snake and turned_inner else inner:
                at = dict(zip(letters, (i, m, o), strict=True))
                found.append((at["M"], at["N"], at["K"]))
            turned_inner = not turned_inner
        turned_middle = not turned_middle
    return found


def product(monkeypatch, rng, **options):
    """A product of M x N x K atoms of one thread; gives D, what it should be, and the steps a callback saw."""
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")  # tracing must happen here
    monkeypatch.setenv("FLYDSL_COMPILE_GLOBALS", "recompile")  # and changes what the callback notes
    seen: list[tuple[int, int, int]] = []
    use_callback = options.pop("callback", False)

    def note(atom, at):
        seen.append(at)
        return atom

    @flyc.kernel
    def kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor):
        atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
        parts = [fx.make_rmem_tensor((1, *shape), fx.Float32) for shape in ((M, K), (N, K), (M, N), (M, N))]
        for part, t in zip(parts, (a, b, c), strict=False):
            for i in fx.range_constexpr(fx.size(t.shape).unpack()):
                part[i] = t[i]
        layout = options.get("traversal_layout")
        order = options.get("traversal_order")
        fx.gemm(
            atom,
            parts[3],
            parts[0],
            parts[1],
            parts[2],
            traversal_order=order,
            traversal_layout=None if layout is None else fx.make_layout(*layout),
            atom_callback=note if use_callback else None,
        )
        for i in fx.range_constexpr(M * N):
            d[i] = parts[3][i]

    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor):
        kernel(a, b, c, d).launch(grid=1, block=1)

    a, b, c = (np.asfortranarray(rng.standard_normal(s).astype(np.float32)) for s in ((M, K), (N, K), (M, N)))
    d = np.full((M, N), np.nan, np.float32, order="F")
    run(*map(flyc.from_dlpack, (a, b, c, d)))
    return d, a.astype(np.float64) @ b.astype(np.float64).T + c, seen


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.name)
def test_a_callback_sees_every_step_in_order(order, monkeypatch, rng):
    d, expected, seen = product(monkeypatch, rng, traversal_order=order, callback=True)
    assert seen == plain_loops(order)
    np.testing.assert_allclose(d, expected, rtol=1e-5, atol=1e-5)
    plain, expected, _ = product(monkeypatch, rng, traversal_order=order)
    np.testing.assert_allclose(plain, expected, rtol=1e-5, atol=1e-5)


def test_the_default_order_is_nmk(monkeypatch, rng):
    assert product(monkeypatch, rng, callback=True)[2] == plain_loops(fx.GemmTraversalOrder.NMK)


def test_a_callback_follows_a_traversal_layout(monkeypatch, rng):
    layout = ((K, M, N), (M * N, 1, M))
    d, expected, seen = product(monkeypatch, rng, traversal_layout=layout, callback=True)
    assert seen == [(m, n, k) for n in range(N) for m in range(M) for k in range(K)]
    np.testing.assert_allclose(d, expected, rtol=1e-5, atol=1e-5)


def test_a_callback_that_gives_something_else(monkeypatch, rng):
    @flyc.kernel
    def kernel(p: fx.Pointer):
        atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
        wide = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 4, fx.Float32))
        x = fx.make_rmem_tensor((1, 2, 2), fx.Float32)
        for give, message in (
            (lambda atom, at: None, r"atom_callback gives the MmaAtom to use at \(0, 0, 0\), got None"),
            (lambda atom, at: wide, r"not of the shape and layouts of MmaAtom<!fly.mma_atom<!fly.universal_fma<"),
        ):
            with pytest.raises(TypeError, match=message):
                fx.gemm(atom, x, x, x, x, atom_callback=give)
        with pytest.raises(TypeError, match="gemm: a is a tensor, or a list of a tensor and its scales, got 3"):
            fx.gemm(atom, x, 3, x, x)
        with pytest.raises(TypeError, match="gemm: b is a tensor"):
            fx.gemm(atom, x, x, [], x)
        short = fx.make_rmem_tensor((1, 2, 1), fx.Int32)
        with pytest.raises(ValueError, match=r"the scales .* of A do not go with"):
            fx.gemm(atom, x, [x, short], x, x)

    @flyc.jit
    def run(p: fx.Pointer):
        kernel(p).launch(grid=1, block=1)

    flyc.compile(run, flyc.from_c_void_p(fx.Float32, 0), target="rocm:gfx942")


STEPS_M, STEPS_K = 2, 2


def scaled_product(form: str):
    """D = sum over k of scaled A times scaled B, two steps of a scaled atom in M and in K, written in several ways."""

    @flyc.kernel
    def kernel(a: fx.Tensor, b: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor, d: fx.Tensor):
        lane = fx.thread_idx.x
        atom = fx.make_mma_atom(fx.rocdl.cdna4.MFMA_Scale(16, 16, 128, fx.Float8E4M3FN))
        ra = fx.make_rmem_tensor((32, STEPS_M, STEPS_K), fx.Float8E4M3FN)
        rb = fx.make_rmem_tensor((32, 1, STEPS_K), fx.Float8E4M3FN)
        rd = fx.make_rmem_tensor((4, STEPS_M, 1), fx.Float32)
        rd.fill(0.0)
        xa = fx.make_rmem_tensor((1, STEPS_M, STEPS_K), fx.Int32)
        xb = fx.make_rmem_tensor((1, 1, STEPS_K), fx.Int32)
        for m in fx.range_constexpr(STEPS_M):
            for k in fx.range_constexpr(STEPS_K):
                words = [a[lane, i, m, k] for i in range(8)]
                ra[None, m, k].store(fx.Vector.from_elements(words, fx.Int32).bitcast(fx.Float8E4M3FN))
                xa[0, m, k] = sa[lane, m, k]
        for k in fx.range_constexpr(STEPS_K):
            words = [b[lane, i, k] for i in range(8)]
            rb[None, 0, k].store(fx.Vector.from_elements(words, fx.Int32).bitcast(fx.Float8E4M3FN))
            xb[0, 0, k] = sb[lane, k]
        if fx.const_expr(form == "lists"):
            fx.gemm(atom, rd, [ra, xa], [rb, xb], rd)
        elif fx.const_expr(form == "callback"):

            def scaled(atom, at):
                m, n, k = at
                return atom.set_value({"scale_a": xa[0, m, k], "scale_b": xb[0, n, k]})

            fx.gemm(atom, rd, ra, rb, rd, atom_callback=scaled)
        elif fx.const_expr(form == "tiled"):
            mma = fx.make_tiled_mma(atom, fx.make_layout((1, 1, 1), (1, 1, 0)))
            fx.gemm(mma, rd, [ra, xa], [rb, xb], rd, traversal_order=fx.GemmTraversalOrder.KMN)
        elif fx.const_expr(form == "call lists"):
            for k in fx.range_constexpr(STEPS_K):
                for m in fx.range_constexpr(STEPS_M):
                    part = rd[None, m, 0]
                    left = [ra[None, m, k], xa[None, m, k]]
                    fx.mma_atom_call(atom, part, left, [rb[None, 0, k], xb[None, 0, k]], part)
        else:
            for k in fx.range_constexpr(STEPS_K):
                for m in fx.range_constexpr(STEPS_M):
                    part = rd[None, m, 0]
                    state = {"scale_a": sa[lane, m, k], "scale_b": sb[lane, k]}
                    fx.mma_atom_call(atom, part, ra[None, m, k], rb[None, 0, k], part, **state)
        for m in fx.range_constexpr(STEPS_M):
            for i in fx.range_constexpr(4):
                d[lane, i, m] = rd[i, m, 0]

    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor, sa: fx.Tensor, sb: fx.Tensor, d: fx.Tensor):
        kernel(a, b, sa, sb, d).launch(grid=1, block=64)

    return run


def scaled_arguments(rng):
    def codes(*shape):  # e4m3 without NaN: every exponent but the last
        found = rng.integers(0, 0x70, (*shape, 4)).astype(np.uint8) | (rng.integers(0, 2, (*shape, 4)) << 7)
        return np.ascontiguousarray(found.astype(np.uint8)).view(np.int32)[..., 0]

    a, b = codes(64, 8, STEPS_M, STEPS_K), codes(64, 8, STEPS_K)
    sa = rng.integers(122, 132, (64, STEPS_M, STEPS_K)).astype(np.int32)
    sb = rng.integers(122, 132, (64, STEPS_K)).astype(np.int32)
    return [a, b, sa, sb]


@pytest.mark.parametrize("form", ["lists", "callback", "tiled", "call lists"])
def test_scales_of_each_step(form, emulate, rng):
    """They are the state of each call: whichever way they come, the sums are the same."""
    inputs = scaled_arguments(rng)
    emulate("gfx950")
    outs = []
    for way in (form, "state"):
        d = np.full((64, 4, STEPS_M), np.nan, np.float32)
        scaled_product(way)(*map(flyc.from_dlpack, [*inputs, d]))
        outs.append(d)
    assert np.isfinite(outs[1]).all() and np.unique(outs[1]).size > 300
    np.testing.assert_array_equal(*outs)


@pytest.mark.parametrize("form", ["lists", "callback", "tiled"])
def test_scales_of_each_step_compile(form, rng):
    args = [flyc.from_dlpack(t) for t in [*scaled_arguments(rng), np.zeros((64, 4, STEPS_M), np.float32)]]
    artifact = flyc.compile(scaled_product(form), *args, target="rocm:gfx950").artifact
    assert artifact.asm.count("v_mfma_scale_f32_16x16x128_f8f6f4 ") == STEPS_M * STEPS_K
