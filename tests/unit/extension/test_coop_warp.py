"""Collectives of warps against plain Python: random widths, items, classes and operations, in checked mode.

Every test draws anew and names what it drew. What FlyDSL leaves unspecified is not looked at.
"""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

ARCHES = {"gfx942": 64, "sm_90a": 32}
ADD, MUL, MAX, MIN = fx.ReductionOp.ADD, fx.ReductionOp.MUL, fx.ReductionOp.MAX, fx.ReductionOp.MIN
COOP: Any = fx.coop
CLASSES: list[tuple[Any, Any]] = [
    (fx.Int8, np.int8), (fx.Uint16, np.uint16), (fx.Int32, np.int32), (fx.Uint32, np.uint32), (fx.Int64, np.int64),
    (fx.Float16, np.float16), (fx.Float32, np.float32), (fx.Float64, np.float64),
]  # fmt: skip


def last_set(a: Any, b: Any) -> Any:
    """Associative, and not commutative."""
    return (b != 0).select(b, a)


OPS: dict[Any, Callable[[Any, Any], Any]] = {
    ADD: operator.add, MAX: max, MIN: min, last_set: lambda a, b: b if b != 0 else a,
}  # fmt: skip


@pytest.fixture(params=ARCHES)
def wave(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lanes of a warp of the GPU that is emulated, in checked mode."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", request.param)
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    return ARCHES[request.param]


class Draw(random.Random):
    """Random choices that can be made again."""

    def __init__(self, wave: int):
        self.number = random.randrange(1 << 32)
        super().__init__(self.number)
        self.wave = wave

    def width(self) -> int:
        return self.choice([w for w in (1, 2, 4, 8, 16, 32, 64) if w <= self.wave])

    def values(self, dtype: Any, shape: tuple[int, ...], low: int = 0, high: int = 4) -> np.ndarray:
        low = low if np.issubdtype(dtype, np.signedinteger) or np.issubdtype(dtype, np.floating) else max(low, 0)
        return np.array([self.randint(low, high) for _ in range(int(np.prod(shape)))], dtype).reshape(shape)


def run(body: Callable[..., Sequence[Any]], x: np.ndarray, rows: int, *numbers: int) -> np.ndarray:
    """What `body` gives for the items of each thread: an array of (thread, result)."""
    threads, items = x.shape

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor, given: fx.Tensor):
        t = fx.thread_idx.x
        made = body([x[t, i] for i in range(items)], *[given[i] for i in range(len(numbers))])
        for i, value in enumerate(made):
            out[t, i] = value

    @flyc.jit
    def launch(x: fx.Tensor, out: fx.Tensor, given: fx.Tensor):
        kernel(x, out, given).launch(grid=1, block=threads)

    out = np.full((threads, rows), -77 if np.issubdtype(x.dtype, np.signedinteger) else 77, x.dtype)
    launch(x, out, np.array([*numbers, 0], np.int32))
    return out


def groups(x: np.ndarray, width: int) -> list[list[list[Any]]]:
    """Items as (group, lane, item) of Python numbers."""
    return x.reshape(-1, width, x.shape[1]).tolist()


def same(draw: Draw, what: str, made: np.ndarray, wanted: list[list[Any]]) -> None:
    """Compare what is specified: None stands for anything. Sums of integers wrap around."""
    got = made.tolist()
    for t, row in enumerate(wanted):
        for i, value in enumerate(row):
            if value is not None:
                kept = np.array(value).astype(made.dtype).item()
                assert got[t][i] == kept, f"{what}, draw {draw.number}, thread {t}, result {i}: {got[t]} is not {row}"


def test_reductions(wave: int) -> None:
    draw = Draw(wave)
    width, items, (cls, dtype) = draw.width(), draw.randint(1, 3), draw.choice(CLASSES)
    op = draw.choice(list(OPS))
    valid = draw.randint(1, width)
    x = draw.values(dtype, (2 * wave, items))

    def body(x: list[Any], count: Any) -> list[Any]:
        kind = COOP.WarpReduce[cls, width]
        vector = fx.Vector.from_elements(x, cls)
        return [
            COOP.warp_reduce(x, op, width=width),
            kind.reduce(x[0], op, valid_items=count),
            COOP.universal.warp_reduce(vector, op, width=width),
            COOP.warp_reduce(x[0], op, width=width, valid_items=valid),
            COOP.warp_broadcast(x[0], count - 1, width=width),
        ]

    made = run(body, x, 5, valid)
    fold = functools.partial(functools.reduce, OPS[op])
    wanted = [
        [fold(sum(g, [])), some, fold(sum(g, [])), some, g[valid - 1][0]]
        for g in groups(x, width)
        for some in [fold([lane[0] for lane in g[:valid]])]
        for _ in g
    ]
    same(draw, f"reduce {cls} {op} of {width} lanes, {items} items, {valid} valid", made, wanted)


def test_scans(wave: int) -> None:
    draw = Draw(wave)
    width, items, (cls, dtype) = draw.width(), draw.randint(1, 3), draw.choice(CLASSES)
    op = draw.choice(list(OPS))
    valid, start = draw.randint(1, width), draw.randint(1, 3)
    x = draw.values(dtype, (2 * wave, items))

    def body(x: list[Any], count: Any) -> list[Any]:
        made = COOP.WarpScan[cls, width].scan_with_aggregate(x, op, init=start)
        some = COOP.warp_scan_with_aggregate(x[0], op, width=width, init=start, valid_items=count)
        plain = COOP.universal.warp_scan_with_aggregate(x[0], op, width=width)
        inclusive = COOP.warp_inclusive_scan(fx.Vector.from_elements(x, cls), op, width=width)
        return [*made[0], *made[1], made[2], *some, *plain, *inclusive, COOP.warp_exclusive_scan(x[0], op, width=width)]

    made = run(body, x, 3 * items + 8, valid)
    fold = functools.partial(functools.reduce, OPS[op])
    neutral = {ADD: 0, last_set: None, MAX: np.array(-np.inf if dtype(0.5) else np.iinfo(dtype).min, dtype).item(),
               MIN: np.array(np.inf if dtype(0.5) else np.iinfo(dtype).max, dtype).item()}[op]  # fmt: skip
    wanted: list[list[Any]] = []
    for g in groups(x, width):
        flat, first = sum(g, []), [lane[0] for lane in g]
        for lane in range(width):
            at = [lane * items + i for i in range(items)]
            mine = lane < valid
            before = fold(first[:lane]) if lane else neutral
            wanted.append([
                *(fold([start, *flat[: n + 1]]) for n in at), *(fold([start, *flat[:n]]) for n in at), fold(flat),
                fold([start, *first[: lane + 1]]) if mine else None, fold([start, *first[:lane]]) if mine else None,
                fold(first[:valid]),
                fold(first[: lane + 1]), before, fold(first),
                *(fold(flat[: n + 1]) for n in at), before,
            ])  # fmt: skip
    same(draw, f"scan {cls} {op} of {width} lanes, {items} items, {valid} valid", made, wanted)


def test_segments(wave: int) -> None:
    """Reductions of segments, in the lanes that start them."""
    draw = Draw(wave)
    width, (cls, dtype), op = draw.width(), draw.choice(CLASSES), draw.choice(list(OPS))
    x = draw.values(dtype, (2 * wave, 2), 0, 4)
    x[:, 1] = [draw.randint(0, 1) for _ in range(2 * wave)]

    def body(x: list[Any]) -> list[Any]:
        kind = COOP.WarpReduce[cls, width]
        flag = x[1] != 0
        return [
            COOP.warp_head_segmented_reduce(x[0], flag, op, width=width),
            kind.tail_segmented_reduce(x[0], fx.Int32(x[1]), op),
        ]

    made = run(body, x, 2)
    wanted: list[list[Any]] = []
    for g in groups(x, width):
        heads = [i for i in range(width) if i == 0 or g[i][1]]
        after = [0, *(i + 1 for i in range(width - 1) if g[i][1])]
        rows: list[list[Any]] = [[None, None] for _ in g]
        for column, starts in enumerate((heads, after)):
            for a, b in zip(starts, [*starts[1:], width], strict=True):
                rows[a][column] = functools.reduce(OPS[op], [lane[0] for lane in g[a:b]])
        wanted += rows
    same(draw, f"segments {cls} {op} of {width} lanes", made, wanted)


def test_batches(wave: int) -> None:
    """Several reductions at once, in each of the orders."""
    draw = Draw(wave)
    width, (cls, dtype), op = draw.choice([2, 4, 8]), draw.choice(CLASSES), draw.choice(list(OPS))
    count = draw.randint(1, 2 * width + 1)
    few = draw.randint(1, min(width, count))
    slots = -(-count // width)
    x = draw.values(dtype, (2 * wave, count))

    def body(x: list[Any]) -> list[Any]:
        kind = COOP.WarpReduceBatched[cls, width, count]
        return [
            COOP.warp_reduce_batched(x[:few], op, width=width),
            *kind.reduce_to_striped(x, op, sync_physical_warp=True),
            *kind.reduce_to_blocked(fx.Vector.from_elements(x, cls), op),
        ]

    made = run(body, x, 1 + 2 * slots)
    wanted: list[list[Any]] = []
    for g in groups(x, width):
        of = [functools.reduce(OPS[op], [lane[i] for lane in g]) for i in range(count)]
        padded = of + [None] * (slots * width - count)
        for lane in range(width):
            striped = [padded[j * width + lane] for j in range(slots)]
            wanted.append([of[lane] if lane < few else None, *striped, *padded[lane * slots : (lane + 1) * slots]])
    same(draw, f"batches {cls} {op} of {width} lanes, {count} reductions, {few} alone", made, wanted)


@pytest.mark.covering
@pytest.mark.parametrize("stable", [False, True])
def test_sorts(wave: int, stable: bool) -> None:
    """Keys with and without payloads, up and down, all of them and some."""
    draw = Draw(wave)
    width, (cls, dtype) = draw.choice([2, 4, 8, 16, wave]), draw.choice(CLASSES)
    items = draw.randint(1, 5 if width < 8 else 2 if width < wave else 1)
    size = width * items
    valid = draw.randint(0, size)
    x = draw.values(dtype, (2 * wave, items), -3, 3)

    def body(x: list[Any], count: Any) -> list[Any]:
        sort = COOP.warp_merge_sort if stable else COOP.warp_bitonic_sort
        kind = (COOP.WarpMergeSort if stable else COOP.WarpBitonicSort)[(cls, fx.Int32), width, items]
        numbers = [fx.lane_id() % width * items + i for i in range(items)]
        keys, places = kind.sort(x, numbers, compare_op=lambda a, b: a > b, valid_items=count)
        alone = sort(fx.Vector.from_elements(x, cls), width=width, compare_op=lambda a, b: a < b)
        return [*alone, *keys, *(place.to(fx.Int16).to(cls) for place in places)]

    made = run(body, x, 3 * items, valid).reshape(-1, width, 3, items)
    for got, g in zip(made.tolist(), groups(x, width), strict=True):
        order = range(size)
        lane_slot = [(n // items, n % items) if stable else (n % width, n // width) for n in order]
        alone, keys, places = ([got[lane][k][slot] for lane, slot in lane_slot] for k in range(3))
        given = [g[lane][slot] for lane, slot in lane_slot]
        said = f"draw {draw.number}: {cls}, {width} lanes, {items} items, {valid} valid of {given}"
        assert alone == sorted(given), said
        assert keys[:valid] == sorted(given[:valid], reverse=True), said
        flat = sum(g, [])
        if size <= 100:  # a payload fits into every class
            assert [flat[int(place)] for place in places[:valid]] == keys[:valid], said
            if stable:
                assert places[:valid] == sorted(range(valid), key=lambda i: -given[i]), said


def test_exchanges(wave: int) -> None:
    draw = Draw(wave)
    width, items, (cls, dtype) = draw.width(), draw.randint(1, 5), draw.choice(CLASSES)
    square = draw.choice([2, 4, 8])
    size = width * items
    x = draw.values(dtype, (2 * wave, max(items, square)), 0, 100)

    def body(x: list[Any]) -> list[Any]:
        kind = COOP.WarpExchange[cls, width, items]
        turned = COOP.WarpExchange[cls, square, square, COOP.WarpExchangeAlgorithm.SHUFFLE]
        scratch = fx.SharedAllocator().allocate(fx.Array[kind.SharedStorage, 2 * wave // width]).peek()
        storage = scratch[fx.thread_idx.x // width]
        own = x[:items]
        striped = kind.blocked_to_striped(own, storage=storage)
        fx.barrier()
        back = kind.striped_to_blocked(striped, storage=storage)
        fx.barrier()
        # A permutation that each lane can compute: the numbers of the tile backwards.
        at = [size - 1 - (fx.lane_id() % width * items + i) for i in range(items)]
        scattered = kind.scatter_to_striped(own, at, storage=storage)
        there = turned.blocked_to_striped(x[:square])
        return [*striped, *back, *scattered, *there, *turned.striped_to_blocked(there)]

    made = run(body, x, 3 * items + 2 * square)
    wanted: list[list[Any]] = []
    for g in groups(x, width):
        flat = sum((lane[:items] for lane in g), [])
        for lane in range(width):
            striped = [flat[i * width + lane] for i in range(items)]
            mirrored = [flat[size - 1 - (i * width + lane)] for i in range(items)]
            wanted.append([*striped, *g[lane][:items], *mirrored])
    for t, g in enumerate(groups(x, square)):
        for lane in range(square):
            wanted[t * square + lane] += [*(g[i][lane] for i in range(square)), *g[lane][:square]]
    same(draw, f"exchange {cls} of {width} lanes, {items} items, {square} squared", made, wanted)


def test_tiles(wave: int) -> None:
    """Each way to load a tile with each to store one; what is not valid is neither read nor written."""
    draw = Draw(wave)
    width, items, (cls, dtype) = draw.width(), draw.randint(1, 5), draw.choice(CLASSES)
    size, tiles = width * items, 2 * wave // width
    valid, shift = draw.randint(0, size), draw.randint(0, 3)
    ways = [way.name for way in COOP.WarpLoadAlgorithm]

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, count: fx.Int32):
        tile = fx.thread_idx.x // width
        for i, way in enumerate(ways):
            load = COOP.WarpLoad[cls, width, items, COOP.WarpLoadAlgorithm[way]]
            store = COOP.WarpStore[cls, width, items, COOP.WarpStoreAlgorithm[way]]
            some = load.load(x, offset=shift + tile * size, valid_items=count, default=9)
            store.store(y[None, i], some, offset=tile * size)
            all_of_it = load.load(fx.get_iter(x), offset=shift + tile * size)
            store.store(z[None, i], all_of_it, offset=shift + tile * size, valid_items=count)

    @flyc.jit
    def launch(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, count: fx.Int32):
        kernel(x, y, z, count).launch(grid=1, block=2 * wave)

    x = draw.values(dtype, (shift + tiles * size,), 0, 100)
    y, z = np.full((tiles * size, 4), 7, dtype), np.full((shift + tiles * size, 4), 7, dtype)
    launch(x, y, z, valid)
    inside = np.arange(tiles * size) % size < valid
    said = f"draw {draw.number}: {cls}, {width} lanes, {items} items, {valid} valid, from {shift}"
    for i, way in enumerate(ways):
        np.testing.assert_array_equal(y[:, i], np.where(inside, x[shift:], 9), f"{said}, {way}")
        np.testing.assert_array_equal(z[shift:, i], np.where(inside, x[shift:], 7), f"{said}, {way}")
        assert (z[:shift] == 7).all(), said


@fx.struct
class Line:
    """y = slope * x + start; following one with another is associative and not commutative."""

    slope: fx.Int32
    start: fx.Int32


def follow(a: Any, b: Any) -> Any:
    return Line(a.slope * b.slope, a.start * b.slope + b.start)


def test_structs_and_vectors(wave: int) -> None:
    """Elements of several parts, as they are combined, sorted, moved and kept in shared memory."""
    draw = Draw(wave)
    width, valid = draw.choice([4, 8, 16]), 3
    x = draw.values(np.int32, (2 * wave, 2), -5, 5)

    def body(x: list[Any], count: Any) -> list[Any]:
        line, pair = Line(x[0], x[1]), fx.Vector.from_elements(x, fx.Int32)
        total = COOP.warp_reduce(line, follow, width=width)
        some = COOP.warp_reduce(line, follow, width=width, valid_items=count)
        inclusive, exclusive, _ = COOP.warp_scan_with_aggregate(line, follow, width=width, init=Line(1, 0))
        both = COOP.WarpReduce[fx.Int32x2, width].reduce(pair, MAX)
        kind = COOP.WarpExchange[Line, width, 2]
        scratch = fx.SharedAllocator().allocate(fx.Array[kind.SharedStorage, 2 * wave // width]).peek()
        striped = kind.blocked_to_striped([line, Line(x[1], x[0])], storage=scratch[fx.thread_idx.x // width])
        (low,) = COOP.warp_merge_sort([line], width=width, compare_op=lambda a, b: a.start < b.start)
        parts = (total, some, inclusive, exclusive, *striped, low)
        return [*(n for part in parts for n in (part.slope, part.start)), both[0], both[1]]

    made = run(body, x, 16, valid)

    def then(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return tuple((int(n) + 2**31) % 2**32 - 2**31 for n in (a[0] * b[0], a[1] * b[0] + b[1]))  # type: ignore

    wanted: list[list[Any]] = []
    for g in groups(x, width):
        lines = [(lane[0], lane[1]) for lane in g]
        tile = [part for slope, start in lines for part in ((slope, start), (start, slope))]
        ordered = sorted(lines, key=lambda line: line[1])
        for lane in range(width):
            parts = [
                functools.reduce(then, lines), functools.reduce(then, lines[:valid]),
                functools.reduce(then, lines[: lane + 1]), functools.reduce(then, lines[:lane], (1, 0)),
                tile[lane], tile[width + lane], ordered[lane],
            ]  # fmt: skip
            wanted.append([*(n for part in parts for n in part), *(max(lane[k] for lane in g) for k in range(2))])
    same(draw, f"structs of {width} lanes", made, wanted)
