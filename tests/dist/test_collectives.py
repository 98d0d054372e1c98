"""Collectives and fused products on virtual ranks, against float64, element by element."""

from __future__ import annotations

import numpy as np
import pytest
import rank_programs

from flydsl.dist import World, spawn
from flydsl.errors import DSLValueError, KernelCheckError, NotSupportedError
from flydsl.kernels.dist import Communicator

LIMIT = 120.0


@pytest.mark.parametrize(("ranks", "dtype"), [(1, "float16"), (2, "bfloat16"), (3, "float16"), (8, "float32")])
def test_collectives(ranks: int, dtype: str, seed: int):
    """Also fewer elements than ranks, none for some; calls follow each other with nothing in between."""
    found = spawn(rank_programs.collectives, ranks, "cpu", dtype, (1001, 5), seed, timeout=LIMIT)
    assert len(set(found)) == 1, "the ranks have different sums"


def test_collectives_have_nothing_to_report_in_checked_mode(monkeypatch: pytest.MonkeyPatch, seed: int):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    spawn(rank_programs.collectives, 3, "cpu", "float32", (97,), seed, 1, timeout=LIMIT)


@pytest.mark.parametrize(("ranks", "dtype", "shape"), [(2, "float32", (33, 5, 17)), (8, "float16", (37, 41, 19))])
def test_fused_products(ranks: int, dtype: str, shape: tuple[int, int, int], seed: int):
    assert all(spawn(rank_programs.products, ranks, "cpu", dtype, (shape, (7, 33, 1)), seed, timeout=LIMIT))


@pytest.mark.parametrize(
    ("ranks", "dtype", "k", "room"), [(3, "float32", 1, 21), (8, "bfloat16", 2, 42), (2, "float32", 2, 3)]
)
def test_experts(ranks: int, dtype: str, k: int, room: int, seed: int):
    lost = spawn(rank_programs.experts, ranks, "cpu", dtype, 21, 37, k, room, seed, timeout=LIMIT)
    assert (sum(lost) > 0) == (room < 21)


def test_a_gather_and_a_reduction_of_no_elements():
    def run(world: World) -> None:
        comm = Communicator(world)
        x = world.symmetric(0)
        comm.all_reduce(x, np.empty(0, np.float32))
        comm.all_gather(x, np.empty((world.size, 0), np.float32))

    spawn(run, 2, timeout=LIMIT)


def test_what_does_not_fit_is_refused():
    def run(world: World) -> None:
        comm = Communicator(world)
        x, matrix = world.symmetric(8), world.symmetric((2, 4))
        with pytest.raises(DSLValueError, match=r"out must have the shape \(8,\)"):
            comm.all_reduce(x, np.zeros(7, np.float32))
        with pytest.raises(DSLValueError, match="one of auto, one_shot, two_shot, switch, got 'ring'"):
            comm.all_reduce(x, np.zeros(8, np.float32), algorithm="ring")
        with pytest.raises(DSLValueError, match=r"x must be a symmetric tensor of shape \(any\)"):
            comm.all_reduce(matrix, np.zeros(8, np.float32))
        with pytest.raises(NotSupportedError, match="no switch that adds up; use algorithm='one_shot'"):
            comm.all_reduce(x, np.zeros(8, np.float32), algorithm="switch")
        with pytest.raises(DSLValueError, match=r"b must have the shape \(3, 4\)"):
            comm.all_gather_matmul(matrix, np.zeros((3, 5), np.float32), np.zeros((2, 2, 3), np.float32))

    spawn(run, 2, timeout=LIMIT)


def test_reading_what_no_rank_has_written_is_reported(monkeypatch: pytest.MonkeyPatch):
    from flydsl.cpu import unwritten

    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")

    def run(world: World) -> None:
        comm = Communicator(world)
        x = world.symmetric(8)
        unwritten(x.local)
        world.barrier()
        comm.all_reduce(x, np.zeros(8, np.float32), algorithm="one_shot")

    with pytest.raises(KernelCheckError, match=r"element of the tensor of argument 0 \('x'\) that nobody has written"):
        spawn(run, 2, timeout=LIMIT)
