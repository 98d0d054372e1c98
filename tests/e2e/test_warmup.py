"""Compiling ahead of the first call, in parallel, and being told of it."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLCompileError
from flydsl.llvm import isolated


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def scaler() -> flyc.JitFunction:
    """A function nobody has compiled yet."""

    @flyc.kernel
    def scale_kernel(x: fx.Tensor, n: fx.Int32, factor: fx.Constexpr[int]):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        if i < n:
            x[i] = x[i] * factor

    @flyc.jit
    def scale(x: fx.Tensor, n: fx.Int32, factor: fx.Constexpr[int]):
        scale_kernel(x, n, factor).launch(grid=fx.ceildiv(n, 64), block=64)

    return scale


SPEC = flyc.TensorSpec((10,), "int32")


@pytest.mark.parametrize("workers", [1, 3])
def test_c65_warm_calls_compile_and_load_nothing(workers: int, monkeypatch: pytest.MonkeyPatch):
    scale = scaler()
    compiled = flyc.warmup(scale, [(SPEC, 10, 2), (SPEC, 10, 3), [np.zeros(4, np.int32), 4, 5]], workers=workers)
    assert [type(c) for c in compiled] == [flyc.CompiledFunction] * 3
    assert scale.cache_info().misses == 3
    monkeypatch.setattr(flyc.JitFunction, "compile", lambda *_: pytest.fail("compiled again"))
    monkeypatch.setattr("flydsl.compiler.call.dispatch.LoadedFunction.__init__", lambda *_: pytest.fail("loaded again"))
    for factor in (2, 3, 5):
        x = np.random.default_rng().integers(-99, 99, 137).astype(np.int32)
        y = x.copy()
        scale(y, 137, factor)
        np.testing.assert_array_equal(y, x * factor)


def test_c65_c67_parallel_code_generation_is_in_worker_processes():
    isolated.close_workers()
    flyc.warmup([(scaler(), (SPEC, 10, 7)), (scaler(), (SPEC, 10, 8))], workers=2)
    assert 1 <= len(isolated.worker_pids()) <= 2
    isolated.close_workers()
    flyc.warmup([(scaler(), (SPEC, 10, 9)), (scaler(), (SPEC, 10, 10))], workers=1)
    assert isolated.worker_pids() == []


def test_warmup_finishes_the_others_before_it_fails():
    def broken(v):
        return fx.llvm_intrinsic(fx.Int32, "llvm.aarch64.crc32b", [fx.Int32(1), fx.Int32(2)])

    @flyc.kernel
    def bad_kernel(x: fx.Tensor):
        x[fx.thread_idx.x] = broken(x[0])

    @flyc.jit
    def bad(x: fx.Tensor):
        bad_kernel(x).launch(grid=1, block=1)

    good = scaler()
    with pytest.raises(DSLCompileError, match="Cannot select"):
        flyc.warmup([(bad, (SPEC,)), (good, (SPEC, 10, 2))], workers=2)
    assert good.cache_info().currsize == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flyc.warmup([scaler()]), "pairs of a function and its arguments"),
        (lambda: flyc.warmup([(print, (1,))]), "expects @flyc.jit functions"),
        (lambda: flyc.warmup(scaler(), [7]), "as a tuple or list, got 7"),
        (lambda: flyc.warmup(scaler(), [(SPEC, 1, 2)], workers=0), "at least one worker"),
    ],
)
def test_warmup_mistakes(call: Any, message: str):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_c72_listeners_hear_of_compilations_and_of_disk_hits():
    heard: list[tuple[Any, ...]] = []
    with flyc.compile_listener(lambda *about: heard.append(about)):
        scale = scaler()
        artifact = flyc.compile(scale, SPEC, 10, 4, target="rocm:gfx942").artifact
        flyc.compile(scale, SPEC, 10, 4, target="rocm:gfx942")
        scale.invalidate()
        flyc.compile(scale, SPEC, 10, 4, target="rocm:gfx942")
    flyc.compile(scale, SPEC, 10, 5, target="rocm:gfx942")
    (name, key, target, times, hit, found), again = heard
    assert (name, key, target, hit) == ("scale", artifact.key, artifact.metadata["target"], False)
    assert found is artifact and times["trace"] > 0 and times["llvm"]
    assert again[:3] == (name, key, target) and again[4] is True


def test_c72_a_listener_that_fails_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any) -> None:
        raise ValueError("the listener's own mistake")

    monkeypatch.setattr(logging.getLogger("flydsl"), "propagate", True)
    with flyc.compile_listener(fail), caplog.at_level(logging.ERROR):
        flyc.compile(scaler(), SPEC, 10, 4, target="cuda:sm_90")
    assert "a compile listener failed for scale" in caplog.text and "own mistake" in caplog.text
    with pytest.raises(TypeError, match="takes a function, got 3"):
        flyc.compile_listener(3)  # pyright: ignore[reportArgumentType]


def test_c33_other_signatures_are_not_held_up(monkeypatch: pytest.MonkeyPatch):
    """While one thread compiles a signature, another compiles a second one of the same function."""
    scale = scaler()
    both = threading.Barrier(2, timeout=60)
    compiled = flyc.JitFunction.compile

    def meet(self: Any, *args: Any) -> Any:
        both.wait()  # passes only if two compilations are under way at once
        return compiled(self, *args)

    monkeypatch.setattr(flyc.JitFunction, "compile", meet)
    errors: list[BaseException] = []

    def work(factor: int) -> None:
        try:
            flyc.compile(scale, SPEC, 10, factor)
        except Exception as error:  # noqa: BLE001 - shown below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (11, 12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and scale.cache_info().misses == 2
