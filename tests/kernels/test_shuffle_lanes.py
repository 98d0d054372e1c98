"""Shuffles on NVIDIA, lane by lane without a GPU: the instructions of the PTX, played by what PTX says of them.

Whether the compiler is being watched (a dump takes the passes one after the other) makes no difference.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.unit.lowering.machine import pulled

import flydsl.compiler as flyc
import flydsl.expr as fx

WARP = 32
MODES = ("xor", "up", "down", "idx")
SHFL = re.compile(r"shfl\.sync\.(\w+)\.b32\s+%r\d+(?:\|%p\d+)?, %r\d+, (%r\d+|-?\d+), (\d+), (-?\d+);")


def meant(mode: str, lane: int, by: int) -> int:
    """The lane that a shuffle of a whole warp reads from; outside, a lane reads itself."""
    source = {"xor": lane ^ by, "up": lane - by, "down": lane + by, "idx": by}[mode]
    return source if 0 <= source < WARP else lane


def fresh_shuffle():
    """A jit function that has compiled nothing yet: a watched compile must not find what an unwatched one left."""

    @flyc.kernel
    def shuffle_kernel(x: fx.Tensor, y: fx.Tensor, by: fx.Int32, mode: fx.Constexpr[str], known: fx.Constexpr[int]):
        lane = fx.thread_idx.x
        y[lane] = fx.gpu.shuffle(x[lane], by if known < 0 else known, WARP, mode)

    @flyc.jit
    def shuffle(x: fx.Tensor, y: fx.Tensor, by: fx.Int32, mode: fx.Constexpr[str], known: fx.Constexpr[int]):
        shuffle_kernel(x, y, by, mode, known).launch(grid=1, block=WARP)

    return shuffle


@pytest.mark.parametrize("watched", [False, True], ids=["plain", "dumped"])
@pytest.mark.parametrize("mode", MODES)
def test_lanes_of_a_warp(mode: str, watched: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    if watched:
        monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
        monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    x = np.zeros(WARP, np.int32)
    for known in (5, 31, 0) if mode == "idx" else (-1, 5):
        text = flyc.compile(fresh_shuffle(), x, x, 1, mode, known, target="cuda:sm_90").artifact.asm
        ((word, at, clamp, members),) = SHFL.findall(text)
        assert members == "-1" and (at == str(known) or known < 0)
        for by in range(WARP) if known < 0 else (known,):
            for lane in range(WARP):
                assert pulled(word, lane, by, int(clamp)) == meant(mode, lane, by), (lane, by)
    assert any(tmp_path.iterdir()) is watched


@pytest.mark.parametrize("watched", [False, True], ids=["plain", "dumped"])
@pytest.mark.parametrize("arch", ["sm_90a", "gfx942", "gfx1201"])
def test_segments_of_a_warp(arch: str, watched: bool, emulate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Segments of any width, by distances known when a kernel runs, on the cpu stack."""
    emulate(arch)
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    if watched:
        monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
        monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    lanes = 64 if arch == "gfx942" else 32

    @flyc.kernel
    def kernel(y: fx.Tensor, by: fx.Int32, width: fx.Int32):
        lane = fx.thread_idx.x
        for row, mode in enumerate(MODES):
            y[row, lane] = fx.gpu.shuffle(lane * 3, by, width, mode)

    @flyc.jit
    def run(y: fx.Tensor, by: fx.Int32, width: fx.Int32):
        kernel(y, by, width).launch(grid=1, block=lanes)

    for width in (2, 8, 16, 32):
        for by in (0, 1, 3, width - 1, width, 31):
            y = np.full((4, lanes), -1, np.int32)
            run(y, by, width)
            for row, mode in enumerate(MODES):
                for lane in range(lanes):
                    source = {"xor": lane ^ by, "up": lane - by, "down": lane + by, "idx": by}[mode]
                    same = source < lanes if mode == "idx" else source // width == lane // width
                    assert y[row, lane] == 3 * (source if same else lane), (mode, width, by, lane)


@pytest.mark.parametrize("watched", [False, True], ids=["plain", "dumped"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_amd_lanes_are_addressed_in_bytes(arch: str, watched: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """`ds_bpermute` takes four times the lane it reads from, and gives a lane its own value outside the segment."""
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    if watched:
        monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
        monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    x = np.zeros(WARP, np.int32)
    text = flyc.compile(fresh_shuffle(), x, x, 1, "up", -1, target=f"rocm:{arch}").artifact.llvm_ir
    ((address,),) = [(name,) for name in re.findall(r"ds\.bpermute\(i32 (%[\w.]+), i32 %", text)]
    ((source, shift),) = re.findall(rf"{re.escape(address)} = shl (?:nuw |nsw )*i32 (%[\w.]+), (\d+)", text)
    assert shift == "2" and any(tmp_path.iterdir()) is watched
    ((wanted, own),) = re.findall(rf"{re.escape(source)} = select i1 %[\w.]+, i32 (%[\w.]+), i32 (%[\w.]+)", text)
    assert re.search(rf"{re.escape(wanted)} = sub (?:nuw |nsw )*i32 {re.escape(own)}, %", text)
