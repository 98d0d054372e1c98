"""Producer and consumer warps with full and empty barriers: the mistakes of warp-specialised pipelines."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Array, pick, template

nv = fx.nvgpu
TILES, STAGES = 4, 2


def doubled(x: Array) -> Array:
    """What the pipeline gives: two consumer warps write each element once each."""
    y = x * 0
    y[: 32 * TILES], y[256 : 256 + 32 * TILES] = x[: 32 * TILES], 2 * x[: 32 * TILES]
    return y


@template(
    {
        1: ("full and empty barrier swapped by the consumer", "asynchronous copy"),
        2: ("producer does not flip its phase", "asynchronous copy"),
        3: ("consumer does not flip its phase", "asynchronous copy"),
        4: ("producer exits a tile early", "deadlock"),
        5: ("empty barrier counts a consumer too many", "deadlock"),
        6: ("empty barrier counts a consumer too few", "asynchronous copy"),
        7: ("more bytes expected than come", "deadlock"),
        8: ("fewer bytes expected than come", "deadlock"),
        9: ("producer does not wait for the stage to be free", "too many arrivals"),
        10: ("consumer frees the stage before it reads", "another thread"),
        11: ("producer starts with the wrong parity", "deadlock"),
        12: ("consumer starts with the wrong parity", "before the wait"),
        13: ("no barrier between setting up the mbarriers and using them", "not initialised"),
        14: ("consumer does a tile too many", "deadlock"),
        15: ("consumer reads the other stage", "asynchronous copy"),
        16: ("one consumer forgets to arrive once", "deadlock"),
        17: ("consumer frees the other stage", "deadlock"),
        18: ("every lane arrives where one is counted", "deadlock"),
        19: ("full barrier counts an arrival too many", "deadlock"),
        20: ("phase flipped one stage too early", "deadlock"),
        21: ("producer does not announce the last tile's bytes", "deadlock"),
        22: ("consumers do not wait for the last tile", "before the wait"),
    },
    block=96,
    smem=32 * 4 * STAGES + 16 * STAGES,
    expected=doubled,
)
@flyc.kernel
def full_and_empty(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    t = fx.thread_idx.x
    warp, lane = t // 32, t % 32
    base = fx.get_dyn_shared(fx.Float32)
    rows = fx.make_view(base, fx.make_layout((32, STAGES), (1, 32)))
    full = nv.MBarrier(base + 32 * STAGES)
    empty = full[STAGES]
    if t == 0:
        for i in fx.range_constexpr(STAGES):
            full[i].init(pick(bug == 19, 2, 1))
            empty[i].init(pick(bug == 5, 3, pick(bug == 6, 1, 2)))
    if bug != 13:
        fx.barrier()
    wraps = pick(bug == 20, STAGES - 1, STAGES)
    if warp == 0:
        if lane == 0:
            stage, phase = fx.Int32(0), pick(bug == 11, 0, 1)
            for tile in range(pick(bug == 4, TILES - 1, TILES)):
                if bug != 9:
                    empty[stage].wait(phase)
                nbytes = pick(bug == 7, 144, pick(bug == 8, 112, 128))
                if (bug != 21) | (tile != TILES - 1):
                    full[stage].expect_tx(nbytes)
                nv.bulk_load(fx.get_iter(x) + 32 * tile, rows[None, stage], full[stage], nbytes=128)
                stage = stage + 1
                if stage == wraps:
                    if bug != 2:
                        phase = phase ^ 1
                if stage == STAGES:
                    stage = fx.Int32(0)
    else:
        stage, phase = fx.Int32(0), pick(bug == 12, 1, 0)
        for tile in range(pick(bug == 14, TILES + 1, TILES)):
            if bug == 1:
                empty[stage].wait(phase ^ 1)
            else:
                if (bug != 22) | (tile != TILES - 1):
                    full[stage].wait(phase)
            other = pick(bug == 17, 1 - stage, stage)
            if bug == 10:
                if lane == 0:
                    empty[other].arrive()
            value = rows[lane, pick(bug == 15, 1 - stage, stage)]
            y[256 * (warp - 1) + 32 * tile + lane] = value * warp.to(fx.Float32)
            if bug != 10:
                if bug == 18:
                    empty[other].arrive()
                elif lane == 0:
                    if (bug != 16) | (warp != 2) | (tile != 1):
                        empty[other].arrive()
            stage = stage + 1
            if stage == STAGES:
                stage = fx.Int32(0)
                if bug != 3:
                    phase = phase ^ 1
