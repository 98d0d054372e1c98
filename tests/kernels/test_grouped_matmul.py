"""`grouped_matmul`: groups of any sizes against float64, ends the device alone reads, and what it refuses."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import grouped_matmul
from flydsl.kernels.matmul.groups import MOST
from flydsl.kernels.matmul.hopper import hopper
from flydsl.kernels.matmul.plan import SHORT, Plan, Problem, best_in_groups, plan, raggedness, rows_of_tiles
from flydsl.kernels.matmul.tile import Form, Tile, stages

from .matmul_checks import bound

FP8 = torch.float8_e4m3fn
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


def test_a_consumer_of_fp8_without_rows_in_every_order(rng: np.random.Generator, emulate):
    """The same where threads add up sums and others bring factors."""
    emulate("sm_90a")
    tile = Tile(128, 192, 2, factors=True)
    steps = 2 * stages(tile) + 2
    k = 128 * steps
    a, b = (torch.from_numpy(rng.standard_normal(shape)).float().to(FP8) for shape in ((40, k), (1, 16, k)))
    lines, squares, ends = torch.rand(40, steps), torch.rand(1, 1, steps), torch.tensor([40])
    form = Form(
        "k", "k", "engine", "none", "", "line", "square", True, grouped=True, table=True, by_group=True
    )  # fmt: skip
    numbers = (40, 16, k, 1, k, 0, k, 0, 16, 0, 1, 1)
    report = flyc.explore_schedules(
        hopper, a, b, torch.zeros(40, 16).bfloat16(), None, lines, squares, None, None, *numbers, tile, form,
        offsets=ends, budget_s=60,
    )  # fmt: skip
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
        ((a, b.half(), ends), {}, DSLTypeError, "one type, or are both fp8, got bfloat16 and float16"),
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
    scales = torch.ones(8, 8)
    with pytest.raises(DSLValueError, match="grouped_matmul: out overlaps scale_a"):
        grouped_matmul(a, b, ends, out=scales, out_dtype="float32", scale_a=scales[:, :1])


def test_refused_scales(rng: np.random.Generator, emulate):
    """Everything by the argument's name, before anything is written."""
    emulate("sm_90a")
    a, b, ends = operands(rng, [3, 5], 8, 256, dtype=torch.float8_e4m3fn)
    lines, squares, one = torch.ones(8, 2), torch.ones(2, 2, 1), torch.ones(1)
    out = poison(a, b, torch.bfloat16)
    for options, error, text in (
        ({"scale_a": one.double()}, DSLTypeError, "scale_a has elements of|scale_a is float32"),
        ({"scale_b": one.half()}, DSLTypeError, "scale_b is float32, got float16"),
        ({"scale_a": torch.ones(7)}, DSLValueError, "scale_a has one value, one for each of the 8 rows"),
        ({"scale_a": lines}, DSLValueError, "scale_a has one value, .* or with a scale_b of blocks"),
        ({"scale_b": torch.ones(8)}, DSLValueError, "scale_b has one value, one for each of the 2 groups"),
        ({"scale_b": torch.ones(2, 7)}, DSLValueError, "one for each of the 8 columns of a group"),
        ({"scale_b": squares}, DSLValueError, r"scale_a of blocks of 128 has the shape \[8, 2\], got none"),
        ({"scale_a": one, "scale_b": squares}, DSLValueError, r"scale_a of blocks of 128 has the shape \[8, 2\]"),
        (
            {"scale_a": lines, "scale_b": torch.ones(2, 2, 2)},
            DSLValueError,
            r"scale_b of blocks of 128 has the shape \[2, 2, 1\]",
        ),
        ({"accumulate": "f64"}, DSLValueError, "accumulate is one of f32, fast, got 'f64'"),
    ):
        with pytest.raises(error, match=text):
            grouped_matmul(a, b, ends, out=out, **options)
    short = {"scale_a": torch.ones(8, 1), "scale_b": torch.ones(2, 1, 1)}
    with pytest.raises(DSLValueError, match="a K that is a multiple of 128, got 160"):
        grouped_matmul(a[:, :160], b[:, :160], ends, out=out, **short)
    with pytest.raises(DSLTypeError, match="both fp8, got float8_e4m3fn and bfloat16"):
        grouped_matmul(a, b.bfloat16(), ends, out=out)
    whole = a.view(torch.int8)
    with pytest.raises(DSLTypeError, match="a result of int32 has no scale"):
        grouped_matmul(whole, b.view(torch.int8), ends, scale_a=one)
    assert torch.isnan(out).all()


SCALES = ("", "one", "each", "rows", "blocks")


class Scaled(NamedTuple):
    """Operands, ends and scales; and both matrices with their scales in float64."""

    a: torch.Tensor
    b: torch.Tensor
    ends: torch.Tensor
    options: dict[str, torch.Tensor]
    left: torch.Tensor
    right: torch.Tensor

    def check(self, out: torch.Tensor, ends=None) -> None:
        # The tensor cores of Hopper keep 14 bits of the sums of some products of fp8.
        kept = 2.0**-12 if self.a.element_size() == 1 else 0.0
        start = 0
        for group, end in enumerate(map(int, self.ends if ends is None else ends)):
            bound(out[start:end], self.left[start:end], self.right[group], sums=kept)
            start = end
        assert torch.isnan(out[start:].float()).all(), "rows that belong to no group are left alone"

    def run(self, dtype: torch.dtype, **more) -> torch.Tensor:
        out = poison(self.a, self.b, dtype)
        assert grouped_matmul(self.a, self.b, self.ends, out=out, out_dtype=dtype, **self.options, **more) is out
        return out


def scaled(rng: np.random.Generator, sizes: list[int], n: int, k: int, scales: str, dtype=FP8, other=None) -> Scaled:
    """Three rows belong to no group: they are NaN, and so are their scales."""
    groups, m = len(sizes), sum(sizes) + 3
    values = torch.from_numpy(rng.standard_normal((m, k))).float()
    values[-3:] = float("nan")
    a = values.to(dtype)
    b = torch.from_numpy(rng.standard_normal((groups, n, k))).float().to(other or dtype).mT
    left, right = a.double(), b.double()

    def drawn(*shape: int) -> torch.Tensor:
        return torch.as_tensor(np.exp2(rng.integers(-3, 4, shape)) * (rng.random(shape) + 0.5)).float()

    if not scales:
        return Scaled(a, b, torch.from_numpy(np.cumsum(sizes)), {}, left, right)
    across = -(-n // 128)
    shape_a, shape_b = {
        "one": ((), (1,)), "each": ((1,), (groups,)), "rows": ((m, 1), (groups, n)),
        "blocks": ((m, k // 128), (groups, across, k // 128)),
    }[scales]  # fmt: skip
    scale_a, scale_b = drawn(*shape_a), drawn(*shape_b)
    if len(shape_a) > 1:
        scale_a[-3:] = float("nan")
    if scales == "blocks":
        scale_b = scale_b.mT
        left = left * scale_a.double().repeat_interleave(128, 1)
        right = right * scale_b.double().repeat_interleave(128, 1).repeat_interleave(128, 2)[:, :, :n]
    else:
        left = left * scale_a.double()
        right = right * (scale_b.double()[:, None] if scales == "rows" else scale_b.double().view(-1, 1, 1))
    options = {"scale_a": scale_a, "scale_b": scale_b}
    return Scaled(a, b, torch.from_numpy(np.cumsum(sizes)).int(), options, left, right)


def no_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may go element by element."""
    monkeypatch.setattr(sys.modules["flydsl.kernels.matmul.grouped"], "_decided", {})
    monkeypatch.setattr(sys.modules["flydsl.kernels.matmul.grouped"], "_anywhere", None)


@pytest.mark.covering
@pytest.mark.parametrize("arch", ["sm_90a", "native", "gfx942"])
@pytest.mark.parametrize("scales", SCALES)
def test_fp8(scales: str, arch: str, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Groups of no row, of one and of some; N that ends inside of a block, K of one step and of several."""
    emulate(arch)
    if arch == "sm_90a":
        no_plain(monkeypatch)
    for sizes, n, k, dtype in (
        ([70, 0, 5, 130, 1], 200, 512, torch.float32),
        ([0, 1, 0], 33, 128, torch.bfloat16),
        ([64, 64], 72, 384, torch.float16),
    ):
        other = torch.float8_e5m2 if n == 72 else FP8
        case = scaled(rng, sizes, n, k, scales, other=other)
        case.check(case.run(dtype))


def test_fp8_anywhere_in_memory(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Bytes that the copy engine does not take are packed: rows of no 16-byte units, and such that lie beside each
    other. Scales of any strides."""
    emulate("sm_90a")
    no_plain(monkeypatch)
    case = scaled(rng, [40, 0, 9], 40, 100, "rows")
    wide = torch.zeros(3, 80)
    wide[:, ::2] = case.options["scale_b"]
    options = {"scale_a": case.options["scale_a"].expand(-1, 2)[:, 1:], "scale_b": wide[:, ::2]}
    for b in (case.b, case.b.contiguous()):
        case._replace(b=b).check(case._replace(b=b, options=options).run(torch.float32))
    case = scaled(rng, [40, 0, 9], 140, 512, "blocks")
    lines, squares = case.options["scale_a"], case.options["scale_b"]
    for options in (
        {"scale_a": lines.T.contiguous().T, "scale_b": squares.contiguous()},
        {"scale_a": lines.repeat_interleave(2, 1)[:, ::2], "scale_b": squares.repeat_interleave(2, 2)[:, :, ::2]},
    ):
        case.check(case._replace(options=options).run(torch.bfloat16))


FP8_TILES = [
    Tile(64, 64, 1, cluster=2),
    Tile(64, 64, 2, True),
    Tile(64, 32, 1, cluster=2, shares="either"),
    Tile(64, 64, 2, True, cluster=2, shares="either"),
    Tile(128, 64, 2, cluster=2, shares="either"),
    Tile(128, 160, 2, cluster=2, shares="either"),
    Tile(128, 192, 2),
    Tile(256, 64, 2, cluster=2, shares="either"),
    Tile(192, 64, 3, cluster=2, shares="either"),
]


def with_tile(tile: Tile, monkeypatch: pytest.MonkeyPatch) -> None:
    few_processors(monkeypatch, 4)
    module = sys.modules["flydsl.kernels.matmul.grouped"]
    monkeypatch.setattr(
        module, "best_in_groups", lambda given: Plan(tile._replace(factors=given.blocked), 0, 2, 0.0)
    )  # fmt: skip


@pytest.mark.covering
@pytest.mark.parametrize("scales", ["rows", "blocks"])
@pytest.mark.parametrize("tile", FP8_TILES)
def test_fp8_in_every_tile(tile: Tile, scales: str, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """Consumers that take turns or have nothing to do, pairs above and beside each other, one and two sets of sums."""
    emulate("sm_90a")
    with_tile(tile, monkeypatch)
    no_plain(monkeypatch)
    for sizes, k in (([100, 0, 30, 129, 64, 1, 0], 256), ([256, 60, 390, 128], 384)):
        case = scaled(rng, sizes, 200, k, scales)
        out = case.run(torch.bfloat16)
        case.check(out)
        assert torch.equal(case.run(torch.bfloat16)[: sum(sizes)], out[: sum(sizes)])


@pytest.mark.covering
@pytest.mark.parametrize("scales", ["each", "rows", "blocks"])
@pytest.mark.parametrize(
    "tile", [Tile(128, 64, 2, cluster=2, shares="either"), Tile(64, 64, 2, True), Tile(256, 32, 2)]
)
def test_fp8_checked(tile: Tile, scales: str, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """No byte that nobody wrote is used, none outside of an array is read, nobody is overtaken."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    with_tile(tile, monkeypatch)
    case = scaled(rng, [130, 0, 1, 70], 136, 640, scales)
    case.check(case.run(torch.bfloat16))


def test_more_groups_of_fp8_than_a_table_has(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate("sm_90a")
    few_processors(monkeypatch, 6)
    no_plain(monkeypatch)
    sizes = rng.integers(0, 4, MOST + 1) * rng.integers(0, 2, MOST + 1)
    case = scaled(rng, sizes.tolist(), 24, 128, "blocks")
    case.check(case.run(torch.float32))


@pytest.mark.parametrize("arch", ["sm_90a", "native"])
def test_long_sums_of_fp8(arch: str, rng: np.random.Generator, emulate):
    """Thirty-two steps, added up by threads, and by the tensor cores."""
    emulate(arch)
    case = scaled(rng, [5, 0, 20], 16, 4096, "each")
    for sums in ("f32", "fast"):
        case.check(case.run(torch.float32, accumulate=sums))


def test_int8_is_exact(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate("sm_90a")
    no_plain(monkeypatch)
    a, b = (torch.from_numpy(rng.integers(-128, 128, shape, dtype=np.int8)) for shape in ((90, 160), (3, 160, 40)))
    wanted = torch.cat([a[:70].long() @ b[0].long(), a[70:].long() @ b[2].long()])
    ends = torch.tensor([70, 70, 90])
    assert (grouped_matmul(a, b, ends).long() == wanted).all()
    scale_a, scale_b = torch.rand(90), torch.rand(3, 40)
    found = grouped_matmul(a, b, ends, scale_a=scale_a, scale_b=scale_b, out_dtype="float32")
    factor = torch.cat([scale_b[0].expand(70, -1), scale_b[2].expand(20, -1)]) * scale_a[:, None]
    assert torch.allclose(found, wanted.float() * factor, rtol=1e-6)


@pytest.mark.covering
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("scales", SCALES[:-1])
def test_float32(scales: str, arch: str, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """By tiles of FMA, however operands and results lie."""
    emulate(arch)
    no_plain(monkeypatch)
    for sizes, n, k in (([70, 0, 5, 130, 1], 76, 50), ([0, 1, 0], 33, 128), ([3, 300], 5, 7)):
        case = scaled(rng, sizes, n, k, scales, torch.float32)
        left = case.a.T.contiguous().T
        for a, b in ((case.a, case.b), (case.a, case.b.contiguous()), (left, case.b.contiguous())):
            case.check(case._replace(a=a, b=b).run(torch.float32))
        out = torch.full((n, case.a.shape[0]), float("nan")).T
        grouped_matmul(case.a, case.b, case.ends, out=out, **case.options)
        case.check(out)
        case.check(case.run(torch.bfloat16))


@pytest.mark.parametrize("groups", [40, MOST + 1])
def test_many_groups_of_float32(groups: int, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """By a table, and without one; ends that fall and go too far, and tiles that nobody has."""
    emulate("sm_80")
    no_plain(monkeypatch)
    sizes = rng.integers(0, 4, groups) * rng.integers(0, 2, groups)
    sizes[groups // 2] = 150
    case = scaled(rng, sizes.tolist(), 24, 16, "rows", torch.float32)
    case.check(case.run(torch.float32))
    wrong = case.ends.clone()
    wrong[groups // 3], wrong[groups // 2 + 3] = -7, 0
    held = torch.cummax(wrong.clamp(0, case.a.shape[0]), 0).values
    case._replace(ends=wrong).check(case._replace(ends=wrong).run(torch.float32), held)


def test_float32_checked(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """The table lies where stages do afterwards."""
    emulate("sm_80")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    no_plain(monkeypatch)
    for sizes in ([70, 0, 1], [0, 0]):
        case = scaled(rng, sizes, 40, 50, "rows", torch.float32)
        case.check(case.run(torch.float32))


def test_blocks_of_other_types(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    for dtype in (torch.bfloat16, torch.float32):
        case = scaled(rng, [9, 0, 30], 140, 256, "blocks", dtype)
        case.check(case.run(torch.float32))


def test_no_rows_with_scales(emulate):
    emulate("sm_90a")
    a, b = torch.zeros(0, 256).to(FP8), torch.zeros(2, 256, 8).to(FP8)
    ends = torch.zeros(2, dtype=torch.int32)
    scales = {"scale_a": torch.ones(0, 2), "scale_b": torch.ones(2, 2, 1)}
    assert grouped_matmul(a, b, ends, **scales).shape == (0, 8)
    assert grouped_matmul(a.float(), b.float(), ends).shape == (0, 8)


@pytest.mark.cuda
def test_on_the_gpu(rng: np.random.Generator):
    for sizes, n, k in (([300, 0, 17, 1000, 64], 1000, 520), ([128] * 16, 512, 1024)):
        a, b, ends = operands(rng, sizes, n, k, more=5)
        a, b = a.cuda(), b.cuda()
        out = poison(a, b).cuda()
        grouped_matmul(a, b, ends.int().cuda(), out=out)
        check(out, a, b, ends)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [FP8, torch.float32], ids=str)
@pytest.mark.parametrize("scales", SCALES)
def test_scales_on_the_gpu(scales: str, dtype, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    for sizes, n, k in (([300, 0, 17, 1000, 1, 64], 1000, 1024), ([128] * 16, 512, 896), ([1, 0, 5] * 90, 264, 256)):
        case = scaled(rng, sizes, n, k, scales, dtype)
        options = {name: scale.cuda() for name, scale in case.options.items()}
        there = case._replace(a=case.a.cuda(), b=case.b.cuda(), ends=case.ends.cuda(), options=options)
        for result in (torch.bfloat16, torch.float32):
            out = poison(there.a, there.b, result).cuda()
            for _ in range(2):
                grouped_matmul(there.a, there.b, there.ends, out=out, out_dtype=result, **options)
            case.check(out.cpu())
