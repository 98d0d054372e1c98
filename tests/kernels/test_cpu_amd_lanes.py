"""Moves between the lanes of a wave on the cpu stack, against what AMD's manuals say of every lane."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def lanes_kernel(x: fx.Tensor, to: fx.Tensor, out: fx.Tensor, body: fx.Constexpr, first: fx.Int32):
    lane = fx.thread_idx.x
    if lane >= first:
        out[lane] = body(x[lane], to[lane], lane)


@flyc.jit
def lanes(x: fx.Tensor, to: fx.Tensor, out: fx.Tensor, body: fx.Constexpr, first: fx.Int32, wave: fx.Constexpr):
    lanes_kernel(x, to, out, body, first).launch(grid=1, block=wave)


def run(body, wave: int, x: np.ndarray, to: np.ndarray, first: int = 0) -> np.ndarray:
    out = np.full(wave, -1, np.int32)
    lanes(x, to, out, body, first, wave)
    return out


def draw(wave: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return (rng.integers(0, 2**30, wave).astype(np.int32), rng.integers(0, wave, wave).astype(np.int32))


ARCHES = [("gfx942", 64), ("gfx1201", 32)]


@pytest.mark.parametrize(("arch", "wave"), ARCHES)
def test_push(arch: str, wave: int, rng: np.random.Generator, emulate):
    """The highest sender wins; a lane nobody sends to gets 0."""
    emulate(arch)
    x, to = draw(wave, rng)
    got = run(lambda v, t, lane: fx.rocdl.ds_permute(fx.Int32, t * 4, v), wave, x, to)
    expected = np.zeros(wave, np.int32)
    for i in range(wave):
        expected[to[i]] = x[i]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("arch", "wave"), ARCHES)
def test_pull(arch: str, wave: int, rng: np.random.Generator, emulate):
    emulate(arch)
    x, to = draw(wave, rng)
    got = run(lambda v, t, lane: fx.rocdl.ds_bpermute(fx.Int32, t * 4, v), wave, x, to)
    np.testing.assert_array_equal(got, x[to])


@pytest.mark.parametrize(("arch", "wave"), ARCHES)
def test_lanes_are_counted_around_the_wave(arch: str, wave: int, rng: np.random.Generator, emulate):
    """Only the low bits of a lane number count, also of a negative one."""
    emulate(arch)
    x, to = draw(wave, rng)
    pulled = run(lambda v, t, lane: fx.rocdl.ds_bpermute(fx.Int32, (t - 200) * 4, v), wave, x, to)
    np.testing.assert_array_equal(pulled, x[(to - 200) % wave])
    pushed = run(lambda v, t, lane: fx.rocdl.ds_permute(fx.Int32, (lane - 3) * 4, v), wave, x, to)
    np.testing.assert_array_equal(pushed, x[(np.arange(wave) + 3) % wave])


@pytest.mark.parametrize(("arch", "wave"), ARCHES)
def test_lanes_that_are_elsewhere(arch: str, wave: int, rng: np.random.Generator, emulate):
    """The first lane that is there counts, and lanes that are not there do not vote."""
    emulate(arch)
    x, to = draw(wave, rng)
    for first in (0, 1, 13):
        got = run(lambda v, t, lane: fx.rocdl.readfirstlane(fx.Int32, v), wave, x, to, first)
        np.testing.assert_array_equal(got, np.where(np.arange(wave) >= first, x[first], -1))
        votes = run(lambda v, t, lane: fx.Int32(fx.rocdl.ballot(fx.Int64, v % 2 == 1)), wave, x, to, first)
        mask = sum(1 << i for i in range(first, wave) if x[i] % 2) & 0xFFFFFFFF
        assert votes[wave - 1] == np.array(mask, np.uint32).view(np.int32)


def dpp_source(ctrl: int, i: int, wave: int) -> int | None:
    """The lane that lane `i` reads under a DPP control; None where there is none."""
    row, at = i & ~15, i & 15
    n = ctrl & 15
    if ctrl <= 0xFF:
        return (i & ~3) | (ctrl >> 2 * (i & 3)) & 3
    match ctrl & ~15:
        case 0x100:
            return row + at + n if at + n < 16 else None
        case 0x110:
            return row + at - n if at >= n else None
        case 0x120:
            return row + (at - n) % 16
        case 0x150:
            return row + n
        case 0x160:
            return row + (at ^ n)
    return {
        0x130: i + 1 if i + 1 < wave else None,
        0x134: (i + 1) % wave,
        0x138: i - 1 if i else None,
        0x13C: (i - 1) % wave,
        0x140: row + 15 - at,
        0x141: row + (at & 8) + 7 - (at & 7),
        0x142: row - 1 if i >= 16 else None,
        0x143: 31 if i >= 32 else None,
    }[ctrl]


GFX9 = [0x1B, 0x101, 0x10F, 0x113, 0x125, 0x130, 0x134, 0x138, 0x13C, 0x140, 0x141, 0x142, 0x143]
GFX11 = [0xE4, 0x104, 0x11F, 0x121, 0x140, 0x141, 0x15A, 0x165]


@pytest.mark.parametrize(
    ("arch", "wave", "ctrl"), [*(("gfx942", 64, c) for c in GFX9), *(("gfx1100", 32, c) for c in GFX11)]
)
def test_dpp(arch: str, wave: int, ctrl: int, rng: np.random.Generator, emulate):
    emulate(arch)
    x, _ = draw(wave, rng)
    old = rng.integers(0, 2**30, wave).astype(np.int32)
    rows, banks, bound = int(rng.integers(0, 16)), int(rng.integers(0, 16)), bool(rng.integers(0, 2))
    for row_mask, bank_mask, bound_ctrl in ((15, 15, False), (rows, banks, bound)):
        masks = row_mask, bank_mask, bound_ctrl
        got = run(lambda v, o, lane, m=masks: fx.rocdl.update_dpp(fx.Int32, o, v, ctrl, *m), wave, x, old)
        for i in range(wave):
            source = dpp_source(ctrl, i, wave)
            enabled = row_mask >> i // 16 & bank_mask >> i % 16 // 4 & 1
            moved = x[source] if source is not None else 0 if bound_ctrl else old[i]
            assert got[i] == (moved if enabled else old[i]), (i, source, row_mask, bank_mask, bound_ctrl)


def test_dpp_of_another_architecture_is_refused(emulate):
    emulate("gfx1100")
    x = np.zeros(32, np.int32)
    with pytest.raises(ValueError, match="DPP control 0x142 exists on gfx9"):
        run(lambda v, t, lane: fx.rocdl.mov_dpp(fx.Int32, v, 0x142), 32, x, x)
