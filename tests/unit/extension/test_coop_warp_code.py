"""Collectives of warps: what they refuse, the code they become on GPUs, and lanes that meet on the cpu stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

ADD, MAX = fx.ReductionOp.ADD, fx.ReductionOp.MAX
COOP: Any = fx.coop
EXCHANGE, LOAD = COOP.WarpExchangeAlgorithm, COOP.WarpLoadAlgorithm


def launcher(body: Callable[..., Any], block: int = 64) -> Any:
    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
        body(x, y, n)

    @flyc.jit
    def launch(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
        kernel(x, y, n).launch(grid=1, block=block)

    return launch


def assembly(body: Callable[..., Any], target: str, dtype: Any = np.int32) -> str:
    x = np.zeros(256, dtype)
    return flyc.compile(launcher(body), x, x.copy(), 3, target=target).artifact.asm


REFUSED: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda t: COOP.warp_reduce([], ADD), ValueError, "at least one item"),
    (lambda t: COOP.warp_reduce(t, ADD, width=4, valid_items=5), ValueError, "valid_items must be from 0 to 4, got 5"),
    (lambda t: COOP.warp_reduce(t, ADD, width=4, valid_items=1.5), TypeError, "valid_items must be an integer"),
    (lambda t: COOP.warp_reduce([t, fx.Float32(1)], ADD), TypeError, "items of one class"),
    (lambda t: COOP.warp_scan([t, t], ADD, valid_items=1), TypeError, "combine the items of a lane first"),
    (lambda t: COOP.warp_scan(t, ADD, init=[1, 2]), TypeError, "init must be one Int32"),
    (lambda t: COOP.warp_broadcast(t, 4, width=4), ValueError, "source_lane must be from 0 to 3, got 4"),
    (lambda t: COOP.warp_head_segmented_reduce(t, fx.Float32(1), ADD), TypeError, "head_flag must be a Boolean"),
    (lambda t: COOP.warp_reduce_batched(t, ADD), TypeError, r"for one write \[x\]"),
    (lambda t: COOP.warp_reduce_batched([t] * 5, ADD, width=4), ValueError, "1 to 4 reductions, got 5"),
    (lambda t: COOP.warp_reduce_batched([t], ADD, sync_physical_warp=1), TypeError, "True or False"),
    (lambda t: COOP.warp_bitonic_sort(t, compare_op=lambda a, b: a < b), TypeError, "keys must be a list"),
    (lambda t: COOP.warp_merge_sort([t], [t, t], compare_op=lambda a, b: a < b), ValueError, "as many as keys, 1"),
    (lambda t: COOP.warp_merge_sort([t], compare_op=None), TypeError, "compare_op must be a function"),
    (lambda t: COOP.WarpReduce[fx.Int32, 3], ValueError, "power of two or None, got 3"),
    (lambda t: COOP.WarpReduce[fx.Int32, 128], ValueError, "warp size 64"),
    (lambda t: COOP.WarpReduce[int], TypeError, "scalar class such as fx.Float32"),
    (lambda t: COOP.WarpReduce[fx.Int32, 8, 2], TypeError, r"write WarpReduce\[dtype, width\]"),
    (lambda t: COOP.WarpReduce[fx.Int32, 8][fx.Int32], TypeError, "already specialized"),
    (lambda t: COOP.WarpReduce.reduce(t, ADD), TypeError, "specialize first"),
    (lambda t: COOP.WarpReduce[fx.Int32, 8](t, ADD), TypeError, "use one of its methods"),
    (lambda t: COOP.WarpReduce[fx.Int32, 8].reduce(t, ADD, storage=3), TypeError, "SharedStorage"),
    (lambda t: COOP.WarpExchange[fx.Int32, 8], TypeError, "items_per_thread, algorithm"),
    (lambda t: COOP.WarpExchange[fx.Int32, 8, 0], ValueError, "at least 1, got 0"),
    (lambda t: COOP.WarpExchange[fx.Int32, 8, 2, LOAD.DIRECT], TypeError, "must be a WarpExchangeAlgorithm"),
    (lambda t: COOP.WarpExchange[fx.Int32, 8, 2, EXCHANGE.SHUFFLE], ValueError, "as many items as lanes, 8"),
    (lambda t: COOP.WarpExchange[fx.Int32, 8, 2].blocked_to_striped([t, t]), TypeError, "give the storage"),
    (lambda t: COOP.WarpExchange[fx.Int32, 8, 2].blocked_to_striped([t]), ValueError, "must hold 2 items, got 1"),
    (
        lambda t: COOP.WarpExchange[fx.Int32, 2, 2, EXCHANGE.SHUFFLE].scatter_to_striped([t, t], [t, t]),
        ValueError,
        "use SHARED",
    ),
    (lambda t: COOP.WarpLoad[fx.Int32, 8, 2].load(3), TypeError, "source must be a tensor"),
    (
        lambda t: COOP.WarpBitonicSort[(fx.Int32, fx.Int32), 8, 1].sort([t], compare_op=lambda a, b: a < b),
        TypeError,
        "takes payloads",
    ),
]


def test_refused() -> None:
    """One trace for all of them: nothing is left behind by what was refused."""

    def body(x: Any, y: Any, n: Any) -> None:
        for call, error, words in REFUSED:
            with pytest.raises(error, match=words):
                call(n)
        with pytest.raises(ValueError, match="default is for items that are not valid"):
            COOP.WarpLoad[fx.Int32, 8, 2].load(x, default=1)
        y[0] = n

    assembly(body, "rocm:gfx942")


def test_specialized_classes_are_made_once_and_tell_what_they_are() -> None:
    kind = COOP.WarpExchange[fx.Int32, 8, 2]
    assert kind is COOP.WarpExchange[fx.Int32, 8, 2, EXCHANGE.Shared]
    assert kind.__name__ == "WarpExchange[Int32, 8, 2, SHARED]"
    assert (kind.dtype, kind.key_dtype, kind.value_dtype, kind.items_per_thread) == (fx.Int32, fx.Int32, None, 2)
    assert kind.algorithm is EXCHANGE.SHARED
    pair = COOP.WarpMergeSort[(fx.Int32, fx.Float32), None, 3]
    assert (pair.key_dtype, pair.value_dtype, pair.SharedStorage) == (fx.Int32, fx.Float32, fx.Empty)


@pytest.mark.parametrize(
    ("target", "moves"), [("rocm:gfx942", "_dpp"), ("rocm:gfx1201", "_dpp"), ("cuda:sm_90a", "shfl")]
)
def test_code(target: str, moves: str) -> None:
    """Lanes that do not count cost no shared memory; half-width and byte elements, structs and tiles compile."""

    def reductions(x: Any, y: Any, n: Any) -> None:
        t = fx.thread_idx.x
        y[t] = COOP.warp_reduce(x[t], ADD, width=16, valid_items=n)
        y[t + 64] = COOP.warp_inclusive_scan([x[t], x[t + 64]], MAX, width=16)[1]

    text = assembly(reductions, target)
    assert moves in text and "\tds_" not in text and ".shared" not in text

    def everything(x: Any, y: Any, n: Any) -> None:
        allocator = fx.SharedAllocator()
        for cls, width in ((fx.BFloat16, 32), (fx.Float8E4M3FN, 8)):
            load = COOP.WarpLoad[cls, width, 4, LOAD.VECTORIZE]
            source = fx.recast_iter(cls, fx.get_iter(x))
            items = load.load(source, valid_items=n, default=0)
            if cls is fx.BFloat16:
                items = COOP.warp_merge_sort(items, width=width, compare_op=lambda a, b: a < b)
            kind = COOP.WarpExchange[cls, width, 4]
            scratch = allocator.allocate(fx.Array[kind.SharedStorage, 64 // width]).peek()
            items = kind.blocked_to_striped(items, storage=scratch[fx.thread_idx.x // width])
            COOP.WarpStore[cls, width, 4].store(fx.recast_iter(cls, fx.get_iter(y)), items)

    assert assembly(everything, target)


@pytest.mark.covering
@pytest.mark.parametrize("target", ["cpu:gfx942", "cpu:gfx1201", "cpu:sm_90", None])
@pytest.mark.parametrize("checked", ["0", "1"])
def test_lanes_that_only_meet(target: str | None, checked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lanes wrote before a barrier of the warp is there after it, and is no race."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", checked)

    def mirrored() -> Any:
        t = fx.thread_idx.x
        kind = COOP.WarpExchange[fx.Int32, 16, 2]
        scratch = fx.SharedAllocator().allocate(fx.Array[kind.SharedStorage, 2]).peek()
        return kind.scatter_to_striped([t, t + 100], [31 - t % 16 * 2, 30 - t % 16 * 2], storage=scratch[t // 16])

    made = flyc.evaluate(mirrored, threads=32, target=target) if target else flyc.evaluate(mirrored, threads=32)
    tile = [n for lane in range(16) for n in (lane, lane + 100)][::-1]
    assert [list(row) for row in made[:16]] == [[tile[lane], tile[16 + lane]] for lane in range(16)]
    assert [list(row) for row in made[16:]] == [[tile[lane] + 16, tile[16 + lane] + 16] for lane in range(16)]
