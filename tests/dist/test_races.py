"""Checked mode finds races between ranks, and blames nobody who has a flag in between."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.dist import World, spawn
from flydsl.errors import KernelCheckError

LIMIT = 60.0


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


@flyc.kernel
def turn_kernel(
    x: fx.Tensor, out: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, turn: fx.Int32, barriers: fx.Constexpr[int]
):
    """Write what is mine, read what is the next one's."""
    t = fx.thread_idx.x
    fx.dist.peer(x, rank)[t] = fx.Float32(rank * 100 + turn)
    if fx.const_expr(barriers & 1):
        fx.dist.barrier(flags, rank, 2 * turn + 1)
    out[t] = fx.dist.peer(x, (rank + 1) % fx.dist.world(x))[t]
    if fx.const_expr(barriers & 2):
        fx.dist.barrier(flags, rank, 2 * turn + 2)


@flyc.jit
def take_turn(
    x: fx.Tensor, out: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, turn: fx.Int32, barriers: fx.Constexpr[int]
):
    turn_kernel(x, out, flags, rank, turn, barriers).launch(grid=1, block=32)


def _turns(world: World, barriers: int, on_host: bool = False) -> None:
    x, flags = world.symmetric(32), world.symmetric(world.size, "int32")
    out = np.zeros(32, np.float32)
    for turn in range(3):
        take_turn(x, out, flags, world.rank, turn, barriers)
        if on_host:
            world.barrier()


@pytest.mark.parametrize("barriers", [0, 1, 2])
def test_a_missing_barrier_is_found(barriers: int):
    """Whichever of two accesses comes second reports it."""
    with pytest.raises(KernelCheckError, match=r"race between ranks on the tensor of argument 0 \('x'\)") as caught:
        spawn(_turns, 3, barriers, timeout=LIMIT)
    assert "with no flag in between" in str(caught.value) and "the other access: rank " in str(caught.value)


def test_nobody_is_blamed_who_has_both_barriers():
    spawn(_turns, 3, 3, timeout=LIMIT)


def test_a_barrier_of_the_host_orders_ranks():
    spawn(_turns, 2, 1, True, timeout=LIMIT)


@flyc.kernel
def halves_kernel(x: fx.Tensor, rank: fx.Int32):
    """All ranks write into rank 0's part, each its own element of two bytes."""
    fx.dist.peer(x, 0)[fx.thread_idx.x * 3 + rank] = fx.Float16(rank)


@flyc.jit
def halves(x: fx.Tensor, rank: fx.Int32):
    halves_kernel(x, rank).launch(grid=1, block=8)


def test_neighbours_do_not_race():
    def run(world: World) -> None:
        x = world.symmetric(24, "float16")
        halves(x, world.rank)
        world.barrier()
        assert (x.numpy(0).reshape(8, 3) == np.arange(3)).all()

    spawn(run, 3, timeout=LIMIT)


@flyc.kernel
def send_kernel(x: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, value: fx.Int32, tells: fx.Constexpr[bool]):
    """Rank 0 writes for rank 1, which waits: one thread each, and no barrier of a block."""
    flag = fx.get_iter(fx.dist.peer(flags, 1))
    if rank == 0:
        fx.dist.peer(x, 1)[0] = value
        if fx.const_expr(tells):
            fx.dist.signal(flag, 1)
    else:
        if fx.const_expr(tells):
            fx.dist.wait(flag, 1)
        fx.dist.peer(x, 1)[1] = fx.dist.peer(x, 1)[0]


@flyc.jit
def send(x: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, value: fx.Int32, tells: fx.Constexpr[bool]):
    send_kernel(x, flags, rank, value, tells).launch(grid=1, block=1)


@pytest.mark.parametrize("tells", [True, False])
def test_flags_count_in_kernels_without_barriers(tells: bool):
    def run(world: World) -> int:
        x, flags = world.symmetric(2, "int32"), world.symmetric(1, "int32")
        send(x, flags, world.rank, 7, tells)
        return int(x.numpy(1)[1])

    if tells:
        assert spawn(run, 2, timeout=LIMIT)[1] == 7
    else:
        with pytest.raises(KernelCheckError, match="race between ranks"):
            spawn(run, 2, timeout=LIMIT)
