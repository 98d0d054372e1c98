"""How many blocks of a compiled kernel fit on a compute unit: what the runtime is asked, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device_runtime import get_device_runtime


@flyc.kernel
def clear(x: fx.Tensor):
    x[fx.thread_idx.x] = 0.0


@flyc.jit
def once(x: fx.Tensor):
    clear(x).launch(grid=1, block=(16, 4, 1))


@flyc.jit
def anyhow(x: fx.Tensor, n: fx.Int32):
    clear(x).launch(grid=1, block=n)


def test_the_runtime_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, int]] = []

    def fits(function: Any, block_threads: int, smem: int = 0) -> int:
        asked.append((function.name, block_threads, smem))
        return 7

    compiled = flyc.compile(once, np.zeros(64, np.float32), run=False)
    monkeypatch.setattr(get_device_runtime(), "max_active_blocks", fits)
    assert compiled.max_blocks_per_cu() == 7
    assert asked == [("clear_0", 64, 0)]


def test_an_unknown_block_size_is_refused() -> None:
    compiled = flyc.compile(anyhow, np.zeros(64, np.float32), 64, run=False)
    with pytest.raises(ValueError, match="one kernel of a known block size; anyhow launches clear_0"):
        compiled.max_blocks_per_cu()
