"""`matmul`: every stack, layout and type against float64, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.autotune import shipped
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import grouped_matmul, matmul
from flydsl.kernels.matmul import calls
from flydsl.kernels.matmul.arrays import describe
from flydsl.kernels.matmul.calls import Target, decide
from flydsl.kernels.matmul.entry import target_of
from flydsl.kernels.matmul.few.thin import Thin
from flydsl.kernels.matmul.few.thin_kernel import thin_matmul
from flydsl.kernels.matmul.few.thin_shares import thin_shares_matmul
from flydsl.kernels.matmul.plan import Problem, best, candidates
from flydsl.kernels.matmul.request import check
from flydsl.kernels.matmul.tile import limits, problem

from .matmul_checks import bound, decide_anew, matrix, poisoned


def random(rng: np.random.Generator, *shape: int, dtype=torch.bfloat16) -> torch.Tensor:
    return torch.from_numpy(rng.standard_normal(shape)).to(dtype)


def laid(t: torch.Tensor, how: str) -> torch.Tensor:
    """The same matrix in another place: rows in one piece, columns in one piece, or every second element."""
    if how == "rows":
        return t.contiguous()
    if how == "columns":
        return t.mT.contiguous().mT
    wide = torch.full((*t.shape[:-1], 2 * t.shape[-1]), float("nan"), dtype=t.dtype)
    wide[..., ::2] = t
    return wide[..., ::2]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80", "gfx942", "gfx1201", "native"])
def test_every_stack(arch: str, rng: np.random.Generator, emulate):
    emulate(arch)
    for m, n, k in ((70, 40, 72), (33, 17, 5), (1, 1, 1)):
        a, b = random(rng, m, k), random(rng, n, k).T
        bound(matmul(a, b), a, b)


@pytest.mark.covering
@pytest.mark.parametrize("left", ["rows", "columns", "steps"])
@pytest.mark.parametrize("right", ["rows", "columns"])
def test_layouts(left: str, right: str, rng: np.random.Generator, emulate):
    emulate("sm_90a")
    for m, n, k in ((24, 72, 136), (9, 31, 50)):
        a, b = laid(random(rng, m, k), left), laid(random(rng, k, n), right)
        bound(matmul(a, b), a, b)
        out = torch.full((n, m), float("nan"), dtype=torch.float32).T
        assert matmul(a, b, out=out, out_dtype="float32") is out
        bound(out, a, b)


def test_batches(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    a, b = random(rng, 3, 40, 64, dtype=torch.float16), random(rng, 3, 64, 24, dtype=torch.float16)
    bound(matmul(a, b), a, b)
    bound(matmul(a, b[1]), a, b[1])
    bound(matmul(a[2], b, out_dtype=torch.float32), a[2], b)


def test_numpy(rng: np.random.Generator, emulate):
    emulate("native")
    a, b = rng.standard_normal((7, 5)).astype("f4"), rng.standard_normal((5, 3)).astype("f4")
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-5, atol=1e-5)
    bias = rng.standard_normal(6).astype("f4")[::2]
    np.testing.assert_allclose(matmul(a[::2], b, bias=bias), a[::2] @ b + bias, rtol=1e-5, atol=1e-5)
    with pytest.raises(DSLValueError, match="a has a negative stride"):
        matmul(a[::-1], b)
    half = matmul(a.astype("f2"), b.astype("f2"), out_dtype=np.float32)
    np.testing.assert_allclose(half, a.astype("f2").astype("f8") @ b.astype("f2").astype("f8"), rtol=1e-3, atol=1e-3)


def rows_that_do_not_depend_on_others(rng: np.random.Generator, n: int, k: int, counts, device: str) -> None:
    a, b = (random(rng, *shape).to(device) for shape in ((max(counts), k), (n, k)))
    whole = matmul(a, b.T, batch_invariant=True)
    for m in counts:
        assert torch.equal(matmul(a[:m], b.T, batch_invariant=True), whole[:m]), m
    bound(whole, a, b.T)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80", "gfx942", "native"])
def test_rows_do_not_depend_on_others(arch: str, rng: np.random.Generator, emulate):
    emulate(arch)
    rows_that_do_not_depend_on_others(rng, 40, 2048 if arch == "sm_90a" else 136, (1, 7, 70), "cpu")


@pytest.mark.cuda
def test_rows_do_not_depend_on_others_on_the_gpu(rng: np.random.Generator):
    rows_that_do_not_depend_on_others(rng, 1024, 8192, (1, 16, 100, 1000), "cuda")


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 64, 8), (64, 1, 8), (5, 7, 1)])
def test_small_extents(shape: tuple[int, int, int], rng: np.random.Generator, emulate):
    emulate("sm_90a")
    m, n, k = shape
    a, b, bias = random(rng, m, k), random(rng, k, n), random(rng, n, dtype=torch.float32)
    bound(matmul(a, b, bias=bias), a, b, after=lambda x: x + bias.double())


@pytest.mark.covering
@pytest.mark.parametrize("m", [70, 3])
@pytest.mark.parametrize("arch", ["sm_90a", "native"])
def test_epilogue(arch: str, m: int, rng: np.random.Generator, emulate):
    emulate(arch)
    a, b, bias = random(rng, m, 72), random(rng, 72, 40), random(rng, 40)
    scale_a, scale_b = (random(rng, x, dtype=torch.float32).abs() + 0.5 for x in (m, 1))
    c = matmul(a, b, bias=bias, activation="gelu_tanh", scale_a=scale_a, scale_b=scale_b, out_dtype=torch.float32)
    want = (a.double() @ b.double()) * scale_a.double()[:, None] * scale_b.double() + bias.double()
    want = torch.nn.functional.gelu(want, approximate="tanh")
    torch.testing.assert_close(c.double(), want, rtol=1e-4, atol=1e-4)


def test_nan_and_infinity_are_carried(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    a, b = random(rng, 70, 72), random(rng, 72, 40)
    a[3, 5], a[11, 0], b[7, 20] = float("nan"), float("inf"), float("-inf")
    c, want = matmul(a, b, out_dtype="float32"), a.double() @ b.double()
    assert torch.equal(torch.isnan(c), torch.isnan(want))
    assert torch.equal(c[torch.isinf(want)].double(), want[torch.isinf(want)])


FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.covering
@pytest.mark.parametrize("arch", ["sm_90a", "native"])
@pytest.mark.parametrize("scales", ["one", "rows", "blocks"])
def test_fp8(scales: str, arch: str, rng: np.random.Generator, emulate):
    emulate(arch)
    for m, n, k in ((72, 136, 256), (5, 200, 384)):
        a = random(rng, m, k, dtype=torch.float32).to(FP8[0])
        b = random(rng, n, k, dtype=torch.float32).to(FP8[scales == "rows"]).T
        shapes = {"one": ((1,), (1,)), "rows": ((m, 1), (1, n)), "blocks": ((m, k // 128), (k // 128, -(-n // 128)))}
        scale_a, scale_b = (random(rng, *s, dtype=torch.float32).abs() + 0.5 for s in shapes[scales])
        left, right = a.double(), b.double()
        if scales == "blocks":
            left = left * scale_a.double().repeat_interleave(128, 1)
            right = right * scale_b.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:, :n]
        else:
            left, right = left * scale_a.double(), right * scale_b.double()
        # The tensor cores of Hopper keep 14 bits of the sums of some products.
        kept = 2.0**-12 if arch == "sm_90a" else 0.0
        bound(matmul(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype="float32"), left, right, sums=kept)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8], ids=str)
def test_bytes_in_columns(dtype, rng: np.random.Generator, emulate):
    """Tensor cores read bytes along k alone: others are packed first."""
    emulate("sm_90a")
    a, b = (torch.from_numpy(rng.integers(-9, 10, s).astype(np.float32)).to(dtype) for s in ((20, 70), (70, 24)))
    for left, right in ((a, b), (a.mT.contiguous().mT, b), (a[::2], b[:, ::2])):
        assert torch.equal(matmul(left, right, out_dtype="float32").double(), left.double() @ right.double())


@pytest.mark.parametrize("arch", ["sm_90a", "native"])
def test_int8_is_exact(arch: str, rng: np.random.Generator, emulate):
    emulate(arch)
    a, b = (torch.from_numpy(rng.integers(-128, 128, s).astype(np.int8)) for s in ((70, 160), (48, 160)))
    want = a.double() @ b.double().T
    assert torch.equal(matmul(a, b.T).double(), want)
    scale = random(rng, 70, dtype=torch.float32)
    scaled = matmul(a, b.T, scale_a=scale, out_dtype=torch.float32)
    torch.testing.assert_close(scaled.double(), want * scale.double()[:, None], rtol=1e-6, atol=0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "native"])
def test_int8_with_factors_of_blocks(arch: str, rng: np.random.Generator, emulate):
    """No tensor core has these: also alone and in groups, a fraction is added to fractions."""
    emulate(arch)
    a, b = (torch.from_numpy(rng.integers(-128, 128, s).astype(np.int8)) for s in ((6, 256), (130, 256)))
    scale_a, scale_b = (random(rng, *s, dtype=torch.float32) for s in ((6, 2), (2, 2)))
    left = a.double() * scale_a.double().repeat_interleave(128, 1)
    right = b.T.double() * scale_b.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:, :130]
    bound(matmul(a, b.T, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.float32), left, right)
    out = grouped_matmul(
        a, b.T[None], torch.tensor([6]), scale_a=scale_a, scale_b=scale_b[None], out_dtype=torch.float32
    )
    bound(out, left, right)


X = torch.zeros(8, 16).bfloat16()
Y = torch.zeros(16, 24).bfloat16()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((X, X), DSLValueError, "a has 16 columns and b has 8 rows"),
        ((X, [1.0]), DSLTypeError, "b is a numpy array or a torch tensor, got list"),
        ((X[0], Y), DSLValueError, "a has 2 dimensions, or more with batches"),
        ((X, Y.half()), DSLTypeError, "one type, or are both fp8, got bfloat16 and float16"),
        ((X.double(), Y.double()), DSLTypeError, "got float64"),
        ((X.expand(2, 8, 16), Y.expand(3, 16, 24)), DSLValueError, "different batches"),
        ((X, Y, {"bias": torch.zeros(8)}), DSLValueError, "a value for each of the 24 columns"),
        ((X, Y, {"activation": "tanh"}), DSLValueError, "unknown activation 'tanh'; there are none, relu"),
        ((X, Y, {"scale_a": torch.zeros(24)}), DSLValueError, "scale_a has one value, or one for each of the 8 rows"),
        ((X, Y, {"scale_b": torch.zeros(24).half()}), DSLTypeError, "scale_b is float32, got float16"),
        (
            (X, Y, {"scale_a": torch.ones(8, 2), "scale_b": torch.ones(2, 2)}),
            DSLValueError,
            "a K that is a multiple of 128, got 16",
        ),
        ((X, Y, {"out_dtype": "int8"}), DSLTypeError, "the product of bfloat16 is float16, bfloat16, float32"),
        ((X, Y, {"out": torch.zeros(8, 23).bfloat16()}), DSLValueError, r"out has the shape \[8, 24\]"),
        ((X, Y, {"out": torch.zeros(8, 24)}), DSLTypeError, "out is bfloat16, got float32"),
        ((X, Y, {"out": torch.zeros(24).bfloat16().expand(8, 24)}), DSLValueError, "on top of each other"),
        ((X, Y, {"accumulate": "f64"}), DSLValueError, "accumulate is one of f32, fast"),
        ((X, Y.to("meta")), DSLValueError, "a is on cpu and b on meta"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, error, message):
    *matrices, options = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    with pytest.raises(error, match=message):
        matmul(*matrices, **options)


def test_an_output_that_overlaps_is_refused_and_not_written(emulate):
    emulate("sm_90a")
    whole = torch.ones(64, 64).bfloat16()
    for _ in range(2):
        with pytest.raises(DSLValueError, match="out overlaps b"):
            matmul(torch.ones(32, 32).bfloat16(), whole[:32, :32], out=whole[16:48, 16:48])
        assert (whole == 1).all()


def test_there_is_a_tile_for_everything():
    """The rule finds one for any extents and layouts, and it is one there is."""
    rng = np.random.default_rng()
    for _ in range(200):
        m, n, k = (int(2 ** rng.uniform(0, 15)) for _ in range(3))
        majors = [str(x) for x in rng.choice(["k", "mn"], 2)]
        plan = best(Problem(m, n, k, int(rng.integers(1, 5)), 16, 2, *majors, bool(rng.integers(2)), 132))
        order = majors[::-1] if plan.tile.swap else majors
        assert problem(plan.tile, *order) is None
        assert plan.blocks % plan.tile.blocks == 0 and plan.blocks > 0 and plan.group > 0


def test_few_rows_have_narrow_tiles():
    """Or tiles of which only those rows are fetched that there are."""
    plan = best(Problem(16, 8192, 8192, 1, 16, 2, "k", "k", False, 132))
    rows, _ = limits(plan.tile, 16, 8192, "k", "k")
    assert plan.blocks >= 120 and (plan.tile.n <= 32 if plan.tile.swap else rows == 16)
    long = candidates(Problem(512, 512, 16384, 1, 16, 2, "k", "k", False, 132))[0]
    assert long.tile.splits * long.tile.slices > 1


def test_few_rows_as_words(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Rows of A and columns of W that end anywhere, K with a rest, and two blocks that share it, in checked mode."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    for m, n, k, thin in (
        (1, 33, 72, Thin(1, 8, 2, 2)),
        (5, 40, 264, Thin(2, 8, 2, 1)),
        (16, 50, 328, Thin(1, 16, 2, 1, 2)),
        (2, 3, 8, Thin(1, 8, 2, 2)),
    ):
        a, w = (torch.from_numpy(rng.standard_normal((x, k))).bfloat16() for x in (m, n))
        bias = torch.from_numpy(rng.standard_normal(n)).float()
        whole = torch.full((m, n + 8), float("nan"), dtype=torch.bfloat16)
        thin_matmul(a, w, whole[:, :n], bias, m, n, k, k, k, n + 8, thin, "relu", n % 4 == 0)
        want = (a.double() @ w.double().T + bias).relu()
        most = a.double().abs() @ w.double().abs().T + bias.abs()
        assert ((whole[:, :n].double() - want).abs() <= want.abs() * 2**-8 + most * 2**-22).all()
        assert torch.isnan(whole[:, n:]).all()


@pytest.mark.parametrize("wide", [0, calls.WIDE])
def test_few_rows_that_lie_beside_each_other(wide: int, rng: np.random.Generator, emulate, monkeypatch):
    """They are put along K first, for both ways that B may lie; in checked mode, with gaps that are no numbers."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setattr(calls, "WIDE", wide)
    decide_anew(monkeypatch)
    for major in ("k", "mn"):
        m, n, k = int(rng.integers(1, calls.NARROW + 1)), int(rng.integers(1, 90)), 8 * int(rng.integers(1, 20))
        dtype = [torch.bfloat16, torch.float16][int(rng.integers(2))]
        a = matrix(rng, (1, m, k), "mn", dtype, "cpu")[0]
        b = matrix(rng, (1, n, k), major, dtype, "cpu")[0].T
        out, whole = poisoned((1, m, n), dtype, "cpu")
        matmul(a, b, out=out[0])
        bound(out[0], a, b)
        assert torch.isnan(whole[..., n:]).all()
    x, y = (torch.from_numpy(rng.integers(-128, 128, shape)).to(torch.int8) for shape in ((96, 5), (40, 96)))
    assert (matmul(x.T, y.T) == x.T.int() @ y.T.int()).all()


def test_few_rows_in_equal_shares(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Shares that begin and end anywhere, of no tile, of parts of one and of several; sums are left by nobody else."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    for form in (Thin(1, 8, 2, 2), Thin(2, 8, 2, 1), Thin(1, 16, 4, 1)):
        m, n, k = int(rng.integers(1, form.tokens + 1)), int(rng.integers(1, 90)), 8 * int(rng.integers(1, 60))
        thin = form._replace(blocks=int(rng.integers(1, 12)))
        a, w = (torch.from_numpy(rng.standard_normal((x, k))).bfloat16() for x in (m, n))
        bias = torch.from_numpy(rng.standard_normal(n)).float()
        whole = torch.full((m, n + 8), float("nan"), dtype=torch.bfloat16)
        work = torch.full((2 * thin.blocks * thin.size,), float("nan"))
        counters = torch.zeros(-(-n // thin.rows), dtype=torch.int32)
        thin_shares_matmul(a, w, whole[:, :n], bias, work, counters, m, n, k, k, k, n + 8, thin, "relu", n % 4 == 0)
        want = (a.double() @ w.double().T + bias).relu()
        most = a.double().abs() @ w.double().abs().T + bias.abs()
        assert ((whole[:, :n].double() - want).abs() <= want.abs() * 2**-8 + most * 2**-22).all(), (m, n, k, thin)
        assert torch.isnan(whole[:, n:]).all() and not counters.any()


def test_decisions_name_no_shape():
    """The same request on a GPU with other multiprocessors is cut otherwise."""
    import flydsl.compiler as flyc

    target = flyc.get_backend("cpu", arch="sm_90a").target
    a, b = torch.zeros(3000, 64).bfloat16(), torch.zeros(64, 3000).bfloat16()
    request = check(describe("a", a), describe("b", b), None, None, None, None, None, "f32")
    out = describe("out", torch.zeros(3000, 3000).bfloat16())
    assert decide(request, out, Target(target, 132)) is not decide(request, out, Target(target, 16))
    few, many = (best(Problem(3000, 3000, 64, 1, 16, 2, "k", "k", False, p)) for p in (16, 132))
    assert few.blocks <= 16 < many.blocks


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_any_product_on_a_gpu(dtype, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Extents, layouts, batches and epilogues at random, whatever tile the rule finds; twice, with the same bits."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    for _ in range(30):
        m, n, k = (int(2 ** rng.uniform(0, 11)) for _ in range(3))
        batches = int(rng.integers(1, 4))
        a, b = random(rng, batches, m, k, dtype=dtype).cuda() / 8, random(rng, batches, k, n, dtype=dtype).cuda()
        if rng.integers(2):
            a = a.mT.contiguous().mT
        if rng.integers(2):
            b = b.mT.contiguous().mT
        bias = random(rng, n, dtype=torch.float32).cuda()
        out = [dtype, torch.float32][int(rng.integers(2))]
        first, second = (matmul(a, b, bias=bias, out_dtype=out) for _ in range(2))
        bound(first, a, b, after=lambda x: x + bias.double())  # noqa: B023
        assert torch.equal(first, second)


@pytest.mark.cuda
@pytest.mark.parametrize(
    "shape", [(512, 512, 16384), (1024, 1024, 8192), (16, 8192, 8192), (900, 900, 900), (48, 5120, 5120)]
)
def test_products_with_parts_of_k_on_a_gpu(shape, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    m, n, k = shape
    a, b = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda").bfloat16().T
    results = [matmul(a, b) for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results.append(matmul(a, b))
    graph.replay()
    bound(results[0], a, b)
    assert all(torch.equal(results[0], x) for x in results[1:])


@pytest.mark.cuda
def test_winners_are_found_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    """Under the name that the GPU has there."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    a = torch.empty(1, device="cuda")
    target = target_of(describe("a", a)).target
    if target.has("wgmma"):
        assert shipped.read("matmul", target.arch) is not None


@pytest.mark.cuda
@pytest.mark.parametrize("scales", ["rows", "blocks"])
def test_fp8_on_a_gpu(scales: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    for m, n, k in ((300, 520, 1024), (7, 1024, 4096)):
        a, b = (torch.randn(x, k, device="cuda").to(torch.float8_e4m3fn) for x in (m, n))
        shapes = ((m, 1), (1, n)) if scales == "rows" else ((m, k // 128), (k // 128, -(-n // 128)))
        scale_a, scale_b = (torch.rand(*s, device="cuda") + 0.5 for s in shapes)
        left, right = a.double(), b.double().T
        if scales == "blocks":
            left = left * scale_a.double().repeat_interleave(128, 1)
            right = right * scale_b.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:, :n]
        else:
            left, right = left * scale_a.double(), right * scale_b.double()
        want = left @ right
        # The tensor cores keep 14 bits of the sums of up to 512 products.
        found = matmul(a, b.T, scale_a=scale_a, scale_b=scale_b, out_dtype="float32").double()
        assert ((found - want).abs() <= 2.0**-13 * (left.abs() @ right.abs())).all()


@pytest.mark.parametrize("across", [False, True])
def test_operands_are_packed(across: bool):
    """Rows that the copy engine cannot take lie in aligned lines afterwards, which end with zeros."""
    from flydsl.kernels.matmul.pack import pack

    batches, lines, length, pitch = 2, 37, 45, 64
    source = torch.randn(batches, length, lines).transpose(1, 2) if across else torch.randn(batches, lines, length)
    around = torch.full((batches * lines + 2, pitch), float("nan"))
    target = around[1:-1].view(batches, lines, pitch)
    batch, step, inner = source.stride()
    pack(source, target, lines, length, batches, step, inner, batch, pitch, across)
    torch.testing.assert_close(target[..., :length], source, rtol=0, atol=0)
    assert (target[..., length:] == 0).all() and torch.isnan(around[[0, -1]]).all()
