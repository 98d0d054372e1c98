"""The Hopper product in every shape of tile: numbers against float64, element by element, at ragged extents."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from tests.covering import rows_of, some_of

import flydsl.compiler as flyc
from flydsl.kernels.matmul.hopper import hopper
from flydsl.kernels.matmul.tile import Form, Tile, limits, problem

from .matmul_checks import bound, decide_anew, matrix, poisoned

TILES = [
    Tile(128, 224),
    Tile(256, 64, cluster=2, shares="x"),
    Tile(64, 96, pingpong=True, cluster=2),
    Tile(192, 16, 3),
    Tile(64, 16, 1, swap=True),
    Tile(64, 32, 1, splits=2, swap=True),
    Tile(128, 64, cluster=2, shares="x", splits=2),
    Tile(64, 64, 1, cluster=2, slices=2, swap=True),
    Tile(64, 64, 1, cluster=2, shares="x", slices=4, together=True),
    Tile(128, 96, slices=3, together=True, tail=True),
    Tile(64, 64, 1, slices=2, together=True, tail=True, swap=True),
    Tile(64, 208, 1),
    Tile(64, 40, 1, fits=3),
    Tile(64, 88, 1, swap=True),
    Tile(64, 48, 1, cluster=4, shares="xy"),
    # Each of what these have is in one of those above.
    Tile(64, 64, 1, cluster=4, shares="xy", splits=2, swap=True),
    Tile(64, 72, 1, slices=5, together=True),
    Tile(256, 160),
    Tile(192, 192, 3),
    Tile(64, 48, 1, cluster=8, shares="xy", swap=True),
    Tile(128, 160, pingpong=True),
    Tile(128, 64, pingpong=True),
    Tile(128, 160, swap=True),
    Tile(128, 64, splits=4),
    Tile(64, 64, 1, cluster=2, splits=4),
    Tile(128, 64, slices=3),
]

E4 = torch.float8_e4m3fn
FP8_SUMS = 2.0**-10
"""What Hopper's sums of fp8 products lose: each of 33 terms is cut at 2**-13 of the largest, which is several times
their mean; half a unit each, of either sign, can be more than 2**-12 of all of them."""


def product(
    m: int,
    n: int,
    k: int,
    tile: Tile,
    form: Form,
    dtype,
    out,
    rng,
    device,
    *,
    batches=1,
    bias=None,
    scales=(None, None),
):
    """C of the tile's kernel and what it should be; matrices lie as the form says, in rows of 16-byte units."""
    rows, columns = (n, m) if tile.swap else (m, n)
    x = matrix(rng, (batches, rows, k), form.x_major, dtype, device)
    y = matrix(rng, (batches, columns, k), form.y_major, dtype, device)
    c, whole = poisoned((batches, m, n), out, device)
    once = -(-rows // (tile.m * tile.high)) * -(-columns // (tile.n * tile.wide)) * batches
    clusters = once * tile.slices
    # Of four tiles one or three are left over.
    wanted = 3 if tile.tail else clusters if tile.splits * tile.slices > 1 else 2
    blocks = tile.blocks * min(wanted, clusters)
    work = counters = None
    if tile.slices > 1:
        work = torch.full((clusters * tile.cluster * tile.m * tile.n,), float("nan"), device=device)
        counters = torch.zeros(clusters * tile.blocks * tile.consumers, dtype=torch.int32, device=device)
    steps = [t.stride(1) if major == "k" else t.stride(2) for t, major in ((x, form.x_major), (y, form.y_major))]
    hopper(
        x, y, c, bias, *scales, work, counters, rows, columns, k, batches, steps[0], x.stride(0), steps[1],
        y.stride(0), c.stride(1), c.stride(0), blocks, 2, tile, form,
    )  # fmt: skip
    assert counters is None or not counters.any()
    a, b = (y, x) if tile.swap else (x, y)
    return c, whole, a, b.transpose(1, 2)


@pytest.mark.parametrize("tile", some_of(TILES, 17), ids=str)
def test_tiles(tile: Tile, rng: np.random.Generator, device: str):
    assert problem(tile) is None
    m, n = (tile.n + 9, tile.m + 8) if tile.swap else (tile.m + 9, tile.n + 8)
    edge = "elements" if tile.swap else "pairs"
    form = Form("k", "k", edge if tile.by_threads else "engine", edge=edge)
    c, whole, a, b = product(m, n, 200, tile, form, torch.bfloat16, torch.bfloat16, rng, device)
    bound(c, a, b)
    assert torch.isnan(whole[..., n:]).all()


@pytest.mark.parametrize(
    ("m", "tile", "rows"),
    [
        (33, Tile(64, 32, 1), (40, 0)),
        (17, Tile(64, 32, 1, swap=True), (0, 24)),
        (100, Tile(128, 32, cluster=2, shares="x"), (112, 0)),
    ],
    ids=str,
)
def test_rows_that_are_not_there_are_not_fetched(m: int, tile: Tile, rows, rng: np.random.Generator, device: str):
    """They are multiplied all the same: not what another launch left in shared memory."""
    assert limits(tile, *((72, m) if tile.swap else (m, 72)), "k", "k") == rows
    form = Form("k", "k", "engine", rows_x=rows[0], rows_y=rows[1])
    for k in (72, 1600):
        c, whole, a, b = product(m, 72, k, tile, form, torch.bfloat16, torch.bfloat16, rng, device)
        bound(c, a, b)
        assert torch.isnan(whole[..., 72:]).all()


def test_rows_that_are_not_fetched_are_zeros(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """In every stage that a block's tiles come to: checked mode tells of reads of what nobody wrote."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    c, _, a, b = product(
        33, 72, 72, Tile(64, 16, 1), Form("k", "k", "engine", rows_x=40), torch.bfloat16, torch.bfloat16, rng, "cpu"
    )
    bound(c, a, b)


@pytest.mark.parametrize("tile", [Tile(64, 48, 1, swap=True), Tile(128, 104, swap=True), Tile(64, 112, 1)], ids=str)
def test_results_are_rounded_in_pairs(tile: Tile):
    """Else the assembler reads sums among the products, and has each of those wait for the one before."""
    x, y, c = (torch.zeros(256, 256, dtype=torch.bfloat16) for _ in range(3))
    numbers = (256, 256, 256, 1, 256, 0, 256, 0, 256, 0, 8, 1, tile, Form("k", "k", "engine"))
    compiled = flyc.compile(hopper, x, y, c, None, None, None, None, None, *numbers, target="cuda:sm_90a")
    text = compiled.artifact.asm
    assert "cvt.rn.bf16x2.f32" in text and "cvt.rn.bf16.f32" not in text
    # Who asks the copy engine is elected: else the assembler puts a loop over threads around each copy.
    assert text.index("elect.sync") < text.index("cp.async.bulk.tensor")


@pytest.mark.covering
@pytest.mark.parametrize("majors", ["mn/mn", "mn/k", "k/mn"])
@pytest.mark.parametrize(
    "tile",
    [
        Tile(128, 96),
        Tile(64, 48, 1, swap=True),
        Tile(64, 128, 1, cluster=2),
        Tile(64, 64, 1, cluster=2),
        Tile(64, 96, 1, cluster=4, shares="xy"),
        Tile(64, 64, 1, cluster=2, shares="x"),
    ],
    ids=str,
)
def test_contiguous_directions(tile: Tile, majors: str, rng: np.random.Generator, device: str):
    x_major, y_major = majors.split("/")
    assert problem(tile, x_major, y_major) is None
    c, _, a, b = product(
        72, 136, 72, tile, Form(x_major, y_major, "engine"), torch.bfloat16, torch.bfloat16, rng, device, batches=2
    )
    bound(c, a, b)


@pytest.mark.covering
@pytest.mark.parametrize("store", ["pairs", "elements"])
@pytest.mark.parametrize("out", [torch.float32, torch.bfloat16], ids=str)
def test_threads_store(store: str, out, rng: np.random.Generator, device: str):
    tile = Tile(64, 32, 1, swap=store == "elements")
    c, whole, a, b = product(50, 46, 136, tile, Form("k", "k", store), torch.bfloat16, out, rng, device)
    bound(c, a, b)
    assert torch.isnan(whole[..., 46:]).all()


@pytest.mark.parametrize("tile", [Tile(128, 32), Tile(64, 32, 1, swap=True), Tile(64, 32, 1, splits=2)], ids=str)
def test_bias_and_activation(tile: Tile, rng: np.random.Generator, device: str):
    bias = torch.from_numpy(rng.standard_normal(40)).float().to(device)
    form = Form("k", "k", "pairs" if tile.splits > 1 else "engine", "silu", "rows" if tile.swap else "columns")
    c, _, a, b = product(70, 40, 264, tile, form, torch.bfloat16, torch.bfloat16, rng, device, bias=bias)
    bound(c, a, b, after=lambda x: torch.nn.functional.silu(x + bias.double()))


@pytest.mark.parametrize("tile", [Tile(64, 64, 1, slices=2), Tile(64, 64, 1, slices=4, together=True)], ids=str)
def test_sums_of_integers_are_integers(tile: Tile, rng: np.random.Generator, device: str):
    """They meet in memory that is meant for f32."""
    a, b = (torch.from_numpy(rng.integers(-128, 128, (rows, 1024), dtype="i1")).to(device) for rows in (60, 72))
    c = torch.full((60, 72), 7, dtype=torch.int32, device=device)
    work = torch.full((2 * tile.slices * 64 * 64,), float("nan"), device=device)
    counters = torch.zeros(2, dtype=torch.int32, device=device)
    hopper(
        a, b, c, None, None, None, work, counters, 60, 72, 1024, 1, 1024, 0, 1024, 0, 72, 0, 2 * tile.slices, 1, tile,
        Form("k", "k", "elements"),
    )  # fmt: skip
    assert torch.equal(c.long(), (a.double() @ b.double().T).long())


def test_the_same_bits_in_every_run(device: str):
    """Parts of K are added in their order, whoever comes first."""
    for tile in (Tile(64, 64, 1, splits=8), Tile(64, 64, 1, slices=4), Tile(64, 64, 1, slices=4, together=True)):
        found = []
        for _ in range(3):
            rng = np.random.default_rng(7)
            c, *_ = product(40, 72, 520, tile, Form("k", "k", "pairs"), torch.bfloat16, torch.float32, rng, device)
            found.append(c.clone())
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


@pytest.mark.parametrize(
    ("tile", "message"),
    [
        (Tile(96, 64), "a tile has 64 rows"),
        (Tile(128, 152), "16 to 256 columns"),
        (Tile(256, 256), "256 accumulators"),
        (Tile(256, 64, 4), "one to three warpgroups"),
        (Tile(128, 64, splits=8, cluster=2), "at most 8 blocks"),
        (Tile(128, 16, splits=4), "divide 16 columns"),
        (Tile(128, 24 * 2, cluster=4), "cannot share 48 rows"),
    ],
)
def test_tiles_there_are_none_of(tile: Tile, message: str):
    assert message in (problem(tile) or "")


CHECKED = [
    (Tile(64, 224, pingpong=True), 520),  # more steps than stages: consumers must not run ahead of each other
    (Tile(128, 160, slices=2), 520),  # sums that are no power of two
    (Tile(64, 48, 1, cluster=2, shares="x", splits=2), 300),
    (Tile(64, 32, 1, swap=True), 1000),
    # Blocks run one after the other here: all but the last give up waiting.
    (Tile(64, 96, 1, slices=3, together=True, tail=True), 520),
    (Tile(256, 128), 200),  # four pieces of results in two places
]


@pytest.mark.parametrize(("tile", "k"), CHECKED, ids=str)
def test_checked_mode_has_nothing_to_say(tile: Tile, k: int, rng: np.random.Generator, emulate, monkeypatch):
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    form = Form("k", "k", "pairs" if tile.in_shares else "engine", edge="pairs")
    c, whole, a, b = product(70, 232, k, tile, form, torch.bfloat16, torch.bfloat16, rng, "cpu")
    bound(c, a, b)
    assert torch.isnan(whole[..., 232:]).all()


def test_fp8_scales_of_blocks_in_checked_mode(rng: np.random.Generator, emulate, monkeypatch):
    from flydsl.kernels import matmul

    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    a, b = (torch.from_numpy(rng.standard_normal((x, 640))).to(E4) for x in (70, 136))
    scale_a, scale_b = (torch.from_numpy(rng.random(s) + 0.5).float() for s in ((70, 5), (5, 2)))
    left = a.double() * scale_a.double().repeat_interleave(128, 1)
    right = b.double().T * scale_b.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:, :136]
    bound(matmul(a, b.T, scale_a=scale_a, scale_b=scale_b, out_dtype="float32"), left, right)


@pytest.mark.parametrize("steps", [14, 15])
def test_stages_of_two_sets_of_sums_are_filled_again_in_checked_mode(steps: int, rng, emulate, monkeypatch):
    """Products in front of a loop are a group of their own: what waits for them in the loop counts groups."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    tile, form = Tile(64, 64, 1), Form("k", "k", "elements", scale_x="line", scale_y="square", promote=True)
    lines, squares = (torch.from_numpy(rng.random((x, steps)) + 0.5).float() for x in (70, 1))
    c, _, a, b = product(70, 72, 128 * steps, tile, form, E4, torch.float32, rng, "cpu", scales=(lines, squares))
    left = a.double() * lines.double().repeat_interleave(128, 1)
    bound(c, left, b.double() * squares.double().repeat_interleave(128, 1).T, sums=FP8_SUMS)


def test_products_under_way_in_a_cluster_in_checked_mode(rng: np.random.Generator, emulate, monkeypatch):
    """What a product still reads beside one that is done is its own block's, also in the second one of a cluster."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    tile, form = Tile(64, 16, 1, splits=2), Form("k", "k", "pairs", promote=True)
    c, _, a, b = product(40, 16, 768, tile, form, E4, torch.float32, rng, "cpu")
    bound(c, a, b, sums=FP8_SUMS)


IN_PARTS = [
    (Tile(128, 64), 5),
    (Tile(64, 32, 1, swap=True), 2),
    (Tile(128, 64, slices=3), 7),  # 3, 3 and 1 steps
    (Tile(128, 160), 3),  # squares begin inside of a tile
    (Tile(128, 128, pingpong=True), 1),
    (Tile(192, 128, 3), 3),
    (Tile(256, 128, cluster=2), 2),
    (Tile(64, 128, 1, cluster=2), 4),
    (Tile(64, 64, 1, splits=2), 3),
    (Tile(64, 96, 1), 2),
]


@pytest.mark.parametrize(("tile", "steps"), rows_of(IN_PARTS, 7), ids=str)
def test_sums_of_128_products_have_their_factors(tile: Tile, steps: int, rng: np.random.Generator, device: str):
    """An even and an odd number of them, in parts of K, with factors that differ from step to step."""
    m, n, k = (40, tile.m + 8, 128 * steps) if tile.swap else (tile.m + 9, tile.n + 8, 128 * steps)
    if 128 % tile.n:
        n += tile.n
    lines = torch.from_numpy(np.exp2(rng.integers(-3, 4, (m, steps)))).float().to(device)
    squares = torch.from_numpy(np.exp2(rng.integers(-3, 4, (-(-n // 128), steps)))).float().to(device)
    form = Form("k", "k", "elements", scale_x="line", scale_y="square", promote=True)
    if tile.swap:
        form = form._replace(scale_x="square", scale_y="line")
    scales = (squares, lines) if tile.swap else (lines, squares)
    c, whole, a, b = product(m, n, k, tile, form, E4, torch.float32, rng, device, scales=scales)
    left = a.double() * lines.double().repeat_interleave(128, 1)
    right = b.double() * squares.double().repeat_interleave(128, 1).repeat_interleave(128, 0)[:n].T
    bound(c, left, right, sums=FP8_SUMS)
    assert torch.isnan(whole[..., n:]).all()


IN_FOURS = [
    (Tile(128, 64), 8),
    (Tile(256, 128), 4),
    (Tile(64, 64, 1, swap=True), 4),
    (Tile(128, 160, slices=3), 20),  # 8, 8 and 4 steps
    (Tile(128, 192, slices=2, together=True, tail=True), 8),
]


@pytest.mark.parametrize(("tile", "steps"), IN_FOURS, ids=str)
def test_factors_of_four_steps_at_once(tile: Tile, steps: int, rng: np.random.Generator, emulate, monkeypatch):
    """The same numbers; slices begin where four steps do."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    m, n, k = (40, tile.m + 8, 128 * steps) if tile.swap else (tile.m + 9, tile.n + 8, 128 * steps)
    lines = torch.from_numpy(np.exp2(rng.integers(-3, 4, (m, steps)))).float()
    squares = torch.from_numpy(np.exp2(rng.integers(-3, 4, (-(-n // 128), steps)))).float()
    names, scales = ("line", "square"), (lines, squares)
    if tile.swap:
        names, scales = names[::-1], scales[::-1]
    form = Form("k", "k", "elements", scale_x=names[0], scale_y=names[1], promote=True, quads=True)
    c, whole, a, b = product(m, n, k, tile, form, E4, torch.float32, rng, "cpu", scales=scales)
    left = a.double() * lines.double().repeat_interleave(128, 1)
    right = b.double() * squares.double().repeat_interleave(128, 1).repeat_interleave(128, 0)[:n].T
    bound(c, left, right, sums=FP8_SUMS)
    assert torch.isnan(whole[..., n:]).all()


@pytest.mark.parametrize(
    ("steps", "across", "at", "wanted"),
    [(8, 8, 0, True), (6, 8, 0, False), (8, 9, 0, False), (8, 8, 1, False), (8, 12, 4, True)],
)
def test_which_factors_lie_in_fours(steps: int, across: int, at: int, wanted: bool, emulate, monkeypatch):
    """Units of 16 bytes of both, and nothing behind the last one; the form says so."""
    from flydsl.kernels import matmul

    emulate("sm_90a")
    forms: list[Form] = []

    def instead(*args, **options):
        forms.extend(x for x in args if isinstance(x, Form))

    monkeypatch.setattr(sys.modules["flydsl.kernels.matmul.hopper"], "hopper", instead)
    decide_anew(monkeypatch)
    a, b = (torch.zeros(x, 128 * steps, dtype=torch.uint8).view(E4) for x in (160, 256))
    lines = torch.zeros(160 * across + at)[at:].as_strided((160, steps), (across, 1))
    matmul(a, b.T, scale_a=lines, scale_b=torch.zeros(2, -(-steps // 4) * 4)[:, :steps].T)
    assert [form.quads for form in forms] == [wanted]


ALONG = [
    Tile(128, 256), Tile(256, 72), Tile(64, 96, pingpong=True), Tile(64, 88, 1, swap=True), Tile(192, 192, 3),
    Tile(64, 64, 1, splits=2), Tile(64, 64, 1, slices=2, together=True, tail=True),
]  # fmt: skip


@pytest.mark.parametrize("promote", [False, True])
@pytest.mark.parametrize("tile", ALONG, ids=str)
def test_factors_and_bias_along_rows_and_columns(tile: Tile, promote: bool, rng: np.random.Generator, device: str):
    """All of them differ; tiles are more than blocks, so that each block has some behind its first."""
    if promote and not tile.promotes:
        tile = tile._replace(n=128)
    m, n = (2 * tile.n + 9, 2 * tile.m + 8) if tile.swap else (2 * tile.m + 9, 2 * tile.n + 8)
    if tile.slices > 1:
        m, n = tile.m + 9, tile.n + 8
    rows, columns, bias = (torch.from_numpy(np.exp2(rng.uniform(-3, 3, x))).float().to(device) for x in (m, n, n))
    by_engine = not (tile.by_threads or tile.tail)
    form = Form(
        "k", "k", "engine" if by_engine else "pairs", bias="rows" if tile.swap else "columns", scale_x="rows",
        scale_y="rows", promote=promote, edge="elements" if tile.swap else "pairs",
    )  # fmt: skip
    scales = (columns, rows) if tile.swap else (rows, columns)
    c, whole, a, b = product(m, n, 640, tile, form, E4, torch.bfloat16, rng, device, bias=bias, scales=scales)
    left, right = a.double() * rows.double()[:, None], b.double() * columns.double()
    bound(c, left, right, after=lambda x: x + bias.double(), sums=FP8_SUMS)
    assert torch.isnan(whole[..., n:]).all()


@pytest.mark.parametrize(("tile", "k"), [(Tile(128, 192), 300), (Tile(192, 64, 3), 640)], ids=str)
def test_fp8_in_f32(tile: Tile, k: int, rng: np.random.Generator, device: str):
    """With one set of sums, and with two."""
    form = Form("k", "k", "engine", promote=True)
    c, _, a, b = product(tile.m + 9, tile.n + 8, k, tile, form, E4, torch.bfloat16, rng, device)
    bound(c, a, b, sums=FP8_SUMS)
