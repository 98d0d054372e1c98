"""Reductions and scans of AMD's waves in registers: the instructions that are used, and what they give lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.extension.coop import dpp
from flydsl.target import GPUTarget

CASES = [
    ("gfx942", 64, 64), ("gfx942", 64, 32), ("gfx942", 64, 16), ("gfx950", 64, 32), ("gfx90a", 64, 4),
    ("gfx1100", 32, 32), ("gfx1201", 32, 8), ("gfx1250", 32, 32),
]  # fmt: skip


def launcher(width: int, op: fx.ReductionOp, block: int, way: str = "") -> Any:
    @flyc.kernel
    def kernel(a: fx.Tensor, out: fx.Tensor):
        i = fx.thread_idx.x
        assert way is not None  # two ways of one kernel are two kernels
        out[i] = fx.coop.warp_reduce(a[i], op, width=width)

    @flyc.jit
    def launch(a: fx.Tensor, out: fx.Tensor):
        kernel(a, out).launch(grid=1, block=block)

    return launch


class OnDevice:
    """A target of the cpu stack that says it is the device it emulates."""

    def __init__(self, target: GPUTarget):
        self.target = target
        self.on_host = False
        self.warp_size = target.warp_size

    def has(self, feature: str) -> bool:
        return self.target.has(feature)


def as_on_a_device(monkeypatch: pytest.MonkeyPatch) -> list[GPUTarget | None]:
    """Let the cpu stack run the instructions of the device; gives the targets that were asked for."""
    found, asked = dpp.trace_target, list[GPUTarget | None]()

    def on_device() -> Any:
        asked.append(found())
        return OnDevice(asked[-1])  # type: ignore[arg-type]

    monkeypatch.setattr(dpp, "trace_target", on_device)
    return asked


def taken_in_turns(kinds: list[tuple[Any, str]]) -> list[tuple[str, int, int, Any, str]]:
    """Every case with one of the types and operations."""
    return [(*case, *kinds[i % len(kinds)]) for i, case in enumerate(CASES)]


@pytest.mark.parametrize(
    ("arch", "wave", "width", "dtype", "op"),
    taken_in_turns([(np.float32, "ADD"), (np.float64, "MAX"), (np.int16, "MIN")]),
)
def test_numbers(arch: str, wave: int, width: int, dtype: Any, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The very instructions, emulated; sums are those of the shuffles of other targets, to the last bit."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    rng = np.random.default_rng()
    a = (rng.standard_normal(2 * wave) * 1000).astype(dtype)
    plain, out = np.zeros_like(a), np.zeros_like(a)
    launcher(width, fx.ReductionOp[op], 2 * wave)(a, plain)
    asked = as_on_a_device(monkeypatch)
    launcher(width, fx.ReductionOp[op], 2 * wave, "device")(a, out)
    assert asked
    np.testing.assert_array_equal(out, plain)
    groups = a.reshape(-1, width)
    wanted = {"ADD": groups.astype(np.float64).sum(1), "MAX": groups.max(1), "MIN": groups.min(1)}[op]
    np.testing.assert_allclose(out.reshape(-1, width), np.repeat(wanted[:, None], width, 1), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(("arch", "wave", "width"), CASES)
def test_instructions(arch: str, wave: int, width: int) -> None:
    a = np.zeros(wave, np.float32)
    compiled = flyc.compile(launcher(width, fx.ReductionOp.ADD, wave), a, a, target=f"rocm:{arch}")
    text = compiled.artifact.asm
    assert "\tds_" not in text
    assert text.count("v_add_f32_dpp") == min(width, 16).bit_length() - 1


def scans(width: int, op: fx.ReductionOp, block: int) -> Any:
    @flyc.kernel
    def kernel(a: fx.Tensor, out: fx.Tensor):
        i = fx.thread_idx.x
        inclusive, exclusive, total = fx.coop.warp_scan_with_aggregate(a[i], op, width=width)
        out[0, i] = inclusive
        out[1, i] = exclusive
        out[2, i] = total
        out[3, i] = fx.coop.warp_exclusive_scan(a[i], op, width=width, init=5)

    @flyc.jit
    def launch(a: fx.Tensor, out: fx.Tensor):
        kernel(a, out).launch(grid=1, block=block)

    return launch


@pytest.mark.parametrize(
    ("arch", "wave", "width", "dtype", "op"), taken_in_turns([(np.int32, "ADD"), (np.int64, "MAX"), (np.int32, "MAX")])
)
def test_scans(arch: str, wave: int, width: int, dtype: Any, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lane holds what the lanes before it in its segment brought, and its own."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    asked = as_on_a_device(monkeypatch)
    a = np.random.default_rng().integers(-1000, 1000, 2 * wave).astype(dtype)
    out = np.full((4, 2 * wave), -77, dtype)
    scans(width, fx.ReductionOp[op], 2 * wave)(a, out)
    assert asked
    groups = a.reshape(-1, width)
    fold, nothing = (np.add, 0) if op == "ADD" else (np.maximum, np.iinfo(dtype).min)
    inclusive = fold.accumulate(groups, 1, dtype=dtype)
    exclusive = np.concatenate([np.full((len(groups), 1), nothing, dtype), inclusive[:, :-1]], 1)
    total = np.repeat(inclusive[:, -1:], width, 1)
    for got, wanted in zip(out, (inclusive, exclusive, total, fold(exclusive, 5)), strict=True):
        np.testing.assert_array_equal(got.reshape(-1, width), wanted)


@pytest.mark.parametrize(("arch", "wave"), [("gfx942", 64), ("gfx1201", 32)])
def test_scans_use_no_shared_memory(arch: str, wave: int) -> None:
    a, out = np.zeros(wave, np.int32), np.zeros((4, wave), np.int32)
    text = flyc.compile(scans(wave, fx.ReductionOp.ADD, wave), a, out, target=f"rocm:{arch}").artifact.asm
    assert "\tds_" not in text and "_dpp" in text
