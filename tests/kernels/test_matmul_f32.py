"""Products of float32 by FMA: every form of operands, tile and epilogue against float64, and what the plan chooses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels import matmul
from flydsl.kernels.matmul.arrays import describe
from flydsl.kernels.matmul.calls import Target
from flydsl.kernels.matmul.request import check
from flydsl.kernels.matmul.simt.calls import on_simt, problem_of
from flydsl.kernels.matmul.simt.kernel import simt
from flydsl.kernels.matmul.simt.plan import Problem, best, candidates, tiles
from flydsl.kernels.matmul.simt.tile import (
    ACROSS,
    ALONG,
    DEEP,
    HIGH,
    QUAD,
    SINGLE,
    WIDE,
    Form,
    Tile,
    copies,
    first_copy,
    lane_places,
    pitch,
    shared_bytes,
    unit_of,
)
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx

from .matmul_checks import bound, poisoned

FORMS = (DEEP, ALONG, ACROSS, SINGLE)
SHARED = 227 << 10


def random(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    """Values of a large range along the rows."""
    scale = np.exp2(rng.integers(-6, 7, (*shape[:-1], 1)))
    return torch.from_numpy(rng.standard_normal(shape) * scale).float()


def laid(x: torch.Tensor, form: str) -> torch.Tensor:
    """(rows, k) in memory that has NaN around it, as the form wants it: units, or rows that start anywhere."""
    if form in (ALONG, SINGLE):
        return laid(x.mT, {ALONG: DEEP, SINGLE: ACROSS}[form]).mT
    *batch, rows, k = x.shape
    around = torch.full((*batch, rows, -(-k // QUAD) * QUAD + (QUAD if form == DEEP else 1)), float("nan"))
    around[..., :k] = x
    return around[..., :k]


def product(
    x: torch.Tensor,
    y: torch.Tensor,
    tile: Tile,
    forms: tuple[str, str],
    slices: int = 1,
    group: int = 2,
    sharers: int = 1,
):
    """The kernel by itself."""
    (m, k), n = x.shape, y.shape[0]
    a, b = laid(x, forms[0]), laid(y, forms[1])
    c, around = poisoned((1, m, n), torch.float32, "cpu")
    units = -(-m // tile.m) * -(-n // tile.n)
    work = torch.full((units * slices * tile.size,), float("nan")) if slices > 1 else None
    counters = torch.zeros(units, dtype=torch.int32) if slices > 1 else None
    form = Form(*forms, forms[1] != DEEP and n % QUAD == 0, split=slices > 1, sharers=sharers)
    simt(
        a, b, c[0], None, None, None, work, counters, m, n, k, 1, *a.stride(), 0, *b.stride(), 0, *c.stride()[1:], 0,
        group, slices, tile, form,
    )  # fmt: skip
    assert torch.isnan(around[..., n:]).all()
    assert counters is None or not counters.any()
    return c[0]


@pytest.mark.covering
@pytest.mark.parametrize("x", FORMS)
@pytest.mark.parametrize("y", FORMS)
def test_forms(x: str, y: str, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """In checked mode: nothing is read that nobody wrote or that is on its way, and what is not there would be NaN."""
    emulate("sm_80")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    for m, n, k in ((37, 70, 45), (5, 132, 17)):
        a, b = random(rng, m, k), random(rng, n, k)
        bound(product(a, b, Tile(1, 1, stages=3), (x, y)), a, b.T)


TILES = [
    (Tile(2, 1, 8, 8, stages=4), 1), (Tile(1, 2, 2, 8), 1), (Tile(1, 2, 1, 4, stages=6), 3), (Tile(2, 2, 4, 8), 2),
    (Tile(1, 1, 16, 8, 8), 2), (Tile(1, 4, 4, 8, stages=3), 5),
]  # fmt: skip


@pytest.mark.parametrize(("tile", "slices"), TILES, ids=lambda x: f"{x.m}x{x.n}" if isinstance(x, Tile) else str(x))
def test_tiles(tile: Tile, slices: int, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Several tiles either way, walked in groups, and slices of which the last has less or nothing to do."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    m, n, k = 2 * tile.m + 3, tile.n + 9, 4 * tile.depth + 5
    a, b = random(rng, m, k), random(rng, n, k)
    forms = ((DEEP, ALONG), (ALONG, ACROSS), (SINGLE, DEEP))[TILES.index((tile, slices)) % 3]
    most = min(2, slices, tile.rows * tile.columns // QUAD)
    first, second = (product(a, b, tile, forms, slices, g, s) for g, s in ((2, 1), (1, most)))
    bound(first, a, b.T)
    assert torch.equal(first, second)


def in_order(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    """A B^T by FMA in the order of K: extended precision holds each product, and sums with bits to spare."""
    total = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for x, y in zip(a.T.numpy().astype(np.longdouble), b.T.numpy().astype(np.longdouble), strict=True):
        total = (total.astype(np.longdouble) + np.multiply.outer(x, y)).astype(np.float32)
    return total


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs 64 bits of a mantissa")
def test_sums_are_fma_in_the_order_of_k(rng: np.random.Generator, emulate):
    """The same bits whatever the tile and the form."""
    emulate("sm_90a")
    a, b = random(rng, 21, 53), random(rng, 40, 53)
    want = in_order(a, b)
    for tile, forms in ((Tile(1, 1), (DEEP, DEEP)), (Tile(1, 2, 2, 8), (ALONG, SINGLE))):
        assert np.array_equal(product(a, b, tile, forms).numpy(), want)
    assert np.array_equal(matmul(a, b.T, batch_invariant=True).numpy(), want)


def view(rng: np.random.Generator, x: torch.Tensor) -> torch.Tensor:
    """The same matrix in one of many places: either direction in one piece or none, aligned or not, with gaps."""
    how = int(rng.integers(6))
    if how < 4:
        return laid(x, FORMS[how])
    if how == 4:
        wide = torch.full((*x.shape[:-1], 2 * x.shape[-1]), float("nan"))
        wide[..., ::2] = x
        return wide[..., ::2]
    one = torch.full((x.numel() + 1,), float("nan"))  # in one piece, and not at a multiple of 16 bytes
    one[1:] = x.reshape(-1)
    return one[1:].view(x.shape)


ACTIVATIONS = {
    None: lambda x: x, "relu": torch.relu, "silu": torch.nn.functional.silu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}  # fmt: skip


def any_product(rng: np.random.Generator, most: int, device: str) -> None:
    """A product of anything with anything, judged element by element; twice, with the same bits."""
    batches, (m, n, k) = int(rng.integers(1, 4)), (int(most ** rng.uniform(0, 1)) for _ in range(3))
    a, b = random(rng, batches, m, k), random(rng, batches, n, k).mT
    if batches == 1 and rng.integers(2):
        a, b = a[0], b[0]
    else:
        # Either operand may be the same for all batches, in one piece of memory or by a stride of 0.
        kind = int(rng.integers(4))
        a = a[0] if kind == 1 else a
        b = b[:1].expand(batches, k, n) if kind == 2 else b
    a, b = ((x if 0 in x.stride() else view(rng, x)).to(device) for x in (a, b))
    shape = (batches, m, n) if a.ndim == 3 or b.ndim == 3 else (m, n)
    out_dtype = [torch.float32, torch.float32, torch.float16, torch.bfloat16][int(rng.integers(4))]
    more, factor, bias = {}, torch.ones((), device=device).double(), torch.zeros((), device=device).double()
    for name, count, axis in (("scale_a", m, -2), ("scale_b", n, -1)):
        scale = torch.from_numpy(rng.random(count if rng.integers(2) else 1) + 0.5).float().to(device)
        if rng.integers(3) == 0:
            more[name] = scale
            factor = factor * scale.double().reshape([-1, 1] if axis == -2 else [-1])
    if rng.integers(2):
        more["bias"] = torch.from_numpy(rng.standard_normal(n)).float().to(device)
        bias = more["bias"].double()
    activation = [None, None, "relu", "silu", "gelu_tanh"][int(rng.integers(5))]
    results = []
    for _ in range(2):
        layout = [None, None, "rows", "columns", "gaps"][int(rng.integers(5))]
        out = None
        if layout is not None:
            whole = torch.full((*shape[:-2], *(shape[-2:] if layout != "columns" else shape[:-3:-1])), float("nan"))
            whole = torch.stack([whole] * 2, -1).flatten(-2) if layout == "gaps" else whole
            out = (whole.mT if layout == "columns" else whole[..., ::2] if layout == "gaps" else whole).to(out_dtype)
            out = out.to(device)
        found = matmul(a, b, out=out, activation=activation, out_dtype=out_dtype, batch_invariant=True, **more)
        assert out is None or found is out
        results.append(found)
    free = matmul(a, b, activation=activation, out_dtype=out_dtype, **more)
    x, y = a.double(), b.double()
    want = ACTIVATIONS[activation](x @ y * factor + bias)
    # The sizes of all that is added up: a bias that takes a sum to nothing takes nothing from what may be lost.
    terms = x.abs() @ y.abs() * factor + bias.abs()
    rounding = {torch.float32: 2.0**-23, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}[out_dtype]
    # Activations are approximated with an error of their own; they are no steeper than 1.13.
    allowed = rounding * want.abs() * 1.01 + (k + 8) * 2.0**-23 * terms * 1.2 + 2.0**-24
    allowed = allowed + (0.0 if activation in (None, "relu") else 2.0**-20 * want.abs() + 2.0**-20)
    fits = want.abs() < torch.finfo(out_dtype).max
    for got in (*results, free):
        wrong = ((got.double() - want).abs() > allowed) & fits
        assert not wrong.any() and not torch.isnan(got).any(), (a.shape, a.stride(), b.shape, b.stride(), more.keys())
    assert torch.equal(*results)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_any_product(arch: str, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate(arch)
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    for _ in range(4):
        any_product(rng, 150, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_more_products(seed: int, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate(["sm_90a", "sm_80"][seed % 2])
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    rng = np.random.default_rng(seed)
    for _ in range(10):
        any_product(rng, 300, "cpu")


def test_scales_are_multiplied_in_one_order(rng: np.random.Generator, emulate):
    """Whichever operand is turned for a number of rows, and for a result whose columns are in one piece."""
    emulate("sm_90a")
    a, b, rows, columns = random(rng, 40, 24), random(rng, 24, 3), torch.rand(40) + 0.5, torch.rand(3) + 0.5
    more = {"scale_b": columns, "batch_invariant": True}
    whole = matmul(a, b, scale_a=rows, **more)
    assert torch.equal(matmul(a[:3], b, scale_a=rows[:3], **more), whole[:3])
    assert torch.equal(matmul(a[:3], b, scale_a=rows[:3], out=torch.zeros(3, 3).T, **more), whole[:3])


def test_nan_and_infinity_are_carried(rng: np.random.Generator, emulate):
    """Also next to places that are filled up with zeros."""
    emulate("sm_90a")
    for m in (70, 3):
        a, b = random(rng, m, 37), random(rng, 37, 41)
        a[2, 36], a[1, 0], b[36, 20] = float("nan"), float("inf"), float("-inf")
        for right in (b, b.T.contiguous().T):
            c, want = matmul(a, right), a.double() @ b.double()
            assert torch.equal(torch.isnan(c), torch.isnan(want))
            assert torch.equal(c[torch.isinf(want)].double(), want[torch.isinf(want)])


@pytest.mark.parametrize("shape", [(3, 4, 0), (1, 64, 8), (64, 1, 8), (5, 7, 1), (1, 1, 1), (1, 5, 40), (40, 3, 1)])
def test_small_extents(shape: tuple[int, int, int], rng: np.random.Generator, emulate):
    emulate("sm_90a")
    m, n, k = shape
    a, b, bias = random(rng, m, k), random(rng, k, n), random(rng, n)
    for left, right in itertools.product((a, a.T.contiguous().T), (b, b.T.contiguous().T)):
        bound(matmul(left, right, bias=bias), a, b, after=lambda x: x + bias.double())


def test_a_scale_of_the_result(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    a, b, scale = random(rng, 9, 40) / 64, random(rng, 40, 20), torch.tensor([3.0])
    c = matmul(a, b, scale_out=scale, out_dtype=torch.float8_e4m3fn)
    want = (a.double() @ b.double() / 3.0).clamp(-448, 448)
    assert ((c.double() - want).abs() <= want.abs() * 2.0**-4 + 2.0**-10).all()


def test_which_requests_it_takes(emulate):
    """All of float32, but where fewer bits were asked for and an instruction has them, and scales of blocks."""
    x, y = torch.zeros(8, 16), torch.zeros(16, 24)

    def taken(arch: str, a=x, b=y, **more: object) -> bool:
        emulate(arch)
        scales = [None if s is None else describe("scale", s) for s in (more.get("scale_a"), more.get("scale_b"))]
        request = check(describe("a", a), describe("b", b), None, *scales, None, None, "f32")
        target = Target(flyc.get_backend().target, 132)
        return on_simt(request, describe("out", torch.zeros(len(a), b.shape[1])), target) is not None

    assert taken("sm_90a") and taken("sm_80") and taken("sm_100a")
    assert not taken("gfx942") and not taken("native") and not taken("sm_90a", x.half(), y.half())
    # Two of 128, which are no scales of rows.
    a, b = torch.zeros(8, 256), torch.zeros(256, 24)
    assert not taken("sm_90a", a, b, scale_a=torch.zeros(8, 2), scale_b=torch.zeros(2, 1))


# --- where things lie -------------------------------------------------------------------------------------------------


def every_tile() -> set[Tile]:
    return {tile for x, y in itertools.product(FORMS, FORMS) for tile in tiles(x, y, SHARED)}


def test_copies_make_a_stage():
    """Every element of a stage is copied once, by every tile there is, in either operand."""
    for tile, form in itertools.product({t._replace(fits=1) for t in every_tile()}, FORMS):
        for many in (tile.m, tile.n):
            units = many * tile.depth // unit_of(form)
            seen: list[tuple[int, int]] = []
            for i, (row, at) in enumerate(copies(form, many, tile)):
                for tid in range(tile.threads):
                    if i * tile.threads + tid < units:
                        first = first_copy(form, many, tile.depth, tid)
                        seen.append((first[0] + row, first[1] + at))
            assert len(seen) == len(set(seen)) == units, (tile, form, many)
            assert all(row < many and at < tile.depth for row, at in seen), (tile, form, many)


def banks(places: list[int], words: int) -> int:
    """How often shared memory is asked, for reads or writes of so many words by lanes that it serves together."""
    asked = {place // words for place in places}
    lines: dict[int, int] = {}
    for unit in asked:
        lines[unit % (32 // words)] = lines.get(unit % (32 // words), 0) + 1
    return max(lines.values())


def test_lanes_meet_in_no_bank():
    """Reads of 16 bytes are served for eight lanes at once, or for sixteen whose neighbours want the same."""
    for form, (lanes, axis, each) in itertools.product(FORMS, ((HIGH, 0, 8), (HIGH, 0, 4), (WIDE, 1, 8))):
        line = pitch(form, lanes * each, 16)
        for half in (0, 16):
            rows = [lane_places(lane)[axis] for lane in range(half, half + 16)]
            places = [row * line for row in rows] if form == DEEP else [row * QUAD for row in rows]
            assert banks(places, QUAD) == 1, (form, lanes)
            # Neighbours, or every other one, want the same.
            assert any(all(rows[i] == rows[i ^ step] for i in range(16)) for step in (1, 2))


def test_elements_are_written_to_all_banks():
    for many in (8, 16, 32, 64, 128, 256):
        line = pitch(ACROSS, many, 16)
        places = [at * line + row for row, at in (first_copy(ACROSS, many, 16, tid) for tid in range(32))]
        assert banks(places, 1) == 1, many


def test_plans():
    """Tiles fit, no multiprocessor is left without work where there is some, and one row has no tile of many."""
    for m, n, k in (
        (1, 8192, 8192),
        (512, 512, 16384),
        (4096, 4096, 4096),
        (300, 70, 9000),
        (20000, 20000, 1),
        (5, 5, 0),
    ):
        for x, y in ((DEEP, DEEP), (ALONG, ALONG), (ACROSS, SINGLE)):
            given = Problem(m, n, k, 1, x, y, 4, 132, SHARED)
            for plan in candidates(given):
                tile = plan.tile
                assert tile.fits * (shared_bytes(tile, Form(x, y)) + 1024) <= SHARED + 1024
                assert plan.slices == 1 or (tile.shares and plan.slices * tile.depth * 4 <= k + tile.depth)
                assert 1 <= plan.group <= -(-m // tile.m)
            chosen = best(given)
            blocks = -(-m // chosen.tile.m) * -(-n // chosen.tile.n) * chosen.slices
            assert blocks >= 100 or k < 64 or m * n < 100
            assert m > 1 or chosen.tile.m <= 4
            assert best(given, invariant=True).slices == 1
    few, many = (best(Problem(512, 512, 4096, 1, DEEP, DEEP, 4, p, SHARED)) for p in (8, 132))
    assert few.slices < many.slices


def test_narrow_results_are_turned(emulate):
    """Few columns are the rows of a tile; so are columns that lie in one piece."""
    emulate("sm_90a")
    target = Target(flyc.get_backend().target, 132)
    for a, b, out, turned in (
        (torch.zeros(500, 64), torch.zeros(64, 3), torch.zeros(500, 3), True),
        (torch.zeros(500, 64), torch.zeros(64, 300), torch.zeros(500, 300), False),
        (torch.zeros(500, 64), torch.zeros(64, 300), torch.zeros(300, 500).T, True),
        (torch.zeros(3, 64), torch.zeros(64, 3), torch.zeros(3, 3), False),
    ):
        request = check(describe("a", a), describe("b", b), None, None, None, None, None, "f32")
        given = problem_of(request, describe("out", out), target)
        extents = (a.shape[0], b.shape[1])
        assert (given.m, given.n) == (extents[::-1] if turned else extents)


COMPILED = sorted({t[:5] for t in every_tile()})


@pytest.mark.skipif(tools.try_find_tool("ptxas") is None, reason="needs ptxas")
@pytest.mark.covering
@pytest.mark.parametrize("shape", COMPILED, ids=str)
@pytest.mark.parametrize("forms", [(DEEP, DEEP), (DEEP, ALONG), (ALONG, ALONG), (ACROSS, SINGLE)], ids="/".join)
def test_nothing_spills(shape: tuple[int, ...], forms: tuple[str, str]):
    """With as many blocks on a multiprocessor as the plan counts on; all that a step does is beside its products."""
    found = max((t for t in tiles(*forms, SHARED) if t[:5] == shape), key=lambda t: t.fits)
    x, counters = torch.zeros(256, 256), torch.zeros(4, dtype=torch.int32)
    sharers = min(4, found.rows * found.columns // QUAD) if found.shares else 1
    form = Form(*forms, forms[1] != DEEP, "none", "columns", "rows", "rows", found.shares, sharers, overlap=True)
    one = torch.zeros(256)
    artifact = flyc.compile(
        simt, x, x, x, one, one, one, x, counters, *([256] * 3), 1, *([256, 256, 0] * 2), 256, 1, 0, 8, 2, found, form,
        target="cuda:sm_90a",
    ).artifact  # fmt: skip
    _, log = ptx.assemble(artifact.binary("ptx").decode())
    (used,) = ptx.parse_log(log).values()
    assert used.spill_stores == used.spill_loads == 0
    assert artifact.asm.count("fma.rn.f32") == found.rows * found.columns * found.depth
    reads = sum(
        each if form == DEEP else -(-each // QUAD) * QUAD
        for each, form in ((found.rows, forms[0]), (found.columns, forms[1]))
    )
    assert artifact.asm.count("ld.shared.v") == (found.depth // QUAD) * reads - (
        found.depth if found.rows == 1 and forms[0] != DEEP else 0
    )


@pytest.mark.cuda
def test_any_product_on_a_gpu(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    for _ in range(40):
        any_product(rng, 2000, "cuda")


@pytest.mark.cuda
@pytest.mark.parametrize(
    "shape", [(512, 512, 16384), (1024, 1024, 1024), (16, 8192, 8192), (1, 4096, 4096), (48, 5, 9000)]
)
def test_slices_on_a_gpu(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch):
    """The same bits in every run and in graphs."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    m, n, k = shape
    for a, b in itertools.product(
        (torch.randn(m, k, device="cuda"), torch.randn(k, m, device="cuda").T),
        (torch.randn(k, n, device="cuda"), torch.randn(n, k, device="cuda").T),
    ):
        results = [matmul(a, b) for _ in range(3)]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results.append(matmul(a, b))
        graph.replay()
        bound(results[0], a, b)
        assert all(torch.equal(results[0], x) for x in results[1:])


@pytest.mark.cuda
def test_rows_do_not_depend_on_others_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    a, b = torch.randn(1000, 4096, device="cuda"), torch.randn(1024, 4096, device="cuda")
    for right in (b.T, b.T.contiguous()):
        whole = matmul(a, right, batch_invariant=True)
        for m in (1, 16, 100):
            assert torch.equal(matmul(a[:m], right, batch_invariant=True), whole[:m])
