"""Ranks that are processes: the same collectives over memory that they share."""

from __future__ import annotations

from pathlib import Path

import pytest
import rank_programs
import trouble_program

from flydsl.dist import connect, spawn
from flydsl.errors import FlyRuntimeError, KernelDeadlockError


def test_collectives_of_processes(seed: int):
    """Of the types that ranks in threads are tested with, so that their code is there already."""
    found = spawn(rank_programs.collectives, 3, "cpu", "float16", (1001,), seed, processes=True, timeout=200.0)
    assert len(set(found)) == 1


def test_trouble_of_a_process_ends_all():
    with pytest.raises(FlyRuntimeError, match=r"rank (1 of 2 failed:[\s\S]*rank one cannot|0 [\s\S]*rank 1 has left)"):
        spawn(trouble_program.trouble, 2, "raises", processes=True, timeout=100.0)
    with pytest.raises(FlyRuntimeError, match=r"rank 1 of 2 ended with status 3|rank 1 has left"):
        spawn(trouble_program.trouble, 2, "ends", processes=True, timeout=100.0)
    with pytest.raises(KernelDeadlockError, match=r"these ranks had not ended: 0, 1"):
        spawn(trouble_program.trouble, 2, "hangs", processes=True, timeout=5.0)


def test_a_rank_that_does_not_come_is_named(tmp_path: Path):
    with pytest.raises(FlyRuntimeError, match=r"rank 1: ranks \[0, 2\] did not come to .* within 0.2 s"):
        connect(1, 3, tmp_path, timeout=0.2)
    alone = connect(0, 1, tmp_path)
    x = alone.symmetric(3)
    x.copy_from([1, 2, 3])
    assert x.numpy().tolist() == [1, 2, 3]
    alone.close()
