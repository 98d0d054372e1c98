"""The passes one by one compute what the one-walk lowering computes: examples and kernels, on the cpu stack."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.build import driver
from flydsl.passes.fuse import one_by_one as listed_steps
from flydsl.passes.pipeline import PassSpec

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SIZES = {"vector_add": (1001,), "predicated_add": (37, 129), "tiled_copy": (96, 64), "tiled_mma": (64, 32, 24)}
EXTRA = {"plain": (), "cleaned": ("canonicalize", "cse"), "cse-first": ("cse", "canonicalize", "canonicalize")}
ON_VALUES = ("fly-convert-atom-call-to-ssa-form", "fly-promote-regmem-to-vectorssa")


@pytest.fixture
def one_by_one(monkeypatch):
    """Run the backend's passes as they are listed; gives the names of those that ran."""
    ran: list[str] = []

    def listed(specs, watched):
        ran.extend(spec.name for spec in specs)
        return listed_steps(specs)

    monkeypatch.setattr(driver, "plan", listed)
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    flyc.invalidate_all()
    return ran


def load_example(name, tag):
    spec = importlib.util.spec_from_file_location(f"unfused_{name}_{tag.replace('-', '_')}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("name", SIZES)
def test_examples(name, extra, one_by_one, monkeypatch):
    def more(specs, watched):
        found = []
        for spec in specs:
            found.append(spec)
            if spec.name in ("fly-layout-lowering", *ON_VALUES):
                found += [PassSpec(name) for name in EXTRA[extra]]
        one_by_one.extend(spec.name for spec in found)
        return listed_steps(found)

    monkeypatch.setattr(driver, "plan", more)
    module = load_example(name, extra)
    args, out, expected = module.make_args(*SIZES[name], np.random.default_rng(3))
    getattr(module, name)(*args)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    assert {"fly-layout-lowering", *ON_VALUES, *EXTRA[extra]} <= set(one_by_one)


# --- register tensors as values -----------------------------------------------------------------------------------


@flyc.kernel
def moving_kernel(a: fx.Tensor, b: fx.Tensor, n: fx.Constexpr[int], rounds: fx.Int32):
    """Registers that a run-time loop and an if change, a predicate, and a copy between registers."""
    each = fx.make_layout((1, n, 8), (1, 1, n))
    mine, out = (fx.make_view(fx.get_iter(x), each)[None, None, fx.thread_idx.x] for x in (a, b))
    atom = fx.make_copy_atom(fx.UniversalCopy(32), fx.Float32)
    held, other = fx.make_fragment_like(mine), fx.make_fragment_like(mine)
    where = fx.make_fragment_like(mine, dtype=fx.Boolean)
    for i in fx.range_constexpr(n):
        where[0, i] = (fx.thread_idx.x + i) % 3 != 0
    held.fill(-1.0)
    fx.copy(atom, mine, held, pred=where)
    for i in range(rounds):
        held.store(held.load() * 2.0)
        if i % 2 == 1:
            held.store(held.load() + 1.0)
    fx.copy(atom, held, other)
    fx.copy(atom, other, out)


@flyc.jit
def moving(a: fx.Tensor, b: fx.Tensor, n: fx.Constexpr[int], rounds: fx.Int32):
    moving_kernel(a, b, n, rounds).launch(grid=1, block=8)


@pytest.mark.parametrize("n", [1, 3, 4])
def test_registers_that_change(n, one_by_one):
    rng = np.random.default_rng(n)
    for rounds in (0, 1, 5):
        a = rng.standard_normal(8 * n).astype(np.float32)
        b = np.full_like(a, np.nan)
        moving(a, b, n, rounds)
        thread, index = np.divmod(np.arange(a.size), n)
        expected = np.where((thread + index) % 3 != 0, a, np.float32(-1))
        for i in range(rounds):
            expected = expected * 2
            if i % 2 == 1:
                expected = expected + 1
        np.testing.assert_array_equal(b, expected)
    assert set(ON_VALUES) <= set(one_by_one)


# --- kernels ------------------------------------------------------------------------------------------------------


def gemm(function, dtype, m, n, k, rng):
    a, b = ((rng.integers(-4, 5, size) / 4).astype(dtype) for size in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float32)
    function(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)


@pytest.mark.parametrize(
    ("module", "arch"),
    [("gemm_cdna", "gfx942"), ("gemm_wmma", "gfx1100"), ("gemm_sm80", "sm_80")],
)
def test_matrix_products(module, arch, one_by_one, monkeypatch):
    """Buffer copies with state, matrix instructions, swizzled shared memory, registers carried by a loop."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    function = getattr(importlib.import_module(f"flydsl.kernels.{module}"), module)
    gemm(function, np.float16, 128, 128 if module == "gemm_sm80" else 70, 64, np.random.default_rng(5))
    assert set(ON_VALUES) <= set(one_by_one)


def test_rows(one_by_one, monkeypatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    rows = importlib.import_module("flydsl.kernels.rows")
    rng = np.random.default_rng(7)
    x = rng.standard_normal((5, 333)).astype(np.float32)
    out = np.full_like(x, np.nan)
    rows.softmax(x, out)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=2e-5, atol=1e-7)
    assert set(ON_VALUES) <= set(one_by_one)


@pytest.mark.parametrize("name", SIZES)
def test_same_memory_instructions(name, monkeypatch):
    """For gfx942 both ways load and store the same, and neither uses scratch memory."""
    found = []
    for fused in (True, False):
        if not fused:
            monkeypatch.setattr(driver, "wanted", lambda: True)
        module = load_example(name, f"amd-{fused}")
        args, _, _ = module.make_args(*SIZES[name], np.random.default_rng(3))
        artifact = flyc.compile(getattr(module, name), *args, target="rocm:gfx942").artifact
        assert artifact.kernels[0]["scratch"] == 0 and artifact.kernels[0]["spills"] == 0
        words = [line.split()[0] for line in artifact.asm.splitlines() if line.startswith("\t") and line.split()]
        found.append(
            sorted(w for w in words if w.startswith(("global_", "flat_", "buffer_", "ds_", "v_mfma", "s_load")))
        )
    assert found[0] == found[1]
