"""`fx.dist` in kernels: flags, transfers, other ranks' memory, and what checked mode says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.dist import World, spawn
from flydsl.errors import DSLRuntimeError, DSLTypeError, DSLValueError, KernelCheckError

LIMIT = 60.0


@flyc.kernel
def ring_kernel(x: fx.Tensor, seen: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, epoch: fx.Int32):
    """Every rank puts what it has to the next one, which gets it back from there and adds what it has."""
    ranks = fx.dist.world(x)
    following, before = (rank + 1) % ranks, (rank + ranks - 1) % ranks
    fx.dist.put(seen, following, fx.dist.peer(x, rank))
    fx.barrier()
    if fx.thread_idx.x == 0:
        fx.dist.signal(fx.get_iter(fx.dist.peer(flags, following)), epoch)
        fx.dist.wait(fx.get_iter(fx.dist.peer(flags, rank)), epoch)
    fx.barrier()
    mine, others = fx.dist.peer(seen, rank), fx.dist.peer(x, before)
    for i in range(fx.thread_idx.x, fx.Int32(x.shape.unpack()[1]), fx.block_dim.x):
        mine[i] = mine[i] + others[i]


@flyc.jit
def ring(x: fx.Tensor, seen: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, epoch: fx.Int32):
    ring_kernel(x, seen, flags, rank, epoch).launch(grid=1, block=64)


@pytest.mark.parametrize("checked", [False, True])
def test_put_signal_and_wait(checked: bool, seed: int, monkeypatch: pytest.MonkeyPatch):
    """Each in its turn, many times; numbers of flags run over the end of 32 bits."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", str(int(checked)))

    def run(world: World) -> None:
        rng = np.random.default_rng(seed)
        x, seen, flags = world.symmetric(100), world.symmetric(100), world.symmetric(1, "int32")
        first = 2**31 - 3
        flags.local[0] = first
        world.barrier()
        for turn in range(6):
            rows = rng.standard_normal((world.size, 100)).astype("f4")
            x.copy_from(rows[world.rank])
            world.barrier()
            ring(x, seen, flags, world.rank, int(np.array(first + turn + 1).astype(np.int64).astype(np.int32)))
            assert (seen.numpy() == 2 * rows[world.rank - 1]).all()
            world.barrier()

    spawn(run, 4, timeout=LIMIT)


@flyc.kernel
def fetch_kernel(x: fx.Tensor, out: fx.Tensor, rank: fx.Int32):
    fx.dist.get(out, x, rank)


@flyc.jit
def fetch(x: fx.Tensor, out: fx.Tensor, rank: fx.Int32):
    fetch_kernel(x, out, rank).launch(grid=1, block=32)


@flyc.kernel
def past_kernel(x: fx.Tensor, rank: fx.Int32, at: fx.Int32):
    fx.dist.peer(x, rank)[at, 0] = 1.0


@flyc.jit
def past(x: fx.Tensor, rank: fx.Int32, at: fx.Int32):
    past_kernel(x, rank, at).launch(grid=1, block=1)


@pytest.mark.parametrize("rows", [3, 1024])
def test_the_end_of_a_ranks_part_is_checked(rows: int, monkeypatch: pytest.MonkeyPatch):
    """Also where the part fills whole pages: what lies behind belongs to nobody."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")

    def run(world: World) -> None:
        x = world.symmetric((rows, 4))
        out = np.zeros(rows, "f4")
        if world.rank == 0:
            past(x, 1, rows - 1)
            with pytest.raises(KernelCheckError, match=rf"write out of bounds .*\('x'\).*\(1, {rows}, 0\)"):
                past(x, 1, rows)
        world.barrier()
        assert x.numpy(1)[rows - 1, 0] == 1 and x.numpy(1).sum() == 1
        line = world.symmetric(rows)
        line.copy_from(np.arange(rows))
        world.barrier()
        fetch(line, out, 1 - world.rank)
        assert (out == np.arange(rows)).all()

    spawn(run, 2, timeout=LIMIT)


@flyc.kernel
def unordered_kernel(x: fx.Tensor, rank: fx.Int32):
    fx.dist.peer(x, rank)[0] = fx.Float32(fx.thread_idx.x)


@flyc.jit
def unordered(x: fx.Tensor, rank: fx.Int32):
    unordered_kernel(x, rank).launch(grid=1, block=64)


def test_races_of_a_rank_are_found_and_named_by_rank(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")

    def run(world: World) -> None:
        x = world.symmetric(4)
        if world.rank == 1:
            unordered(x, 0)

    with pytest.raises(KernelCheckError, match=r"race on the tensor of argument 0 \('x'\)") as caught:
        spawn(run, 2, timeout=LIMIT)
    assert "in rank 1 of 2" in caught.value.__notes__


def _refused(body: Any, message: str, error: type[Exception] = DSLTypeError) -> None:
    @flyc.kernel
    def kernel(x: fx.Tensor):
        body(x)

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=32)

    with pytest.raises(error, match=message):
        flyc.compile(run, np.zeros((2, 3), "f4"), target="cpu:native")


def test_what_is_not_symmetric_or_no_flag_is_refused():
    _refused(lambda x: fx.dist.peer(x[0, None], 1), "fx.dist.peer takes a symmetric tensor")
    _refused(lambda x: fx.dist.signal(fx.get_iter(x), 1), "fx.dist.signal takes a pointer to Int32")
    _refused(lambda x: fx.dist.wait(x, 1), "fx.dist.wait takes a pointer to Int32")
    _refused(lambda x: fx.dist.put(x, 0, x), "copies rows of elements", DSLValueError)
    with pytest.raises(DSLRuntimeError, match="only be used while a kernel is traced"):
        fx.dist.peer(None, 0)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("cuda:sm_90a", ("st.release.sys", "ld.acquire.sys")),
        ("rocm:gfx942", ("s_sleep", "buffer_wbl2 sc0 sc1", "buffer_inv sc0 sc1")),
    ],
)
def test_flags_are_seen_by_the_whole_system(target: str, words: tuple[str, ...]):
    @flyc.kernel
    def kernel(x: fx.Tensor):
        fx.dist.signal(fx.get_iter(x), 1)
        fx.dist.wait(fx.get_iter(x), 1)

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=32)

    artifact = flyc.compile(run, np.zeros(4, "i4"), target=target).artifact
    text = artifact.binary("ptx").decode() if target.startswith("cuda") else artifact.asm
    for word in words:
        assert word in text
