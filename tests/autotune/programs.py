"""Tuned functions that other processes can import: `load()` imports this file under its own name."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from pathlib import Path
from types import ModuleType

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import Config, autotune


def load() -> ModuleType:
    """This module, where a child process finds it as well."""
    name = "flydsl_tuner_programs"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@flyc.kernel
def add_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, BLOCK: fx.Constexpr[int], STEP: fx.Constexpr[int]):
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    if i < n:
        y[i] = x[i] + STEP


@autotune(
    [Config(BLOCK=b) for b in (32, 64, 128)],
    key=["n"],
    rep=3,
)
@flyc.jit
def add(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, BLOCK: fx.Constexpr[int], STEP: fx.Constexpr[int] = 1):
    add_kernel(x, y, n, BLOCK, STEP).launch(grid=fx.ceildiv(n, BLOCK), block=BLOCK)


@autotune([Config(how="ok"), Config(how="hang"), Config(how="abort"), Config(how="segv"), Config(how="raise"),
           Config(how="wrong"), Config(how="exit"), Config(how="also ok")],
          rep=3, timeout=3)  # fmt: skip
def troublesome(x: object, how: str = "") -> None:
    """A call that goes wrong in every way, by its knob."""
    if how == "hang":
        time.sleep(60)
    if how == "abort":
        os.abort()
    if how == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit":
        os._exit(3)
    if how == "raise":
        raise ValueError("no such luck")
    x[0] = 7 if how == "wrong" else 1  # pyright: ignore


many = autotune(
    [Config(BLOCK=32 * i) for i in range(1, 9)],
    key=["n"],
    rep=1,
    warmup=0,
)(add.fn)
