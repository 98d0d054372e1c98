"""Pipelines of a producer and two consumers with mistakes that are drawn, and schedules that are drawn.

Nobody knows which of them are wrong; but what a drawn schedule shows, the search must find without any luck.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.schedules import RepeatedCall, one_thread
from flydsl.cpu.schedules.agents import Agent
from flydsl.cpu.schedules.search import Recorder, Search

from .case import aligned, pick

nv = fx.nvgpu
TILES = 3


class Choices(NamedTuple):
    """The first of each is right."""

    stages: int = 2
    full: int = 1
    """Arrivals that a full barrier counts; one more, where announcing and arriving are two."""
    empty: int = 2
    announce: int = 0
    """Bytes with the arrival; before it; behind it; behind the copy; not for the last tile; by a consumer's lane."""
    first: int = 1
    """Parity that the producer starts with."""
    second: int = 0
    """Parity that the consumers start with."""
    waits: int = 1
    """Whether the producer waits until a stage is free."""
    frees: int = 0
    """Consumers free a stage behind the read, before it, with every lane, or not the last one."""
    short: int = 0
    """Which warp leaves the loop a tile early, from 1."""


WRONG: dict[str, Sequence[int]] = {
    "stages": (1,), "full": (2,), "empty": (1, 3), "announce": (1, 2, 3, 4, 5), "first": (0,), "second": (1,),
    "waits": (0,), "frees": (1, 2, 3), "short": (1, 2, 3),
}  # fmt: skip


def draw(rng: random.Random) -> Choices:
    names = rng.sample(list(WRONG), rng.choice((0, 1, 1, 2, 2)))
    return Choices(**{name: rng.choice(WRONG[name]) for name in names})


@flyc.kernel
def drawn_kernel(
    x: fx.Tensor, y: fx.Tensor, stages: fx.Int32, full_count: fx.Int32, empty_count: fx.Int32, announce: fx.Int32,
    first: fx.Int32, second: fx.Int32, waits: fx.Int32, frees: fx.Int32, short: fx.Int32,
):  # fmt: skip
    t = fx.thread_idx.x
    warp, lane = t // 32, t % 32
    base = fx.get_dyn_shared(fx.Float32)
    rows = fx.make_view(base, fx.make_layout((32, 2), (1, 32)))
    full = nv.MBarrier(base + 64)
    empty = full[2]
    if t == 0:
        for i in fx.range_constexpr(2):
            full[i].init(full_count)
            empty[i].init(empty_count)
    fx.barrier()
    stage, phase = fx.Int32(0), pick(warp == 0, first, second)
    if warp == 0:
        if lane == 0:
            for tile in range(TILES - pick(short == 1, 1, 0)):
                if waits != 0:
                    empty[stage].wait(phase)
                if announce == 1:
                    full[stage].expect_tx(128, arrive=False)
                    full[stage].arrive()
                elif announce == 2:
                    full[stage].arrive()
                    full[stage].expect_tx(128, arrive=False)
                elif announce == 0:
                    full[stage].expect_tx(128)
                elif (announce == 4) & (tile != TILES - 1):
                    full[stage].expect_tx(128)
                elif announce == 5:
                    full[stage].arrive()
                nv.bulk_load(fx.get_iter(x) + 32 * tile, rows[None, stage], full[stage], nbytes=128)
                if announce == 3:
                    full[stage].expect_tx(128)
                stage = stage + 1
                if stage == stages:
                    stage = fx.Int32(0)
                    phase = phase ^ 1
    else:
        for tile in range(TILES - pick(short == warp + 1, 1, 0)):
            if (announce == 5) & (t == 32):
                full[stage].expect_tx(128, arrive=False)
            full[stage].wait(phase)
            if (frees == 1) & (lane == 0):
                empty[stage].arrive()
            y[128 * warp + 32 * tile + lane] = rows[lane, stage]
            if frees == 2:
                empty[stage].arrive()
            elif ((frees == 0) | ((frees == 3) & (tile != TILES - 1))) & (lane == 0):
                empty[stage].arrive()
            stage = stage + 1
            if stage == stages:
                stage = fx.Int32(0)
                phase = phase ^ 1


@flyc.jit
def launch(
    x: fx.Tensor, y: fx.Tensor, stages: fx.Int32, full_count: fx.Int32, empty_count: fx.Int32, announce: fx.Int32,
    first: fx.Int32, second: fx.Int32, waits: fx.Int32, frees: fx.Int32, short: fx.Int32,
):  # fmt: skip
    drawn_kernel(x, y, stages, full_count, empty_count, announce, first, second, waits, frees, short).launch(
        grid=1, block=96, smem=64 * 4 + 4 * 8
    )


class _Drawn(Recorder):
    """Whoever can go on may be next."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        super().__init__()

    def pick(self, agents: Sequence[Agent], enabled: Sequence[Agent]) -> Agent | None:
        return self.rng.choice(enabled)


def arguments(choices: Choices) -> tuple[Any, ...]:
    x, y = aligned(512), aligned(512)
    x[:] = range(1, 513)
    return x, y, *choices


def by_luck(function: Callable[..., object], args: tuple[Any, ...], schedules: int, rng: random.Random) -> str:
    """What drawn schedules show first, and the schedule; nothing where they show nothing."""
    call = RepeatedCall(function, args, {})
    with one_thread():
        call.run(Recorder(), True)
        for _ in range(schedules):
            run = _Drawn(rng)
            call.run(run, True)
            if run.findings:
                kind, text, schedule = run.findings[0]
                return f"{kind}: {text} in {schedule}"
    return ""


def by_search(function: Callable[..., object], args: tuple[Any, ...], most: int) -> tuple[bool, bool]:
    """Whether the search alone finds something, in at most so many schedules, and whether it tried all."""
    call, search = RepeatedCall(function, args, {}), Search()
    with one_thread():
        for _ in range(most):
            call.run(search, True)
            if search.findings:
                return True, False
            if not search.advance():
                return False, True
    return False, False


__all__ = ["Choices", "arguments", "by_luck", "by_search", "draw", "launch"]
