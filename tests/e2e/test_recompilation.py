"""A process that compiles again and again: its own objects do not grow, interrupts leave nothing behind."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.build import isolation
from flydsl.runtime.device_runtime import device_runtime_state, get_device_runtime

SPECS = (flyc.TensorSpec((9,), "int32"), flyc.ScalarSpec(fx.Int32))


def fresh(factor: int) -> flyc.JitFunction:
    """A new function; factors make new code."""

    @flyc.kernel
    def scale_kernel(x: fx.Tensor, n: fx.Int32):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        if i < n:
            x[i] = x[i] * factor

    @flyc.jit
    def scale(x: fx.Tensor, n: fx.Int32):
        scale_kernel(x, n).launch(grid=fx.ceildiv(n, 64), block=64)

    return scale


def ours() -> Counter[str]:
    """Objects of ours, of the IR and of LLVM that are alive, by type."""
    gc.collect()
    if device_runtime_state() == "active":
        get_device_runtime().drain_releases()  # what finalisers have left to the next launch
    gc.collect()
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        if str(kind.__module__).partition(".")[0] in ("flydsl", "xdsl", "llvmlite", "_ctypes", "ctypes"):
            found[f"{kind.__module__}.{kind.__qualname__}"] += 1
    return found


def grown(action: Any, count: int) -> Counter[str]:
    """What there is more of after `count` actions than after the first few."""
    before: Counter[str] = Counter()
    for number in range(10 + count):
        if number == 10:
            before = ours()
        action(number)
    return Counter({kind: more for kind, more in (ours() - before).items() if more > count // 100 + 3})


@pytest.fixture
def no_disk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")


def compile_one(number: int) -> None:
    target = ("cuda:sm_90", "rocm:gfx942", "cpu:native")[number % 3]
    flyc.compile(fresh(number % 10 + 2), *SPECS, target=target)


def call_one(number: int) -> None:
    x = np.arange(70, dtype=np.int32)
    fresh(number % 10 + 2)(x, 70)
    assert x[69] == 69 * (number % 10 + 2)


def fail_one(number: int) -> None:
    def bad(v):
        raise ValueError(f"mistake {number}")

    @flyc.kernel
    def bad_kernel(x: fx.Tensor):
        x[0] = bad(x[0])

    @flyc.jit
    def failing(x: fx.Tensor):
        bad_kernel(x).launch(grid=1, block=1)

    with pytest.raises(ValueError, match=f"mistake {number}"):
        flyc.compile(failing, SPECS[0], target="cuda:sm_90")


@pytest.mark.usefixtures("no_disk")
@pytest.mark.parametrize(("action", "count"), [(compile_one, 60), (call_one, 40), (fail_one, 40)])
def test_compilations_leave_nothing_behind(action: Any, count: int):
    assert grown(action, count) == {}


@pytest.mark.slow
@pytest.mark.usefixtures("no_disk")
def test_many_compilations_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch):
    """More than LLVM gets in this process: later ones go to workers."""
    monkeypatch.setattr(isolation, "IN_PROCESS", 40)
    monkeypatch.setattr(isolation, "_compilations", itertools.count())
    assert grown(compile_one, 150) == {}


def test_one_function_keeps_what_it_compiled_and_invalidate_frees_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")

    @flyc.kernel
    def shift_kernel(x: fx.Tensor, by: fx.Constexpr[int]):
        x[0] = x[0] + by

    @flyc.jit
    def shift(x: fx.Tensor, by: fx.Constexpr[int]):
        shift_kernel(x, by).launch(grid=1, block=1)

    def rounds(_: int) -> None:
        for by in range(5):
            flyc.compile(shift, SPECS[0], by, target="cuda:sm_90")
        assert shift.cache_info().currsize == 5
        shift.invalidate()

    assert grown(rounds, 10) == {}


# --- interrupts -----------------------------------------------------------------------------------------------------


def test_c30_an_interrupt_leaves_the_cache_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Control-C at every stage of a compilation: nothing is left, the lock is free, the next call compiles."""
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    stages = [
        "flydsl.compiler.frontend.trace_call.trace_host",
        "flydsl.compiler.build.driver.run_passes",
        "flydsl.compiler.build.driver.where_to_generate",
        "flydsl.compiler.build.artifact.CompiledArtifact.to_bytes",
        "flydsl.compiler.build.artifact.os.replace",
    ]
    import flydsl.compiler.build.driver
    import flydsl.compiler.frontend.trace_call  # noqa: F401 - their names are replaced below

    scale = fresh(77)
    for stage in stages:
        with monkeypatch.context() as patch:

            def interrupt(*_: Any, **__: Any) -> None:
                signal.raise_signal(signal.SIGINT)

            patch.setattr(stage, interrupt)
            with pytest.raises(KeyboardInterrupt):
                flyc.compile(scale, *SPECS)
        kept = ("README", "CACHEDIR.TAG", "toolhash.json", "producthash.json", "eviction")
        left = [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.name not in kept]
        assert left == [], stage
    flyc.compile(scale, *SPECS)
    assert len(list((tmp_path / "cache").rglob("*.fly"))) == 1


INTERRUPTED = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
import kernels
kernels.scale(np.arange(9, dtype=np.int32), 9, 4000)
threading.Timer(float(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    for factor in range(1000):
        x = np.arange(9, dtype=np.int32)
        kernels.scale(x, 9, factor)
        assert (x == np.arange(9) * factor).all()
except KeyboardInterrupt:
    x = np.arange(9, dtype=np.int32)
    kernels.scale(x, 9, 5000)      # the process can still compile
    assert (x == np.arange(9) * 5000).all()
    print("interrupted")
"""
KERNELS = """
import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device_runtime import device_runtime_state, get_device_runtime

@flyc.kernel
def scale_kernel(x: fx.Tensor, n: fx.Int32, factor: fx.Constexpr[int]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * factor

@flyc.jit
def scale(x: fx.Tensor, n: fx.Int32, factor: fx.Constexpr[int]):
    scale_kernel(x, n, factor).launch(grid=fx.ceildiv(n, 64), block=64)
"""


@pytest.mark.parametrize("delay", ["0.05", "0.17", "0.4"])
def test_a_real_interrupt_at_a_random_moment(delay: str, tmp_path: Path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    env = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), delay]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "interrupted", done.stderr
    verify = [sys.executable, "-m", "flydsl.tools.fly", "cache", "verify"]
    assert subprocess.run(verify, env=env, capture_output=True, text=True).stdout.startswith("0 defective")
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.suffix == ".tmp"]


# --- fork and spawn ---------------------------------------------------------------------------------------------------


def _use(number: int) -> int:
    x = np.arange(9, dtype=np.int32)
    fresh(number)(x, 9)
    return int(x[8])


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork beside threads
def test_c66_c70_children_compile_and_launch(method: str):
    _use(3)  # the parent has compiled, loaded and launched
    held = threading.Event()
    go = threading.Event()

    def busy() -> None:
        flyc.compile(fresh(50), *SPECS)
        held.set()
        go.wait(60)

    thread = threading.Thread(target=busy)
    thread.start()
    held.wait(60)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_use, [5, 6, 7]) == [40, 48, 56]
    go.set()
    thread.join()
    assert _use(9) == 72
