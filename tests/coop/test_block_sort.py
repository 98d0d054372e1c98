"""Sorts and ranks of blocks: keys of every kind, values, orders, ranges of bits, against stable sorts by numpy."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.expr import coop

from .blocks import ARCHS, GPUS, NUMPY, Draw, compiled, poison, random, read, run, threads_of, write

DTYPES = (fx.Int8, fx.Uint8, fx.Int16, fx.Int32, fx.Uint32, fx.Int64, fx.Float16, fx.Float32, fx.Float64)


def words(x: np.ndarray) -> np.ndarray:
    """Unsigned numbers in the order of the keys: the bits of floats and signed integers, turned around."""
    width = x.dtype.itemsize * 8
    kind = np.dtype(f"u{x.dtype.itemsize}")
    top = kind.type(1 << (width - 1))
    if x.dtype.kind == "u":
        return x
    bits = x.view(kind)
    if x.dtype.kind == "i":
        return bits ^ top
    bits = np.where(x == 0, kind.type(0), bits)
    return np.where(bits & top, ~bits, bits | top)


def stable(keys: np.ndarray, descending: bool) -> np.ndarray:
    """The order of a stable sort of unsigned numbers."""
    return np.argsort(~keys if descending else keys, kind="stable")


def with_nans(draw: Draw, x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        x[draw.rng.integers(len(x), size=3)] = np.nan
        x[draw.rng.integers(len(x), size=2)] = -np.nan
        x[draw.rng.integers(len(x), size=2)] = [np.inf, -np.inf]
    return x


@pytest.mark.parametrize("arch", ARCHS)
def test_radix_sorts(arch: str, draw: Draw):
    block, items = draw.small_block(arch), draw.number(1, 2)
    count = threads_of(block) * items
    dtype, algorithm = draw.of(*DTYPES), draw.of(*coop.BlockRadixSortAlgorithm)
    few, descending, striped = draw.of(False, True), draw.of(False, True), draw.of(False, True)
    x = with_nans(draw, random(draw.rng, dtype, count, few))
    low = draw.of(0, draw.number(0, dtype.width))
    high = draw.of(None, draw.number(low, dtype.width))
    keys, values, pairs = poison(dtype, count), poison(fx.Uint16, count), poison(fx.Int32, count)

    def body(place, x, keys, values, pairs):
        sort = coop.BlockRadixSort[(dtype, fx.Uint16), block, items, algorithm]
        value = read(x, block, items, draw.of("vector", "list"))
        order = fx.Vector.from_elements(
            [fx.Uint16(p) for p in coop.BlockExchange[dtype, block, items].blocked_places()], fx.Uint16
        )
        made = sort(value, order, storage=place(sort), descending=descending, begin_bit=low, end_bit=high,
                    radix_bits=draw.of(None, 3, 8), blocked_to_striped=striped)  # fmt: skip
        for target, one in zip((keys, values), made, strict=True):
            write(target, one, block)
        # Two fields: the lowest bit of the place first, the key's own low bits after it.
        plain = coop.BlockRadixSort[fx.Int32, block, items, coop.BlockRadixSortAlgorithm.RADIX_DIGIT]
        places = fx.Vector.from_elements([fx.Int32(p) for p in order], fx.Int32)
        fields = lambda p: ((p & 1) != 0, fx.Uint8(p ^ 5))  # noqa: E731
        write(pairs, plain(places, storage=place(plain), decomposer=fields, begin_bit=6), block)

    run(body, x, keys, values, pairs, block=block, arch=arch)
    width = dtype.width if high is None else high
    sorted_by = (words(x).astype("u8") >> np.uint64(low)) & np.uint64((1 << (width - low)) - 1) if width > low else None
    order = np.arange(count) if sorted_by is None else stable(sorted_by, descending)
    rows = (lambda v: v.reshape(items, -1).T.reshape(-1)) if striped else (lambda v: v)
    assert values.tolist() == rows(order).tolist()
    assert keys.view(f"u{x.itemsize}").tolist() == rows(x[order]).view(f"u{x.itemsize}").tolist()
    at = np.arange(count)
    assert pairs.tolist() == stable((at & 1) * 4 + (((at ^ 5) & 255) >> 6), False).tolist()


@pytest.mark.parametrize("arch", ARCHS)
def test_merge_sorts(arch: str, draw: Draw):
    block, items = draw.block(arch), draw.number(1, 3)
    count = threads_of(block) * items
    dtype, descending = draw.of(*DTYPES), draw.of(False, True)
    x = random(draw.rng, dtype, count, few=draw.of(False, True))
    valid = draw.number(0, count)
    limit = np.array([valid], "i4")
    keys, values, kept, modulo = (poison(kind, count) for kind in (dtype, fx.Int32, dtype, fx.Int32))
    by_rest = lambda a, b: a % 7 < b % 7  # noqa: E731

    def body(place, x, limit, keys, values, kept, modulo):
        sort = coop.BlockMergeSort[(dtype, fx.Int32), block, items]
        value = read(x, block, items)
        places = sort.blocked_places()
        made = sort(value, places, storage=place(sort), descending=descending, valid_items=limit[0], oob_default=3)
        write(keys, made[0], block)
        write(values, made[1], block)
        plain = coop.BlockMergeSort[dtype, block, items]
        write(kept, plain.stable_sort(value, storage=place(plain), valid_items=valid), block)
        whole = coop.BlockMergeSort[fx.Int32, block, items]
        write(modulo, whole.sort(places, storage=place(whole), compare_op=by_rest, descending=descending), block)

    run(body, x, limit, keys, values, kept, modulo, block=block, arch=arch)
    order = stable(words(x[:valid]), descending)
    assert keys.tolist() == [*x[:valid][order], *[3] * (count - valid)]
    assert values.tolist() == [*order, *[0] * (count - valid)]
    assert kept.tolist() == [*x[:valid][stable(words(x[:valid]), False)], *x[valid:]]
    assert modulo.tolist() == stable((np.arange(count) % 7).astype("u4"), descending).tolist()


@fx.struct
class Point:
    x: fx.Int16
    y: fx.Float32


def test_structs_are_sorted(draw: Draw):
    block, items = 64, 2
    x = random(draw.rng, fx.Int32, block * items, few=True)
    out, ranked = poison(fx.Float32, block * items), poison(fx.Float32, block * items)

    def body(place, x, out, ranked):
        points = [Point(v.to(fx.Int16), v.to(fx.Float32) * 0.5) for v in read(x, block, items)]
        merge = coop.BlockMergeSort[Point, block, items]
        made = merge(points, storage=place(merge), compare_op=lambda a, b: a.y > b.y)
        write(out, [p.y for p in made], block)
        radix = coop.BlockRadixSort[Point, block, items, coop.BlockRadixSortAlgorithm.RADIX_DIGIT]
        made = radix(points, storage=place(radix), decomposer=lambda p: (p.x, p.y), begin_bit=32)
        write(ranked, [p.y for p in made], block)

    run(body, x, out, ranked, block=block, arch="sm_90a")
    assert out.tolist() == (np.sort(x)[::-1] * 0.5).tolist() and ranked.tolist() == (np.sort(x) * 0.5).tolist()


@pytest.mark.parametrize("arch", ARCHS[:2])
def test_ranks(arch: str, draw: Draw):
    block, items = draw.small_block(arch), draw.number(1, 2)
    threads = threads_of(block)
    count = threads * items
    dtype = draw.of(fx.Int8, fx.Uint16, fx.Int32, fx.Int64)
    descending, bits = draw.of(False, True), draw.number(1, 4)
    low = draw.number(0, dtype.width - bits)
    blocked = draw.of(coop.BlockRadixRankAlgorithm.BASIC, coop.BlockRadixRankAlgorithm.MEMOIZE)
    matching = draw.of(*list(coop.BlockRadixRankAlgorithm)[2:])
    x = random(draw.rng, dtype, count, few=draw.of(False, True))
    ranks, wide, striped = (poison(fx.Int32, count) for _ in range(3))
    many = -(-(1 << bits) // threads)
    counts, offsets = (poison(fx.Int32, threads * many) for _ in range(2))

    def body(place, x, ranks, wide, striped, counts, offsets):
        rank = coop.BlockRadixRank.with_radix_bits(5)[dtype, block, items, blocked]
        value = read(x, block, items)
        made = rank(value, storage=place(rank), descending=descending, begin_bit=low, end_bit=low + bits)
        write(ranks, made, block)
        write(wide, rank.rank(value, storage=place(rank), begin_bit=low), block)
        exchange = coop.BlockExchange[dtype, block, items]
        in_warps = exchange.blocked_to_warp_striped(value, storage=place(exchange))
        match = coop.BlockRadixRank.with_radix_bits(4)[dtype, block, items, matching]
        made, before = match(
            in_warps, storage=place(match), descending=descending, radix_bits=bits, with_prefix=True,
            digit_extractor=lambda key: (key >> low) & ((1 << bits) - 1),
            count_callback=lambda mine: write(counts, mine, block),
        )  # fmt: skip
        write(offsets, before, block)
        back = coop.BlockExchange[fx.Int32, block, items]
        write(striped, back.warp_striped_to_blocked(made, storage=place(back)), block)

    run(body, x, ranks, wide, striped, counts, offsets, block=block, arch=arch)
    raw = x.view(f"u{x.itemsize}").astype("u8") >> np.uint64(low)
    digits = raw & np.uint64((1 << bits) - 1)
    inverse = lambda order: np.argsort(order).tolist()  # noqa: E731
    assert ranks.tolist() == inverse(stable(digits, descending))
    assert striped.tolist() == ranks.tolist()
    assert wide.tolist() == inverse(stable(raw, False))
    found = np.bincount(digits.astype(int), minlength=1 << bits)
    assert counts[: 1 << bits].tolist() == found.tolist() and not counts[1 << bits :].any()
    before = np.cumsum(found[::-1])[::-1] - found if descending else np.cumsum(found) - found
    assert offsets[: 1 << bits].tolist() == before.tolist()


@pytest.mark.parametrize("target", GPUS)
def test_they_compile_for_gpus(target: str):
    def body(place, x, out):
        radix = coop.BlockRadixSort[(fx.Float32, fx.Int32), 256, 8, coop.BlockRadixSortAlgorithm.RADIX_DIGIT]
        merge = coop.BlockMergeSort[fx.Float32, 256, 8]
        load = coop.BlockLoad[fx.Float32, 256, 8, coop.BlockLoadAlgorithm.VECTORIZE]
        keys, _ = radix(load(x), radix.blocked_places(), storage=place(radix))
        write(out, merge(keys, storage=place(merge), descending=True), 256)

    asm = compiled(body, *(np.zeros(2048, NUMPY[fx.Float32]) for _ in range(2)), block=256, target=target)
    lines = [line for line in asm.splitlines() if line.startswith("\t") and not line.lstrip().startswith(".")]
    assert 200 < len(lines) < 2000  # rounds and passes are loops
