"""Histograms, decoded runs and the largest items of blocks, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import coop

from .blocks import ARCHS, GPUS, NUMPY, Draw, compiled, poison, random, rank_of, read, run, threads_of, write
from .test_block_sort import stable, words


@flyc.jit
def copy_if(condition, target, source, at):
    if condition:
        target[at] = source[at]


@pytest.mark.parametrize("arch", ARCHS)
def test_histograms(arch: str, draw: Draw):
    block, items, bins = draw.small_block(arch), draw.number(1, 2), draw.number(1, 40)
    threads = threads_of(block)
    count = threads * items
    dtype, counter = draw.of(fx.Int8, fx.Uint16, fx.Int32, fx.Float32), draw.of(fx.Int32, fx.Uint32, fx.Uint64)
    x = draw.rng.integers(-2 if dtype.signed else 0, min(bins + 3, 127), count).astype(NUMPY[dtype])
    atomic, sort = poison(fx.Int32, bins), poison(counter, bins)

    def body(place, x, atomic, sort):
        value = read(x, block, items, draw.of("vector", "list"))
        by_atomics = coop.BlockHistogram[dtype, block, bins]
        counting = place(by_atomics)
        by_atomics(value, storage=counting)
        twice = by_atomics.composite(value, storage=counting)
        by_sorting = coop.BlockHistogram[(dtype, counter), block, bins, coop.BlockHistogramAlgorithm.SORT]
        assert (by_sorting.bins, by_sorting.value_dtype) == (bins, counter)
        scratch = place(by_sorting)
        by_sorting.init(storage=scratch)
        once = by_sorting.composite(value, storage=scratch)
        for first in range(0, bins, threads):
            bin_ = rank_of(block) + first
            copy_if(bin_ < bins, atomic, twice, bin_)
            copy_if(bin_ < bins, sort, once, bin_)

    run(body, x, atomic, sort, block=block, arch=arch)
    inside = x.astype("i4")[(x >= 0) & (x < bins)]
    want = np.bincount(inside, minlength=bins)
    assert atomic.tolist() == (2 * want).tolist() and sort.tolist() == want.tolist()


@pytest.mark.parametrize("arch", ARCHS)
def test_runs_are_decoded(arch: str, draw: Draw):
    block, runs, many = draw.block(arch), draw.number(1, 3), draw.number(1, 3)
    threads = threads_of(block)
    dtype, counter = draw.of(fx.Int8, fx.Float32, fx.Int64), draw.of(fx.Int32, fx.Uint32, fx.Int64)
    x = random(draw.rng, dtype, threads * runs)
    lengths = draw.rng.integers(0, draw.of(2, 4), threads * runs).astype("i4")
    starts = (np.cumsum(lengths) - lengths + 2).astype("i4")
    offset = np.array([draw.number(0, int(lengths.sum()))], "i4")
    items, windows = poison(dtype, threads * many * 2), poison(counter, threads * many * 2)
    totals = poison(counter, threads * 2)

    def body(place, x, lengths, starts, offset, items, windows, totals):
        decode = coop.BlockRunLengthDecode[(dtype, counter), block, runs]
        scratch = place(decode)
        value = read(x, block, runs)
        made = [decode(value, read(lengths, block, runs), storage=scratch, decoded_items_per_thread=many)]
        state = decode.init_with_run_offsets(value, read(starts, block, runs), storage=scratch, total=40)
        made.append(state.run_length_decode(decoded_items_per_thread=many, offset=offset[0], default=5))
        for i, (found, places, _) in enumerate(made):
            assert (found.dtype, places.dtype) == (dtype, counter)
            write(items, found, block, i * threads * many)
            write(windows, places, block, i * threads * many)
        write(totals, [total for *_, total in made], block)

    run(body, x, lengths, starts, offset, items, windows, totals, block=block, arch=arch)
    count, total = threads * many, int(lengths.sum())
    nowhere = np.array(-1).astype(windows.dtype)
    values = np.repeat(x, lengths)
    places = np.concatenate([np.arange(n) for n in lengths])

    def window(line: np.ndarray, fill: object) -> list:
        return [line[i] if 0 <= i < len(line) else fill for i in range(count)]

    assert items[:count].tolist() == window(values, 0)
    assert windows[:count].tolist() == window(places, nowhere)
    # The second runs begin at 2, and the last one goes on, or is cut, until 40.
    at = np.arange(count) + offset[0]
    run_of = np.searchsorted(starts, at, side="right") - 1
    inside = (run_of >= 0) & (at < 40)
    assert items[count:].tolist() == np.where(inside, x[run_of], 5).tolist()
    assert windows[count:].tolist() == np.where(inside, (at - starts[run_of]).astype(windows.dtype), nowhere).tolist()
    assert totals.reshape(threads, 2).tolist() == [[total, 40]] * threads


@pytest.mark.parametrize("arch", ARCHS)
def test_the_largest(arch: str, draw: Draw):
    block, items = draw.small_block(arch), draw.number(1, 2)
    count = threads_of(block) * items
    dtype, largest = draw.of(fx.Int8, fx.Uint16, fx.Int32, fx.Float32), draw.of(False, True)
    valid = draw.number(0, count)
    k = draw.number(0, valid)
    x, limits = random(draw.rng, dtype, count, few=draw.of(False, True)), np.array([k, valid], "i4")
    keys, values, flags = poison(dtype, count * 2), poison(fx.Int32, count * 2), poison(fx.Int32, count * 2)

    def body(place, x, limits, keys, values, flags):
        for i, algorithm in enumerate(coop.BlockTopKAlgorithm):
            top = coop.BlockTopK[(dtype, fx.Int32), block, items, algorithm]
            value, places = read(x, block, items), top.blocked_places()
            if i:
                made = top(value, limits[0], places, storage=place(top), largest=largest, num_valid=limits[1])
            else:
                named = top.max_pairs if largest else top.min_pairs
                made = named(value, places, k, valid, storage=place(top))
            assert made[2].dtype is fx.Boolean
            for target, one in zip((keys, values, flags), (*made[:2], made[2].to(fx.Int32)), strict=True):
                write(target, one, block, i * count)

    run(body, x, limits, keys, values, flags, block=block, arch=arch)
    order = stable(words(x[:valid]), largest)[:k]
    for i, chosen in enumerate((order, np.sort(order))):
        assert flags[i * count :][:count].tolist() == [1] * k + [0] * (count - k)
        assert values[i * count :][:k].tolist() == chosen.tolist()
        assert keys[i * count :][:k].tolist() == x[chosen].tolist()


@pytest.mark.parametrize("target", GPUS)
def test_they_compile_for_gpus(target: str):
    def body(place, x, out):
        top = coop.BlockTopK[fx.Float32, 128, 4, coop.BlockTopKAlgorithm.AIR]
        keys, _ = top.max_keys(read(x, 128, 4), 10, storage=place(top))
        histogram = coop.BlockHistogram[fx.Float32, 128, 32]
        counts = histogram(keys, storage=place(histogram))
        decode = coop.BlockRunLengthDecode[fx.Float32, 128, 1]
        made = decode(keys[0], counts[fx.thread_idx.x % 32], storage=place(decode), decoded_items_per_thread=4)
        write(out, made[0], 128)

    assert compiled(body, *(np.zeros(512, "f4") for _ in range(2)), block=128, target=target)
