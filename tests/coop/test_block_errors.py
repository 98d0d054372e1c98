"""What collectives of blocks refuse, and in which words."""

from __future__ import annotations

import inspect

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import coop

from .blocks import launcher

ADD = fx.ReductionOp.ADD
TILED = ("BlockExchange BlockHistogram BlockLoad BlockMergeSort BlockRadixRank BlockRadixSort BlockRunLengthDecode "
         "BlockStore BlockTopK").split()  # fmt: skip
PLAIN = "BlockReduce BlockScan BlockShuffle BlockAdjacentDifference BlockDiscontinuity".split()


def trace(body, target: str = "rocm:gfx942"):
    """Only the tracing of a body: what is refused is refused there."""
    import numpy as np

    flyc.compile(launcher(body, 64, 1), *(np.zeros(1, "i4") for _ in range(8)), target=target)


@pytest.mark.parametrize("name", [*PLAIN, *TILED])
def test_specializations(name: str):
    kind = getattr(coop, name)
    more = (4,) if name in TILED else ()
    with pytest.raises(TypeError, match="write "):
        kind[fx.Int32]
    with pytest.raises(TypeError, match="scalar class"):
        kind[(int, 64, *more)]
    with pytest.raises(TypeError, match="algorithm must be a Block.*Algorithm, got 'x'"):
        kind[(fx.Int32, 64, *more, "x")]
    for size in (0, (1, 2, 3, 4), 1.5):
        with pytest.raises(ValueError, match="block_size"):
            kind[(fx.Int32, size, *more)]
    if name in TILED:
        for count in (0, -1, 2.0, True):
            with pytest.raises(ValueError, match="must be a positive int"):
                kind[fx.Int32, 64, count]
    if not kind.pairs:
        with pytest.raises(TypeError, match="must be one class"):
            kind[((fx.Int32, fx.Int32), 64, *more)]
    made = kind[(fx.Int32, (16, 2, 2), *more)]
    assert (made.dtype, made.block_size, made.block_threads) == (fx.Int32, (16, 2, 2), 64)
    assert made.algorithm is next(iter(kind.algorithms)) and issubclass(made, kind)
    with pytest.raises(TypeError, match="already specialized"):
        made[(fx.Int32, 64, *more)]


def test_unspecialized():
    for name in [*PLAIN, *TILED]:
        with pytest.raises(TypeError, match="specialize first"):
            getattr(coop, name)(1, storage=None)
    with pytest.raises(TypeError, match="specialize first"):
        coop.BlockShuffle.up(1, storage=None)
    with pytest.raises(TypeError, match="specialize first"):
        coop.BlockExchange.blocked_to_striped(1, storage=None)
    with pytest.raises(TypeError, match="specialize first"):
        coop.BlockScan.inclusive(1, ADD, storage=None)
    assert list(inspect.signature(coop.BlockTopK).parameters)[:3] == ["keys", "k", "values"]


def test_blocks_must_fit():
    def body(place, x):
        for name, size in (("BlockRadixSort", 96), ("BlockExchange", 48), ("BlockMergeSort", (8, 3, 1))):
            with pytest.raises(ValueError, match="neither a multiple of the warp size 64"):
                getattr(coop, name)[fx.Int32, size, 2]

    trace(body)


def test_items_and_storage():
    def body(place, x):
        value = x[0]
        four = fx.Vector.from_elements([value] * 4)
        exchange = coop.BlockExchange[fx.Int32, 64, 3]
        with pytest.raises(ValueError, match="takes 3 items per thread, got 4"):
            exchange.blocked_to_striped(four, storage=place(exchange))
        with pytest.raises(ValueError, match="ranks must be 3 integers"):
            exchange.scatter_to_blocked([value] * 3, four, storage=place(exchange))
        with pytest.raises(TypeError, match="must be integers"):
            exchange.scatter_to_blocked([value] * 3, [1.0, 2.0, 3.0], storage=place(exchange))
        with pytest.raises(TypeError, match="takes Int32, got a Float32"):
            exchange.blocked_to_striped([value.to(fx.Float32)] * 3, storage=place(exchange))
        with pytest.raises(TypeError, match="SharedStorage"):
            exchange.blocked_to_striped([value] * 3, storage=4)
        load = coop.BlockLoad[fx.Int32, 64, 3, coop.BlockLoadAlgorithm.TRANSPOSE]
        with pytest.raises(TypeError, match="TRANSPOSE needs storage="):
            load(x)
        with pytest.raises(TypeError, match="indexed by element"):
            load(4)
        with pytest.raises(TypeError, match="indexed by element"):
            coop.BlockStore[fx.Int32, 64, 3](4, [value] * 3)
        shuffle = coop.BlockShuffle[fx.Int32, 64]
        with pytest.raises(TypeError, match="one item per thread"):
            shuffle.rotate(four, storage=place(shuffle))
        with pytest.raises(TypeError, match="not called itself; use one of its methods, such as offset"):
            shuffle(value, storage=place(shuffle))
        with pytest.raises(TypeError, match="items and counters are scalars"):
            kind = coop.BlockHistogram[fx.Int32x2, 64, 3]
            kind.init(storage=place(kind))

    trace(body)


def test_operators_and_prefixes():
    def body(place, x):
        value = x[0]
        reduce = coop.BlockReduce[fx.Int32, 64, coop.BlockReduceAlgorithm.RAKING_COMMUTATIVE_ONLY]
        with pytest.raises(TypeError, match="commutative = True"):
            reduce(value, lambda a, b: a, storage=place(reduce))
        with pytest.raises(TypeError, match="valid_items counts threads"):
            reduce([value, value], ADD, storage=place(reduce), valid_items=3)
        with pytest.raises(ValueError, match="valid_items must be from 0 to 64, got 65"):
            reduce(value, ADD, storage=place(reduce), valid_items=65)
        with pytest.raises(TypeError, match="need a function of two items"):
            kind = coop.BlockReduce[fx.Int32x2, 64]
            kind(fx.full(2, 1, fx.Int32), ADD, storage=place(kind))
        scan = coop.BlockScan[fx.Int32, 64]
        with pytest.raises(TypeError, match="pass identity="):
            scan.inclusive(value, lambda a, b: a + b, storage=place(scan), valid_items=3)
        with pytest.raises(ValueError, match="init and prefix_callback"):
            scan.inclusive(value, ADD, storage=place(scan), init=1, prefix_callback=lambda total: total)

    trace(body)


def test_sorts_and_ranks():
    def body(place, x):
        value = x[0]
        merge = coop.BlockMergeSort[fx.Int32, 64, 1]
        with pytest.raises(TypeError, match="sorts keys alone"):
            merge(value, value, storage=place(merge))
        with pytest.raises(ValueError, match="valid_items must be from 0 to 64"):
            merge(value, storage=place(merge), valid_items=-1)
        with pytest.raises(TypeError, match="pass compare_op="):
            kind = coop.BlockMergeSort[fx.Int32x2, 64, 1]
            kind(fx.full(2, 1, fx.Int32), storage=place(kind))
        radix = coop.BlockRadixSort[fx.Int32, 64, 1]
        with pytest.raises(ValueError, match="begin_bit <= end_bit <= 32"):
            radix(value, storage=place(radix), begin_bit=3, end_bit=33)
        with pytest.raises(ValueError, match="radix_bits must be a Python int from 1 to 30"):
            radix(value, storage=place(radix), radix_bits=0)
        with pytest.raises(TypeError, match="narrower than a byte"):
            coop.BlockRadixSort[fx.Int4, 64, 1]
        top = coop.BlockTopK[fx.Int32, 64, 1, coop.BlockTopKAlgorithm.AIR]
        with pytest.raises(TypeError, match="MERGE takes a compare_op"):
            top(value, 3, storage=place(top), compare_op=lambda a, b: a < b)
        with pytest.raises(ValueError, match="k must be from 0 to 64, got 65"):
            top(value, 65, storage=place(top))
        with pytest.raises(ValueError, match="k must be from 0 to num_valid"):
            top(value, 9, storage=place(top), num_valid=8)
        rank = coop.BlockRadixRank[fx.Int32, 64, 1]
        with pytest.raises(ValueError, match="take a MATCH algorithm"):
            rank(value, storage=place(rank), end_bit=4, count_callback=lambda counts: None)
        with pytest.raises(ValueError, match="those of one pass, of at most 8 bits; got 32"):
            rank(value, storage=place(rank), with_prefix=True)
        with pytest.raises(ValueError, match="digits of 8 bits, got radix_bits=9"):
            rank(value, storage=place(rank), radix_bits=9)
        with pytest.raises(ValueError, match="needs radix_bits="):
            rank(value, storage=place(rank), digit_extractor=lambda key: key)
        with pytest.raises(TypeError, match="need a digit_extractor"):
            kind = coop.BlockRadixRank[fx.Float32, 64, 1]
            kind(value.to(fx.Float32), storage=place(kind))
        decode = coop.BlockRunLengthDecode[fx.Int32, 64, 1]
        with pytest.raises(ValueError, match="decoded_items_per_thread"):
            decode(value, value, storage=place(decode), decoded_items_per_thread=0)
        with pytest.raises(TypeError, match="offsets are integers"):
            kind = coop.BlockRunLengthDecode[(fx.Int32, fx.Float32), 64, 1]
            kind(value, value, storage=place(kind))

    trace(body)


def test_shared_memory_that_does_not_fit():
    """2**15 counters for each warp are more than a block has."""

    def body(place, x):
        rank = coop.BlockRadixRank.with_radix_bits(15)[fx.Int32, 64, 1]
        x[fx.thread_idx.x] = rank(x[fx.thread_idx.x], storage=place(rank), end_bit=4)

    with pytest.raises(Exception, match="shared memory"):
        trace(body)
