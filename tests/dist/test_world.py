"""Worlds of threads: how ranks start, meet, share memory, fail and end."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.dist import SymmetricTensor, World, spawn
from flydsl.errors import DSLTypeError, DSLValueError, FlyRuntimeError, InvalidHandleError, KernelDeadlockError
from flydsl.runtime import get_device_runtime


def test_results_come_by_rank():
    def run(world: World, base: int, *, step: int) -> tuple[int, int, int, list[bytes]]:
        return world.rank, world.size, base + step * world.rank, world.gather(bytes([world.rank]))

    found = spawn(run, 3, 100, step=10)
    assert found == [(r, 3, 100 + 10 * r, [b"\0", b"\1", b"\2"]) for r in range(3)]
    assert get_device_runtime().device_count() == 1, "devices for ranks are there as long as ranks"


@pytest.mark.parametrize("world", [0, -1, 2.0, "two"])
def test_a_world_has_ranks(world: object):
    with pytest.raises(DSLValueError, match="one or more ranks"):
        spawn(lambda world: None, world)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("dtype", ["float32", np.float16, np.dtype("int64"), fx.BFloat16, ml_dtypes.bfloat16, fx.Uint8])
def test_every_rank_sees_the_memory_of_all(dtype: object):
    def run(world: World) -> None:
        x = world.symmetric((2, 3), dtype)
        assert x.shape == (2, 3) and x.world == 3 and not x.local.astype("f8").any()
        world.barrier()
        x.copy_from(np.full((2, 3), world.rank + 1))
        world.barrier()
        for other in range(3):
            assert (x.numpy(other).astype("f8") == other + 1).all()
        assert x.local.dtype == x.numpy().dtype and (x.local.astype("i4") == world.rank + 1).all()
        assert x.address(1) - x.address(0) == x.strides[0] * x.itemsize
        world.barrier()
        x.local[1, 2] = 9
        assert x.numpy()[1, 2] == 9

    spawn(run, 3)


def test_memory_lives_as_long_as_someone_has_it():
    def run(world: World) -> tuple[SymmetricTensor, object]:
        x, y = world.symmetric(5), world.symmetric(7)
        x.local[:] = world.rank
        y.free()
        with pytest.raises(InvalidHandleError, match="was freed"):
            y.numpy()
        world.barrier()
        return x, x.local

    runtime = get_device_runtime()
    kept = spawn(run, 2)
    views = [view for _, view in kept]
    del kept
    gc.collect()
    assert [view.tolist() for view in views] == [[0] * 5, [1] * 5]  # pyright: ignore[reportAttributeAccessIssue]
    assert len(runtime._mapped) == 1  # pyright: ignore[reportAttributeAccessIssue]
    del views
    gc.collect()
    runtime.drain_releases()
    assert not runtime._mapped  # pyright: ignore[reportAttributeAccessIssue]


def test_mistakes_are_told():
    def run(world: World) -> None:
        x = world.symmetric(4)
        with pytest.raises(DSLValueError, match=r"has the shape \(4,\) in each rank, got \(5,\)"):
            x.copy_from(np.zeros(5))
        with pytest.raises(DSLValueError, match="ranks are 0 to 1, got 2"):
            x.address(2)
        with pytest.raises(DSLValueError, match="one or more extents"):
            world.symmetric((2, -1))
        with pytest.raises(DSLTypeError, match="holds one of float64, .*, got 'complex64'"):
            world.symmetric(4, "complex64")
        with pytest.raises(DSLValueError, match=r"asks for a symmetric tensor \(\d,\) float32 and rank \d for"):
            world.symmetric(4 + world.rank)

    spawn(run, 2)


def test_the_first_failure_is_raised_and_the_others_are_told():
    told: list[str] = []

    def run(world: World) -> None:
        if world.rank == 1:
            raise KeyError("gone")
        try:
            world.barrier()
        except FlyRuntimeError as error:
            told.append(str(error))
            raise

    with pytest.raises(KeyError, match="gone") as caught:
        spawn(run, 3)
    assert caught.value.__notes__ == ["in rank 1 of 3"]
    assert len(told) == 2 and all("another rank has failed" in text for text in told)


@flyc.kernel
def _count_kernel(x: fx.Tensor):
    x[0] = x[0] + 1


@flyc.jit
def _count(x: fx.Tensor):
    _count_kernel(x).launch(grid=1, block=1)


def test_every_rank_has_code_of_its_own_also_for_what_was_called_before(monkeypatch: pytest.MonkeyPatch):
    """Tables of checked mode are the code's: ranks must not share them."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    runtime: Any = get_device_runtime()
    cell = np.zeros(1, np.int32)
    for _ in range(4):
        _count(cell)
    before = len(runtime._modules)

    def run(world: World) -> tuple[int, int]:
        mine = np.zeros(1, np.int32)
        for _ in range(4):
            _count(mine)
        # Code goes with the rank that had it.
        world.barrier()
        loaded = len(runtime._modules)
        world.barrier()
        return int(mine[0]), loaded

    found = spawn(run, 3)
    assert [count for count, _ in found] == [4, 4, 4] and cell[0] == 4
    assert {loaded for _, loaded in found} == {before + 2}, "rank 0 has the device of this thread"
    _count(cell)
    assert cell[0] == 5


@flyc.kernel
def _lonely_kernel(flags: fx.Tensor, rank: fx.Int32):
    fx.dist.barrier(flags, rank, 1)


@flyc.jit
def _lonely(flags: fx.Tensor, rank: fx.Int32):
    _lonely_kernel(flags, rank).launch(grid=1, block=32)


@pytest.mark.parametrize("fails", [True, False])
def test_kernels_that_wait_for_a_rank_that_is_gone_are_stopped(fails: bool):
    def run(world: World) -> None:
        flags = world.symmetric(world.size, "int32")
        if world.rank == 1:
            if fails:
                raise KeyError("gone")
            return
        _lonely(flags, world.rank)

    before, started = threading.active_count(), time.monotonic()
    if fails:
        with pytest.raises(KeyError, match="gone"):
            spawn(run, 3)
    else:
        with pytest.raises(KernelDeadlockError, match="after 1 s these ranks had not ended: 0, 2"):
            spawn(run, 3, timeout=1.0)
    assert time.monotonic() - started < 60 and threading.active_count() == before
