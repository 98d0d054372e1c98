"""`grouped_matmul`: groups of any sizes against float64, ends the device alone reads, and what it refuses."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import grouped_matmul
from flydsl.kernels.matmul.groups import MOST
from flydsl.kernels.matmul.hopper import hopper
from flydsl.kernels.matmul.plan import SHORT, Problem, best_in_groups, plan, raggedness, rows_of_tiles
from flydsl.kernels.matmul.tile import Form, Tile, stages

from .matmul_checks import bound

SIZES = ([70, 0, 5, 130, 1], [0, 0, 3], [64, 64])


def operands(rng: np.random.Generator, sizes: list[int], n: int, k: int, *, dtype=torch.bfloat16, more: int = 0):
    """Rows of all groups and some that belong to none, a matrix for each group, and the ends."""
    a = torch.from_numpy(rng.standard_normal((sum(sizes) + more, k))).to(dtype)
    b = torch.from_numpy(rng.standard_normal((len(sizes), n, k))).to(dtype).mT
    return a, b, torch.from_numpy(np.cumsum(sizes))


def check(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, ends, after=lambda x: x) -> None:
    start = 0
    for group, end in enumerate(map(int, ends)):
        bound(out[start:end], a[start:end], b[group], after)
        start = end
    assert torch.isnan(out[start:]).all(), "rows that belong to no group are left alone"


def poison(a: torch.Tensor, b: torch.Tensor, dtype=None) -> torch.Tensor:
    return torch.full((a.shape[0], b.shape[2]), float("nan"), dtype=dtype or a.dtype)


@pytest.mark.parametrize("arch", ["sm_90a", "gfx942", "native"])
def test_every_stack(arch: str, rng: np.random.Generator, emulate):
    emulate(arch)
    for sizes, (n, k) in zip(SIZES, ((72, 136), (33, 50), (40, 64)), strict=True):
        a, b, ends = operands(rng, sizes, n, k, more=3)
        out = poison(a, b)
        assert grouped_matmul(a, b, ends.int(), out=out) is out
        check(out, a, b, ends)


def test_layouts_types_and_activations(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    a, b, ends = operands(rng, [9, 40, 0, 23], 48, 72, dtype=torch.float16)
    check(grouped_matmul(a, b.contiguous(), ends), a, b, ends)
    check(grouped_matmul(a.T.contiguous().T, b, ends, out_dtype=torch.float32), a, b, ends)
    check(grouped_matmul(a, b, ends, activation="relu"), a, b, ends, lambda x: x.clamp(min=0))
    a, b = a.float(), b.float()
    check(grouped_matmul(a, b, ends), a, b, ends)


def few_processors(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """As if there were so many multiprocessors; nothing that was decided before counts."""
    module = sys.modules["flydsl.kernels.matmul.grouped"]
    found = module.target_of
    monkeypatch.setattr(module, "target_of", lambda a: found(a)._replace(processors=count))
    monkeypatch.setattr(module, "_decided", {})


def test_as_many_tiles_as_blocks_take_in_turn(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Few multiprocessors, so that blocks go from group to group."""
    emulate("sm_90a")
    few_processors(monkeypatch, 3)
    a, b, ends = operands(rng, [100, 0, 30, 129, 64, 1, 0], 200, 64)
    check(grouped_matmul(a, b, ends), a, b, ends)


@pytest.mark.parametrize(
    "tile",
    [
        Tile(64, 64, 1, cluster=2),
        Tile(64, 64, 1, cluster=2, shares="x"),
        Tile(64, 64, 2, True),
        Tile(64, 64, 1, cluster=2, shares="either"),
        Tile(64, 64, 2, True, cluster=2, shares="either"),
        Tile(128, 64, 2, cluster=2, shares="either"),
        Tile(128, 96, 2),
        Tile(256, 48, 2, cluster=2, shares="either"),
    ],
)
def test_tiles_of_clusters_and_turns(tile: Tile, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate("sm_90a")
    module = sys.modules["flydsl.kernels.matmul.grouped"]
    few_processors(monkeypatch, 4)
    monkeypatch.setattr(module, "best_in_groups", lambda given: plan(given._replace(m=tile.m), tile))
    for sizes in ([100, 0, 30, 129, 64, 1, 0], [256, 60, 390, 128]):
        a, b, ends = operands(rng, sizes, 200, 192, more=2)
        out = poison(a, b)
        grouped_matmul(a, b, ends, out=out)
        check(out, a, b, ends)


def test_copies_end_where_the_matrices_do(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """96 of 128 columns are there, in three copies of four, and 8 of 48 in the first of a pair's second tile."""
    emulate("sm_90a")
    module, kernel = (sys.modules[f"flydsl.kernels.matmul.{name}"] for name in ("grouped", "hopper"))
    found: list[int] = []
    run = kernel.hopper
    monkeypatch.setattr(kernel, "hopper", lambda *args: found.append(args[21].boxes_y) or run(*args))
    for tile, n in ((Tile(64, 128, 1), 96), (Tile(64, 48, 1, cluster=2, shares="either"), 56)):
        few_processors(monkeypatch, 4)
        monkeypatch.setattr(module, "best_in_groups", lambda given, tile=tile: plan(given._replace(m=tile.m), tile))
        a, b, ends = operands(rng, [70, 9], n, 72)
        out = poison(a, b)
        grouped_matmul(a, b, ends, out=out)
        check(out, a, b, ends)
    assert found == [4, 2]


@pytest.mark.parametrize("groups", [70, MOST, MOST + 1])
def test_many_groups(groups: int, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """More than a warp reads at once, as many as a table has room for, and more; ends that fall and go too far."""
    emulate("sm_90a")
    few_processors(monkeypatch, 6)
    sizes = rng.integers(0, 4, groups) * rng.integers(0, 2, groups)
    sizes[groups // 2] = 150
    a, b, ends = operands(rng, sizes.tolist(), 24, 16)
    check(grouped_matmul(a, b, ends), a, b, ends)
    wrong = ends.clone()
    wrong[groups // 3], wrong[groups // 2 + 3], wrong[-1] = -7, 0, 10**12
    held = torch.cummax(wrong.clamp(0, a.shape[0]), 0).values
    check(grouped_matmul(a, b, wrong), a, b, held)


@pytest.mark.parametrize(
    ("tile", "sizes"),
    [
        (Tile(128, 160, 2, cluster=2, shares="either"), [330, 0, 50, 200]),
        (Tile(128, 128, 2, True), [100, 70]),
        (Tile(256, 128, 2), [200]),
    ],
)
def test_checked(tile: Tile, sizes: list[int], rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Pairs above each other, one left that is beside itself, halves nobody fetches, and more steps than stages;
    consumers of 128 rows, of which the engine stores 64 and threads the others, in the same room."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    few_processors(monkeypatch, 4)
    module = sys.modules["flydsl.kernels.matmul.grouped"]
    monkeypatch.setattr(module, "best_in_groups", lambda given: plan(given._replace(m=tile.m), tile))
    n, k = (328, 400) if tile.either else (128, 64)
    a, b, ends = operands(rng, sizes, n, k, more=3)
    out = poison(a, b)
    grouped_matmul(a, b, ends, out=out)
    check(out, a, b, ends)


def test_a_consumer_without_rows_in_every_order(rng: np.random.Generator, emulate):
    """40 rows of a tile of 128, and more steps than twice the stages: warps with nothing to do keep up with them."""
    emulate("sm_90a")
    tile = Tile(128, 256, 2)
    assert 10 > 2 * stages(tile) + 1
    a, b, ends = operands(rng, [40], 16, 640)
    form = Form("k", "k", "engine", grouped=True, table=True)
    numbers = (40, 16, 640, 1, 640, 0, 640, 0, 16, 0, 1, 1)
    report = flyc.explore_schedules(
        hopper, a, b, torch.zeros(40, 16, dtype=a.dtype), *(None,) * 5, *numbers, tile, form, offsets=ends, budget_s=60
    )
    assert report and report.complete, report


def test_rows_of_tiles_that_groups_have(rng: np.random.Generator):
    """Five of groups of 549 rows, the last one short; of groups of any lengths, what drawn ones have."""
    given = Problem(549, 1024, 896, 3, 16, 2, "k", "k", False, 132)
    for tile, cost in ((Tile(128, 96, 2, cluster=2, shares="either"), SHORT), (Tile(128, 96, 2, True), 1.0)):
        equal, anywhere = rows_of_tiles(given, tile)
        assert equal == (2, 1, (4 + cost) / 5)
        high = np.ceil(rng.exponential(549, 200_000) / 128)
        assert np.isclose(anywhere.pairs, (high // 2).mean(), rtol=0.02)
        assert np.isclose(anywhere.left, (high % 2).mean(), rtol=0.02)


def test_choices():
    """What was a tenth faster: pairs of 96 columns take two rounds of the first, and 176 waste half of the sixth of the
    second; five steps are not enough for a consumer to store while the other multiplies."""
    for shape, columns in (((3, 549, 1024, 896), 128), ((9, 1358, 1152, 3904), 128), ((10, 948, 3512, 280), None)):
        groups, rows, n, k = shape
        tile = best_in_groups(Problem(rows, n, k, groups, 16, 2, "k", "k", False, 132)).tile
        assert not tile.pingpong and tile.n == (columns or tile.n)
    assert [raggedness(step) for step in (256, 64, 2656, 16, 48)] == [0, 4 / 7, 6 / 7, 1, 1]


def test_ends_that_fall_or_go_too_far_reach_nothing_else(rng: np.random.Generator, emulate):
    for arch in ("sm_90a", "native"):
        emulate(arch)
        a, b, _ = operands(rng, [20, 20, 20, 20], 24, 40)
        out = grouped_matmul(a, b, torch.tensor([30, 10, -5, 1000]))
        check(out, a, b, [30, 30, 30, 80])


def test_integers(rng: np.random.Generator, emulate):
    """Exact, in int32."""
    emulate("native")
    a, b = (torch.from_numpy(rng.integers(-128, 128, shape, dtype=np.int8)) for shape in ((9, 7), (3, 7, 5)))
    wanted = torch.cat([a[:4].long() @ b[0].long(), a[4:].long() @ b[2].long()])
    assert (grouped_matmul(a, b, torch.tensor([4, 4, 9])).long() == wanted).all()


def test_nothing_to_do(rng: np.random.Generator, emulate):
    emulate("native")
    a, b, ends = operands(rng, [0, 0], 8, 8)
    assert grouped_matmul(a, b, ends).shape == (0, 8)
    a, b, ends = operands(rng, [2, 1], 8, 0)
    assert (grouped_matmul(a, b, ends) == 0).all()


def test_refusals(rng: np.random.Generator, emulate):
    emulate("native")
    a, b, ends = operands(rng, [3, 5], 8, 16)
    for args, options, error, text in (
        ((a[None], b, ends), {}, DSLValueError, "a is .rows, K. and b is .groups, K, N."),
        ((a, b[:, :15], ends), {}, DSLValueError, "a has 16 columns and b has 15 rows a group"),
        ((a, b, ends[:1]), {}, DSLValueError, "an int32 or int64 end for each of the 2 groups"),
        ((a, b, ends.float()), {}, DSLValueError, "an int32 or int64 end"),
        ((a, b.half(), ends), {}, DSLTypeError, "one type, got bfloat16 and float16"),
        ((a.int(), b.int(), ends), {}, DSLTypeError, "multiplies float16, bfloat16, float32, .*, got a of int32"),
        ((a, b, ends), {"activation": "wave"}, DSLValueError, "unknown activation 'wave'"),
        ((a, b, ends), {"out": a}, DSLValueError, "out has the shape"),
    ):
        before = a.clone()
        with pytest.raises(error, match=text):
            grouped_matmul(*args, **options)
        assert torch.equal(a, before)
    wide = torch.zeros(8, 24, dtype=torch.bfloat16)
    with pytest.raises(DSLValueError, match="out overlaps a"):
        grouped_matmul(wide[:, :16], b, ends, out=wide[:, 8:16])


@pytest.mark.cuda
def test_on_the_gpu(rng: np.random.Generator):
    for sizes, n, k in (([300, 0, 17, 1000, 64], 1000, 520), ([128] * 16, 512, 1024)):
        a, b, ends = operands(rng, sizes, n, k, more=5)
        a, b = a.cuda(), b.cuda()
        out = poison(a, b).cuda()
        grouped_matmul(a, b, ends.int().cuda(), out=out)
        check(out, a, b, ends)
